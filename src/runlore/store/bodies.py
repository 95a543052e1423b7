"""The bodies of a whole session, unpacked and made text only as far as someone looks at them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..model import SessionEvent
from .rows import ASIDE, CUT, FLAGS, LENGTH, OFFSET, SEQ, read_row
from .segments import unpack

HELD_BYTES = 16 * 1024 * 1024
"""Of unpacked segments, and about as much again of texts. Looks are mostly in order, so little is
unpacked twice."""


class Bodies(Mapping[int, str]):
    """Bodies by seq. What was looked at is kept for a while: a session may be larger than what a
    process should hold."""

    def __init__(self, rows: Sequence[Sequence[Any]], segments: Sequence[Sequence[Any]]) -> None:
        """`rows` as in `rows.ROW`; of each segment (id, first_seq, last_seq, length, hash, body),
        in their order."""
        self._segments = segments
        self._places: dict[int, tuple[int, int, int]] = {}
        self._data: dict[int, bytes] = {}
        self._texts: dict[int, str] = {}
        self._held = 0
        at = 0
        for row in rows:
            if row[OFFSET] is not None:
                while at < len(segments) and segments[at][2] < row[SEQ]:
                    at += 1
                self._places[row[SEQ]] = at, row[OFFSET], row[LENGTH]

    def __getitem__(self, seq: int) -> str:
        text = self._texts.get(seq)
        if text is None:
            at, offset, length = self._places[seq]
            data = self._data.get(at)
            if data is None:
                _, _, _, size, hash_, body = self._segments[at]
                self._held += size
                if self._held > HELD_BYTES:
                    self._data.clear()
                    self._texts.clear()
                    self._held = size
                data = self._data[at] = unpack(body, size, hash_)
            text = self._texts[seq] = data[offset : offset + length].decode("utf-8", "replace")
        return text

    def get(self, seq: int, default: Any = None) -> Any:
        return self[seq] if seq in self._places else default

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def whole(
    uid: str, rows: Sequence[Sequence[Any]], segments: Sequence[Sequence[Any]]
) -> tuple[list[SessionEvent], Bodies]:
    """The events of these rows and their bodies, but for those of which an eviction has left no
    more than is cited, and for what is set aside."""
    there = [row for row in rows if not row[FLAGS] & (CUT | ASIDE)]
    return [read_row(uid, row) for row in there], Bodies(there, segments)
