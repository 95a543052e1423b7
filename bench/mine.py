"""Patterns that were planted into made-up fleets: how many are found, and how much of what is found was planted.

    python bench/mine.py [--fleets 10] [--sessions 200]

Every fleet has each pattern planted in 2 to 8 sessions of its own; what else is in them differs from session to session. A session counts
for a signal when it is in a pattern of that type; a clean pass, which is no accident, is counted in what was planted alone.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from runlore.mine.patterns import find
from tests.mine.fleet import PLANTS, fleet


def main() -> None:
    parser = argparse.ArgumentParser(description="Precision and recall of every signal on planted fleets.")
    parser.add_argument("--fleets", type=int, default=10)
    parser.add_argument("--sessions", type=int, default=200)
    args = parser.parse_args()
    right, said, there = Counter[str](), Counter[str](), Counter[str]()
    for seed in range(args.fleets):
        rng = random.Random(seed)
        free = rng.sample(range(args.sessions), args.sessions)
        plants = {name: [free.pop() for _ in range(rng.randint(2, 8))] for name in PLANTS}
        patterns = find(fleet(1000 + seed, args.sessions, plants))
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
    print("| signal | planted | precision (bar 0.9) | recall (bar 0.8) |\n|---|---|---|---|")
    for name in PLANTS:
        print(f"| {name} | {there[name]} | {right[name] / max(1, said[name]):.3f} | {right[name] / there[name]:.3f} |")
    empty = [len([p for p in find(fleet(seed, args.sessions, {})) if p.type != "clean_pass"]) for seed in range(args.fleets)]
    fleets = f"{args.fleets} fleets of {args.sessions} sessions with nothing planted"
    print(f"\n{fleets}: {sum(empty)} patterns, at most {max(empty)} in one (bar 1).")


if __name__ == "__main__":
    main()
