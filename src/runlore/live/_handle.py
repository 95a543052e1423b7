"""An open session log: append a record, read records, follow, keep snapshots. What types of records
mean is told elsewhere.

Everything a view needs goes through `record`, `records` and the snapshots; nothing here knows what
a message is.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from zlib import crc32

from ..errors import Conflict, LogError
from ..model import LogRecord
from . import _snapshots
from ._file import Durability, Item, LogFile
from ._lease import Lease
from ._reader import HEAD, LOG, LogReader, Problem


class Handle(ABC):
    """A log that any number of processes may have open. A handle may be shared by threads, and
    survives a fork."""

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability = "process",
        readonly: bool = False,
        first: dict[str, Any] | None = None,
        joins: bool = False,
    ) -> None:
        self.id = path.name
        self.path = path
        self.readonly = readonly
        self.durability = durability
        self._reader = LogReader(path / LOG)
        self._file = LogFile(self._reader, durability, self._on_open, self._on_new, self._on_own)
        self._lease = Lease(path, self._file)
        self._first = first
        self._joins = joins
        self._making = threading.Lock()
        self._places: dict[int, int] = {}

    def record(
        self,
        type: str,
        payload: dict[str, Any],
        *,
        key: str | None = None,
        expect: int | None = None,
    ) -> LogRecord:
        """Appends one record and returns it; when it returns, the record survives what `durability`
        says.

        With a `key` that was used before, the record written then is returned and nothing is
        appended. With `expect`, the last seq the caller knows of, Conflict is raised when the log
        has gone on since.
        """
        is_plain = type and isinstance(type, str) and isinstance(payload, dict) and key is None
        if not is_plain or self.readonly or self._first is not None:
            return self.record_many([(type, payload, key)], expect=expect)[-1]
        records = self._file.append([(type, payload, key)], expect)
        self._appended(records)
        return records[-1]

    def record_many(self, items: Sequence[Item], *, expect: int | None = None) -> list[LogRecord]:
        """Appends records, all or none: they share one line. `items` are (type, payload, key)."""
        if not items:
            return []
        if self.readonly:
            raise LogError(f"{self.id}: opened for reading only")
        for type_, payload, key in items:
            if not isinstance(type_, str) or not type_ or not isinstance(payload, dict):
                raise LogError(f"{self.id}: a record needs a type, and a payload that is a dict")
            # It could be written, and not be read again.
            if key is not None and not isinstance(key, str):
                raise LogError(f"{self.id}: the key {key!r} is not a text")
        if self._first is not None:
            return self._begin(items, expect)
        records = self._file.append(items, expect)
        self._appended(records)
        return records

    def records(self, after: int = -1) -> Iterator[LogRecord]:
        """The records behind seq `after`, in order. Finds its place without reading what lies
        before."""
        if self.is_draft:
            return iter(())
        if (place := self._places.get(after)) is not None:
            return (record for record, _ in self._reader.scan(place) if record.seq > after)
        return (record for record, _ in self._reader.after(after))

    def tail(self, count: int = 50) -> list[LogRecord]:
        """The last records, oldest first, read from the end of the file."""
        return [] if self.is_draft else self._reader.tail(count)

    def follow(
        self,
        after: int | None = None,
        *,
        poll_s: float = 0.05,
        timeout_s: float | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[LogRecord]:
        """Records as they are appended, by anyone; from now on, or behind seq `after`. Ends when
        `stop` says so or after `timeout_s` without a new record.
        """
        place, last = self._start_of_following(after)
        quiet_since = time.monotonic()
        while True:
            for record, end in self._reader.scan(place) if not self.is_draft else ():
                place = end
                if record.seq > last:
                    last, quiet_since = record.seq, time.monotonic()
                    yield record
            if (stop and stop()) or (
                timeout_s is not None and time.monotonic() - quiet_since >= timeout_s
            ):
                return
            time.sleep(poll_s)

    @property
    def is_draft(self) -> bool:
        """True while nothing is on disk: the first append makes the session, ours or that of
        another who ensures it."""
        return self._first is not None and not (self._joins and self._was_made())

    @property
    def has_begun(self) -> bool:
        """False for a draft, and for a log without a byte: someone is making it, or was killed over
        it."""
        return not self.is_draft and self._reader.size_bytes > 0

    @property
    def problems(self) -> list[Problem]:
        """What reading and appending had to skip or set aside so far, with byte offsets."""
        return self._reader.problems

    @property
    def last_seq(self) -> int:
        """The seq of the last record there is, -1 without any."""
        last = self.tail(1)
        return last[-1].seq if last else -1

    def find(self, record: LogRecord | int | str) -> LogRecord:
        """A record by seq, id, or itself. Raises LogError when the log has none such."""
        name = record.id if isinstance(record, LogRecord) else record
        if isinstance(name, int):
            found = next(self.records(name - 1), None) if name >= 0 else None
            found = found if found is not None and found.seq == name else None
        else:
            found = self._find_id(name)
        if found is None:
            raise LogError(f"{self.id}: no record {str(name)[:80]!r}")
        return found

    def _find_id(self, id: str) -> LogRecord | None:
        if self.is_draft:
            return None
        place = self._reader.find(lambda _, other: other <= id)
        found = next((record for record, _ in self._reader.scan(place) if record.id >= id), None)
        if found is not None and found.id == id:
            return found
        # Whoever wrote by hand may have given ids that do not grow.
        return next((record for record, _ in self._reader.scan() if record.id == id), None)

    def snapshot(self, name: str) -> tuple[int, bytes] | None:
        """What `put_snapshot` kept under that name, with its seq; None when it is not there or
        cannot be trusted."""
        if self.is_draft:
            return None
        found = _snapshots.read(self.path, name, self._reader)
        if found is None:
            return None
        self._places = {**dict(list(self._places.items())[-8:]), found.seq: found.offset}
        return found.seq, found.data

    def put_snapshot(self, name: str, seq: int, data: bytes) -> None:
        """Keeps a view as of record `seq`, as a file that can be deleted."""
        self._put_snapshot(name, seq, data, None)

    def _put_snapshot(
        self, name: str, seq: int, data: bytes, stamp: tuple[int, int, int, int] | None
    ) -> None:
        if self.readonly or self.is_draft or seq < 0:
            return
        place = self._reader.line_of(seq)
        if place is not None:
            _snapshots.write(
                self.path,
                name,
                _snapshots.Snapshot(seq, place[0], place[1][:HEAD], crc32(data), data, stamp),
            )

    def sync(self) -> None:
        """A barrier, whatever the durability: what was appended before is on the disk when it
        returns."""
        if not self.is_draft:
            self._file.sync()

    def close(self) -> None:
        self._lease.release()
        self._file.close()
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    def _begin(self, items: Sequence[Item], expect: int | None) -> list[LogRecord]:
        """The first append of a draft: the session's own record and these, in one line."""
        with self._making:
            if self._first is not None:
                if expect not in (None, -1):
                    raise Conflict(
                        f"{self.id}: expected to follow record {expect}, but nothing is there yet",
                        expect,
                        -1,
                    )
                try:
                    return self._make_log([("session", self._first, None), *items])[1:]
                except (Conflict, FileExistsError):
                    if not self._joins:
                        raise Conflict(f"{self.id}: a session with this id exists") from None
                    self._join()
                except OSError as error:
                    raise LogError(
                        f"{self.path}: {error.strerror}; the session was not made"
                    ) from None
        return self.record_many(items, expect=expect)  # Another thread or process was quicker.

    def _was_made(self) -> bool:
        """Whether someone else has made the session that this is a draft of. This is a handle of
        theirs then."""
        if not self._making.acquire(blocking=False):  # We are making it.
            return False
        try:
            with suppress(OSError):
                if self._first is not None and (self.path / LOG).stat().st_size:
                    self._join()
            return self._first is None
        finally:
            self._making.release()

    def _join(self) -> None:
        """A draft of a session that someone else has made in the meantime becomes a handle of
        theirs."""
        self._first = None

    @abstractmethod
    def _make_log(self, items: Sequence[Item]) -> list[LogRecord]:
        """Makes the folder and the log with its first records in it. Where that is, and who is
        told, the session knows."""

    def _start_of_following(self, after: int | None) -> tuple[int, int]:
        if self.is_draft:
            return 0, -1 if after is None else after
        if after is None:
            last = self._reader.tail(1)
            after = last[-1].seq if last else -1
        return (self._reader.find(lambda n, _: n <= after) if after >= 0 else 0), after

    @abstractmethod
    def _on_open(self) -> None:
        """This handle is about to write, for the first time since it was made or closed. Called
        before the lock is taken."""

    def _on_new(self, records: list[LogRecord] | None, end: int) -> None:
        """What others appended, and where it ends. Called under the lock; None when it was too much
        to read record by record."""
        self._lease.learn(records)
        if records is None:
            self._file.is_gone = not self._reader.is_in_place
        else:
            for record in records:
                if record.type in ("deleted", "restored"):
                    self._file.is_gone = record.type == "deleted"

    @abstractmethod
    def _on_own(self, records: list[LogRecord], end: int) -> None:
        """What this handle appended, and where it ends. Called under the lock, so in order."""

    @abstractmethod
    def _appended(self, records: list[LogRecord]) -> None:
        """The same, after the lock was given back: for what takes time."""
