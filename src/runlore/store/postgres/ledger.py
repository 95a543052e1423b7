"""The ledger of a PostgreSQL store: calls are added in bulk."""

from __future__ import annotations

from collections.abc import Sequence

from ..sql.charges import Charges
from ..sql.group import PutGroup
from ..sql.ledger import SqlLedger
from ..sql.sessions import SqlSessions
from .connection import array
from .database import PostgresDatabase


class PostgresLedger(SqlLedger):
    """See `Ledger` in the contracts."""

    db: PostgresDatabase

    def __init__(self, db: PostgresDatabase, sessions: SqlSessions, group: PutGroup) -> None:
        super().__init__(db, sessions, group, PostgresCharges)


class PostgresCharges(Charges):
    """Marks calls in one statement."""

    def _set_flags(self, flags: Sequence[tuple[int, int]]) -> None:
        if flags:
            sql = (
                "update calls c set flags = v.flags from unnest(?::bigint[], ?::bigint[]) v (flags,"
                " hash) where c.hash = v.hash"
            )
            self.db.execute(sql, tuple(array(column) for column in zip(*flags, strict=True)))
