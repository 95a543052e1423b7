"""A folder of sessions: see `LogBackend`."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ...errors import Conflict, LogError, SessionNotFound
from ...files.locks import sync_folder
from ...model import LogRecord
from ..backend import Durability, Listener, Look, SessionInfo
from ..names import id_of, name_of
from .blobs import FOLDER as BLOBS
from .copies import link_blobs, remove_abandoned, write_log
from .index import Index
from .log_reader import LOG
from .session_log import FolderLog

TRASH = ".trash"
MAKING = ".making"


class FolderBackend:
    """Each session is a folder, with one log in it."""

    def __init__(self, path: Path, durability: Durability, lock_timeout_s: float) -> None:
        self.path = path
        self.name = str(path)
        self._durability: Durability = durability
        self._lock_timeout_s = lock_timeout_s
        self._index = Index(path)

    def log(self, id: str, listener: Listener) -> FolderLog:
        return FolderLog(
            self.folder_of(id), listener, self._durability, self._lock_timeout_s, self._make_folder
        )

    def folder_of(self, id: str) -> Path:
        return self.path / name_of(id)

    def creating(self) -> AbstractContextManager[Callable[[SessionInfo, int], None]]:
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._durability == "power":
                sync_folder(self.path.parent)
        return self._index.creating()

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
        if not self.path.is_dir():
            return []
        return self._index.list(
            look, cwd=cwd, status=status, agent=agent, where=where, limit=limit, offset=offset
        )

    def update(self, info: SessionInfo, end: int) -> None:
        self._index.update(info, end)

    def copy(self, source: str, target: str, records: Iterable[LogRecord]) -> None:
        place = self.folder_of(target)
        draft = self.path / MAKING / f"{os.getpid()}-{os.urandom(4).hex()}"
        try:
            draft.mkdir(mode=0o700, parents=True)
            remove_abandoned(draft.parent)
            is_durable = self._durability == "power"
            write_log(draft, records, is_durable)
            link_blobs(self.folder_of(source) / BLOBS, draft / BLOBS, is_durable)
            self._move_in(draft, place)
        except OSError as error:
            raise LogError(f"{place}: {error.strerror}; no fork was made") from None
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def discard(self, id: str) -> None:
        trash = self.path / TRASH
        try:
            trash.mkdir(mode=0o700, exist_ok=True)
            folder = self.folder_of(id)
            folder.rename(trash / f"{folder.name}@{time.time_ns()}")
        except OSError as error:
            raise LogError(f"{id}: {error.strerror}; it was not deleted") from None
        self._index.drop(id)

    def trash(self) -> Sequence[str]:
        ids = [id_of(name.rpartition("@")[0]) for name in self._in_trash()]
        return [id for id in ids if id is not None]

    def restore(self, id: str) -> None:
        target = self.folder_of(id)
        name = next(
            (name for name in self._in_trash() if name.rpartition("@")[0] == target.name), None
        )
        if name is None:
            raise SessionNotFound(f"{id}: not in the trash")
        try:
            self._move_in(self.path / TRASH / name, target)
        except OSError as error:
            raise LogError(f"{id}: {error.strerror}; it was not restored") from None

    def empty_trash(self) -> int:
        names = self._in_trash()
        self._remove(names)
        return len(names)

    def purge(self, id: str) -> bool:
        name = name_of(id)
        trashed = [one for one in self._in_trash() if one.rpartition("@")[0] == name]
        self._remove(trashed)
        self._index.drop(id)
        self._index.scrub()
        return bool(trashed)

    def scrub(self) -> None:
        self._index.scrub()

    def reindex(self) -> None:
        self._index.forget()

    def close(self) -> None:
        self._index.close()

    def _make_folder(self, folder: Path) -> None:
        """Create the folder of a session. Raises Conflict when a session is there.

        A folder without a log was left by a crash during creation and is used.
        """
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            log = folder / LOG
            if folder.is_symlink() or not folder.is_dir() or (log.exists() and log.stat().st_size):
                raise Conflict(f"{id_of(folder.name)}: a session with this id exists") from None

    def _move_in(self, folder: Path, target: Path) -> None:
        """Move a folder to its place in the store. Raises Conflict when a session is there.

        An empty folder, left by a crash during creation, is replaced.
        """
        if (target / LOG).exists():
            raise Conflict(f"{id_of(target.name)}: a session with this id exists")
        folder.rename(target)
        if self._durability == "power":
            sync_folder(self.path)

    def _remove(self, names: Sequence[str]) -> None:
        """Remove these folders of the trash."""
        for name in names:
            path = self.path / TRASH / name
            try:
                shutil.rmtree(path)
            except OSError as error:
                raise LogError(f"{path}: {error.strerror}; it was not deleted") from None

    def _in_trash(self) -> Sequence[str]:
        try:
            names = os.listdir(self.path / TRASH)
        except FileNotFoundError:
            return []
        return sorted(names, key=lambda name: name.rpartition("@")[2], reverse=True)
