"""The file of a SQLite store: opening, locking and upgrading it.

It has a write-ahead log (WAL), so there is one writer, and readers are never blocked.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import apsw

from ...errors import StoreBusy, StoreError, StoreMissing, StoreTooNew, StoreTooOld
from ..sql.database import Database, Question, migrations

MIGRATIONS = Path(__file__).parent / "migrations"

APPLICATION_ID = int.from_bytes(b"Rlor", "big")
"""The mark of runlore in the header of every store, where `file` and others look for it. Stores of
development versions have another mark, or none."""

BUSY_MS = 10_000
"""Maximum time to wait for a file that another connection has for itself: while it is closed, the
last one moves the log into the file."""

CHECKPOINT_PAGES = 5000
"""Pages of the write-ahead log, 40 MB, after which a commit writes them to the file and waits for
the disk. With SQLite's default of 1,000, a long sync on a busy disk would wait five times as
often."""


class SqliteDatabase(Database):
    """See `Database`."""

    instr = "instr"
    has_bytes = "instr({}, ?) > 0"
    epoch_of = "unixepoch({})"

    connection: apsw.Connection

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        self.path = self.url = os.path.expanduser(path)
        super().__init__()
        self._is_open = False
        try:
            if not read_only:
                os.makedirs(os.path.dirname(self.path) or ".", mode=0o700, exist_ok=True)
                # Created here, because SQLite would create a file that everyone can read.
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            elif not os.path.exists(self.path):
                raise StoreMissing(f"{self.path}: there is no store yet; run `runlore sync` first")
            # A sync has more statements than SQLite's default cache has room for.
            self.connection = (
                _connect(self.path)
                if read_only
                else apsw.Connection(self.url, statementcachesize=500)
            )
            self.connection.set_busy_timeout(BUSY_MS)
            self.is_alone = self.connection.pragma("locking_mode") == "exclusive"
            self._set_up(read_only)
        except apsw.NotADBError as error:
            raise StoreError(
                f"{self.path} is not a runlore store ({error}); correct RUNLORE_STORE, or `store`"
                " in config.toml; if it was one, put a backup in its place"
            ) from None
        except apsw.CorruptError as error:
            raise StoreError(
                f"{self.path} is damaged ({error}); put a backup there, or move it away and run"
                " `runlore sync`"
            ) from None
        except apsw.Error as error:
            is_full = getattr(error, "extendedresult", 0) in (*_NO_INDEX, apsw.SQLITE_FULL)
            raise StoreError(f"{self.path}: {'the disk is full' if is_full else error}") from None
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from None

    @classmethod
    def over(cls, connection: apsw.Connection) -> SqliteDatabase:
        """Return a database over a connection that is open already, for reading."""
        db = cls.__new__(cls)
        Database.__init__(db)
        db.connection, db.path, db.url, db._is_open = connection, "", "", False
        return db

    def _set_up(self, read_only: bool) -> None:
        version = self._format()
        if version == 0:
            if read_only:
                raise StoreMissing(f"{self.path}: there is no store yet; run `runlore sync` first")
            # These two shape the file and must come before its first table.
            self.connection.pragma("page_size", 8192)
            self.connection.pragma("auto_vacuum", 2)
            self.connection.pragma("journal_mode", "wal")
        self.connection.pragma("synchronous", 1)
        self.connection.pragma("cache_size", -64 * 1024)
        self.connection.pragma("temp_store", 2)
        self.connection.wal_autocheckpoint(CHECKPOINT_PAGES)
        if read_only:
            self.connection.pragma("query_only", 1)
        self._migrate(version, read_only)

    def _format(self) -> int:
        """Return the number of the last migration; 0 for an empty file.

        Raises StoreError if the file is not a store.
        """
        for _ in range(2):  # Twice, because another process may be creating the store just now.
            if self.connection.pragma("application_id") == APPLICATION_ID:
                return int(self.connection.pragma("user_version"))
            names = {
                name for (name,) in self.all("select name from sqlite_schema where type = 'table'")
            }
            if not names:
                return 0
        if self.connection.pragma("user_version") and {"sessions", "streams", "segments"} <= names:
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
                    # Another process may have migrated it while this one waited for the lock.
                    if self.connection.pragma("user_version") < number:
                        self.connection.execute(sql)
                        self.connection.pragma("application_id", APPLICATION_ID)
                        self.connection.pragma("user_version", number)

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._is_open:
            yield
            return
        try:
            self.connection.execute("begin immediate")
        except apsw.BusyError:
            raise StoreBusy(
                f"{self.path}: another process is writing; try again in a moment"
            ) from None
        self._is_open = True
        try:
            yield
            self.flush()
            self.connection.execute("commit")
        except BaseException as error:
            if self.connection.in_transaction:
                self.connection.execute("rollback")
            if isinstance(error, apsw.FullError):
                raise StoreError(
                    f"{self.path}: the disk is full; nothing of this step was kept, what came"
                    " before is safe"
                ) from None
            if isinstance(error, apsw.IOError):
                raise StoreError(f"{self.path}: {error}; nothing of this step was kept") from None
            raise
        finally:
            self._is_open = False
            self.clear()  # Another process may write from now on.

    @contextmanager
    def sync_lock(self) -> Iterator[None]:
        # The lock of a second, small database: on every platform the system releases it when its
        # process dies.
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

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        if self.connection.in_transaction:
            yield
            return
        self.connection.execute("begin")
        try:
            # The moment of the snapshot is that of its first read.
            with self.translate_errors():
                self.all("select 1 from sqlite_schema limit 1")
            yield
        finally:
            self.connection.execute("rollback")

    def ids(self, numbers: Iterable[int]) -> Any:
        return apsw.carray(array("q", numbers))

    def among(self, column: str, texts: Iterable[str]) -> tuple[str, Any]:
        values = tuple(texts)
        if any("\0" in text for text in values):
            raise UnicodeError("a name with a NUL in it cannot be stored")
        return f"{column} in (select value from carray(?))", apsw.carray(values)

    def answer(self, questions: Sequence[Question]) -> list[list[Any]]:
        return [self.all(sql, values) for sql, values in questions]

    def glob(self, column: str, pattern: str, *, is_part: bool = False) -> tuple[str, str]:
        is_plain = is_part and not any(char in pattern for char in "*?[")
        return f"{column} glob ?", f"*{pattern}*" if is_plain else pattern

    def session_columns(self) -> list[str]:
        return [name for (name,) in self.all("select name from pragma_table_info('sessions')")]

    def file_bytes(self) -> int:
        return int(self.connection.pragma("page_count") * self.connection.pragma("page_size"))

    def translate_errors(self) -> AbstractContextManager[None]:
        return translate_errors(self.url)


def _connect(path: str) -> apsw.Connection:
    """Return a connection for reading.

    With write permission, SQLite has the index of its log in a file, as for every reader. Without,
    the log is read as it is. If there is no log, as for a copy on a read-only medium, the file
    alone is read.
    """
    if os.access(path, os.W_OK) and os.access(os.path.dirname(path) or ".", os.W_OK):
        return _connect_for_writing(path)
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


_NO_INDEX = (apsw.SQLITE_IOERR_SHMOPEN, apsw.SQLITE_IOERR_SHMSIZE, apsw.SQLITE_IOERR_SHMMAP)
"""What SQLite reports when it cannot write the index of the log."""


def _connect_for_writing(path: str) -> apsw.Connection:
    """Return a connection that may write, and can read on a full disk.

    On a full disk there may be no room for the index of the log. Then the connection has the index
    in its memory, and the file for itself alone until it is closed.
    """
    db = apsw.Connection(path)
    db.set_busy_timeout(BUSY_MS)
    try:
        db.execute("select 1 from sqlite_schema").fetchall()  # The first read opens the files.
    except apsw.IOError as error:
        db.close()
        if getattr(error, "extendedresult", None) not in _NO_INDEX:
            raise
        db = apsw.Connection(path)
        db.pragma("locking_mode", "exclusive")
    return db


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Raise errors of SQLite as a StoreError, and of text that is damaged and not UTF-8."""
    try:
        yield
    except (apsw.Error, UnicodeDecodeError) as error:
        # A backup that runs out of space fails with the code of a success.
        is_full = (
            isinstance(error, apsw.FullError) or getattr(error, "result", -1) == apsw.SQLITE_OK
        )
        raise StoreError(f"{path}: {'the disk is full' if is_full else error}") from None


def _connect_as(path: str, options: str) -> apsw.Connection:
    db = apsw.Connection(
        f"{Path(path).absolute().as_uri()}?{options}",
        flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
    )
    db.set_busy_timeout(BUSY_MS)
    try:
        db.execute("select 1 from sqlite_schema").fetchall()  # The first read opens the files.
    except apsw.Error:
        db.close()
        raise
    return db
