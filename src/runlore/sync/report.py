"""The result of a sync, and how its progress is reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec


class Progress(Protocol):
    """Receives the progress of a sync. The command line draws a line from it."""

    def start(self, total: int, size_bytes: int, what: str = "files") -> None:
        """Begin a stage: this many files and bytes to read, or this many digests to build."""

    def advance(self, count: int, size_bytes: int) -> None:
        """Count files and bytes, or digests, that are stored."""

    def close(self) -> None:
        """End the display, also after an error."""


class Report(msgspec.Struct, kw_only=True):
    """What a sync did, or would do."""

    found: dict[str, int] = msgspec.field(default_factory=dict)
    """Sources by what became of them."""
    agents: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of sources of each agent."""
    sessions: int = 0
    new_sessions: int = 0
    subagents: int = 0
    """How many of `sessions` are subagents, which a listing leaves out."""
    events: int = 0
    digests: int = 0
    """Digests made of sessions that changed and came to rest."""
    copies: int = 0
    """Events that are stored elsewhere."""
    merged: int = 0
    """Records that only add to others."""
    skipped: dict[str, int] = msgspec.field(default_factory=dict)
    """What was not understood, and is kept as it is."""
    redacted: dict[str, int] = msgspec.field(default_factory=dict)
    """Secrets by kind."""
    excluded: int = 0
    forgotten: int = 0
    size: int = 0
    seconds: float = 0.0
    problems: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """Pairs of a path and what was wrong."""
    dry_run: bool = False


def add_counts(totals: dict[str, int], more: Mapping[str, int]) -> None:
    """Add counts to totals of the same names."""
    for word, count in more.items():
        totals[word] = totals.get(word, 0) + count
