"""The SQLite store, composed of its parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..sql.digests import SqlDigests
from ..sql.group import PutGroup
from ..sql.ledger import SqlLedger
from ..sql.overview import SqlOverview
from ..sql.sessions import SqlSessions
from ..sql.sources import SqlSources
from ..sql.store import SqlStore
from ..sql.totals import SqlTotals
from .backup import backup
from .database import SqliteDatabase
from .index import SqliteIndex
from .ingest import SqliteIngest
from .maintenance import SqliteMaintenance
from .retention import SqliteRetention
from .transfer import SqliteTransfer


class SqliteStore(SqlStore):
    """See `Store` in the contracts."""

    takes_tokens = False
    takes_groups = False

    db: SqliteDatabase

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.db = db = SqliteDatabase(path, read_only=read_only)
        totals, group = SqlTotals(db), PutGroup()
        db.pending.append(group)
        self.sessions = SqlSessions(db)
        self.overview = SqlOverview(db, self.sessions)
        self.sources = SqlSources(db, totals, group)
        self.index = SqliteIndex(db, self.sessions)
        self.ledger = SqlLedger(db, self.sessions, group)
        self.digests = SqlDigests(db, self.sessions, self.ledger.charges)
        self.ingest = SqliteIngest(
            db, self.sessions, self.index, self.sources, self.ledger, totals, group
        )
        self.maintenance = SqliteMaintenance(
            db, self.sessions, self.index, self.sources, self.ledger, totals, self.ingest
        )
        self.transfer = SqliteTransfer(db, self.sessions, self.index, self.ledger)
        self.retention = SqliteRetention(
            db,
            self.sessions,
            self.index,
            self.ledger,
            totals,
            self.digests,
            self.ingest,
        )

    def backup(self, path: Path, step: Callable[[int, int], None] | None = None) -> None:
        backup(self.db, path, step)
