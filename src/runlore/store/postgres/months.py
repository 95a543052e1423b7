"""Partitions: each month has its own tables for events, segments and words of its sessions."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .database import PostgresDatabase

PARTITION_LOCK = 3
"""The number of the lock for creating partitions."""

PARTITIONED = ("events", "segments", "search")

_OPTIONS = {"segments": "with (toast_tuple_target = 128)"}
"""Bodies and words are stored out of line even if they are short. Then queries that count and find
segments read fewer pages."""

MAX_MONTHS = 1 << 12
"""Number of months that fit in the number of a session: until the year 2311."""


class Months:
    """Creates and drops the partitions of months."""

    def __init__(self, db: PostgresDatabase) -> None:
        self.db = db
        self.parts: set[str] | None = None
        """The names of all partitions; None if they have to be read again."""
        self.emptied: set[int] = set()
        """Months from which rows were deleted."""

    def flush(self) -> None:
        """Write nothing: no changes are collected. See `Pending`."""

    def clear(self) -> None:
        self.parts = None  # Another process may drop one from now on.

    def make(self, months: set[int]) -> None:
        """Create the partitions of these months that are missing.

        They are created on the second connection and committed at once, because in the open
        transaction they would lock out all other connections.
        """
        self.db.lock_for_writing()  # So that nobody drops one meanwhile.
        if self.parts is None:
            self.parts = self.find_parts()
        parts = {month: [partition(table, month) for table in PARTITIONED] for month in months}
        missing = {
            month: names for month, names in parts.items() if not self.parts.issuperset(names)
        }
        if not missing:
            return
        self._create(missing)
        created = [name for names in missing.values() for name in names]
        # A transaction notices tables that others have created when it takes a new lock.
        self.db.execute(f"lock table {', '.join(created)} in row exclusive mode")
        self.parts.update(created)

    def _create(self, missing: dict[int, list[str]]) -> None:
        self.db.second.begin()
        try:
            self.db.second.execute(
                "select pg_advisory_xact_lock(?::int, hashtext(current_schema()))",
                (PARTITION_LOCK,),
            )
            existing = self.find_parts()
            sql = [
                _create_statements(table, month)
                for month, names in missing.items()
                if not existing.issuperset(names)
                for table in PARTITIONED
            ]
            self.db.second.script("; ".join(sql) or "select 1")
            self.db.second.commit()
        except BaseException:
            self.db.second.rollback()
            raise

    def find_parts(self) -> set[str]:
        """Return the names of all partitions."""
        sql = (
            "select relname from pg_class where relispartition and relkind = 'r' and relnamespace ="
            " current_schema()::regnamespace"
        )
        return {name for (name,) in self.db.all(sql)}

    def drop_empty(self, months: set[int]) -> None:
        """Drop the partitions of these months that are empty.

        The caller holds the lock for writing.
        """
        for month in months:
            bounds = (month << 31, (month + 1) << 31)
            if any(
                self.db.one(
                    f"select 1 from {table} where session >= ? and session < ? limit 1", bounds
                )
                for table in PARTITIONED
            ):
                continue
            if partition("segments", month) in self.db.tables():
                self.db.execute(
                    f"drop table {', '.join(partition(table, month) for table in PARTITIONED)}"
                )
        self.parts = None


def _create_statements(table: str, month: int) -> str:
    """Return the statements that create the partition of a month."""
    name, bounds = partition(table, month), f"from ({month << 31}) to ({(month + 1) << 31})"
    create = f"create table {name} (like {table} including all) {_OPTIONS.get(table, '')}"
    return f"{create}; alter table {table} attach partition {name} for values {bounds}"


def partition(table: str, month: int) -> str:
    """Return the name of a table's partition with the sessions of a month."""
    return f"{table}_{1970 + month // 12}_{month % 12 + 1:02}"


def month_of(moment: datetime | None) -> int:
    """Return the month of a time, counted from 1970.

    Earlier times, and None, are in the first month; later times are in the last one.
    """
    if moment is None:
        return 0
    return min(max((moment.year - 1970) * 12 + moment.month - 1, 0), MAX_MONTHS - 1)
