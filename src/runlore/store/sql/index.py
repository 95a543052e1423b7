"""The part of the search index that is the same in both databases."""

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

_MAX_THREADS = 4
_MAX_WAITING = 8
"""Maximum number of batches that wait for a thread."""
_BATCH_BYTES = 1 << 20
"""Bytes of decompressed bodies that a thread is given at a time."""


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
        # Threads help, because decompression and RE2 release the interpreter's lock.
        with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
            jobs: deque[Future[list[int]]] = deque()
            rows: list[tuple[int, int, bytes]] = []
            size = 0
            try:
                for number in numbers:
                    more = self.db.all(sql, (number,))
                    rows += more
                    size += sum(length for _, length, _ in more)
                    if size >= _BATCH_BYTES:
                        jobs.append(pool.submit(_find_matching, rows, test))
                        rows, size = [], 0
                    if len(jobs) > _MAX_WAITING:
                        yield from jobs.popleft().result()
                jobs.append(pool.submit(_find_matching, rows, test))
                while jobs:
                    yield from jobs.popleft().result()
            finally:
                for job in jobs:
                    job.cancel()


def _find_matching(rows: list[tuple[int, int, bytes]], test: Callable[[bytes], bool]) -> list[int]:
    """Return the ids of the (id, length, body) whose decompressed body passes the test."""
    # Each thread needs its own decompressor. Hashes are checked by the doctor, not here.
    decompress = zstandard.ZstdDecompressor().decompress
    ids = []
    for id_, length, body in rows:
        try:
            is_match = test(decompress(body, max_output_size=length))
        except zstandard.ZstdError:
            is_match = True  # Reading the segment later reports the damage.
        if is_match:
            ids.append(id_)
    return ids


def rebuild_segment(sessions: SqlSessions, id_: int) -> Segment | None:
    """Return a segment with its texts, rebuilt from its bodies.

    Return None if it is not there, or if it is damaged, which another check reports.
    """
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
    except Exception:  # With a damaged length, zstandard may raise anything.
        return None
    rows = [list(row) for row in sessions.rows(session, first, last)]
    bodies = [
        None if row[OFFSET] is None else data[row[OFFSET] : row[OFFSET] + row[LENGTH]]
        for row in rows
    ]
    return pack_one(rows, bodies) if rows else None
