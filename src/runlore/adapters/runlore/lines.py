"""The records of a live session log as they are on disk, the state between two reads, and the
records that are in view.

Values and pure functions; the meaning of a record is in `reader.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container
from datetime import datetime
from typing import Any
from zlib import crc32

import msgspec

from ...model import Relation

CARRY = 2
"""The layout of `State`; never changed without the adapter's `version`."""

LAST_SEQ = 1 << 53  # Every JSON reader counts exactly up to here.


class Line(msgspec.Struct):
    """A `LogRecord` as it is written, of which anything may be missing: seq, id, time, type,
    payload."""

    n: int | None = None
    i: str | None = None
    d: datetime | None = None
    t: str | None = None
    p: dict[str, Any] | None = None


class Batch(msgspec.Struct):
    """A line: records that were appended together, in `b`; a line with one record has no `b`."""

    b: list[Line] | None = None


class Call(msgspec.Struct, array_like=True):
    """A call that waits for its result."""

    tool: str
    action: str
    is_test: bool


class State(msgspec.Struct):
    """The state of the fold between two reads."""

    version: int = CARRY
    records: int = 0
    last: int = -1
    seq: int = 0
    head: str | None = None
    """The native id that the next message follows."""
    first: str | None = None
    """That of the first record, which a rewind to the very beginning leads to."""
    starts: list[int] = []
    parents: list[int] = []
    """For each rewind and redo its seq, and the seq after which the conversation continued."""
    redo: list[int] = []
    """The places that rewinds have left, the latest last, until the next message."""
    said: int = -1
    """The seq of the last record of the conversation, on whatever branch."""
    nodes: list[tuple[int, str]] = []
    """The latest records of the conversation by seq and name, of all branches: those that a rewind
    can retract or a compaction can leave in the context."""
    calls: dict[str, Call] = {}
    skills: dict[str, str] = {}
    is_titled: bool = False
    has_usage: bool = False
    model: str | None = None
    cwd: str | None = None
    branch: str | None = None
    parent: str | None = None
    relation: Relation | None = None
    parent_call: str | None = None
    forked_at: datetime | None = None
    """The time of a fork. Older records are copies from the other session."""


def records_of(data: bytes) -> list[Line]:
    """Return the records of a line. Raises the errors of msgspec."""
    return _decode_batch(data).b or [] if data.startswith(b'{"b":') else [_decode_line(data)]


_decode_line = msgspec.json.Decoder(Line).decode
_decode_batch = msgspec.json.Decoder(Batch).decode


def kind_of(line: Line, known: Container[str]) -> str:
    """Return the record's type; when that is not known, one that fits its payload."""
    kind, payload = line.t or "unknown", line.p or {}
    if kind in known or kind.startswith(("state.", "checkpoint")):
        return kind
    looks = (
        ("message", ("role", "content")), ("compact", ("summary", "upto")),
        ("skill.entry", ("skill", "attempts")),
        ("skill.attempt_finished", ("run", "attempt", "checks")),
    )  # fmt: skip
    return next((other for other, names in looks if all(name in payload for name in names)), kind)


def path(state: State, position: int) -> list[tuple[int, int]]:
    """Return the ranges of seqs, both ends included, that lead to a position. The records between
    them were rewound."""
    ranges: list[tuple[int, int]] = []
    while position >= 0 and len(ranges) <= len(state.starts):
        segment = bisect_right(state.starts, position) - 1
        ranges.append((state.starts[segment] if segment >= 0 else 0, position))
        position = state.parents[segment] if segment >= 0 else -1
    return ranges


def is_on(seq: int, ranges: list[tuple[int, int]]) -> bool:
    """Return True if a seq lies in one of these ranges."""
    return any(low <= seq <= high for low, high in ranges)


def is_whole(line: bytes) -> bool:
    """Return True if the checksum at the end of the line fits, or it has none."""
    return line[-16:-10] != b',"c":"' or line[-10:-2] == b"%08x" % crc32(line[:-16])
