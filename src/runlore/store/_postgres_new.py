"""How the PostgreSQL store keeps sources that nothing is known of yet: many at once.

In a first sync nearly all sources are new, and each would ask a dozen questions with the answer "nothing". So what is about to be put is
asked for together, and what turns out to be new is written in a few long COPYs. Everything else goes the way of `_postgres_put.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from ..model import BLOCK, SCHEMA_VERSION, Digest, format_time
from . import Batch, Kept, Piece, Put
from ._postgres_db import array
from ._postgres_put import PostgresWriter, clean_stream, month_of
from ._sql import plain
from ._sql_calls import CALL_COLUMNS
from ._sql_digests import Shelf, rows_of_digest, said_by
from .calls import hash_of
from .charging import dead_ends_of
from .pieces import SEQ

_CLAIMED = "select uid from claims where uid = any(?2) and (author = ?1 or session in (select number from sessions where author = ?1))"


class NewRow:
    """A row that waits to be sent, and can be changed as long as it does."""

    def __init__(self, names: Sequence[str], values: list[Any], packed: int) -> None:
        self.names, self.values = list(names), values
        self.packed = packed
        """How often rows had been packed when it began to wait."""

    def __getitem__(self, name: str) -> Any:
        return self.values[self.names.index(name)]

    def update(self, **changes: Any) -> None:
        for name, value in changes.items():
            (self.values[self.names.index(name)],) = _clean([value])


class Expected:
    """What the database has of what is about to be put, while nobody else writes."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.asked = {(batch.source.agent, batch.source.path) for batch in batches}
        self.asked_calls = {hash_of(kept.call) for batch in batches for kept in batch.calls}
        self.sources: set[tuple[str, str]] = set()
        self.uids: set[str] = set()
        self.claimed: set[str] = set()
        self.hashes: set[int] = set()
        self.calls: set[int] = set()
        self.rows: dict[str, NewRow] = {}
        """Rows of new sessions by uid."""
        self.source_numbers: list[int] = []
        self.session_numbers: list[int] = []

    def is_new(self, batch: Batch) -> bool:
        """Whether nothing of a batch is there, nor anything that it is a copy of."""
        key = (batch.source.agent, batch.source.path)
        if batch.since or batch.is_gone or key not in self.asked or key in self.sources:
            return False
        own = {piece.session_uid for piece in batch.pieces if piece.rows}
        hashes = list(hashes_of(batch))
        calls = [hash_of(kept.call) for kept in batch.calls]
        return (
            self.uids.isdisjoint(own)
            and self.claimed.isdisjoint(uids_of(batch))
            and self.hashes.isdisjoint(hashes)
            and self.calls.isdisjoint(calls)
            and len(set(hashes)) == len(hashes)  # What is there twice in one source is kept once.
            and len(set(calls)) == len(calls)
            and len(own) == len(batch.pieces)
            and own.issuperset(kept.call.session_uid for kept in batch.calls)
            and all(piece.rows[-1][SEQ] < BLOCK for piece in batch.pieces)
        )

    def remember(self, put: Expected) -> None:
        """What was put before is there."""
        self.sources |= put.sources
        self.uids |= put.uids
        self.claimed |= put.claimed
        self.hashes |= put.hashes
        self.calls |= put.calls

    def add(self, batch: Batch) -> None:
        """It is there now."""
        self.sources.add((batch.source.agent, batch.source.path))
        self.uids.update(piece.session_uid for piece in batch.pieces)
        self.hashes.update(hashes_of(batch))
        self.calls.update(hash_of(kept.call) for kept in batch.calls)


