"""Lessons on made-up fleets, with and without an effect: what `runlore measure` says of them.

    python bench/measure.py [--lessons 200] [--write]

Each lesson is made as it happens: after 10 sessions or 100, as soon as three have met its error, and all that follow are told. Of every
lesson the verdict is taken when 20, 40, 80 and 160 sessions were told, and once more as the worst of all four, for people look at it again
and again.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from _measure import Row, show

from tests.lessons.test_measure import judged, simulated

TOLD = (20, 40, 80, 160)
RATES = (0.05, 0.1, 0.2, 0.4, 0.6)


def main() -> None:
    parser = argparse.ArgumentParser(description="How often a verdict on a lesson is right.")
    parser.add_argument("--lessons", type=int, default=200)
    parser.add_argument("--write", action="store_true", help="put the result into RESULTS.md")
    args = parser.parse_args()
    rows = [row for earlier in (10, 100) for row in compare(earlier, args.lessons)]
    remark = "An effect is found when a tenth, or half, of an error that 40 % of the sessions met is left and the verdict is `effective`."
    show("measure: verdicts on lessons", rows, [remark], args.write)


def compare(earlier: int, number: int) -> Iterator[Row]:
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
    where = f"of {number} lessons without effect wrong, {earlier} sessions or more before"
    for told in TOLD:
        effect = f"effect found: {found[told] / number:.1%} with a tenth left, {half[told] / number:.1%} with half"
        yield Row(f"{where}, {told} told", "≤ 5 %", f"{wrong[told] / number:.1%}", effect, "—")
    yield Row(f"{where}, at any of these looks", "≤ 5 %", f"{ever / number:.1%}", "", "—")


if __name__ == "__main__":
    main()
