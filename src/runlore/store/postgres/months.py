"""Partitions: events, segments and words of the sessions of each month lie in tables of their own."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .database import PostgresDatabase

DIVIDE = 3
"""The lock of whoever makes partitions."""

PARTITIONED = ("events", "segments", "search")

_OPTIONS = {"segments": "with (toast_tuple_target = 128)"}
"""Bodies and words lie apart also when they are short: counting and finding segments reads a third
of the pages, in half the time."""


MONTHS = 1 << 12
"""As many as the number of a session has room for: until the year 2311."""


class Months:
    """Makes and drops the partitions of months."""

    def __init__(self, db: PostgresDatabase) -> None:
        self.db = db
        self.parts: set[str] | None = None
        self.emptied: set[int] = set()
        """Months from which something was deleted."""

    def flush(self) -> None:
        """There is nothing to write: see `Pending`."""

    def clear(self) -> None:
        self.parts = None  # Someone else may drop one.

    def make(self, months: set[int]) -> None:
        """The partitions of these months. Made aside and at once: in the open transaction they
        would lock all others out."""
        self.db.lock_for_writing()  # So nobody drops one meanwhile.
        if self.parts is None:
            self.parts = self.find_parts()
        parts = {month: [partition(table, month) for table in PARTITIONED] for month in months}
        if not (
            missing := {
                month: names for month, names in parts.items() if not self.parts.issuperset(names)
            }
        ):
            return
        self.db.second.begin()
        try:
            self.db.second.execute(
                "select pg_advisory_xact_lock(?::int, hashtext(current_schema()))", (DIVIDE,)
            )
            there = self.find_parts()
            sql = [
                _make_part(table, month)
                for month, names in missing.items()
                if not there.issuperset(names)
                for table in PARTITIONED
            ]
            self.db.second.script("; ".join(sql) or "select 1")
            self.db.second.commit()
        except BaseException:
            self.db.second.rollback()
            raise
        made = [name for names in missing.values() for name in names]
        # A transaction notices what others have made when it takes a lock that it does not have
        # yet.
        self.db.execute(f"lock table {', '.join(made)} in row exclusive mode")
        self.parts.update(made)

    def find_parts(self) -> set[str]:
        sql = (
            "select relname from pg_class where relispartition and relkind = 'r' and relnamespace ="
            " current_schema()::regnamespace"
        )
        return {name for (name,) in self.db.all(sql)}

    def drop_empty(self, months: set[int]) -> None:
        """Drops the partitions in which nothing is left. Nobody writes meanwhile: this is called by
        who holds the lock."""
        for month in months:
            bounds = (month << 31, (month + 1) << 31)
            if any(
                self.db.one(
                    f"select 1 from {table} where session >= ? and session < ? limit 1", bounds
                )
                for table in PARTITIONED
            ):
                continue
            if self.db.has_table(partition("segments", month)):
                self.db.execute(
                    f"drop table {', '.join(partition(table, month) for table in PARTITIONED)}"
                )
        self.parts = None


def _make_part(table: str, month: int) -> str:
    """The statements that make one."""
    name, bounds = partition(table, month), f"from ({month << 31}) to ({(month + 1) << 31})"
    make = f"create table {name} (like {table} including all) {_OPTIONS.get(table, '')}"
    return f"{make}; alter table {table} attach partition {name} for values {bounds}"


def partition(table: str, month: int) -> str:
    """The name of the part of a table that has the sessions of a month."""
    return f"{table}_{1970 + month // 12}_{month % 12 + 1:02}"


def month_of(moment: datetime | None) -> int:
    """The month of a time, counted from 1970; the first and the last stand for what lies beyond,
    and for no time at all."""
    return (
        0
        if moment is None
        else min(max((moment.year - 1970) * 12 + moment.month - 1, 0), MONTHS - 1)
    )
