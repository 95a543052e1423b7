"""How the index over words in PostgreSQL is written: as volumes (`_pages.py`), each made of the segments that were put meanwhile.

A segment that is dropped is struck: the volume that has it stays, and a search leaves it out. When there are many small volumes they are
bound into one, without what was struck. So a first sync writes long rows, a few, and what is added later costs what it is, and now and
then as much again. Whoever writes here holds the lock of the store.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from array import array as numbers_of
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from . import Segment
from ._pages import Page, Words, bind_pages, make_pages
from ._postgres_db import array
from ._postgres_read import PostgresReader, packed_ids, unpacked_ids
from ._postgres_words import cut_words
from ._sql_check import made_again

VOLUME_BYTES = 2 * 1024 * 1024
"""Of words that wait to be made into a volume: of some fifty megabytes of transcripts."""

LARGE_BYTES = (1 << 12, 1 << 15, 1 << 18, 1 << 21)
MOST_ALIKE = 8
"""Volumes of about the same size, up to one of these, are bound when there are so many: after a sync there are 28 of these at most. Larger
ones are left as they are: to bind volumes takes up to twenty times their size of memory."""

CHECK_EVERY = 64
"""So many volumes are written until it is looked for some to bind, by whoever does not look at the end."""

MOST_STRUCK = 8
"""One in so many segments may be struck until the volumes that have them are written anew."""

_DROP_STRUCK = "delete from struck s using unnest(?::bigint[], ?::bigint[]) d (id, until) where s.id = d.id and s.until = d.until"


class PostgresIndex(PostgresReader):
    """The part of `PostgresStore` that writes the index."""

    _to_index: dict[int, Words]
    """By id, segments that were put in the open transaction and are in no volume yet."""
    _index_bytes: int
    _is_writing: bool
    """Whether the open transaction has the lock of the store."""

    @abstractmethod
    def _lock_for_writing(self) -> None:
        """Until the transaction ends, nobody else writes."""

    @abstractmethod
    def transaction(self) -> Any:
        """All that is done within is done as a whole, or not at all."""

    def _words_of(self, id_: int, segment: Segment) -> bytes:
        """Has the words of a segment wait for the next volume; gives all of them in their order, packed."""
        *words, stream = segment.cut or cut_words(segment)
        prompt, reply, tool = words
        self._to_index[id_] = prompt, reply, tool
        self._index_bytes += sum(len(column) for column in words if column)
        return stream

    def _index(self, enough: int = 0) -> None:
        """Makes a volume of the segments that wait, when they have so many bytes of words."""
        while self._to_index and self._index_bytes >= enough:
            waiting = sorted(self._to_index.items())
            self._forget_words()
            self._phrases = "", {}
            number = self._add_volume([id_ for id_, _ in waiting], make_pages([words for _, words in waiting]))
            if number % CHECK_EVERY == 0:
                self._bind_alike()

    def _forget_words(self) -> None:
        self._to_index, self._index_bytes = {}, 0

    def _index_anew(self) -> None:
        """Makes all of the index from the bodies."""
        self._forget_words()
        for table in ("volumes", "pages", "struck"):
            self.db.execute(f"delete from {table}")
        for (id_,) in self._all("select id from segments order by id"):
            self._index_again(id_)
            self._index(VOLUME_BYTES)

    def _index_again(self, id_: int) -> None:
        """Has the words of a segment, made from its bodies, wait for the next volume. It is in none."""
        if (segment := made_again(self, id_)) is not None:
            sql = "update segments set stream = ? where session = ? and id = ?"
            self.db.execute(sql, (self._words_of(id_, segment), id_ >> 20, id_))

    def _add_volume(self, ids: Sequence[int], pages: Sequence[Page]) -> int:
        assert self._is_writing
        [[(number,)]] = self.db.ask([("select nextval('volume_numbers')", ())], ahead=True)
        size = sum(len(first) + len(body) for first, _, body in pages)
        key = int.from_bytes(os.urandom(8), "big", signed=True)
        self.db.copy("volumes", [(number, key, len(ids), size, packed_ids(ids))], ahead=True)
        self.db.copy("pages", [(number, first, part, body) for first, part, body in pages], ahead=True)
        return int(number)

    def _strike(self, ids: Iterable[int]) -> None:
        """Has a search leave out what volumes have of these segments."""
        assert self._is_writing
        self._phrases = "", {}  # Where they were is known of this transaction, and it has changed.
        old = [id_ for id_ in ids if self._to_index.pop(id_, None) is None]
        if old:
            # Those that are written later have other segments, perhaps of the same ids.
            sql = (
                "insert into struck select s.id, (select coalesce(max(number), 0) from volumes) from unnest(?::bigint[]) s (id)"
                " on conflict do nothing"
            )
            self.db.execute(sql, (array(old),))

    def _merge_words(self) -> None:
        """At the end of a sync."""
        if alike_in(self._volume_sizes()) or self._has_much_struck():
            with self.transaction():
                self._lock_for_writing()
                self._bind_alike()

    def _bind_alike(self) -> None:
        """Binds volumes of about the same size, where there are many, and writes those anew that have much that was struck."""
        with suppress(ValueError):  # What is damaged is left to the doctor: nobody waits for this.
            while alike := alike_in(self._volume_sizes()):
                if done := self._bind(alike, self._struck()):
                    self.db.execute(_DROP_STRUCK, (array(id_ for id_, _ in done), array(until for _, until in done)))
        if self._has_much_struck():
            self._bind_struck()

    def _bind_struck(self) -> None:
        """Writes all volumes anew in which segments were struck. No word of these is left."""
        struck = self._struck()
        try:
            for number, packed in self._all("select number, ids from volumes order by number") if struck else ():
                if any(until >= number for id_ in numbers_of("q", unpacked_ids(packed)) for until in struck.get(id_, ())):
                    self._bind([number], struck)
        except ValueError:
            self._index_anew()
        self.db.execute("delete from struck")

    def _bind(self, numbers: Sequence[int], struck: dict[int, list[int]]) -> list[tuple[int, int]]:
        """Makes one volume of several, without what was struck. What that was: it need not be known any more. Raises ValueError, and has
        changed nothing, where it cannot be told which segments a volume has."""
        assert self._is_writing
        these = array(numbers)
        ids: list[int] = []
        volumes: list[tuple[list[bytes], bytes]] = []
        done: list[tuple[int, int]] = []
        for number, packed in self._all("select number, ids from volumes where number = any(?::bigint[]) order by number", (these,)):
            where = numbers_of("i")
            for id_ in numbers_of("q", unpacked_ids(packed)):
                # Where an id was struck twice, each time it was in another volume: the first since this one was written is meant.
                until = next((until for until in struck.get(id_, ()) if until >= number), None)
                if until is None:
                    where.append(len(ids))
                    ids.append(id_)
                else:
                    where.append(-1)
                    done.append((id_, until))
            pages = self._all("select body from pages where volume = ? order by first, part", (number,))
            volumes.append(([body for (body,) in pages], where.tobytes()))
        self.db.execute("delete from pages where volume = any(?::bigint[])", (these,))
        self.db.execute("delete from volumes where number = any(?::bigint[])", (these,))
        try:
            made = bind_pages(volumes)
        except ValueError:  # A page is damaged: what was on it is in the bodies as well.
            for id_ in ids:
                self._index_again(id_)
        else:
            if ids:
                self._add_volume(ids, made)
        return done

    def _struck(self) -> dict[int, list[int]]:
        """By id of a segment up to which volumes it was struck, in order."""
        found: dict[int, list[int]] = {}
        for id_, until in self._all("select id, until from struck order by until"):
            found.setdefault(id_, []).append(until)
        return found

    def _has_much_struck(self) -> bool:
        sql = "select (select count(*) from struck) * ? > (select coalesce(sum(segments), 0) from volumes)"
        return bool(self._one(sql, (MOST_STRUCK,))[0])

    def _volume_sizes(self) -> list[tuple[int, int]]:
        return self._all("select number, size from volumes order by number")


def alike_in(volumes: Iterable[tuple[int, int]]) -> list[int]:
    """Volumes to bind into one, the smallest first: (number, size) of each are given."""
    classes: list[list[int]] = [[] for _ in LARGE_BYTES]
    for number, size in volumes:
        if size < LARGE_BYTES[-1]:
            classes[sum(size >= large for large in LARGE_BYTES)].append(number)
    return next((alike[:MOST_ALIKE] for alike in classes if len(alike) >= MOST_ALIKE), [])
