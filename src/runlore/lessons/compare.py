"""Two groups of sessions side by side: what came in how many, and between which bounds the difference is. Pure, and knows no lesson.

Work moves between repositories and agents, in which things differ. So each session of the second group is set beside those of the first
that are of the same agent and repository, or at least of the same agent: these get a weight, and what is left of their number by weighing
them unequally (Kish) is what the bounds are reckoned with. Where the mix is the same, all weigh the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import sqrt

import msgspec

from ..mine import Case
from .rank import wilson

Z = 2.575829
"""Of 99 %."""

Values = Sequence[tuple[Case, float]]
"""A figure of each session; 1 or 0 for whether something came."""


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
    expected, worth = _average(old), _worth(old)
    low, high = difference(expected * worth, worth, sum(new), len(new))
    return Share(
        before=sum(value > 0 for value, _ in old),
        before_of=len(old),
        after=sum(value > 0 for value in new),
        after_of=len(new),
        expected=round(expected, 4),
        low=round(low, 4),
        high=round(high, 4),
    )


def mean(before: Values, after: Values) -> Mean:
    weighted, values = _side_by_side(before, after)
    even = [(value, 1.0) for value in values]
    old, new = _average(weighted), _average(even)
    spread = Z * sqrt(_variance(weighted) / max(1.0, _worth(weighted)) + _variance(even) / max(1, len(even)))
    return Mean(
        before=round(old, 4),
        before_of=len(weighted),
        after=round(new, 4),
        after_of=len(even),
        low=round(new - old - spread, 4),
        high=round(new - old + spread, 4),
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


def _side_by_side(before: Values, after: Values) -> tuple[list[tuple[float, float]], list[float]]:
    """The figures before that others are compared with, each with its weight; and those after that there is something to compare with."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for at, (case, _) in enumerate(before):
        for key in _keys(case):
            groups.setdefault(key, []).append(at)
    found = [(next((key for key in _keys(case) if key in groups), None), value) for case, value in after]
    weights = [0.0] * len(before)
    for key, number in Counter(key for key, _ in found if key).items():
        for at in groups[key]:
            weights[at] += number / len(groups[key])
    old = [(value, weight) for (_, value), weight in zip(before, weights, strict=True) if weight]
    return old, [value for key, value in found if key or not before]


def _keys(case: Case) -> tuple[tuple[str, ...], ...]:
    """Whose like it is, the nearest first."""
    return (case.agent, case.repo or ""), (case.agent,)


def _worth(values: Sequence[tuple[float, float]]) -> float:
    """As how many that weigh the same these count."""
    squares = sum(weight * weight for _, weight in values)
    return sum(weight for _, weight in values) ** 2 / squares if squares else 0.0


def _average(values: Sequence[tuple[float, float]]) -> float:
    total = sum(weight for _, weight in values)
    return sum(value * weight for value, weight in values) / total if total else 0.0


def _variance(values: Sequence[tuple[float, float]]) -> float:
    middle, worth = _average(values), _worth(values)
    return _average([((value - middle) ** 2, weight) for value, weight in values]) * worth / (worth - 1) if worth > 1 else 0.0
