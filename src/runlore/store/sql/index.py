"""The search index, as far as both databases read it in the same way."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import zstandard

from ..changes import NewSegment
from ..rows import LENGTH, OFFSET
from ..segments import pack_one, unpack
from ..values import Segment, SegmentEvent
from .database import Database
from .sessions import SqlSessions

_SCANNED_BYTES = 1 << 20
"""What a thread is given at a time."""


class SqlIndex(ABC):
    """See `SearchIndex` in the contracts."""

    def __init__(self, db: Database, sessions: SqlSessions) -> None:
        self.db, self.sessions = db, sessions

    @abstractmethod
    def add(self, segments: Sequence[NewSegment], *, is_new: bool) -> None:
        """Add segments and their words; all of them are new, or some were dropped just now."""

    @abstractmethod
    def write(self, session: int, first: int, last: int, segment: Segment) -> None:
        """Write a segment and its words in place of the one that begins with the same event."""

    @abstractmethod
    def drop(self, where: str, bindings: tuple[Any, ...]) -> None:
        """Drop segments and their words."""

    @abstractmethod
    def segment(self, id: int, *, files: bool = True) -> tuple[bytes, list[SegmentEvent]] | None:
        """See `SearchIndex`."""

    def scan(self, numbers: Sequence[int], test: Callable[[bytes], bool]) -> Iterator[int]:
        sql = "select id, length, body from segments where session = ? order by first_seq"
        # Decompression and RE2 let go of Python's lock, and a second thread brings 1.7 times the
        # speed; more would wait for it.
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            ahead: deque[Future[list[int]]] = deque()
            rows: list[tuple[int, int, bytes]] = []
            size = 0
            try:
                for number in numbers:
                    more = self.db.all(sql, (number,))
                    rows += more
                    size += sum(length for _, length, _ in more)
                    if size >= _SCANNED_BYTES:
                        ahead.append(pool.submit(_passing, rows, test))
                        rows, size = [], 0
                    if len(ahead) > 8:
                        yield from ahead.popleft().result()
                ahead.append(pool.submit(_passing, rows, test))
                while ahead:
                    yield from ahead.popleft().result()
            finally:
                for job in ahead:
                    job.cancel()


def _passing(rows: list[tuple[int, int, bytes]], test: Callable[[bytes], bool]) -> list[int]:
    # One for each thread. Hashes are for `doctor`: they cost as much again.
    unpack_one = zstandard.ZstdDecompressor().decompress
    found = []
    for id_, length, body in rows:
        try:
            passes = test(unpack_one(body, max_output_size=length))
        except zstandard.ZstdError:
            passes = True  # Whoever unpacks it is told that it is damaged.
        if passes:
            found.append(id_)
    return found


def rebuild_segment(sessions: SqlSessions, id_: int) -> Segment | None:
    """The segment with its words, from its bodies; None when it is not there, or is broken, which
    is another finding."""
    sql = (
        "select session, first_seq, last_seq, length, hash, body from segments where session = ?"
        " and id = ?"
    )
    row = sessions.db.one(sql, (id_ >> 20, id_))
    if row is None:
        return None
    session, first, last, length, hash_, body = row
    try:
        data = unpack(body, length, hash_)
    except Exception:  # A damaged length makes zstd raise what it likes.
        return None
    rows = [list(row) for row in sessions.rows(session, first, last)]
    bodies = [
        None if row[OFFSET] is None else data[row[OFFSET] : row[OFFSET] + row[LENGTH]]
        for row in rows
    ]
    return pack_one(rows, bodies) if rows else None
