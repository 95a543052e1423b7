"""The PostgreSQL store, composed of its parts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ...errors import StoreError
from ..copying import copy
from ..sql.group import PutGroup
from ..sql.overview import SqlOverview
from ..sql.store import SqlStore
from ..sql.totals import SqlTotals
from ..sqlite.backup import new_backup
from ..sqlite.store import SqliteStore
from .claims import Claims
from .database import PostgresDatabase
from .digests import PostgresDigests
from .index import PostgresIndex
from .ingest import PostgresIngest
from .ledger import PostgresLedger
from .maintenance import PostgresMaintenance
from .retention import PostgresRetention
from .sessions import PostgresSessions
from .sources import PostgresSources
from .transfer import PostgresTransfer


class PostgresStore(SqlStore):
    """See `Store` in the contracts."""

    takes_tokens = True
    takes_groups = True

    db: PostgresDatabase

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        is_shared: bool = False,
        machine: str | None = None,
        author: str | None = None,
    ) -> None:
        self.db = db = PostgresDatabase(
            url, read_only=read_only, is_shared=is_shared, machine=machine, author=author
        )
        totals, group, claims = SqlTotals(db), PutGroup(), Claims(db)
        db.pending.append(group)
        self.sessions = PostgresSessions(db)
        self.overview = SqlOverview(db, self.sessions)
        self.sources = PostgresSources(db, totals, group, claims)
        self.index = PostgresIndex(db, self.sessions)
        self.ledger = PostgresLedger(db, self.sessions, group)
        self.digests = PostgresDigests(db, self.sessions, self.ledger.charges)
        self.ingest = PostgresIngest(
            db, self.sessions, self.index, self.sources, self.ledger, totals, group, claims
        )
        self.maintenance = PostgresMaintenance(
            db, self.sessions, self.index, self.sources, self.ledger, totals, self.ingest
        )
        self.transfer = PostgresTransfer(db, self.sessions, self.index, self.ledger, claims)
        self.retention = PostgresRetention(
            db, self.sessions, self.index, self.ledger, totals, self.digests, self.ingest
        )

    def backup(self, path: Path, step: Callable[[int, int], None] | None = None) -> None:
        """Copy the store to a file that is a SQLite store by itself."""
        with new_backup(path) as part:
            with closing(SqliteStore(str(part))) as target:
                copy(self, target, step)
                wrong = target.maintenance.check_file()
            if wrong:
                raise StoreError(f"{path}: the copy is damaged ({wrong[0][0]})")
