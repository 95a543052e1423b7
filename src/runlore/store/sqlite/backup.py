"""Backups of a SQLite store."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import apsw

from ...errors import StoreError
from .database import SqliteDatabase, translate_errors

BACKUP_PAGES = 1000
"""Number of 8 KB pages that are copied between two reports of progress."""

_SIDECARS = ("-wal", "-shm", "-journal")
"""The endings of files that SQLite may have next to a database."""

_PART = ".runlore-backup"
"""The beginning of the name of a backup that is not complete yet."""


def backup(db: SqliteDatabase, path: Path, step: Callable[[int, int], None] | None = None) -> None:
    """Copy the store to a new file as of this moment. Raises StoreError.

    `step` is called with the number of copied pages, and the number of all pages.
    """
    # In one snapshot, because otherwise every write of a sync would restart the copy.
    with new_backup(path) as part, translate_errors(str(path)), db.snapshot():
        with closing(apsw.Connection(str(part))) as copy:
            with copy.backup("main", db.connection, "main") as work:
                while not work.done:
                    work.step(BACKUP_PAGES)
                    if step is not None:
                        step(work.page_count - work.remaining, work.page_count)
            wrong = [text for (text,) in copy.execute("pragma quick_check") if text != "ok"]
        if wrong:
            raise StoreError(
                f"{path}: the copy is damaged ({wrong[0].splitlines()[0]}); run `runlore"
                " doctor` on the store"
            )


@contextmanager
def new_backup(path: Path) -> Iterator[Path]:
    """Give a temporary name for a backup. When it is complete, it takes the place of `path`.

    Files that killed backups left in the folder are removed. Raises StoreError.
    """
    if path.exists() and not path.is_file():
        raise StoreError(f"{path}: is not a file")
    part = None
    try:
        _remove_abandoned(path.parent)
        name = f"{_own_prefix()}{os.getpid()}.{os.urandom(4).hex()}"
        os.close(os.open(path.parent / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        part = path.parent / name
        yield part
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        # The log of a database that was here before would be read as a part of the copy.
        _remove_files(path, _SIDECARS)
        os.replace(part, path)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None
    finally:
        if part is not None:
            _remove_files(part, ("", *_SIDECARS))


def _remove_abandoned(folder: Path) -> None:
    """Remove the parts that processes of this machine left in a folder when they were killed."""
    for file in folder.glob(f"{_own_prefix()}*"):
        pid = file.name.removeprefix(_own_prefix()).partition(".")[0]
        if pid.isdecimal() and not _is_running(int(pid)):
            with suppress(OSError):  # It may belong to someone else.
                file.unlink()


def _own_prefix() -> str:
    """Return how the names of this machine's parts begin. Other machines may share the folder."""
    return f"{_PART}.{socket.gethostname()}."


def _is_running(pid: int) -> bool:
    if os.name != "posix":
        return False  # Such a system does not let a file be removed that is open.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # It belongs to another user.
        return True
    return True


def _remove_files(path: Path, endings: Iterable[str]) -> None:
    for end in endings:
        Path(f"{path}{end}").unlink(missing_ok=True)
