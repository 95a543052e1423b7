"""Which filter to drop where no session matches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..store import Filter
from ..text.words import count

_NO_FILTER = Filter()._asdict()


def explain_exclusion(
    chosen: Filter, labels: Mapping[str, str], count_matches: Callable[[Filter], int]
) -> list[str]:
    """Return the filters without which there are sessions, and how many, one line each.

    If there are none without any single filter, the line is about all of them. `labels` has the
    words in which a field of the filter was given; those with the same words are one filter.
    """
    units: dict[str, dict[str, Any]] = {}
    for name, value in chosen._asdict().items():
        if value != _NO_FILTER[name] and name != "parents_only":
            label = labels.get(name) or f"{name}:{value}"
            units.setdefault(label, {})[name] = _NO_FILTER[name]
    less = {label: chosen._replace(**nothing) for label, nothing in units.items()}
    lines = _count_each(less, count_matches)
    if not lines and len(units) > 1:
        everything = Filter(parents_only=chosen.parents_only)
        lines = _count_each({" ".join(units): everything}, count_matches)
    return lines


def _count_each(less: Mapping[str, Filter], count_matches: Callable[[Filter], int]) -> list[str]:
    return [
        f"without {label} there {'is' if number == 1 else 'are'} {count(number, 'session')}"
        for label, rest in less.items()
        if (number := count_matches(rest))
    ]
