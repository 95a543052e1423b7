"""What the PostgreSQL store answers in other words than SQLite. Nothing here writes."""

from __future__ import annotations

import re
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import zstandard

from ..errors import StoreError
from ._postgres_db import Database
from ._postgres_db import array as array_of
from ._postgres_made import Call, Expected, Made
from ._postgres_words import COLUMNS, PROVED, SAID, Asked, ask, columns_with, unpacker
from ._sql_read import EVENT, Reader
from .asked import Filter
from .contract import Resume, Row, SegmentEvent
from .pieces import ASIDE, ERROR, segment_event, unpack

REMEMBERED = 100
"""Phrases of which it is known where they are."""

MOST_PROVED = 40_000
"""Segments in which a phrase is proved, the newest: a second's work. Of older ones it is said that
they have it, and whoever reads them sees whether that is so."""


class Seen:
    """What a transaction that holds the lock knows. A question costs ten times as long as its
    answer."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.fresh: set[int] = set()
        """Sessions that were made, and of which nothing is written yet."""
        self.tombstones: set[str] | None = None
        self.claims: dict[str, str] | None = None
        self.is_alone: bool | None = None
        self.expected: Expected | None = None
        """What is about to be put, and what there is of it."""
        self.put: Expected | None = None
        """The same of all that was put in this transaction, sent or not."""
        self.present: set[int] = set()
        """Sessions that are there, and of which nothing was evicted."""
        self.made: dict[str, Made] = {}
        """By uid, sessions that were made in this transaction."""
        self.billed: dict[int, Call] = {}
        """By hash, calls that were put in it."""

    def forget_made(self) -> None:
        """They may be changed by what knows nothing of this."""
        self.present.clear()
        self.made.clear()
        self.billed.clear()


class PostgresReader(Reader):
    """The reading half of `PostgresStore`."""

    db: Database
    machine: str | None
    author: str
    _counted: tuple[Any, dict[int, int]] | None = None
    _moment: str | None = None
    """Within a snapshot, its version."""
    _words: dict[tuple[Asked, str | None], list[int]]
    """Within a snapshot, where words are, by column."""
    _phrases: tuple[str, dict[Asked, dict[int, frozenset[str]]]] = ("", {})
    _session_columns: list[str] | None = None
    _seen: Seen | None = None
    """While this store alone may write, what was asked of the database need not be asked again."""

    instr = "strpos"
    has_bytes = "position(?::bytea in {}) > 0"
    epoch_of = "floor(extract(epoch from {}::timestamptz))::bigint"

    def ids(self, numbers: Iterable[int]) -> str:
        return array_of(numbers)

    def glob(self, column: str, pattern: str, *, is_part: bool = False) -> tuple[str, str]:
        return f"{column} ~ ?", as_regex(pattern, is_part=is_part)

    @property
    def reader(self) -> str:
        """Who reads the sources that this store is told of."""
        return f"{self.author}@{self.machine}"

    @property
    def mine(self) -> tuple[str, tuple[Any, ...]]:
        """Paths mean nothing elsewhere."""
        return "reader = ?", (self.reader,)

    def _number(self, uid: str) -> int | None:
        if self._seen is None:
            return super()._number(uid)
        found = self._seen.numbers.get(uid)
        if found is None and (found := super()._number(uid)) is not None:
            self._seen.numbers[uid] = found
        return found

    def tombstones(self) -> set[str]:
        if self._seen is None:
            return super().tombstones()
        if self._seen.tombstones is None:
            self._seen.tombstones = super().tombstones()
        return self._seen.tombstones

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────
    def _columns(self) -> list[str]:
        # Once: each question takes as long as the one that it is for.
        if self._session_columns is None:
            sql = (
                "select attname from pg_attribute where attrelid = 'sessions'::regclass and attnum"
                " > 0 and not attisdropped order by attnum"
            )
            self._session_columns = [name for (name,) in self._all(sql)]
        return self._session_columns

    def stored(self, uid: str) -> tuple[Sequence[Row], Sequence[Row]]:
        """In one round trip."""
        of = "where session = (select number from sessions where uid = ?) order by"
        rows, segments = self.db.ask(
            [
                (f"select {EVENT} from events {of} seq", (uid,)),
                (
                    (
                        f"select id, first_seq, last_seq, length, hash, body from segments {of}"
                        " first_seq"
                    ),
                    (uid,),
                ),
            ]
        )
        return rows, segments

    def numbers(self, chosen: Filter) -> set[int]:
        where, bindings = self._where(chosen)
        (found,) = self._one(f"select array_agg(number) from sessions {where}", bindings)
        return set(found or ())

    @property
    def own_sessions(self) -> tuple[str, tuple[Any, ...]]:
        return "author = ?", (self.author,)

    def _version(self) -> str:
        """Which transactions have ended: another when one has written."""
        return self._moment or str(self._one("select pg_current_snapshot()::text")[0])

    # ── the index ─────────────────────────────────────────────────────────────────────────────────
    def postings(self, term: str, *, prefix: bool = False, column: str | None = None) -> list[int]:
        asked = ask(term, prefix=prefix)
        if asked is None:
            return []
        if asked.phrase is not None:
            columns = SAID if column == "said" else (column,) if column else COLUMNS
            return [
                id_ for id_, places in self._proved(asked).items() if not places.isdisjoint(columns)
            ]
        known = self._words if self._moment is not None else {}
        if (asked, column) not in known:
            # A search asks for a word in all columns, and then in those where someone says it: one
            # round trip brings both.
            wanted = (
                {None: COLUMNS, "said": SAID} if column in (None, "said") else {column: (column,)}
            )
            sql = ", ".join(_ids_with(columns) for columns in wanted.values())
            found = self._one(f"select {sql}", (asked.query,))
            if len(known) >= REMEMBERED:
                known.clear()
            known |= {
                (asked, name): _ascending(ids) for name, ids in zip(wanted, found, strict=True)
            }
        return known[asked, column]

    def _proved(self, asked: Asked) -> dict[int, frozenset[str]]:
        """The segments that have a phrase, or may have it, ascending, and in which columns.
        Remembered until something is written: a search asks for the same phrase in several
        columns."""
        version = self._version()
        if self._phrases[0] != version or len(self._phrases[1]) >= REMEMBERED:
            self._phrases = version, {}
        known = self._phrases[1]
        if asked not in known:
            # A segment of several parts may have the words in different ones.
            parted = "(select string_agg(int8send(id), '') from search where part > 0)"
            found, more = self._one(f"select {_ids_with(COLUMNS)}, {parted}", (asked.query,))
            # The newer a session, the higher its number.
            ids = _ascending((found or b"") + (more or b""))
            older = dict.fromkeys(ids[:-MOST_PROVED], frozenset(COLUMNS))
            known[asked] = older | dict(
                sorted(self._prove(ids[-MOST_PROVED:], asked.phrase or b""))
            )
        return known[asked]

    def _prove(self, ids: list[int], phrase: bytes) -> Iterator[tuple[int, frozenset[str]]]:
        sql = (
            "select id, coalesce(stream, '') from segments where session = any(?::bigint[]) and id"
            " = any(?::bigint[])"
        )
        unpacked = unpacker()
        for at in range(0, len(ids), PROVED):
            some = ids[at : at + PROVED]
            for id_, stream in self._all(
                sql, (array_of({id_ >> 20 for id_ in some}), array_of(some))
            ):
                try:
                    places = columns_with(stream, phrase, unpacked)
                except zstandard.ZstdError:
                    places = frozenset(COLUMNS)  # The text itself will tell.
                if places:
                    yield id_, places

    def segment(self, id: int, *, files: bool = True) -> tuple[bytes, list[SegmentEvent]] | None:
        found = self._segment_rows([id], files)
        return _segment(found[0][1:]) if found else None

    def segments(
        self, ids: Sequence[int], *, files: bool = True
    ) -> dict[int, tuple[bytes, list[SegmentEvent]]]:
        found = {}
        for id_, *row in self._segment_rows(ids, files) if ids else ():
            with suppress(StoreError):
                found[id_] = _segment(row)
        return found

    def _segment_rows(self, ids: Sequence[int], files: bool) -> list[Any]:
        # One statement, so that the rows are of this body, even when another process derives the
        # session again meanwhile.
        names = (
            "seq",
            "kind",
            "ts",
            "tool",
            f"flags & {ERROR}",
            "rest" if files else "null::bytea",
            '"offset"',
            "length",
        )
        arrays = ", ".join(
            f"array_agg(e.{name} order by seq)" if name[0] != "n" else f"array_agg({name})"
            for name in names
        )
        sql = (
            f"select s.id, s.length, s.hash, s.body, l.* from segments s, lateral (select {arrays}"
            " from events e"
            " where e.session = s.session and e.seq between s.first_seq and s.last_seq"
            f' and e."offset" is not null and e.flags & {ASIDE} = 0) l'
            " where s.session = any(?::bigint[]) and s.id = any(?::bigint[])"
        )
        return self._all(sql, (array_of({id_ >> 20 for id_ in ids}), array_of(ids)))

    def segment_count(self) -> int:
        return sum(self.sizes().values())

    def sizes(self) -> dict[int, int]:
        version = self._version()
        if self._counted is None or self._counted[0] != version:
            (found,) = self._one("select string_agg(int8send(session), '') from segments")
            self._counted = version, Counter(_numbers(found))
        return self._counted[1]

    # ── sources ───────────────────────────────────────────────────────────────────────────────────
    def resume(self, source: int) -> Resume:
        found = super().resume(source)
        # What is stored under another name is known to its source by its own.
        names = {stored: uid for uid, stored in self._claims().items() if stored in found.streams}
        streams = {names.get(uid, uid): state for uid, state in found.streams.items()}
        return msgspec.structs.replace(found, streams=streams) if names else found

    def _claims(self) -> dict[str, str]:
        """By uid the one under which it is stored for this author, where that is another."""
        if self._seen is not None and self._seen.claims is not None:
            return self._seen.claims
        sql = (
            "select c.uid, s.uid from claims c join sessions s on s.number = c.session where"
            " c.author = ? and s.uid != c.uid"
        )
        found = dict(self._all(sql, (self.author,)))
        if self._seen is not None:
            self._seen.claims = found
        return found

    def _file_bytes(self) -> int:
        sql = (
            "select coalesce(sum(pg_total_relation_size(oid)), 0) from pg_class"
            " where relkind = 'r' and relnamespace = current_schema()::regnamespace"
        )
        return int(self._one(sql)[0])


def _segment(row: Sequence[Any]) -> tuple[bytes, list[SegmentEvent]]:
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


def _ids_with(columns: Sequence[str]) -> str:
    """Return an expression for the segments that have the word ?1 in one of the columns, as bytes:
    a common word has tens of thousands, and one value is read faster than as many rows."""
    test = " or ".join(f"{name} @@ ?1::tsquery" for name in columns)
    return f"(select string_agg(int8send(id), '') from search where {test})"


def _numbers(packed: bytes | None) -> array[int]:
    numbers = array("q", packed or b"")
    if sys.byteorder == "little":
        numbers.byteswap()  # The network has the high byte first.
    return numbers


def _ascending(packed: bytes | None) -> list[int]:
    return sorted(set(_numbers(packed)))


def as_regex(pattern: str, *, is_part: bool = False) -> str:
    """A glob of SQLite as a regular expression. One without signs means the whole text, or with
    `is_part` a part of it."""
    if is_part and not any(char in pattern for char in "*?["):
        return _escaped(pattern)
    made, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "[":
            negative = pattern.startswith("^", at)
            first = at + negative
            end = pattern.find("]", first + 1)
            if end < 0:
                return "^(?!.*)"  # SQLite finds nothing by a class that does not end.
            inner = re.sub(r"([\\\[\]^:.=])", r"\\\1", pattern[first:end])
            made += f"[{'^' if negative else ''}{inner}]"
            at = end + 1
        else:
            made += {"*": ".*", "?": "."}.get(char) or _escaped(char)
    return f"^{made}$"


def _escaped(text: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", text)
