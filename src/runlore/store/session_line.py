"""A session as a line of a list. In a module of its own, because a list needs no other value."""

from __future__ import annotations

import msgspec


class SessionLine(msgspec.Struct, frozen=True, gc=False):
    """A session as a line of a list: plain data, cheap to create by the thousand."""

    uid: str
    agent: str
    title: str | None
    repo: str | None
    domain: str | None
    cwd: str | None
    branch: str | None
    model: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str
    outcome_level: str
    """How the outcome is known: verified, observed, said, unknown."""
    outcome_by: str
    """The kind of evidence: mark, run, merged, reverted, ci, test …"""
    task_ref: str | None
    machine: str | None
    parent_uid: str | None
    relation: str | None
    events: int
    errors: int
    turns: int
    retries: int
    wall_clock_s: float
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    usd: float | None
    source_path: str | None
    source_bytes: int
    source_missing_at: str | None
    ingested_at: str | None
    quality: str | None = None
    evicted_at: str | None = None
    author: str | None = None
    """Whose session it is, in a store that several people share."""
    subagents: int = 0
    """The number of subagents below it."""
    errors_with_subagents: int = 0
    """Its errors and those of all subagents below it."""
    tokens_with_subagents: int = 0
    """The tokens of its calls and of those of all subagents below it."""
    usd_with_subagents: float | None = None
    """The cost of its calls and of those of all subagents below it; null if no price is known."""
    unpriced_with_subagents: int = 0
    """The number of these calls whose price is not known: the cost is without them."""
    unpriced: int = 0
    """The number of its own calls whose price is not known."""

    @property
    def tokens(self) -> int:
        """All tokens of its own calls."""
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
        )
