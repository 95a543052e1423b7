"""The contract of a backend that stores sessions, and the values that pass through it.

`LogBackend` is a set of sessions, `SessionLog` the log of one of them. A folder (`folder/`) and a
server (`postgres/`) implement both, with one suite of tests. Nothing here knows what a record
means.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from ..errors import LogError
from ..model import LogRecord, Plain

Durability = Literal["process", "power"]
Item = tuple[str, dict[str, Any], str | None]
"""Type, payload and key of a record to append."""

LOCK_TIMEOUT_S = 30.0
"""Maximum time to wait for the log's lock, which other writers hold for each of their appends.

Only a process that was stopped in the middle of one, or a disk that hangs, holds it for so long.
"""

LEASE_S = 60.0
"""Time after which a lease on a server is free, unless its holder renews it.

A folder's lease ends with its holder's process.
"""


class SessionInfo(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about a session that need no reading of its conversation."""

    id: str
    title: str
    provider: str | None = None
    model: str | None = None
    cwd: str | None = None
    api_base: str | None = None
    agent: str | None = None
    parent: str | None = None
    """Id of the session that started this one, for a subagent."""
    call: str | None = None
    """Id of the tool call there."""
    status: str | None = None
    created_at: datetime
    updated_at: datetime
    messages: int = 0
    seq: int = -1
    origin: dict[str, Any] | None = None
    message_format_version: int = 1
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


FIELDS = frozenset(
    {"title", "provider", "model", "cwd", "api_base", "agent", "parent", "call", "status"}
)
"""The fields that `where` can name. Other names are looked for in `extra`."""


def check_comparable(where: Mapping[str, Any]) -> None:
    """Raise LogError for a name or value that `where` cannot compare."""
    for name, value in where.items():
        if '"' in name or not (value is None or isinstance(value, str | int | float)):
            raise LogError(f"where {name!r}: sessions are compared by texts, numbers and None only")


def has_facts(info: SessionInfo, where: Mapping[str, Any]) -> bool:
    """Return True if a session matches `where`."""
    return all(
        value == (getattr(info, name) if name in FIELDS else info.extra.get(name))
        for name, value in where.items()
    )


class Problem(Plain, frozen=True):
    """A part of a log that is no record, or is out of order, and how it was treated."""

    offset: int
    size_bytes: int
    reason: str
    lost: tuple[int, int] | None = None
    """First and last seq of the records that are lost here.

    None if none is, or if the log was not read up to the next record yet.
    """


class Holder(Plain, frozen=True):
    """The holder of a lease."""

    owner: str
    pid: int
    host: str

    def __str__(self) -> str:
        return f"{self.owner!r} (pid {self.pid} on {self.host})"


class SavedView(msgspec.Struct, frozen=True):
    """A view as of record `seq`, and the position from which to read on."""

    seq: int
    position: int
    data: bytes


Look = Callable[[str], tuple[SessionInfo, int] | None]
"""Return the facts in a session's log and the position up to which they count; None without one."""


class Listener(Protocol):
    """What a log calls while it appends: in order, with its mutex held."""

    def on_own(self, records: list[LogRecord], end: int) -> None:
        """Take the records that were just appended, and the position behind them."""

    def on_new(self, records: list[LogRecord] | None, end: int) -> None:
        """Take the records of other writers; None if they were not read one by one."""


class Lease(Protocol):
    """The exclusive lease of a session, seen from one handle, whether it holds it or not."""

    @property
    def is_ours(self) -> bool:
        """True if this handle holds the lease, as far as it knows."""

    def take(self, owner: str, take_over: str | None) -> None:
        """Acquire the lease. Raises SessionBusy unless it is free, or held by `take_over`."""

    def release(self) -> None:
        """Release the lease if this handle holds it."""

    def holder(self) -> Holder | None:
        """Return the current holder, whoever it is."""

    def run_out(self) -> Holder | None:
        """Return the last holder if it neither released the lease nor renewed it in time."""


class Blobs(Protocol):
    """Data that is too large for the log of a session."""

    def put(self, name: str, data: bytes) -> None:
        """Store data under a name, its SHA-256. It is there before the record that refers to it."""

    def get(self, name: str) -> bytes:
        """Return the data. Raises LogError when it is missing or cannot be read."""

    def delete(self, name: str) -> None:
        """Delete the data for good, if it is there. Raises LogError when it cannot be deleted."""


class Snapshots(Protocol):
    """Saved views of a session. Deleting one is always safe; the next read is slower."""

    def read(self, name: str) -> SavedView | None:
        """Return a view, or None without one that can be trusted."""

    def write(self, name: str, seq: int, data: bytes, folded: tuple[int, int] | None) -> None:
        """Replace a view. `folded` are the positions between which its maker has read the log."""

    def delete_all(self) -> None:
        """Delete all views: they may contain redacted content."""


