"""The search index of a PostgreSQL store: three tsvectors for each segment, under GIN."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import zstandard

from ...errors import StoreError
from ..changes import NewSegment
from ..planning import MAX_SEGMENTS
from ..rows import ERROR, INDEX_COLUMNS, OUTRANKED, segment_event
from ..segments import unpack
from ..sql.index import SqlIndex
from ..sql.sessions import SqlSessions
from ..tsvectors import (
    MESSAGE_COLUMNS,
    PHRASE_CHECK_SEGMENTS,
    WordQuery,
    build_alternatives,
    build_query,
    columns_with,
    tokenize_segment,
    unpacker,
)
from ..values import Segment, SegmentEvent, Words
from .connection import Vector
from .connection import array as array_of
from .database import PostgresDatabase

MAX_CACHED_QUERIES = 100
"""Maximum number of words, and of phrases, whose segments are cached."""

MAX_PHRASE_SEGMENTS = 40_000
"""Maximum number of segments in which a phrase is checked, the newest first. Older segments that
have its words are returned without a check, and the reader of their text notices."""


class PostgresIndex(SqlIndex):
    """See `SearchIndex` in the contracts."""

    db: PostgresDatabase

    def __init__(self, db: PostgresDatabase, sessions: SqlSessions) -> None:
        super().__init__(db, sessions)
        self._sizes: tuple[str, dict[int, int]] | None = None
        """A version, and the number of segments by session in that version."""
        self._words: tuple[str, dict[tuple[WordQuery, str | None], list[int]]] = ("", {})
        """A version, and the segments that have a word by column, in that version."""
        self._phrases: tuple[str, dict[WordQuery, dict[int, frozenset[str]]]] = ("", {})
        """A version, and the segments that have a phrase with its columns, in that version."""

    def postings(self, term: str, *, prefix: bool = False, column: str | None = None) -> list[int]:
        query = build_query(term, prefix=prefix)
        if query is None:
            return []
        if query.phrase is None:
            return self._find_word(query, column)
        columns = _columns_of(column)
        matches = self._find_phrase(query)
        return [id_ for id_, places in matches.items() if not places.isdisjoint(columns)]

    def having(self, words: Collection[str], *, column: str | None = None) -> list[int]:
        return self._find_word(build_alternatives(words), column)

    def _find_word(self, query: WordQuery, column: str | None) -> list[int]:
        """Return the segments that have a word, or one of several, in a column, ascending."""
        known = self._known_words()
        if (query, column) not in known:
            # A search asks for a word in all columns, and then in those of messages. One round trip
            # gets both.
            names = (None, "said") if column in (None, "said") else (column,)
            sql = ", ".join(_ids_with(_columns_of(name)) for name in names)
            row = self.db.one(f"select {sql}", (query.tsquery,))
            if len(known) >= MAX_CACHED_QUERIES:
                known.clear()
            known |= {(query, name): _sorted_ids(ids) for name, ids in zip(names, row, strict=True)}
        return known[query, column]

    def _known_words(self) -> dict[tuple[WordQuery, str | None], list[int]]:
        """Return the cache of words, which is valid within a snapshot."""
        if self.db.moment is None:
            return {}
        if self._words[0] != self.db.moment:
            self._words = self.db.moment, {}
        return self._words[1]

    def _find_phrase(self, query: WordQuery) -> dict[int, frozenset[str]]:
        """Return the segments that have a phrase, or may have it, ascending, with its columns.

        They are cached until something is written, because a search asks for the same phrase in
        several columns.
        """
        version = self.db.version()
        if self._phrases[0] != version or len(self._phrases[1]) >= MAX_CACHED_QUERIES:
            self._phrases = version, {}
        known = self._phrases[1]
        if query not in known:
            # A segment with several rows may have the words in different rows.
            divided = "(select string_agg(int8send(id), '') from search where part > 0)"
            matches, others = self.db.one(
                f"select {_ids_with(INDEX_COLUMNS)}, {divided}", (query.tsquery,)
            )
            # The newer a session, the higher its number.
            ids = _sorted_ids((matches or b"") + (others or b""))
            older = dict.fromkeys(ids[:-MAX_PHRASE_SEGMENTS], frozenset(INDEX_COLUMNS))
            known[query] = older | dict(
                sorted(self._check_phrase(ids[-MAX_PHRASE_SEGMENTS:], query.phrase or b""))
            )
        return known[query]

    def _check_phrase(self, ids: list[int], phrase: bytes) -> Iterator[tuple[int, frozenset[str]]]:
        """Yield the segments among these that have a phrase, with its columns."""
        sql = (
            "select id, coalesce(stream, '') from segments where session = any(?::bigint[]) and id"
            " = any(?::bigint[])"
        )
        unpack_stream = unpacker()
        for at in range(0, len(ids), PHRASE_CHECK_SEGMENTS):
            some = ids[at : at + PHRASE_CHECK_SEGMENTS]
            for id_, stream in self.db.all(
                sql, (array_of({id_ >> 20 for id_ in some}), array_of(some))
            ):
                try:
                    columns = columns_with(stream, phrase, unpack_stream)
                except zstandard.ZstdError:
                    columns = frozenset(INDEX_COLUMNS)  # The reader of the text will notice.
                if columns:
                    yield id_, columns

    def words(self) -> list[str]:
        every = " union ".join(
            f"select unnest(tsvector_to_array({column})) from search" for column in INDEX_COLUMNS
        )
        return [word for (word,) in self.db.all(every)]

    def segment(self, id: int, *, files: bool = True) -> tuple[bytes, list[SegmentEvent]] | None:
        rows = self._segment_rows([id], files)
        return _read_segment(rows[0][1:]) if rows else None

    def segments(
        self, ids: Sequence[int], *, files: bool = True
    ) -> dict[int, tuple[bytes, list[SegmentEvent]]]:
        segments = {}
        for id_, *row in self._segment_rows(ids, files) if ids else ():
            with suppress(StoreError):
                segments[id_] = _read_segment(row)
        return segments

    def _segment_rows(self, ids: Sequence[int], files: bool) -> list[Any]:
        # One statement, so that the rows belong to this body, even if another process derives the
        # session again meanwhile.
        names = (
            "e.seq",
            "e.kind",
            "e.ts",
            "e.tool",
            f"e.flags & {ERROR}",
            "e.rest" if files else "case e.kind when 'lifecycle' then e.rest end",
            'e."offset"',
            "e.length",
        )
        arrays = ", ".join(f"array_agg({name} order by e.seq)" for name in names)
        sql = (
            f"select s.id, s.length, s.hash, s.body, l.* from segments s, lateral (select {arrays}"
            " from events e"
            " where e.session = s.session and e.seq between s.first_seq and s.last_seq"
            f' and e."offset" is not null and e.flags & {OUTRANKED} = 0) l'
            " where s.session = any(?::bigint[]) and s.id = any(?::bigint[])"
        )
        return self.db.all(sql, (array_of({id_ >> 20 for id_ in ids}), array_of(ids)))

    def segment_count(self) -> int:
        return sum(self.sizes().values())

    def sizes(self) -> dict[int, int]:
        version = self.db.version()
        if self._sizes is None or self._sizes[0] != version:
            (packed,) = self.db.one("select string_agg(int8send(session), '') from segments")
            self._sizes = version, Counter(_numbers(packed))
        return self._sizes[1]

    def add(self, segments: Sequence[NewSegment], *, is_new: bool) -> None:
        rows, words = [], []
        for one in segments:
            vectors, stream = one.segment.tokens or tokenize_segment(one.segment)
            packed = (one.segment.length, one.segment.hash, one.segment.body, stream)
            rows.append((one.id, one.session, one.first, one.last, *packed))
            words += word_rows(one.id, vectors)
        self.db.connection.copy("segments", rows, ahead=is_new)
        self.db.connection.copy("search", words, ahead=is_new)
        self._phrases = "", {}

    def write(self, session: int, first: int, last: int, segment: Segment) -> None:
        sql = "select id, first_seq = ? from segments where session = ?"
        ids = dict(self.db.all(sql, (first, session)))
        id_ = next((id_ for id_, is_same in ids.items() if is_same), None)
        if id_ is None:
            id_ = max(ids, default=(session << 20) - 1) + 1
        else:
            self.drop("session = ? and id = ?", (session, id_))
        if id_ >= (session << 20) + MAX_SEGMENTS:
            raise StoreError("a session has more than a million segments")
        self.add([NewSegment(id_, session, first, last, segment)], is_new=False)

    def drop(self, where: str, bindings: tuple[Any, ...]) -> None:
        rows = self.db.all(f"delete from segments where {where} returning id", bindings)
        self.drop_words([id_ for (id_,) in rows])

    def drop_words(self, ids: Sequence[int]) -> None:
        """Remove the words of these segments from the index."""
        self._phrases = "", {}
        if ids:
            sql = "delete from search where session = any(?::bigint[]) and id = any(?::bigint[])"
            self.db.execute(sql, (array_of({id_ >> 20 for id_ in ids}), array_of(ids)))


def _read_segment(row: Sequence[Any]) -> tuple[bytes, list[SegmentEvent]]:
    length, hash_, body, *columns = row
    try:
        events = (
            [segment_event(event) for event in zip(*columns, strict=True)] if columns[0] else []
        )
        return unpack(body, length, hash_), events
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:  # A flipped bit.
        raise StoreError(
            f"events of a segment are damaged ({error}); run `runlore doctor`"
        ) from None


def _columns_of(column: str | None) -> tuple[str, ...]:
    """Return the columns that a search for a column means: all for None, two for `said`."""
    if column is None:
        return INDEX_COLUMNS
    return MESSAGE_COLUMNS if column == "said" else (column,)


def _ids_with(columns: Sequence[str]) -> str:
    """Return an expression for the ids of the segments that have the word ?1 in one of the columns.

    They are packed in one value: a common word has tens of thousands, and as many rows would be
    read much more slowly.
    """
    test = " or ".join(f"{name} @@ ?1::tsquery" for name in columns)
    return f"(select string_agg(int8send(id), '') from search where {test})"


def _numbers(packed: bytes | None) -> array[int]:
    numbers = array("q", packed or b"")
    if sys.byteorder == "little":
        numbers.byteswap()  # The server sends the high byte first.
    return numbers


def _sorted_ids(packed: bytes | None) -> list[int]:
    return sorted(set(_numbers(packed)))


def word_rows(id_: int, vectors: Words) -> list[tuple[Any, ...]]:
    """Return the rows of `search` for a segment."""
    return [
        (id_ >> 20, id_, part, *(words and Vector(words) for words in columns))
        for part, columns in enumerate(vectors)
    ]
