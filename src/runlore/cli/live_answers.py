"""The JSON answers of `runlore live`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from ..live.checkpoints import Difference
from ..live.importers import Imported
from ..live.liveness import Stale, Verdict
from ..live.log import Branch
from ..live.state import Refusal, SessionState, Transition
from ..live.views import Entry, ToolCall
from ..model import LogRecord


class LiveSessionLine(msgspec.Struct, frozen=True, kw_only=True):
    """A live session in a listing."""

    id: str
    title: str
    status: str | None
    """active, paused, completed, failed, cancelled; null if it has no run."""
    attention: tuple[str, ...] = ()
    """Why it needs a look: failed, retries, slow, tokens, steps."""
    owner: Verdict | None = None
    """The state of its process; null if it has none."""
    agent: str | None
    provider: str | None
    model: str | None
    cwd: str | None
    created_at: datetime
    updated_at: datetime
    messages: int
    seq: int
    """The number of its last record."""
    origin: dict[str, Any] | None
    """The origin of a fork: session, record, seq."""


class ShownMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message in view. One that the view made has no record: seq, id and ts are null."""

    seq: int | None
    id: str | None
    ts: datetime | None
    message: dict[str, Any]
    """As the agent wrote it."""

    @classmethod
    def of(cls, entry: Entry) -> ShownMessage:
        record = entry.record
        return cls(
            seq=record.seq if record else None,
            id=record.id if record else None,
            ts=record.ts if record else None,
            message=entry.message,
        )


class OpenCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call without a result."""

    PRESENTS: ClassVar = (ToolCall,)

    call_id: str
    name: str
    fate: str
    """The known state of the call."""
    replay: str
    """never, or safe if it may be run again."""


class LogDamage(msgspec.Struct, frozen=True, kw_only=True):
    """A place of the log that could not be read."""

    offset: int
    size_bytes: int
    reason: str
    lost: tuple[int, int] | None
    """First and last seq of the records that are lost there, if any."""


class ShownConversation(msgspec.Struct, frozen=True, kw_only=True):
    """The messages that the model should see now, or saw at a record."""

    session: LiveSessionLine
    messages: list[ShownMessage]
    open_calls: list[OpenCall]
    branches: list[Branch]
    problems: list[LogDamage]


class ShownRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of the log."""

    PRESENTS: ClassVar = (LogRecord,)

    seq: int
    id: str
    ts: datetime
    type: str
    key: str | None
    """The writer's own key."""
    epoch: int | None
    """The lease under which it was written."""
    payload: dict[str, Any]

    @classmethod
    def of(cls, record: LogRecord) -> ShownRecord:
        return cls(**msgspec.structs.asdict(record))


class ShownState(SessionState, frozen=True, kw_only=True):
    """The state of a run. Fields that a newer version wrote are beside these.

    It is printed as `to_dict` writes it, with what is computed.
    """

    duration_ms: int
    is_resumable: bool
    is_resumable_from_checkpoint: bool
    attention: tuple[str, ...]
    """Why it needs a look: failed, retries, slow, tokens, steps."""
    owner_verdict: Verdict | None
    """The state of its process; null if it has none."""
    refused: tuple[Refusal, ...]


class StatusChange(Transition, frozen=True, kw_only=True, omit_defaults=False):
    """A change of status."""


class CheckpointDifference(Difference, frozen=True, kw_only=True, omit_defaults=False):
    """The differences between two checkpoints, seen from the second."""


class StaleRun(Stale, frozen=True, kw_only=True, omit_defaults=False):
    """A session whose process died, or is silent."""


class Rewind(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a rewind."""

    session: str
    seq: int
    """The number of the rewind's own record."""
    messages: int
    """Number of messages in view now."""


class Fork(msgspec.Struct, frozen=True, kw_only=True):
    """A new session that began as a fork."""

    session: str
    origin: dict[str, Any] | None
    """The origin of a fork: session, record, seq."""


class ChangedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was changed."""

    session: str
    seq: int | None
    """The number of the record that changed it; null if it was deleted."""


class ImportProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an old log that could not be carried over as it was."""

    offset: int
    reason: str


class ImportedLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log that was imported."""

    session: str
    added: int
    """The number of records that were not there before."""
    problems: list[ImportProblem]

    @classmethod
    def of(cls, imported: Imported) -> ImportedLog:
        problems = [
            msgspec.convert(one, ImportProblem, from_attributes=True) for one in imported.problems
        ]
        return cls(session=imported.session_id, added=imported.added, problems=problems)
