"""How a SQLite store writes what was planned: plain inserts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..known import Known, KnownSource, SourceKey
from ..sql.ingest import SqlIngest
from ..values import Delta
from .database import SqliteDatabase
from .index import SqliteIndex


class SqliteIngest(SqlIngest):
    """See `Ingest` in the contracts."""

    db: SqliteDatabase
    index: SqliteIndex

    def reserve(self, known: Known, sources: list[SourceKey], deltas: list[Delta]) -> None:
        """Nobody else writes meanwhile, so the next numbers are those behind the last ones."""
        last_source, last_session = self.db.one(
            "select coalesce((select max(number) from sources), 0),"
            " coalesce((select max(number) from sessions), 0)"
        )
        last_source = max(last_source, *(source.number for source in known.sources.values()), 0)
        last_session = max(last_session, *known.new_numbers.values(), 0)
        for number, key in enumerate(sources, last_source + 1):
            known.sources[key] = KnownSource(number=number)
        for number, delta in enumerate(deltas, last_session + 1):
            known.new_numbers[delta.session_uid] = number

    def _add_rows(self, into: str, rows: Sequence[Sequence[Any]]) -> None:
        self.db.insert(f"insert into {into}", rows)

    def _add_events(self, agent: str, rows: Sequence[list[Any]]) -> None:
        self.db.insert("insert into events", rows)
