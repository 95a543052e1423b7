"""The store in one SQLite file, through apsw, which brings its own current SQLite on every machine.

WAL, one writer, readers never blocked. What both databases can say is in `_sql_….py`, what only SQLite can in `_sqlite_….py`. Here is how
the file is opened, locked and emptied.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from ..errors import StoreBusy, StoreError, StoreTooNew
from . import FORGOTTEN
from ._sql import migrations
from ._sql_put import Again
from ._sql_retain import Evictor
from ._sqlite_check import SqliteChecker

MIGRATIONS = Path(__file__).parent / "migrations"


class SqliteStore(SqliteChecker, Evictor):
    """See `Store`: the methods are described there."""

    machine: str | None = None

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.path = Path(path).expanduser()
        self.url = str(self.path)
        self._again: dict[int, Again] = {}
        self._to_sum = set()
        self._depth = 0
        try:
            if not read_only:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                # Made by us first, because SQLite would make it readable by everyone.
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            elif not self.path.exists():
                raise StoreError(f"{self.path}: there is no store yet; run `runlore sync` first")
            self.db = _connect(self.path) if read_only else apsw.Connection(self.url)
            self._set_up(read_only)
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise StoreError(f"{self.path} is damaged ({error}); put a backup there, or move it away and run `runlore sync`") from None
        except apsw.Error as error:
            raise StoreError(f"{self.path}: {error}") from None
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from None

    def _set_up(self, read_only: bool) -> None:
        self.db.set_busy_timeout(10_000)
        version = self.db.pragma("user_version")
        if version == 0:
            # Asked again: another process may just have made it ours.
            if self._one("select 1 from sqlite_schema limit 1") and self.db.pragma("user_version") == 0:
                raise StoreError(f"{self.path} is a database of something else; name another file for the store")
            if read_only:
                raise StoreError(f"{self.path}: there is no store yet; run `runlore sync` first")
            # These two shape the file and must come before its first table.
            self.db.pragma("page_size", 8192)
            self.db.pragma("auto_vacuum", 2)
            self.db.pragma("journal_mode", "wal")
        self.db.pragma("synchronous", 1)
        self.db.pragma("cache_size", -64 * 1024)
        self.db.pragma("temp_store", 2)
        if read_only:
            self.db.pragma("query_only", 1)
        self._migrate(version, read_only)

    def _migrate(self, version: int, read_only: bool) -> None:
        newest = max(int(name[:4]) for name in os.listdir(MIGRATIONS) if name[:4].isdecimal())
        if version > newest:
            raise StoreTooNew(f"{self.path} was made by a newer runlore (format {version}, this one knows {newest}); update runlore")
        if version == newest:
            return
        if read_only:
            raise StoreError(f"{self.path} is of an older format; run `runlore sync` once to bring it up to date")
        for number, sql in migrations(MIGRATIONS):
            if number > version:
                with self.transaction():
                    # Another process may have done it while this one waited for the lock.
                    if self.db.pragma("user_version") < number:
                        self.db.execute(sql)
                        self.db.pragma("user_version", number)
        if version == 0:
            # A large hash before the index is flushed means fewer, larger pieces to merge (measured: 1.3 × as fast).
            self.db.execute("insert into search(search, rank) values ('hashsize', 16777216)")
            # Merging 16 pieces at a time instead of 4 writes each word half as often (1.2 × as fast), and a search looks at a few more.
            self.db.execute("insert into search(search, rank) values ('automerge', 16)")

    def close(self) -> None:
        self.db.close()

    # ── transactions and locks ───────────────────────────────────────────────────────────────────────────────────────
    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._depth:
            yield
            return
        try:
            self.db.execute("begin immediate")
        except apsw.BusyError:
            raise StoreBusy(f"{self.path}: another process is writing; try again in a moment") from None
        self._depth = 1
        try:
            yield
            self._sum_up()
            self.db.execute("commit")
        except BaseException as error:
            self._to_sum.clear()
            if self.db.in_transaction:
                self.db.execute("rollback")
            if isinstance(error, apsw.FullError):
                raise StoreError(f"{self.path}: the disk is full; nothing of this step was kept, what came before is safe") from None
            if isinstance(error, apsw.IOError):
                raise StoreError(f"{self.path}: {error}; nothing of this step was kept") from None
            raise
        finally:
            self._depth = 0

    @contextmanager
    def sync_lock(self) -> Iterator[None]:
        # A lock that the system lets go of when its process dies, on every platform: that of a second small database.
        path = self.path.with_name(self.path.name + ".lock")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            lock = apsw.Connection(str(path))
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

    # ── taking over, forgetting, space ────────────────────────────────────────────────────────────────────────────────
    def _drop_sessions(self, numbers: list[int]) -> None:
        """All of them at once: for nine tenths of a million events four times as fast as one after the other."""
        these = "(select value from carray(?))"
        sessions = apsw.carray(array("q", numbers or [-1]))
        found = self._all(f"select distinct source from streams where session in {these}", (sessions,))
        sources = apsw.carray(array("q", [number for (number,) in found] or [-1]))
        # By itself the index merges what remains again and again while it is deleted from; `purge` does that once.
        self.db.execute("insert into search(search, rank) values ('deletemerge', 0)")
        self.db.execute(f"delete from search where rowid in (select id from segments where session in {these})", (sessions,))
        self.db.execute("insert into search(search, rank) values ('deletemerge', 10)")
        for table in ("segments", "natives", "events", "streams", "calls", "sums", "digests", "errors"):
            self.db.execute(f"delete from {table} where session in {these}", (sessions,))
        self.db.execute(f"delete from sessions where number in {these}", (sessions,))
        # Native records of one file cannot be told apart by session, so all of the file's go.
        for table in ("records", "skips", "aliases"):
            self.db.execute(f"delete from {table} where source in {these}", (sources,))
        self.db.execute(
            f"update sources set carry = null, problem = ?2 where number in {these.replace('?', '?1')}"
            " and not exists (select 1 from streams where source = number)",
            (sources, FORGOTTEN),
        )

    def take_source(self, row: dict[str, Any]) -> int:
        reader = row.get("reader")
        if reader:  # In a file there is one source at each path, and its machine says where that is.
            row = {**row, "machine": row["machine"] or reader.rpartition("@")[2]}
        with self.transaction():
            sql = "select number, machine from sources where agent = ? and path = ?"
            found = self._one(sql, (row["agent"], row["path"]))
            if found is not None and found[1] != row["machine"]:
                row = {**row, "path": f"{row['machine']}:{row['path']}"}
                found = self._one(sql, (row["agent"], row["path"]))
            return self._take_source(row, None if found is None else int(found[0]))

    def used_bytes(self) -> int:
        return int((self.db.pragma("page_count") - self.db.pragma("freelist_count")) * self.db.pragma("page_size"))

    def shrink(self) -> None:
        try:
            self.db.execute("insert into search(search) values ('optimize')")
            list(self.db.execute("pragma incremental_vacuum"))  # It gives back a page for each row that it is asked for.
            self.db.pragma("wal_checkpoint", "truncate")
        except apsw.Error as error:
            raise StoreError(f"{self.path}: {error}; the room of what was dropped is used again, but not given back") from None

    def purge(self) -> None:
        # Deleted pages keep their old bytes until they are overwritten, and so does the index.
        try:
            self.db.execute("insert into search(search) values ('optimize')")
            self.db.execute("vacuum")
            self.db.pragma("wal_checkpoint", "truncate")
        except apsw.Error as error:
            raise StoreError(f"{self.path}: {error}; what was removed may still be in the file, run it again") from None


def _connect(path: Path) -> apsw.Connection:
    """For reading. Where we may write, SQLite keeps the index of its log beside the file, as for every reader. Where we may not,
    a log is read as it is; and where there is none, as beside a copy on a medium that cannot be written, the file alone."""
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return apsw.Connection(str(path))
    log = Path(f"{path}-wal")
    try:
        return _connect_as(path, "mode=ro")
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if log.exists() and log.stat().st_size:
            raise StoreError(f"{path}: its last writes are in {log.name} and cannot be read here; copy both elsewhere") from None
    return _connect_as(path, "mode=ro&immutable=1")


def _connect_as(path: Path, options: str) -> apsw.Connection:
    db = apsw.Connection(f"{path.absolute().as_uri()}?{options}", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        db.execute("select 1 from sqlite_schema").fetchall()  # Only now the files are opened.
    except apsw.Error:
        db.close()
        raise
    return db
