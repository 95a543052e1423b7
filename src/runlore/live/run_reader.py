"""Follows a log for the records of its run, without decoding the others.

Most of a log is conversation. A line of another view is recognised by its first bytes and skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..model import LogRecord
from . import codec
from .log_reader import HEAD_BYTES, LogReader

if TYPE_CHECKING:
    from .run_log import Log

CHUNK_BYTES = 1 << 18
"""Size of a read. Larger reads are not faster, and smaller ones cost a call each."""
ONE, TYPE, OURS = b'{"n":', b'"t":"', (b"state.", b"checkpoint")
"""Beginning of a line with one record; the bytes in front of its type; the types of this view."""


class Follower:
    """Yields the new records of a run, each time from where the last call ended."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._place: int | None = None

    def new(self, after: int) -> Iterator[LogRecord]:
        """Yield the records of the run after seq `after`, in order, and the last record of the log.

        Other records may be among them.
        """
        reader = getattr(self._log, "_reader", None)
        # Another implementation of a log: it offers only records.
        if not isinstance(reader, LogReader):
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
            for start, stop in _places(data, end):
                yield from (
                    record
                    for record in reader.decode(data[start:stop], self._place + start)
                    if record.seq > after
                )
            self._place += end


def _places(data: bytes, end: int) -> list[tuple[int, int]]:
    """Return the ranges of the lines to decode: those that may belong to the run, and the last one.

    The last line is needed for its seq.
    """
    if not end:
        return []
    last = data.rfind(b"\n", 0, end - 1) + 1
    ranges = _by_heads(data, end, last)
    return sorted({*(_by_marks(data, end) if ranges is None else ranges), (last, end - 1)})


def _by_heads(data: bytes, end: int, last: int) -> list[tuple[int, int]] | None:
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
        if data.startswith(OURS, place + len(TYPE)):
            ranges.append((start, stop))
        start = stop + 1
    return ranges


def _by_marks(data: bytes, end: int) -> Iterator[tuple[int, int]]:
    """Find them by their types, anywhere in a line.

    Inside a text the quotes would be escaped; a false match only costs one decoding.
    """
    for kind in OURS:
        place = data.find(TYPE + kind, 0, end)
        while place >= 0:
            stop = data.find(b"\n", place, end)
            yield data.rfind(b"\n", 0, place) + 1, stop
            place = data.find(TYPE + kind, stop, end)
