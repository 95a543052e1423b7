"""How the PostgreSQL store is proved right and put right, where that is not as in SQLite."""

from __future__ import annotations

from array import array as numbers_of
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import zstandard

from ..errors import StoreError
from . import Row
from ._pages import read_pages
from ._postgres_index import VOLUME_BYTES
from ._postgres_new import PostgresNew
from ._postgres_read import unpacked_ids
from ._postgres_words import COLUMNS, LONGEST, cut_words, unpacker
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
        there = {id_ for (id_,) in self._all("select id from segments")}
        wrong: dict[int, str] = {}
        indexed: dict[int, int] = {}  # By id, what the words of a segment add up to; 0 where only some are looked at.
        for number, packed in self._all("select number, ids from volumes order by number"):
            sql = "select body from pages where volume = ? order by first, part"
            pages = [body for (body,) in self._all(sql, (number,))] if ids is None else []
            struck = {id_ for (id_,) in self._all("select id from struck where until >= ?", (number,))}
            try:
                found = [(id_, total) for id_, total in _summed(packed, pages) if id_ not in struck]
            except ValueError as error:
                raise StoreError(f"the index over words is damaged (volume {number}: {error})") from None
            for id_, total in found:
                if id_ in indexed:
                    wrong[id_] = "is in the index twice"
                indexed[id_] = total
        wrong |= dict.fromkeys(indexed.keys() - there, "is in the index and nowhere else")
        if self._one("select 1 from pages p where not exists (select 1 from volumes where number = p.volume) limit 1"):
            raise StoreError("the index over words is damaged (pages of no volume)")
        for id_ in sorted(there) if ids is None else ids:
            if problem := self._wrong_with(id_, indexed, whole=ids is None):
                wrong[id_] = problem
            if step is not None:
                step(1)
        return wrong

    def _wrong_with(self, id_: int, indexed: dict[int, int], *, whole: bool) -> str | None:
        """What is wrong with the words of a segment. One that cannot be unpacked is another finding."""
        segment = made_again(self, id_)
        if segment is None:
            return None
        if id_ not in indexed:
            return "is not in the index"
        *words, stream = cut_words(segment)
        (stored,) = self._one("select coalesce(stream, '') from segments where session = ? and id = ?", (id_ >> 20, id_))
        unpack = unpacker()
        try:
            is_same = unpack(stored) == unpack(stream)  # Another zstd may have packed it otherwise.
        except zstandard.ZstdError:
            is_same = False
        if not is_same:
            return "the index has other words"
        if whole:
            return None if indexed[id_] == _sum_of_all(words) else "the index has other words"
        return None if all(self._is_found(id_, words, column) for column in range(3)) else "a search does not find its words"

    def _is_found(self, id_: int, words: Sequence[bytes | None], column: int) -> bool:
        """Whether a search finds a segment by its first word in a column, and by its last one."""
        once = [word for word in (words[column] or b"").split() if len(word) < LONGEST]  # Of longer ones the index has a part.
        return all(id_ in self.postings(word.decode(), column=COLUMNS[column]) for word in {*once[:1], *once[-1:]})

    def reindex(self, ids: Sequence[int] | None) -> None:
        with self.transaction():
            self._lock_for_writing()
            self._index()
            if ids is None:
                self._index_anew()
                return
            self._strike(ids)
            self._bind_struck()  # Something may be there twice.
            for id_ in ids:
                self._index_again(id_)
                self._index(VOLUME_BYTES)

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


def _summed(packed: bytes, pages: Sequence[bytes]) -> list[tuple[int, int]]:
    """The segments of a volume, and what their words on these pages add up to. Raises ValueError when they are damaged."""
    ids = numbers_of("q", unpacked_ids(packed))
    sums = [0] * len(ids)
    for word, places in read_pages(pages):
        for number, columns in places:
            if number >= len(sums):
                raise ValueError("a page names a segment that its volume has not")
            sums[number] += _sum_of(word, columns)
    return list(zip(ids, sums, strict=True))


def _sum_of(word: bytes, columns: int) -> int:
    return hash((word, columns))


def _sum_of_all(words: Sequence[bytes | None]) -> int:
    """What the words of a segment add up to, whatever their order."""
    where: dict[bytes, int] = {}
    for column, once in enumerate(words):
        for word in (once or b"").split():
            where[word] = where.get(word, 0) | 1 << column
    return sum(_sum_of(word, columns) for word, columns in where.items())
