"""What became of tool calls, by the log's ledger: `tool_started`, `tool_waiting` and
`tool_finished` records.

Only asked for calls that have no result in view. Lines that are no part of the ledger are told by
their bytes and not decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..model import LogRecord
from ._reader import LogReader
from .liveness import Owner, judge
from .views import Fate, ToolCall

MARK = b'"t":"tool_'
TYPES = frozenset({"tool_started", "tool_waiting", "tool_finished"})


def fates(
    reader: LogReader,
    calls: list[ToolCall],
    seq: int,
    position: int,
    *,
    tells_starts: bool,
    is_elsewhere: bool,
) -> list[ToolCall]:
    """The calls with what the ledger says of them between record `seq`, which holds the first, and
    `position`.

    `tells_starts`: who writes this log says when tools begin, so silence means that one did not.
    `is_elsewhere`: another process holds the session's lease, so what looks interrupted is in its
    hands.
    """
    said: dict[str, dict[str, LogRecord]] = {call.call_id: {} for call in calls}
    for record in _ledger(reader, seq):
        id = record.payload.get("call_id")
        if isinstance(id, str) and id in said and seq < record.seq <= position:
            _note(said[id], record)
    return [_told(call, said[call.call_id], tells_starts, is_elsewhere) for call in calls]


def _note(said: dict[str, LogRecord], record: LogRecord) -> None:
    if record.type == "tool_started":  # A call that is run again begins anew.
        said.pop("tool_finished", None)
        said.pop("tool_waiting", None)
    said[record.type] = record


def _told(
    call: ToolCall, said: dict[str, LogRecord], tells_starts: bool, is_elsewhere: bool
) -> ToolCall:
    started, finished = said.get("tool_started"), said.get("tool_finished")
    replay = started.payload.get("replay") if started else None
    about: dict[str, Any] = {
        "replay": replay if replay in ("never", "safe") else "never",
        "has_begun": started is not None,
    }
    if finished is not None:
        about |= {
            "output": finished.payload.get("output"),
            "is_error": finished.payload.get("is_error") is True,
        }
    return msgspec.structs.replace(call, fate=_fate(said, tells_starts, is_elsewhere), **about)


def _fate(said: dict[str, LogRecord], tells_starts: bool, is_elsewhere: bool) -> Fate:
    if "tool_finished" in said:
        return "settled"
    if "tool_waiting" in said:
        return "waiting"
    if "tool_started" in said:
        return (
            "running"
            if is_elsewhere or _is_alive(said["tool_started"].payload.get("owner"))
            else "unknown"
        )
    if is_elsewhere:
        return "running"
    return "not_started" if tells_starts else "unknown"


def _is_alive(owner: Any) -> bool:
    try:
        return judge(msgspec.convert(owner, Owner)) == "alive"
    except (ValueError, TypeError):
        return False


def _ledger(reader: LogReader, seq: int) -> Iterator[LogRecord]:
    start = reader.find(lambda n, _: n <= seq) if seq >= 0 else 0
    for offset, lines in reader.blocks(start):
        for line in lines:
            if MARK in line:
                yield from reader.decode(line, offset)
            offset += len(line) + 1
