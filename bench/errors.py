"""Fingerprints of errors: on labelled logs beside drain3, and on the errors of real sessions.

    python bench/errors.py --loghub DIR/labelled/loghub --store runlore.db --drain3 PYTHON

`--loghub` is a folder with `*_2k.log_structured_corrected.csv` files, `--store` a store that real
sessions were synced into, `--drain3` the interpreter of an environment with drain3 (in its default
settings). Each part runs when what it needs is given. README.md says which figures were seen before
the rules were finished.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import subprocess
import sys
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--loghub", type=Path)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--drain3", help="an interpreter that has drain3")
    parser.add_argument("--as-drain3", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_drain3:
        json.dump(drain3_groups(options.as_drain3), sys.stdout)
        return
    if options.loghub:
        labelled(options.loghub, options.drain3)
    if options.store:
        bodies = error_bodies(options.store)
        metamorphic(bodies)
        speed(bodies)
    hostile()


# Labelled logs


def labelled(folder: Path, drain3: str | None) -> None:
    from runlore.digest.errors import signature
    from runlore.digest.families import families

    peers = (
        json.loads(
            subprocess.run(
                [drain3, __file__, "--as-drain3", str(folder)], check=True, capture_output=True
            ).stdout
        )
        if drain3
        else {}
    )
    scores: dict[str, list[Score]] = defaultdict(list)
    print(
        f"{'':12} {'fingerprint: GA  FGA  pairs P':>30} {'family: GA  FGA  pairs P':>28}"
        f" {'drain3: GA  FGA  pairs P':>28}"
    )
    for name, rows in logs(folder):
        true = [event for _, event in rows]
        signatures = [signature(line) for line, _ in rows]
        family_of = families(one for one in signatures if one)
        found: dict[str, Sequence[Hashable]] = {
            "fingerprint": [one and one.fingerprint for one in signatures],
            "family": [one and (one.name, family_of[one.fingerprint]) for one in signatures],
        }
        if name in peers:
            found["drain3"] = peers[name]
        for what, groups in found.items():
            scores[what].append(score(groups, true))
        print(f"{name:12}" + "".join(f"{_shown(scores[what][-1]):>29}" for what in found))
    for what, all_of in scores.items():
        mean = [sum(one[n] for one in all_of) / len(all_of) for n in range(2)]
        pairs = sum(one[2] for one in all_of) / sum(one[3] for one in all_of)
        print(
            f"mean {what}: GA {mean[0]:.3f}, FGA {mean[1]:.3f}, pair precision over all {pairs:.5f}"
        )


def logs(folder: Path) -> list[tuple[str, list[tuple[str, str]]]]:
    found = []
    for file in sorted(folder.glob("*/*_corrected.csv")):
        with file.open(newline="", encoding="utf-8", errors="replace") as lines:
            found.append(
                (
                    file.parent.name,
                    [(row["Content"], row["EventId"]) for row in csv.DictReader(lines)],
                )
            )
    return found


Score = tuple[float, float, int, int]


def _shown(one: Score) -> str:
    return f"{one[0]:.3f} {one[1]:.3f} {one[2] / max(1, one[3]):.4f}"


def score(found: Sequence[Hashable], true: Sequence[str]) -> Score:
    """Return grouping accuracy, its F1 over groups, and pairs: right, and put together.

    Grouping accuracy is the share of lines in a group that is exactly a true one.
    """
    mine: dict[Hashable, set[int]] = defaultdict(set)
    theirs: dict[str, set[int]] = defaultdict(set)
    for n, (group, event) in enumerate(zip(found, true, strict=True)):
        mine[group].add(n)
        theirs[event].add(n)
    exact = [group for group in mine.values() if theirs[true[next(iter(group))]] == group]
    right = sum(n * (n - 1) // 2 for n in Counter(zip(found, true, strict=True)).values())
    together = sum(len(group) * (len(group) - 1) // 2 for group in mine.values())
    return (
        sum(map(len, exact)) / len(found),
        2 * len(exact) / (len(mine) + len(theirs)),
        right,
        together,
    )


def drain3_groups(folder: Path) -> dict[str, list[int]]:
    from drain3 import TemplateMiner
    from drain3.template_miner_config import TemplateMinerConfig

    found = {}
    for name, rows in logs(folder):
        miner = TemplateMiner(config=TemplateMinerConfig())
        found[name] = [miner.add_log_message(line)["cluster_id"] for line, _ in rows]
    return found


# Errors of real sessions


def error_bodies(database: Path) -> list[str]:
    """Return every distinct body in which a session has an error."""
    from runlore import open_store
    from runlore.digest.errors import errors
    from runlore.store import Filter

    store = open_store(str(database), read_only=True)
    found: dict[str, None] = {}
    for line in store.sessions.select(Filter(parents_only=False), limit=1_000_000):
        bodies = store.sessions.bodies(line.uid)
        for error in errors(store.sessions.events(line.uid), bodies):
            found.update(dict.fromkeys(bodies.get(seq, "") for seq in error.seqs))
    found.pop("", None)
    return list(found)


def metamorphic(bodies: Sequence[str]) -> None:
    from runlore.digest.errors import signature

    chance = random.Random(9)
    same = changed = told = 0
    kinds: dict[str, set[str]] = defaultdict(set)
    commands: dict[str, set[str]] = defaultdict(set)
    for body in bodies:
        mine = signature(body)
        if mine is None:
            continue  # An exit code without a word.
        told += 1
        other = mutate(body, chance)
        changed += other != body
        theirs = signature(other)
        same += theirs is not None and theirs.fingerprint == mine.fingerprint
        if mine.kind == "exception" and (raised := _RAISED.search(mine.sample)):
            kinds[mine.fingerprint].add(raised[1])
        if missing := _MISSING.search(mine.sample):
            commands[mine.fingerprint].add(next(filter(None, missing.groups())))
    print(
        f"\n{len(bodies)} distinct bodies with an error, {told} with a word; {changed} were changed"
        f" by the mutation, {same / told:.4f} kept their fingerprint"
    )
    print(
        f"groups that mix exception types: {sum(len(names) > 1 for names in kinds.values())} of"
        f" {len(kinds)}"
    )
    print(
        f"groups that mix missing commands: {sum(len(names) > 1 for names in commands.values())} of"
        f" {len(commands)}"
    )


_RAISED = re.compile(r"\b((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception))\b")
_MISSING = re.compile(r"(\S+): command not found|command not found: (\S+)")
_CODES = re.compile(
    r"(?i)(?:exit|code|status|error|errno|http|signal|curl: \(|returned|http/\d)[\s:=(\[]*\Z"
)


def mutate(body: str, chance: random.Random) -> str:
    """Replace paths, numbers, ids and addresses at random.

    Codes stay, because the rules keep them.
    """

    def word() -> str:
        return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9)))

    def path(found: re.Match[str]) -> str:
        extension = re.search(r"\.\w+\Z", found[0])
        return (
            "/"
            + "/".join(word() for _ in range(chance.randint(1, 5)))
            + (extension[0] if extension else "")
        )

    def digest(found: re.Match[str]) -> str:
        return "a1" + "".join(chance.choices("0123456789abcdef", k=max(5, len(found[0]) - 2)))

    def number(found: re.Match[str]) -> str:
        if _CODES.search(body[max(0, found.start() - 24) : found.start()]) or re.match(
            r"[45]\d\d\b", found[0]
        ):
            return found[0]
        return str(chance.randint(0, 10 ** chance.randint(1, 6)))

    body = re.sub(
        r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
        lambda _: str(uuid.UUID(int=chance.getrandbits(128))),
        body,
    )
    body = re.sub(r"\b0x[0-9a-fA-F]+\b", lambda _: hex(chance.getrandbits(40)), body)
    body = re.sub(
        r"\b(?:\d{1,3}\.){3}\d{1,3}\b",
        lambda _: ".".join(str(chance.randint(1, 250)) for _ in range(4)),
        body,
    )
    body = re.sub(r"(?<![\w:/.@*<])/(?:[\w.-]+/)+[\w.-]*\w", path, body)
    body = re.sub(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b(?![-.])", digest, body)
    return re.sub(r"(?<![\w.,/:$#@=+-])\d{1,9}(?![\w.,/%:-])", number, body)


# Speed


def speed(bodies: Sequence[str]) -> None:
    from runlore.digest.errors import signature

    best = min(_seconds(lambda: [signature(body) for body in bodies]) for _ in range(7))
    yardstick = min(_seconds(lambda: sum(n & 3 for n in range(1_000_000))) for _ in range(5))
    size = sum(map(len, bodies)) / len(bodies)
    print(f"\n{len(bodies) / best:,.0f} bodies/s, {size:,.0f} characters each, best of 7, CPU time")
    print(f"(here and now a million steps of a loop take {yardstick * 1000:.0f} ms)")


def hostile() -> None:
    from runlore.digest.errors import signature

    million = 1_000_000
    texts = {
        "a": "a" * million,
        "error: =": "error: " + "=" * million,
        "/a": "/a" * (million // 2),
        "quotes": "error '" + "'\"`" * (million // 3),
        "digits": "failed 1" + "1.2:3-" * (million // 6),
        "a.b.c": "Error: " + "a." * (million // 2),
        "brackets": "error[" + "[(" * (million // 2),
        "json": '{"error":' * (million // 9),
        "escapes": "\x1b[31" * (million // 5),
        "carriage": "error\r" * (million // 6),
        "lines": "x: error: y\n" * (million // 12),
        "frames": '  File "x", line 1\n' * (million // 19),
    }
    slowest = max(
        (min(_seconds(lambda text=text: signature(text)) for _ in range(3)), name)
        for name, text in texts.items()
    )  # type: ignore[misc]
    print(f"1 MB of a hostile body: at most {slowest[0] * 1000:.1f} ms ({slowest[1]})")


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
