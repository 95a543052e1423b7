"""The fold over a live session log: the name of a record, what it follows, and the numbers of its
events.

Knows nothing of the meaning of a record; `reader.py` does, and calls `emit` for every event. The
traps of the format are in the package's docstring.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar, Unpack
from urllib.parse import unquote
from zlib import crc32

from ...model import Call, SessionEvent, Usage, parse_time
from .. import Facts, Normalized, Source
from ..shared.fold import REFUSALS, AllFields, Fold, keep, load
from ..shared.jsonl import lenient
from ..shared.tools import cap, one_line, text_of
from .lines import CARRY, LAST_SEQ, Batch, Line, State, is_on, is_whole, kind_of, path, records_of
from .messages import headline
from .usage import spent_of, usage_of

OUTPUTS = 16  # Files with the whole of an output that are held for one line.
# How much is remembered between two reads, the oldest going first.
CALLS, SKILLS, NODES, REWINDS = 256, 256, 256, 1024


class LogFold(Fold[State]):
    """A fold over the lines of one log. The events of a record are held until it ends: only then it
    is known what they are called."""

    handlers: ClassVar[Mapping[str, Callable[[Any, str, dict[str, Any]], None]]]

    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, State, CARRY))
        self.native = _id_of(os.path.basename(os.path.dirname(source.path)))
        self.outputs: dict[str, str] = {}
        # The events of the current record: their fields, and their texts.
        self.pending: list[tuple[dict[str, Any], str]] = []
        self.usage: Usage | None = None
        self.spent: dict[str, Any] | None = None
        self.is_node = False
        self.moved: str | None = None  # The event that the current record moves the head to.

    def stream_uid(self) -> str:
        return self.uid(self.native)

    def other(self, kind: str, payload: dict[str, Any]) -> None:
        """Add a record that has no rule of its own as it is."""
        self.emit("lifecycle", text_of(payload), kind, headline(kind, payload))

    def sidecar(self, name: str, data: bytes) -> None:
        keep(self.outputs, name.partition(":")[2], data.decode("utf-8", "replace"), OUTPUTS)

    def end_record(self) -> None:
        self.outputs = {}

    def record(self, data: bytes) -> None:
        if not is_whole(data):
            self.skip("the checksum does not fit")
        try:
            lines = records_of(data)
        except REFUSALS:
            self.tolerate(data)
            return
        self.take_lines(lines)

    def take_lines(self, lines: list[Line]) -> None:
        for line in lines:
            self.take_line(line)
        if not lines:
            self.merge("empty")

    def take_damaged(self, value: dict[str, Any], text: str) -> list[str]:
        batch, problems = lenient(Batch, value)
        lines = batch.b
        if lines is None:
            line, problems = lenient(Line, value)
            lines = [line]
        self.take_lines(lines)
        return problems

    def strange(self, text: str, reason: str, native: str = "malformed") -> None:
        self.begin_line()
        self.emit("lifecycle", text, native, reason)
        self.end_line(self.name(self.offset, text))
        self.skip(reason)

    # The name of a record, and its place in the conversation.

    def take_line(self, line: Line) -> None:
        state = self.state
        kind, payload = kind_of(line, self.handlers), line.p
        self.begin_line(line.d)
        seq = line.n
        if seq is None or not 0 <= seq < LAST_SEQ:
            seq = state.last + 1
        is_new = seq > state.last
        name = (
            line.i if line.i and is_new else self.name(seq, f"{line.i} {kind} {text_of(payload)}")
        )
        state.last = max(state.last, seq)
        if state.first is None:
            state.first = name
            self.is_node = True  # Whatever it is: all else follows it.
        if payload is None:
            self.emit("lifecycle", "", kind, f"{one_line(kind)} record without content")
        elif (handler := self.handlers.get(kind)) is not None:
            handler(self, kind, payload)
        else:
            self.other(kind, payload)
        if self.is_node and is_new:
            self.take_back(seq)
            state.nodes.append((seq, name))
            del state.nodes[:-NODES]
            state.said, state.redo = seq, []
        self.end_line(name)
        if is_new:
            self.out.aliases[f"{self.native}/{seq}"] = state.head

    def take_back(self, seq: int) -> None:
        """Retract the other branches with the first message after a rewind."""
        state = self.state
        if not self.pending or not state.starts or state.starts[-1] < state.said:
            return
        here = path(state, seq)
        left = tuple([name for n, name in state.nodes if not is_on(n, here)])
        fields, _ = self.pending[0]
        if left and fields.get("view") is None:
            fields |= {"view": "retract", "refs": left}

    def go_to(self, position: int) -> None:
        """Continue the conversation after another record."""
        state = self.state
        state.starts = [*state.starts[1 - REWINDS :], state.last]
        state.parents = [*state.parents[1 - REWINDS :], position]
        self.moved = f"{self.native}/{position}" if position >= 0 else state.first

    def name(self, seq: int, content: str) -> str:
        """Return a name for a record that has none, or whose number was used before."""
        return f"{self.native}/{seq}~{crc32(content.encode('utf-8', 'replace')):08x}"

    def begin_line(self, ts: datetime | None = None) -> None:
        self.pending, self.usage, self.spent, self.is_node, self.moved = [], None, None, False, None
        self.ts = None if ts is None else utc(ts)
        if (
            self.state.forked_at is not None
            and self.ts is not None
            and self.ts > self.state.forked_at
        ):
            self.state.forked_at = None  # From here on it is the fork's own.

    def emit(
        self,
        kind: str,
        body: str,
        native: str,
        summary: str | None = None,
        role: str | None = None,
        tool: str | None = None,
        call_id: str | None = None,
        action: str | None = None,
        part: int | str | None = None,
        **fields: Unpack[AllFields],
    ) -> str:
        """Hold an event of the current record. It gets its name and number when the record ends."""
        self.room -= 1
        if self.room < 0:
            return ""
        body = cap(body)
        if self.usage is not None:
            fields["usage"], fields["tokens"] = self.usage, self.usage.total
            fields["model"] = fields.get("model") or self.state.model
            self.usage = None
        held: dict[str, Any] = {
            **fields,
            "kind": kind,
            "native": native,
            "role": role,
            "summary": one_line(body if summary is None else summary),
            "tool": tool,
            "call_id": call_id,
            "action": action,
        }
        self.pending.append((held, body))
        return ""

    def spend(self, usage: Any, about: Mapping[str, Any]) -> None:
        """Note the usage of the current record: its first event gets it at once, the ledger when
        the record ends."""
        self.usage = usage_of(usage)
        self.spent = spent_of(self.usage, usage, about) if self.usage is not None else None

    def end_line(self, name: str) -> None:
        """Number and link the record's events. Those of the conversation follow its head, and the
        last one becomes its head."""
        state, out = self.state, self.out
        parent = state.head
        last = len(self.pending) - 1
        if self.spent is not None:
            # A record has the same name in every fork that copied it.
            first = name if self.is_node and last <= 0 else f"{name}#0"
            model = (self.spent.pop("model") or state.model or "")[:200] or None
            out.calls.append(
                (
                    Call(
                        key=name,
                        session_uid=self.stream_uid(),
                        ts=self.ts,
                        model=model,
                        **self.spent,
                    ),
                    first,
                )
            )
        for n, (fields, body) in enumerate(self.pending):
            own = name if self.is_node and n == last else f"{name}#{n}"
            event = SessionEvent(
                session_uid=self.stream_uid(),
                seq=state.seq,
                ts=self.ts,
                native_id=own,
                record=self.number,
                **fields,
            )
            is_copy = state.forked_at is not None and name != state.first
            self.add(event, body, parent, own if is_copy else None)
            parent = own
            state.seq += 1
        if self.is_node and self.pending:
            state.head = name
        elif self.moved is not None:
            state.head = self.moved

    def finish(self) -> Normalized:
        state, out = self.state, self.out
        if state.records:
            title, rank = self.title
            out.facts[self.stream_uid()] = Facts(
                native_session_id=self.native, title=title, title_rank=rank, cwd=state.cwd,
                git_branch=state.branch, model=state.model,
                parent_uid=state.parent, parent_call=state.parent_call, relation=state.relation,
            )  # fmt: skip
        return self.pack()


def _id_of(folder: str) -> str:
    """Return the id of a session: in the name of its folder some characters are encoded."""
    id = unquote(folder)
    return id if id.isprintable() and id == id.strip() else folder


def utc(moment: datetime) -> datetime | None:
    try:
        return parse_time(moment)
    except ValueError:  # An offset that leads out of the calendar.
        return None
