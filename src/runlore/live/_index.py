"""A table of sessions, so that listing them does not open each one. It can be deleted: the logs
know everything in it.

Telling it may fail (a full disk, a busy file, a damaged table, a killed writer) and costs nothing
then but time: what it missed is found by the next listing. It compares the folder's own time with
the one the table last saw, for sessions that came and went, and the size of each log that someone
has begun to write to with the size that was told.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw
import msgspec

from ..model import format_time
from ._reader import LOG

PLACE = ".index"
"""A folder of its own: what SQLite makes beside its file would change the time of the sessions'
folder."""
VERSION = 2
QUIET_S = 1.5
"""A log that was written to more recently has a writer who tells the table about once a second; its
row may wait for that."""
SETTLED_S = 60.0
"""One that was left for so long, and is as it was told, need not be looked at again."""
SCHEMA = """
create table sessions (
    id text primary key,
    cwd text,
    agent text,
    status text,
    updated_at text not null,
    info text not null,
    size_bytes integer not null,
    is_settled integer not null
) without rowid;
create index by_time on sessions (updated_at desc, id);
create index by_cwd on sessions (cwd, updated_at desc, id);
create index by_status on sessions (status, updated_at desc, id);
create index unsettled on sessions (id, size_bytes) where not is_settled;
create table seen (one integer primary key check (one = 1), folder_ns integer not null);
"""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is told of a session without reading its conversation."""

    id: str
    title: str
    provider: str | None = None
    model: str | None = None
    cwd: str | None = None
    api_base: str | None = None
    agent: str | None = None
    status: str | None = None
    created_at: datetime
    updated_at: datetime
    messages: int = 0
    seq: int = -1
    origin: dict[str, Any] | None = None
    message_format_version: int = 1
    extra: dict[str, Any] = {}


Look = Callable[[str], tuple[SessionInfo, int] | None]


