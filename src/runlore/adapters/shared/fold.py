"""The fold over the records of one source: decoding without trust, numbering and linking events,
counting what was left out, packing the carry.

Knows JSON and no agent's words. An agent's fold derives from `Fold`, or from one of the folds in
`stream.py`, and says in `line` what a record means.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack

import msgspec
from msgspec.structs import force_setattr

from ...errors import Rejected
from ...model import SessionEvent, Tests, Usage
from .jsonl import MALFORMED, parse
from .tools import cap, one_line, reminder_line, title_line
from .values import Normalized, Record, Skip, Source

# Events of one record. A real record has some hundreds; a line of a million blocks would take
# gigabytes.
MAX_EVENTS = 10_000
MAX_BATCH_EVENTS = 30_000  # Events of one batch. In real transcripts its 8 MB have a third of that.
MAX_GLUED = 64  # Positions in a damaged line at which a record is looked for.
MAX_REASON = 500  # Characters of the reason of a skip.
MAX_TIME_NS = 4 * 10**18  # The year 2096. A later time is damage.
REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
decode = msgspec.json.Decoder().decode


class Fields(TypedDict, total=False):
    """Fields of an event that only some events have."""

    is_error: bool
    exit_code: int | None
    duration_ms: int | None
    files: tuple[str, ...]
    tests: Tests | None
    view: str | None
    refs: tuple[str, ...]
    cwd: str | None
    git_branch: str | None
    is_sidechain: bool


class AllFields(Fields, total=False):
    """All fields of an event that only some events have, with usage where it comes in a record of
    its own."""

    model: str | None
    usage: Usage | None
    tokens: int
    extra: dict[str, Any]


class Remembered(Protocol):
    """The state of a fold, which is its carry: the number of its layout, and of the records that
    were read."""

    version: int
    records: int


class Stream(Protocol):
    """The end of one session's events: the next number, and the native id of the last one."""

    seq: int
    last: str | None


K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound=Remembered)


