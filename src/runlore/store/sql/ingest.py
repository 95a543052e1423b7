"""How a batch is put: blocks of numbers, copies, links, totals, sources read again."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

import msgspec

from ...adapters import Facts
from ...model import BLOCK, format_time
from ...timeline import Tally
from ..copies import Copies
from ..deltas import rebuild, renumber, repeated
from ..natives import native_hash
from ..numbering import Again, absolute, numbers_of
from ..rows import (
    ASIDE,
    CUT,
    FLAGS,
    GONE,
    NATIVE_ID,
    OFFSET,
    PARENT,
    REST,
    SEQ,
    copied,
    outside,
    read_row,
    record_of,
    with_origin,
    with_record,
)
from ..segments import pack
from ..values import DAMAGED, OVERTAKEN, Batch, Piece, Put, StreamState
from .database import Database, values_for
from .index import SqlIndex
from .ledger import SqlLedger
from .sessions import SqlSessions
from .sources import SqlSources
from .totals import Totals

PUT_BACK = b"\x01"
"""The hash of a block that only counts what is gone from its source: the rest of it counts for a
later reading."""

NO_NUMBER = 1 << 62
"""Higher than that of any event."""

PUT_RECORDS = (
    "insert into records values (?, ?, ?, ?, ?) on conflict (source, first) do update set count ="
    " excluded.count, length = excluded.length, body = excluded.body"
)

INTO_EVENTS = "insert into events"

INSERT_EVENT = values_for(INTO_EVENTS, 15)


class SqlIngest(ABC):
    """See `Ingest` in the contracts."""

    def __init__(
        self,
        db: Database,
        sessions: SqlSessions,
        index: SqlIndex,
        sources: SqlSources,
        ledger: SqlLedger,
        totals: Totals,
    ) -> None:
        self.db, self.sessions, self.index = db, sessions, index
        self.sources, self.ledger, self.totals = sources, ledger, totals
        self.again: dict[int, Again] = {}

    @abstractmethod
    def _session(self, flavor: str, piece: Piece, batch: Batch) -> int:
        """The number of the session that a piece belongs to, made when it is new."""

    @abstractmethod
    def _add_block(self, session: int, source: int) -> int:
        """One more block of numbers for what a session has from a source."""

    @abstractmethod
    def find_natives(self, hashes: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
        """By hash of a native id, (session, seq) of all events that have it."""

    @abstractmethod
    def _write(self, session: int, home: int, piece: Piece, blocks: list[int]) -> None:
        """Writes the rows, native ids, segments and totals of a piece."""

    def together(self, batches: Sequence[Batch]) -> AbstractContextManager[None]:
        return nullcontext()

    def put(self, batch: Batch) -> Put:
        done = Put(sessions=set())
        with self.db.transaction():
            number, offset = self._source(batch)
            if offset != batch.since:
                return done  # It is there already: this is the second time.
            gone = self.sources.tombstones()
            flavor = batch.source.agent
            is_forgotten = False
            counts: list[bool] = []
            overtaken: set[tuple[int, int]] = set()
            self.ledger.placed = {}
            # An original before its copies.
            for piece in sorted(batch.pieces, key=lambda piece: piece.facts.parent_uid is not None):
                if piece.session_uid in gone or (
                    piece.facts.relation == "subagent" and piece.facts.parent_uid in gone
                ):
                    is_forgotten = True
                    done.forgotten += len(piece.rows)
                    continue
                if piece.rows or self.sessions.number(piece.session_uid) is not None:
                    counts.append(self._put_piece(number, flavor, piece, batch, done, overtaken))
            is_spare = bool(counts) and not any(counts)
            self._put_aliases(number, batch.aliases)
            self.ledger.put(batch.calls)
            self.ledger.placed = {}
            self._put_rest(number, batch, keep=not is_forgotten and not is_spare)
            if is_spare:  # Nothing will ever be derived from them.
                self.db.execute("delete from records where source = ?", (number,))
            self._mark_overtaken(number, overtaken, done)
            self._update_totals(number, batch, done.sessions)
            self.return_evicted({piece.session_uid for piece in batch.pieces if piece.rows}, done)
        return done

    def _update_totals(self, source: int, batch: Batch, uids: set[str]) -> None:
        """Writes what the sessions of a source add up to, and when these were put."""
        self.totals.update_source(source)
        now = format_time(datetime.now(UTC))
        # Another clock, or this one before it was set, may have been ahead when it was discovered.
        sql = (
            "update sessions set ingested_at = case when discovered_at > ? then discovered_at else"
            " ? end where uid = ?"
        )
        self.db.executemany(sql, ((now, now, uid) for uid in uids))

    def _put_aliases(self, source: int, aliases: list[tuple[int, int]]) -> None:
        """Keeps which events are meant by records that gave none. Looked up first and then inserted
        one by one: a statement that may insert several rows is a savepoint of its own, and at each
        the index writes out what it has collected."""
        if not aliases:
            return
        sessions = {
            session
            for (session,) in self.db.all("select session from streams where source = ?", (source,))
        }
        known = self.find_natives(list({target for _, target in aliases}))
        rows = []
        for h, target in aliases:
            places = [place for place in known.get(target, ()) if place[0] in sessions]
            if not places:
                places = self.db.all(
                    "select session, seq from aliases where source = ? and hash = ?",
                    (source, target),
                )
            rows += [(source, h, *place) for place in places[:1]]
        self.db.insert("insert or ignore into aliases", rows)

    def _source(self, batch: Batch) -> tuple[int, int]:
        """The number of the source, and up to where it has been read."""
        test, values = self.db.own_sources
        sql = f'select number, "offset" from sources where {test} and agent = ? and path = ?'
        row = self.db.one(sql, (*values, batch.source.agent, batch.source.path))
        if row is None:
            return self.sources.register(
                batch.source, batch.adapter_version, batch.redact_version, None
            ), 0
        return int(row[0]), int(row[1])

    def _put_piece(
        self,
        source: int,
        flavor: str,
        piece: Piece,
        batch: Batch,
        done: Put,
        overtaken: set[tuple[int, int]],
    ) -> bool:
        """Keeps what a batch adds to a session. False when another store of the agent tells that
        better."""
        session = self._session(flavor, piece, batch)
        again = self.again.get(session)
        if again is None and self._is_told_better(session, source, piece):
            done.copies += len(piece.rows)
            return False
        is_first = batch.since == 0 or session in self.sources.unread
        # A batch that only says something of the session (a new title) needs no numbers of its own,
        # unless they would count anew.
        is_anew = session in self.sources.unread or bool(piece.rows)
        blocks = self._blocks(session, source, fresh=is_first and again is None and is_anew)
        self.sources.unread -= {session}
        state = None if is_first else self.sources.stream_state(session, blocks)
        piece = self._set_apart_copies(session, source, piece, state, done, overtaken)
        while piece.rows and piece.rows[-1][SEQ] >= len(blocks) * BLOCK:
            blocks.append(self._add_block(session, source))
        home = blocks[0]
        if again is not None and (again.fresh is not None or not again.fits(piece, blocks)):
            if again.fresh is None:
                again.fresh = self._add_block(session, source)
                self.db.execute(
                    "update streams set hash = x'' where session = ? and source = ?",
                    (session, source),
                )
            home = again.fresh
            piece, blocks = renumber(piece, again.numbers, again.taken, home), list(range(home + 1))
        elif again is not None:
            again.taken.update(absolute(row[SEQ], blocks) for row in piece.rows)
        self._link(session, source, piece, blocks)
        self._write(session, home, piece, blocks)
        # What the session has already was taken out above, so that each of these is the only one of
        # its hash.
        if batch.calls:
            self.ledger.placed[piece.session_uid] = dict(
                zip(piece.natives, numbers_of(piece, blocks), strict=True)
            )
        done.events += len(piece.rows)
        done.sessions.add(piece.session_uid)
        return True

    def _blocks(self, session: int, source: int, *, fresh: bool) -> list[int]:
        """The blocks in which this reading of the source numbers its events. A fresh reading takes
        a new one."""
        found = self.db.all(
            "select block, hash from streams where source = ? and session = ? order by block",
            (source, session),
        )
        if fresh or not found:
            return [self._add_block(session, source)]
        # A block that was added because the one before was full has no hash of its own.
        first = len(found) - 1
        while first and not found[first][1]:
            first -= 1
        return [block for block, _ in found[first:]]

    def _is_told_better(self, session: int, source: int, piece: Piece) -> bool:
        """Whether another store of the agent tells all of the session, and better than this piece.
        What tells it worse is set aside: before the piece is put, because the same native ids may
        be in both."""
        own = piece.facts.spare
        if own is None:
            return False
        others = self._tellings(session, source)
        if any(spare < own for spare in others.values()):
            return True
        for other in (
            [other for other, spare in others.items() if spare > own] if piece.rows else ()
        ):
            self._set_aside(session, other)
        return False

    def _tellings(self, session: int, but: int) -> dict[int, int]:
        """The other sources with events that count in a session, and which of its tellings each is:
        see `Facts.spare`."""
        rows = self.db.all(
            "select source, facts, tally from streams where session = ? and source != ?",
            (session, but),
        )
        return {
            source: spare
            for source, facts, tally in rows
            if (spare := msgspec.msgpack.decode(facts, type=Facts).spare) is not None
            and msgspec.msgpack.decode(tally, type=Tally).events
        }

    def _is_spare(self, session: int, source: int) -> bool:
        """Whether another source tells the session better than this one does."""
        rows = self.db.all(
            "select facts from streams where session = ? and source = ?", (session, source)
        )
        own = max(
            (msgspec.msgpack.decode(facts, type=Facts).spare or 0 for (facts,) in rows), default=0
        )
        return own > 0 and any(spare < own for spare in self._tellings(session, source).values())

    def _set_aside(self, session: int, source: int) -> None:
        """What a source says of a session stays where it is, for whoever cites it, and counts no
        more."""
        (uid,) = self.db.one("select uid from sessions where number = ?", (session,))
        for (block,) in self.db.all(
            "select block from streams where session = ? and source = ?", (session, source)
        ):
            span = (session, block * BLOCK, (block + 1) * BLOCK - 1)
            known = self.native_hashes(session, block)
            # Those of events that have left. There is no index for this: it takes a scan.
            if self.is_evicted(session):
                known += self.db.all(
                    "select hash, seq from natives where session = ? and seq between ? and ?", span
                )
            gone = [(h, session, seq) for h, seq in known]
            self.db.executemany(
                "delete from natives where hash = ? and session = ? and seq = ?", gone
            )
            # What an eviction left of it is not waited for.
            bare = (
                f"delete from events where session = ? and seq between ? and ? and flags & {CUT} !="
                ' 0 and "offset" is null'
            )
            self.db.execute(bare, span)
            flags = f"(flags | {ASIDE}) & {~CUT}"
            self.db.execute(
                f"update events set flags = {flags}, native_id = null where session = ? and seq"
                " between ? and ?",
                span,
            )
            self._repack(uid, session, block, [], [])
            self.db.execute(
                "update streams set tally = ?, hash = x'' where session = ? and block = ?",
                (msgspec.msgpack.encode(Tally()), session, block),
            )

    def _set_apart_copies(
        self,
        session: int,
        source: int,
        piece: Piece,
        state: StreamState | None,
        done: Put,
        overtaken: set[tuple[int, int]],
    ) -> Piece:
        """Leaves out what this session has already, and turns what happened in another session into
        references to it."""
        known = self.find_natives(piece.natives)
        for n, original in piece.originals:
            h = piece.natives[n]
            found = self.find_natives([original]).get(original) if original != h else None
            # Each place once: what is in the way of itself would be derived again for ever.
            if found:
                known[h] = list({*known.get(h, ()), *found})
        twice = repeated(piece)
        if not known and not twice:
            return piece
        replaced: dict[int, list[Any] | None] = {}
        instead: dict[int, int] = {}
        there: dict[int, int | None] = {}
        copies = Copies(piece, overtaken, self._rest_of, self._who)
        for n, (h, row) in enumerate(zip(piece.natives, piece.rows, strict=True)):
            places = known.get(h, [])
            own = next((seq for number, seq in places if number == session), None)
            if own is not None or n in twice:
                replaced[n] = None
                instead[row[SEQ]] = piece.rows[twice[n]][SEQ] if own is None else outside(own)
                if own is not None:
                    there.setdefault(own, record_of(row))
            elif places and (origin := copies.origin(n, places)) is not None:
                replaced[n] = with_origin(row, origin)
        if not replaced:
            return piece
        if there:
            self._unmark_gone(session, source, there)
        done.copies += len(replaced)
        return rebuild(piece, state, replaced, instead)

    def _rest_of(self, session: int, seq: int) -> bytes | None:
        found = self.db.one("select rest from events where session = ? and seq = ?", (session, seq))
        return found[0] if found else None

    def _who(self, session: int) -> tuple[str, str | None, bool]:
        """The uid of a session, its parent's, and whether it can be derived again."""
        uid, parent = self.db.one(
            "select uid, parent_uid from sessions where number = ?", (session,)
        )
        lost = self.db.all(
            "select distinct q.number, q.records from sources q join streams s on s.source ="
            " q.number where s.session = ? and s.hash != x'' and q.missing_at is not null",
            (session,),
        )
        return (
            uid,
            parent,
            all(self.sources.count_records(source) == records for source, records in lost),
        )

    def _mark_overtaken(self, source: int, places: set[tuple[int, int]], done: Put) -> None:
        """The sources of these (session, block) are to be derived again; the one being put sees to
        it itself."""
        sql = (
            "update sources set adapter_version = ?1 where number != ?2 and number in"
            " (select source from streams where session = ?3 and block = ?4)"
        )
        for place in places:
            self.db.execute(sql, (OVERTAKEN, source, *place))
            done.overtaken += self.db.changes()

    def _link(self, session: int, source: int, piece: Piece, blocks: list[int]) -> None:
        """Finds the parents that are not in the batch. One that comes later in the stream is no
        parent."""
        sql = (
            "select seq from natives where hash = ?1 and session = ?2"
            " union all select seq from aliases where source = ?3 and hash = ?1 and session = ?2"
        )
        for n, parent in piece.links:
            found = self.db.one(sql, (parent, session, source))
            row = list(piece.rows[n])
            if found is not None and found[0] < absolute(row[SEQ], blocks):
                row[PARENT] = outside(found[0])
                piece.rows[n] = tuple(row)

    def _put_rest(self, source: int, batch: Batch, *, keep: bool) -> None:
        if keep:
            if self._has_records_before(source, batch):
                self.db.executemany(PUT_RECORDS, ((source, *record) for record in batch.records))
            self.db.executemany(
                "insert or ignore into skips values (?, ?, ?)",
                ((source, skip.offset, skip.reason) for skip in batch.skips),
            )
        totals: dict[str, int] = {}
        if batch.since:
            totals = msgspec.json.decode(
                self.db.one("select merged from sources where number = ?", (source,))[0],
                type=dict[str, int],
            )
        for word, count in batch.merged.items():
            totals[word] = totals.get(word, 0) + count
        at = batch.position
        self.db.execute(
            'update sources set size = ?, mtime_ns = ?, inode = ?, "offset" = ?, head = ?, tail = ?, records = ?, carry = ?,'
            " adapter_version = case when ? and adapter_version = ? then adapter_version else ? end,"
            " redact_version = case when ? then redact_version else ? end, merged = ?, synced_at = ?,"
            " missing_at = case when ? then missing_at end, problem = null where number = ?",
            # What was stored of it before stays as other rules left it, until `redact_again` has
            # been over it.
            (
                batch.source.size, batch.source.mtime_ns, batch.source.inode, at.offset, at.head,
                at.tail, at.records,
                batch.carry, batch.since > 0, OVERTAKEN, batch.adapter_version, batch.since > 0,
                batch.redact_version,
                msgspec.json.encode(totals).decode(), format_time(datetime.now(UTC)), batch.is_gone,
                source,
            ),
        )  # fmt: skip

    def _has_records_before(self, source: int, batch: Batch) -> bool:
        """Whether those that come before are kept. Without them, as when they have left, nothing
        could be derived from these."""
        first = batch.records[0][0] if batch.records else 0
        if not first:
            return True
        row = self.db.one(
            "select first + count from records where source = ? and first <= ? order by first desc"
            " limit 1",
            (source, first),
        )
        return row is not None and int(row[0]) >= first

    def rewrite(self, source: int, batches: Iterable[Batch]) -> Put:
        total = Put(sessions=set())
        with self.db.step():
            before = self.db.all("select session, block from streams where source = ?", (source,))
            self._rewind(source)
            present: dict[int, int | None] = {}
            self.sources.unread = frozenset(session for session, _ in before)
            try:
                for batch in batches:
                    for piece in batch.pieces:
                        present.update(
                            (h, record_of(row))
                            for h, row in zip(piece.natives, piece.rows, strict=True)
                        )
                    add(
                        total,
                        self.put(
                            msgspec.structs.replace(batch, redact_version=self._redacted(source))
                        ),
                    )
            finally:
                self.sources.unread = frozenset()
            for session, block in before:
                self._mark_gone(session, block, present)
        return total

    def _mark_gone(self, session: int, block: int, present: dict[int, int | None]) -> None:
        """Marks what is no longer in its source, unmarks what is again, and notes where in the
        source it is now."""
        numbers = {seq: h for h, seq in reversed(self.native_hashes(session, block))}
        changes = []
        for row in self.sessions.rows(session, block * BLOCK, (block + 1) * BLOCK - 1):
            h = numbers.get(row[SEQ])
            if h is not None:
                flags = row[FLAGS] & ~GONE if h in present else row[FLAGS] | GONE
                changes.append((flags, with_record(row[REST], present.get(h)), session, row[SEQ]))
        self.db.executemany(
            "update events set flags = ?, rest = ? where session = ? and seq = ?", changes
        )

    def _unmark_gone(self, session: int, source: int, there: dict[int, int | None]) -> None:
        """A source that was found shorter may grow to what it was: what was gone is there again, by
        number, in these records."""
        sql = (
            "select seq, rest from events where session = ?1 and seq between ?2 and ?3 and flags &"
            f" {GONE} != 0 and seq / {BLOCK} in (select block from streams where session = ?1 and"
            " source = ?4)"
        )
        gone = self.db.all(sql, (session, min(there), max(there), source))
        changes = [
            (with_record(rest, there[seq]), session, seq) for seq, rest in gone if seq in there
        ]
        self.db.executemany(
            f"update events set flags = flags & {~GONE}, rest = ? where session = ? and seq = ?",
            changes,
        )

    def _redacted(self, source: int) -> str:
        (version,) = self.db.one("select redact_version from sources where number = ?", (source,))
        return str(version)

    def native_hashes(self, session: int, block: int | None = None) -> list[tuple[int, int]]:
        """(hash, seq) of every event of a session, or of one block of it, that has a native id; and
        of what it is a copy of."""
        (flavor,) = self.db.one("select flavor from sessions where number = ?", (session,))
        low, high = (0, 1 << 62) if block is None else (block * BLOCK, (block + 1) * BLOCK - 1)
        sql = (
            "select native_id, seq, rest from events where session = ? and seq between ? and ? and"
            " native_id is not null"
        )
        rows = self.db.all(sql, (session, low, high))
        originals = [
            (original, seq) for _, seq, rest in rows if (original := copied(rest)[1]) is not None
        ]
        return [(native_hash(flavor, native_id), seq) for native_id, seq, _ in rows] + originals

    def rederive(self, source: int, batches: Iterable[Batch]) -> Put:
        total = Put(sessions=set())
        with self.db.step():
            streams = self.db.all("select session, block from streams where source = ?", (source,))
            # What was set aside is as it was cited, and has nothing to learn from a newer adapter.
            aside = {
                session
                for session in {session for session, _ in streams}
                if self._is_spare(session, source)
            }
            streams = [(session, block) for session, block in streams if session not in aside]
            there = {session for session, _ in streams if not self.is_evicted(session)}
            (version,) = self.db.one(
                "select adapter_version from sources where number = ?", (source,)
            )
            gone: list[tuple[int, int, list[list[Any]], list[bytes | None]]] = []
            try:
                for session, block in streams:
                    gone.append((session, block, *self._gone_from(session, block)))
                    self.take_out(
                        session, block, is_damaged=version == DAMAGED or self.is_evicted(session)
                    )
                    self.again[session].has_gone |= bool(gone[-1][2])
                self._rewind(source)
                for batch in batches:
                    if any(rows for _, _, rows, _ in gone):
                        batch = msgspec.structs.replace(
                            batch, redact_version=self._redacted(source)
                        )
                    add(total, self.put(batch))
            finally:
                self.again = {}
            for session, block, rows, bodies in gone:
                self._put_back(session, block, rows, bodies)
            for session in {session for session, _ in streams}:
                if self._is_spare(session, source):  # The newer adapter knows that it is one.
                    self._set_aside(session, source)
            self.totals.update_source(source)
            # The same text may be other events now, or copies that it was not: a digest of what
            # they were covers nothing any more.
            sql = (
                "update sessions set analyzed_seq = -1, analyzed_hash = '' where number = ? and"
                " analyzed_at is not null"
            )
            self.db.executemany(sql, [(session,) for session in there])
        return total

    def is_evicted(self, session: int) -> bool:
        return (
            self.db.one(
                "select 1 from sessions where number = ? and evicted_at is not null", (session,)
            )
            is not None
        )

    def _gone_from(self, session: int, block: int) -> tuple[list[list[Any]], list[bytes | None]]:
        """The rows and bodies of a block that are no longer in its source: no adapter can derive
        them again."""
        low, high = block * BLOCK, (block + 1) * BLOCK - 1
        rows = [list(row) for row in self.sessions.rows(session, low, high) if row[FLAGS] & GONE]
        if not rows:
            return [], []
        (uid,) = self.db.one("select uid from sessions where number = ?", (session,))
        bodies = self.sessions.bodies(uid, low, high)
        return rows, [
            None if row[OFFSET] is None else bodies[row[SEQ]].encode("utf-8", "replace")
            for row in rows
        ]

    def _put_back(
        self, session: int, block: int, rows: list[list[Any]], bodies: list[bytes | None]
    ) -> None:
        """Rows of before that the source did not bring again. They count for the block that they
        had."""
        uid, flavor = self.db.one("select uid, flavor from sessions where number = ?", (session,))
        hashes = [native_hash(flavor, row[NATIVE_ID]) for row in rows]
        known = self.find_natives(hashes)
        left = [
            n
            for n, h in enumerate(hashes)
            if all(number != session for number, _ in known.get(h, []))
        ]
        rows, bodies = [rows[n] for n in left], [bodies[n] for n in left]
        if not rows:
            return
        natives = [(hashes[n], session, row[SEQ]) for n, row in zip(left, rows, strict=True)]
        self.db.executemany("insert or ignore into natives values (?, ?, ?)", natives)
        self._repack(uid, session, block, rows, bodies)
        (tally,) = self.db.one(
            "select tally from streams where session = ? and block = ?", (session, block)
        )
        total = msgspec.msgpack.decode(tally, type=Tally).add(read_row(uid, row) for row in rows)
        self.db.execute(
            "update streams set tally = ?, hash = case when hash = x'' then ? else hash end where"
            " session = ? and block = ?",
            (msgspec.msgpack.encode(total), PUT_BACK, session, block),
        )

    def _repack(
        self, uid: str, session: int, block: int, rows: list[list[Any]], bodies: list[bytes | None]
    ) -> None:
        """Adds rows to a block between those that it has. Segments must not overlap, so all of its
        bodies are packed anew."""
        span = (session, block * BLOCK, (block + 1) * BLOCK - 1)
        there = [list(row) for row in self.sessions.rows(*span)]
        texts = self.sessions.bodies_of(uid, session, span[1], span[2], there)
        packed = [
            None if row[OFFSET] is None else texts[row[SEQ]].encode("utf-8", "replace")
            for row in there
        ]
        both = sorted(
            zip(rows + there, bodies + packed, strict=True), key=lambda pair: pair[0][SEQ]
        )
        self.index.drop("session = ? and first_seq between ? and ?", span)
        self.db.execute("delete from events where session = ? and seq between ? and ?", span)
        segments = pack([row for row, _ in both], [body for _, body in both], None)
        self.db.executemany(INSERT_EVENT, ((session, *row) for row, _ in both))
        for segment in segments:
            self.index.write(session, segment.first_seq, segment.last_seq, segment)

    def take_out(self, session: int, block: int, *, is_damaged: bool) -> None:
        """Drops the events of a block and remembers which native id had which number."""
        low, high = block * BLOCK, (block + 1) * BLOCK - 1
        span = (session, low, high)
        known = self.native_hashes(session, block)
        # An event that was lost may still be known by its number. There is no index for this: it
        # takes a scan.
        if is_damaged:
            known = (
                self.db.all(
                    "select hash, seq from natives where session = ? and seq between ? and ?", span
                )
                + known
            )
        again = self.again.setdefault(session, Again())
        # The own id of an event is worth more than that of an original.
        again.numbers.update(reversed(known))
        (last,) = self.db.one("select last_seq from sessions where number = ?", (session,))
        # Where events were lost by accident, the highest number may be that of one of them.
        again.last = max(
            [
                again.last,
                NO_NUMBER if is_damaged and not self.is_evicted(session) else last,
                *(seq for _, seq in known),
            ]
        )
        self.db.executemany(
            "delete from natives where hash = ? and session = ?", ((h, session) for h, _ in known)
        )
        self.db.execute("delete from events where session = ? and seq between ? and ?", span)
        self.index.drop("session = ? and first_seq between ? and ?", span)
        self.db.execute(
            "update streams set tally = ?, hash = x'' where session = ? and block = ?",
            (msgspec.msgpack.encode(Tally()), session, block),
        )

    def _rewind(self, source: int) -> None:
        self.db.execute("delete from records where source = ?", (source,))
        self.db.execute("delete from skips where source = ?", (source,))
        self.db.execute("delete from aliases where source = ?", (source,))
        self.db.execute(
            'update sources set "offset" = 0, records = 0, carry = null where number = ?', (source,)
        )

    def return_evicted(self, told: set[str], done: Put) -> None:
        """What was evicted and has got something is back. Not before the rest of it is: other
        sources of it are to be read again, and when one of them is missing it stays evicted, for a
        digest of what is left would know less than the one that it has."""
        cut = (
            f"select q.number, q.missing_at, max(e.flags & {GONE}) from events e join streams s on"
            f" s.session = e.session and s.block = e.seq / {BLOCK} join sources q on q.number ="
            f" s.source where e.session = ? and e.flags & {CUT} != 0 group by 1, 2"
        )
        # A clock may have been ahead when it was analyzed, as for `_evict`.
        latest = "case when analyzed_at > ingested_at then analyzed_at else ingested_at end"
        stays = f"update sessions set evicted_at = {latest} where number = ?"
        for uid in sorted(done.sessions):
            session = self.sessions.number(uid)
            if session is None or not self.is_evicted(session):
                continue
            if uid not in told:  # Another title, or less: nothing that would be missing.
                self.db.execute(stays, (session,))
                continue
            others = self.db.all(cut, (session,))
            if not others:
                sql = (
                    "update sessions set evicted_at = null, analyzed_at = case when analyzed_seq is"
                    " not null then analyzed_at end"
                )
                self.db.execute(f"{sql} where number = ?", (session,))
                continue
            self.db.execute(stays, (session,))
            if all(missing is None and not is_gone for _, missing, is_gone in others):
                rows = [(DAMAGED, other) for other, _, _ in others]
                self.db.executemany("update sources set adapter_version = ? where number = ?", rows)
                done.overtaken += len(others)

    def return_whole(self, source: int, batches: Iterable[Batch], *, is_proved: bool) -> Put | None:
        cut = (
            "select 1 from streams s join events e on e.session = s.session and e.seq between"
            f" s.block * {BLOCK} and (s.block + 1) * {BLOCK} - 1 where s.source = ? and e.flags & ?"
            " = ? limit 1"
        )
        if self.db.one(cut, (source, CUT | GONE, CUT | GONE)):
            return None
        wanted: set[tuple[int, int]] = set()
        # Also of its sessions that are still there: what they lack afterwards would be lost.
        told = "select session, block, tally from streams where source = ?"
        for session, block, tally in [] if is_proved else self.db.all(told, (source,)):
            sql = "select hash, seq from natives where session = ? and seq between ? and ?"
            known = self.db.all(sql, (session, block * BLOCK, (block + 1) * BLOCK - 1))
            if len({seq for _, seq in known}) < msgspec.msgpack.decode(tally, type=Tally).events:
                return None  # What has no native id cannot be known again.
            wanted |= {(session, h) for h, _ in known}
        try:
            with self.db.step():
                done = self.rederive(source, batches)
                here = {
                    (session, h)
                    for h, places in self.find_natives([h for _, h in wanted]).items()
                    for session, _ in places
                }
                if not wanted <= here:
                    raise Short
        except Short:
            return None
        return done

    def part_with(self, source: int, batches: Iterable[Batch], when: datetime) -> Put:
        done = Put(sessions=set())
        with self.db.step():
            (path,) = self.db.one("select path from sources where number = ?", (source,))
            aside = os.path.join(
                os.path.dirname(path), f"until {when:%Y%m%dT%H%M%S%f}Z", os.path.basename(path)
            )
            sql = "update sources set path = ?, inode = 0, missing_at = ? where number = ?"
            self.db.execute(sql, (aside, format_time(when), source))
            for batch in batches:
                add(done, self.put(batch))
            self.totals.update_source(source)
        return done

    def set_places(self, found: dict[str, tuple[str | None, str | None]]) -> None:
        with self.db.transaction():
            # The name alone, which a folder has too, takes nothing from one that is known with its
            # owner.
            self.db.executemany(
                "update sessions set repo = case when repo like '%/' || ? then repo else"
                " coalesce(?, repo) end, task_ref = coalesce(task_ref, ?) where uid = ?",
                [(repo, repo, task, uid) for uid, (repo, task) in found.items()],
            )

    def set_domains(self, domain_of: Callable[[str | None], str | None]) -> None:
        (is_own, author), (is_mine, reader) = self.db.own_sessions, self.db.own_sources
        # Nearly always nothing has changed, and whose the sources are need not be asked.
        known = self.db.all(f"select distinct repo, domain from sessions where {is_own}", author)
        if all(domain_of(repo) == domain for repo, domain in known):
            return
        here = (
            "number in (select t.session from streams t join sources q on q.number = t.source"
            f" where {is_mine})"
        )
        others: dict[str | None, list[int]] = {}
        for number, repo, old in self.db.all(
            f"select number, repo, domain from sessions where {is_own} and {here}",
            (*author, *reader),
        ):
            if (domain := domain_of(repo)) != old:
                others.setdefault(domain, []).append(number)
        with self.db.transaction():
            for domain, numbers in others.items():
                sql = "update sessions set domain = ? where number in (select value from carray(?))"
                self.db.execute(sql, (domain, self.db.ids(numbers)))


class Short(Exception):
    """What was to come back did not come as a whole."""


def add(total: Put, more: Put) -> None:
    total.sessions |= more.sessions
    total.events += more.events
    total.copies += more.copies
    total.forgotten += more.forgotten
    total.overtaken += more.overtaken
