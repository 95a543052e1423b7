"""The fold over a live session log: what a record is called, what it follows, and which number its
events get.

Knows nothing of what a record says; `reader.py` does, and calls `emit` for every event. The traps
of the format are told in `runlore.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar, TypeVar
from zlib import crc32

import msgspec

from ...model import Call, SessionEvent, Usage, parse_time
from .. import Facts, Normalized, Record, Skip, Source
from ..shared.fold import keep, load
from ..shared.jsonl import MALFORMED, lenient, parse
from ..shared.tools import cap, one_line, text_of
from . import words
from .lines import CARRY, LAST_SEQ, Batch, Line, State, is_on, is_whole, kind_of, path, records_of

OUTPUTS = 16  # Files with the whole of an output that are held for one line.
MOST_EVENTS = 10_000  # Of one line; a line of a million blocks would take gigabytes.
# How much is remembered between two reads, the oldest going first.
CALLS, SKILLS, NODES, REWINDS = 256, 256, 256, 1024

V = TypeVar("V")


class Fold:
    """A fold over the lines of one log. All that outlives a batch is in `state`."""

    handlers: ClassVar[Mapping[str, Callable[[Any, str, dict[str, Any]], None]]]

    def __init__(self, source: Source, carry: bytes | None) -> None:
        self.native = os.path.basename(os.path.dirname(source.path))
        self.flavor = source.agent
        self.uid = f"{self.flavor}:{self.native}"
        self.state = load(carry, State, CARRY)
        self.out = Normalized()
        self.outputs: dict[str, str] = {}
        self.title: tuple[str, int] | None = None
        # The events of the record at hand: their fields, and their texts.
        self.pending: list[tuple[dict[str, Any], str]] = []
        self.room = MOST_EVENTS
        self.ts: datetime | None = None
        self.usage: Usage | None = None
        self.spent: dict[str, Any] | None = None
        self.is_node = False
        self.moved: str | None = None  # Where the record at hand moves the head.

    def other(self, kind: str, payload: dict[str, Any]) -> None:
        """What no rule understands, and all that needs none: kept as it is."""
        self.emit("lifecycle", text_of(payload), kind, words.headline(kind, payload))

    def run(self, records: Iterable[Record]) -> Normalized:
        for record in records:
            if record.aside is not None:
                keep(
                    self.outputs,
                    record.aside.partition(":")[2],
                    record.data.decode("utf-8", "replace"),
                    OUTPUTS,
                )
                continue
            self.state.records += 1
            self.room = MOST_EVENTS
            if record.problem is not None:
                self.strange(record.data.decode("utf-8", "replace"), record.problem, record.offset)
            else:
                self.line(record)
            self.outputs = {}
        return self.finish()

    def line(self, record: Record) -> None:
        if not is_whole(record.data):
            self.out.skips.append(Skip(record.offset, "the checksum does not fit"))
        try:
            lines = records_of(record.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.tolerate(record)
            return
        self.take_all(lines)
        if self.room < 0:
            self.left_out(record.offset)

    def take_all(self, lines: list[Line]) -> None:
        for line in lines:
            self.take(line)
        if not lines:
            self.merge("empty")

    def tolerate(self, record: Record) -> None:
        """A line that the typed decoder refuses."""
        values = parse(record.data)
        if not values:
            self.merge("blank")
        for value, text, problem in values:
            if not isinstance(value, dict):
                self.strange(
                    text,
                    problem or "not an object",
                    record.offset,
                    "malformed" if value is MALFORMED else "unknown",
                )
                continue
            batch, problems = lenient(Batch, value)
            lines = batch.b
            if lines is None:
                line, problems = lenient(Line, value)
                lines = [line]
            self.take_all(lines)
            if problem or problems:
                self.out.skips.append(
                    Skip(
                        record.offset,
                        "; ".join([problem, *problems] if problem else problems)[:500],
                    )
                )

    def strange(self, text: str, reason: str, offset: int, native: str = "malformed") -> None:
        self.begin()
        self.emit("lifecycle", text, native, reason)
        self.end(self.name(offset, text))
        self.out.skips.append(Skip(offset, reason))

    def left_out(self, offset: int) -> None:
        reason = f"{-self.room} more events of this record are left out"
        self.room = 1
        self.strange(reason, reason, offset, "left-out")

    # Which name, which place in the conversation.

    def take(self, line: Line) -> None:
        state = self.state
        kind, payload = kind_of(line, self.handlers), line.p
        self.begin(line.d)
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
        self.end(name)
        if is_new:
            self.out.aliases[f"{self.native}/{seq}"] = state.head

    def take_back(self, seq: int) -> None:
        """Whoever speaks first after a rewind makes it good: all that was said on other ways than
        this one is taken back."""
        state = self.state
        if not self.pending or not state.starts or state.starts[-1] < state.said:
            return
        here = path(state, seq)
        left = tuple([name for n, name in state.nodes if not is_on(n, here)])
        fields, _ = self.pending[0]
        if left and fields.get("view") is None:
            fields |= {"view": "retract", "refs": left}

    def go_to(self, position: int) -> None:
        """The conversation goes on from another place."""
        state = self.state
        state.starts = [*state.starts[1 - REWINDS :], state.last]
        state.parents = [*state.parents[1 - REWINDS :], position]
        self.moved = f"{self.native}/{position}" if position >= 0 else state.first

    def name(self, seq: int, content: str) -> str:
        """The name of a record that has none of its own, or whose number was given before."""
        return f"{self.native}/{seq}~{crc32(content.encode('utf-8', 'replace')):08x}"

    def begin(self, ts: datetime | None = None) -> None:
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
        **more: Any,
    ) -> None:
        """One event of the record at hand. It gets its name and number when the record ends."""
        self.room -= 1
        if self.room < 0:
            return
        body = cap(body)
        if self.usage is not None:
            more |= {
                "usage": self.usage,
                "tokens": self.usage.total,
                "model": more.get("model") or self.state.model,
            }
            self.usage = None
        more |= {
            "kind": kind,
            "native": native,
            "role": role,
            "summary": one_line(body if summary is None else summary),
        }
        self.pending.append((more, body))

    def spend(self, usage: Any, about: Mapping[str, Any]) -> None:
        """What the model took for the record at hand: its first event says so, and the ledger is
        told when the record ends."""
        self.usage = words.usage_of(usage)
        self.spent = words.spent_of(self.usage, usage, about) if self.usage is not None else None

    def end(self, name: str) -> None:
        """Numbers and links the record's events. Those of the conversation go on from its head and
        are its head then."""
        state, out = self.state, self.out
        parent = state.head
        last = len(self.pending) - 1
        if self.spent is not None:
            # A record has the same name in every fork that took it along.
            first = name if self.is_node and last <= 0 else f"{name}#0"
            model = (self.spent.pop("model") or state.model or "")[:200] or None
            out.calls.append(
                (Call(key=name, session_uid=self.uid, ts=self.ts, model=model, **self.spent), first)
            )
        for n, (fields, body) in enumerate(self.pending):
            own = name if self.is_node and n == last else f"{name}#{n}"
            event = SessionEvent(
                session_uid=self.uid,
                seq=state.seq,
                ts=self.ts,
                native_id=own,
                record=state.records - 1,
                **fields,
            )
            out.events.append(event)
            out.bodies.append(body)
            out.parents.append(parent)
            out.originals.append(None if state.forked_at is None or name == state.first else own)
            parent = own
            state.seq += 1
        if self.is_node and self.pending:
            state.head = name
        elif self.moved is not None:
            state.head = self.moved

    def name_session(self, text: str, rank: int) -> None:
        line = one_line(text)
        if line and (self.title is None or rank >= self.title[1]):
            self.title = line, rank

    def merge(self, word: str) -> None:
        self.out.merged[word] = self.out.merged.get(word, 0) + 1

    def finish(self) -> Normalized:
        state, out = self.state, self.out
        if state.records:
            title, rank = self.title or (None, 0)
            out.facts[self.uid] = Facts(
                native_session_id=self.native, title=title, title_rank=rank, cwd=state.cwd,
                git_branch=state.branch, model=state.model,
                parent_uid=state.parent, relation=state.relation,
            )  # fmt: skip
        out.carry = msgspec.msgpack.encode(state)
        return out


def utc(moment: datetime) -> datetime | None:
    try:
        return parse_time(moment)
    except ValueError:  # An offset that leads out of the calendar.
        return None
