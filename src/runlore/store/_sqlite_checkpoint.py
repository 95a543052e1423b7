"""Brings the log of a SQLite file into the file, beside what is being written.

SQLite does it at the end of a transaction that made the log long, and whoever commits waits for the disk: twice for each, while the workers
of a sync have nothing more to do.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import apsw

LONG = 1000
"""Pages. What SQLite itself takes for a long log."""

LONGEST = 2500
"""Pages, 20 MB. A log begins anew only when all of it is in the file and nothing is being written: where one transaction follows the
other it would grow as long as the file, and to delete 80 MB of it takes 24 ms. So from here on a commit waits, which helps unless a reader
holds on to what is in the log."""


@contextmanager
def checkpoints_beside(db: apsw.Connection, path: str) -> Iterator[None]:
    """While it is open, commits of `db` wait for no disk unless the log has become very long. What is in the log already is brought over
    too; what is then still in it, as it always is."""
    bell = threading.Event()
    is_busy = threading.Lock()
    is_over = False

    def look(_db: apsw.Connection, _name: str, pages: int) -> int:
        if pages >= LONGEST:
            bring_over()
        elif pages >= LONG:
            bell.set()
        return apsw.SQLITE_OK

    def bring_over() -> None:
        with is_busy, suppress(apsw.Error):  # A full disk, say: it is all in the log, and the next commit says so.
            own.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def serve() -> None:
        while bell.wait():
            bell.clear()
            if is_over:  # Asked behind that: the last ring may come at any time, and is not to be missed.
                break
            bring_over()

    try:
        # Of its own: a checkpoint in the connection that writes would be part of what it does.
        own = apsw.Connection(path)
        own.pragma("user_version")  # One that has read nothing does not know yet that there is a log.
    except apsw.Error:  # Too many files are open, say: then it is done as it always is.
        yield
        return
    thread = threading.Thread(target=serve, name="runlore-checkpoint", daemon=True)
    db.set_wal_hook(look)
    thread.start()
    try:
        if _size(f"{path}-wal") >= LONG * own.pragma("page_size"):
            bell.set()
        yield
    finally:
        is_over = True
        bell.set()
        thread.join()
        own.close()
        db.wal_autocheckpoint(LONG)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
