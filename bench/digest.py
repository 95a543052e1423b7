"""Digests of real sessions: completeness, size, cost, and what errors have in common.

    python bench/digest.py --store runlore.db [--read 10 --seed 7]
    python bench/digest.py --home DIR        # a home with transcripts, as `bench/sync.py` makes one

`--home` is synced with and without digests, alternating, to measure their share of the CPU of a
first sync. `--store` is a store with real sessions; it is not written to. `--read` prints that many
digests, chosen at random by the seed, each after the name of its session, to compare them with
`runlore show`.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

from _measure import run

from runlore import open_store
from runlore.cli.digest_lines import render
from runlore.digest.session import make
from runlore.model import Digest
from runlore.store import Filter, Store
from runlore.store.digest_rows import pack_digest

MEDIAN, P95, EXCERPT, DIFF = 4096, 32768, 500, 2048
"""Bars, in bytes."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", type=Path)
    parser.add_argument("--home", type=Path)
    parser.add_argument(
        "--rounds", type=int, default=4, help="the best of so many counts (default: 4)"
    )
    parser.add_argument("--read", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.home:
        share(options.home, options.rounds)
    if not options.store:
        return
    store = open_store(str(options.store), read_only=True)
    uids = sorted(store.sessions.uids(Filter(parents_only=False)))
    digests = report(store, uids)
    same(digests)
    chosen = (
        random.Random(options.seed).sample([uid for uid in uids if digests[uid].goal], options.read)
        if options.read
        else []
    )
    for uid in chosen:
        print(f"\n════ {uid}")
        print("\n".join(render(digests[uid])))


SYNC = """
import sys
from runlore import config, open_store
from runlore.sync import pipeline
setting = config.load()
config.make_home(setting.home)
print(pipeline.sync(open_store(setting.store), setting, quiet_s=float(sys.argv[1])).digests)
"""
QUIET_S = {"with": "600", "without": "6e10"}


def share(home: Path, rounds: int) -> None:
    took: dict[str, list[float]] = {name: [] for name in QUIET_S}
    for _ in range(rounds):
        for name, quiet_s in QUIET_S.items():
            with TemporaryDirectory() as folder:
                env = {**os.environ, "HOME": str(home), "RUNLORE_HOME": folder}
                made = run([sys.executable, "-c", SYNC, quiet_s], env)
            took[name].append(made.cpu_s)
    best = {name: min(times) for name, times in took.items()}
    part = 1 - best["without"] / best["with"]
    print(
        f"first sync: {best['with']:.2f} s of CPU with digests, {best['without']:.2f} s without:"
        f" {part:.1%} (bar 15 %)"
    )


def report(store: Store, uids: list[str]) -> dict[str, Digest]:
    gc.disable()  # As in the workers of a sync.
    digests, sizes, took = {}, [], Counter[str]()
    for uid in uids:
        session = store.sessions.get(uid)
        assert session is not None
        began = time.process_time()
        events, bodies = store.digests.timeline(uid)
        read = time.process_time()
        digests[uid] = make(session, events, bodies)
        made = time.process_time()
        sizes.append(len(pack_digest(digests[uid])[2]))
        took.update(read=read - began, make=made - read, pack=time.process_time() - made)
        assert pack_digest(make(session, events, bodies)) == pack_digest(digests[uid]), (
            f"{uid}: not the same a second time"
        )
    sizes.sort()
    excerpts = [
        len(moment.text.encode()) for digest in digests.values() for moment in digest.excerpts
    ]
    diffs = [len(fix.diff.encode()) for digest in digests.values() for fix in digest.fixes]
    megabytes = store.overview.stats()["source_bytes"] / 1e6
    seconds = sum(took.values())
    print(f"{len(digests)} of {len(uids)} sessions have a digest, the same when it is made again")
    print(
        f"packed: median {median(sizes)} B (bar {MEDIAN}), p95 {sizes[int(len(sizes) * 0.95)]} B"
        f" (bar {P95}), largest {sizes[-1]} B"
    )
    print(
        f"largest excerpt {max(excerpts, default=0)} B (bar {EXCERPT}), largest diff"
        f" {max(diffs, default=0)} B (bar {DIFF})"
    )
    parts = ", ".join(f"{name} {part:.2f}" for name, part in took.items())
    print(
        f"CPU {seconds:.2f} s for {megabytes:.0f} MB of transcripts ({parts}):"
        f" {1000 * seconds / megabytes:.1f} ms/MB"
    )
    return digests


def median(sizes: list[int]) -> int:
    return sizes[len(sizes) // 2] if sizes else 0


def same(digests: dict[str, Digest]) -> None:
    """Print how many errors are shared by sessions, tools and agents, by fingerprint alone."""
    places: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for uid, digest in digests.items():
        for error in digest.errors:
            seen = places[error.signature.fingerprint]
            seen["sessions"].add(uid)
            seen["agents"].add(uid.partition(":")[0])
            seen["tools"].add(error.tool or "")
    print(
        f"{len(places)} errors; in several sessions"
        f" {sum(len(seen['sessions']) > 1 for seen in places.values())},",
        end=" ",
    )
    print(f"agents {sum(len(seen['agents']) > 1 for seen in places.values())},", end=" ")
    print(f"tools {sum(len(seen['tools']) > 1 for seen in places.values())}")
    shown = sum(fix.is_shown for digest in digests.values() for fix in digest.fixes)
    print(
        f"{shown} of {sum(len(digest.fixes) for digest in digests.values())} errors of a session"
        " have a fix that is shown"
    )
    print("outcomes:", dict(Counter(digest.outcome for digest in digests.values()).most_common()))
    print("kinds:", dict(Counter(digest.quality for digest in digests.values()).most_common()))


if __name__ == "__main__":
    main()
