"""The exclusive lease of a session: a locked file named by an epoch, and a record in the log.

The kernel releases the lock when its holder dies. A process that takes over from a live holder
creates a file with the next epoch and appends a record. The old holder reads that record before its
next write, which is then refused.
"""

from __future__ import annotations

import os
import platform
import sys
import weakref
from contextlib import suppress
from pathlib import Path

import msgspec

from ...errors import LeaseLost, LogError, SessionBusy
from ...files.locks import O_BINARY, is_locked, lock, unlock
from ...model import LogRecord
from ..backend import Holder
from .log_file import LogFile

RECORD = "lease"
PREFIX = "lease-"


class Lease:
    """The lease of a session, seen from one handle, whether it holds the lease or not."""

    def __init__(self, folder: Path, file: LogFile) -> None:
        self._folder = folder
        self._file = file
        self._seen = 0
        self._fd = -1
        self._lost: tuple[str, str | None] | None = None
        _LEASES.add(self)

    @property
    def is_ours(self) -> bool:
        return self._fd >= 0 and self._file.epoch is not None

    def take(self, owner: str, take_over: str | None) -> None:
        """Acquire the lease.

        Raises SessionBusy when someone else holds it, unless `take_over` names them.
        """
        with self._file.locked():
            if held := _held_epoch(self._folder):
                holder = _read_holder(self._folder, held)
                if holder is None or holder.owner != take_over:
                    raise self._busy(holder)
            epoch = max(_epochs(self._folder), default=0) + 1
            me = Holder(owner, os.getpid(), platform.node())
            self._fd = create_file(self._folder, epoch, me)
            self._seen = self._file.epoch = epoch
            self._file.guard = self._check
            try:
                self._file.append_locked(
                    [(RECORD, {"epoch": epoch, **msgspec.to_builtins(me)}, None)]
                )
            except BaseException:
                self.drop()
                raise
            remove_older_files(self._folder, epoch)

    def release(self) -> None:
        if not self.is_ours:
            return
        with suppress(LogError), self._file.locked():
            self._file.append_locked(
                [(RECORD, {"epoch": self._file.epoch, "released": True}, None)]
            )
        if self._fd >= 0:
            # A child that was just forked may have a copy of the descriptor: closing ours would not
            # be enough.
            with suppress(OSError):
                unlock(self._fd)
        self.drop()

    def drop(self) -> None:
        """Release the lock without a record: after losing the lease, and in the child of a fork."""
        fd, self._fd = self._fd, -1
        self._file.epoch = None
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def learn(self, new: list[LogRecord] | None) -> None:
        """Update from the records of others. None means that they were not read one by one."""
        if new is None:
            # A file of a later epoch may belong to a process that died before it wrote its record.
            # A holder gives way to it, which is safe. Others look at which lock is held.
            self._seen = (
                max(_epochs(self._folder), default=0) if self.is_ours else _held_epoch(self._folder)
            )
        else:
            for record in new:
                epoch = record.payload.get("epoch")
                if record.type == RECORD and isinstance(epoch, int):
                    self._seen = 0 if record.payload.get("released") else epoch
        self._file.guard = self._check if self._seen or self.is_ours or self._lost else None

    def holder(self) -> Holder | None:
        """Return the current holder, if any. For readers, without the lock."""
        epoch = _held_epoch(self._folder)
        return _read_holder(self._folder, epoch) if epoch else None

    def run_out(self) -> Holder | None:
        """Return None: the kernel frees the lock of a dead holder, so no lease runs out."""
        return None

    def _check(self) -> None:
        # Permanent: a holder that was alone must not continue beside others without noticing.
        if self._lost is not None:
            raise LeaseLost(*self._lost)
        if self._file.epoch is not None:
            if self._seen != self._file.epoch:
                holder = _read_holder(self._folder, self._seen)
                self.drop()
                by = holder or "another process"
                self._lost = (
                    f"{self._folder.name}: the lease was taken over by {by}",
                    holder.owner if holder else None,
                )
                raise LeaseLost(*self._lost)
        elif self._seen:
            if is_held(self._folder, self._seen):
                raise self._busy(_read_holder(self._folder, self._seen))
            self._seen, self._file.guard = 0, None  # An epoch that ended does not come back.

    def _busy(self, holder: Holder | None) -> SessionBusy:
        return SessionBusy(
            f"{self._folder.name}: held by {holder or 'another process'}",
            holder.owner if holder else None,
        )


def is_held(folder: Path, epoch: int) -> bool:
    try:
        fd = os.open(folder / f"{PREFIX}{epoch}", os.O_RDWR | O_BINARY)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return is_locked(fd)
    finally:
        os.close(fd)


def create_file(folder: Path, epoch: int, me: Holder) -> int:
    fd = os.open(folder / f"{PREFIX}{epoch}", os.O_RDWR | os.O_CREAT | os.O_TRUNC | O_BINARY, 0o600)
    lock(fd)
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, msgspec.json.encode(me))
    return fd


def _epochs(folder: Path) -> list[int]:
    """Return the epochs of the lease files. The newest file stays, so that epochs only grow."""
    epochs = [name.removeprefix(PREFIX) for name in os.listdir(folder) if name.startswith(PREFIX)]
    return [int(epoch) for epoch in epochs if epoch.isascii() and epoch.isdigit()]


def _held_epoch(folder: Path) -> int:
    """Return the newest epoch with a held lock, or 0.

    The newest file may be that of a process that died during a takeover.
    """
    return next(
        (epoch for epoch in sorted(_epochs(folder), reverse=True) if is_held(folder, epoch)), 0
    )


def _read_holder(folder: Path, epoch: int) -> Holder | None:
    try:
        return msgspec.json.decode((folder / f"{PREFIX}{epoch}").read_bytes(), type=Holder)
    except (OSError, ValueError):
        return None


def remove_older_files(folder: Path, epoch: int) -> None:
    for old in _epochs(folder):
        if old < epoch:
            # Windows keeps a file that is open elsewhere; the next holder tries again.
            with suppress(OSError):
                (folder / f"{PREFIX}{old}").unlink()


_LEASES: weakref.WeakSet[Lease] = weakref.WeakSet()


def _after_fork() -> None:
    for lease in list(_LEASES):
        lease.drop()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)
