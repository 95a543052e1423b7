"""A folder of sessions that agents write themselves: create, open, list, delete.

The content of a session is the subject of `session.py`.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..config import load as load_config
from ..config import make_home
from ..errors import Conflict, LogError, SessionNotFound
from ..files.locks import sync_folder
from . import codec
from .handle import LOCK_TIMEOUT_S
from .index import Index, SessionInfo
from .liveness import LOST_AFTER, Mark, Stale, recover, stale
from .log_file import Durability
from .log_reader import LOG, Problem
from .names import id_of, name_of
from .session import Branch, LiveSession
from .shared import SharedValues, shared_id
from .tool_calls import Recovery

__all__ = [
    "Branch",
    "Durability",
    "LiveSession",
    "Problem",
    "Recovery",
    "SessionInfo",
    "SessionStore",
]

TRASH = ".trash"
FORMAT = 1
"""Version of the log format. A session whose first record names a later version is read-only."""


class SessionStore:
    """Sessions in a folder.

    `durability` says what an append survives when it returns. `process`: the death of any process,
    kill -9 included. `power`: a loss of power as well. Each append, or each group of concurrent
    appends, then waits for the disk. An append that waits for another process's append longer than
    `lock_timeout_s` raises SessionBusy.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        durability: Durability = "process",
        lock_timeout_s: float = LOCK_TIMEOUT_S,
    ) -> None:
        if durability not in ("process", "power"):
            raise LogError(f"durability {durability!r} must be 'process' or 'power'")
        if scheme := _scheme().match(os.fspath(path) if path is not None else ""):
            raise LogError(f"{scheme[1]}: is no kind of session store; give the path of a folder")
        if path is None:
            home = load_config().home
            make_home(home)
            path = home / "live"
        self.path = Path(path).expanduser().absolute()
        self.durability: Durability = durability
        self.lock_timeout_s = lock_timeout_s
        self._index = Index(self.path)

    def create(
        self,
        title: str | None = None,
        *,
        provider: str | None = None,
        model: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        api_base: str | None = None,
        agent: str | None = None,
        parent: str | None = None,
        call: str | None = None,
        id: str | None = None,
        **extra: Any,
    ) -> LiveSession:
        """Create a session.

        That of a subagent names its `parent` session and the tool `call` that started it. Raises
        Conflict when the id is in use, InvalidId when it is not valid.
        """
        session = self.draft(
            title,
            provider=provider,
            model=model,
            cwd=cwd,
            api_base=api_base,
            agent=agent,
            parent=parent,
            call=call,
            id=id,
            **extra,
        )
        session._begin([], None)
        return session

    def draft(
        self,
        title: str | None = None,
        *,
        provider: str | None = None,
        model: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        api_base: str | None = None,
        agent: str | None = None,
        parent: str | None = None,
        call: str | None = None,
        id: str | None = None,
        **extra: Any,
    ) -> LiveSession:
        """Return a session of which nothing is on disk until the first append.

        Without a title, the first text of the user becomes the title.
        """
        if "version" in extra:
            raise LogError("version is the log's own word; give yours another name")
        about = {
            "title": title, "provider": provider, "model": model,
            "cwd": None if cwd is None else os.path.abspath(cwd),
            "api_base": api_base, "agent": agent, "parent": parent, "call": call, **extra,
        }  # fmt: skip
        first = {
            "version": FORMAT,
            **{name: value for name, value in about.items() if value is not None},
        }
        codec.check_plain(first)
        return LiveSession(
            self, self.folder_of(os.urandom(16).hex() if id is None else id), first=first
        )

    def open(
        self,
        id: str,
        *,
        exclusive: bool = False,
        readonly: bool = False,
        owner: str | None = None,
        take_over: str | None = None,
    ) -> LiveSession:
        """Open a session. Raises SessionNotFound.

        With `exclusive` nobody else can append until this handle is closed or its process ends. If
        someone holds the session already, SessionBusy is raised with the holder's name. When that
        name is given as `take_over`, the lease is taken from them and their next append raises
        LeaseLost.
        """
        folder = self.folder_of(id)
        if folder.is_symlink() or not (folder / LOG).is_file():
            raise SessionNotFound(f"{id}: no such session in {self.path}")
        session = LiveSession(self, folder, readonly=readonly)
        if not readonly and session.format > FORMAT:
            raise LogError(f"{id}: written by a newer runlore; it can be opened for reading only")
        if exclusive:
            if readonly:
                raise LogError(f"{id}: a session cannot be opened for reading only and exclusively")
            session._lease.take(owner or f"{os.getpid()}@{platform.node()}", take_over)
        return session

    def ensure(self, id: str, **about: Any) -> LiveSession:
        """Open a session, or return a draft of it when it does not exist.

        Several processes may do this at once: all get the same session.
        """
        with suppress(SessionNotFound):
            session = self.open(id)
            if session.has_begun:
                return session
            session.close()
        session = self.draft(id=id, **about)
        session._joins = True
        return session

    def shared(self, scope: str) -> SharedValues:
        """Return the values that the sessions of a scope share, such as `app:weather`.

        See `LiveSession.put_values`.
        """
        return SharedValues(self.ensure(shared_id(scope)))

    def list(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        status: str | None = None,
        agent: str | None = None,
        where: Mapping[str, Any] | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[SessionInfo]:
        """Return the sessions, newest first.

        `where` compares what `create` and `update_meta` were given, by name; with None, what was
        not given. The sessions come from an index. A log that has grown since, whoever wrote it, is
        read first.
        """
        if not self.path.is_dir():
            return []
        place = None if cwd is None else os.path.abspath(cwd)
        return self._index.list(
            self._look, cwd=place, status=status, agent=agent, where=where,
            limit=limit, offset=offset,
        )  # fmt: skip

    def latest(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        status: str | None = None,
        agent: str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> SessionInfo | None:
        sessions = self.list(cwd=cwd, status=status, agent=agent, where=where, limit=1)
        return sessions[0] if sessions else None

    def delete(self, id: str) -> None:
        """Move a session to the trash.

        Raises SessionNotFound, and SessionBusy when another process holds it exclusively.
        """
        with self.open(id) as session:
            session.record("deleted", {})  # Open handles learn of it at their next append.
        trash = self.path / TRASH
        try:
            trash.mkdir(mode=0o700, exist_ok=True)
            session.path.rename(trash / f"{session.path.name}@{time.time_ns()}")
        except OSError as error:
            with self.open(id) as session:
                session.record("restored", {})
            raise LogError(f"{id}: {error.strerror}; it was not deleted") from None
        self._index.drop(id)

    def trash(self) -> Sequence[str]:
        """Return the ids in the trash, the last deleted first."""
        ids = [id_of(name.rpartition("@")[0]) for name in self._in_trash()]
        return [id for id in ids if id is not None]

    def restore(self, id: str) -> LiveSession:
        """Restore the session that was deleted last under this id.

        Raises SessionNotFound, or Conflict when the id is in use.
        """
        target = self.folder_of(id)
        name = next(
            (name for name in self._in_trash() if name.rpartition("@")[0] == target.name), None
        )
        if name is None:
            raise SessionNotFound(f"{id}: not in the trash")
        try:
            self.move_in(self.path / TRASH / name, target)
        except OSError as error:
            raise LogError(f"{id}: {error.strerror}; it was not restored") from None
        session = self.open(id)
        session.record("restored", {})
        return session

    def empty_trash(self) -> int:
        """Delete the sessions in the trash for good and return their number."""
        names = self._in_trash()
        self._remove(names)
        return len(names)

    def purge(self, id: str) -> None:
        """Delete a session for good, with what the trash and the index have of it.

        Forks of it are sessions of their own and stay. Raises SessionNotFound.
        """
        name = self.folder_of(id).name
        is_there = True
        try:
            self.delete(id)
        except SessionNotFound:
            is_there = False
        trashed = [one for one in self._in_trash() if one.rpartition("@")[0] == name]
        if not (is_there or trashed):
            raise SessionNotFound(f"{id}: no such session in {self.path}, nor in its trash")
        self._remove(trashed)
        self._index.drop(id)
        self._index.scrub()

    def stale(self) -> Sequence[Stale]:
        """Return the sessions that are marked as running although their owner is not.

        Writes nothing.
        """
        return stale(self)

    def recover(
        self, mark: Mark = "failed", *, lost_after: timedelta | None = LOST_AFTER
    ) -> Sequence[Stale]:
        """Mark the sessions whose owner died.

        A run of another machine counts as dead when its last heartbeat is older than `lost_after`;
        never with None.
        """
        return recover(self, mark=mark, lost_after=lost_after)

    def reindex(self) -> None:
        """Rebuild the index. Correctness does not need it: the index is checked at each listing."""
        self._index.forget()
        self.list(limit=1)

    def close(self) -> None:
        """Close the index. Sessions are closed separately."""
        self._index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def folder_of(self, id: str) -> Path:
        """Return the folder of a session.

        Raises InvalidId for an id that could lead out of the store.
        """
        return self.path / name_of(id)

    def creating(self) -> AbstractContextManager[Callable[[SessionInfo, int], None]]:
        """Return a context manager for the creation of a session, which keeps the index current."""
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.durability == "power":
                sync_folder(self.path.parent)
        return self._index.creating()

    def make_folder(self, folder: Path) -> None:
        """Create the folder of a session. Raises Conflict when a session is there.

        A folder without a log was left by a crash during creation and is used.
        """
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            log = folder / LOG
            if folder.is_symlink() or not folder.is_dir() or (log.exists() and log.stat().st_size):
                raise Conflict(f"{id_of(folder.name)}: a session with this id exists") from None

    def move_in(self, folder: Path, target: Path) -> None:
        """Move a folder to its place in the store. Raises Conflict when a session is there.

        An empty folder, left by a crash during creation, is replaced.
        """
        if (target / LOG).exists():
            raise Conflict(f"{id_of(target.name)}: a session with this id exists")
        folder.rename(target)
        if self.durability == "power":
            sync_folder(self.path)

    def _look(self, id: str) -> tuple[SessionInfo, int] | None:
        """Return the facts in a log and the number of bytes they cover, or None without a log."""
        with suppress(LogError), self.open(id, readonly=True) as session:
            return session.meta, session.folded_bytes
        return None

    def _remove(self, names: Sequence[str]) -> None:
        """Remove these folders of the trash."""
        for name in names:
            try:
                shutil.rmtree(self.path / TRASH / name)
            except OSError as error:
                raise LogError(
                    f"{self.path / TRASH / name}: {error.strerror}; it was not deleted"
                ) from None

    def _in_trash(self) -> Sequence[str]:
        try:
            names = os.listdir(self.path / TRASH)
        except FileNotFoundError:
            return []
        return sorted(names, key=lambda name: name.rpartition("@")[2], reverse=True)


@cache
def _scheme() -> re.Pattern[str]:
    """Match the scheme of a URL. A letter alone is a drive of Windows."""
    return re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
