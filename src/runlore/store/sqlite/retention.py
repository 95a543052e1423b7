"""How a SQLite store drops sessions and gives room back."""

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
        """All of them at once: for nine tenths of a million events four times as fast as one after
        the other."""
        these = "(select value from carray(?))"
        sessions = apsw.carray(array("q", numbers or [-1]))
        found = self.db.all(
            f"select distinct source from streams where session in {these}", (sessions,)
        )
        sources = apsw.carray(array("q", [number for (number,) in found] or [-1]))
        self.index.flush()
        # By itself the index merges what remains again and again while it is deleted from; `purge`
        # does that once.
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
        # Native records of one file cannot be told apart by session, so all of the file's go.
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
            if most_left or self.db.connection.pragma(
                "freelist_count"
            ) * 2 > self.db.connection.pragma("page_count"):
                # On a disk that is nearly full there is no room for it. What follows needs less.
                with suppress(apsw.Error):
                    self._write_anew()  # Less stays than has left: into pages that are full.
            # It gives back a page for each row that it is asked for.
            list(self.db.execute("pragma incremental_vacuum"))
            self.db.connection.pragma("wal_checkpoint", "truncate")
        except apsw.Error as error:
            raise StoreError(
                f"{self.db.path}: {error}; the room of what was dropped is used again, but not given"
                " back"
            ) from None

    def purge(self) -> None:
        # Deleted pages keep their old bytes until they are overwritten, and so does the index.
        try:
            self.db.execute("insert into search(search) values ('optimize')")
            self._write_anew()
            self.db.connection.pragma("wal_checkpoint", "truncate")
        except apsw.Error as error:
            raise StoreError(
                f"{self.db.path}: {error}; what was removed may still be in the file, run it again"
            ) from None

    def _write_anew(self) -> None:
        """All that is there into another file first, and back. Like anything else that SQLite makes
        for a while this would be in memory: a store of gigabytes takes as many."""
        self.db.connection.pragma("temp_store", 1)
        try:
            self.db.execute("vacuum")
        except (apsw.FullError, apsw.IOError, apsw.CantOpenError):
            # Folders for such files may be small, or cannot be written to.
            self.db.connection.pragma("temp_store", 2)
            self.db.execute("vacuum")
        finally:
            self.db.connection.pragma("temp_store", 2)
