"""How a PostgreSQL store drops sessions and gives room back."""

from __future__ import annotations

import time
from datetime import datetime

from ..cleaning import Cleaner
from ..sql.retention import SqlRetention
from ..values import FORGOTTEN
from .connection import array
from .database import AuthorNotes, PostgresDatabase
from .months import PARTITIONED, partition

_OLDER = (
    "select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    " and greatest(age(backend_xmin), age(backend_xid)) > age(?::text::xid) limit 1"
)
"""Whether another transaction here sees what was there before this one."""

WAIT_S = 10.0
"""How long who gives room back waits for others that may still read what was there."""


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
        # Native records of one file cannot be told apart by session, so all of the file's go.
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
        # Deleted rows keep their bytes until their table is written anew. That locks it, so only
        # what was deleted from is.
        parts = [
            partition(table, month)
            for month in sorted(self.db.months.emptied)
            for table in PARTITIONED
        ]
        for table in (
            *filter(self.db.has_table, parts),
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
        """Until nobody can see any more what was deleted, for a while: whoever began before may
        (the server, when it counts rows), and a table that is written anew keeps it for them, and
        its index as well."""
        (mark,) = self.db.one("select pg_current_xact_id()::xid::text")
        until = time.monotonic() + WAIT_S
        while self.db.one(_OLDER, (mark,)) is not None and time.monotonic() < until:
            time.sleep(0.05)
