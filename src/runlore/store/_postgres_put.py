"""How the PostgreSQL store keeps a batch, where that is not as SQLite does it: in bulk, and under
its author's name."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..adapters import Facts
from ..errors import StoreError
from ..model import SCHEMA_VERSION, format_time
from ..timeline import Tally
from ._postgres_db import Vector, array
from ._postgres_read import PostgresReader, Seen
from ._postgres_words import cut_words
from ._sql import plain, without_nul
from ._sql_calls import CALL_COLUMNS
from ._sql_put import Writer
from .contract import OVERTAKEN, Batch, Piece, Put, Segment, Words
from .numbering import absolute, rows_in
from .pieces import (
    KIND,
    NATIVE_ID,
    OFFSET,
    SEQ,
    SUMMARY,
    TOOL,
    TS,
    bodies_of,
    clean_facts,
    hidden_id,
)

MONTHS = 1 << 12
"""As many as the number of a session has room for: until the year 2311."""

_MARKER = re.compile(r"(\[redacted:[^\s:\]]{1,64}:)[0-9a-f]{6}\]")
_ADD_NATIVES = (
    "insert into natives select hash, ?, seq from unnest(?::bigint[], ?::bigint[]) n (hash, seq) on"
    " conflict do nothing"
)
_INTO_CALLS = f"calls ({', '.join(CALL_COLUMNS)})"
ACTION, CALL = 5, 9
_TEXTS = (KIND, TOOL, ACTION, CALL, SUMMARY)
"""The columns of a row with text that may be anything; the native id apart."""


class PostgresWriter(PostgresReader, Writer):
    """The putting part of `PostgresStore`."""

    takes_cut_words: bool = True
    takes_groups: bool = True
    source_key = ("reader", "agent", "path")
    keeps_calls = (
        # Whoever stored a call first has it: nobody can take it from them.
        "where (select author from sessions where number = calls.session) is not distinct from"
        " (select author from sessions where number = excluded.session)"
    )

    @property
    def own(self) -> dict[str, str]:
        return {"reader": self.reader, "author": self.author}

    @abstractmethod
    def _lock_for_writing(self) -> None:
        """Until the transaction ends, nobody else writes."""

    @abstractmethod
    def transaction(self) -> Any:
        """All that is done within is done as a whole, or not at all."""

    @abstractmethod
    def _make_months(self, months: set[int]) -> None:
        """The partitions of these months."""

    def put(self, batch: Batch) -> Put:
        with self.transaction():
            self._lock_for_writing()
            done = super().put(self._in_own_name(batch))
            self.db.flush()  # What cannot be stored is this batch's fault, and no other's.
        return done

    @contextmanager
    def _step(self) -> Iterator[None]:
        if self._seen is not None:
            self._seen.forget_made()
        try:
            with super()._step():
                yield
        except BaseException:
            if self._seen is not None:  # What was seen may be undone.
                self._seen = Seen()
            raise

    # ── whose session it is ───────────────────────────────────────────────────────────────────────
    def _in_own_name(self, batch: Batch) -> Batch:
        """The batch with the uids under which its sessions are stored for this author. Nearly
        always these are its own."""
        uids = [piece.session_uid for piece in batch.pieces] + [
            uid for p in batch.pieces if (uid := p.facts.parent_uid)
        ]
        uids += {kept.call.session_uid for kept in batch.calls}
        if self._is_alone():
            return batch
        sql = (
            "select uid from sessions where uid = any(?2) and author is distinct from ?1"
            " union select uid from claims where uid = any(?2)"
            " and (author = ?1 or session in (select number from sessions where author = ?1))"
        )
        if not self._all(sql, (self.author, uids)):
            return batch
        names = {piece.session_uid: self._name(piece) for piece in batch.pieces}
        names |= {uid: stored for uid, stored in self._claims().items() if uid not in names}
        calls = [
            msgspec.structs.replace(
                kept, call=msgspec.structs.replace(kept.call, session_uid=names.get(uid, uid))
            )
            for kept in batch.calls
            for uid in (kept.call.session_uid,)
        ]
        return msgspec.structs.replace(
            batch, pieces=[_renamed(piece, names) for piece in batch.pieces], calls=calls
        )

    def _is_alone(self) -> bool:
        """Whether all sessions are this author's."""
        assert self._seen is not None
        if self._seen.is_alone is None:
            sql = (
                "select not exists (select 1 from claims) and not exists (select 1 from sessions"
                " where author is distinct from ?)"
            )
            (self._seen.is_alone,) = self._one(sql, (self.author,))
        return bool(self._seen.is_alone)

    def _name(self, piece: Piece) -> str:
        """The uid of the session that a piece belongs to: of this author, of someone else whose
        records agree, or a second one."""
        uid = piece.session_uid
        claim = self._one("select s.number, s.uid, s.author from claims c join sessions s on s.number = c.session"
                          " where c.author = ? and c.uid = ?", (self.author, uid))  # fmt: skip
        found = claim or self._one("select number, uid, author from sessions where uid = ?", (uid,))
        if found is None:
            return uid
        number, stored, author = found
        if author in (self.author, None):
            if self._agrees(number, piece) is False:
                self._expel(number, uid)
            return str(stored)
        agrees = self._agrees(number, piece)
        if agrees or (agrees is None and claim is not None):
            self._claim(self.author, uid, number)
            return str(stored)
        return self._second(self.author, uid, month_of(piece.tally.started_at), self.machine)

    def _agrees(self, session: int, piece: Piece) -> bool | None:
        """Whether the records that a session and a piece both have are the same; None when they
        have none in common."""
        seqs = {
            h: seq
            for h, places in self._known(piece.natives).items()
            for number, seq in places
            if number == session
        }
        if not seqs:
            sql = "select hash, seq from natives where session = ? and hash = any(?::bigint[])"
            seqs = dict(self._all(sql, (session, array(filter(None, piece.natives)))))
        places = [
            seqs.get(h) if h else row[SEQ] for h, row in zip(piece.natives, piece.rows, strict=True)
        ]
        wanted = {seq for seq in places if seq is not None}
        if not wanted:
            return None
        (uid,) = self._one("select uid from sessions where number = ?", (session,))
        low, high = min(wanted), max(wanted)
        stored = {row[SEQ]: row for row in self._told(session, low, high)}
        # What a digest quotes of a session that was evicted is cut.
        texts = None if self._is_evicted(session) else self.bodies(uid, low, high)
        compared = False
        for seq, row, body in zip(places, piece.rows, bodies_of(piece), strict=True):
            there = stored.get(-1 if seq is None else seq)
            if there is None or seq is None:
                continue
            compared = True
            if [plain(row[n]) for n in (TS, KIND, TOOL, CALL)] != [
                there[n] for n in (TS, KIND, TOOL, CALL)
            ]:
                return False
            text = None if body is None else body.decode("utf-8", "replace")
            if (
                texts is not None
                and there[OFFSET] is not None
                and _unmarked(text) != _unmarked(texts.get(seq))
            ):
                return False
        return compared or None

    def _claim(self, author: str, uid: str, session: int) -> None:
        sql = (
            "insert into claims values (?, ?, ?) on conflict (author, uid) do update set session ="
            " excluded.session"
        )
        self.db.execute(sql, (author, uid, session))
        if self._seen is not None:
            self._seen.claims = None
            if self._seen.expected is not None:
                self._seen.expected.claimed.add(uid)

    def _second(self, author: str, uid: str, month: int, machine: str | None) -> str:
        """The uid of this author's own session, beside someone else's."""
        name = f"{uid}~{author}"
        number = self._number(name)
        if number is None:
            flavor, _, native_id = name.partition(":")
            number = self._add_session(name, flavor, native_id, month, machine, None, author)
        self._claim(author, uid, number)
        return name

    def _expel(self, session: int, uid: str) -> None:
        """Someone else's records in a session of this author turn out to be others: they are
        derived again, as a session of their own."""
        sql = (
            "select block, number, author, reader from streams join sources on number = source"
            " where session = ? and author != ?"
        )
        for block, source, author, reader in self._all(sql, (session, self.author)):
            self._take_out(session, block, is_damaged=False)
            self._again.pop(session, None)
            self.db.execute(
                "update sources set adapter_version = ? where number = ?", (OVERTAKEN, source)
            )
            self._second(author, uid, session >> 31, reader.removeprefix(f"{author}@"))

    def _session(self, flavor: str, piece: Piece, batch: Batch) -> int:
        number = self._number(piece.session_uid)
        if number is not None:
            self._make_months({number >> 31})  # It may be gone with all that was in it.
            return number
        source = batch.source
        native_id = piece.facts.native_session_id
        return self._add_session(
            piece.session_uid,
            flavor,
            native_id,
            month_of(piece.tally.started_at),
            source.machine or self.machine,
            source.path,
            self.author,
        )

    def _add_session(
        self,
        uid: str,
        flavor: str,
        native_id: str,
        month: int,
        machine: str | None,
        path: str | None,
        author: str,
    ) -> int:
        self._make_months({month})
        now = format_time(datetime.now(UTC))
        row = self._one(
            "insert into sessions (number, uid, flavor, native_session_id, machine, author,"
            " source_path, discovered_at, ingested_at, schema_version) values (?::bigint << 31 |"
            " nextval('session_numbers'), ?, ?, ?, ?, ?, ?, ?, ?, ?) returning number",
            (month, uid, flavor, native_id, machine, author, path, now, now, SCHEMA_VERSION),
        )
        number = int(row[0])
        if self._seen is not None:
            self._seen.numbers[uid] = number
            self._seen.fresh.add(number)
        return number

    def _blocks(self, session: int, source: int, *, fresh: bool) -> list[int]:
        is_new = self._seen is not None and session in self._seen.fresh
        return (
            [self._add_block(session, source)]
            if is_new
            else super()._blocks(session, source, fresh=fresh)
        )

    def _is_evicted(self, session: int) -> bool:
        is_known = self._seen is not None and (
            session in self._seen.fresh or session in self._seen.present
        )
        return not is_known and super()._is_evicted(session)

    def _add_block(self, session: int, source: int) -> int:
        empty, tally = (
            msgspec.msgpack.encode(Facts(native_session_id="")),
            msgspec.msgpack.encode(Tally()),
        )
        sql = (
            "insert into streams select ?1, coalesce(max(block) + 1, 0), ?2, ?3, ?4, '' from"
            " streams where session = ?1 returning block"
        )
        return int(self._one(sql, (session, source, empty, tally))[0])

    def _known(self, hashes: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
        """As far as this author's sessions go, and those that they have as well: nobody else's
        records can stand for theirs."""
        found: dict[int, list[tuple[int, int]]] = {}
        wanted = [h for h in hashes if h]
        sql = (
            "select n.hash, n.session, n.seq from natives n join sessions s on s.number = n.session"
            " where n.hash = any(?1::bigint[]) and (s.author = ?2 or s.author is null or exists"
            " (select 1 from claims c where c.author = ?2 and c.session = n.session))"
        )
        for h, session, seq in self._all(sql, (array(wanted), self.author)) if wanted else ():
            found.setdefault(h, []).append((session, seq))
        return found

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────
    def _write(self, session: int, home: int, piece: Piece, blocks: list[int]) -> None:
        flavor = piece.session_uid.partition(":")[0]
        self.db.copy("events", [clean_row(row, flavor) for row in rows_in(session, piece, blocks)])
        natives = [
            (h, absolute(row[SEQ], blocks))
            for h, row in zip(piece.natives, piece.rows, strict=True)
            if h
        ]
        natives += [(h, absolute(piece.rows[n][SEQ], blocks)) for n, h in piece.originals]
        if natives:
            self.db.execute(
                _ADD_NATIVES,
                (session, array(h for h, _ in natives), array(seq for _, seq in natives)),
            )
        self._write_segments(
            session,
            [
                (absolute(s.first_seq, blocks), absolute(s.last_seq, blocks), s)
                for s in piece.segments
            ],
        )
        packed = clean_stream(piece.facts, piece.tally)
        sql = "update streams set facts = ?, tally = ?, hash = ? where session = ? and block = ?"
        self.db.execute(sql, (*packed, piece.hash, session, home))

    def _write_segment(self, session: int, first: int, last: int, segment: Segment) -> None:
        self._write_segments(session, [(first, last, segment)])

    def _write_segments(self, session: int, segments: list[tuple[int, int, Segment]]) -> None:
        if not segments:
            return
        top = session << 20
        ids: dict[int, int] = {}
        if self._seen is not None and session in self._seen.fresh:
            self._seen.fresh.discard(session)
        else:
            sql = "select first_seq, id, max(id) over () from segments where session = ?"
            wanted = {first for first, _, _ in segments}
            for first, id_, last_id in self._all(sql, (session,)):
                top = last_id + 1
                if first in wanted:
                    ids[first] = id_
        if ids:
            self._drop_segments(
                "session = ? and id = any(?::bigint[])", (session, array(ids.values()))
            )
        rows = []
        for first, last, segment in segments:
            id_ = ids.get(first)
            if id_ is None:
                id_, top = top, top + 1
            rows.append((id_, first, last, segment))
        self._add_segments(session, rows)

    def _add_segments(
        self, session: int, rows: Sequence[tuple[int, int, int, Segment]], *, ahead: bool = False
    ) -> None:
        """Adds segments by (id, first, last, segment)."""
        if any(id_ > session << 20 | 0xFFFFF for id_, *_ in rows):
            raise StoreError("a session has more than a million segments")
        segments, words = [], []
        for id_, first, last, segment in rows:
            vectors, stream = segment.cut or cut_words(segment)
            segments.append(
                (id_, session, first, last, segment.length, segment.hash, segment.body, stream)
            )
            words += word_rows(id_, vectors)
        self.db.copy("segments", segments, ahead=ahead)
        self.db.copy("search", words, ahead=ahead)
        self._phrases = "", {}

    def _drop_segments(self, where: str, bindings: tuple[Any, ...]) -> None:
        gone = [
            id_
            for (id_,) in self._all(f"delete from segments where {where} returning id", bindings)
        ]
        self._drop_words(gone)

    def _drop_words(self, ids: Sequence[int]) -> None:
        """Removes what the index has of these segments."""
        self._phrases = "", {}
        if ids:
            sql = "delete from search where session = any(?::bigint[]) and id = any(?::bigint[])"
            self.db.execute(sql, (array({id_ >> 20 for id_ in ids}), array(ids)))

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────
    def _put_call_rows(self, rows: list[list[Any]], there: Container[int]) -> None:
        new = {row[0]: row for row in reversed(rows) if row[0] not in there}
        self._add_calls(list(new.values()))
        super()._put_call_rows([row for row in rows if new.get(row[0]) is not row], there)

    def _add_calls(self, rows: Sequence[Sequence[Any]]) -> None:
        """Adds calls that are not there."""
        self.db.copy(
            _INTO_CALLS,
            [[plain(value) if isinstance(value, str) else value for value in row] for row in rows],
            ahead=True,
        )

    def _set_flags(self, flags: Sequence[tuple[int, int]]) -> None:
        if flags:
            sql = (
                "update calls c set flags = v.flags from unnest(?::bigint[], ?::bigint[]) v (flags,"
                " hash) where c.hash = v.hash"
            )
            self.db.execute(sql, tuple(array(column) for column in zip(*flags, strict=True)))

    # ── sources ───────────────────────────────────────────────────────────────────────────────────
    def set_places(self, found: dict[str, tuple[str | None, str | None]]) -> None:
        names = self._claims() if found else {}
        super().set_places({names.get(uid, uid): places for uid, places in found.items()})


def word_rows(id_: int, vectors: Words) -> list[tuple[Any, ...]]:
    """Return the rows of `search` for a segment."""
    return [
        (id_ >> 20, id_, part, *(words and Vector(words) for words in columns))
        for part, columns in enumerate(vectors)
    ]


def clean_row(row: list[Any], flavor: str) -> list[Any]:
    """A row, with its session before it, as the columns of `events` can hold it."""
    for n in _TEXTS:
        if row[n + 1] and "\0" in row[n + 1]:
            row[n + 1] = plain(row[n + 1])
    native_id = row[NATIVE_ID + 1]
    if native_id and "\0" in native_id:  # Its hash must stay what it is.
        row[NATIVE_ID + 1] = hidden_id(flavor, native_id)
    return row


def clean_stream(facts: Facts, tally: Tally) -> tuple[bytes, bytes]:
    """What is packed of a stream, as it is compared with columns that have no NUL."""
    said = clean_facts(facts, without_nul)
    return msgspec.msgpack.encode(said), msgspec.msgpack.encode(
        msgspec.structs.replace(tally, first_prompt=plain(tally.first_prompt))
    )


def month_of(moment: datetime | None) -> int:
    """The month of a time, counted from 1970; the first and the last stand for what lies beyond,
    and for no time at all."""
    return (
        0
        if moment is None
        else min(max((moment.year - 1970) * 12 + moment.month - 1, 0), MONTHS - 1)
    )


def _renamed(piece: Piece, names: dict[str, str]) -> Piece:
    uid, facts = names.get(piece.session_uid, piece.session_uid), piece.facts
    if facts.parent_uid in names and names[facts.parent_uid] != facts.parent_uid:
        facts = msgspec.structs.replace(facts, parent_uid=names[facts.parent_uid])
    return msgspec.structs.replace(piece, session_uid=uid, facts=facts)


def _unmarked(text: str | None) -> str:
    """The text without what another key makes of the same secret."""
    return _MARKER.sub(r"\1]", plain(text or "") or "")