class Fold(Generic[R], metaclass=ABCMeta):
    """A fold over the records of one source. All that outlives a batch is in `state`; the rest is
    about the current record."""

    record_start = b""
    """The bytes that every record of this agent begins with, where that is known. A line that was
    cut off by a crash, and to which the next one was then glued, then costs only itself."""

    def __init__(self, source: Source, state: R) -> None:
        self.agent_name, self.source_path = source.agent, source.path
        self.state = state
        self.out = Normalized()
        self.title: tuple[str | None, int] = (None, 0)
        self.raw: str | bytes = b""
        self.offset = 0
        self.room = 0
        """How many more events the current record may give; below 0, how many it could not."""
        self.count = 0
        """How many events the current record has given."""
        self.ts: datetime | None = None
        self.native_id = ""
        self.parent: str | None = None
        """The native id that the next event follows."""
        self.original: str | None = None
        """The native id of the record that the current one is a copy of."""
        self.number = 0
        """The number of the current record; for a sidecar, that of the record before it."""

    # What an agent's fold says.

    def line(self, value: dict[str, Any]) -> None:
        """Add the events of a record. `take` calls it; a fold with a `take` or `record` of its own
        needs none."""
        raise NotImplementedError

    def sidecar(self, name: str, data: bytes) -> None:
        """Take in what a file beside the source says."""

    def stream(self) -> Stream:
        """Return the stream of the session that the current record belongs to. `put` calls it; a
        fold that numbers its events itself needs none."""
        raise NotImplementedError

    @abstractmethod
    def stream_uid(self) -> str:
        """Return the uid of that session."""

    def new_id(self) -> str:
        """Return a native id for a record that has none. A fold that names all records needs
        none."""
        raise NotImplementedError

    def annotate(self, fields: AllFields) -> None:
        """Add the fields that follow from the session to those of an event."""

    def end_record(self) -> None:
        """Forget what belongs to the current record."""

    def finish(self) -> Normalized:
        """Return the result, with facts about the sessions."""
        return self.pack()

    # Records.

    def run(self, records: Iterable[Record]) -> Normalized:
        """Return what these records mean. Raises Rejected when they give too many events."""
        for record in records:
            if len(self.out.events) > MAX_BATCH_EVENTS:
                reason = f"more than {MAX_BATCH_EVENTS:,} events at a time are no transcript"
                raise Rejected(self.source_path, reason)
            self.room, self.number = MAX_EVENTS, max(0, self.state.records - 1)
            if record.sidecar is not None:
                self.sidecar(record.sidecar, record.data)
                continue
            self.number = self.state.records
            self.state.records += 1
            self.offset = record.offset
            if record.problem is not None:
                self.strange(record.data.decode("utf-8", "replace"), record.problem)
            else:
                self.record(record.data)
            if self.room < 0:
                self._note_left_out()
            self.end_record()
        return self.finish()

    def record(self, data: bytes) -> None:
        """Decode a record and take it in."""
        try:
            value = decode(data)
        except REFUSALS:
            self.tolerate(data)
            return
        if isinstance(value, dict):
            self.take(value, data)
        else:
            self.strange(data.decode(), "not an object", "unknown")

    def take(self, value: dict[str, Any], raw: str | bytes) -> None:
        """Make an object the current record, and add its events."""
        self.begin(raw)
        self.line(value)

    def take_damaged(self, value: dict[str, Any], text: str) -> list[str]:
        """Take in an object that the strict decoder refused; return what is wrong with it."""
        self.take(value, text)
        return []

    def blank(self, data: bytes) -> None:
        """Count a line with nothing in it."""
        self.merge("blank")

    def tolerate(self, data: bytes) -> None:
        """Take in a line that the strict decoder refuses: blank, damaged, or several objects glued
        together."""
        values = parse(data)
        if not values:
            self.blank(data)
        if self.record_start and any(value is MALFORMED for value, _, _ in values):
            start = self._find_record(data)
            if start > 0:
                self.tolerate(data[:start])
                self.record(data[start:])
                return
        for value, text, problem in values:
            if isinstance(value, dict):
                problems = self.take_damaged(value, text)
                if problem or problems:
                    self.skip("; ".join([problem, *problems] if problem else problems)[:MAX_REASON])
            else:
                native = "malformed" if value is MALFORMED else "unknown"
                self.strange(text, problem or "not an object", native)

    def _find_record(self, line: bytes) -> int:
        """Return where a whole record begins behind one that was cut off; -1 if there is none."""
        start = line.find(self.record_start, 1)
        for _ in range(MAX_GLUED):
            if start < 0:
                break
            with suppress(*REFUSALS):
                decode(line[start:])
                return start
            start = line.find(self.record_start, start + 1)
        return -1

    def _note_left_out(self) -> None:
        reason = f"{-self.room} more events of this record are left out"
        self.room = 1
        self.strange(reason, reason, "left-out")

    def begin(self, raw: str | bytes) -> None:
        """Start a record, or an object of one."""
        self.raw, self.count, self.native_id, self.ts = raw, 0, "", None

    # Events.

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
        """Add an event of the current record, and return its native id. The events of a record are
        told apart by their number, or by the name of their part."""
        self.room -= 1
        if self.room < 0:
            return self.native_id
        if not self.native_id:
            self.native_id = self.new_id()
        part = self.count if part is None else part
        mark = f"#{part}" if part else ""
        return self.put(
            self.native_id + mark, kind, body, native, summary, role, tool, call_id, action,
            fields, None if self.original is None else self.original + mark,
        )  # fmt: skip

    def put(
        self,
        native_id: str,
        kind: str,
        body: str,
        native: str,
        summary: str | None,
        role: str | None,
        tool: str | None,
        call_id: str | None,
        action: str | None,
        fields: AllFields,
        original: str | None = None,
    ) -> str:
        """Number an event, link it to the one before it, and add it to the result; return its
        native id."""
        stream = self.stream()
        body = cap(body)
        self.annotate(fields)
        event = SessionEvent(
            session_uid=self.stream_uid(), seq=stream.seq, ts=self.ts, kind=kind, role=role,
            tool=tool, summary=one_line(body if summary is None else summary),
            native_id=native_id, call_id=call_id, action=action, native=native,
            record=self.number,
        )  # fmt: skip
        # Nobody else knows the event yet. More than fifteen arguments would be passed in a
        # dictionary, which costs as much as the event.
        for name, value in fields.items():
            force_setattr(event, name, value)
        self.add(event, body, self.parent, original)
        self.parent = stream.last = native_id
        stream.seq += 1
        self.count += 1
        return native_id

    def add(self, event: SessionEvent, body: str, parent: str | None, original: str | None) -> None:
        """Add an event to the result."""
        out = self.out
        out.events.append(event)
        out.bodies.append(body)
        out.parents.append(parent)
        out.originals.append(original)

    def remind(self, reminders: Iterable[str], call_id: str | None) -> None:
        """Add what the agent's program put behind the result of a call."""
        for text in reminders:
            self.emit(
                "lifecycle", text, "system-reminder", reminder_line(text), "user", None, call_id,
                view="context",
            )  # fmt: skip

    def strange(self, text: str, reason: str, native: str = "malformed") -> None:
        """Keep a record that cannot be understood as an event, and count it."""
        self.begin(text)
        self.emit("lifecycle", text, native, reason)
        self.skip(reason)

    def unknown(self, word: str | None) -> None:
        """Keep a record that no rule understands, with its own word."""
        self.emit("lifecycle", self.raw_text(), word or "unknown", word or "unknown record")

    def merge(self, word: str) -> None:
        """Count a record that is part of something else."""
        self.out.merged[word] = self.out.merged.get(word, 0) + 1

    def skip(self, reason: str) -> None:
        """Count the current record as not understood."""
        self.out.skips.append(Skip(self.offset, reason))

    def set_title(self, text: str | None, rank: int) -> bool:
        """Set the session's title, unless a better one is known; return True if it was set."""
        if rank < self.title[1] or not (line := title_line(text, rank)):
            return False
        self.title = line, rank
        return True

    # Helpers.

    def uid(self, session: str) -> str:
        """Return the uid of a session of this agent."""
        return f"{self.agent_name}:{session}"

    def raw_text(self) -> str:
        """Return the text of the current record."""
        raw = self.raw if isinstance(self.raw, str) else self.raw.decode("utf-8", "replace")
        return raw.strip()

    def raw_bytes(self) -> bytes:
        """Return the bytes of the current record."""
        return self.raw.encode("utf-8", "replace") if isinstance(self.raw, str) else self.raw

    def pack(self) -> Normalized:
        """Return the result, with the state as its carry."""
        self.out.carry = msgspec.msgpack.encode(self.state)
        return self.out


