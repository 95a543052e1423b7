"""Checks and repairs of a PostgreSQL store that differ from those of SQLite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import zstandard

from ...errors import StoreError
from ..rows import INDEX_COLUMNS
from ..sql.index import rebuild_segment
from ..sql.maintenance import SqlMaintenance
from ..tsvectors import MAX_WORD_CHARS, list_words, tokenize_segment, unpacker
from ..values import Row, Segment
from .database import SNAPSHOT, PostgresDatabase
from .index import PostgresIndex, word_rows


class PostgresMaintenance(SqlMaintenance):
    """See `Maintenance` in the contracts."""

    db: PostgresDatabase
    index: PostgresIndex

    def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
        try:
            return self.db.all(sql, bindings)
        except StoreError:
            # The server ends a snapshot at the first error, so later reads need a new one.
            if self.db.in_snapshot:
                self.db.connection.rollback()
                self.db.connection.begin(SNAPSHOT)
                self.db.moment = None
            raise

    def check_file(self, *, full: bool = False) -> list[tuple[str, bool]]:
        """Return the indexes that are not valid, because their creation was not completed.

        Pages are checked by the server itself, if it was set up with checksums.
        """
        sql = (
            "select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid"
            " where c.relnamespace = current_schema()::regnamespace and not i.indisvalid order by 1"
        )
        return [
            (f"the index {name} is not valid; `reindex index {name}` makes it again", False)
            for (name,) in self.db.all(sql)
        ]

    def check_index(
        self, ids: Sequence[int] | None, step: Callable[[int], None] | None = None
    ) -> dict[int, str]:
        stray = (
            "select distinct w.id from search w where not exists (select 1 from segments s where"
            " s.session = w.session and s.id = w.id)"
        )
        wrong = {id_: "is in the index and nowhere else" for (id_,) in self.db.all(stray)}
        is_sample = ids is not None
        if ids is None:
            ids = [id_ for (id_,) in self.db.all("select id from segments order by id")]
        for id_ in ids:
            if problem := self._find_problem(id_, is_sample=is_sample):
                wrong[id_] = problem
            if step is not None:
                step(1)
        return wrong

    def _find_problem(self, id_: int, *, is_sample: bool) -> str | None:
        """Return what is wrong with the words of a segment; None if nothing is.

        A segment that cannot be decompressed is reported by another check. In a sample, also search
        for some of the words.
        """
        segment = rebuild_segment(self.sessions, id_)
        if segment is None:
            return None
        vectors, stream = tokenize_segment(segment)
        columns = ", ".join(f"tsvectorsend({name})" for name in INDEX_COLUMNS)
        sql = f"select {columns} from search where session = ? and id = ? order by part"
        stored = self.db.all(sql, (id_ >> 20, id_))
        if vectors and not stored:
            return "is not in the index"
        if stored != vectors or not self._has_stream(id_, stream):
            return "the index has other words"
        if is_sample and not self._can_find(id_, segment):
            return "a search does not find its words"
        return None

    def _has_stream(self, id_: int, stream: bytes) -> bool:
        """Return True if the list of a segment's words is stored as it should be."""
        (stored,) = self.db.one(
            "select coalesce(stream, '') from segments where session = ? and id = ?",
            (id_ >> 20, id_),
        )
        unpack = unpacker()
        try:
            # Other versions of zstd may give other packed bytes.
            return unpack(stored) == unpack(stream)
        except zstandard.ZstdError:
            return False

    def _can_find(self, id_: int, segment: Segment) -> bool:
        """Return True if a search for the first and last word of each column finds the segment."""
        texts = (segment.prompt, segment.reply, segment.tool)
        for column, text in zip(INDEX_COLUMNS, texts, strict=True):
            words = [word.decode() for word in list_words(text)]
            ends = {word for word in (*words[:1], *words[-1:]) if len(word) < MAX_WORD_CHARS}
            if not all(id_ in self.index.postings(word, column=column) for word in ends):
                return False
        return True

    def reindex(
        self, ids: Sequence[int] | None, step: Callable[[int, int], None] | None = None
    ) -> None:
        with self.db.transaction():
            self.db.lock_for_writing()
            if ids is None:
                self.db.execute("delete from search")
                ids = [id_ for (id_,) in self.db.all("select id from segments order by id")]
            else:
                self.index.drop_words(ids)
            for n, id_ in enumerate(ids):
                if step is not None:
                    step(n, len(ids))
                if (segment := rebuild_segment(self.sessions, id_)) is not None:
                    self._add_words(id_, segment)

    def _add_words(self, id_: int, segment: Segment) -> None:
        vectors, stream = tokenize_segment(segment)
        self.db.connection.copy("search", word_rows(id_, vectors))
        self.db.execute(
            "update segments set stream = ? where session = ? and id = ?", (stream, id_ >> 20, id_)
        )

    def restore_session(self, number: int, uid: str) -> None:
        with self.db.transaction():
            self.db.months.make({number >> 31})
            super().restore_session(number, uid)
            self.db.execute(
                "update sessions set author = q.author, machine = coalesce(q.machine,"
                " substr(q.reader, length(q.author) + 2)) from streams s join sources q on q.number"
                " = s.source where s.session = ?1 and sessions.number = ?1",
                (number,),
            )

    def restore_source(self, number: int) -> None:
        with self.db.transaction():
            super().restore_source(number)
            self.db.execute(
                "update sources set reader = ?, author = ? where number = ?",
                (self.db.reader, self.db.author, number),
            )
