"""An open session log: append a record, read records, follow, store snapshots.

The views use `record`, `records` and the snapshots. Nothing here knows the types of records.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..errors import Conflict, LogError
from ..model import LogRecord
from . import codec
from .backend import Durability, Item, LogBackend, Problem


class Handle(ABC):
    """A log that any number of processes may have open.

    Threads may share a handle; it survives a fork.
    """

    def __init__(
        self,
        backend: LogBackend,
        id: str,
        *,
        durability: Durability = "process",
        readonly: bool = False,
        first: dict[str, Any] | None = None,
        joins: bool = False,
    ) -> None:
        self.id = id
        self.readonly = readonly
        self.durability = durability
        self.backend_log = backend.log(id, self)
        """The log in its backend: for the views of this package."""
        self._backend = backend
        self._first = first
        self._joins = joins
        self._creating = threading.Lock()
        self._positions: dict[int, int] = {}

    @property
    def path(self) -> Path:
        """The folder of the session. Raises LogError if it is on a server."""
        return self._backend.folder_of(self.id)

    def record(
        self,
        type: str,
        payload: dict[str, Any],
        *,
        key: str | None = None,
        expect: int | None = None,
    ) -> LogRecord:
        """Append one record and return it. It then survives what `durability` says.

        With a `key` that was used before, the earlier record is returned and nothing is appended;
        Conflict is raised when it has another type or payload. With `expect`, the last seq that
        the caller knows of, Conflict is raised when the log has grown since.
        """
        if not type or not isinstance(type, str) or not isinstance(payload, dict):
            raise LogError(f"{self.id}: a record needs a type, and a payload that is a dict")
        codec.check_plain(payload)
        return self._record(type, payload, key, expect)

    def _record(
        self, type: str, payload: dict[str, Any], key: str | None, expect: int | None
    ) -> LogRecord:
        """Append one record whose payload was checked."""
        if key is not None or self.readonly or self._first is not None:
            return self.record_many([(type, payload, key)], expect=expect)[-1]
        records = self.backend_log.append([(type, payload, key)], expect)
        self._appended(records)
        return records[-1]

    def record_many(self, items: Sequence[Item], *, expect: int | None = None) -> list[LogRecord]:
        """Append records, all or none: they share one line. `items` are (type, payload, key).

        An item whose key was used before is not appended again: its earlier record is returned
        instead. Raises Conflict when that has another type or payload.
        """
        if not items:
            return []
        if self.readonly:
            raise LogError(f"{self.id}: opened for reading only")
        for type_, payload, key in items:
            if not isinstance(type_, str) or not type_ or not isinstance(payload, dict):
                raise LogError(f"{self.id}: a record needs a type, and a payload that is a dict")
            # It could be written, but not read again.
            if key is not None and not isinstance(key, str):
                raise LogError(f"{self.id}: the key {key!r} is not a text")
            codec.check_plain(payload)
        if self._first is not None:
            return self._begin(items, expect)
        records = self.backend_log.append(items, expect)
        self._appended(records)
        return records

    def appends_at_once(self, *, has_key: bool = False) -> bool:
        """Return True if an append now neither waits for the disk nor reads much of the log."""
        return (
            self.durability == "process"
            and self._first is None
            and self.backend_log.is_current(has_key=has_key)
        )

    def records(self, after: int = -1) -> Iterator[LogRecord]:
        """Yield the records after seq `after`, in order. Does not read what lies before."""
        if self.is_draft:
            return iter(())
        if (position := self._positions.get(after)) is not None:
            return (record for record, _ in self.backend_log.scan(position) if record.seq > after)
        position = self.backend_log.position_of(after)
        return (record for record, _ in self.backend_log.scan(position) if record.seq > after)

    def tail(self, count: int = 50) -> list[LogRecord]:
        """Return the last records, oldest first, read from the end of the file."""
        return [] if self.is_draft else self.backend_log.tail(count)

    def follow(
        self,
        after: int | None = None,
        *,
        poll_s: float = 0.05,
        timeout_s: float | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[LogRecord]:
        """Yield records as anyone appends them, from now on or after seq `after`.

        Ends when `stop` returns True, or after `timeout_s` without a new record.
        """
        position, last = self._start_of_following(after)
        quiet_since, may_be_new = time.monotonic(), True
        while True:
            is_read = may_be_new and not self.is_draft
            for record, end in self.backend_log.scan(position) if is_read else ():
                position = end
                if record.seq > last:
                    last, quiet_since = record.seq, time.monotonic()
                    yield record
            if (stop and stop()) or (
                timeout_s is not None and time.monotonic() - quiet_since >= timeout_s
            ):
                return
            may_be_new = self.backend_log.wait(poll_s)

    @property
    def format(self) -> int:
        """Version of the log format, from the first record."""
        first = next((record for record, _ in self.backend_log.scan()), None)
        version = first.payload.get("version") if first is not None else None
        return version if isinstance(version, int) and first and first.type == "session" else 0

    @property
    def is_draft(self) -> bool:
        """True while nothing is on disk. The first append creates the session."""
        return self._first is not None and not (self._joins and self._exists_by_now())

    @property
    def has_begun(self) -> bool:
        """False for a draft and for an empty log, which is being created or was left by a crash."""
        return not self.is_draft and self.backend_log.bytes_after(0) > 0

    @property
    def problems(self) -> list[Problem]:
        """The bytes that reading and appending had to skip or move away so far, with offsets."""
        return self.backend_log.problems

    def check(self) -> list[Problem]:
        """Read the whole log and return what is damaged in it, with the records that are lost."""
        for _ in self.backend_log.scan() if not self.is_draft else ():
            pass
        return self.problems

    @property
    def last_seq(self) -> int:
        """Seq of the last record, -1 without any."""
        last = self.tail(1)
        return last[-1].seq if last else -1

    def find(self, record: LogRecord | int | str) -> LogRecord:
        """Return a record by seq, id, or itself. Raises LogError when the log has none."""
        name = record.id if isinstance(record, LogRecord) else record
        match = self._find_seq(name) if isinstance(name, int) else self._find_id(name)
        if match is None:
            raise LogError(f"{self.id}: no record {str(name)[:80]!r}")
        return match

    def _find_seq(self, seq: int) -> LogRecord | None:
        match = next(self.records(seq - 1), None) if seq >= 0 else None
        return match if match is not None and match.seq == seq else None

    def _find_id(self, id: str) -> LogRecord | None:
        if self.is_draft:
            return None
        return self.backend_log.find_id(id)

    def snapshot(self, name: str) -> tuple[int, bytes] | None:
        """Return a snapshot with its seq, or None when there is none that can be trusted."""
        if self.is_draft:
            return None
        snapshot = self.backend_log.snapshots.read(name)
        if snapshot is None:
            return None
        self._positions = {
            **dict(list(self._positions.items())[-8:]),
            snapshot.seq: snapshot.position,
        }
        return snapshot.seq, snapshot.data

    def put_snapshot(self, name: str, seq: int, data: bytes) -> None:
        """Store a view as of record `seq`. It can be deleted at any time."""
        if not (self.readonly or self.is_draft or seq < 0):
            self.backend_log.snapshots.write(name, seq, data, None)

    def sync(self) -> None:
        """Wait until everything appended so far is on the disk, whatever the durability."""
        if not self.is_draft:
            self.backend_log.sync()

    def close(self) -> None:
        self.backend_log.close()

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
        """Do the first append of a draft: the session's own record and these, in one line."""
        with self._creating:
            if self._first is not None:
                if expect not in (None, -1):
                    raise Conflict(
                        f"{self.id}: expected to follow record {expect}, but nothing is there yet",
                        expect,
                        -1,
                    )
                try:
                    return self._create_log([("session", self._first, None), *items])[1:]
                except Conflict:
                    if not self._joins:
                        raise Conflict(f"{self.id}: a session with this id exists") from None
                    self._join()
                except OSError as error:
                    raise LogError(
                        f"{self._backend.name}/{self.id}: {error.strerror}; the session was not"
                        " made"
                    ) from None
        return self.record_many(items, expect=expect)  # Another thread or process was first.

    def _exists_by_now(self) -> bool:
        """Return True if someone else has created the session of this draft.

        This is then a handle of it.
        """
        if not self._creating.acquire(blocking=False):  # This thread is creating it.
            return False
        try:
            log = self.backend_log
            if self._first is not None and log.exists() and log.bytes_after(0) > 0:
                self._join()
            return self._first is None
        finally:
            self._creating.release()

    def _join(self) -> None:
        """Turn the draft into a handle of the session that someone else has created."""
        self._first = None

    @abstractmethod
    def _create_log(self, items: Sequence[Item]) -> list[LogRecord]:
        """Create the folder and the log with its first records. Implemented by the session."""

    def _start_of_following(self, after: int | None) -> tuple[int, int]:
        if self.is_draft:
            return 0, -1 if after is None else after
        if after is None:
            last = self.backend_log.tail(1)
            after = last[-1].seq if last else -1
        return self.backend_log.position_of(after), after

    @abstractmethod
    def on_new(self, records: list[LogRecord] | None, end: int) -> None:
        """See `Listener`."""

    @abstractmethod
    def on_own(self, records: list[LogRecord], end: int) -> None:
        """See `Listener`."""

    @abstractmethod
    def _appended(self, records: list[LogRecord]) -> None:
        """Called with the records of this handle after the lock was released, for slower work."""
