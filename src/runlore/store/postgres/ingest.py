"""How a PostgreSQL store puts a batch: in bulk, and under its author's name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from ...adapters import Facts
from ...model import SCHEMA_VERSION, format_time
from ...timeline import Tally
from ..numbering import absolute, rows_in
from ..rows import KIND, OFFSET, SEQ, TOOL, TS
from ..segments import bodies_of
from ..sql.database import plain
from ..sql.ingest import SqlIngest
from ..sql.sessions import SqlSessions
from ..sql.sources import SqlSources
from ..sql.totals import Totals
from ..values import OVERTAKEN, Batch, Piece, Put
from .claims import Claims
from .connection import array
from .database import PostgresDatabase
from .index import PostgresIndex
from .ledger import PostgresLedger
from .months import month_of
from .rows import clean_row, clean_stream

_MARKER = re.compile(r"(\[redacted:[^\s:\]]{1,64}:)[0-9a-f]{6}\]")

_ADD_NATIVES = (
    "insert into natives select hash, ?, seq from unnest(?::bigint[], ?::bigint[]) n (hash, seq) on"
    " conflict do nothing"
)

CALL = 9


class PostgresIngest(SqlIngest):
    """See `Ingest` in the contracts."""

    db: PostgresDatabase
    index: PostgresIndex
    ledger: PostgresLedger

    def __init__(
        self,
        db: PostgresDatabase,
        sessions: SqlSessions,
        index: PostgresIndex,
        sources: SqlSources,
        ledger: PostgresLedger,
        totals: Totals,
        claims: Claims,
    ) -> None:
        super().__init__(db, sessions, index, sources, ledger, totals)
        self.claims = claims

    def put(self, batch: Batch) -> Put:
        with self.db.transaction():
            self.db.lock_for_writing()
            done = super().put(self._in_own_name(batch))
            self.db.connection.flush()  # What cannot be stored is this batch's fault, and no other's.
        return done

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
        if not self.db.all(sql, (self.db.author, uids)):
            return batch
        names = {piece.session_uid: self._name(piece) for piece in batch.pieces}
        names |= {
            uid: stored for uid, stored in self.claims.of_author().items() if uid not in names
        }
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
        assert self.db.seen is not None
        if self.db.seen.is_alone is None:
            sql = (
                "select not exists (select 1 from claims) and not exists (select 1 from sessions"
                " where author is distinct from ?)"
            )
            (self.db.seen.is_alone,) = self.db.one(sql, (self.db.author,))
        return bool(self.db.seen.is_alone)

    def _name(self, piece: Piece) -> str:
        """The uid of the session that a piece belongs to: of this author, of someone else whose
        records agree, or a second one."""
        uid = piece.session_uid
        claim = self.db.one("select s.number, s.uid, s.author from claims c join sessions s on s.number = c.session"
                          " where c.author = ? and c.uid = ?", (self.db.author, uid))  # fmt: skip
        found = claim or self.db.one(
            "select number, uid, author from sessions where uid = ?", (uid,)
        )
        if found is None:
            return uid
        number, stored, author = found
        if author in (self.db.author, None):
            if self._agrees(number, piece) is False:
                self._expel(number, uid)
            return str(stored)
        agrees = self._agrees(number, piece)
        if agrees or (agrees is None and claim is not None):
            self.claims.add(self.db.author, uid, number)
            return str(stored)
        return self._second(self.db.author, uid, month_of(piece.tally.started_at), self.db.machine)

    def _agrees(self, session: int, piece: Piece) -> bool | None:
        """Whether the records that a session and a piece both have are the same; None when they
        have none in common."""
        seqs = {
            h: seq
            for h, places in self.find_natives(piece.natives).items()
            for number, seq in places
            if number == session
        }
        if not seqs:
            sql = "select hash, seq from natives where session = ? and hash = any(?::bigint[])"
            seqs = dict(self.db.all(sql, (session, array(filter(None, piece.natives)))))
        places = [
            seqs.get(h) if h else row[SEQ] for h, row in zip(piece.natives, piece.rows, strict=True)
        ]
        wanted = {seq for seq in places if seq is not None}
        if not wanted:
            return None
        (uid,) = self.db.one("select uid from sessions where number = ?", (session,))
        low, high = min(wanted), max(wanted)
        stored = {row[SEQ]: row for row in self.sessions.counted_rows(session, low, high)}
        # What a digest quotes of a session that was evicted is cut.
        texts = None if self.is_evicted(session) else self.sessions.bodies(uid, low, high)
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

    def _second(self, author: str, uid: str, month: int, machine: str | None) -> str:
        """The uid of this author's own session, beside someone else's."""
        name = f"{uid}~{author}"
        number = self.sessions.number(name)
        if number is None:
            flavor, _, native_id = name.partition(":")
            number = self._add_session(name, flavor, native_id, month, machine, None, author)
        self.claims.add(author, uid, number)
        return name

    def _expel(self, session: int, uid: str) -> None:
        """Someone else's records in a session of this author turn out to be others: they are
        derived again, as a session of their own."""
        sql = (
            "select block, number, author, reader from streams join sources on number = source"
            " where session = ? and author != ?"
        )
        for block, source, author, reader in self.db.all(sql, (session, self.db.author)):
            self.take_out(session, block, is_damaged=False)
            self.again.pop(session, None)
            self.db.execute(
                "update sources set adapter_version = ? where number = ?", (OVERTAKEN, source)
            )
            self._second(author, uid, session >> 31, reader.removeprefix(f"{author}@"))

    def _session(self, flavor: str, piece: Piece, batch: Batch) -> int:
        number = self.sessions.number(piece.session_uid)
        if number is not None:
            self.db.months.make({number >> 31})  # It may be gone with all that was in it.
            return number
        source = batch.source
        native_id = piece.facts.native_session_id
        return self._add_session(
            piece.session_uid,
            flavor,
            native_id,
            month_of(piece.tally.started_at),
            source.machine or self.db.machine,
            source.path,
            self.db.author,
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
        self.db.months.make({month})
        now = format_time(datetime.now(UTC))
        row = self.db.one(
            "insert into sessions (number, uid, flavor, native_session_id, machine, author,"
            " source_path, discovered_at, ingested_at, schema_version) values (?::bigint << 31 |"
            " nextval('session_numbers'), ?, ?, ?, ?, ?, ?, ?, ?, ?) returning number",
            (month, uid, flavor, native_id, machine, author, path, now, now, SCHEMA_VERSION),
        )
        number = int(row[0])
        if self.db.seen is not None:
            self.db.seen.numbers[uid] = number
            self.db.seen.fresh.add(number)
        return number

    def _blocks(self, session: int, source: int, *, fresh: bool) -> list[int]:
        is_new = self.db.seen is not None and session in self.db.seen.fresh
        return (
            [self._add_block(session, source)]
            if is_new
            else super()._blocks(session, source, fresh=fresh)
        )

    def is_evicted(self, session: int) -> bool:
        is_known = self.db.seen is not None and (
            session in self.db.seen.fresh or session in self.db.seen.present
        )
        return not is_known and super().is_evicted(session)

    def _add_block(self, session: int, source: int) -> int:
        empty, tally = (
            msgspec.msgpack.encode(Facts(native_session_id="")),
            msgspec.msgpack.encode(Tally()),
        )
        sql = (
            "insert into streams select ?1, coalesce(max(block) + 1, 0), ?2, ?3, ?4, '' from"
            " streams where session = ?1 returning block"
        )
        return int(self.db.one(sql, (session, source, empty, tally))[0])

    def find_natives(self, hashes: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
        """As far as this author's sessions go, and those that they have as well: nobody else's
        records can stand for theirs."""
        found: dict[int, list[tuple[int, int]]] = {}
        wanted = [h for h in hashes if h]
        sql = (
            "select n.hash, n.session, n.seq from natives n join sessions s on s.number = n.session"
            " where n.hash = any(?1::bigint[]) and (s.author = ?2 or s.author is null or exists"
            " (select 1 from claims c where c.author = ?2 and c.session = n.session))"
        )
        for h, session, seq in self.db.all(sql, (array(wanted), self.db.author)) if wanted else ():
            found.setdefault(h, []).append((session, seq))
        return found

    def _write(self, session: int, home: int, piece: Piece, blocks: list[int]) -> None:
        flavor = piece.session_uid.partition(":")[0]
        self.db.connection.copy(
            "events", [clean_row(row, flavor) for row in rows_in(session, piece, blocks)]
        )
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
        self.index.write_all(
            session,
            [
                (absolute(s.first_seq, blocks), absolute(s.last_seq, blocks), s)
                for s in piece.segments
            ],
        )
        packed = clean_stream(piece.facts, piece.tally)
        sql = "update streams set facts = ?, tally = ?, hash = ? where session = ? and block = ?"
        self.db.execute(sql, (*packed, piece.hash, session, home))

    def set_places(self, found: dict[str, tuple[str | None, str | None]]) -> None:
        names = self.claims.of_author() if found else {}
        super().set_places({names.get(uid, uid): places for uid, places in found.items()})


def _renamed(piece: Piece, names: dict[str, str]) -> Piece:
    uid, facts = names.get(piece.session_uid, piece.session_uid), piece.facts
    if facts.parent_uid in names and names[facts.parent_uid] != facts.parent_uid:
        facts = msgspec.structs.replace(facts, parent_uid=names[facts.parent_uid])
    return msgspec.structs.replace(piece, session_uid=uid, facts=facts)


def _unmarked(text: str | None) -> str:
    """The text without what another key makes of the same secret."""
    return _MARKER.sub(r"\1]", plain(text or "") or "")
