"""One thing that happened in a session, and the closed sets of what can happen."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, ClassVar, Literal, Self, get_args

from msgspec.structs import force_setattr

from ..errors import ModelError
from .calls import Usage
from .value import Plain, Value, check_times, check_types

Kind = Literal[
    "user_msg", "assistant_msg", "thinking", "tool_call", "tool_result", "error", "test_run",
    "edit", "retry",
    "human_intervention", "decision", "lifecycle", "completion",
]  # fmt: skip
View = Literal["context", "summary", "compact", "clear", "retract"]

KINDS: frozenset[str] = frozenset(get_args(Kind))
CALL_KINDS: frozenset[str] = frozenset({"tool_call", "edit", "test_run"})
"""`edit` and `test_run` are tool calls with a more precise name: tool calls are all three."""

BLOCK = 1 << 20
"""The number of sequence numbers that one native stream may use before it needs a further block."""

SUMMARY_LENGTH = 160
"""Length of a stored summary or title. Adapters supply longer ones, because a secret that is cut in
half is no longer recognized."""


class Tests(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """The counts that a test run reported. None means that the output did not say."""

    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None


class SessionEvent(Value, frozen=True, kw_only=True, gc=False):
    """One thing that happened: a native block of the transcript.

    Its text is stored apart, as its body. `parent_seq` is always smaller than `seq`, so the events
    of a session form a forest and never a cycle. `view` says what an event does to the model's
    context, for the kinds that are otherwise not part of it: `context` (the model saw this text),
    `summary` (it replaces what was compacted), `compact` (everything before leaves, except the
    native ids in `refs`, which then come in this order), `clear` (the results of the calls in
    `refs` were emptied), `retract` (the native ids in `refs` were taken back).
    """

    TIMES: ClassVar[frozenset[str]] = frozenset({"ts"})

    session_uid: str
    seq: int
    """`session_uid#seq` names the event for good."""
    ts: datetime | None = None
    kind: str = "lifecycle"
    parent_seq: int | None = None
    """The event that it follows."""
    role: str | None = None
    tool: str | None = None
    summary: str | None = None
    payload_ref: str | None = None
    tokens: int = 0
    is_sidechain: bool = False
    native_id: str | None = None
    call_id: str | None = None
    """Pairs a call with its result."""
    action: str | None = None
    """shell, read, edit, search, web, agent, plan, mcp, other. Of a record that changes the status
    of a run: run:resume, run:pause, run:complete, run:fail, run:cancel."""
    is_error: bool = False
    exit_code: int | None = None
    duration_ms: int | None = None
    files: tuple[str, ...] = ()
    cwd: str | None = None
    git_branch: str | None = None
    model: str | None = None
    native: str | None = None
    """The agent's own word for it."""
    origin: str | None = None
    """`uid#seq` where it happened, if this is a copy."""
    usage: Usage | None = None
    tests: Tests | None = None
    view: str | None = None
    """What it does to the model's context: context, summary, compact, clear, retract."""
    refs: tuple[str, ...] = ()
    is_gone: bool = False
    """True if the agent's transcript does not have it any more."""
    record: int | None = None
    """The native record that it came from."""

    def __post_init__(self) -> None:
        check_types(self)
        if self.kind not in KINDS:
            raise ModelError(f"kind {self.kind!r} is not one of {', '.join(sorted(KINDS))}")
        if self.seq < 0:
            raise ModelError(f"seq {self.seq} must not be negative")
        if self.parent_seq is not None and not 0 <= self.parent_seq < self.seq:
            raise ModelError(
                f"parent_seq {self.parent_seq} must be smaller than seq {self.seq}, and not"
                " negative"
            )
        ts = self.ts
        if ts is not None and ts.tzinfo is not UTC:
            check_times(self)

    @property
    def is_call(self) -> bool:
        return self.kind in CALL_KINDS

    @classmethod
    def _load(cls, known: dict[str, Any], extra: dict[str, Any]) -> Self:
        kind = known.get("kind", "lifecycle")
        if not isinstance(kind, str) or kind in KINDS:
            return super()._load(known, extra)
        # A kind of a newer runlore cannot be built by the constructor, but it is kept.
        event = super()._load({**known, "kind": "lifecycle"}, extra)
        force_setattr(event, "kind", kind)
        return event


def is_injected(kind: str, view: str | None) -> bool:
    """Return True for text that the agent's program added by itself: listings of skills, reminders,
    output of hooks, notes.

    Adapters mark it by its kind. Nobody said it, and no tool returned it. The summary of a
    compaction is the model's own.
    """
    return kind == "lifecycle" and view in (None, "context")


@lru_cache(maxsize=256)
def is_own(tool: str | None) -> bool:
    """Return True for a tool of runlore's own MCP server, or for a line of one of our hooks.

    Agents may call the tool by any name that ends like ours (`mcp__runlore__search`); the line of a
    hook has the tool `runlore`. The answers are recorded like everything else, but they are no
    evidence: otherwise a search would find answers.
    """
    if tool is None or "runlore" not in tool.lower():  # This decides nearly all cases.
        return False
    return _OWN.search(tool.lower()) is not None


_OWN = re.compile(
    r"\Arunlore\Z|(?<![a-z0-9])runlore[_.:/-]+"
    r"(?:search|sessions|show|file|commit|usage|fix|lessons|propose_lesson)\Z"
)


def shorten(text: str) -> str:
    """Return a summary or a title in the length in which it is stored and shown."""
    return text if len(text) <= SUMMARY_LENGTH else text[: SUMMARY_LENGTH - 1] + "…"
