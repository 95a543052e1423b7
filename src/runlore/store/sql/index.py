"""The part of the search index that is the same in both databases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ..changes import NewSegment
from ..rows import LENGTH, OFFSET
from ..segments import pack_one, unpack
from ..values import PackedSegment, Segment, SegmentEvent
from .database import Database
from .sessions import SqlSessions


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
    def words(self) -> list[str]:
        """See `SearchIndex`."""

    @abstractmethod
    def postings(self, term: str, *, prefix: bool = False, column: str | None = None) -> list[int]:
        """See `SearchIndex`."""

    @abstractmethod
    def having(self, words: Collection[str], *, column: str | None = None) -> list[int]:
        """See `SearchIndex`."""

    @abstractmethod
    def segment(self, id: int, *, files: bool = True) -> tuple[bytes, list[SegmentEvent]] | None:
        """See `SearchIndex`."""

    def packed(self, numbers: Sequence[int]) -> Iterator[PackedSegment]:
        sql = "select id, length, body from segments where session = ? order by first_seq"
        for number in numbers:
            yield from self.db.all(sql, (number,))


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
