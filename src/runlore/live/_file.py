"""Appends to a log that other processes append to as well. Knows lines and locks; what the records
mean is not its business.

An append takes the file's lock, looks whether the file still ends where this handle left it, and
writes one line. Only when someone else was there is anything read: what is new. A tail without line
end, left by a writer that was killed, is set aside in `log.torn` before anything is written behind
it; when it is a whole record, only its line end is added.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from errno import EINTR
from typing import Any, Literal

import msgspec

from ..errors import Conflict, LogError, SessionNotFound
from ..files.locks import O_BINARY, lock, sync, sync_folder, unlock
from ..model import LogRecord
from . import _line
from ._reader import LogReader

Durability = Literal["process", "power"]
Item = tuple[str, dict[str, Any], str | None]
"""Type, payload and key of a record to be."""

MAX_NS = (1 << 63) - 1
"""What an id of a strange log counts for at most: ids must be able to grow behind it."""
MAX_CATCH_UP = 1 << 22
"""Bytes of others that are read record by record. With more behind us, only the end is read, and
the rest asked for when needed."""


class LogFile:
    """One log, open for appending.

    `on_open` is called before the first lock. Under the lock `on_new` is called with what others
    appended, or None when that was too much to read, and `on_own` with what this handle did, each
    with where that ends; `end` is where the log ends.
    """

    def __init__(
        self,
        reader: LogReader,
        durability: Durability,
        on_open: Callable[[], None],
        on_new: Callable[[list[LogRecord] | None, int], None],
        on_own: Callable[[list[LogRecord], int], None],
    ) -> None:
        self.reader = reader
        self.path = reader.path
        self.epoch: int | None = None
        self.guard: Callable[[], None] | None = None
        self.is_gone = False
        self._power = durability == "power"
        self._on_open = on_open
        self._on_new = on_new
        self._on_own = on_own
        self._fd = -1
        self._end = -1
        self._next = 0
        self._last_ns = 0
        self._suffix = ""
        self._line = bytearray()
        self._depth = self._turn = 0
        self._synced = 0
        self.mutex = threading.RLock()
        self._sync_mutex = threading.Lock()
        self._keys: dict[str, int] | None = None
        self.is_inherited = False
        _KNOWN.add(self)

    def append(self, items: Sequence[Item], expect: int | None = None) -> list[LogRecord]:
        """Writes the records, all or none, in one line. Returns them, or those that were written
        before with the same keys.

        Raises Conflict when `expect` is not the last seq, LogError when the disk refuses; the log
        is then as it was.
        """
        with self.mutex:
            fd = self._fd if self._fd >= 0 else self._open()
            # Deeper than one is a signal handler that appends in the middle of an append: the lock
            # is then not its to let go.
            self._depth += 1
            try:
                lock(fd)
                records = self._append(fd, items, expect)
                end = self._end
            finally:
                self._depth -= 1
                if not self._depth:
                    unlock(fd)
        if self._power:
            self.sync(end)
        return records

    @property
    def end(self) -> int:
        return self._end

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else appends meanwhile, and what others wrote is known. `append_locked` may be
        called inside."""
        with self.mutex:
            fd = self._fd if self._fd >= 0 else self._open()
            self._depth += 1
            try:
                lock(fd)
                self._look(fd)
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    unlock(fd)

    def append_locked(self, items: Sequence[Item]) -> list[LogRecord]:
        """As `append`, for those inside `locked`; it does not wait for the disk."""
        return self._append(self._fd, items, None)

    def sync(self, end: int | None = None) -> None:
        """Waits until everything up to `end` is on the disk, or all that anyone has written.
        Threads that come meanwhile share the next wait: a group commit.
        """
        with self._sync_mutex:
            if end is not None and self._synced >= end:
                return
            reached = self._end
            try:
                sync(self._fd if self._fd >= 0 else self._open())
            except OSError as error:
                raise LogError(
                    f"{self.path}: {error.strerror}; what was written last may not survive a loss"
                    " of power"
                ) from None
            if reached > self._synced:
                self._synced = reached

    def make(self) -> None:
        """Makes an empty log. Raises FileExistsError when one with something in it is there."""
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | O_BINARY, 0o600)
        try:
            if os.fstat(fd).st_size:
                raise FileExistsError(self.path)
        finally:
            os.close(fd)
        if self._power:
            sync_folder(self.path.parent)
            sync_folder(self.path.parent.parent)

    def close(self) -> None:
        with self.mutex:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def leave_to_parent(self) -> None:
        """In the child of a fork: the parent's file and locks are let go, and what the next append
        needs is fresh."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            # A lock stays with the parent: it ends with the last descriptor, or when asked to.
            os.close(fd)
        self.epoch, self._end = None, -1
        # Another thread of the parent may have held these, and been in the middle of what they
        # guard.
        self.mutex, self._sync_mutex = threading.RLock(), threading.Lock()
        self._line, self._depth = bytearray(), 0
        self._keys, self.is_inherited = None, True

    def _open(self) -> int:
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | O_BINARY)
        except FileNotFoundError:
            raise SessionNotFound(f"{self.path.parent}: no session log is there") from None
        except OSError as error:
            raise LogError(f"{self.path}: {error.strerror}; the log cannot be written") from None
        self._suffix = os.urandom(4).hex()
        self._end = -1
        self._on_open()
        return self._fd

    def _append(self, fd: int, items: Sequence[Item], expect: int | None) -> list[LogRecord]:
        turn = self._turn
        end = os.lseek(fd, 0, os.SEEK_END)
        if end != self._end:
            end = self._look(fd)
        if self.guard is not None:
            self.guard()
        if self.is_gone:
            raise SessionNotFound(f"{self.path.parent.name}: the session was deleted")
        if (items[0][2] is not None or len(items) > 1) and (done := self._done_before(items)):
            return done
        seq, epoch = self._next, self.epoch
        if expect is not None and expect != seq - 1:
            raise Conflict(
                f"{self.path.parent.name}: expected to follow record {expect}, but {seq - 1} is the"
                " last",
                expect,
                seq - 1,
            )
        now, records = datetime.now(UTC), []
        for type_, payload, key in items:
            # Ids grow whatever the clock does: 16 digits of nanoseconds, at least one more than
            # before, and 8 of this handle.
            ns = time.time_ns()
            self._last_ns = ns = ns if ns > self._last_ns else self._last_ns + 1
            id = ns.to_bytes(8, "big").hex() + self._suffix
            records.append(
                LogRecord(seq=seq, id=id, ts=now, type=type_, payload=payload, key=key, epoch=epoch)
            )
            seq += 1
        line = self._line
        _line.encode(records, line)
        size = len(line)
        # A signal handler appended meanwhile. Python runs none between here and the write.
        if self._turn != turn:
            return self._append(fd, items, expect)
        try:
            written = os.write(fd, line)
            if written != size:
                self._write_rest(fd, bytes(line), written, turn)
        except OSError as error:
            self._undo(fd, end, turn)
            raise LogError(f"{self.path}: {error.strerror}; nothing was appended") from None
        self._turn += 1
        end += size
        self._end, self._next = end, seq
        if self._keys is not None:
            self._keys.update(
                (record.key, record.seq) for record in records if record.key is not None
            )
        self._on_own(records, end)
        return records

    def _write_rest(self, fd: int, line: bytes, written: int, turn: int) -> None:
        # The disk is nearly full, or the record larger than one write may be (2 GB).
        while written < len(line):
            if self._turn != turn:  # A signal handler has set aside what was written, and appended.
                raise InterruptedError(EINTR, os.strerror(EINTR))
            written += os.write(fd, memoryview(line)[written:])

    def _undo(self, fd: int, end: int, turn: int) -> None:
        """Takes half a line away again. Whatever is there then is looked at before the next
        append."""
        self._end = -1
        with suppress(OSError):
            if self._turn == turn:  # Otherwise a signal handler has appended, and set it aside.
                os.ftruncate(fd, end)

    def _look(self, fd: int) -> int:
        """Where the log ends, after learning what others appended and setting aside what one of
        them could not finish."""
        turn, known = self._turn, self._end
        end = os.lseek(fd, 0, os.SEEK_END)
        if end == known:
            return end
        if not 0 <= known < end or end - known > MAX_CATCH_UP:
            return self._start_over(fd, end)
        end = self._mend(fd, end)
        damage = len(self.reader.problems)
        new = [record for record, _ in self.reader.scan(known)]
        if len(self.reader.problems) > damage:  # What its seq was is told by the lines around it.
            return self._start_over(fd, end)
        next_seq, last_ns = (new[-1].seq + 1, _ns_of(new[-1].id)) if new else (self._next, 0)
        if self._turn != turn:  # A signal handler has looked, and appended.
            return self._look(fd)
        self._end, self._next = end, next_seq
        self._last_ns = last_ns if last_ns > self._last_ns else self._last_ns
        if new:  # Otherwise a torn tail is all there was.
            if self._keys is not None:
                self._keys.update(
                    (record.key, record.seq) for record in new if record.key is not None
                )
            self._on_new(new, end)
        return end

    def _start_over(self, fd: int, end: int) -> int:
        turn = self._turn
        end = self._mend(fd, end)
        last = self.reader.tail(1)
        next_seq, last_ns = (
            (last[0].seq + 1 + self._damaged_after(last[0].seq), _ns_of(last[0].id))
            if last
            else (0, 0)
        )
        if self._turn != turn:
            return self._look(fd)
        self._end, self._next, self._keys, self._synced = end, next_seq, None, 0
        self._last_ns = last_ns if last_ns > self._last_ns else self._last_ns
        self._on_new(None, end)
        return end

    def _damaged_after(self, seq: int) -> int:
        """How many seqs the damaged lines at the very end of the log had: theirs are not given
        again."""
        lost = 0
        for offset, lines in self.reader.blocks(self.reader.find(lambda n, _: n <= seq)):
            for line in lines:
                offset += len(line) + 1
                records = self.reader.decode(line, offset - len(line) - 1)
                lost = 0 if records else lost + (max(1, _line.count_heads(line)) if line else 0)
        return lost

    def _mend(self, fd: int, end: int) -> int:
        """Makes the log end with a line end, which is where the next record begins. Only under the
        lock."""
        place = self._torn_from(end)
        if place == end:
            return end
        tail = self.reader.read(place, end - place)
        try:
            return self._mend_tail(fd, tail, place)
        except OSError as error:
            raise LogError(
                f"{self.path}: {error.strerror}; what was cut off at its end cannot be set aside"
            ) from None

    def _mend_tail(self, fd: int, tail: bytes, place: int) -> int:
        if not _line.holds_record(tail):
            turn = self._turn
            self._set_aside(tail, place)
            if self._turn != turn:  # A signal handler has done so already, and appended.
                return self._mend(fd, os.lseek(fd, 0, os.SEEK_END))
            os.ftruncate(fd, place)
            self.reader.report(
                place, len(tail), "cut off in the middle of writing; set aside in log.torn"
            )
            return place
        os.write(fd, b"\n")
        return place + len(tail) + 1

    def _torn_from(self, end: int) -> int:
        """Where the last line end is; the whole file is looked through only if there is none."""
        place = end
        while place > 0:
            start = max(0, place - (1 << 16))
            chunk = self.reader.read(start, place - start)
            newline = chunk.rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            place = start
        return 0

    def _set_aside(self, tail: bytes, place: int) -> None:
        note = msgspec.json.encode({"at": place, "size_bytes": len(tail), "ts": datetime.now(UTC)})
        fd = os.open(
            self.path.with_suffix(".torn"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | O_BINARY, 0o600
        )
        try:
            os.write(fd, note + b"\n" + tail + b"\n")
            if self._power:
                sync(fd)
        finally:
            os.close(fd)

    def _done_before(self, items: Sequence[Item]) -> list[LogRecord]:
        """The records that have these keys already. A repeated batch repeats all its keys, so one
        that is there stands for all."""
        if not any(key is not None for _, _, key in items):
            return []
        if self._keys is None:
            self._keys = dict(self._all_keys())
        known = self._keys
        found = next(
            (
                (n, known[key])
                for n, (_, _, key) in enumerate(items)
                if key is not None and key in known
            ),
            None,
        )
        if found is None:
            return []
        place, seq = found
        batch = self._batch_around(seq)
        if len(items) == 1:
            return [record for record in batch if record.seq == seq]
        # Its line may begin with the session's own record.
        return [record for record in batch if record.seq >= seq - place]

    def _batch_around(self, seq: int) -> list[LogRecord]:
        batch: list[LogRecord] = []
        last_end = -1
        for record, end in self.reader.scan(self.reader.find(lambda n, _: n <= seq)):
            if end != last_end:
                if batch and batch[-1].seq >= seq:
                    break
                batch, last_end = [], end
            batch.append(record)
        return batch

    def _all_keys(self) -> Iterator[tuple[str, int]]:
        """A key stands in front of the payload, so lines without one are told apart by their
        bytes."""
        for offset, lines in self.reader.blocks():
            for line in lines:
                if b'"k":"' in line:
                    for record in self.reader.decode(line, offset):
                        if record.key is not None:
                            yield record.key, record.seq
                offset += len(line) + 1


def _ns_of(id: str) -> int:
    """The time in an id, 0 when there is none."""
    try:
        return min(int(id[:16], 16), MAX_NS)
    except ValueError:
        return 0


_KNOWN: weakref.WeakSet[LogFile] = weakref.WeakSet()


def _after_fork() -> None:
    for file in list(_KNOWN):
        file.leave_to_parent()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)