class Index:
    """`look` in its methods says what a log says of itself, and up to which byte. It is not kept: a
    store and its index would hold on to each other."""

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
        limit: int | None,
        offset: int,
    ) -> list[SessionInfo]:
        """Newest first. Reads the logs that the table does not know yet; without a table that can
        be written, all of them."""
        wanted = {"cwd": cwd, "status": status, "agent": agent}
        for _ in range(2):
            with self._ours():
                try:
                    self._refresh(look)
                    return [*self._select(wanted, limit, offset)]
                except (apsw.Error, OSError, ValueError):
                    self.forget()
        found = [
            seen[0]
            for name in names(self._folder)
            if (seen := look(name)) and _fits(seen[0], wanted)
        ]
        found.sort(key=lambda info: (info.updated_at, info.id), reverse=True)
        return found[offset : None if limit is None else offset + limit]

    def tell(self, info: SessionInfo, size_bytes: int, *, is_settled: bool = False) -> None:
        """What a log says of itself up to a byte. `is_settled`: nobody is known to write to it any
        more."""
        with suppress(apsw.Error, OSError), self._ours():
            self._put(self._open(), info, size_bytes, is_settled)

    def announce(self, id: str) -> None:
        """Somebody is about to write to the log. Whatever becomes of them, the next listing has a
        look at it."""
        with suppress(apsw.Error, OSError), self._ours():
            self._open().execute("update sessions set is_settled = 0 where id = ?", (id,))

    @contextmanager
    def making(self) -> Iterator[Callable[[SessionInfo, int], None]]:
        """Around the making of a folder: when the table knew all folders before, it does so
        after."""
        with self._ours(), self._making() as tell:
            yield tell

    @contextmanager
    def _making(self) -> Iterator[Callable[[SessionInfo, int], None]]:
        try:
            db = self._open()
            db.execute("begin immediate")
            is_current = self._seen(db) == self._folder_ns()
        except (apsw.Error, OSError):
            yield lambda _info, _size_bytes: None
            return
        told: list[tuple[SessionInfo, int]] = []
        try:
            yield lambda info, size_bytes: told.append((info, size_bytes))
        except BaseException:
            with suppress(apsw.Error):
                db.execute("rollback")
            raise
        with suppress(apsw.Error, OSError):
            for info, size_bytes in told:
                self._put(db, info, size_bytes, False)
            if is_current:
                self._see(db, self._folder_ns())
            db.execute("commit")

    def drop(self, id: str) -> None:
        with suppress(apsw.Error, OSError), self._ours():
            self._open().execute("delete from sessions where id = ?", (id,))

    def forget(self) -> None:
        """Deletes the table. The next listing makes it anew."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{self._path}{suffix}")

    def close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(apsw.Error):
                db.close()

    def _ours(self) -> threading.RLock:
        """The lock of this process: in the child of a fork the parent's may be held, and its
        connection must be left alone."""
        if self._pid != os.getpid():
            _INHERITED.append(self._db)  # Not even closed.
            self._pid, self._db, self._lock = os.getpid(), None, threading.RLock()
        return self._lock

    def _open(self) -> apsw.Connection:
        inode = self._inode()
        # A deleted table is not written to.
        if self._db is not None and inode is not None and inode == self._opened:
            return self._db
        self.close()
        if inode is None:
            self.forget()  # What SQLite left beside a deleted table is not for the next one.
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600))
        db = apsw.Connection(str(self._path))
        db.set_busy_timeout(2000)
        db.pragma("journal_mode", "wal")
        # Whatever a loss of power does to it, it can be made again.
        db.pragma("synchronous", "off")
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
        if db.pragma("user_version") != VERSION:  # Another process may have been quicker.
            for name in ("sessions", "seen"):
                db.execute(f"drop table if exists {name}")
            db.execute(SCHEMA)
            db.pragma("user_version", VERSION)
        db.execute("commit")

    def _refresh(self, look: Look) -> None:
        """Adds the sessions whose folders appeared unseen, drops those whose folders are gone, and
        looks at those that went on untold."""
        db, now_ns = self._open(), self._folder_ns()
        self._settle(db, look)
        if self._seen(db) == now_ns:
            return
        there = set(names(self._folder))
        known = {id for (id,) in db.execute("select id from sessions")}
        found = [seen for name in sorted(there - known) if (seen := look(name))]
        db.execute("begin immediate")
        try:
            for info, size_bytes in found:
                self._put(db, info, size_bytes, self._is_left(info.id))
            db.executemany("delete from sessions where id = ?", [(id,) for id in known - there])
            self._see(db, now_ns)
        except BaseException:
            db.execute("rollback")
            raise
        db.execute("commit")

    def _settle(self, db: apsw.Connection, look: Look) -> None:
        """Those that are not settled: what their writers told is compared with what is there."""
        for id, told in list(
            db.execute("select id, size_bytes from sessions where not is_settled")
        ):
            try:
                found = os.stat(self._folder / id / LOG)
            except OSError:  # It is gone, which the folder's time tells.
                continue
            quiet_s = time.time() - found.st_mtime
            if found.st_size != told and not 0 <= quiet_s < QUIET_S and (seen := look(id)):
                self._put(db, *seen, False)
            elif found.st_size == told and quiet_s > SETTLED_S:
                db.execute(
                    "update sessions set is_settled = 1 where id = ? and size_bytes = ?", (id, told)
                )

    def _is_left(self, id: str) -> bool:
        """Whether nobody has written to a log for some time."""
        try:
            return time.time() - os.stat(self._folder / id / LOG).st_mtime > SETTLED_S
        except OSError:
            return False

    def _select(
        self, wanted: dict[str, str | None], limit: int | None, offset: int
    ) -> Sequence[SessionInfo]:
        where = " and ".join(
            f"{name} = :{name}" for name, value in wanted.items() if value is not None
        )
        rows = self._open().execute(
            f"select info from sessions {'where ' + where if where else ''} order by updated_at"
            " desc, id limit :limit offset :offset",
            {
                **{name: _clean(value) for name, value in wanted.items()},
                "limit": -1 if limit is None else limit,
                "offset": offset,
            },
        )
        return [msgspec.json.decode(info, type=SessionInfo) for (info,) in rows]

    def _put(
        self, db: apsw.Connection, info: SessionInfo, size_bytes: int, is_settled: bool
    ) -> None:
        text = json.dumps(msgspec.to_builtins(info, str_keys=True), ensure_ascii=False)
        facts = (
            *map(_clean, (info.cwd, info.agent, info.status)),
            format_time(info.updated_at),
            _clean(text),
        )
        db.execute(
            "insert or replace into sessions values (?, ?, ?, ?, ?, ?, ?, ?)",
            (info.id, *facts, size_bytes, is_settled),
        )

    def _seen(self, db: apsw.Connection) -> int | None:
        row = db.execute("select folder_ns from seen").fetchone()
        return int(row[0]) if row else None

    def _see(self, db: apsw.Connection, folder_ns: int) -> None:
        db.execute("insert or replace into seen values (1, ?)", (folder_ns,))

    def _folder_ns(self) -> int:
        return os.stat(self._folder).st_mtime_ns


def names(folder: Path) -> Iterator[str]:
    """The folders that may be sessions. Those of our own begin with a dot."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                yield entry.name


_INHERITED: list[apsw.Connection | None] = []


def _clean(text: str | None) -> str | None:
    """Without halves of surrogate pairs, which no database takes: a folder's name may have some."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _fits(info: SessionInfo, wanted: dict[str, str | None]) -> bool:
    return all(value is None or getattr(info, name) == value for name, value in wanted.items())
