"""Patterns that were planted into made-up fleets: how many are found, and how much of what is found was planted.

    python bench/mine.py [--fleets 10] [--sessions 200] [--write]

Every fleet has each pattern planted in 2 to 8 sessions of its own; what else is in them differs from session to session. A session counts
for a signal when it is in a pattern of that type; a clean pass, which is no accident, is counted in what was planted alone. A lesson is
wrong when it rests on a session that what it is about was not planted in.
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

from runlore.lessons.curate import propose
from runlore.lessons.drafts import Gate
from runlore.mine.patterns import find_patterns
from tests.mine.fleet import PLANTS, fleet

TOLD = {"error": "recovery", "correction": "correction", "flaky": "flaky_test", "slow": "slow_step"}
"""By kind of lesson, what it is made from in these fleets."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Precision and recall of every signal on planted fleets.")
    parser.add_argument("--fleets", type=int, default=10)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--write", action="store_true", help="put the result into RESULTS.md")
    args = parser.parse_args()
    kinds, wrong = Counter[str](), 0
    right, said, there = Counter[str](), Counter[str](), Counter[str]()
    for seed in range(args.fleets):
        rng = random.Random(seed)
        free = rng.sample(range(args.sessions), args.sessions)
        plants = {name: [free.pop() for _ in range(rng.randint(2, 8))] for name in PLANTS}
        cases = fleet(1000 + seed, args.sessions, plants)
        patterns = find_patterns(cases)
        for lesson in propose(patterns, {case.uid: case for case in cases}, [], Gate(), datetime.now(UTC)):
            kinds[lesson.kind] += 1
            rests = {int(ref.partition("#")[0][4:]) for ref in lesson.evidence}
            wrong += not rests or not rests <= set(plants[TOLD[lesson.kind]])
        for name, numbers in plants.items():
            planted = {f"toy:{number:04}" for number in numbers}
            found = {uid for pattern in patterns if pattern.type == name for uid in pattern.uids}
            if name == "recurring_error":  # What is planted for other signals is an error that recurs, too.
                others = {
                    f"toy:{n:04}" for other, more in plants.items() if other in ("recovery", "tool_thrash", "flaky_test") for n in more
                }
                found -= others
            if name == "recovery":
                found -= {f"toy:{n:04}" for n in plants["flaky_test"]}
            right[name] += len(found & planted)
            said[name] += len(found & planted) if name == "clean_pass" else len(found)
            there[name] += len(planted)
    rows = [
        Row(
            f"{name.replace('_', ' ')}: precision, recall",
            "≥ 0.9, ≥ 0.8",
            f"{right[name] / max(1, said[name]):.3f}, {right[name] / there[name]:.3f}",
            f"{there[name]} planted",
            "—",
        )
        for name in PLANTS
    ]
    empty = [len([p for p in find_patterns(fleet(seed, args.sessions, {})) if p.type != "clean_pass"]) for seed in range(args.fleets)]
    fleets = f"{args.fleets} fleets of {args.sessions} sessions"
    rows.append(Row(f"patterns in {fleets} with nothing planted, most in one", "≤ 1", f"{max(empty)}", f"{sum(empty)} in all", "—"))
    said_of = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    rows.append(Row("lessons that rest on what was not planted, or on nothing", "0", f"{wrong}", f"of {kinds.total()}: {said_of}", "—"))
    remark = f"Planted in 2 to 8 sessions each of {fleets}, which go through the real digest. Whoever planted them wrote the miners."
    show("patterns and lessons: planted fleets", rows, [remark], args.write)


if __name__ == "__main__":
    main()
