"""Sources of a PostgreSQL store: those of this author and machine."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ...adapters import Source
from ..sql.sources import OVERTAKEN_AND_KEPT, SqlSources
from ..sql.totals import Totals
from ..values import Resume, SourceState
from .claims import Claims
from .database import PostgresDatabase


class PostgresSources(SqlSources):
    """See `Sources` in the contracts."""

    db: PostgresDatabase

    def __init__(self, db: PostgresDatabase, totals: Totals, claims: Claims) -> None:
        super().__init__(db, totals)
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

    def tombstones(self) -> set[str]:
        if self.db.seen is None:
            return super().tombstones()
        if self.db.seen.tombstones is None:
            self.db.seen.tombstones = super().tombstones()
        return self.db.seen.tombstones

    def unsettled_once(self) -> Iterator[list[SourceState]]:
        """Yield unsettled sources of every machine of this author.

        A machine that is syncing holds its lock, and looks for them itself afterwards.
        """
        sql = (
            f"select distinct reader from sources where author = ? and {OVERTAKEN_AND_KEPT} order"
            " by 1"
        )
        machine = self.db.machine
        try:
            for (reader,) in self.db.all(sql, (self.db.author,)):
                self.db.machine = reader.removeprefix(f"{self.db.author}@")
                yield from super().unsettled_once()
        finally:
            self.db.machine = machine

    def touch(
        self,
        source: Source,
        *,
        adapter_version: int,
        redact_version: str,
        problem: str | None = None,
    ) -> None:
        if self.db.seen is not None:
            self.db.seen.forget_made()
        super().touch(
            source, adapter_version=adapter_version, redact_version=redact_version, problem=problem
        )
