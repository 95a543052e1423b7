"""A view of a log that its user defines: a value, and a rule for each new record.

    class Votes(msgspec.Struct):
        count: dict[str, int] = {}

        def add(self, record: LogRecord) -> None:
            name = record.payload["for"]
            self.count[name] = self.count.get(name, 0) + 1

    votes = session.fold("votes", Votes, types=["vote"])
    votes.value.count

Bringing the value up to date costs what is new in the log. From time to time a writer saves it
beside the log, so that the next process continues from there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from ..errors import LogError
from ..model import LogRecord
from .run_reader import Follower

if TYPE_CHECKING:
    from .run_log import Log

SAVE_EVERY = 1000
"""Minimum number of new records between two snapshots."""
BYTES_PER_RECORD = 200
"""A large value is saved less often, so that saving costs at most so many bytes a record."""
NEAR_BYTES = 1 << 17
"""Number of bytes that are folded without taking long."""


class View(Protocol):
    """A value that is folded from records. Without arguments its class makes one of an empty log.

    A msgspec.Struct or a dataclass can be saved; other classes are folded anew in each process.
    """

    def add(self, record: LogRecord, /) -> None:
        """Add the next record. Exceptions are raised to the reader of the value."""


V = TypeVar("V", bound=View)


class Fold(Generic[V]):
    """A cursor over a log with the value of a view. Threads may share it."""

    def __init__(
        self,
        log: Log,
        name: str,
        view: type[V],
        types: Collection[str] | None,
        version: int,
        *,
        saves: bool = True,
    ) -> None:
        self.name = name
        self._log = log
        self._view = view
        self._types = None if types is None else frozenset(types)
        self._version = version
        self._saves = saves
        self._families = tuple(type for type in types or () if type.endswith("."))
        self._file = f"fold-{quote(name, safe='')}"
        self._due = SAVE_EVERY
        self._is_folding = False
        self._pid, self._mutex = os.getpid(), threading.RLock()
        self._value: V | None = None
        self._seq = self._saved = -1
        self._follower = Follower(log, self._types)

    @property
    def value(self) -> V:
        """Return the value at the end of the log. Later reads change the same object."""
        return self._caught_up()[1]

    @property
    def seq(self) -> int:
        """Seq of the last record that the value covers, of whatever type."""
        return self._caught_up()[0]

    def save(self) -> None:
        """Save the value for the next process. A failure costs only time, so it is ignored."""
        with self._lock():
            if self._value is None or self._seq <= self._saved or self._is_folding:
                return
            with suppress(TypeError, ValueError, OverflowError, RecursionError, OSError, LogError):
                data = msgspec.msgpack.encode((self._version, self._value))
                self._log.put_snapshot(self._file, self._seq, data)
                self._due = max(SAVE_EVERY, len(data) // BYTES_PER_RECORD)
            self._saved = self._seq

    def start_over(self) -> None:
        """Forget the value: the next access folds the log, or continues from a snapshot."""
        self._follower = Follower(self._log, self._types)
        self._value, self._seq, self._saved = None, -1, -1

    @property
    def is_near(self) -> bool:
        """True if bringing the value up to date reads little of the log."""
        return self._value is not None and self._follower.bytes_left() <= NEAR_BYTES

    @property
    def unsaved(self) -> int:
        """Number of records since the last snapshot."""
        return 0 if self._value is None else self._seq - self._saved

    def _caught_up(self) -> tuple[int, V]:
        with self._lock():
            if self._is_folding:  # A signal handler has interrupted a fold: it folds for itself.
                own = Fold(
                    self._log, self.name, self._view, self._types, self._version, saves=False
                )
                return own._caught_up()
            with self._folding():
                if self._follower.bytes_left() < 0:
                    self.start_over()
                if self._value is None:
                    self._value = self._load()
                for record in self._follower.new(self._seq):
                    if self._wants(record.type):
                        self._value.add(record)
                    self._seq = record.seq
            if self._saves and self._seq - self._saved >= self._due:
                self.save()
            return self._seq, self._value

    def _wants(self, type: str) -> bool:
        return (
            self._types is None
            or type in self._types
            or ("." in type and any(type.startswith(one) for one in self._families))
        )

    def _load(self) -> V:
        """Return the saved value with its seq, or a new one."""
        snapshot = self._log.snapshot(self._file)
        if snapshot is not None:
            with suppress(ValueError, TypeError, RecursionError):
                version, raw = msgspec.msgpack.decode(snapshot[1], type=tuple[int, msgspec.Raw])
                if version == self._version:
                    value = msgspec.msgpack.decode(raw, type=self._view)
                    self._seq = self._saved = snapshot[0]
                    return value
        return self._view()

    @contextmanager
    def _folding(self) -> Iterator[None]:
        """Guard a change of the value. An exception leaves it half changed, so it is dropped."""
        self._is_folding = True
        try:
            yield
        except BaseException:
            self.start_over()
            raise
        finally:
            self._is_folding = False

    def _lock(self) -> threading.RLock:
        # In the child of a fork, a thread of the parent may hold the lock and change the value.
        if self._pid != os.getpid():
            self._pid, self._mutex, self._is_folding = os.getpid(), threading.RLock(), False
            self.start_over()
        return self._mutex
