"""How the PostgreSQL store is proved right and put right, where that is not as in SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import StoreError
from . import Row
from ._postgres_bulk import words_of
from ._postgres_new import PostgresNew
from ._postgres_words import rows_of
from ._sql_check import Checker, made_again

SNAPSHOT = "isolation level repeatable read read only"


class PostgresChecker(PostgresNew, Checker):
    """The proving part of `PostgresStore`."""

    _depth: int

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        if self.db.in_transaction:
            yield
            return
        self.db.begin(SNAPSHOT)
        try:
            self._moment, self._words = self._version(), {}  # The moment is that of the first read.
            yield
        finally:
            self._moment = None
            self.db.rollback()

    def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
        try:
            return self._all(sql, bindings)
        except StoreError:
            if self.db.in_transaction and not self._depth:  # The server ends a snapshot with the first error; the next look has another.
                self.db.rollback()
                self.db.begin(SNAPSHOT)
                self._moment = None
            raise

    def check_file(self, *, full: bool = False) -> list[tuple[str, bool]]:
        """What lies in its pages the server checks itself, where it was set up with checksums. An index may be unfinished."""
        sql = (
            "select c.relname from pg_index i join pg_class c on c.oid = i.indexrelid"
            " where c.relnamespace = current_schema()::regnamespace and not i.indisvalid order by 1"
        )
        return [(f"the index {name} is not valid; `reindex index {name}` makes it again", False) for (name,) in self._all(sql)]

    def check_index(self, ids: Sequence[int] | None, step: Callable[[int], None] | None = None) -> dict[int, str]:
        wrong: dict[int, str] = {}
        stray = "select id from search except select id from segments"
        wrong |= {id_: "is in the index and nowhere else" for (id_,) in self._all(stray)}
        for id_ in [id_ for (id_,) in self._all("select id from segments order by id")] if ids is None else ids:
            problem = self._look_up(id_)
            if problem:
                wrong[id_] = problem
            if step is not None:
                step(1)
        return wrong

    def _look_up(self, id_: int) -> str | None:
        """What is wrong with the words of a segment. One that cannot be unpacked is another finding."""
        segment = made_again(self, id_)
        if segment is None:
            return None
        made = [(part, stream, *words) for _, _, part, *words, stream in rows_of(id_ >> 20, id_, segment)]
        stored = self._all("select part, stream from search where session = ? and id = ? order by part", (id_ >> 20, id_))
        if not stored:
            return "is not in the index"
        if [row[:2] for row in made] != stored:
            return "the index has other words"
        sql = (
            "select prompt is distinct from ?::tsvector or reply is distinct from ?::tsvector or tool is distinct from ?::tsvector"
            " from search where session = ? and id = ? and part = ?"
        )
        for part, _, *words in made:
            (differs,) = self._one(sql, (*words, id_ >> 20, id_, part))
            if differs:
                return "the index has other words"
        return None if self._is_found(id_, made[0][4]) else "a search does not find its words"

    def _is_found(self, id_: int, words: bytes | None) -> bool:
        """Whether a search by one of its words finds a segment: that takes another way than reading its row."""
        if not words:
            return True
        sql = "select 1 from search where tool @@ ?::tsquery and session = ? and id = ?"
        return self._one(sql, (f"'{words_of(words)[0].decode()}'", id_ >> 20, id_)) is not None

    def reindex(self, ids: Sequence[int] | None) -> None:
        with self.transaction():
            self._lock_for_writing()
            if ids is None:
                self.db.execute("delete from search")
                ids = [id_ for (id_,) in self._all("select id from segments order by id")]
            for id_ in ids:
                self.db.execute("delete from search where session = ? and id = ?", (id_ >> 20, id_))
                segment = made_again(self, id_)
                if segment is not None:
                    self.db.copy("search", list(rows_of(id_ >> 20, id_, segment)))

    def restore_session(self, number: int, uid: str) -> None:
        with self.transaction():
            self._make_months({number >> 31})
            super().restore_session(number, uid)
            self.db.execute(
                "update sessions set author = q.author, machine = coalesce(q.machine, substr(q.reader, length(q.author) + 2))"
                " from streams s join sources q on q.number = s.source where s.session = ?1 and sessions.number = ?1",
                (number,),
            )

    def restore_source(self, number: int) -> None:
        with self.transaction():
            super().restore_source(number)
            self.db.execute("update sources set reader = ?, author = ? where number = ?", (self.reader, self.author, number))
