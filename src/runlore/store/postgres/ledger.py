"""The ledger of a PostgreSQL store: calls are added in bulk."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from ..calls import COLUMNS, from_row, to_row
from ..sql.charges import Charges
from ..sql.database import plain
from ..sql.ledger import CALL_COLUMNS, SqlLedger
from ..sql.sessions import SqlSessions
from ..values import Kept
from .connection import array
from .database import PostgresDatabase
from .known import Call, clean

_SEQ = COLUMNS.index("seq")
_INTO_CALLS = f"calls ({', '.join(CALL_COLUMNS)})"


class PostgresLedger(SqlLedger):
    """See `Ledger` in the contracts."""

    db: PostgresDatabase

    def __init__(self, db: PostgresDatabase, sessions: SqlSessions) -> None:
        super().__init__(db, sessions, PostgresCharges)

    def find(self, hashes: Sequence[int]) -> list[Kept]:
        seen = self.db.seen
        # The further parts of a source that is read again are not among what was expected.
        if (
            seen is None
            or seen.expected is None
            or not seen.expected.asked_calls.issuperset(hashes)
        ):
            return super().find(hashes)
        there = seen.expected.calls.intersection(hashes)
        return (
            [_as_stored(seen.billed[h]) for h in there]
            if there <= seen.billed.keys()
            else super().find(hashes)
        )

    def _put_rows(self, rows: list[list[Any]], there: Container[int]) -> None:
        new = {row[0]: row for row in reversed(rows) if row[0] not in there}
        self.add_rows(list(new.values()))
        super()._put_rows([row for row in rows if new.get(row[0]) is not row], there)

    def add_rows(self, rows: Sequence[Sequence[Any]]) -> None:
        """Adds calls that are not there."""
        self.db.connection.copy(
            _INTO_CALLS,
            [[plain(value) if isinstance(value, str) else value for value in row] for row in rows],
            ahead=True,
        )


class PostgresCharges(Charges):
    """Marks calls in one statement."""

    def _set_flags(self, flags: Sequence[tuple[int, int]]) -> None:
        if flags:
            sql = (
                "update calls c set flags = v.flags from unnest(?::bigint[], ?::bigint[]) v (flags,"
                " hash) where c.hash = v.hash"
            )
            self.db.execute(sql, tuple(array(column) for column in zip(*flags, strict=True)))


def _as_stored(call: Call) -> Kept:
    """A call as the database would give it back."""
    row = clean(to_row(call.kept))
    row[_SEQ] = call.seq
    return from_row(call.kept.call.session_uid, row)
