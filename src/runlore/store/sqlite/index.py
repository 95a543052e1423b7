"""The search index of a SQLite store: FTS5, one document for each segment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from typing import Any

import apsw
import msgspec

from ...errors import StoreError
from ..changes import NewSegment
from ..rows import ERROR, OUTRANKED, segment_event
from ..segments import unpack
from ..sql.index import SqlIndex
from ..sql.sessions import SqlSessions
from ..values import Segment, SegmentEvent
from .database import SqliteDatabase

MAX_WAITING_BYTES = 1024 * 1024
"""Maximum size of the texts that wait to be indexed. A higher limit makes no difference."""


class SqliteIndex(SqlIndex):
    """See `SearchIndex` in the contracts."""

    db: SqliteDatabase

    def __init__(self, db: SqliteDatabase, sessions: SqlSessions) -> None:
        super().__init__(db, sessions)
        self._waiting: dict[int, Segment] = {}
        """Segments of the open transaction that are not in the index yet."""
        self._waiting_bytes = 0
        self._sizes: tuple[tuple[int, int], dict[int, int]] | None = None
        """A version of the database, and the number of segments by session in it."""
        db.pending.append(self)

    def postings(self, term: str, *, prefix: bool = False, column: str | None = None) -> list[int]:
        return self._matching(_quoted(term) + ("*" if prefix else ""), column)

    def having(self, words: Collection[str], *, column: str | None = None) -> list[int]:
        return self._matching(f"({' OR '.join(map(_quoted, sorted(words)))})", column)

    def _matching(self, expression: str, column: str | None) -> list[int]:
        self.flush()
        columns = "{prompt reply}" if column == "said" else column
        query = f"{columns} : {expression}" if columns else expression
        # One JSON array is faster than a row for each: a common word has tens of thousands.
        (ids,) = self.db.one(
            "select json_group_array(rowid) from search where search match ?",
            (query.replace("\0", " "),),
        )
        return msgspec.json.decode(ids, type=list[int])

    def segment(self, id: int, *, files: bool = True) -> tuple[bytes, list[SegmentEvent]] | None:
        # The snapshot stays the same as long as this cursor is open. So the rows belong to this
        # body, even if another process derives the session again meanwhile.
        cursor = self.db.execute(
            "select session, first_seq, last_seq, length, hash, body from segments where id = ?",
            (id,),
        )
        row = cursor.fetchone()
        if row is None:
            return None
        session, first, last, length, hash_, body = row
        rest = "rest" if files else "case kind when 'lifecycle' then rest end"
        sql = (
            f'select seq, kind, ts, tool, flags & {ERROR}, {rest}, "offset", length from events'
            ' where session = ? and seq between ? and ? and "offset" is not null'
            f" and flags & {OUTRANKED} = 0 order by seq"
        )
        try:
            rows = self.db.all(sql, (session, first, last))
            cursor.close()
            return unpack(body, length, hash_), [segment_event(row) for row in rows]
        except (UnicodeDecodeError, msgspec.MsgspecError) as error:  # A flipped bit.
            raise StoreError(
                f"events of a segment are damaged ({error}); run `runlore doctor`"
            ) from None

    def segments(
        self, ids: Sequence[int], *, files: bool = True
    ) -> dict[int, tuple[bytes, list[SegmentEvent]]]:
        segments = {}
        for id_ in ids:
            with suppress(StoreError):
                if (segment := self.segment(id_, files=files)) is not None:
                    segments[id_] = segment
        return segments

    def words(self) -> list[str]:
        # A connection of its own: this one may be for reading alone.
        with self.db.translate_errors(), closing(apsw.Connection("")) as other:
            other.execute("attach ? as store", (self.db.url,))
            other.execute("create virtual table temp.words using fts5vocab(store, search, row)")
            return [word for (word,) in other.execute("select term from temp.words")]

    def segment_count(self) -> int:
        (count,) = self.db.one("select count(*) from segments")
        return int(count)

    def sizes(self) -> dict[int, int]:
        version = (self.db.connection.data_version(), self.db.connection.total_changes())
        if self._sizes is None or self._sizes[0] != version:
            (sessions,) = self.db.one("select json_group_array(session) from segments")
            self._sizes = version, Counter(msgspec.json.decode(sessions, type=list[int]))
        return self._sizes[1]

    def add(self, segments: Sequence[NewSegment], *, is_new: bool) -> None:
        for one in segments:
            self._add(one.id, one.session, one.first, one.last, one.segment)

    def write(self, session: int, first: int, last: int, segment: Segment) -> None:
        row = self.db.one(
            "select id from segments where session = ? and first_seq = ?", (session, first)
        )
        if row is not None:
            self.drop("id = ?", row)
            id_ = row[0]
        else:
            low = session << 20
            sql = "select max(id) from segments where id between ? and ?"
            (top,) = self.db.one(sql, (low, low | 0xFFFFF))
            id_ = low if top is None else top + 1
        self._add(id_, session, first, last, segment)

    def _add(self, id_: int, session: int, first: int, last: int, segment: Segment) -> None:
        """Insert a segment under a new id; its words are written by `flush`."""
        if id_ >> 20 != session:
            raise StoreError("a session has more than a million segments")
        self.db.execute(
            "insert into segments values (?, ?, ?, ?, ?, ?, ?)",
            (id_, session, first, last, segment.length, segment.hash, segment.body),
        )
        self._waiting[id_] = segment
        self._waiting_bytes += len(segment.prompt) + len(segment.reply) + len(segment.tool)
        if self._waiting_bytes >= MAX_WAITING_BYTES:
            self.flush()

    def drop(self, where: str, bindings: tuple[Any, ...]) -> None:
        ids = self.db.all(f"select id from segments where {where}", bindings)
        self.db.executemany(
            "delete from search where rowid = ?",
            [row for row in ids if self._waiting.pop(row[0], None) is None],
        )
        self.db.executemany("delete from segments where id = ?", ids)

    def flush(self) -> None:
        """Write the words of the segments that wait, all together and in order.

        FTS5 writes out what it has collected at every savepoint, and for every segment with a lower
        number than the one before.
        """
        sql = "insert into search (rowid, prompt, reply, tool) values (?, ?, ?, ?)"
        for id_, segment in sorted(self._waiting.items()):
            self.db.execute(sql, (id_, segment.prompt, segment.reply, segment.tool))
        self._waiting.clear()
        self._waiting_bytes = 0

    def clear(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0


def _quoted(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
