"""How a PostgreSQL store writes what was planned: in bulk, by COPY, and as its columns can hold
it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ...adapters import Skip
from ..known import Known, KnownSource, SourceKey, uids_of
from ..sql.database import without_nul
from ..sql.group import PutGroup
from ..sql.ingest import SqlIngest
from ..sql.sessions import SqlSessions
from ..sql.sources import SqlSources
from ..sql.totals import SqlTotals
from ..values import Batch, Delta, Put
from .authors import Authors
from .claims import Claims
from .database import PostgresDatabase
from .index import PostgresIndex
from .ledger import PostgresLedger
from .months import month_of
from .rows import clean_row, clean_stream


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
        totals: SqlTotals,
        group: PutGroup,
        claims: Claims,
    ) -> None:
        super().__init__(db, sessions, index, sources, ledger, totals, group)
        self.claims = claims
        self.authors = Authors(self, claims)

    def find_foreign(self, uids: set[str]) -> set[str]:
        return self.authors.find_foreign(uids)

    @property
    def known_natives(self) -> tuple[str, tuple[Any, ...]]:
        """Those of this author's sessions, and of those that they have as well: nobody else's
        records can stand for theirs."""
        test = (
            "exists (select 1 from sessions s where s.number = n.session and (s.author = ? or"
            " s.author is null or exists (select 1 from claims c where c.author = ? and c.session ="
            " n.session)))"
        )
        return test, (self.db.author, self.db.author)

    @contextmanager
    def together(self, batches: Sequence[Batch]) -> Iterator[None]:
        with self.db.writing():
            with super().together(batches):
                yield
            # While the server takes it in, the next ones are being read.
            self.db.connection.send_behind()

    def put(self, batch: Batch) -> Put:
        with self.db.writing():
            done = super().put(_clean_batch(batch))
            if self.group.known is None:
                # What cannot be stored is this batch's fault, and no other's.
                self.db.connection.flush()
        return done

    def _look_up(self, batch: Batch, known: Known) -> Batch:
        self._fill(known, batch)
        if not known.foreign.isdisjoint(uids_of(batch)):
            batch = self.authors.in_own_name(batch)
            known.forget()
            self._fill(known, batch)
        return batch

    def reserve(self, known: Known, sources: list[SourceKey], deltas: list[Delta]) -> None:
        months = [month_of(delta.tally.started_at) for delta in deltas]
        # That of a session may be gone with all that was in it.
        stored = [session for uid in known.sources_of if (session := known.sessions.get(uid))]
        self.db.months.make({*months, *(session.number >> 31 for session in stored)})
        if not sources and not deltas:
            return
        sql = "select nextval('{}') from generate_series(1, ?)"
        new_sources, new_sessions = self.db.answer(
            [
                (sql.format("source_numbers"), (len(sources),)),
                (sql.format("session_numbers"), (len(deltas),)),
            ]
        )
        for key, (number,) in zip(sources, new_sources, strict=True):
            known.sources[key] = KnownSource(number=number)
        for delta, month, (number,) in zip(deltas, months, new_sessions, strict=True):
            known.new_numbers[delta.session_uid] = month << 31 | number

    def _add_rows(self, into: str, rows: Sequence[Sequence[Any]]) -> None:
        self.db.connection.copy(into, [self.db.storable(row) for row in rows], ahead=True)

    def _add_events(self, agent: str, rows: Sequence[list[Any]]) -> None:
        self.db.connection.copy("events", [clean_row(row, agent) for row in rows], ahead=True)

    def set_places(self, found: dict[str, tuple[str | None, str | None]]) -> None:
        names = self.claims.of_author() if found else {}
        super().set_places({names.get(uid, uid): places for uid, places in found.items()})


def _clean_batch(batch: Batch) -> Batch:
    """The batch without NULs in what is compared with columns."""
    skips = [Skip(skip.offset, without_nul(skip.reason)) for skip in batch.skips]
    deltas = [_clean_delta(delta) for delta in batch.deltas]
    return msgspec.structs.replace(batch, deltas=deltas, skips=skips)


def _clean_delta(delta: Delta) -> Delta:
    uid = without_nul(delta.session_uid)
    facts, tally = clean_stream(delta.facts, delta.tally)
    return msgspec.structs.replace(delta, session_uid=uid, facts=facts, tally=tally)
