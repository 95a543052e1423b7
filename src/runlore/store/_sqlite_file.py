"""How the file of a SQLite store is opened, and its transactions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from ..errors import StoreBusy, StoreError, StoreTooNew, StoreTooOld
from ._sql import migrations
from ._sql_sums import Summer
from ._sqlite_list import SqliteLister

MIGRATIONS = Path(__file__).parent / "migrations"

APPLICATION_ID = int.from_bytes(b"rlor", "big")
"""In the header of every store, where `file` and others look for it: this is a file of runlore."""

CHECKPOINT_PAGES = 5000
"""Of the write-ahead log, 40 MB. Then a commit brings it into the file, and waits for the disk.
With SQLite's own 1,000 a long sync on a busy disk would wait five times as often."""


class SqliteFile(SqliteLister, Summer):
    """The part of `SqliteStore` that opens it."""

    machine: str | None = None
    takes_cut_words: bool = False
    takes_groups: bool = False

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.path = self.url = os.path.expanduser(path)
        self._again: dict[int, Any] = {}
        self._to_sum = set()
        self._to_charge: dict[int, Any] = {}
        self._to_index: dict[int, Any] = {}
        self._numbers: dict[str, dict[tuple[Any, ...], int]] = {}
        self._absent: set[int] = set()
        self._unmarked: set[int] = set()
        self._depth = 0
        try:
            if not read_only:
                os.makedirs(os.path.dirname(self.path) or ".", mode=0o700, exist_ok=True)
                # Made by us first, because SQLite would make it readable by everyone.
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            elif not os.path.exists(self.path):
                raise StoreError(f"{self.path}: there is no store yet; run `runlore sync` first")
            # A sync has a hundred statements and more; with room for no more than that every tenth
            # was prepared again.
            self.db = (
                _connect(self.path)
                if read_only
                else apsw.Connection(self.url, statementcachesize=500)
            )
            self._set_up(read_only)
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise StoreError(
                f"{self.path} is damaged ({error}); put a backup there, or move it away and run"
                " `runlore sync`"
            ) from None
        except apsw.Error as error:
            raise StoreError(f"{self.path}: {error}") from None
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from None

    def _set_up(self, read_only: bool) -> None:
        self.db.set_busy_timeout(10_000)
        version = self._format()
        if version == 0:
            if read_only:
                raise StoreError(f"{self.path}: there is no store yet; run `runlore sync` first")
            # These two shape the file and must come before its first table.
            self.db.pragma("page_size", 8192)
            self.db.pragma("auto_vacuum", 2)
            self.db.pragma("journal_mode", "wal")
        self.db.pragma("synchronous", 1)
        self.db.pragma("cache_size", -64 * 1024)
        self.db.pragma("temp_store", 2)
        self.db.wal_autocheckpoint(CHECKPOINT_PAGES)
        if read_only:
            self.db.pragma("query_only", 1)
        self._migrate(version, read_only)

    def _format(self) -> int:
        """Return the number of the last migration; 0 for an empty file. Raises StoreError when it
        is the file of something else."""
        for _ in range(2):  # Asked again: another process may just have made it ours.
            if self.db.pragma("application_id") == APPLICATION_ID:
                return int(self.db.pragma("user_version"))
            names = {
                name for (name,) in self._all("select name from sqlite_schema where type = 'table'")
            }
            if not names:
                return 0
        if self.db.pragma("user_version") and {"sessions", "streams", "segments"} <= names:
            raise StoreTooOld(
                f"{self.path} was made by a development version of runlore, which this one cannot"
                " read; move it away and run `runlore sync` (keep it: sessions that an agent has"
                " deleted since are only there)"
            )
        raise StoreError(
            f"{self.path} is a database of something else; name another file for the store"
        )

    def _migrate(self, version: int, read_only: bool) -> None:
        steps = migrations(MIGRATIONS)
        newest = steps[-1][0]
        if version > newest:
            raise StoreTooNew(
                f"{self.path} was made by a newer runlore (format {version}, this one knows"
                f" {newest}); update runlore"
            )
        if version < newest and read_only:
            raise StoreError(
                f"{self.path} is of an older format; run `runlore sync` once to bring it up to date"
            )
        for number, sql in steps:
            if number > version:
                with self.transaction():
                    # Another process may have done it while this one waited for the lock.
                    if self.db.pragma("user_version") < number:
                        self.db.execute(sql)
                        self.db.pragma("application_id", APPLICATION_ID)
                        self.db.pragma("user_version", number)

    def close(self) -> None:
        self.db.close()

    # ── transactions and locks ────────────────────────────────────────────────────────────────────
    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._depth:
            yield
            return
        try:
            self.db.execute("begin immediate")
        except apsw.BusyError:
            raise StoreBusy(
                f"{self.path}: another process is writing; try again in a moment"
            ) from None
        self._depth = 1
        try:
            yield
            self._sum_up()
            self.db.execute("commit")
        except BaseException as error:
            self._to_sum.clear()
            self._to_charge.clear()
            self._to_index.clear()
            if self.db.in_transaction:
                self.db.execute("rollback")
            if isinstance(error, apsw.FullError):
                raise StoreError(
                    f"{self.path}: the disk is full; nothing of this step was kept, what came"
                    " before is safe"
                ) from None
            if isinstance(error, apsw.IOError):
                raise StoreError(f"{self.path}: {error}; nothing of this step was kept") from None
            raise
        finally:
            self._depth = 0
            # Another process may write now.
            for known in (self._numbers, self._absent, self._unmarked):
                known.clear()


def _connect(path: str) -> apsw.Connection:
    """For reading. Where we may write, SQLite keeps the index of its log beside the file, as for
    every reader. Where we may not, a log is read as it is; and where there is none, as beside a
    copy on a medium that cannot be written, the file alone."""
    if os.access(path, os.W_OK) and os.access(os.path.dirname(path) or ".", os.W_OK):
        return apsw.Connection(path)
    log = f"{path}-wal"
    try:
        return _connect_as(path, "mode=ro")
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if os.path.exists(log) and os.path.getsize(log):
            raise StoreError(
                f"{path}: its last writes are in {os.path.basename(log)} and cannot be read here;"
                " copy both elsewhere"
            ) from None
    return _connect_as(path, "mode=ro&immutable=1")


def _connect_as(path: str, options: str) -> apsw.Connection:
    db = apsw.Connection(
        f"{Path(path).absolute().as_uri()}?{options}",
        flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
    )
    try:
        db.execute("select 1 from sqlite_schema").fetchall()  # Only now the files are opened.
    except apsw.Error:
        db.close()
        raise
    return db
