"""The put path of a store.

`Lookup` asks what the database has of a group of batches, `planning.plan` works out what a batch
changes, and `SqlWriter` writes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..changes import Changes
from ..dead_ends import dead_ends_of
from ..digest_rows import rows_of_digest
from ..known import Known, SourceKey, key_of
from ..planning import outranked_sources, plan
from ..values import DAMAGED, STALE_COPIES, Batch, Delta, Put
from .database import Database, values_for
from .group import PutGroup
from .index import SqlIndex
from .ledger import INTO_CALLS, PUT_CALL, SqlLedger
from .lineage import Lineage
from .lookup import Lookup
from .sessions import SqlSessions
from .sources import SqlSources
from .totals import SqlTotals, totals_update

PUT_RECORDS = (
    "insert into records values (?, ?, ?, ?, ?) on conflict (source, first) do update set count ="
    " excluded.count, length = excluded.length, body = excluded.body"
)

INSERT_EVENT = values_for("insert into events", 15)

_MOVE_SOURCE = (
    'update sources set size = ?, mtime_ns = ?, inode = ?, "offset" = ?, head = ?, tail = ?,'
    " records = ?, carry = ?, adapter_version = case when ? and adapter_version = ? then"
    " adapter_version else ? end, redact_version = case when ? then redact_version else ? end,"
    " merged = ?, synced_at = ?, missing_at = case when ? then missing_at end, problem = null where"
    " number = ?"
)

# Another clock, or this one before it was set, may have been ahead when a session was discovered,
# or analyzed.
_UPDATE = (
    "update sessions set ingested_at = case when discovered_at > ? then discovered_at else ? end"
    " where number = ?"
)

_STAY_EVICTED = (
    "update sessions set evicted_at = case when analyzed_at > ingested_at then analyzed_at else"
    " ingested_at end where number = ?"
)

_RETURN = (
    "update sessions set evicted_at = null, analyzed_at = case when analyzed_seq is not null then"
    " analyzed_at end where number = ?"
)


class SqlWriter(ABC):
    """The part of `SqlIngest` that puts batches."""

    def __init__(
        self,
        db: Database,
        sessions: SqlSessions,
        index: SqlIndex,
        sources: SqlSources,
        ledger: SqlLedger,
        totals: SqlTotals,
        group: PutGroup,
    ) -> None:
        self.db, self.sessions, self.index = db, sessions, index
        self.sources, self.ledger, self.totals = sources, ledger, totals
        self.group = group
        self._lookup = Lookup(db, sources, self)
        self._lineage = Lineage(db, self._lookup)

    @property
    def known_natives(self) -> tuple[str, tuple[Any, ...]]:
        return "1 = 1", ()

    def find_natives(self, hashes: Iterable[int]) -> dict[int, list[tuple[int, int]]]:
        """Return (session, seq) of the events with these native ids, by hash."""
        found: dict[int, list[tuple[int, int]]] = {}
        may, values = self.known_natives
        sql = (
            "select n.hash, n.session, n.seq from natives n where n.hash in (select value from"
            f" carray(?)) and {may}"
        )
        wanted = {*hashes} - {0}
        for h, *place in self.db.all(sql, (self.db.ids(wanted), *values)) if wanted else ():
            found.setdefault(h, []).append((place[0], place[1]))
        return found

    @abstractmethod
    def reserve(self, known: Known, sources: list[SourceKey], deltas: list[Delta]) -> None:
        """See `Reserving`."""

    def find_foreign(self, uids: set[str]) -> set[str]:
        return set()

    @abstractmethod
    def demote(self, session: int, source: int) -> None:
        """Exclude the events of a source from a session."""

    @abstractmethod
    def _add_rows(self, into: str, rows: Sequence[Sequence[Any]]) -> None:
        """Add new rows to a table, or to the columns of it that are named."""

    @abstractmethod
    def _add_events(self, agent: str, rows: Sequence[list[Any]]) -> None:
        """Add rows of `events`."""

    @contextmanager
    def together(self, batches: Sequence[Batch]) -> Iterator[None]:
        with self.db.transaction():
            self.group.known = Known()
            self.group.known.pending = {key_of(batch): batch for batch in batches}
            try:
                if batches:
                    self._lookup.fill(self.group.known, batches)
                yield
            finally:
                self.group.known = None

    def mark_stale_copies(self, uids: Collection[str], quiet_since: datetime) -> int:
        return self._lineage.mark_stale(uids, quiet_since)

    def put(self, batch: Batch) -> Put:
        with self.db.transaction():
            known = self.group.known if self.group.known is not None else Known()
            known.pending.pop(key_of(batch), None)
            batch = self._look_up(batch, known)
            self._demote_outranked(batch, known)
            self._lookup.read_tails(known, batch)
            changes = plan(batch, known, datetime.now(UTC), self.db.machine)
            if not changes.is_repeated:
                self._write(changes)
        return changes.put

    def _look_up(self, batch: Batch, known: Known) -> Batch:
        """Look up a batch. Return it with the uids that its sessions have in this store."""
        self._fill(known, batch)
        return batch

    def _fill(self, known: Known, batch: Batch) -> None:
        """Look up a batch and what is left of its group, unless that was done."""
        if key_of(batch) not in known.batches:
            self._lookup.fill(known, [batch, *known.pending.values()])

    def _demote_outranked(self, batch: Batch, known: Known) -> None:
        """Demote the sources that have a worse rank than the batch."""
        if outranked := outranked_sources(batch, known):
            for session, source in outranked:
                self.demote(session, source)
            known.forget()
            self._fill(known, batch)

    def _write(self, changes: Changes) -> None:
        for session in {id_ >> 20 for id_ in changes.replaced_segments}:
            ids = [id_ for id_ in changes.replaced_segments if id_ >> 20 == session]
            self.index.drop(
                "session = ? and id in (select value from carray(?))", (session, self.db.ids(ids))
            )
        self._write_new(changes)
        self._write_calls(changes)
        self._write_changed(changes)
        self._write_source(changes)
        self._write_sessions(changes)

    def _write_new(self, changes: Changes) -> None:
        """Add the rows that are not there yet."""
        add = self._add_rows
        if changes.new_source is not None:
            self._add_columns("sources", [changes.new_source | self.db.source_values])
        self._add_columns("sessions", [row | self.db.session_values for row in changes.sessions])
        add(
            "streams",
            [
                (session, block, stream.source, *stream.packed)
                for (session, block), stream in changes.streams.items()
            ],
        )
        self._add_events(changes.batch.source.agent, changes.events)
        # In any other order more pages of the table are split.
        add("natives", sorted(changes.natives))
        self.index.add(changes.segments, is_new=not changes.replaced_segments)
        add("aliases", changes.aliases)
        add("records", changes.records)
        add("skips", changes.skips)
        for session, digest in changes.digests:
            row, errors = rows_of_digest(session, digest, changes.when)
            add("digests", [row])
            add("errors", errors)

    def _add_columns(self, table: str, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows that are given as dicts with the same columns."""
        if rows:
            names = ", ".join(f'"{name}"' for name in rows[0])
            self._add_rows(f"{table} ({names})", [list(row.values()) for row in rows])

    def _write_calls(self, changes: Changes) -> None:
        new, old = (
            [self.ledger.row(change.kept, change.session, change.seq) for change in calls]
            for calls in (changes.calls, changes.changed_calls)
        )
        self._add_rows(INTO_CALLS, new)
        self.db.executemany(f"{PUT_CALL} {self.db.may_replace_call}", old)
        self.ledger.touch_sessions(changes.called_sessions)
        for session, digest in changes.digests:
            self.ledger.charges.to_charge[session] = dead_ends_of(digest)

    def _write_changed(self, changes: Changes) -> None:
        self.db.executemany(
            "update events set flags = ?, rest = ? where session = ? and seq = ?",
            changes.events_again,
        )
        self.db.executemany(
            "update streams set facts = ?, tally = ?, hash = ? where session = ? and block = ?",
            [(*stream.packed, *key) for key, stream in changes.changed_streams.items()],
        )
        self.db.executemany(
            "update records set count = ?, length = ?, body = ? where source = ? and first = ?",
            [(*rest, source, first) for source, first, *rest in changes.changed_records],
        )
        if changes.drop_records:
            self.db.execute("delete from records where source = ?", (changes.source.number,))

    def _write_source(self, changes: Changes) -> None:
        """Move the position of the source, and mark others to be derived again."""
        batch, source, at = changes.batch, changes.source, changes.batch.position
        if changes.new_source is None:
            goes_on = batch.since > 0
            # What was stored of it before stays as other rules left it, until `redact_again` has
            # been over it.
            values = (
                batch.source.size, batch.source.mtime_ns, batch.source.inode, at.offset, at.head,
                at.tail, at.records, batch.carry, goes_on, STALE_COPIES, batch.adapter_version,
                goes_on, batch.redact_version, msgspec.json.encode(source.merged).decode(),
                changes.now, batch.is_gone, source.number,
            )  # fmt: skip
            self.db.execute(_MOVE_SOURCE, values)
        versions = [(STALE_COPIES, number) for number in changes.stale_sources]
        versions += [(DAMAGED, number) for number in changes.cut_sources]
        self.db.executemany("update sources set adapter_version = ? where number = ?", versions)

    def _write_sessions(self, changes: Changes) -> None:
        """Write the totals of stored sessions, and whether they are evicted."""
        for one in changes.totals:
            self.db.execute(
                totals_update(one.columns),
                (*one.columns.values(), one.task_ref, one.repo, one.session),
            )
        now = changes.now
        self.db.executemany(_UPDATE, [(now, now, number) for number in changes.updated])
        self.db.executemany(_STAY_EVICTED, [(number,) for number in changes.still_evicted])
        self.db.executemany(_RETURN, [(number,) for number in changes.returned])
