"""Lessons on made-up fleets, with and without an effect: what `runlore measure` says of them.

    python bench/measure.py [--lessons 200]

Each lesson is made as it happens: after 10 sessions or 100, as soon as three have met its error, and all that follow are told. Of every
lesson the verdict is taken when 20, 40, 80 and 160 sessions were told, and once more as the worst of all four, for people look at it again
and again.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.lessons.test_measure import judged, simulated

TOLD = (20, 40, 80, 160)
RATES = (0.05, 0.1, 0.2, 0.4, 0.6)


def main() -> None:
    parser = argparse.ArgumentParser(description="How often a verdict on a lesson is right.")
    parser.add_argument("--lessons", type=int, default=200)
    args = parser.parse_args()
    print("| sessions before | told | without effect: wrong (bar 5 %) | a tenth is left of it: found | half is left: found |")
    print("|---|---|---|---|---|")
    for earlier in (10, 100):
        compare(earlier, args.lessons)


def compare(earlier: int, number: int) -> None:
    wrong, found, half = Counter[int](), Counter[int](), Counter[int]()
    ever = 0
    for n in range(number):
        rate = RATES[n % len(RATES)]
        lesson, cases, notes = simulated(n, rate, rate, max(TOLD), earlier)
        verdicts = {told: judged(lesson, cases, notes[:told]).verdict for told in TOLD}
        for told, verdict in verdicts.items():
            wrong[told] += verdict in ("effective", "harmful")
        ever += any(verdict in ("effective", "harmful") for verdict in verdicts.values())
        for counted, left in ((found, 0.1), (half, 0.5)):
            lesson, cases, notes = simulated(10_000 + n, 0.4, 0.4 * left, max(TOLD), earlier)
            for told in TOLD:
                counted[told] += judged(lesson, cases, notes[:told]).verdict == "effective"
    for told in TOLD:
        print(f"| {earlier} or more | {told} | {wrong[told] / number:.1%} | {found[told] / number:.1%} | {half[told] / number:.1%} |")
    print(f"| {earlier} or more | any of these | {ever / number:.1%} | | |")


if __name__ == "__main__":
    main()
