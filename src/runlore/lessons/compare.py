"""Compare two groups of sessions: differences of shares and of means, with intervals. Pure.

People look at results again and again, and each look at a difference that is only chance is
another occasion to be wrong. So there are few looks, at fixed numbers of sessions, and each has its
part of a total error of 4 %. Between two looks people see the result of the last one, so looking
more often changes nothing (design/2026-11-18-trials.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist, fmean, variance

import msgspec

from ..mine.intervals import wilson_interval

FIRST_LOOK = 50
MAIN_LOOK = 200
"""Most of the error is spent here: a lesson that halves a frequent problem shows by then."""
EARLY_ERRORS = {50: 0.001, 100: 0.004, 200: 0.03}
"""The probability of a wrong verdict at the first looks. It is small at the earliest: only a very
large difference should count so soon."""
LATE_ERROR = 0.0025
"""At the look after these. It halves with each further look, so that all together have 0.5 %."""

MIN_GROUP = 10
"""Sessions in either group that an interval needs: with fewer, its error would be larger."""


class Look(msgspec.Struct, frozen=True):
    """A number of sessions at which the groups are compared."""

    sessions: int
    error: float
    """The probability that a difference is seen here where there is none."""

    @property
    def z(self) -> float:
        return NormalDist().inv_cdf(1 - self.error / 2)


def find_looks(sessions: int) -> list[Look]:
    """Return the looks at so many sessions, first to last: at 50, 100, 200, 400 and so on."""
    looks = [Look(number, error) for number, error in EARLY_ERRORS.items()]
    while looks[-1].sessions < sessions:
        is_first = looks[-1].sessions == MAIN_LOOK
        looks.append(Look(2 * looks[-1].sessions, LATE_ERROR if is_first else looks[-1].error / 2))
    return [look for look in looks if look.sessions <= sessions]


def next_look(sessions: int) -> int:
    """Return the number of sessions at the next look."""
    number = FIRST_LOOK
    while number <= sessions:
        number *= 2
    return number


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """In how many sessions something happened, with a lesson shown and with it withheld."""

    shown: int
    """Number of sessions that were shown the lesson, and in which it happened."""
    shown_of: int
    """Number of sessions that were shown the lesson."""
    withheld: int
    """Number of sessions from which the lesson was withheld, and in which it happened."""
    withheld_of: int
    """Number of sessions from which the lesson was withheld."""
    low: float | None
    """The lower bound of the difference of the shares, shown less withheld; null before the first
    look, and with fewer than 10 sessions on one side."""
    high: float | None
    """The upper bound."""


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of a figure, with a lesson shown and with it withheld."""

    shown: float | None
    """The mean over the sessions that were shown the lesson; null if there are none."""
    withheld: float | None
    """The mean over those from which it was withheld; null if there are none."""
    low: float | None
    """The lower bound of the difference, shown less withheld; null before the first look, and with
    fewer than 10 sessions on one side."""
    high: float | None
    """The upper bound."""


def compare_shares(shown: Sequence[bool], withheld: Sequence[bool], look: Look | None) -> Share:
    low, high = (
        difference(sum(withheld), len(withheld), sum(shown), len(shown), look.z)
        if look and has_enough(shown, withheld)
        else (None, None)
    )
    return Share(
        shown=sum(shown),
        shown_of=len(shown),
        withheld=sum(withheld),
        withheld_of=len(withheld),
        low=_rounded(low),
        high=_rounded(high),
    )


def compare_means(shown: Sequence[float], withheld: Sequence[float], look: Look | None) -> Mean:
    low, high = (
        mean_difference(withheld, shown, look.z)
        if look and has_enough(shown, withheld)
        else (None, None)
    )
    return Mean(
        shown=_rounded(fmean(shown)) if shown else None,
        withheld=_rounded(fmean(withheld)) if withheld else None,
        low=_rounded(low),
        high=_rounded(high),
    )


def has_enough(shown: Sequence[float], withheld: Sequence[float]) -> bool:
    return min(len(shown), len(withheld)) >= MIN_GROUP


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def difference(
    before: float, before_of: float, after: float, after_of: float, z: float
) -> tuple[float, float]:
    """Return the bounds of the change of a share (Newcombe, from two Wilson intervals).

    Without observations on one side, they are -1 and 1.
    """
    if not before_of or not after_of:
        return -1.0, 1.0
    old, new = before / before_of, after / after_of
    old_low, old_high = wilson_interval(before, before_of, z)
    new_low, new_high = wilson_interval(after, after_of, z)
    change = new - old
    return change - sqrt((new - new_low) ** 2 + (old_high - old) ** 2), change + sqrt(
        (new_high - new) ** 2 + (old - old_low) ** 2
    )


def mean_difference(
    before: Sequence[float], after: Sequence[float], z: float
) -> tuple[float, float]:
    """Return the bounds of the change of a mean (Welch). Both sides have at least two values."""
    parts = variance(before) / len(before), variance(after) / len(after)
    change, spread = fmean(after) - fmean(before), sum(parts)
    if not spread:
        return change, change
    freedom = spread**2 / (parts[0] ** 2 / (len(before) - 1) + parts[1] ** 2 / (len(after) - 1))
    width = student_quantile(z, freedom) * sqrt(spread)
    return change - width, change + width


def student_quantile(z: float, freedom: float) -> float:
    """Return the quantile of Student's distribution for the normal quantile `z`.

    The expansion of Cornish and Fisher; the error is below 1 % from 6 degrees of freedom on, for
    the levels that are used here.
    """
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
