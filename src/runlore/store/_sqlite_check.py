"""How the SQLite store is proved right and copied, in words of its own: its file, and its index."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from ..errors import StoreError
from ._sql_check import Checker, made_again
from ._sqlite_put import SqliteWriter
from ._sqlite_read import SqliteReader
from .contract import Row, Segment

BACKUP_PAGES = 1000
"""Pages of 8 KB that are copied between two looks at the clock."""

_BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite may have beside a file."""

SOUGHT = 1000
"""So many of the words of a sample are also searched for."""

# Of every word: how often it is there, and a sum that changes with each place. Only words that
# differ are looked at closely.
_WORDS = (
    "select term, count(*), sum(((doc % 1000003) * 1009 + offset * 31 + length(col)) % 1000003)"
    " from {} {} group by term"
)


class SqliteChecker(SqliteWriter, Checker):
    """The proving part of `SqliteStore`."""

    def told(self) -> AbstractContextManager[None]:
        return _told(self.url)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        if self.db.in_transaction:
            yield
            return
        self.db.execute("begin")
        try:
            # The moment is that of the first read.
            self.rows("select 1 from sqlite_schema limit 1")
            yield
        finally:
            self.db.execute("rollback")

    def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
        with self.told():
            return self._all(sql, bindings)

    def check_file(self, *, full: bool = False) -> list[tuple[str, bool]]:
        found = self.rows("pragma integrity_check" if full else "pragma quick_check")
        lines = [line for (text,) in found for line in text.splitlines() if text != "ok"]
        return [(line, "FTS5 table" in line or "fts5" in line) for line in lines]

    def check_index(
        self, ids: Sequence[int] | None, step: Callable[[int], None] | None = None
    ) -> dict[int, str]:
        wanted = [id_ for (id_,) in self.rows("select id from segments")] if ids is None else ids
        with self.told(), closing(_Aside(self.url)) as aside:
            for id_ in wanted:
                aside.add(id_)
                if step is not None:
                    step(1)
            return aside.compare(is_all=ids is None)

    def reindex(
        self, ids: Sequence[int] | None, step: Callable[[int, int], None] | None = None
    ) -> None:
        with self.transaction(), self.told():
            self._index()
            if ids is None:
                self.db.execute("insert into search(search) values ('delete-all')")
                ids = [id_ for (id_,) in self._all("select id from segments order by id")]
            for n, id_ in enumerate(ids):
                if step is not None:
                    step(n, len(ids))
                self.db.execute("delete from search where rowid = ?", (id_,))
                segment = made_again(self, id_)
                if segment is not None:
                    _insert(self.db, "search", id_, segment)

    def backup(self, path: Path, step: Callable[[int, int], None] | None = None) -> None:
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            # In one snapshot: without it every write of a sync would make the copy begin anew.
            with _told(str(path)), self.snapshot(), closing(apsw.Connection(str(part))) as copy:
                with copy.backup("main", self.db, "main") as work:
                    while not work.done:
                        work.step(BACKUP_PAGES)
                        if step is not None:
                            step(work.page_count - work.remaining, work.page_count)
                wrong = [text for (text,) in copy.execute("pragma quick_check") if text != "ok"]
            if wrong:
                raise StoreError(
                    f"{path}: the copy is damaged ({wrong[0].splitlines()[0]}); run `runlore"
                    " doctor` on the store"
                )
            with open(part, "rb") as file:
                os.fsync(file.fileno())
            # What a database that was here left beside it would be read as the newest part of the
            # copy.
            for end in _BESIDE:
                Path(f"{path}{end}").unlink(missing_ok=True)
            os.replace(part, path)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from None
        finally:
            for name in (part, *(Path(f"{part}{end}") for end in _BESIDE)):
                name.unlink(missing_ok=True)


class _Aside:
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
        self.reader = SqliteReader()
        self.reader.db = self.db

    def add(self, id_: int) -> None:
        segment = made_again(self.reader, id_)
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


@contextmanager
def _told(path: str) -> Iterator[None]:
    """What SQLite raises as what runlore raises. A damaged text may be none."""
    try:
        yield
    except (apsw.Error, UnicodeDecodeError) as error:
        # A copy that ran out of room ends with the code of a success.
        is_full = (
            isinstance(error, apsw.FullError) or getattr(error, "result", -1) == apsw.SQLITE_OK
        )
        raise StoreError(f"{path}: {'the disk is full' if is_full else error}") from None
