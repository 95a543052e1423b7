"""A table of sessions, so that listing them does not open each one.

It can be deleted: the logs hold everything in it. An update may fail (full disk, busy file, damaged
table, killed writer) and costs only time then: the next listing finds what was missed. The listing
compares the modification time of the folder with the recorded one, which reveals new and deleted
sessions. It compares the size of each log with the recorded size, so whoever wrote, and however
recently, is listed as the log is.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import msgspec

from ...model import format_time
from ..backend import FIELDS, Look, SessionInfo, check_comparable, has_facts
from ..names import SHARED, id_of, name_of
from .log_reader import LOG

PLACE = ".index"
"""The index has its own folder: the files that SQLite creates beside it would change the
modification time of the sessions' folder."""
VERSION = 4
SCHEMA = """
create table sessions (
    id text primary key,
    cwd text,
    agent text,
    status text,
    updated_at text not null,
    info text not null,
    size_bytes integer not null
) without rowid;
create index by_time on sessions (updated_at desc, id);
create index by_cwd on sessions (cwd, updated_at desc, id);
create index by_status on sessions (status, updated_at desc, id);
create index by_size on sessions (id, size_bytes);
create table seen (one integer primary key check (one = 1), folder_ns integer not null);
"""


class Index:
    """The table.

    `look` is passed to each method and returns the facts in a log with the bytes they cover. It is
    not stored: the store and its index would refer to each other.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / PLACE / "index.db"
        self._db: apsw.Connection | None = None
        self._opened: int | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()

    def list(
        self,
        look: Look,
        *,
        cwd: str | None,
        status: str | None,
        agent: str | None,
        where: Mapping[str, Any] | None,
        limit: int | None,
        offset: int,
    ) -> list[SessionInfo]:
        """Return the sessions, newest first.

        Reads the logs that the table does not have yet; all of them when it cannot be written.
        """
        wanted = {"cwd": cwd, "status": status, "agent": agent}
        also = dict(where or {})
        check_comparable(also)
        for _ in range(2):
            with self._own_lock():
                try:
                    self._refresh(look)
                    return [*self._select(wanted, also, limit, offset)]
                except (apsw.Error, OSError, ValueError):
                    self.forget()
        sessions = [
            facts[0]
            for id in session_ids(self._folder)
            if (facts := look(id)) and _matches(facts[0], wanted, also)
        ]
        sessions.sort(key=lambda info: (info.updated_at, info.id), reverse=True)
        return sessions[offset : None if limit is None else offset + limit]

    def update(self, info: SessionInfo, size_bytes: int) -> None:
        """Store the facts of a log up to a byte."""
        with suppress(apsw.Error, OSError), self._own_lock():
            self._put(self._open(), info, size_bytes)

    @contextmanager
    def creating(self) -> Iterator[Callable[[SessionInfo, int], None]]:
        """Keep the table current while a session folder is created."""
        with self._own_lock(), self._creating() as add:
            yield add

    @contextmanager
    def _creating(self) -> Iterator[Callable[[SessionInfo, int], None]]:
        try:
            db = self._open()
            db.execute("begin immediate")
            is_current = self._recorded_folder_ns(db) == self._folder_ns()
        except (apsw.Error, OSError):
            yield lambda _info, _size_bytes: None
            return
        added: list[tuple[SessionInfo, int]] = []
        try:
            yield lambda info, size_bytes: added.append((info, size_bytes))
        except BaseException:
            with suppress(apsw.Error):
                db.execute("rollback")
            raise
        with suppress(apsw.Error, OSError):
            for info, size_bytes in added:
                self._put(db, info, size_bytes)
            if is_current:
                self._record_folder_ns(db, self._folder_ns())
            db.execute("commit")

    def drop(self, id: str) -> None:
        with suppress(apsw.Error, OSError), self._own_lock():
            self._open().execute("delete from sessions where id = ?", (id,))

    def scrub(self) -> None:
        """Leave no trace of what rows held before: not in free pages, not in the WAL."""
        with self._own_lock():
            try:
                busy = self._open().execute("pragma wal_checkpoint(truncate)").fetchone()
            except (apsw.Error, OSError):
                busy = (1,)
            if busy is None or busy[0]:  # Someone reads it: it is made anew.
                self.forget()

    def forget(self) -> None:
        """Delete the table. The next listing rebuilds it."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{self._path}{suffix}")

    def close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(apsw.Error):
                db.close()

    def _own_lock(self) -> threading.RLock:
        """Return the lock of this process.

        In the child of a fork the parent's lock may be held, and its connection must not be used.
        """
        if self._pid != os.getpid():
            _INHERITED.append(self._db)  # Closing it would disturb the parent.
            self._pid, self._db, self._lock = os.getpid(), None, threading.RLock()
        return self._lock

    def _open(self) -> apsw.Connection:
        inode = self._inode()
        # A deleted table is not written to.
        if self._db is not None and inode is not None and inode == self._opened:
            return self._db
        self.close()
        if inode is None:
            self.forget()  # Files that SQLite left beside a deleted table do not fit the next one.
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600))
        db = apsw.Connection(str(self._path))
        db.set_busy_timeout(2000)
        db.pragma("journal_mode", "wal")
        # A loss of power may damage it: it can be rebuilt.
        db.pragma("synchronous", "off")
        db.pragma("secure_delete", "on")
        if db.pragma("user_version") != VERSION:
            self._make(db)
        self._db, self._opened = db, self._inode()
        return db

    def _inode(self) -> int | None:
        try:
            return os.stat(self._path).st_ino
        except FileNotFoundError:
            return None

    def _make(self, db: apsw.Connection) -> None:
        db.execute("begin immediate")
        if db.pragma("user_version") != VERSION:  # Another process may have been first.
            for name in ("sessions", "seen"):
                db.execute(f"drop table if exists {name}")
            db.execute(SCHEMA)
            db.pragma("user_version", VERSION)
        db.execute("commit")

    def _refresh(self, look: Look) -> None:
        """Add sessions with new folders, remove those without one, and update those that
        changed."""
        db, now_ns = self._open(), self._folder_ns()
        self._update_changed(db, look)
        if self._recorded_folder_ns(db) == now_ns:
            return
        there = set(session_ids(self._folder))
        known = {id for (id,) in db.execute("select id from sessions")}
        new = [facts for id in sorted(there - known) if (facts := look(id))]
        db.execute("begin immediate")
        try:
            for info, size_bytes in new:
                self._put(db, info, size_bytes)
            db.executemany("delete from sessions where id = ?", [(id,) for id in known - there])
            self._record_folder_ns(db, now_ns)
        except BaseException:
            db.execute("rollback")
            raise
        db.execute("commit")

    def _update_changed(self, db: apsw.Connection, look: Look) -> None:
        """Read the logs that are longer or shorter than recorded."""
        folder = os.fspath(self._folder)
        rows: list[Any] = db.execute("select id, size_bytes from sessions").fetchall()
        for id, recorded_bytes in rows:
            try:
                size_bytes = os.stat(f"{folder}/{name_of(id)}/{LOG}").st_size
            except OSError:  # It was deleted; the folder's time shows that.
                continue
            if size_bytes != recorded_bytes and (facts := look(id)):
                self._put(db, *facts)

    def _select(
        self,
        wanted: dict[str, str | None],
        also: dict[str, Any],
        limit: int | None,
        offset: int,
    ) -> Sequence[SessionInfo]:
        conditions = [f"id not like '{SHARED}%'"]
        conditions += [f"{name} = :{name}" for name, value in wanted.items() if value is not None]
        values: dict[str, Any] = {name: _clean(value) for name, value in wanted.items()}
        for n, (name, value) in enumerate(also.items()):
            conditions.append(f"json_extract(info, :path{n}) is :value{n}")
            values[f"path{n}"] = f"$.{name}" if name in FIELDS else f'$.extra."{name}"'
            values[f"value{n}"] = _clean(value) if isinstance(value, str) else value
        rows = self._open().execute(
            f"select info from sessions where {' and '.join(conditions)}"
            " order by updated_at desc, id limit :limit offset :offset",
            {**values, "limit": -1 if limit is None else limit, "offset": offset},
        )
        return [msgspec.json.decode(info, type=SessionInfo) for (info,) in rows]

    def _put(self, db: apsw.Connection, info: SessionInfo, size_bytes: int) -> None:
        text = json.dumps(msgspec.to_builtins(info, str_keys=True), ensure_ascii=False)
        facts = (
            *map(_clean, (info.cwd, info.agent, info.status)),
            format_time(info.updated_at),
            _clean(text),
        )
        db.execute(
            "insert or replace into sessions values (?, ?, ?, ?, ?, ?, ?)",
            (info.id, *facts, size_bytes),
        )

    def _recorded_folder_ns(self, db: apsw.Connection) -> int | None:
        row = db.execute("select folder_ns from seen").fetchone()
        return int(row[0]) if row else None

    def _record_folder_ns(self, db: apsw.Connection, folder_ns: int) -> None:
        db.execute("insert or replace into seen values (1, ?)", (folder_ns,))

    def _folder_ns(self) -> int:
        return os.stat(self._folder).st_mtime_ns


def session_ids(folder: Path) -> Iterator[str]:
    """Yield the ids of the folders that may be sessions. Names that begin with a dot are our
    own."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                id = id_of(entry.name)
                if id is not None:
                    yield id


_INHERITED: list[apsw.Connection | None] = []


def _clean(text: str | None) -> str | None:
    """Replace lone surrogates, which no database accepts. A folder's name may have some."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _matches(info: SessionInfo, wanted: dict[str, str | None], also: dict[str, Any]) -> bool:
    return (
        not info.id.startswith(SHARED)
        and all(value is None or getattr(info, name) == value for name, value in wanted.items())
        and has_facts(info, also)
    )
