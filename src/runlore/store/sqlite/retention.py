"""Dropping sessions of a SQLite store, and giving back the space in its file."""

from __future__ import annotations

from array import array
from contextlib import suppress

import apsw

from ...errors import StoreError
from ..sql.retention import SqlRetention
from ..values import FORGOTTEN
from .database import SqliteDatabase
from .index import SqliteIndex


class SqliteRetention(SqlRetention):
    """See `Retention` in the contracts."""

    db: SqliteDatabase
    index: SqliteIndex

    def drop_sessions(self, numbers: list[int]) -> None:
        """Drop sessions together, which is much faster than one after the other."""
        these = "(select value from carray(?))"
        sessions = apsw.carray(array("q", numbers or [-1]))
        rows = self.db.all(
            f"select distinct source from streams where session in {these}", (sessions,)
        )
        sources = apsw.carray(array("q", [number for (number,) in rows] or [-1]))
        self.index.flush()
        # Otherwise the index would merge its remaining parts again and again while rows are
        # deleted. `purge` does that once.
        self.db.execute("insert into search(search, rank) values ('deletemerge', 0)")
        self.db.execute(
            f"delete from search where rowid in (select id from segments where session in {these})",
            (sessions,),
        )
        self.db.execute("insert into search(search, rank) values ('deletemerge', 10)")
        for table in (
            "segments",
            "natives",
            "events",
            "streams",
            "calls",
            "sums",
            "digests",
            "errors",
        ):
            self.db.execute(f"delete from {table} where session in {these}", (sessions,))
        self.db.execute(f"delete from sessions where number in {these}", (sessions,))
        # Native records of a source cannot be divided by session, so all of them are dropped.
        for table in ("records", "skips", "aliases"):
            self.db.execute(f"delete from {table} where source in {these}", (sources,))
        self.db.execute(
            "update sources set carry = null, problem = ?2 where number in"
            f" {these.replace('?', '?1')} and not exists (select 1 from streams where source ="
            " number)",
            (sources, FORGOTTEN),
        )

    def used_bytes(self) -> int:
        return int(
            (self.db.connection.pragma("page_count") - self.db.connection.pragma("freelist_count"))
            * self.db.connection.pragma("page_size")
        )

    def shrink(self, *, most_left: bool = False) -> None:
        try:
            self.db.execute("insert into search(search) values ('optimize')")
            free, pages = (
                self.db.connection.pragma(name) for name in ("freelist_count", "page_count")
            )
            if most_left or free * 2 > pages:
                # If little is left, rewriting the file fills its pages. A nearly full disk may have
                # no space for this; the vacuum below needs less.
                with suppress(apsw.Error):
                    self._rewrite_file()
            # The pragma gives back one page for each row that is fetched.
            list(self.db.execute("pragma incremental_vacuum"))
            self.db.connection.pragma("wal_checkpoint", "truncate")
        except apsw.Error as error:
            raise StoreError(
                f"{self.db.path}: {error}; the room of what was dropped is used again, but not"
                " given back"
            ) from None

    def purge(self) -> None:
        # Deleted pages keep their old bytes until they are overwritten, and so does the index.
        try:
            self.db.execute("insert into search(search) values ('optimize')")
            self._rewrite_file()
            self.db.connection.pragma("wal_checkpoint", "truncate")
        except apsw.Error as error:
            raise StoreError(
                f"{self.db.path}: {error}; what was removed may still be in the file, run it again"
            ) from None

    def _rewrite_file(self) -> None:
        """Write the whole file again, through a temporary file.

        Other temporary data is in memory, but a copy of the store may be too large for that.
        """
        self.db.connection.pragma("temp_store", 1)
        try:
            self.db.execute("vacuum")
        except (apsw.FullError, apsw.IOError, apsw.CantOpenError):
            # The folder for temporary files may be small or read-only.
            self.db.connection.pragma("temp_store", 2)
            self.db.execute("vacuum")
        finally:
            self.db.connection.pragma("temp_store", 2)
