"""The sessions that agents write themselves: create, open, list, delete.

The content of a session is the subject of `session.py`.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..config import load as load_config
from ..config import make_home
from ..errors import LogError, SessionNotFound
from . import codec
from .backend import LEASE_S, LOCK_TIMEOUT_S, Durability, LogBackend, Problem, SessionInfo
from .folder.backend import FolderBackend
from .latest import Branch
from .liveness import LOST_AFTER, Mark, Stale, recover, stale
from .names import name_of
from .session import LiveSession
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

FORMAT = 1
"""Version of the log format. A session whose first record names a later version is read-only."""


class SessionStore:
    """Sessions in a folder, or on a PostgreSQL server (`postgresql://USER@HOST/DATABASE`).

    `durability` says what an append survives when it returns. `process`: the death of any process,
    kill -9 included. `power`: a loss of power as well. Each append, or each group of concurrent
    appends, then waits for the disk. An append that waits for another process's append longer than
    `lock_timeout_s` raises SessionBusy.

    On a server every append waits for its commit (`power`), and the lease of a holder who is silent
    for `lease_s` is free for others.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        durability: Durability = "process",
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        lease_s: float = LEASE_S,
    ) -> None:
        if durability not in ("process", "power"):
            raise LogError(f"durability {durability!r} must be 'process' or 'power'")
        if path is None:
            home = load_config().home
            make_home(home)
            path = home / "live"
        self.backend = _backend_of(os.fspath(path), durability, lock_timeout_s, lease_s)
        is_folder = isinstance(self.backend, FolderBackend)
        self.durability: Durability = durability if is_folder else "power"

    @property
    def name(self) -> str:
        """What messages call this store. It has no password in it."""
        return self.backend.name

    @property
    def path(self) -> Path:
        """The folder of the sessions. Raises LogError if they are on a server."""
        return self.backend.path

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
        id = os.urandom(16).hex() if id is None else id
        self.check_id(id)
        return LiveSession(self, id, first=first)

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
        self.check_id(id)
        session = LiveSession(self, id, readonly=readonly)
        if not session.backend_log.exists():
            raise SessionNotFound(f"{id}: no such session in {self.name}")
        if not readonly and session.format > FORMAT:
            raise LogError(f"{id}: written by a newer runlore; it can be opened for reading only")
        if exclusive:
            if readonly:
                raise LogError(f"{id}: a session cannot be opened for reading only and exclusively")
            session.backend_log.lease.take(owner or f"{os.getpid()}@{platform.node()}", take_over)
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
        place = None if cwd is None else os.path.abspath(cwd)
        return self.backend.list(
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
        try:
            self.backend.discard(id)
        except LogError:
            with self.open(id) as session:
                session.record("restored", {})
            raise

    def trash(self) -> Sequence[str]:
        """Return the ids in the trash, the last deleted first."""
        return self.backend.trash()

    def restore(self, id: str) -> LiveSession:
        """Restore the session that was deleted last under this id.

        Raises SessionNotFound, or Conflict when the id is in use.
        """
        self.check_id(id)
        self.backend.restore(id)
        session = self.open(id)
        session.record("restored", {})
        return session

    def empty_trash(self) -> int:
        """Delete the sessions in the trash for good and return their number."""
        return self.backend.empty_trash()

    def purge(self, id: str) -> None:
        """Delete a session for good, with what the trash and the index have of it.

        Forks of it are sessions of their own and stay. Raises SessionNotFound.
        """
        is_there = True
        try:
            self.delete(id)
        except SessionNotFound:
            is_there = False
        if not self.backend.purge(id) and not is_there:
            raise SessionNotFound(f"{id}: no such session in {self.name}, nor in its trash")

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
        self.backend.reindex()
        self.list(limit=1)

    def close(self) -> None:
        """Close what the sessions share. They are closed separately."""
        self.backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def check_id(self, id: str) -> None:
        """Raise InvalidId for an id that could lead out of the store."""
        name_of(id)

    def _look(self, id: str) -> tuple[SessionInfo, int] | None:
        """Return the facts in a log and the position they count to, or None without a log."""
        with suppress(LogError), self.open(id, readonly=True) as session:
            return session.meta, session.folded_to
        return None


def _backend_of(
    address: str, durability: Durability, lock_timeout_s: float, lease_s: float
) -> LogBackend:
    """Return the backend with this address: a folder, unless it has the scheme of a server."""
    scheme = _scheme().match(address)
    if scheme is None:
        return FolderBackend(Path(address).expanduser().absolute(), durability, lock_timeout_s)
    if scheme[1] not in ("postgresql", "postgres"):
        # Without the rest, which may have a password.
        raise LogError(
            f"{scheme[1]}: is no kind of session store; give the path of a folder, or"
            " postgresql://USER@HOST/DATABASE"
        )
    try:
        from .postgres.backend import PostgresBackend
    except ImportError as error:
        if not (error.name or "psycopg").startswith("psycopg"):
            raise
        raise LogError(
            "sessions on a server need the extra `postgres`: `pip install 'runlore[postgres]'`"
        ) from None
    return PostgresBackend(address, lock_timeout_s, lease_s)


@cache
def _scheme() -> re.Pattern[str]:
    """Match the scheme of a URL. A letter alone is a drive of Windows."""
    return re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
