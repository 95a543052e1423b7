"""From digests to patterns: one file for each kind of signal, each a pure function over what a session came to.

A miner says what it sees in one session (`Signal`); `patterns` puts together what is seen in several. Everything here can be deleted and
made again: digests are kept, and patterns follow from them. Nothing here knows a store, an agent's name or a clock.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from importlib import import_module
from typing import Literal

import msgspec

from ..model import Digest

Polarity = Literal["problem", "success"]

WORK = frozenset({"real", "one_shot", "subagent"})
"""Sessions that count. What is trivial or a program's own says nothing about how work goes."""


class Skill(msgspec.Struct, frozen=True):
    """A skill that was invoked in a session. `passed` is None where nobody looked."""

    name: str
    passed: bool | None = None
    rescued_by: str = ""
    """The model that passed, with a check to show for it, where another one had failed."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a miner sees it."""

    uid: str
    digest: Digest
    agent: str
    title: str = ""
    """As people know it: the name that somebody gave it, else its own title."""
    repo: str | None = None
    root: str = ""
    """The session that it goes back to, as a fork, a continuation or a subagent, or that it has an event in common with; itself where
    there is none. Two that have the same are one piece of evidence."""
    is_subagent: bool = False
    cwd: str = ""
    """The folder that it began in; none for a session of another machine."""
    began: str = ""
    """This and the next in ISO 8601."""
    at: str = ""
    """When it ended."""
    usd: float = 0.0
    tokens: int = 0
    skills: tuple[Skill, ...] = ()

    @property
    def is_work(self) -> bool:
        return self.digest.quality is None or self.digest.quality in WORK or bool(self.skills)  # A skill is work, however short.


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """Something seen in one session. `locus` is what it is about: signals of one type and locus are one pattern."""

    type: str
    polarity: Polarity
    uid: str
    locus: str
    what: str
    """In words for people."""
    seqs: tuple[int, ...] = ()
    """The events that show it."""
    magnitude: float = 1.0
    usd: float = 0.0
    is_local: bool = False
    """Whether it is about the session's repository, and so not the same thing in another."""


class Fleet:
    """What is usual among the sessions that count."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = cases

    @cached_property
    def _costs(self) -> dict[str | None, list[float]]:
        found: dict[str | None, list[float]] = {}
        for case in self.cases:
            if case.usd > 0 and not case.is_subagent:
                found.setdefault(case.repo, []).append(case.usd)
        return {repo: sorted(costs) for repo, costs in found.items()}

    def costs(self, repo: str | None) -> list[float]:
        """What the sessions of a repository cost, the cheapest first."""
        return self._costs.get(repo, [])


Miner = Callable[[Case, Fleet], Iterable[Signal]]


@cache
def miners() -> dict[str, Miner]:
    """Every miner by its name: the files of this folder that have a function `mine`."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            mine = getattr(import_module(f"{__name__}.{module.name}"), "mine", None)
            if mine is not None:
                found[module.name] = mine
    return dict(sorted(found.items()))


def signals(cases: Iterable[Case]) -> Iterator[Signal]:
    """What all miners see in the sessions that count, session by session."""
    work = [case for case in cases if case.is_work]
    fleet = Fleet(work)
    for case in work:
        for mine in miners().values():
            yield from mine(case, fleet)
