"""A look back."""

from __future__ import annotations

from ._base import Number, Value
from .lessons import Snapshot


class Done(Value):
    """A session that was worked in."""

    uid: str
    repo: str | None
    what: str
    outcome: str
    usd: Number


class Suggestion(Value):
    """What goes wrong, and what to do about it.

    lesson: the id of the lesson that the advice is from; empty when it is general
    trend: new, rising, steady, falling, stopped
    evidence: as uid#seq
    """

    repo: str
    type: str
    what: str
    advice: str
    lesson: str
    sessions: int
    usd: Number
    trend: str
    evidence: list[str]


class Better(Value):
    """What is seen in half as many of the sessions as before, or fewer.

    before_of: sessions in all; now_of as well
    """

    what: str
    before: int
    now: int
    before_of: int
    now_of: int


class SkillSeen(Value):
    """How a model does at a skill.

    escalated: invocations that went on to another model
    unverified: passed, with no check to show for it
    low: the lower bound of the share that passed
    hint: keep, try another, more evidence; of this model's own attempts alone
    """

    skill: str
    model: str
    passed: int
    failed: int
    escalated: int
    unverified: int
    low: Number
    high: Number
    hint: str


class Retro(Value):
    """A look back at some days.

    repos: sessions by repository
    before: as many days, just before
    wrong: what went wrong most, wherever
    suggestions: the three of each repository that matter most
    """

    since: str
    until: str
    sessions: int
    repos: dict[str, int]
    outcomes: dict[str, int]
    usd: Number
    tokens: int
    now: Snapshot | None
    before: Snapshot | None
    done: list[Done]
    wrong: list[Suggestion]
    suggestions: list[Suggestion]
    better: list[Better]
    skills: list[SkillSeen]
