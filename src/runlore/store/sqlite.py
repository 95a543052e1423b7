"""The store in one SQLite file, through apsw, which brings its own current SQLite on every machine.

WAL, one writer, readers never blocked. What both databases can say is in `_sql_….py`, what only
SQLite can in `_sqlite_….py`. Here is how the file is locked and emptied; `_sqlite_file.py` opens
it.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import apsw

from ..errors import StoreBusy, StoreError
from ._sql_retain import Evictor
from ._sqlite_check import SqliteChecker
from ._sqlite_file import SqliteFile
from .contract import FORGOTTEN


class SqliteStore(SqliteFile, SqliteChecker, Evictor):
    """See `Store`: the methods are described there."""

    @contextmanager
    def sync_lock(self) -> Iterator[None]:
        # A lock that the system lets go of when its process dies, on every platform: that of a
        # second small database.
        path = f"{self.path}.lock"
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            lock = apsw.Connection(path)
        except (OSError, apsw.Error) as error:
            raise StoreError(f"{path}: {error}") from None
        try:
            lock.execute("begin exclusive")
        except apsw.BusyError:
            lock.close()
            raise StoreBusy("another sync is running; this one has nothing to do") from None
        try:
            yield
        finally:
            lock.close()

    # ── taking over, forgetting, space ────────────────────────────────────────────────────────────
    def _drop_sessions(self, numbers: list[int]) -> None:
        """All of them at once: for nine tenths of a million events four times as fast as one after
        the other."""
        these = "(select value from carray(?))"
        sessions = apsw.carray(array("q", numbers or [-1]))
        found = self._all(
            f"select distinct source from streams where session in {these}", (sessions,)
        )
        sources = apsw.carray(array("q", [number for (number,) in found] or [-1]))
        self._index()
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

    def take_source(self, row: dict[str, Any]) -> int:
        reader = row.get("reader")
        # In a file there is one source at each path, and its machine says where that is.
        if reader:
            row = {**row, "machine": row["machine"] or reader.rpartition("@")[2]}
        with self.transaction():
            sql = "select number, machine from sources where agent = ? and path = ?"
            found = self._one(sql, (row["agent"], row["path"]))
            if found is not None and found[1] != row["machine"]:
                row = {**row, "path": f"{row['machine']}:{row['path']}"}
                found = self._one(sql, (row["agent"], row["path"]))
            return self._take_source(row, None if found is None else int(found[0]))

    def used_bytes(self) -> int:
        return int(
            (self.db.pragma("page_count") - self.db.pragma("freelist_count"))
            * self.db.pragma("page_size")
        )

    def shrink(self, *, most_left: bool = False) -> None:
        try:
            self.db.execute("insert into search(search) values ('optimize')")
            if most_left or self.db.pragma("freelist_count") * 2 > self.db.pragma("page_count"):
                # On a disk that is nearly full there is no room for it. What follows needs less.
                with suppress(apsw.Error):
                    self._write_anew()  # Less stays than has left: into pages that are full.
            # It gives back a page for each row that it is asked for.
            list(self.db.execute("pragma incremental_vacuum"))
            self.db.pragma("wal_checkpoint", "truncate")
        except apsw.Error as error:
            raise StoreError(
                f"{self.path}: {error}; the room of what was dropped is used again, but not given"
                " back"
            ) from None

    def purge(self) -> None:
        # Deleted pages keep their old bytes until they are overwritten, and so does the index.
        try:
            self.db.execute("insert into search(search) values ('optimize')")
            self._write_anew()
            self.db.pragma("wal_checkpoint", "truncate")
        except apsw.Error as error:
            raise StoreError(
                f"{self.path}: {error}; what was removed may still be in the file, run it again"
            ) from None

    def _write_anew(self) -> None:
        """All that is there into another file first, and back. Like anything else that SQLite makes
        for a while this would be in memory: a store of gigabytes takes as many."""
        self.db.pragma("temp_store", 1)
        try:
            self.db.execute("vacuum")
        except (apsw.FullError, apsw.IOError, apsw.CantOpenError):
            # Folders for such files may be small, or cannot be written to.
            self.db.pragma("temp_store", 2)
            self.db.execute("vacuum")
        finally:
            self.db.pragma("temp_store", 2)
