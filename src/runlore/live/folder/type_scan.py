"""Reads the records of some types from a log, without decoding the others.

Most of a log is conversation. A line of another view is recognised by its first bytes and skipped.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from ...model import LogRecord
from .. import codec
from .log_reader import HEAD_BYTES, LogReader

CHUNK_BYTES = 1 << 18
"""Size of a read. Larger reads are not faster, and smaller ones cost a call each."""
ONE, TYPE = b'{"n":', b'"t":"'
"""Beginning of a line with one record; the bytes in front of its type."""


def scan_types(
    reader: LogReader, position: int, types: Collection[str]
) -> Iterator[tuple[LogRecord, int]]:
    """Yield the records of these types and the last one, each with the end of its line.

    Other records may be among them.
    """
    marks, size = _marks(types), CHUNK_BYTES
    while data := reader.read(position, size):
        end = data.rfind(b"\n") + 1
        if not end and len(data) < size:
            return  # The line is still being written.
        size = CHUNK_BYTES if end else size * 4
        for start, stop in _find_lines(data, end, marks):
            for record in reader.decode(data[start:stop], position + start):
                yield record, position + stop + 1
        position += end


def _marks(types: Collection[str]) -> tuple[bytes, ...]:
    """Return the bytes that a line has after `"t":"` when its record is of one of the types."""
    if any(json.dumps(type, ensure_ascii=False) != f'"{type}"' for type in types):
        return (b"",)  # There is more than one way to write such a name in JSON.
    return tuple(type.encode() + (b"" if type.endswith(".") else b'"') for type in types)


def _find_lines(data: bytes, end: int, marks: tuple[bytes, ...]) -> list[tuple[int, int]]:
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
        position = data.find(TYPE, start, min(stop, start + HEAD_BYTES))
        if position < 0 or not data.startswith(ONE, start):
            return None
        if data.startswith(marks, position + len(TYPE)):
            ranges.append((start, stop))
        start = stop + 1
    return ranges


def _by_marks(data: bytes, end: int, marks: tuple[bytes, ...]) -> Iterator[tuple[int, int]]:
    """Find them by their types, anywhere in a line.

    Inside a text the quotes would be escaped; a false match only costs one decoding.
    """
    for mark in marks:
        position = data.find(TYPE + mark, 0, end)
        while position >= 0:
            stop = data.find(b"\n", position, end)
            yield data.rfind(b"\n", 0, position) + 1, stop
            position = data.find(TYPE + mark, stop, end)
