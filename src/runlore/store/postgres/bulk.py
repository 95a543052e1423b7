"""How a PostgreSQL store puts sources that nothing is known of yet: many at once.

In a first sync nearly all sources are new, and each would ask a dozen questions with the answer "nothing". So
what is about to be put is asked for together, and what turns out to be new is written in a few long COPYs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec

from ...adapters import Source
from ...model import BLOCK, SCHEMA_VERSION, format_time
from ..calls import hash_of
from ..numbering import rows_in
from ..rows import SEQ
from ..sql.database import plain
from ..sql.ledger import PUT_CALL
from ..values import Batch, Kept, Piece, Put
from .connection import array
from .ingest import PostgresIngest
from .known import Call, Expected, Made, NewRow, Seen, clean, hashes_of, uids_of
from .months import month_of
from .rows import clean_row, clean_stream

_THERE = (
    "select (select array_agg(uid) from claims where uid = any(?2)"
    " and (author = ?1 or session in (select number from sessions where author = ?1))),"
    " (select array_agg(distinct hash) from natives where hash = any(?3::bigint[])),"
    " (select array_agg(hash) from calls where hash = any(?4::bigint[])),"
    " (select array_agg(nextval('source_numbers')) from generate_series(1, ?5)),"
    " (select array_agg(nextval('session_numbers')) from generate_series(1, ?6))"
)
"""Which of these are there, and so many further numbers."""


class PostgresBulkIngest(PostgresIngest):
    """See `Ingest` in the contracts."""

    @contextmanager
    def together(self, batches: Sequence[Batch]) -> Iterator[None]:
        with self.db.transaction():
            self.db.lock_for_writing()
            assert self.db.seen is not None
            self.db.seen.expected = self._expect(batches, self.db.seen)
            # While the server takes in what was put before, this is being made.
            self.db.connection.send_behind()
            yield
            self.db.connection.check()  # What cannot be stored is the fault of these, and no others'.
            self.db.seen.put, self.db.seen.expected = self.db.seen.expected, None

    def _expect(self, batches: Sequence[Batch], seen: Seen) -> Expected:
        """What there is of these, and of what this transaction has put, which need not be sent
        yet."""
        expected = Expected(batches)
        pieces = [piece for batch in batches for piece in batch.pieces]
        self.db.months.make({month_of(piece.tally.started_at) for piece in pieces})
        uids = list({uid for batch in batches for uid in uids_of(batch)})
        hashes = array(h for batch in batches for h in hashes_of(batch))
        calls = array(expected.asked_calls)
        sources, sessions, [(claimed, natives, known, source_numbers, session_numbers)] = (
            self.db.connection.ask(
                [
                    (
                        "select agent, path from sources where reader = ? and path = any(?)",
                        (self.db.reader, [path for _, path in expected.asked]),
                    ),
                    (
                        (
                            "select uid, number, evicted_at is not null from sessions where uid ="
                            " any(?)"
                        ),
                        (uids,),
                    ),
                    (_THERE, (self.db.author, uids, hashes, calls, len(batches), len(pieces))),
                ],
                ahead=True,
            )
        )
        expected.sources.update(sources)
        expected.uids.update(uid for uid, _, _ in sessions)
        seen.numbers.update((uid, number) for uid, number, _ in sessions)
        seen.present.update(number for _, number, is_evicted in sessions if not is_evicted)
        expected.claimed.update(claimed or ())
        expected.hashes.update(natives or ())
        expected.calls.update(known or ())
        if seen.put is not None:
            expected.remember(seen.put)
        # Taken from the end, so the smallest is there: postings come nearly sorted when numbers go
        # up with what is written.
        expected.source_numbers = (source_numbers or [])[::-1]
        expected.session_numbers = (session_numbers or [])[::-1]
        return expected

    def put(self, batch: Batch) -> Put:
        with self.db.transaction():
            self.db.lock_for_writing()
            seen = self.db.seen
            if seen is None or seen.expected is None:
                return super().put(batch)
            is_new = seen.expected.is_new(batch, seen.made, seen.billed)
            if is_new and not self.again and self.sources.tombstones().isdisjoint(uids_of(batch)):
                done = self._put_new(batch, seen.expected)
            else:
                for uid in uids_of(batch):
                    seen.made.pop(uid, None)  # It is not what was made any more.
                for kept in batch.calls:
                    seen.billed.pop(hash_of(kept.call), None)
                done = super().put(batch)
            seen.expected.add(batch)
        return done

    def _source(self, batch: Batch) -> tuple[int, int]:
        expected = self.db.seen.expected if self.db.seen else None
        if expected is None or batch.since or not expected.is_new_source(batch):
            return super()._source(batch)
        number = expected.source_numbers.pop()
        self._put_new_source(number, batch)
        return number, 0

    def _put_new(self, batch: Batch, expected: Expected) -> Put:
        assert self.db.seen is not None
        done = Put(sessions={piece.session_uid for piece in batch.pieces})
        source = expected.source_numbers.pop()
        sessions = [
            self._put_new_piece(source, piece, batch, done, expected) for piece in batch.pieces
        ]
        self._put_new_aliases(source, batch.aliases, sessions)
        self._put_new_calls(batch.calls)
        self.db.connection.copy(
            "records", [(source, *record) for record in batch.records], ahead=True
        )
        skips = {(skip.offset, skip.reason) for skip in batch.skips}
        self.db.connection.copy(
            "skips", [(source, offset, plain(reason)) for offset, reason in skips], ahead=True
        )
        self._put_new_source(source, batch)
        return done

    def _put_new_piece(
        self, source: int, piece: Piece, batch: Batch, done: Put, expected: Expected
    ) -> Made:
        """Writes a session, or what a source adds to one that was made just now."""
        assert self.db.seen is not None
        made = self.db.seen.made.get(piece.session_uid)
        if made is None:
            made = Made(month_of(piece.tally.started_at) << 31 | expected.session_numbers.pop())
            self.db.seen.made[piece.session_uid] = made
            self.db.seen.numbers[piece.session_uid] = made.number
        else:
            piece = made.rest_of(piece, done)
        number, block = made.number, len(made.streams)
        first = block * BLOCK
        natives = {
            h: first + row[SEQ] for h, row in zip(piece.natives, piece.rows, strict=True) if h
        }
        natives |= {h: first + piece.rows[n][SEQ] for n, h in piece.originals if h}
        self.db.connection.copy(
            "events",
            [clean_row(row, batch.source.agent) for row in rows_in(number, piece, [block])],
            ahead=True,
        )
        self.db.connection.copy(
            "natives", [(h, number, seq) for h, seq in natives.items()], ahead=True
        )
        id_ = (number << 20) + made.segments
        segments = [
            (id_ + n, first + s.first_seq, first + s.last_seq, s)
            for n, s in enumerate(piece.segments)
        ]
        self.index.add(number, segments, ahead=True)
        stream = (*clean_stream(piece.facts, piece.tally), piece.hash)
        self.db.connection.copy("streams", [(number, block, source, *stream)], ahead=True)
        made.natives |= natives
        made.segments += len(piece.segments)
        made.streams.append((*stream, batch.source.path, batch.source.size, None))
        if piece.facts.spare is not None:
            made.spares.add(piece.facts.spare)
        if piece.rows:
            made.last_seq = first + piece.rows[-1][SEQ]
        done.events += len(piece.rows)
        self._sum_made(made, piece, batch.source)
        return made

    def _sum_made(self, made: Made, piece: Piece, source: Source) -> None:
        """Says in the row of a session what its streams add up to."""
        now = format_time(datetime.now(UTC))
        facts, sums = self.totals.add_up(made.streams, made.last_seq)
        if made.row is None:
            row = sums | dict(
                number=made.number, uid=piece.session_uid, flavor=source.agent,
                native_session_id=piece.facts.native_session_id,
                machine=source.machine or self.db.machine, author=self.db.author, discovered_at=now,
                ingested_at=now,
                schema_version=SCHEMA_VERSION, repo=facts.repo, domain=None,
                task_ref=facts.task_ref,
                analyzed_at=None, analyzed_seq=None, analyzed_hash=None, outcome="unknown",
                outcome_evidence=None, quality=None,
            )  # fmt: skip
            made.row = NewRow(list(row), self._add_row("sessions", row), self.db.connection.checks)
            return
        # Another clock, or this one before it was set, may have been ahead when it was discovered.
        sums["ingested_at"] = max(now, made.row["discovered_at"])
        if self.db.is_waiting(made.row):
            repo, task = made.row["repo"], made.row["task_ref"]
            made.row.update(
                repo=facts.repo if repo is None else repo,
                task_ref=task if facts.task_ref is None else facts.task_ref,
            )
        else:
            self.totals.write(made.number, facts, sums)
        made.row.update(**sums)

    def _put_new_aliases(
        self, source: int, aliases: Sequence[tuple[int, int]], sessions: Sequence[Made]
    ) -> None:
        rows = {}
        for h, target in reversed(aliases):
            for made in sessions:
                if (seq := made.natives.get(target)) is not None:
                    rows[h] = (source, h, made.number, seq)
                    made.aliases[h] = seq
                    break
        self.db.connection.copy("aliases", list(rows.values()), ahead=True)

    def _put_new_calls(self, calls: Sequence[Kept]) -> None:
        assert self.db.seen is not None
        new: list[list[Any]] = []
        old: list[list[Any]] = []
        for kept in calls:
            made, h = self.db.seen.made[kept.call.session_uid], hash_of(kept.call)
            seq = made.seq_of(kept.event) if kept.event else None
            seq = kept.call.seq if seq is None else seq
            before = self.db.seen.billed.get(h)
            (new if before is None else old).append(self.ledger.row(kept, made.number, seq))
            self.ledger.touch_sessions(
                {made.number} if before is None else {made.number, before.session}
            )
            self.db.seen.billed[h] = Call(kept, made.number, seq)
        self.ledger.add_rows(new)
        self.db.executemany(f"{PUT_CALL} {self.db.may_replace_call}", old)

    def _put_new_source(self, number: int, batch: Batch) -> None:
        source, at, now = batch.source, batch.position, format_time(datetime.now(UTC))
        row = self.db.source_values | dict(
            number=number, agent=source.agent, path=source.path, root=source.root,
            machine=source.machine, size=source.size,
            mtime_ns=source.mtime_ns, inode=source.inode, offset=at.offset, head=at.head,
            tail=at.tail, records=at.records,
            carry=batch.carry, adapter_version=batch.adapter_version,
            redact_version=batch.redact_version,
            merged=msgspec.json.encode(batch.merged).decode(), discovered_at=now, synced_at=now,
        )  # fmt: skip
        self._add_row("sources", row)

    def _add_row(self, table: str, row: dict[str, Any]) -> list[Any]:
        """Adds a row by its columns."""
        values = clean(row.values())
        self.db.connection.copy(_into(table, tuple(row)), [values], ahead=True)
        return values

    def set_places(self, found: dict[str, tuple[str | None, str | None]]) -> None:
        rest = {}
        for uid, (repo, task) in found.items():
            known = self.db.new_session(uid)
            if known is None:
                rest[uid] = (repo, task)
                continue
            row, old, old_task = known[1], known[1]["repo"], known[1]["task_ref"]
            # The name alone, which a folder has too, takes nothing from one that is known with its
            # owner.
            is_less = repo is None or (old is not None and old.endswith(f"/{repo}"))
            places = {
                "repo": old if is_less else repo,
                "task_ref": task if old_task is None else old_task,
            }
            if places != {"repo": old, "task_ref": old_task} and not self.db.is_waiting(row):
                rest[uid] = (repo, task)
            row.update(**places)
        if rest:
            super().set_places(rest)


@cache
def _into(table: str, columns: tuple[str, ...]) -> str:
    """A table, and those of its columns that are given, in this order."""
    return f"{table} ({', '.join(f'{chr(34)}{name}{chr(34)}' for name in columns)})"