class SessionLog(Protocol):
    """The log of one session: records with seqs that grow by one.

    A position is a number that grows along the log, at which reading can start. Everything that is
    appended in one call is there as a whole or not at all.
    """

    @property
    def lease(self) -> Lease: ...

    @property
    def blobs(self) -> Blobs: ...

    @property
    def snapshots(self) -> Snapshots: ...

    is_inherited: bool
    """True in a process created by fork, until it has dropped the views that it inherited."""

    @property
    def mutex(self) -> threading.RLock:
        """Guards what the threads of this handle derive from the log."""

    @property
    def problems(self) -> list[Problem]:
        """What reading and appending had to skip or move away so far."""

    def exists(self) -> bool:
        """Return True if the session is there. It may still be empty."""

    def create(self, items: Sequence[Item]) -> list[LogRecord]:
        """Create the session with its first records. Raises Conflict when it exists."""

    def append(self, items: Sequence[Item], expect: int | None) -> list[LogRecord]:
        """Append records, all or none, and return them; for a known key, its earlier record.

        Raises Conflict when `expect` is not the last seq, or a key was used for something else;
        SessionBusy, LeaseLost and SessionNotFound when this handle may not write.
        """

    def overwrite(self, seq: int, payloads: Sequence[dict[str, Any]]) -> LogRecord:
        """Overwrite the record's payload with the first of these that fits in its bytes.

        Raises LogError when none does.
        """

    def is_current(self, *, has_key: bool = False) -> bool:
        """Return True if an append would neither wait nor read much of the log first."""

    def scan(self, position: int = 0) -> Iterator[tuple[LogRecord, int]]:
        """Yield the records from a position on, each with the position behind it."""

    def scan_types(self, position: int, types: Collection[str]) -> Iterator[tuple[LogRecord, int]]:
        """Yield at least the records of these types, and the last record.

        A type that ends with a dot stands for all that begin with it.
        """

    def collect(self, low: int, high: int, types: frozenset[str]) -> list[LogRecord]:
        """Return the records of some types from seq `low` to `high`."""

    def tail(self, count: int) -> list[LogRecord]:
        """Return the last records, oldest first, without reading the others."""

    def position_of(self, seq: int) -> int:
        """Return a position from which `scan` comes to record `seq` soon."""

    def find_id(self, id: str) -> LogRecord | None:
        """Return the record with an id."""

    def bytes_after(self, position: int) -> int:
        """Return about how many bytes follow a position; negative if the log was cut before it."""

    def wait(self, seconds: float) -> bool:
        """Wait at most so long for others to append. Return False if they certainly did not."""

    def sync(self) -> None:
        """Wait until everything appended so far survives a loss of power."""

    def close(self) -> None:
        """Release the lease and whatever this handle holds open."""


class LogBackend(Protocol):
    """A set of sessions. Their ids are checked by the caller."""

    @property
    def name(self) -> str:
        """What messages call it. It has no password in it."""

    @property
    def path(self) -> Path:
        """The folder of the sessions. Raises LogError if this backend has none."""

    def log(self, id: str, listener: Listener) -> SessionLog:
        """Return the log of a session, whether it exists or not."""

    def folder_of(self, id: str) -> Path:
        """Return the folder of a session. Raises LogError if this backend has none."""

    def creating(self) -> AbstractContextManager[Callable[[SessionInfo, int], None]]:
        """Return a context in which a session is created; it takes the facts for the list."""

    def list(
        self,
        look: Look,
        *,
        cwd: str | None,
        status: str | None,
        agent: str | None,
        where: Mapping[str, Any] | None,
        limit: int | None,
        offset: int,
    ) -> list[SessionInfo]:
        """Return the sessions, newest first, each as its log is now.

        Shared values are left out. `where` compares metadata by name.
        """

    def update(self, info: SessionInfo, end: int) -> None:
        """Store the facts in a log up to a position, for the list. A failure costs only time."""

    def copy(self, source: str, target: str, records: Iterable[LogRecord]) -> None:
        """Create a session with these records and all blobs of `source`, whole or not at all."""

    def discard(self, id: str) -> None:
        """Move a session to the trash."""

    def trash(self) -> Sequence[str]:
        """Return the ids in the trash, the last discarded first."""

    def restore(self, id: str) -> None:
        """Restore what was discarded last under this id. Raises SessionNotFound, or Conflict."""

    def empty_trash(self) -> int:
        """Delete what is in the trash for good and return the number of sessions."""

    def purge(self, id: str) -> bool:
        """Delete for good what the trash and the list have of a session; False if nothing."""

    def scrub(self) -> None:
        """Erase old metadata from the list."""

    def reindex(self) -> None:
        """Forget what the list remembers of the logs."""

    def close(self) -> None:
        """Close what is shared by the sessions. They are closed separately."""