def load(carry: bytes | None, kind: type[R], layout: int) -> R:
    """Return the state that a carry holds, or a new one when it has another layout. The layout only
    changes with the adapter's version, which reads every source anew."""
    if carry:
        try:
            state = msgspec.msgpack.decode(carry, type=kind)
        except msgspec.DecodeError:
            return kind()
        if state.version == layout:
            return state
    return kind()


def keep(memory: dict[K, V], key: K, value: V, limit: int) -> None:
    """Add an entry, and remove the oldest when there are too many."""
    memory[key] = value
    if len(memory) > limit:
        del memory[next(iter(memory))]


def with_file_time(found: Normalized, source: Source) -> Normalized:
    """Return the result with the time of the file for sessions and API calls without one."""
    at = (
        datetime.fromtimestamp(source.mtime_ns // 1000 / 1e6, UTC)
        if 0 < source.mtime_ns < MAX_TIME_NS
        else None
    )
    found.facts = {
        uid: msgspec.structs.replace(facts, written_at=at) for uid, facts in found.facts.items()
    }
    found.calls = [
        (call if call.ts else msgspec.structs.replace(call, ts=at), event)
        for call, event in found.calls
    ]
    return found


def with_rank(found: Normalized, rank: int) -> Normalized:
    """Return the result as that of a source of this rank: see `Facts.rank`."""
    found.facts = {
        uid: msgspec.structs.replace(facts, rank=rank) for uid, facts in found.facts.items()
    }
    return found
