"""The miners: one file for each type of signal, found by looking into this folder.

A miner's file is named after its type of signal and has a function `mine(case, fleet)`. The rest is
optional:

- `draft(group, ends)`: the lesson on a group of patterns, or None if nothing is known to help.
- `find_ends(group)`: how the problem ended in each session. `draft` gets the result, and it shows
  later whether sessions follow the lesson.
- `KIND`: the kind of its lessons, by which these are found again in files.
- `recurred(about, case)`: whether the problem of a lesson of this kind recurred in a session, so
  that the lesson's effect can be measured.
- `IS_FALLBACK`: true if its lesson is left out where another miner's has the same evidence.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module

import msgspec

from ..drafts import Draft, Group
from ..ends import End
from ..values import Case, Fleet, Pattern, Signal


class Miner(msgspec.Struct, frozen=True, kw_only=True):
    """The contract of a miner's file. The package's docstring describes the parts."""

    name: str
    mine: Callable[[Case, Fleet], Iterable[Signal]]
    draft: Callable[[Group, Sequence[End]], Draft | None] | None = None
    find_ends: Callable[[Group], list[End]] | None = None
    kind: str = ""
    recurred: Callable[[str, Case], bool] | None = None
    is_fallback: bool = False

    def subject_of(self, pattern: Pattern) -> str:
        """Return what a pattern of this miner is about, as `Lesson.subject` says it."""
        return pattern.locus.error or f"{self.kind} {pattern.about}"


@cache
def load_miners() -> dict[str, Miner]:
    """Return every miner by its type of signal."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: _load_miner(name) for name in names}


def _load_miner(name: str) -> Miner:
    module = import_module(f"{__name__}.{name}")
    optional = {
        "draft": "draft",
        "find_ends": "find_ends",
        "kind": "KIND",
        "recurred": "recurred",
        "is_fallback": "IS_FALLBACK",
    }
    parts = {
        field: getattr(module, attribute)
        for field, attribute in optional.items()
        if hasattr(module, attribute)
    }
    return Miner(name=name, mine=module.mine, **parts)


def find_miner_of_kind(kind: str) -> Miner | None:
    """Return the miner whose lessons are of this kind; None for a kind that no miner claims."""
    return next((miner for miner in load_miners().values() if kind and miner.kind == kind), None)


def iter_signals(cases: Iterable[Case]) -> Iterator[Signal]:
    """Yield what all miners notice in the sessions that count, session by session."""
    work = [case for case in cases if case.is_work]
    fleet = Fleet(work)
    for case in work:
        for miner in load_miners().values():
            yield from miner.mine(case, fleet)
