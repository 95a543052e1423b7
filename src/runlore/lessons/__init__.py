"""Lessons: what to do about something that keeps happening, with the evidence for it and what people decided.

`curate` proposes them from patterns, `shelf` keeps them as files, `rank` says which one to tell first. Here is the value, and it knows
neither a store nor an agent: hooks read lessons too, and are in a hurry, so little is imported.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

Status = Literal["proposed", "approved", "rejected", "retired", "superseded"]
By = Literal["mined", "person", "agent"]

EVIDENCE = 12
"""Events that are named: enough to look at, and the file stays short."""
DOUBTED_FROM = 3
"""Sessions after the decision that went another way, from which on a lesson is doubted: one or two may be an accident."""

SUBJECTS = {"retries": "retry_storm", "skill": "failing_skill"}
"""By kind of lesson, the type of the pattern that it is about."""


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided on is never overwritten: better advice is another lesson, which supersedes this one."""

    id: str
    status: Status = "proposed"
    problem: str
    resolution: str
    kind: str = "note"
    """error, flaky, retries, correction, slow, skill; note when it was written by hand."""
    by: By = "mined"
    agent: str = ""
    """This and the next three say where it applies; empty is anywhere."""
    repo: str = ""
    path: str = ""
    tool: str = ""
    fingerprint: str = ""
    """Of the error that it is about."""
    about: str = ""
    """Where it is about no error: the command, as it begins, or the skill."""
    key: str = ""
    """What the resolution comes down to: the same advice in other words has the same."""
    evidence: tuple[str, ...] = ()
    """As uid#seq, the newest first."""
    signals: int = 0
    sessions: int = 0
    """That have nothing to do with each other."""
    helped: int = 0
    """Of these sessions, those in which this resolution was the end of it."""
    confidence: float = 0.0
    """The lower bound of the share that it helped in."""
    kept: int = 0
    """This and the next count sessions after the decision: those that the resolution held in, and those that went another way."""
    broken: int = 0
    made_at: str = ""
    last_at: str = ""
    """When it was last seen."""
    decided_at: str = ""
    decided_by: str = ""
    why: str = ""
    """Of the decision, in the words of who made it."""
    edited: bool = False
    """By a person: then its words stay as they are."""
    supersedes: str = ""
    superseded_by: str = ""
    merged: tuple[str, ...] = ()
    """Lessons that said the same, and gave it their evidence."""
    notes: str = ""
    """What else stands in the file."""
    extra: dict[str, Any] = {}
    """What a newer runlore, or a person, has put into the front matter."""

    @property
    def subject(self) -> str:
        """What it is about: of several lessons on the same, one is told."""
        return self.fingerprint or (f"{SUBJECTS[self.kind]} {self.about}" if self.about and self.kind in SUBJECTS else "")

    @property
    def is_doubted(self) -> bool:
        """Whether later sessions contradict it."""
        return self.broken >= DOUBTED_FROM and self.broken > 2 * self.kept

    def is_ready(self, fewest: int) -> bool:
        """Whether it may be told to an agent. What was mined needs so many sessions; what somebody wrote was read by who approved it."""
        is_shown = bool(self.evidence and self.resolution) and (self.by != "mined" or self.sessions >= fewest)
        return self.status == "approved" and is_shown and not self.is_doubted

    def fits(self, *, agent: str | None = None, repo: str | None = None, path: str | None = None, tool: str | None = None) -> bool:
        """Whether it applies there. None is not known, and rules nothing out; "" is none."""
        return (
            _covers(self.agent, agent, _same)
            and _covers(self.repo, repo, _names)
            and _covers(self.path, path, _ends)
            and _covers(self.tool, tool, _same)
        )


def _covers(scope: str, asked: str | None, matches: Any) -> bool:
    return not scope or asked is None or bool(asked and matches(scope, asked))


def _same(scope: str, asked: str) -> bool:
    return fnmatchcase(asked.lower(), scope.lower())


def _names(scope: str, repo: str) -> bool:
    """A pattern without a slash is about the repository's own name, whoever owns it."""
    return fnmatchcase(repo if "/" in scope else repo.rpartition("/")[2], scope)


def _ends(scope: str, path: str) -> bool:
    path = path.replace("\\", "/")
    return fnmatchcase(path, scope) or fnmatchcase(path, f"*/{scope}")
