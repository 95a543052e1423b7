"""SQLite databases of agents: how they are found, opened without a trace, and read row by row.

Knows SQLite, and no agent's tables. A database belongs to a program that may be writing to it right
now: it is never written to, no file is made beside it, and it is never held for longer than a read.
Recent commits are often still in the write-ahead log (`-wal`) next to the file. So both are read,
and the size and time of a source are those of the two together.

An adapter takes its records from one table that only grows: the rowid names a record and is the
position. Rows of other tables come along as sidecars (`Record.sidecar`); the carry recognizes those
that were read before.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from stat import S_ISREG
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Any, TypeVar
from urllib.parse import quote

import apsw
import msgspec

from ...errors import ReadError, Rejected
from .base import OUTSIDE, Adapter, leads_out
from .jsonl import MAX_RECORD_BYTES, has_too_many_values, note_refusal, reason_of
from .values import Source

# A writer holds its lock for milliseconds; whoever holds it longer is waited for by the next sync.
BUSY_MS = 2000
# Bytes of a database that is copied to be read. None that an agent keeps sessions in is near that.
MAX_COPIED = 2 << 30
# Bytes of a value that is read. The largest that agents write have a few million.
MAX_VALUE_BYTES = 32 << 20
# Seconds of CPU for one read, and further ones for each 100 MB of the database. Listing sessions
# takes the longest: hundredths of a second for 100 MB.
MAX_READ_S, MAX_READ_S_PER_100_MB = 3.0, 1.0
STEPS = 100_000  # Instructions of SQLite between two looks at the clock: some milliseconds.
# Folders between a root and a database. The sessions of other programs lie deeper, and are many.
MAX_DEPTH = 2

# Bytes of a database for each of its sessions, once it has MAX_SMALL_SESSIONS.
MIN_SESSION_BYTES, MAX_SMALL_SESSIONS = 1024, 1000

SUFFIXES = ("", "-wal", "-journal")
"""What a database consists of: the file, and what was not yet put into it or may have to be taken
back."""

AGAIN = "it is read again the next time"
"""Ends the reason of a ReadError that says nothing about the database itself."""


NO_UTF8 = "an id that is not UTF-8"
"""What is wrong with a row that nothing can name."""


T = TypeVar("T")


class SqliteAdapter(Adapter):
    """The base of adapters whose agent keeps its sessions in one database below its root."""

    files: tuple[str, ...]
    """The names that the database may have."""

    def discover(self, root: Path) -> Iterator[Source]:
        self.refused = refused = list[ReadError]()
        for path in find_databases(str(root), self.files, refused):
            if leads_out(path, str(root)):
                refused.append(ReadError(path, OUTSIDE))
                continue
            try:
                stat = os.stat(path) if path.isprintable() else None
            except OSError as error:
                note_refusal(path, error, refused)
                continue
            if stat is not None and stat.st_size and S_ISREG(stat.st_mode):
                log = _stat(path + "-wal")
                size, newest = (
                    stat.st_size + (log.st_size if log else 0),
                    max(stat.st_mtime_ns, log.st_mtime_ns if log else 0),
                )
                yield Source(
                    agent=self.name,
                    path=path,
                    root=str(root),
                    size=size,
                    mtime_ns=newest,
                    inode=stat.st_ino,
                )


def find_databases(
    root: str, names: Sequence[str], refused: list[ReadError], deep: int = MAX_DEPTH
) -> Iterator[str]:
    """Yield the paths of databases: the root itself, in it, or below it, where somebody has
    gathered the folders of several machines."""
    if os.path.basename(root) in names and os.path.isfile(root):
        yield root
        return
    folders = [root]
    for depth in range(deep + 1):
        found = {
            folder: [path for name in names if os.path.lexists(path := os.path.join(folder, name))]
            for folder in folders
        }
        yield from (path for paths in found.values() for path in paths)
        if depth < deep:
            folders = [
                below
                for folder, paths in found.items()
                if not paths
                for below in _folders(folder, refused)
            ]


def _folders(folder: str, refused: list[ReadError]) -> list[str]:
    try:
        with os.scandir(folder) as listing:
            return sorted(entry.path for entry in listing if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        note_refusal(folder, error, refused)
        return []


@contextmanager
def reading(path: str) -> Iterator[apsw.Connection]:
    """Open a connection on which nothing can be written, and that runs nothing but our own SQL for
    a limited time. Everything that goes wrong with the database becomes a ReadError."""
    try:
        with ExitStack() as stack:
            _check_files(path)
            db, watch = _open(path, stack)
            _limit_time(db, path)
            yield db
            if watch is not None and watch != _state(path):
                raise ReadError(path, f"it was written to while it was read; {AGAIN}")
    except (apsw.BusyError, apsw.ReadOnlyError):
        # The second: the index of its log is being made, and we do not help.
        raise ReadError(path, f"it is locked by another program; {AGAIN}") from None
    except apsw.InterruptError:
        raise Rejected(path, "reading it takes too long for its size") from None
    except apsw.TooBigError:
        raise Rejected(path, f"it has a value of more than {MAX_VALUE_BYTES >> 20} MB") from None
    except (apsw.NoMemError, MemoryError):
        raise Rejected(path, "there is not enough memory to read it") from None
    except apsw.Error as error:
        raise ReadError(path, f"{type(error).__name__}: {error}"[:300]) from None
    except UnicodeDecodeError:
        raise ReadError(path, "it has a text that is not UTF-8") from None
    except OSError as error:
        raise ReadError(path, reason_of(error)) from error


def _open(path: str, stack: ExitStack) -> tuple[apsw.Connection, Any]:
    """Return a connection, and the file's state that must be the same after the read, if that
    connection does not lock the file.

    - A write-ahead log with its index: read in place, without changing the index.
    - A log without an index has no writer, and SQLite would create the index: both are copied.
    - A database in WAL mode without a log has no writer: read as a file that does not change.
    - A database with a rollback journal: SQLite locks it for the read. If its writer died within a
      transaction, that has to be undone, which is done in a copy.
    """
    log, index = _stat(path + "-wal"), _stat(path + "-shm")
    if log is not None and index is not None:
        try:
            return _connect(path, "mode=ro&readonly_shm=1", stack), None
        except ReadError:
            return _connect(_copy(path, stack), "mode=ro", stack), None
    if log is not None and log.st_size:
        return _connect(_copy(path, stack), "mode=ro", stack), None
    if _has_log(path):
        before = _state(path)
        return _connect(path, "mode=ro&immutable=1", stack), before
    try:
        return _connect(path, "mode=ro", stack), None
    except ReadError:
        if _stat(path + "-journal") is None:
            raise
        return _connect(_copy(path, stack), "mode=rw", stack), None


def _connect(path: str, options: str, stack: ExitStack) -> apsw.Connection:
    # Not `Path.as_uri`: it wants an absolute path, and ours may be one of another system in a test.
    name = quote(os.path.abspath(path).replace(os.sep, "/"))
    access = apsw.SQLITE_OPEN_READWRITE if "mode=rw" in options else apsw.SQLITE_OPEN_READONLY
    db = apsw.Connection(
        f"file:{'' if name.startswith('/') else '/'}{name}?{options}",
        flags=access | apsw.SQLITE_OPEN_URI,
    )
    stack.callback(db.close)
    db.set_busy_timeout(BUSY_MS)
    _distrust(db)
    try:
        _deny_computed(db)  # Only now the files are opened.
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        raise ReadError(path, str(error)) from None
    return db


def _distrust(db: apsw.Connection) -> None:
    """Have nothing run that the file defines itself: no view in place of a table, no virtual table,
    no function with side effects. Extensions are never loaded unless they are enabled."""
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    db.drop_modules(None)
    db.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)


def _deny_computed(db: apsw.Connection) -> None:
    """Deny to read tables with columns that the database computes: they may take any memory.

    SQLite tells no capital from a small letter in names.
    """
    tables = db.execute("select lower(name), sql from sqlite_schema where lower(type) = 'table'")
    computed = {name for name, sql in tables if _COMPUTED.search(str(sql))}

    def authorize(action: int, table: str | None, *_: str | None) -> int:
        is_denied = action == apsw.SQLITE_READ and (table or "").lower() in computed
        return apsw.SQLITE_DENY if is_denied else apsw.SQLITE_OK

    if computed:
        db.authorizer = authorize


# `as (…)`; in other places `as` is followed by the name of a type.
_COMPUTED = re.compile(r"\bas\s*(?:\(|/\*|--)", re.IGNORECASE)


def _limit_time(db: apsw.Connection, path: str) -> None:
    """Interrupt the connection after a time that no real database of this size takes."""
    size = sum(size for size, _ in _state(path))
    end = thread_time() + MAX_READ_S + MAX_READ_S_PER_100_MB * size / 1e8
    db.set_progress_handler(lambda: thread_time() > end, STEPS)


def _check_files(path: str) -> None:
    """Raise ReadError unless all files of a database are ordinary ones: others may block."""
    for suffix in (*SUFFIXES, "-shm"):
        stat = _stat(path + suffix)
        if stat is not None and not S_ISREG(stat.st_mode):
            raise ReadError(path, f"{os.path.basename(path)}{suffix} is not an ordinary file")


def _copy(path: str, stack: ExitStack) -> str:
    """Return a copy of the database and its log. They are one state when neither changed
    meanwhile."""
    before = _state(path)
    if sum(size for size, _ in before) > MAX_COPIED:
        raise ReadError(
            path, "it is too large to be copied, and cannot be read in place; start the agent once"
        )
    copy = os.path.join(stack.enter_context(TemporaryDirectory(prefix="runlore-")), "copy.db")
    for suffix in SUFFIXES:
        if os.path.exists(path + suffix):
            shutil.copyfile(path + suffix, copy + suffix)
    if before != _state(path):
        raise ReadError(path, f"it was written to while it was read; {AGAIN}")
    return copy


def _state(path: str) -> list[tuple[int, int]]:
    found = [_stat(path + suffix) for suffix in SUFFIXES]
    return [(stat.st_size, stat.st_mtime_ns) if stat else (0, 0) for stat in found]


def _has_log(path: str) -> bool:
    """Return True if the header says that the database writes to a log."""
    with open(path, "rb") as file:
        return file.read(20)[18:20] == b"\x02\x02"


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def up_to_limit(db: apsw.Connection, sessions: Iterable[T]) -> Iterator[T]:
    """Yield the sessions of a database. Raises Rejected if they are more than fit into it."""
    path = db.db_filename("main")
    size = sum(size for size, _ in _state(path))
    max_sessions = max(MAX_SMALL_SESSIONS, size // MIN_SESSION_BYTES)
    for count, session in enumerate(sessions, 1):
        if count > max_sessions:
            raise Rejected(path, f"more than {max_sessions:,} sessions are too many for its size")
        yield session


def is_passing(error: ReadError) -> bool:
    """Return True if the database could not be read only just now."""
    return error.reason.endswith(AGAIN)


def columns(db: apsw.Connection, table: str) -> list[str]:
    """Return the columns of a table, none when there is no such table. Older versions of an agent
    have fewer."""
    return [row[1] for row in db.execute(f"pragma table_info({_quoted(table)})")]


def rows(
    db: apsw.Connection, table: str, where: str = "", bindings: tuple[Any, ...] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as plain data, `rowid` first. Bytes of a text that are not UTF-8
    become U+FFFD."""
    names = columns(db, table)
    if not names:
        return
    chosen = ", ".join(
        f"iif(typeof({_quoted(name)}) = 'text', cast({_quoted(name)} as blob), {_quoted(name)})"
        for name in names
    )
    kinds = ", ".join(f"typeof({_quoted(name)})" for name in names)
    for values in db.execute(
        f"select rowid, {chosen}, {kinds} from {_quoted(table)} {where}", bindings
    ):
        row: dict[str, Any] = {"rowid": values[0]}
        for n, name in enumerate(names, 1):
            row[name] = _plain(values[n], values[n + len(names)])
        yield row


