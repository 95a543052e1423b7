"""Checks of the file and of the index of a SQLite store."""

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

MAX_SEARCHED_WORDS = 1000
"""Maximum number of words that are also searched for, in a check of some segments."""

# For every word its count, and a sum that depends on each of its places. Only words for which these
# differ are compared in detail.
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
        rows = self.rows("pragma integrity_check" if full else "pragma quick_check")
        lines = [line for (text,) in rows for line in text.splitlines() if text != "ok"]
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
    """A second index with the same settings, built again in a temporary database."""

    def __init__(self, path: str) -> None:
        self.db = apsw.Connection("")
        self.db.execute("attach ? as store", (path,))
        sql = str(self.db.execute("select sql from store.sqlite_schema where name = 'search'").get)
        self.db.execute(f"create virtual table rebuilt {sql[sql.lower().index('using') :]}")
        self.db.execute(
            "create virtual table temp.stored_words using fts5vocab('store', 'search', 'instance')"
        )
        self.db.execute(
            "create virtual table temp.rebuilt_words using fts5vocab('main', 'rebuilt', 'instance')"
        )
        self.db.execute("create table chosen (id integer primary key)")
        self.db.execute("begin")
        # The tables of the store need no prefix: this database has only `rebuilt` and `chosen`.
        self.sessions = SqlSessions(SqliteDatabase.over(self.db))

    def add(self, id_: int) -> None:
        """Index a segment of the store again. A damaged one is left out."""
        segment = rebuild_segment(self.sessions, id_)
        if segment is not None:
            self.db.execute("insert into chosen values (?)", (id_,))
            _insert(self.db, "rebuilt", id_, segment)

    def compare(self, *, is_all: bool) -> dict[int, str]:
        """Return by segment what is wrong with its words in the store's index."""
        wrong = {
            id_: "is not in the index"
            for (id_,) in self.db.execute(
                "select id from chosen except select id from search_docsize"
            )
        }
        stray = self.db.execute("select id from search_docsize except select id from segments")
        wrong |= {id_: "is in the index and nowhere else" for (id_,) in stray}
        where = "" if is_all else "where doc in chosen"
        stored = self._summarize_words("stored_words", where)
        rebuilt = self._summarize_words("rebuilt_words", "")
        differing = {
            word for word in stored.keys() | rebuilt.keys() if stored.get(word) != rebuilt.get(word)
        }
        for word in sorted(differing):
            for id_ in self._find_differing(word, where):
                wrong.setdefault(id_, f"the index is wrong about the word {word[:40]!r}")
        words = sorted(rebuilt)
        for word in words if is_all else words[:: len(words) // MAX_SEARCHED_WORDS + 1]:
            for id_ in self._find_missing(word):
                wrong.setdefault(id_, f"a search does not find the word {word[:40]!r}")
        return wrong

    def _summarize_words(self, table: str, where: str) -> dict[str, list[Any]]:
        """Return by word its count and the sum of its places."""
        return {word: figures for word, *figures in self.db.execute(_WORDS.format(table, where))}

    def _find_missing(self, word: str) -> set[int]:
        """Return the segments that have a word and are not found by a search for it.

        A search reads other parts of the index than a scan of its words.
        """
        sql = (
            "select doc from rebuilt_words where term = ?1 except"
            " select rowid from store.search where search match '\"' || ?1 || '\"'"
        )
        return {doc for (doc,) in self.db.execute(sql, (word,))}

    def _find_differing(self, word: str, where: str) -> set[int]:
        """Return the segments in which the two indexes have a word at different places."""
        one = f"select doc, col, offset from stored_words {where or 'where true'} and term = ?1"
        two = "select doc, col, offset from rebuilt_words where term = ?1"
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
