"""Backups of a SQLite store."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

from ...errors import StoreError
from .database import SqliteDatabase, translate_errors

BACKUP_PAGES = 1000
"""Number of 8 KB pages that are copied between two reports of progress."""

_SIDECARS = ("-wal", "-shm", "-journal")
"""The endings of files that SQLite may have next to a database."""


def backup(db: SqliteDatabase, path: Path, step: Callable[[int, int], None] | None = None) -> None:
    """Copy the store to a new file as of this moment. Raises StoreError.

    `step` is called with the number of copied pages, and the number of all pages.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        # In one snapshot, because otherwise every write of a sync would restart the copy.
        with (
            translate_errors(str(path)),
            db.snapshot(),
            closing(apsw.Connection(str(part))) as copy,
        ):
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
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        # The log of a database that was here before would be read as a part of the copy.
        for end in _SIDECARS:
            Path(f"{path}{end}").unlink(missing_ok=True)
        os.replace(part, path)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None
    finally:
        for name in (part, *(Path(f"{part}{end}") for end in _SIDECARS)):
            name.unlink(missing_ok=True)
