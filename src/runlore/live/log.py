"""A folder of sessions that agents write themselves: make, open, list, delete. What is in a
session, `session.py` knows."""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..config import load as load_config
from ..config import make_home
from ..errors import Conflict, InvalidId, LogError, SessionNotFound
from ..files.locks import sync_folder
from ._file import Durability
from ._index import Index, SessionInfo
from ._reader import LOG, Problem
from .liveness import Mark, Stale, recover, stale
from .session import Branch, LiveSession, Recovery

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
"""Of the log. A session whose first record names a later one is not opened for writing."""
RESERVED = frozenset(
    {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10))}
)
"""What Windows takes for a device, with any ending."""


class SessionStore:
    """Sessions in a folder. `durability`: what an append survives when it returns.

    `process`: the death of any process, kill -9 included. `power`: a loss of power as well; each
    append, or each group of appends made at once, waits for the disk.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, durability: Durability = "process"
    ) -> None:
        if durability not in ("process", "power"):
            raise LogError(f"durability {durability!r} must be 'process' or 'power'")
        if path is None:
            home = load_config().home
            make_home(home)
            path = home / "live"
        self.path = Path(path).expanduser().absolute()
        self.durability: Durability = durability
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
        id: str | None = None,
        **extra: Any,
    ) -> LiveSession:
        """Makes a session. Raises Conflict when the id is taken, InvalidId when it cannot be
        one."""
        session = self.draft(
            title,
            provider=provider,
            model=model,
            cwd=cwd,
            api_base=api_base,
            agent=agent,
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
        id: str | None = None,
        **extra: Any,
    ) -> LiveSession:
        """A session of which nothing is on disk until the first append. Titles come from the first
        text of the user otherwise."""
        if "version" in extra:
            raise LogError("version is the log's own word; give yours another name")
        about = {
            "title": title, "provider": provider, "model": model,
            "cwd": None if cwd is None else os.path.abspath(cwd),
            "api_base": api_base, "agent": agent, **extra,
        }  # fmt: skip
        first = {
            "version": FORMAT,
            **{name: value for name, value in about.items() if value is not None},
        }
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
        """Opens a session. Raises SessionNotFound.

        With `exclusive` nobody else can append until this handle is closed or its process ends;
        SessionBusy is raised, with the holder's name, when someone has it already, unless that name
        is given as `take_over`: their next append raises LeaseLost.
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
        """Opens a session, or gives a draft of it when there is none. Several may do so at once:
        all get the same session."""
        with suppress(SessionNotFound):
            session = self.open(id)
            if session.has_begun:
                return session
            session.close()
        session = self.draft(id=id, **about)
        session._joins = True
        return session

    def list(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        status: str | None = None,
        agent: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[SessionInfo]:
        """The sessions, newest first. From an index, which may be a second or two behind a session
        that is being written."""
        if not self.path.is_dir():
            return []
        place = None if cwd is None else os.path.abspath(cwd)
        return self._index.list(
            self._look, cwd=place, status=status, agent=agent, limit=limit, offset=offset
        )

    def latest(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        status: str | None = None,
        agent: str | None = None,
    ) -> SessionInfo | None:
        found = self.list(cwd=cwd, status=status, agent=agent, limit=1)
        return found[0] if found else None

    def delete(self, id: str) -> None:
        """Moves a session to the trash. Raises SessionNotFound, and SessionBusy when another
        process has it for itself."""
        with self.open(id) as session:
            session.record("deleted", {})  # Whoever has it open learns of it at the next append.
        trash = self.path / TRASH
        try:
            trash.mkdir(mode=0o700, exist_ok=True)
            session.path.rename(trash / f"{id}@{time.time_ns()}")
        except OSError as error:
            with self.open(id) as session:
                session.record("restored", {})
            raise LogError(f"{id}: {error.strerror}; it was not deleted") from None
        self._index.drop(id)

    def trash(self) -> Sequence[str]:
        """The ids in the trash, the last deleted first."""
        return [name.rpartition("@")[0] for name in self._in_trash()]

    def restore(self, id: str) -> LiveSession:
        """Brings the session back that was deleted last under this id. Raises SessionNotFound, or
        Conflict when the id is taken."""
        target = self.folder_of(id)
        name = next((name for name in self._in_trash() if name.rpartition("@")[0] == id), None)
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
        """Deletes for good what is in the trash; returns how many sessions that were."""
        names = self._in_trash()
        for name in names:
            try:
                shutil.rmtree(self.path / TRASH / name)
            except OSError as error:
                raise LogError(
                    f"{self.path / TRASH / name}: {error.strerror}; it was not deleted"
                ) from None
        return len(names)

    def stale(self) -> Sequence[Stale]:
        """The sessions that are said to be running and whose owner is not. Nothing is written."""
        return stale(self)

    def recover(self, mark: Mark = "failed") -> Sequence[Stale]:
        """Marks those of this machine whose owner died; one of another machine, or with a live
        owner, is left alone."""
        return recover(self, mark=mark)

    def reindex(self) -> None:
        """Makes the index anew. Never needed for being right: it is checked at each listing."""
        self._index.forget()
        self.list(limit=1)

    def close(self) -> None:
        """Closes the index. Sessions are closed by themselves."""
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
        """Where a session of this id lives. Raises InvalidId for anything that could lead out of
        the store."""
        if (
            not isinstance(id, str)
            or not _valid().match(id)
            or id.endswith(".")
            or id.partition(".")[0].lower() in RESERVED
        ):
            raise InvalidId(
                f"{str(id)[:80]!r} cannot name a session: use up to 128 letters, digits, '.', '_'"
                " and '-'"
            )
        return self.path / id

    def making(self) -> AbstractContextManager[Callable[[SessionInfo, int], None]]:
        """Around the making of a session, for the index."""
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.durability == "power":
                sync_folder(self.path.parent)
        return self._index.making()

    def make_folder(self, folder: Path) -> None:
        """Raises Conflict when a session is there. A folder without a log is what a crash in the
        making left: it is used."""
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            log = folder / LOG
            if folder.is_symlink() or not folder.is_dir() or (log.exists() and log.stat().st_size):
                raise Conflict(f"{folder.name}: a session with this id exists") from None

    def move_in(self, folder: Path, target: Path) -> None:
        """Raises Conflict when a session is there. An empty folder, which a crash in the making of
        one left, is replaced."""
        if (target / LOG).exists():
            raise Conflict(f"{target.name}: a session with this id exists")
        folder.rename(target)
        if self.durability == "power":
            sync_folder(self.path)

    def _look(self, id: str) -> tuple[SessionInfo, int] | None:
        """What a log says of itself, and up to which byte; None for a folder without one."""
        with suppress(LogError), self.open(id, readonly=True) as session:
            return session.meta, session.folded_bytes
        return None

    def _in_trash(self) -> Sequence[str]:
        try:
            names = os.listdir(self.path / TRASH)
        except FileNotFoundError:
            return []
        return sorted(names, key=lambda name: name.rpartition("@")[2], reverse=True)


@cache
def _valid() -> re.Pattern[str]:
    return re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
