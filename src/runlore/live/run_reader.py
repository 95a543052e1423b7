"""Follows a log for records of some types, without decoding the others.

Most of a log is conversation. A line of another view is recognised by its first bytes and skipped.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ..model import LogRecord
from . import codec
from .log_reader import HEAD_BYTES, LogReader

if TYPE_CHECKING:
    from .run_log import Log

CHUNK_BYTES = 1 << 18
"""Size of a read. Larger reads are not faster, and smaller ones cost a call each."""
ONE, TYPE = b'{"n":', b'"t":"'
"""Beginning of a line with one record; the bytes in front of its type."""
RUN = frozenset({"state.", "checkpoint", "checkpoint."})
"""The types of the records of a run."""


class Follower:
    """Yields new records of some types, each time from where the last call ended.

    A type that ends with a dot stands for all types that begin with it; None for all.
    """

    def __init__(self, log: Log, types: Collection[str] | None = RUN) -> None:
        self._log = log
        self._marks = (b"",) if types is None else _marks(types)
        self._place: int | None = None

    def bytes_left(self) -> int:
        """Return the number of bytes that were not read yet.

        It is negative if the log has lost what was read, by a loss of power.
        """
        reader = self._reader()
        if reader is None or getattr(self._log, "is_draft", False):
            return 0
        return reader.size_bytes - (self._place or 0)

    def new(self, after: int) -> Iterator[LogRecord]:
        """Yield the records after seq `after`, in order, and the last record of the log.

        Records of other types may be among them.
        """
        reader = self._reader()
        # Another implementation of a log: it offers only records.
        if reader is None:
            yield from self._log.records(after=after)
            return
        if getattr(self._log, "is_draft", False):
            return
        if self._place is None:
            self._place = reader.find(lambda seq, _: seq <= after) if after >= 0 else 0
        size = CHUNK_BYTES
        while data := reader.read(self._place, size):
            end = data.rfind(b"\n") + 1
            if not end and len(data) < size:
                break  # The line is still being written.
            size = CHUNK_BYTES if end else size * 4
            for start, stop in _places(data, end, self._marks):
                yield from (
                    record
                    for record in reader.decode(data[start:stop], self._place + start)
                    if record.seq > after
                )
            self._place += end

    def _reader(self) -> LogReader | None:
        reader = getattr(self._log, "_reader", None)
        return reader if isinstance(reader, LogReader) else None


def _marks(types: Collection[str]) -> tuple[bytes, ...]:
    """Return the bytes that a line has after `"t":"` when its record is of one of the types."""
    if any(json.dumps(type, ensure_ascii=False) != f'"{type}"' for type in types):
        return (b"",)  # There is more than one way to write such a name in JSON.
    return tuple(type.encode() + (b"" if type.endswith(".") else b'"') for type in types)


def _places(data: bytes, end: int, marks: tuple[bytes, ...]) -> list[tuple[int, int]]:
    """Return the ranges of the lines to decode: those of the wanted types, and the last one.

    The last line is needed for its seq.
    """
    if not end:
        return []
    last = data.rfind(b"\n", 0, end - 1) + 1
    ranges = _by_heads(data, end, last, marks)
    return sorted({*(_by_marks(data, end, marks) if ranges is None else ranges), (last, end - 1)})


def _by_heads(
    data: bytes, end: int, last: int, marks: tuple[bytes, ...]
) -> list[tuple[int, int]] | None:
    """Find them by the bytes in front of each payload.

    None if lines hold several records, or were joined by a lost line end.
    """
    one, other = codec.head(data[:HEAD_BYTES]), codec.head(data[last : last + HEAD_BYTES])
    if one is None or other is None or other[0] - one[0] + 1 != data.count(b"\n", 0, end):
        return None
    ranges, start = [], 0
    while start < end:
        stop = data.find(b"\n", start, end)
        place = data.find(TYPE, start, min(stop, start + HEAD_BYTES))
        if place < 0 or not data.startswith(ONE, start):
            return None
        if data.startswith(marks, place + len(TYPE)):
            ranges.append((start, stop))
        start = stop + 1
    return ranges


def _by_marks(data: bytes, end: int, marks: tuple[bytes, ...]) -> Iterator[tuple[int, int]]:
    """Find them by their types, anywhere in a line.

    Inside a text the quotes would be escaped; a false match only costs one decoding.
    """
    for mark in marks:
        place = data.find(TYPE + mark, 0, end)
        while place >= 0:
            stop = data.find(b"\n", place, end)
            yield data.rfind(b"\n", 0, place) + 1, stop
            place = data.find(TYPE + mark, stop, end)
