"""Verdicts of `runlore measure` on lessons with and without an effect, on generated fleets.

    python bench/measure.py [--lessons 200] [--write]

Each lesson is made after 10 or 100 sessions, as soon as three have met its error. From then on it
is shown by a hook at the start or on failure, in a file, or on request. The verdict is taken after
40, 80, 160 and 320 more sessions, and once as the worst of all four, because people look
repeatedly. All of it is repeated while work moves to a repository where the error is rare, and
while the error falls to a third by itself over 1,000 sessions before and those after.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from _measure import Row, show

from tests.lessons.fleets import WAYS, Fleet, Way

LATER = (40, 80, 160, 320)
RATES = (0.05, 0.1, 0.2, 0.4, 0.6)
SHORT, LONG, YEARS = 10, 100, 1_000
"""Sessions before the lesson, or more until three have met its error."""


def main() -> None:
    parser = argparse.ArgumentParser(description="How often a verdict on a lesson is right.")
    parser.add_argument("--lessons", type=int, default=200)
    parser.add_argument("--write", action="store_true", help="put the result into RESULTS.md")
    args = parser.parse_args()
    rows = [row for way in WAYS for row in compare(way, args.lessons)]
    remark = (
        "An effect is found when a tenth, or half, of an error that 40 % of the sessions met (or of"
        " its staying, on failure and when asked late) is left for those that are told, and the"
        " verdict is `effective`. Of those that could ask, half do early, or 60 % once they have"
        " met it."
    )
    show("measure: verdicts on lessons", rows, [remark], args.write)


def compare(way: Way, number: int) -> Iterator[Row]:
    for earlier, shifts, drifts in (
        (LONG, False, 0.0),
        (LONG, True, 0.0),
        (YEARS, False, 1.0),
        (SHORT, False, 0.0),
    ):
        without = [
            verdicts(way, n, RATES[n % len(RATES)], earlier, shifts, drifts) for n in range(number)
        ]
        where = (
            f"told {way}, {earlier:,} sessions or more"
            f" before{', work moves' * shifts}{', it goes by itself' * bool(drifts)}"
        )
        for at in LATER:
            wrong = sum(is_wrong(one[at]) for one in without) / number
            effects = describe_effects(way, at, number, shifts) if earlier == LONG else ""
            yield Row(
                f"{where}, after {at}: wrong of {number} without effect",
                "≤ 5 %",
                f"{wrong:.1%}",
                effects,
                "—",
            )
        ever = sum(any(map(is_wrong, one.values())) for one in without) / number
        yield Row(f"{where}, at any of these looks: wrong", "≤ 5 %", f"{ever:.1%}", "", "—")


def describe_effects(way: Way, at: int, number: int, shifts: bool) -> str:
    shares = []
    for left, words in ((0.1, "a tenth"), (0.5, "half")):
        fleets = (
            Fleet(way, 10_000 + n, rate=0.4, left=left, earlier=LONG, later=at, shifts=shifts)
            for n in range(number)
        )
        effective = sum(
            judged.verdict == "effective" for fleet in fleets if (judged := fleet.judged(at))
        )
        shares.append(f"{effective / number:.1%} with {words} left")
    return f"effect found: {', '.join(shares)}"


def verdicts(
    way: Way, seed: int, rate: float, earlier: int, shifts: bool, drifts: float
) -> dict[int, str]:
    fleet = Fleet(
        way,
        seed,
        rate=rate,
        left=1,
        earlier=earlier,
        later=max(LATER),
        shifts=shifts,
        drifts=drifts,
    )
    return {at: judged.verdict if (judged := fleet.judged(at)) else "too early" for at in LATER}


def is_wrong(verdict: str) -> bool:
    return verdict in ("effective", "harmful")


if __name__ == "__main__":
    main()
