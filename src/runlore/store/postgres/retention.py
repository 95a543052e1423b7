"""Dropping sessions of a PostgreSQL store, and giving back the space of its tables."""

from __future__ import annotations

import time
from datetime import datetime

from ..cleaning import Cleaner
from ..sql.retention import SqlRetention
from ..values import FORGOTTEN
from .connection import array
from .database import AuthorNotes, PostgresDatabase
from .months import PARTITIONED, partition

_OLDER_TRANSACTION = (
    "select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    " and greatest(age(backend_xmin), age(backend_xid)) > age(?::text::xid) limit 1"
)
"""The test for other transactions in this database that see rows from before a transaction."""

MAX_WAIT_S = 10.0
"""Maximum seconds to wait for transactions that may still read deleted rows."""


class PostgresRetention(SqlRetention):
    """See `Retention` in the contracts."""

    db: PostgresDatabase

    def drop_sessions(self, numbers: list[int]) -> None:
        self.db.lock_for_writing()
        self.db.notes = AuthorNotes()
        these = array(numbers)
        sources = array(
            source
            for (source,) in self.db.all(
                "select distinct source from streams where session = any(?::bigint[])", (these,)
            )
        )
        for table in (
            "search",
            "segments",
            "natives",
            "events",
            "streams",
            "calls",
            "sums",
            "claims",
            "digests",
            "errors",
        ):
            self.db.execute(f"delete from {table} where session = any(?::bigint[])", (these,))
        self.db.execute("delete from sessions where number = any(?::bigint[])", (these,))
        # Native records of a source cannot be divided by session, so all of them are dropped.
        for table in ("records", "skips", "aliases"):
            self.db.execute(f"delete from {table} where source = any(?::bigint[])", (sources,))
        self.db.execute(
            "update sources set carry = null, problem = ? where number = any(?::bigint[])"
            " and not exists (select 1 from streams where source = number)",
            (FORGOTTEN, sources),
        )
        months = {number >> 31 for number in numbers}
        self.db.months.drop_empty(months)
        self.db.months.emptied |= months

    def _redact_block(self, session: int, block: int, cleaner: Cleaner) -> int:
        self.db.lock_for_writing()
        self.db.months.emptied.add(session >> 31)
        return super()._redact_block(session, block, cleaner)

    def _evict_one(self, session: int, uid: str, when: datetime) -> None:
        self.db.lock_for_writing()
        self.db.months.emptied.add(session >> 31)
        super()._evict_one(session, uid, when)

    def used_bytes(self) -> int:
        return self.db.file_bytes()

    def shrink(self, *, most_left: bool = False) -> None:
        self.purge()

    def purge(self) -> None:
        with self.db.transaction():
            self.db.lock_for_writing()
            self.db.months.drop_empty(self.db.months.emptied)
        self._wait_for_older()
        # The bytes of deleted rows stay until their table is rewritten. That locks the table, so
        # only partitions from which rows were deleted are rewritten.
        tables = self.db.tables()
        parts = [
            partition(table, month)
            for month in sorted(self.db.months.emptied)
            for table in PARTITIONED
        ]
        for table in (
            *(part for part in parts if part in tables),
            "sessions",
            "streams",
            "records",
            "sources",
            "calls",
            "models",
            "natives",
            "aliases",
            "skips",
            "digests",
            "errors",
        ):
            self.db.execute(f"vacuum full {table}")
        self.db.months.emptied.clear()

    def _wait_for_older(self) -> None:
        """Wait for a while until no transaction can see the deleted rows any more.

        Transactions that began before can, such as those of the server's own statistics. A table
        that is rewritten keeps the rows for them, and so does its index.
        """
        (mark,) = self.db.one("select pg_current_xact_id()::xid::text")
        until = time.monotonic() + MAX_WAIT_S
        while self.db.one(_OLDER_TRANSACTION, (mark,)) is not None and time.monotonic() < until:
            time.sleep(0.05)
