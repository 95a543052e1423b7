"""A fold over records that are JSON objects: what comes before their meaning, as damaged lines and
records without end."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol, Unpack

import msgspec

from .fold import AllFields
from .jsonl import MALFORMED, parse
from .values import Normalized, Record, Skip

# Of one record. The largest real one has some hundreds; a line of a million blocks would take
# gigabytes.
MOST_EVENTS = 10_000
MOST_GLUED = 64  # Places of one damaged line at which a record is looked for.
REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
decode = msgspec.json.Decoder().decode


class Counted(Protocol):
    """What is remembered between two reads knows how many records there were."""

    records: int


class Objects:
    """One run over the records of a source. What a record means is said in `line`, by the agent's
    own fold."""

    flavor: str
    state: Counted
    begins = b""
    """How every record of this agent begins, where that is known: a line that was cut off by a
    crash, and to which the next one was then glued, costs only itself."""

    def __init__(self) -> None:
        self.out = Normalized()
        self.title: tuple[str | None, int] = (None, 0)
        self.raw: str | bytes = b""
        self.offset = self.count = self.room = 0
        self.ts: datetime | None = None
        self.native_id = ""

    def line(self, value: dict[str, Any]) -> None:
        """What a record means."""
        raise AssertionError("the agent's own fold has it")

    def aside(self, name: str, data: bytes) -> None:
        """What a file beside the source says."""

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
        **more: Unpack[AllFields],
    ) -> str:
        """One event of the current record; gives back its native id."""
        raise AssertionError("the agent's own fold has it")

    def finish(self) -> Normalized:
        """All that was found, with what to remember."""
        raise AssertionError("the agent's own fold has it")

    def run(self, records: Iterable[Record]) -> Normalized:
        for record in records:
            if record.aside is not None:
                self.room = MOST_EVENTS
                self.aside(record.aside, record.data)
                continue
            self.state.records += 1
            self.offset, self.room = record.offset, MOST_EVENTS
            if record.problem is not None:
                self.strange(record.data.decode("utf-8", "replace"), record.problem)
            else:
                self.record(record.data)
            if self.room < 0:
                reason = f"{-self.room} more events of this record are left out"
                self.room = 1
                self.strange(reason, reason, "left-out")
            self.end()
        return self.finish()

    def record(self, data: bytes) -> None:
        try:
            value = decode(data)
        except REFUSALS:
            self.tolerate(data)
            return
        if isinstance(value, dict):
            self.take(value, data)
        else:
            self.strange(data.decode(), "not an object", "unknown")

    def tolerate(self, data: bytes) -> None:
        """A line that a strict decoder refuses: blank, damaged, or two objects glued together."""
        values = parse(data)
        if not values:
            self.merge("blank")
        if (
            self.begins
            and any(value is MALFORMED for value, _, _ in values)
            and (at := self.next_record(data)) > 0
        ):
            self.tolerate(data[:at])
            self.record(data[at:])
            return
        for value, text, problem in values:
            if not isinstance(value, dict):
                self.strange(
                    text,
                    problem or "not an object",
                    "malformed" if value is MALFORMED else "unknown",
                )
                continue
            self.take(value, text)
            if problem:
                self.out.skips.append(Skip(self.offset, problem))

    def next_record(self, line: bytes) -> int:
        """Where a whole record begins behind one that was cut off; -1 when there is none."""
        at = line.find(self.begins, 1)
        for _ in range(MOST_GLUED):
            if at < 0:
                break
            with suppress(*REFUSALS):
                decode(line[at:])
                return at
            at = line.find(self.begins, at + 1)
        return -1

    def begin(self, raw: str | bytes) -> None:
        """Before each record, and each object of one."""
        self.raw, self.count, self.native_id, self.ts = raw, 0, "", None

    def end(self) -> None:
        """After each record."""

    def take(self, value: dict[str, Any], raw: str | bytes) -> None:
        self.begin(raw)
        self.line(value)

    def strange(self, text: str, reason: str, native: str = "malformed") -> None:
        self.begin(text)
        self.emit("lifecycle", text, native, reason)
        self.out.skips.append(Skip(self.offset, reason))

    def unknown(self, word: str | None) -> None:
        """A record that no rule understands, with its own word."""
        self.emit("lifecycle", self.raw_text(), word or "unknown", word or "unknown record")

    def raw_text(self) -> str:
        return (
            self.raw.strip()
            if isinstance(self.raw, str)
            else self.raw.decode("utf-8", "replace").strip()
        )

    def merge(self, word: str) -> None:
        self.out.merged[word] = self.out.merged.get(word, 0) + 1

    def uid(self, session: str) -> str:
        return f"{self.flavor}:{session}"