def text_or_none(value: Any) -> Any:
    """Return what a column cast to a blob held; None for a text that is not UTF-8."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return None


def _plain(value: Any, kind: str) -> Any:
    if kind == "text":
        return value.decode("utf-8", "replace")
    return f"[{len(value)} bytes]" if kind == "blob" else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def as_record(row: Mapping[str, Any], json_columns: Mapping[str, str]) -> tuple[bytes, str | None]:
    """A row as one JSON object, and what is wrong with it if anything.

    Columns that hold JSON themselves stand in it as what they are, under the name given for them,
    and not as text in text: only so does redaction see what they say. One that is no JSON stays a
    text under its own name.
    """
    size = sum(len(value) for value in row.values() if isinstance(value, str))
    if size > MAX_RECORD_BYTES:
        short = {
            name: value[:1000] if isinstance(value, str) else value for name, value in row.items()
        }
        return msgspec.json.encode(short), f"too long ({size >> 20} MB)"
    out: dict[str, Any] = {}
    for name, value in row.items():
        inner = json_columns.get(name)
        try:
            if inner is None or not isinstance(value, str) or has_too_many_values(value):
                out[name] = value
            else:
                out[inner] = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            out[name] = value
    try:
        return msgspec.json.encode(out), None
    except (RecursionError, OverflowError, ValueError):
        return msgspec.json.encode(
            {name: value for name, value in row.items() if isinstance(value, str | int)}
        ), None
