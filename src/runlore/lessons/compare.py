"""Compare how often something happened in two groups of sessions, with bounds of the difference.

Pure, and knows no lesson. Work moves between repositories and agents, in which things differ. So
each session of the second group is compared with sessions of the first that have the same agent and
repository, and left out if there are none. The first group is weighted to match. The bounds use the
effective number of weighted sessions (Kish); if the mix is the same, all weights are equal. Things
also change with time, so only the sessions nearest to the change count, for each agent and
repository.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

import msgspec

from ..mine.intervals import wilson_interval
from ..mine.values import Case

Z_99 = 2.575829
"""The normal quantile of a 99 % interval."""

MAX_NEAREST = 150
"""Sessions of an agent in a repository that count on either side: enough to see half of an error
go, and few enough for little else to change. design/2026-11-16-effect.md shows what other numbers
do."""

Values = Sequence[tuple[Case, float]]
"""A figure for each session in the order of time; 1 or 0 for whether something happened."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """In how many sessions something happened before and after, and bounds of the difference."""

    before: int
    """Number of sessions."""
    before_of: int
    """Number of all sessions before."""
    after: int
    after_of: int
    expected: float
    """The share before, weighted to the agents and repositories of after. The bounds use it."""
    low: float
    """The lower bound of the difference, after less before."""
    high: float
    """The upper bound."""


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of a figure before and after.

    `before` is weighted to the agents and repositories of after.
    """

    before: float
    """The mean."""
    before_of: int
    """Number of sessions before."""
    after: float
    after_of: int
    low: float
    """The lower bound of the difference, after less before."""
    high: float
    """The upper bound."""


def compare_shares(before: Values, after: Values) -> Share:
    old, new = _match(before, after)
    low, high = difference(
        old.mean * old.effective_number, old.effective_number, new.mean * new.number, new.number
    )
    return Share(
        before=round(old.total),
        before_of=old.number,
        after=round(new.total),
        after_of=new.number,
        expected=round(old.mean, 4),
        low=round(low, 4),
        high=round(high, 4),
    )


def compare_means(before: Values, after: Values) -> Mean:
    old, new = _match(before, after)
    change = new.mean - old.mean
    spread = Z_99 * sqrt(
        old.variance / max(1.0, old.effective_number) + new.variance / max(1, new.number)
    )
    return Mean(
        before=round(old.mean, 4),
        before_of=old.number,
        after=round(new.mean, 4),
        after_of=new.number,
        low=round(change - spread, 4),
        high=round(change + spread, 4),
    )


def difference(
    before: float, before_of: float, after: float, after_of: float, z: float = Z_99
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


class _Cell:
    """The sums of an agent's sessions in a repository.

    Sums, because every lesson goes over all sessions.
    """

    __slots__ = ("number", "squares", "total", "weight")

    def __init__(self) -> None:
        self.number, self.total, self.squares, self.weight = 0, 0.0, 0.0, 0.0


class _Group:
    """The figures of several cells, each with its weight."""

    def __init__(self, cells: Iterable[_Cell]) -> None:
        cells = [cell for cell in cells if cell.weight]
        weight = sum(cell.weight * cell.number for cell in cells)
        squares = sum(cell.weight * cell.squares for cell in cells)
        self.number, self.total = (
            sum(cell.number for cell in cells),
            sum(cell.total for cell in cells),
        )
        self.effective_number = (
            weight**2 / sum(cell.weight**2 * cell.number for cell in cells) if cells else 0.0
        )
        """The number of equally weighted sessions that would say as much."""
        self.mean = sum(cell.weight * cell.total for cell in cells) / weight if cells else 0.0
        spread = max(0.0, squares / weight - self.mean**2) if cells else 0.0
        self.variance = (
            spread * self.effective_number / (self.effective_number - 1)
            if self.effective_number > 1
            else 0.0
        )


def _match(before: Values, after: Values) -> tuple[_Group, _Group]:
    """Return the sessions before, weighted, and those after that can be compared with them.

    If there are none on one side, all of the other are returned.
    """
    old, new = _sum_nearest(reversed(before)), _sum_nearest(after)
    for place, cell in new.items():
        if place in old:
            old[place].weight = cell.number / old[place].number
        cell.weight = 1.0 if place in old or not old else 0.0
    for cell in old.values() if not new else ():
        cell.weight = 1.0
    return _Group(old.values()), _Group(new.values())


def _sum_nearest(values: Iterable[tuple[Case, float]]) -> dict[tuple[str, str | None], _Cell]:
    """Sum up the first sessions of each agent and repository."""
    cells: dict[tuple[str, str | None], _Cell] = {}
    for case, value in values:
        cell = cells.get(key := (case.agent, case.repo)) or cells.setdefault(key, _Cell())
        if cell.number == MAX_NEAREST:
            continue
        cell.number += 1
        cell.total += value
        cell.squares += value * value
    return cells
