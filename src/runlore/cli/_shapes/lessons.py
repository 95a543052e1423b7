"""Lessons: what they say, what they rest on, what was decided."""

from __future__ import annotations

from typing import Any

from ._base import Number, Value


class Lesson(Value):
    """What to do about something that keeps happening.

    status: proposed, approved, rejected, retired, superseded
    kind: error, flaky, retries, correction, slow, skill, note
    by: mined, person, agent
    agent: this and repo, path and tool say where it applies; empty is anywhere
    fingerprint: of the error that it is about
    about: where it is about none, the command or the skill
    key: what the resolution comes down to
    evidence: as uid#seq
    sessions: that show it and have nothing to do with each other
    helped: of these, those in which the resolution was the end of it
    confidence: the lower bound of the share that it helped in
    kept: sessions after the decision that the resolution held in
    broken: and those that went another way
    edited: by a person: its words stay
    merged: lessons that gave it their evidence
    notes: what else stands in the file
    extra: fields of the file that this version does not know
    score: what it is ranked by; it sinks with time
    is_told: whether agents are told
    is_doubted: whether later sessions contradict it
    """

    id: str
    status: str
    problem: str
    resolution: str
    kind: str
    by: str
    agent: str
    repo: str
    path: str
    tool: str
    fingerprint: str
    about: str
    key: str
    evidence: list[str]
    signals: int
    sessions: int
    helped: int
    confidence: Number
    kept: int
    broken: int
    made_at: str
    last_at: str
    decided_at: str
    decided_by: str
    why: str
    edited: bool
    supersedes: str
    superseded_by: str
    merged: list[str]
    notes: str
    extra: dict[str, Any]
    score: Number
    is_told: bool
    is_doubted: bool
    file: str


class ProposedLessons(Value):
    """What a look at all sessions has brought.

    new: ids of the proposals that were not there before
    changed: ids of those whose evidence is another now
    """

    new: list[str]
    changed: list[str]
    lessons: list[Lesson]


class RenderedLessons(Value):
    """A block of lessons in a file.

    lessons: ids of those in the block
    diff: lines
    """

    file: str
    changed: bool
    dry_run: bool
    lessons: list[str]
    diff: list[str]


class Change(Value):
    """Sessions before a lesson was told, and those that were told.

    before: how many, or the average
    before_of: out of how many sessions
    low: the lower bound of the difference, after less before
    high: and the upper one
    """

    before: Number
    before_of: int
    after: Number
    after_of: int
    low: Number
    high: Number


class Share(Change):
    """Sessions in which something came, before a lesson was told and after.

    expected: the share before, with the agents and repositories of after; the bounds are of the difference to this
    """

    expected: Number


class Effect(Value):
    """What became of a lesson that was told.

    verdict: effective, harmful, no effect seen, too early, not measurable
    told: sessions
    ways: the same by how they were told, some in several ways: start, fail (by hooks), file (`lessons render`), asked (MCP)
    compared: which sessions stand beside those before: told at start, told on failure, could ask
    tokens: what telling it cost, with what was told beside it
    recurs: of sessions told at their start, or that could ask, those that met what it is about
    stays: of sessions that met it, those that did not get over it; judged where sessions were told after they had met it
    success: of those whose end is known
    """

    id: str
    problem: str
    verdict: str
    told: int
    ways: dict[str, int]
    compared: str
    first_at: str
    tokens: int
    recurs: Share
    stays: Share
    success: Share
    retries: Change
    usd: Change


class Snapshot(Value):
    """The sessions of a week or a month that count.

    success: share of those whose end is known; null when there are none
    ended: how many these are
    failing: share with an error
    errors: a session, on average, the same error counted once
    overhead: share of calls that are not the work itself, in the middle session
    thrash: share in which the same call failed three times or more
    """

    period: str
    sessions: int
    success: Number | None
    ended: int
    failing: Number
    errors: Number
    tokens_p50: int
    tokens_p90: int
    overhead: Number
    thrash: Number


class Measured(Value):
    """Whether lessons help, and how the fleet goes."""

    lessons: list[Effect]
    fleet: list[Snapshot]