class PostgresNew(PostgresWriter, Shelf):
    """The part of `PostgresStore` that puts what is new."""

    @contextmanager
    def together(self, batches: Sequence[Batch]) -> Iterator[None]:
        with self.transaction():
            self._lock_for_writing()
            assert self._seen is not None
            self._seen.expected = self._expect(batches, self._seen.put)
            # While the server takes in what was put before, this is being made.
            self.db.send_behind()
            yield
            self.db.pack()  # What cannot be stored is the fault of these, and no others'.
            self._seen.put, self._seen.expected = self._seen.expected, None

    def _expect(self, batches: Sequence[Batch], put: Expected | None) -> Expected:
        """What there is of these, beside what was `put` last and is not sent yet."""
        expected = Expected(batches)
        pieces = [piece for batch in batches for piece in batch.pieces]
        self._make_months({month_of(piece.tally.started_at) for piece in pieces})
        uids = list({uid for batch in batches for uid in uids_of(batch)})
        hashes = array(h for batch in batches for h in hashes_of(batch))
        calls = array(expected.asked_calls)
        sources, sessions, claimed, natives, known, source_numbers, session_numbers = self.db.ask(
            [
                ("select agent, path from sources where reader = ? and path = any(?)", (self.reader, [path for _, path in expected.asked])),
                ("select uid, number from sessions where uid = any(?)", (uids,)),
                (_CLAIMED, (self.author, uids)),
                ("select distinct hash from natives where hash = any(?::bigint[])", (hashes,)),
                ("select hash from calls where hash = any(?::bigint[])", (calls,)),
                ("select nextval('source_numbers') from generate_series(1, ?)", (len(batches),)),
                ("select nextval('session_numbers') from generate_series(1, ?)", (len(pieces),)),
            ],
            ahead=True,
        )
        expected.sources.update(sources)
        expected.uids.update(uid for uid, _ in sessions)
        expected.claimed.update(uid for (uid,) in claimed)
        expected.hashes.update(h for (h,) in natives)
        expected.calls.update(h for (h,) in known)
        if put is not None:
            expected.remember(put)
        # Taken from the end, so the smallest is there: postings come nearly sorted when numbers go up with what is written.
        expected.source_numbers = [number for (number,) in reversed(source_numbers)]
        expected.session_numbers = [number for (number,) in reversed(session_numbers)]
        return expected

    def put(self, batch: Batch) -> Put:
        with self.transaction():
            self._lock_for_writing()
            expected = self._seen.expected if self._seen else None
            if expected is None:
                return super().put(batch)
            gone = self.tombstones()
            is_new = expected.is_new(batch) and not self._again and gone.isdisjoint(uids_of(batch))
            if is_new:
                done = self._put_new(batch, expected)
            else:
                for uid in uids_of(batch):
                    expected.rows.pop(uid, None)  # It is not what was made any more.
                done = super().put(batch)
            expected.add(batch)
        return done

    def calls(self, hashes: Sequence[int]) -> list[Kept]:
        expected = self._seen.expected if self._seen else None
        # The further parts of a source that is read again are not among what was expected.
        is_known = expected is not None and expected.asked_calls.issuperset(hashes) and expected.calls.isdisjoint(hashes)
        return [] if is_known else super().calls(hashes)

    # ── one source ───────────────────────────────────────────────────────────────────────────────────────────────────
    def _put_new(self, batch: Batch, expected: Expected) -> Put:
        done = Put(sessions={piece.session_uid for piece in batch.pieces}, events=sum(len(piece.rows) for piece in batch.pieces))
        source = expected.source_numbers.pop()
        places: dict[int, tuple[int, int]] = {}
        numbers: dict[str, int] = {}
        for piece in batch.pieces:
            number = month_of(piece.tally.started_at) << 31 | expected.session_numbers.pop()
            numbers[piece.session_uid] = number
            places |= self._put_new_piece(number, source, piece, batch, expected)
        aliases = {h: places[target] for h, target in reversed(batch.aliases) if target in places}
        self.db.copy("aliases", [(source, h, *place) for h, place in aliases.items()])
        self._put_new_calls(batch.calls, numbers, aliases | places)
        self.db.copy("records", [(source, *record) for record in batch.records])
        self.db.copy("skips", [(source, offset, plain(reason)) for offset, reason in {(skip.offset, skip.reason) for skip in batch.skips}])
        self._put_new_source(source, batch)
        return done

    def _put_new_piece(self, number: int, source: int, piece: Piece, batch: Batch, expected: Expected) -> dict[int, tuple[int, int]]:
        """Writes a session; gives back where its native ids are."""
        assert self._seen is not None
        uid, now = piece.session_uid, format_time(datetime.now(UTC))
        places = {h: (number, row[SEQ]) for h, row in zip(piece.natives, piece.rows, strict=True) if h}
        places |= {h: (number, piece.rows[n][SEQ]) for n, h in piece.originals if h}
        self.db.copy("events", list(self._event_rows(number, batch.source.agent, piece, [0])))
        self.db.copy("natives", [(h, *place) for h, place in places.items()])
        self._seen.numbers[uid] = number
        self._seen.fresh.add(number)
        self._write_segments(number, [(segment.first_seq, segment.last_seq, segment) for segment in piece.segments])
        stream = (*clean_stream(msgspec.msgpack.encode(piece.facts), msgspec.msgpack.encode(piece.tally)), piece.hash)
        self.db.copy("streams", [(number, 0, source, *stream)])
        facts, sums = self._summed([(*stream, batch.source.path, batch.source.size, None)], piece.rows[-1][SEQ])
        row = sums | dict(
            number=number, uid=uid, flavor=batch.source.agent, native_session_id=piece.facts.native_session_id,
            machine=batch.source.machine or self.machine, author=self.author, discovered_at=now, ingested_at=now,
            schema_version=SCHEMA_VERSION, repo=facts.repo, domain=None, task_ref=facts.task_ref,
            analyzed_at=None, analyzed_seq=None, analyzed_hash=None, outcome="unknown", outcome_evidence=None, quality=None,
        )  # fmt: skip
        expected.rows[uid] = NewRow(list(row), self._add_row("sessions", row), self.db.packed)
        return places

    def _put_new_calls(self, calls: Sequence[Kept], numbers: dict[str, int], places: dict[int, tuple[int, int]]) -> None:
        for kept in calls:
            number = numbers[kept.call.session_uid]
            session, seq = places.get(kept.event, (-1, -1)) if kept.event else (-1, -1)
            values = self._call_row(kept, number, seq if session == number else kept.call.seq)
            self.db.copy(_into("calls", CALL_COLUMNS), [_clean(values)])
            self._to_sum.add(number)
            self._to_charge.setdefault(number)

    def _put_new_source(self, number: int, batch: Batch) -> None:
        source, at, now = batch.source, batch.position, format_time(datetime.now(UTC))
        row = self.own | dict(
            number=number, agent=source.agent, path=source.path, root=source.root, machine=source.machine, size=source.size,
            mtime_ns=source.mtime_ns, inode=source.inode, offset=at.offset, head=at.head, tail=at.tail, records=at.records,
            carry=batch.carry, adapter_version=batch.adapter_version, redact_version=batch.redact_version,
            merged=msgspec.json.encode(batch.merged).decode(), discovered_at=now, synced_at=now,
        )  # fmt: skip
        self._add_row("sources", row)

    def _add_row(self, table: str, row: dict[str, Any]) -> list[Any]:
        """Adds a row by its columns."""
        values = _clean(row.values())
        self.db.copy(_into(table, tuple(row)), [values])
        return values

    # ── what is said of a session that waits ─────────────────────────────────────────────────────────────────────────
    def _made(self, uid: str) -> NewRow | None:
        """The row of a session that was just made."""
        return self._seen.expected.rows.get(uid) if self._seen and self._seen.expected else None

    def _is_waiting(self, row: NewRow) -> bool:
        return row.packed == self.db.packed

    def set_places(self, found: dict[str, tuple[str | None, str | None]]) -> None:
        rest = {}
        for uid, (repo, task) in found.items():
            row = self._made(uid)
            if row is None or not self._is_waiting(row):
                rest[uid] = (repo, task)
                continue
            row.update(repo=row["repo"] if repo is None else repo, task_ref=task if row["task_ref"] is None else row["task_ref"])
        if rest:
            super().set_places(rest)

    def fits(self, digest: Digest) -> bool:
        row, covers = self._made(digest.session_uid), digest.covers
        return super().fits(digest) if row is None else (row["last_seq"], row["content_hash"]) == (covers.last_seq, covers.content_hash)

    def put_digest(self, digest: Digest, when: datetime) -> None:
        row = self._made(digest.session_uid)
        if row is None:
            with self.transaction():
                self._lock_for_writing()
                super().put_digest(digest, when)
            return
        if not self._is_waiting(row):
            self._set_digest(row["number"], digest, when)
            return
        digest_row, errors = rows_of_digest(row["number"], digest, when)
        self.db.copy("digests", [digest_row])
        self.db.copy("errors", [_clean(error) for error in errors])
        row.update(**said_by(digest, when))
        self._to_charge[row["number"]] = dead_ends_of(digest)


def uids_of(batch: Batch) -> Iterator[str]:
    """The sessions that a batch is about, and their parents."""
    for piece in batch.pieces:
        yield piece.session_uid
        if piece.facts.parent_uid:
            yield piece.facts.parent_uid


def hashes_of(batch: Batch) -> Iterator[int]:
    """Of the native ids that a batch has, and of those that it has copies of."""
    for piece in batch.pieces:
        yield from (h for h in piece.natives if h)
        yield from (h for _, h in piece.originals if h)


@cache
def _into(table: str, columns: tuple[str, ...]) -> str:
    """A table, and those of its columns that are given, in this order."""
    return f"{table} ({', '.join(f'{chr(34)}{name}{chr(34)}' for name in columns)})"


def _clean(values: Iterable[Any]) -> list[Any]:
    """As columns can hold them."""
    return [plain(value) if isinstance(value, str) else value for value in values]
