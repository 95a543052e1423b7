"""Precision and recall of the patterns that were planted into generated fleets.

    python bench/mine.py [--fleets 10] [--sessions 200] [--write]

Every fleet has each pattern planted in 2 to 8 sessions of its own; the rest of each session is
random. A session counts for a signal if it is in a pattern of that type. A clean pass also occurs
where it was not planted, so it is counted among the planted sessions alone. A lesson is wrong if it
rests on a session in which its problem was not planted.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from _measure import Row, show

from runlore.config import Lessons as Thresholds
from runlore.lessons.curate import propose
from runlore.mine import change_lessons
from runlore.mine.patterns import find_patterns
from runlore.mine.signals import load_miners
from tests.mine.fleet import PLANTS, fleet

PLANTS_OF_KIND = {
    "retries": ("retry_storm",),
    "flaky": ("flaky_test",),
    "skill": ("failing_skill",),
    "setup_first": ("setup_first", "recovery"),
}
"""By kind of lesson, the plants that it is drafted from, if they are not named like the kind."""


CHANGES = [
    name for name, miner in load_miners().items() if miner.find_ends is change_lessons.find_ends
]
ALSO = {
    "recurring_error": ["recovery", "tool_thrash", "flaky_test", *CHANGES],
    "recovery": ["flaky_test", *CHANGES],
    "setup_first": ["recovery"],
}
"""By signal, the plants of other signals that are such a pattern as well."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Precision and recall of every signal on planted fleets."
    )
    parser.add_argument("--fleets", type=int, default=10)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--write", action="store_true", help="put the result into RESULTS.md")
    args = parser.parse_args()
    kinds, wrong = Counter[str](), 0
    correct, reported, planted_count = Counter[str](), Counter[str](), Counter[str]()
    for seed in range(args.fleets):
        rng = random.Random(seed)
        free = rng.sample(range(args.sessions), args.sessions)
        plants = {name: [free.pop() for _ in range(rng.randint(2, 8))] for name in PLANTS}
        cases = fleet(1000 + seed, args.sessions, plants)
        patterns = find_patterns(cases)
        for lesson in propose(
            patterns, {case.uid: case for case in cases}, [], Thresholds(), datetime.now(UTC)
        ):
            kinds[lesson.kind] += 1
            cited = {int(ref.partition("#")[0][4:]) for ref in lesson.evidence}
            sources = PLANTS_OF_KIND.get(lesson.kind, (lesson.kind,))
            wrong += not cited or not cited <= {n for name in sources for n in plants[name]}
        for name, numbers in plants.items():
            planted = {f"toy:{number:04}" for number in numbers}
            found = {uid for pattern in patterns if pattern.type == name for uid in pattern.uids}
            for other in ALSO.get(name, ()):
                found -= {f"toy:{n:04}" for n in plants[other]} - planted
            correct[name] += len(found & planted)
            reported[name] += len(found & planted) if name == "clean_pass" else len(found)
            planted_count[name] += len(planted)
    rows = [
        Row(
            f"{name.replace('_', ' ')}: precision, recall",
            "≥ 0.9, ≥ 0.8",
            f"{correct[name] / max(1, reported[name]):.3f},"
            f" {correct[name] / planted_count[name]:.3f}",
            f"{planted_count[name]} planted",
            "—",
        )
        for name in PLANTS
    ]
    empty = [
        len([p for p in find_patterns(fleet(seed, args.sessions, {})) if p.type != "clean_pass"])
        for seed in range(args.fleets)
    ]
    fleets = f"{args.fleets} fleets of {args.sessions} sessions"
    rows.append(
        Row(
            f"patterns in {fleets} with nothing planted, most in one",
            "≤ 1",
            f"{max(empty)}",
            f"{sum(empty)} in all",
            "—",
        )
    )
    kind_counts = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    rows.append(
        Row(
            "lessons that rest on what was not planted, or on nothing",
            "0",
            f"{wrong}",
            f"of {kinds.total()}: {kind_counts}",
            "—",
        )
    )
    remark = (
        f"Planted in 2 to 8 sessions each of {fleets}, which go through the real digest. Whoever"
        " planted them wrote the miners."
    )
    show("patterns and lessons: planted fleets", rows, [remark], args.write)


if __name__ == "__main__":
    main()
