"""Drafts of lessons: what a miner's `draft()` is given and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from .values import Case, Pattern

MAX_EVIDENCE = 12
"""Events that a lesson names: enough to look at, and its file stays short."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A lesson as a miner proposes it.

    The fields have the names and meanings of those of `Lesson`.
    """

    id: str
    kind: str
    when: str
    do: str
    avoid: str = ""
    agent: str = ""
    repo: str = ""
    tool: str = ""
    fingerprint: str = ""
    family: tuple[str, ...] = ()
    about: str = ""
    key: str = ""
    error: str = ""
    """The text of the error that it is about, as far as it is known. Not part of the lesson."""
    evidence: tuple[str, ...] = ()
    signals: int = 0
    sessions: int = 0
    helped: int = 0
    confidence: float = 0.0
    last_at: str = ""


class Group(msgspec.Struct, frozen=True):
    """A pattern, and the sessions to draft a lesson from."""

    pattern: Pattern
    all_cases: Mapping[str, Case]
    """Every session by uid, whether or not it shows the pattern."""
    min_sessions: int
    """Independent tasks that the advice must have helped in."""
    family_of: Mapping[str, str] = {}
    """The family of each error, by fingerprint."""

    @property
    def cases(self) -> list[Case]:
        """Return the sessions that show the pattern, by uid."""
        return [self.all_cases[uid] for uid in self.pattern.uids if uid in self.all_cases]


def hash_id(*parts: str) -> str:
    """Return an id for what consists of these parts, in any order."""
    return blake2b(
        "\0".join(sorted(set(parts))).encode("utf-8", "replace"), digest_size=6
    ).hexdigest()


def only_one(names: tuple[str, ...] | list[str]) -> str:
    """Return the only name, or an empty text.

    It limits a lesson to the one place it was noticed in: elsewhere the advice may be wrong.
    """
    return names[0] if len(names) == 1 else ""
