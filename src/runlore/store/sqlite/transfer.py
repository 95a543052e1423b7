"""Transfers into a SQLite store."""

from __future__ import annotations

from typing import Any

from ..sql.transfer import SqlTransfer
from .database import SqliteDatabase


class SqliteTransfer(SqlTransfer):
    """See `Transfer` in the contracts."""

    db: SqliteDatabase

    def take_source(self, row: dict[str, Any]) -> int:
        reader = row.get("reader")
        # A file has one source for each path. The machine says where the path is.
        if reader:
            row = {**row, "machine": row["machine"] or reader.rpartition("@")[2]}
        with self.db.transaction():
            sql = "select number, machine from sources where agent = ? and path = ?"
            known = self.db.one(sql, (row["agent"], row["path"]))
            if known is not None and known[1] != row["machine"]:
                row = {**row, "path": f"{row['machine']}:{row['path']}"}
                known = self.db.one(sql, (row["agent"], row["path"]))
            return self._take_source_row(row, None if known is None else int(known[0]))
