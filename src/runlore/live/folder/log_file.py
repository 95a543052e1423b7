"""Appends to a log that other processes append to as well.

Knows lines and locks, not the meaning of records.

An append takes the file's lock, checks that the file still ends where this handle left it, and
writes one line. If another process has written meanwhile, only its new records are read. A tail
without line end, left by a killed writer, is moved to `log.torn` before the next write. If the tail
is a whole record, only its line end is added.
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
from typing import Any

import msgspec

from ...errors import Conflict, LogError, SessionBusy, SessionNotFound
from ...files.locks import O_BINARY, lock_within, sync, sync_folder, try_lock, unlock
from ...model import LogRecord
from .. import codec
from ..backend import Durability, Item
from .log_reader import LogReader

MAX_NS = (1 << 63) - 1
"""Maximum time in an id that is taken from a foreign log: later ids must be able to grow."""
MAX_CATCH_UP_BYTES = 1 << 22
"""Maximum number of bytes of other writers that are read record by record.

Beyond it only the end is read, and the rest on demand.
"""
MAX_QUICK_BYTES = 1 << 17
"""Maximum number of bytes of other writers that an append reads without taking long."""
TAIL_RECORDS = 10
"""Number of records at the end of a log among which its last seq is looked for."""


class LogFile:
    """One log, open for appending.

    Under the lock, `on_new` is called with the records
    of other writers (None when they were too many to read) and `on_own` with those of this handle,
    each with the offset of their end. `end` is the end of the log.
    """

    def __init__(
        self,
        reader: LogReader,
        durability: Durability,
        lock_timeout_s: float,
        on_new: Callable[[list[LogRecord] | None, int], None],
        on_own: Callable[[list[LogRecord], int], None],
    ) -> None:
        self.reader = reader
        self.path = reader.path
        self.epoch: int | None = None
        self.guard: Callable[[], None] | None = None
        self.is_gone = False
        self._power = durability == "power"
        self._lock_timeout_s = lock_timeout_s
        self._on_new = on_new
        self._on_own = on_own
        self._fd = -1
        self._end = -1
        self._next = 0
        self._damaged_at_end = 0
        self._last_ns = 0
        self._suffix = ""
        self._line = bytearray()
        self._depth = self._turn = 0
        self._synced = 0
        self.mutex = threading.RLock()
        self._sync_mutex = threading.Lock()
        self._keys: dict[str, int] | None = None
        self.is_inherited = False
        _FILES.add(self)

    def append(self, items: Sequence[Item], expect: int | None = None) -> list[LogRecord]:
        """Write the records, all or none, in one line, and return them.

        For an item whose key was used before, its earlier record is returned. Raises Conflict when
        that has another type or payload, or when `expect` is not the last seq, SessionBusy when
        another process does not release the lock, and LogError when the disk refuses; the log is
        then unchanged.
        """
        with self.mutex:
            fd = self._fd if self._fd >= 0 else self._open()
            # A depth above one is a signal handler that appends during an append. It must not
            # release the lock.
            self._depth += 1
            try:
                if not try_lock(fd):
                    self._wait_for_lock(fd)
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

    def is_current(self, *, has_key: bool = False) -> bool:
        """Return True if an append would read little of the log first."""
        if self._fd < 0 or self._end < 0 or (has_key and self._keys is None):
            return False
        return 0 <= os.fstat(self._fd).st_size - self._end <= MAX_QUICK_BYTES

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, with the records of other writers read.

        `append_locked` may be called inside.
        """
        with self.mutex:
            fd = self._fd if self._fd >= 0 else self._open()
            self._depth += 1
            try:
                if not try_lock(fd):
                    self._wait_for_lock(fd)
                self._catch_up(fd)
                yield
            finally:
                self._depth -= 1
                if not self._depth:
                    unlock(fd)

    def _wait_for_lock(self, fd: int) -> None:
        if not lock_within(fd, self._lock_timeout_s):
            raise SessionBusy(
                f"{self.path}: another process has held its lock for {self._lock_timeout_s:g} s;"
                " nothing was appended"
            )

    def append_locked(self, items: Sequence[Item]) -> list[LogRecord]:
        """Append inside `locked`. Does not wait for the disk."""
        return self._append(self._fd, items, None)

    def overwrite(self, seq: int, payloads: Sequence[dict[str, Any]]) -> LogRecord:
        """Overwrite the payload of a record with the first of these that fits in its bytes.

        Raises LogError when none does.
        """
        with self.locked():
            if self.guard is not None:
                self.guard()
            place = self.reader.line_of(seq)
            blocks = self.reader.blocks(place[0]) if place is not None else iter(())
            offset, line = next(((start, lines[0]) for start, lines in blocks), (0, b""))
            for payload in payloads if line else ():
                records = [
                    msgspec.structs.replace(one, payload=payload) if one.seq == seq else one
                    for one in self.reader.decode(line, offset)
                ]
                data = codec.encode_within(records, len(line))
                if data is not None:
                    self._write_at(offset, data)
                    return next(one for one in records if one.seq == seq)
        raise LogError(f"{self.path}: the replacement for record {seq} is too long for its place")

    def _write_at(self, offset: int, data: bytes) -> None:
        # What is opened to append cannot write anywhere else.
        try:
            with self.path.open("r+b", buffering=0) as file:
                file.seek(offset)
                file.write(data)
                sync(file.fileno())
        except OSError as error:
            raise LogError(f"{self.path}: {error.strerror}; nothing was replaced") from None

    def sync(self, end: int | None = None) -> None:
        """Wait until everything up to `end` is on the disk; without `end`, everything written so
        far.

        Threads that arrive meanwhile share the next wait: a group commit.
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

    def create(self) -> None:
        """Create an empty log. Raises FileExistsError when there is one that is not empty."""
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

    def reset_after_fork(self) -> None:
        """Release the parent's file and locks in the child of a fork."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            # The parent keeps its lock: a lock ends with the last descriptor, or by an unlock.
            os.close(fd)
        self.epoch, self._end = None, -1
        # Another thread of the parent may have held these while it changed what they guard.
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
        return self._fd

    def _append(self, fd: int, items: Sequence[Item], expect: int | None) -> list[LogRecord]:
        turn = self._turn
        end = os.lseek(fd, 0, os.SEEK_END)
        if end != self._end:
            end = self._catch_up(fd)
        if self.guard is not None:
            self.guard()
        if self.is_gone:
            raise SessionNotFound(f"{self.path.parent.name}: the session was deleted")
        wanted, places = items, None
        if items[0][2] is not None or len(items) > 1:
            items, places = self._divide(wanted)
            if not items:
                return _in_order(places, [])
        self._check_expected(expect)
        records = self._number(items)
        line = self._line
        codec.encode(records, line)
        size = len(line)
        # A signal handler appended meanwhile. Python runs none between here and the write.
        if self._turn != turn:
            return self._append(fd, wanted, expect)
        try:
            written = os.write(fd, line)
            if written != size:
                self._write_rest(fd, bytes(line), written, turn)
        except OSError as error:
            self._undo(fd, end, turn)
            raise LogError(f"{self.path}: {error.strerror}; nothing was appended") from None
        self._turn += 1
        end += size
        self._end, self._next, self._damaged_at_end = end, records[-1].seq + 1, 0
        self._add_keys(records)
        self._on_own(records, end)
        return records if places is None else _in_order(places, records)

    def _check_expected(self, expect: int | None) -> None:
        """Raise Conflict unless `expect` is the last seq; that of a damaged record may be
        unknown to the caller."""
        last = self._next - 1
        if expect is not None and not last - self._damaged_at_end <= expect <= last:
            name = self.path.parent.name
            message = f"{name}: expected to follow record {expect}, but {last} is the last"
            raise Conflict(message, expect, last)

    def _number(self, items: Sequence[Item]) -> list[LogRecord]:
        """Return the records to write, with the next seqs and new ids."""
        seq, epoch, now = self._next, self.epoch, datetime.now(UTC)
        records = []
        for type_, payload, key in items:
            # Ids grow whatever the clock does: 16 digits of nanoseconds, at least one more than
            # before, and 8 digits of this handle.
            ns = time.time_ns()
            self._last_ns = ns = ns if ns > self._last_ns else self._last_ns + 1
            id = ns.to_bytes(8, "big").hex() + self._suffix
            records.append(
                LogRecord(seq=seq, id=id, ts=now, type=type_, payload=payload, key=key, epoch=epoch)
            )
            seq += 1
        return records

    def _add_keys(self, records: Sequence[LogRecord]) -> None:
        if self._keys is not None:
            self._keys.update(
                (record.key, record.seq) for record in records if record.key is not None
            )

    def _write_rest(self, fd: int, line: bytes, written: int, turn: int) -> None:
        # The disk is nearly full, or the record is larger than one write (2 GB).
        while written < len(line):
            # A signal handler has saved the written part in log.torn, and appended.
            if self._turn != turn:
                raise InterruptedError(EINTR, os.strerror(EINTR))
            written += os.write(fd, memoryview(line)[written:])

    def _undo(self, fd: int, end: int, turn: int) -> None:
        """Remove half a line. The next append checks the end of the file first."""
        self._end = -1
        with suppress(OSError):
            # Otherwise a signal handler has appended, and saved it in log.torn.
            if self._turn == turn:
                os.ftruncate(fd, end)

    def _catch_up(self, fd: int) -> int:
        """Read what others appended, repair a torn tail, and return the end of the log."""
        turn, known = self._turn, self._end
        end = os.lseek(fd, 0, os.SEEK_END)
        if end == known:
            return end
        if not 0 <= known < end or end - known > MAX_CATCH_UP_BYTES:
            return self._start_over(fd, end)
        end = self._repair_tail(fd, end)
        reports = self.reader.reports
        new = [record for record, _ in self.reader.scan(known)]
        # The lines around a damaged one tell its seq, and a writer without the lock gave a seq
        # that is in use.
        if self.reader.reports > reports or (new and new[0].seq < self._next):
            return self._start_over(fd, end)
        next_seq, last_ns = (new[-1].seq + 1, _ns_of(new[-1].id)) if new else (self._next, 0)
        if self._turn != turn:  # A signal handler has caught up, and appended.
            return self._catch_up(fd)
        self._end, self._next, self._damaged_at_end = end, next_seq, 0
        self._last_ns = last_ns if last_ns > self._last_ns else self._last_ns
        if new:  # Otherwise there was only a torn tail.
            self._add_keys(new)
            self._on_new(new, end)
        return end

    def _start_over(self, fd: int, end: int) -> int:
        turn = self._turn
        end = self._repair_tail(fd, end)
        # A writer without the lock may have given a lower seq after a higher one.
        tail = self.reader.tail(TAIL_RECORDS)
        last = max(tail, key=lambda record: record.seq, default=None)
        damaged = self._damaged_after(tail[-1].seq) if tail else 0
        next_seq, last_ns = (last.seq + 1 + damaged, _ns_of(last.id)) if last else (0, 0)
        if self._turn != turn:
            return self._catch_up(fd)
        self._end, self._next, self._keys, self._synced = end, next_seq, None, 0
        self._damaged_at_end = damaged
        self._last_ns = last_ns if last_ns > self._last_ns else self._last_ns
        self._on_new(None, end)
        return end

    def _damaged_after(self, seq: int) -> int:
        """Return the number of seqs in damaged lines at the very end of the log.

        They are not reused.
        """
        lost = 0
        for offset, lines in self.reader.blocks(self.reader.find(lambda n, _: n <= seq)):
            for line in lines:
                offset += len(line) + 1
                records = self.reader.decode(line, offset - len(line) - 1)
                lost = 0 if records else lost + (max(1, codec.count_heads(line)) if line else 0)
        return lost

    def _repair_tail(self, fd: int, end: int) -> int:
        """Make the log end with a line end, where the next record begins. Needs the lock."""
        position = self._last_line_end(end)
        if position == end:
            return end
        tail = self.reader.read(position, end - position)
        try:
            return self._repair(fd, tail, position)
        except OSError as error:
            raise LogError(
                f"{self.path}: {error.strerror}; what was cut off at its end cannot be set aside"
            ) from None

    def _repair(self, fd: int, tail: bytes, position: int) -> int:
        if not codec.holds_record(tail):
            turn = self._turn
            self._save_torn_tail(tail, position)
            if self._turn != turn:  # A signal handler has done this already, and appended.
                return self._repair_tail(fd, os.lseek(fd, 0, os.SEEK_END))
            os.ftruncate(fd, position)
            self.reader.report(
                position, len(tail), "cut off in the middle of writing; set aside in log.torn"
            )
            return position
        os.write(fd, b"\n")
        return position + len(tail) + 1

    def _last_line_end(self, end: int) -> int:
        """Return the offset behind the last line end.

        Reads the whole file only if there is none.
        """
        position = end
        while position > 0:
            start = max(0, position - (1 << 16))
            chunk = self.reader.read(start, position - start)
            newline = chunk.rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            position = start
        return 0

    def _save_torn_tail(self, tail: bytes, position: int) -> None:
        note = msgspec.json.encode(
            {"at": position, "size_bytes": len(tail), "ts": datetime.now(UTC)}
        )
        fd = os.open(
            self.path.with_suffix(".torn"), os.O_WRONLY | os.O_APPEND | os.O_CREAT | O_BINARY, 0o600
        )
        try:
            os.write(fd, note + b"\n" + tail + b"\n")
            if self._power:
                sync(fd)
        finally:
            os.close(fd)

    def _divide(self, items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[LogRecord | int]]:
        """Return the items to write, and for each item its earlier record or its place among them.

        Raises Conflict for a key that was used for something else.
        """
        if not any(key is not None for _, _, key in items):
            return items, range(len(items))
        if self._keys is None:
            self._keys = dict(self._all_keys())
        new: list[Item] = []
        places: list[LogRecord | int] = []
        place_of: dict[str, int] = {}
        for item in items:
            key = item[2]
            earlier = self._find(self._keys[key]) if key in self._keys else None
            if key is not None and earlier is not None:
                self._check_same(key, item, earlier)
                places.append(earlier)
            elif key in place_of:
                if item != new[place_of[key]]:
                    raise self._key_conflict(key)
                places.append(place_of[key])
            else:
                places.append(len(new))
                if key is not None:
                    place_of[key] = len(new)
                new.append(item)
        return new, places

    def _find(self, seq: int) -> LogRecord | None:
        start = self.reader.find(lambda n, _: n <= seq)
        return next((record for record, _ in self.reader.scan(start) if record.seq == seq), None)

    def _check_same(self, key: str, item: Item, earlier: LogRecord) -> None:
        type_, payload, _ = item
        if type_ != earlier.type or codec.as_read(payload) != earlier.payload:
            raise self._key_conflict(key)

    def _key_conflict(self, key: str) -> Conflict:
        name = self.path.parent.name
        return Conflict(f"{name}: the key {key[:80]!r} was used for another record")

    def _all_keys(self) -> Iterator[tuple[str, int]]:
        """Yield each key with its seq. Lines without a key are recognised by their bytes."""
        for offset, lines in self.reader.blocks():
            for line in lines:
                if b'"k":"' in line:
                    for record in self.reader.decode(line, offset):
                        if record.key is not None:
                            yield record.key, record.seq
                offset += len(line) + 1


def _in_order(places: Sequence[LogRecord | int], records: Sequence[LogRecord]) -> list[LogRecord]:
    """Return the record of each item: an earlier one, or the new one at its place."""
    return [place if isinstance(place, LogRecord) else records[place] for place in places]


def _ns_of(id: str) -> int:
    """Return the time in an id, or 0 when it has none."""
    try:
        return min(int(id[:16], 16), MAX_NS)
    except ValueError:
        return 0


_FILES: weakref.WeakSet[LogFile] = weakref.WeakSet()


def _after_fork() -> None:
    for file in list(_FILES):
        file.reset_after_fork()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_after_fork)
