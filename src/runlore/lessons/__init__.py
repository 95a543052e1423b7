"""Lessons: what to do about a recurring problem, with the evidence and what people decided.

`drafts` and `curate` propose lessons from patterns, `shelf` keeps them as files, `rank` orders
them, and `deliver` and `render` show them to agents. `exposures` and `measure` tell whether that
helps. `actions` connects lessons with a store.

This module has the value alone and imports little, because hooks read lessons while an agent waits.
It knows neither a store nor an agent.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

Status = Literal["proposed", "approved", "rejected", "retired", "superseded"]
By = Literal["mined", "person", "agent"]

MIN_BROKEN = 3
"""Sessions that have to go another way before a lesson is doubted: one or two may be chance."""


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """Advice on a recurring problem. One that was decided on is never overwritten: better advice is
    another lesson, which supersedes it."""

    id: str
    status: Status = "proposed"
    when: str
    """The situation in which it applies, as an agent recognises it."""
    do: str
    avoid: str = ""
    """What not to do there; may be empty."""
    kind: str = "note"
    """The kind of its miner, such as quoted, setup_first or correction; note if it was written by
    hand."""
    by: By = "mined"
    """Who wrote it."""
    writer: str = ""
    """The command of the agent that phrased it, if `runlore lessons distill` ran one."""
    agent: str = ""
    """This field, `repo`, `path` and `tool` say where it applies; empty is anywhere."""
    repo: str = ""
    path: str = ""
    tool: str = ""
    fingerprint: str = ""
    """The error it is about."""
    family: tuple[str, ...] = ()
    """Other errors it is about, by fingerprint: those of the same family that the advice ended."""
    about: str = ""
    """What it is about, if not a single error: the head of a command, a skill, a change of a call.
    """
    key: str = ""
    """The essence of what to do: the same advice in other words has the same key."""
    evidence: tuple[str, ...] = ()
    """As uid#seq, newest first."""
    signals: int = 0
    sessions: int = 0
    """Number of independent tasks in which the problem occurred."""
    helped: int = 0
    """Number of these tasks in which it ended the problem."""
    confidence: float = 0.0
    """The lower bound of the share of tasks in which it helped."""
    kept: int = 0
    """Number of sessions since the decision that followed it."""
    broken: int = 0
    """Number of sessions since the decision that went another way."""
    made_at: str = ""
    last_at: str = ""
    """When the problem last occurred."""
    decided_at: str = ""
    decided_by: str = ""
    why: str = ""
    """The reason for the decision, in the words of the person who made it."""
    edited: bool = False
    """True if a person edited it: then its words stay as they are."""
    supersedes: str = ""
    superseded_by: str = ""
    merged: tuple[str, ...] = ()
    """Lessons that said the same and were merged into this one."""
    notes: str = ""
    """The rest of the file."""
    extra: dict[str, Any] = {}
    """Unknown fields of the front matter, from a newer runlore or a person."""

    @property
    def subject(self) -> str:
        """Return what it is about, so that only one of several lessons on the same is shown."""
        return f"{self.kind} {self.about}" if self.about else self.fingerprint

    @property
    def fingerprints(self) -> frozenset[str]:
        """Return the errors it is about: the one it is named by, and those of the same family."""
        return frozenset((self.fingerprint, *self.family)) - {""}

    @property
    def is_doubted(self) -> bool:
        """Return True if later sessions contradict it."""
        return self.broken >= MIN_BROKEN and self.broken > 2 * self.kept

    def is_ready(self, min_sessions: int) -> bool:
        """Return True if it may be shown to an agent.

        A mined lesson needs that many sessions; one that somebody wrote was read by whoever
        approved it.
        """
        has_evidence = bool(self.evidence and self.do) and (
            self.by != "mined" or self.sessions >= min_sessions
        )
        return self.status == "approved" and has_evidence and not self.is_doubted

    def fits(
        self,
        *,
        agent: str | None = None,
        repo: str | None = None,
        path: str | None = None,
        tool: str | None = None,
    ) -> bool:
        """Return True if it applies there. None is unknown and rules nothing out; "" is none."""
        return (
            _covers(self.agent, agent, _matches_name)
            and _covers(self.repo, repo, _matches_repo)
            and _covers(self.path, path, _matches_path)
            and _covers(self.tool, tool, _matches_name)
        )


def describe_advice(lesson: Lesson) -> str:
    """Return what to do and what to avoid, as one text."""
    return f"{lesson.do} Avoid: {lesson.avoid}" if lesson.avoid else lesson.do


def _covers(scope: str, value: str | None, matches: Callable[[str, str], bool]) -> bool:
    return not scope or value is None or bool(value and matches(scope, value))


def _matches_name(scope: str, name: str) -> bool:
    return fnmatchcase(name.lower(), scope.lower())


def _matches_repo(scope: str, repo: str) -> bool:
    """Match the repository's own name if the scope has no slash, whoever owns it."""
    return fnmatchcase(repo if "/" in scope else repo.rpartition("/")[2], scope)


def _matches_path(scope: str, path: str) -> bool:
    path = path.replace("\\", "/")
    return fnmatchcase(path, scope) or fnmatchcase(path, f"*/{scope}")
