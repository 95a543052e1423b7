"""Reads of sessions in a PostgreSQL store that differ from those in SQLite."""

from __future__ import annotations

from ..filters import Filter
from ..sql.filters import session_filter
from ..sql.sessions import SqlSessions
from .database import PostgresDatabase


class PostgresSessions(SqlSessions):
    """See `Sessions` in the contracts."""

    db: PostgresDatabase

    def numbers(self, chosen: Filter) -> set[int]:
        where, bindings = session_filter(self.db, chosen)
        (numbers,) = self.db.one(f"select array_agg(number) from sessions {where}", bindings)
        return set(numbers or ())
