"""Two groups of sessions side by side: what came in how many, and between which bounds the difference is. Pure, and knows no lesson.

Work moves between repositories and agents, in which things differ. So each session of the second group is set beside those of the first
that are of the same agent and repository, and left out where there are none: these get a weight, and what is left of their number by
weighing them unequally (Kish) is what the bounds are reckoned with. Where the mix is the same, all weigh the same. And things change by
themselves in time: of each agent and repository only those nearest to the change are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

import msgspec

from ..mine import Case
from .rank import wilson

Z = 2.575829
"""Of 99 %."""

NEAREST = 150
"""Sessions of an agent in a repository, on either side: enough to see half of an error go, and few enough for little else to change
(design/2026-11-16-effect.md has what other numbers do)."""

Values = Sequence[tuple[Case, float]]
"""A figure of each session, 1 or 0 for whether something came; in the order of their time."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """In how many of so many sessions, before and after; and between which bounds the difference of the shares is."""

    before: int
    before_of: int
    after: int
    after_of: int
    expected: float
    """The share before, with the agents and repositories of after. The bounds are of the difference to this."""
    low: float
    high: float


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """The same of a figure that every session has; `before` is with the agents and repositories of after."""

    before: float
    before_of: int
    after: float
    after_of: int
    low: float
    high: float


def share(before: Values, after: Values) -> Share:
    old, new = _side_by_side(before, after)
    low, high = difference(old.mean * old.worth, old.worth, new.mean * new.number, new.number)
    return Share(
        before=round(old.total),
        before_of=old.number,
        after=round(new.total),
        after_of=new.number,
        expected=round(old.mean, 4),
        low=round(low, 4),
        high=round(high, 4),
    )


def mean(before: Values, after: Values) -> Mean:
    old, new = _side_by_side(before, after)
    change, spread = new.mean - old.mean, Z * sqrt(old.variance / max(1.0, old.worth) + new.variance / max(1, new.number))
    return Mean(
        before=round(old.mean, 4),
        before_of=old.number,
        after=round(new.mean, 4),
        after_of=new.number,
        low=round(change - spread, 4),
        high=round(change + spread, 4),
    )


def difference(before: float, before_of: float, after: float, after_of: float, z: float = Z) -> tuple[float, float]:
    """The bounds of how much the share has changed (Newcombe, from two Wilson intervals). Where nothing is known, anything."""
    if not before_of or not after_of:
        return -1.0, 1.0
    old, new = before / before_of, after / after_of
    old_low, old_high = wilson(before, before_of, z)
    new_low, new_high = wilson(after, after_of, z)
    change = new - old
    return change - sqrt((new - new_low) ** 2 + (old_high - old) ** 2), change + sqrt((new_high - new) ** 2 + (old - old_low) ** 2)


class _Cell:
    """The figures of an agent in a repository, added up: there may be ten thousand sessions, and they are looked at for each lesson."""

    __slots__ = ("number", "squares", "total", "weight")

    def __init__(self) -> None:
        self.number, self.total, self.squares, self.weight = 0, 0.0, 0.0, 0.0


class _Group:
    """Cells, each with its weight."""

    def __init__(self, cells: Iterable[_Cell]) -> None:
        cells = [cell for cell in cells if cell.weight]
        weight = sum(cell.weight * cell.number for cell in cells)
        squares = sum(cell.weight * cell.squares for cell in cells)
        self.number, self.total = sum(cell.number for cell in cells), sum(cell.total for cell in cells)
        self.worth = weight**2 / sum(cell.weight**2 * cell.number for cell in cells) if cells else 0.0
        """As how many that weigh the same these count."""
        self.mean = sum(cell.weight * cell.total for cell in cells) / weight if cells else 0.0
        around = max(0.0, squares / weight - self.mean**2) if cells else 0.0
        self.variance = around * self.worth / (self.worth - 1) if self.worth > 1 else 0.0


def _side_by_side(before: Values, after: Values) -> tuple[_Group, _Group]:
    """The figures before that others are compared with, weighted; and those after that there is something to compare with. As long as
    there is nothing on one side, all of the other."""
    old, new = _cells(reversed(before)), _cells(after)
    for place, cell in new.items():
        if place in old:
            old[place].weight = cell.number / old[place].number
        cell.weight = 1.0 if place in old or not old else 0.0
    for cell in old.values() if not new else ():
        cell.weight = 1.0
    return _Group(old.values()), _Group(new.values())


def _cells(values: Iterable[tuple[Case, float]]) -> dict[tuple[str, str | None], _Cell]:
    """The first of them."""
    found: dict[tuple[str, str | None], _Cell] = {}
    for case, value in values:
        cell = found.get(key := (case.agent, case.repo)) or found.setdefault(key, _Cell())
        if cell.number == NEAREST:
            continue
        cell.number += 1
        cell.total += value
        cell.squares += value * value
    return found
