"""The exclusive lease of a session: a locked file named by an epoch, and a record in the log that
fences the holder before.

The kernel frees the lock when its holder dies. Who takes over from a live one makes a file of the
next epoch and says so in the log: the old holder sees the record before its next write, and is
refused.
"""

from __future__ import annotations

import os
import platform
import sys
import weakref
from contextlib import suppress
from pathlib import Path

import msgspec

from ..errors import LeaseLost, LogError, SessionBusy
from ..files.locks import O_BINARY, is_locked, lock, unlock
from ..model import LogRecord
from ._file import LogFile

RECORD = "lease"
PREFIX = "lease-"


class Holder(msgspec.Struct, frozen=True):
    owner: str
    pid: int
    host: str

    def __str__(self) -> str:
        return f"{self.owner!r} (pid {self.pid} on {self.host})"


class Lease:
    """What a handle knows of the session's lease, whether it holds it or not."""

    def __init__(self, folder: Path, file: LogFile) -> None:
        self._folder = folder
        self._file = file
        self._seen = 0
        self._fd = -1
        self._lost: tuple[str, str | None] | None = None
        _KNOWN.add(self)

    @property
    def is_ours(self) -> bool:
        return self._fd >= 0 and self._file.epoch is not None

    def take(self, owner: str, take_over: str | None) -> None:
        """Raises SessionBusy when someone else holds it, unless that is the one whose name was
        given."""
        with self._file.locked():
            if held := _held(self._folder):
                holder = _holder(self._folder, held)
                if holder is None or holder.owner != take_over:
                    raise self._busy(holder)
            epoch = max(_epochs(self._folder), default=0) + 1
            me = Holder(owner, os.getpid(), platform.node())
            self._fd = _make(self._folder, epoch, me)
            self._seen = self._file.epoch = epoch
            self._file.guard = self._check
            try:
                self._file.append_locked(
                    [(RECORD, {"epoch": epoch, **msgspec.to_builtins(me)}, None)]
                )
            except BaseException:
                self.drop()
                raise
            _tidy(self._folder, epoch)

    def release(self) -> None:
        if not self.is_ours:
            return
        with suppress(LogError), self._file.locked():
            self._file.append_locked(
                [(RECORD, {"epoch": self._file.epoch, "released": True}, None)]
            )
        if self._fd >= 0:
            # A child that was forked a moment ago may have a copy of the descriptor still: closing
            # ours would not be enough.
            with suppress(OSError):
                unlock(self._fd)
        self.drop()

    def drop(self) -> None:
        """Lets go of the lock without a word: on fencing, and in the child of a fork, whose parent
        still has it."""
        fd, self._fd = self._fd, -1
        self._file.epoch = None
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def learn(self, new: list[LogRecord] | None) -> None:
        """What others appended, or None when that is not known record by record."""
        if new is None:
            # A file of a later epoch than ours may be that of a taker who died before saying so.
            # Who holds the lease gives way to it, which is safe; others go by who is alive.
            self._seen = (
                max(_epochs(self._folder), default=0) if self.is_ours else _held(self._folder)
            )
        else:
            for record in new:
                epoch = record.payload.get("epoch")
                if record.type == RECORD and isinstance(epoch, int):
                    self._seen = 0 if record.payload.get("released") else epoch
        self._file.guard = self._check if self._seen or self.is_ours or self._lost else None

    def holder(self) -> Holder | None:
        """Who holds the lease now, if anyone does; for readers, and without the lock."""
        epoch = _held(self._folder)
        return _holder(self._folder, epoch) if epoch else None

    def _check(self) -> None:
        # For good: who had the session alone must not go on beside others without knowing.
        if self._lost is not None:
            raise LeaseLost(*self._lost)
        if self._file.epoch is not None:
            if self._seen != self._file.epoch:
                holder = _holder(self._folder, self._seen)
                self.drop()
                by = holder or "another process"
                self._lost = (
                    f"{self._folder.name}: the lease was taken over by {by}",
                    holder.owner if holder else None,
                )
                raise LeaseLost(*self._lost)
        elif self._seen:
            if is_held(self._folder, self._seen):
                raise self._busy(_holder(self._folder, self._seen))
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


def _make(folder: Path, epoch: int, me: Holder) -> int:
    fd = os.open(folder / f"{PREFIX}{epoch}", os.O_RDWR | os.O_CREAT | os.O_TRUNC | O_BINARY, 0o600)
    lock(fd)
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, msgspec.json.encode(me))
    return fd


def _epochs(folder: Path) -> list[int]:
    """Those of the lease files. The newest is kept after its end, so that epochs only grow."""
    epochs = [name.removeprefix(PREFIX) for name in os.listdir(folder) if name.startswith(PREFIX)]
    return [int(epoch) for epoch in epochs if epoch.isascii() and epoch.isdigit()]


def _held(folder: Path) -> int:
    """The newest epoch that someone holds, 0 without any. Not just the newest: a taker may have
    died in the middle of taking over."""
    return next(
        (epoch for epoch in sorted(_epochs(folder), reverse=True) if is_held(folder, epoch)), 0
    )


def _holder(folder: Path, epoch: int) -> Holder | None:
    try:
        return msgspec.json.decode((folder / f"{PREFIX}{epoch}").read_bytes(), type=Holder)
    except (OSError, ValueError):
        return None


def _tidy(folder: Path, epoch: int) -> None:
    for old in _epochs(folder):
        if old < epoch:
            # Windows keeps a file that someone has open; the next one tries again.
            with suppress(OSError):
                (folder / f"{PREFIX}{old}").unlink()


_KNOWN: weakref.WeakSet[Lease] = weakref.WeakSet()


def _after_fork() -> None:
    for lease in list(_KNOWN):
        lease.drop()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)
