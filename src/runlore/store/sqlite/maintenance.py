"""Checks of a SQLite store: its file and its index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import apsw

from ..sql.index import rebuild_segment
from ..sql.maintenance import SqlMaintenance
from ..sql.sessions import SqlSessions
from ..values import Row, Segment
from .database import SqliteDatabase
from .index import SqliteIndex

SOUGHT = 1000
"""So many of the words of a sample are also searched for."""

# Of every word: how often it is there, and a sum that changes with each place. Only words that
# differ are looked at closely.
_WORDS = (
    "select term, count(*), sum(((doc % 1000003) * 1009 + offset * 31 + length(col)) % 1000003)"
    " from {} {} group by term"
)


class SqliteMaintenance(SqlMaintenance):
    """See `Maintenance` in the contracts."""

    db: SqliteDatabase
    index: SqliteIndex

    def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
        with self.db.translate_errors():
            return self.db.all(sql, bindings)

    def check_file(self, *, full: bool = False) -> list[tuple[str, bool]]:
        found = self.rows("pragma integrity_check" if full else "pragma quick_check")
        lines = [line for (text,) in found for line in text.splitlines() if text != "ok"]
        return [(line, "FTS5 table" in line or "fts5" in line) for line in lines]

    def check_index(
        self, ids: Sequence[int] | None, step: Callable[[int], None] | None = None
    ) -> dict[int, str]:
        wanted = [id_ for (id_,) in self.rows("select id from segments")] if ids is None else ids
        with self.db.translate_errors(), closing(_SecondIndex(self.db.url)) as second:
            for id_ in wanted:
                second.add(id_)
                if step is not None:
                    step(1)
            return second.compare(is_all=ids is None)

    def reindex(
        self, ids: Sequence[int] | None, step: Callable[[int, int], None] | None = None
    ) -> None:
        with self.db.transaction(), self.db.translate_errors():
            self.index.flush()
            if ids is None:
                self.db.execute("insert into search(search) values ('delete-all')")
                ids = [id_ for (id_,) in self.db.all("select id from segments order by id")]
            for n, id_ in enumerate(ids):
                if step is not None:
                    step(n, len(ids))
                self.db.execute("delete from search where rowid = ?", (id_,))
                segment = rebuild_segment(self.sessions, id_)
                if segment is not None:
                    _insert(self.db.connection, "search", id_, segment)


class _SecondIndex:
    """A second index with the settings of the store's, in a database of its own that is gone when
    it is closed."""

    def __init__(self, path: str) -> None:
        self.db = apsw.Connection("")
        self.db.execute("attach ? as store", (path,))
        sql = str(self.db.execute("select sql from store.sqlite_schema where name = 'search'").get)
        self.db.execute(f"create virtual table made {sql[sql.lower().index('using') :]}")
        self.db.execute(
            "create virtual table temp.stored_words using fts5vocab('store', 'search', 'instance')"
        )
        self.db.execute(
            "create virtual table temp.made_words using fts5vocab('main', 'made', 'instance')"
        )
        self.db.execute("create table chosen (id integer primary key)")
        self.db.execute("begin")
        # The tables of the store are found by their bare names: only `made` and `chosen` are here.
        self.sessions = SqlSessions(SqliteDatabase.over(self.db))

    def add(self, id_: int) -> None:
        segment = rebuild_segment(self.sessions, id_)
        if segment is not None:
            self.db.execute("insert into chosen values (?)", (id_,))
            _insert(self.db, "made", id_, segment)

    def compare(self, *, is_all: bool) -> dict[int, str]:
        """By segment, what is wrong with what the store's index says of it."""
        wrong = {
            id_: "is not in the index"
            for (id_,) in self.db.execute(
                "select id from chosen except select id from search_docsize"
            )
        }
        stray = self.db.execute("select id from search_docsize except select id from segments")
        wrong |= {id_: "is in the index and nowhere else" for (id_,) in stray}
        where = "" if is_all else "where doc in chosen"
        stored = {
            word: places for word, *places in self.db.execute(_WORDS.format("stored_words", where))
        }
        made = {word: places for word, *places in self.db.execute(_WORDS.format("made_words", ""))}
        for word in sorted(
            word for word in stored.keys() | made.keys() if stored.get(word) != made.get(word)
        ):
            for id_ in self._differing(word, where):
                wrong.setdefault(id_, f"the index is wrong about the word {word[:40]!r}")
        words = sorted(made)
        for word in words if is_all else words[:: len(words) // SOUGHT + 1]:
            for id_ in self._unfound(word):
                wrong.setdefault(id_, f"a search does not find the word {word[:40]!r}")
        return wrong

    def _unfound(self, word: str) -> set[int]:
        """The segments that have a word and are not found by it: a search takes another way into
        the index than a scan."""
        sql = (
            "select doc from made_words where term = ?1 except select rowid from store.search where"
            " search match '\"' || ?1 || '\"'"
        )
        return {doc for (doc,) in self.db.execute(sql, (word,))}

    def _differing(self, word: str, where: str) -> set[int]:
        """The segments of which the two indexes say other things about a word."""
        one = f"select doc, col, offset from stored_words {where or 'where true'} and term = ?1"
        two = "select doc, col, offset from made_words where term = ?1"
        sql = (
            f"select doc from (select * from ({one} except {two}) union all select * from ({two}"
            f" except {one}))"
        )
        return {doc for (doc,) in self.db.execute(sql, (word,))}

    def close(self) -> None:
        self.db.close()


def _insert(db: apsw.Connection, table: str, id_: int, segment: Segment) -> None:
    sql = f"insert into {table} (rowid, prompt, reply, tool) values (?, ?, ?, ?)"
    db.execute(sql, (id_, segment.prompt, segment.reply, segment.tool))
