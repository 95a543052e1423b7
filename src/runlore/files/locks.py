"""Calls that differ between systems: locks between processes, reads at an offset, waiting for the
disk.

A lock belongs to the open file, so two handles in one process exclude each other as two processes
do; the kernel frees it when its holder dies.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

if sys.platform == "win32":
    import msvcrt
    import threading

    # Locks of Windows keep others from reading the locked bytes, so the one byte lies where few
    # logs will ever be; the C library counts its place in 31 bits.
    PLACE = (1 << 31) - 16

    def lock(fd: int) -> None:
        """Wait until the lock is ours."""
        while not try_lock(fd):
            time.sleep(0.001)

    def try_lock(fd: int) -> bool:
        """Take the lock if it is free. Return True if it is ours."""
        os.lseek(fd, PLACE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def is_locked(fd: int) -> bool:
        """Return True if someone has the lock.

        Two that call this at once may take each other for its holder: Windows has no other way.
        """
        if not try_lock(fd):
            return True
        unlock(fd)
        return False

    def unlock(fd: int) -> None:
        """Release the lock. Releasing one that is not ours is no error, as on other systems."""
        os.lseek(fd, PLACE, os.SEEK_SET)
        with suppress(OSError):
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

    READING = threading.Lock()

    def read_at(fd: int, size: int, offset: int) -> bytes:
        """Return up to `size` bytes from `offset`.

        This moves the position of the file, so one thread reads at a time.
        """
        with READING:
            os.lseek(fd, offset, os.SEEK_SET)
            return os.read(fd, size)

else:
    from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock

    def lock(fd: int) -> None:
        """Wait until the lock is ours."""
        flock(fd, LOCK_EX)

    WITHOUT_WAITING = LOCK_EX | LOCK_NB

    def try_lock(fd: int) -> bool:
        """Take the lock if it is free. Return True if it is ours."""
        try:
            flock(fd, WITHOUT_WAITING)
        except BlockingIOError:
            return False
        return True

    def is_locked(fd: int) -> bool:
        """Return True if someone has the lock. Any number may call this at once."""
        try:
            flock(fd, LOCK_SH | LOCK_NB)
        except OSError:
            return True
        flock(fd, LOCK_UN)
        return False

    def unlock(fd: int) -> None:
        flock(fd, LOCK_UN)

    read_at = os.pread


MIN_PAUSE_S, MAX_PAUSE_S = 0.00005, 0.005
"""Pauses between two tries: an append holds the lock for microseconds."""


def lock_within(fd: int, timeout_s: float) -> bool:
    """Wait for the lock, at most so long. Return True if it is ours."""
    if try_lock(fd):
        return True
    until, pause_s = time.monotonic() + timeout_s, MIN_PAUSE_S
    while time.monotonic() < until:
        time.sleep(pause_s)
        if try_lock(fd):
            return True
        pause_s = min(pause_s * 2, MAX_PAUSE_S)
    return False


O_BINARY: int = getattr(os, "O_BINARY", 0)
"""Windows would otherwise write two bytes for each line end."""


if sys.platform == "darwin":
    from fcntl import F_FULLFSYNC, fcntl

    def sync(fd: int) -> None:
        """Wait until what was written is on the disk and not just in its cache."""
        fcntl(fd, F_FULLFSYNC)

elif sys.platform == "win32":
    sync = os.fsync
else:
    sync = os.fdatasync


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Make the names in a folder survive a loss of power. Windows needs no such call."""
    if sys.platform == "win32":
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
