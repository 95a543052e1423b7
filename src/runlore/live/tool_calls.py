"""The fate of tool calls, from the records `tool_started`, `tool_waiting`, `tool_decided` and
`tool_finished`.

It is looked up only for calls that have no result in view. Other records are not decoded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..model import LogRecord, Plain
from .backend import SessionLog
from .liveness import Owner, judge
from .views import Fate, ToolCall

TYPES = frozenset({"tool_started", "tool_waiting", "tool_decided", "tool_finished"})


class Recovery(Plain, frozen=True):
    """The calls that have no result in the conversation after a crash, by what is known of them."""

    calls: list[ToolCall]

    def of(self, fate: str) -> list[ToolCall]:
        return [call for call in self.calls if call.fate == fate]

    @property
    def settled(self) -> list[ToolCall]:
        """Calls that finished according to the log; the view shows their output."""
        return self.of("settled")

    @property
    def not_started(self) -> list[ToolCall]:
        return self.of("not_started")

    @property
    def waiting(self) -> list[ToolCall]:
        """Calls that someone has yet to decide about."""
        return self.of("waiting")

    @property
    def approved(self) -> list[ToolCall]:
        """Calls that were approved and have not begun. `decision` is what was said."""
        return self.of("approved")

    @property
    def refused(self) -> list[ToolCall]:
        """Calls that were refused; the view shows that to the model."""
        return self.of("refused")

    @property
    def unknown(self) -> list[ToolCall]:
        """Calls that began and may not have ended. `replay` says whether they may be run again."""
        return self.of("unknown")


def find_fates(
    log: SessionLog,
    calls: list[ToolCall],
    seq: int,
    position: int,
    *,
    tells_starts: bool,
    is_elsewhere: bool,
    output_of: Callable[[dict[str, Any]], Any],
) -> list[ToolCall]:
    """Return the calls with their fate between record `seq`, which holds the first, and `position`.

    `tells_starts`: the writer of this log records when tools begin, so a call without that record
    has not begun. `is_elsewhere`: another process holds the lease, so what looks interrupted may be
    running there. `output_of`: the output in the payload of a record.
    """
    notes: dict[str, dict[str, LogRecord]] = {call.call_id: {} for call in calls}
    for record, _ in log.scan_types(log.position_of(seq), TYPES):
        id = record.payload.get("call_id") if record.type in TYPES else None
        if isinstance(id, str) and id in notes and seq < record.seq <= position:
            _note(notes[id], record)
    return [
        _with_fate(call, notes[call.call_id], tells_starts, is_elsewhere, output_of)
        for call in calls
    ]


def _note(notes: dict[str, LogRecord], record: LogRecord) -> None:
    if record.type == "tool_started":  # A call that is run again starts over.
        notes.pop("tool_finished", None)
    if record.type in ("tool_started", "tool_decided"):
        notes.pop("tool_waiting", None)
    notes[record.type] = record


def _with_fate(
    call: ToolCall,
    notes: dict[str, LogRecord],
    tells_starts: bool,
    is_elsewhere: bool,
    output_of: Callable[[dict[str, Any]], Any],
) -> ToolCall:
    started, finished = notes.get("tool_started"), notes.get("tool_finished")
    decided = notes.get("tool_decided")
    replay = started.payload.get("replay") if started else None
    about: dict[str, Any] = {
        "replay": replay if replay in ("never", "safe") else "never",
        "has_begun": started is not None,
    }
    if decided is not None:
        by = decided.payload.get("by")
        about |= {
            "decided_by": by if isinstance(by, str) else "",
            "decision": decided.payload.get("payload"),
        }
    if finished is not None:
        about |= {
            "output": output_of(finished.payload),
            "is_error": finished.payload.get("is_error") is True,
        }
    return msgspec.structs.replace(call, fate=_fate(notes, tells_starts, is_elsewhere), **about)


def _fate(notes: dict[str, LogRecord], tells_starts: bool, is_elsewhere: bool) -> Fate:
    if "tool_finished" in notes:
        return "settled"
    if "tool_waiting" in notes:
        return "waiting"
    started, decided = notes.get("tool_started"), notes.get("tool_decided")
    if decided is not None and (started is None or started.seq < decided.seq):
        if decided.payload.get("approved") is not True:
            return "refused"
        if started is None:
            return "approved"
    if started is not None:
        is_running = is_elsewhere or _is_alive(started.payload.get("owner"))
        return "running" if is_running else "unknown"
    if is_elsewhere:
        return "running"
    return "not_started" if tells_starts else "unknown"


def _is_alive(owner: Any) -> bool:
    try:
        return judge(msgspec.convert(owner, Owner)) == "alive"
    except (ValueError, TypeError):
        return False
