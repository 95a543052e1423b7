"""The bodies of a whole session, decompressed and decoded only when they are looked up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..model import SessionEvent
from .rows import CUT, FLAGS, LENGTH, OFFSET, OUTRANKED, SEQ, read_row
from .segments import unpack

MAX_CACHED_BYTES = 16 * 1024 * 1024
"""Maximum bytes of decompressed segments in memory; their decoded texts take about as much again.
Lookups are mostly in order, so few segments are decompressed twice."""


class Bodies(Mapping[int, str]):
    """Bodies by seq, with a cache of limited size.

    A session may be larger than what a process should hold in memory.
    """

    def __init__(self, rows: Sequence[Sequence[Any]], segments: Sequence[Sequence[Any]]) -> None:
        """Take rows as in `rows.ROW` and segments, both in order.

        A segment is (id, first_seq, last_seq, length, hash, body).
        """
        self._segments = segments
        self._spans: dict[int, tuple[int, int, int]] = {}
        self._data: dict[int, bytes] = {}
        self._texts: dict[int, str] = {}
        self._cached_bytes = 0
        at = 0
        for row in rows:
            if row[OFFSET] is not None:
                while at < len(segments) and segments[at][2] < row[SEQ]:
                    at += 1
                self._spans[row[SEQ]] = at, row[OFFSET], row[LENGTH]

    def __getitem__(self, seq: int) -> str:
        text = self._texts.get(seq)
        if text is None:
            at, offset, length = self._spans[seq]
            data = self._data.get(at)
            if data is None:
                _, _, _, size, hash_, body = self._segments[at]
                self._cached_bytes += size
                if self._cached_bytes > MAX_CACHED_BYTES:
                    self._data.clear()
                    self._texts.clear()
                    self._cached_bytes = size
                data = self._data[at] = unpack(body, size, hash_)
            text = self._texts[seq] = data[offset : offset + length].decode("utf-8", "replace")
        return text

    def get(self, seq: int, default: Any = None) -> Any:
        return self[seq] if seq in self._spans else default

    def __iter__(self) -> Iterator[int]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)


def whole(
    uid: str, rows: Sequence[Sequence[Any]], segments: Sequence[Sequence[Any]]
) -> tuple[list[SessionEvent], Bodies]:
    """Return the events of these rows, and their bodies.

    Remains of evicted events are left out, and so are events of a source with a lower rank.
    """
    complete = [row for row in rows if not row[FLAGS] & (CUT | OUTRANKED)]
    return [read_row(uid, row) for row in complete], Bodies(complete, segments)
