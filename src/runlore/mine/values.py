"""The values of mining: sessions as cases, the signals in them, and the patterns these form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

import msgspec

from ..digest.families import families
from ..model import Digest, Trend
from .loci import Locus

Polarity = Literal["problem", "success"]

WORK_QUALITIES = frozenset({"real", "one_shot", "subagent"})
"""Qualities of sessions that count. Trivial and automated ones say nothing about how work goes."""


class Skill(msgspec.Struct, frozen=True):
    """A skill that was invoked in a session. `passed` is None if the result was never checked."""

    name: str
    passed: bool | None = None
    rescued_by: str = ""
    """The model that passed a check after another model had failed."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A session as miners see it."""

    uid: str
    digest: Digest
    agent: str
    title: str = ""
    """The name that a person gave it, else its own title."""
    repo: str | None = None
    root: str = ""
    """The session that this one goes back to as a fork, continuation or subagent, or by a shared
    event; its own uid if there is none. Sessions with the same root are one family."""
    task: str = ""
    """The session that stands for all sessions about the same task (`tasks`); empty if that is its
    root."""
    is_subagent: bool = False
    cwd: str = ""
    """The folder it started in; empty for a session of another machine."""
    began: str = ""
    """In ISO 8601."""
    at: str = ""
    """When it ended, in ISO 8601."""
    usd: float = 0.0
    unpriced: int = 0
    """The number of calls whose price is not known."""
    usd_with_subagents: float = 0.0
    unpriced_with_subagents: int = 0
    tokens: int = 0
    skills: tuple[Skill, ...] = ()

    @property
    def evidence_key(self) -> str:
        """Return what makes two sessions one piece of evidence: that they are about one task."""
        return self.task or self.root or self.uid

    @property
    def is_work(self) -> bool:
        """Return True if the session counts. One that used a skill counts however short it is."""
        return (
            self.digest.quality is None
            or self.digest.quality in WORK_QUALITIES
            or bool(self.skills)
        )


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a miner noticed in one session."""

    type: str
    polarity: Polarity
    uid: str
    locus: Locus
    """The subject. Signals of one type whose loci have the same key become one pattern."""
    what: str
    """A description for people."""
    seqs: tuple[int, ...] = ()
    """The events that show it."""
    magnitude: float = 1.0
    usd: float = 0.0
    is_local: bool = False
    """True if it is about the session's repository, so that each repository has its own pattern."""


class PatternFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Something that keeps happening, as it is shown."""

    id: str
    """A hash of type, repository and locus: it stays the same as evidence is added."""
    type: str
    polarity: Polarity
    what: str
    repo: str | None
    """The repository, if the pattern is about one."""
    signals: int
    """How often it occurred."""
    sessions: int
    """Number of independent sessions, that is of different tasks."""
    uids: tuple[str, ...]
    repos: tuple[str, ...]
    agents: tuple[str, ...]
    usd: float
    magnitude: float
    """How strong it is, on average. What it counts depends on the type."""
    first_at: str
    last_at: str
    months: dict[str, int]
    """Signals by month: when the pattern appeared and when it stopped."""
    trend: Trend
    """Its development over the sessions."""
    examples: tuple[str, ...]
    """As uid#seq, newest first."""


class Pattern(PatternFacts, frozen=True, kw_only=True):
    """Signals about the same thing in several sessions."""

    locus: Locus

    @property
    def about(self) -> str:
        """Return what it is about, in one text, with the repository if it is about one."""
        return f"{self.locus.key} in {self.repo}" if self.repo else self.locus.key

    @property
    def is_wide(self) -> bool:
        """Return True if several agents show it, so that it is not one agent's habit."""
        return len(self.agents) > 1


class Fleet:
    """The usual values among the sessions that count."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = cases

    @cached_property
    def _costs(self) -> dict[str | None, list[float]]:
        by_repo: dict[str | None, list[float]] = {}
        for case in self.cases:
            if case.usd > 0 and not case.is_subagent:
                by_repo.setdefault(case.repo, []).append(case.usd)
        return {repo: sorted(costs) for repo, costs in by_repo.items()}

    @cached_property
    def family_of(self) -> dict[str, str]:
        """Return the family of each error, by fingerprint."""
        return find_families(self.cases)

    def costs(self, repo: str | None) -> list[float]:
        """Return what the sessions of a repository cost, cheapest first."""
        return self._costs.get(repo, [])


def find_families(cases: Iterable[Case]) -> dict[str, str]:
    """Return for each fingerprint of these sessions the template of its family."""
    return families(error.signature for case in cases for error in case.digest.errors)
