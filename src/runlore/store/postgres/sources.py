"""Sources of a PostgreSQL store: those of this author and machine."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..sql.group import PutGroup
from ..sql.sources import STALE_AND_STORED, SqlSources
from ..sql.totals import SqlTotals
from ..values import Resume, SourceState
from .claims import Claims
from .database import PostgresDatabase


class PostgresSources(SqlSources):
    """See `Sources` in the contracts."""

    db: PostgresDatabase

    def __init__(
        self, db: PostgresDatabase, totals: SqlTotals, group: PutGroup, claims: Claims
    ) -> None:
        super().__init__(db, totals, group)
        self.claims = claims

    def resume(self, source: int) -> Resume:
        resume = super().resume(source)
        # The source has the original uid of a session that is stored under another one.
        names = {
            stored: uid
            for uid, stored in self.claims.of_author().items()
            if stored in resume.streams
        }
        streams = {names.get(uid, uid): state for uid, state in resume.streams.items()}
        return msgspec.structs.replace(resume, streams=streams) if names else resume

    def stale_copies_once(self) -> Iterator[list[SourceState]]:
        """Yield stale_copies sources of every machine of this author.

        A machine that is syncing holds its lock, and looks for them itself afterwards.
        """
        sql = (
            f"select distinct reader from sources where author = ? and {STALE_AND_STORED} order"
            " by 1"
        )
        machine = self.db.machine
        try:
            for (reader,) in self.db.all(sql, (self.db.author,)):
                self.db.machine = reader.removeprefix(f"{self.db.author}@")
                yield from super().stale_copies_once()
        finally:
            self.db.machine = machine
