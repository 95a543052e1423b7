"""Follows a log for records of some types, without decoding the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ..model import LogRecord

if TYPE_CHECKING:
    from .run_log import Log

RUN = frozenset({"state.", "checkpoint", "checkpoint."})
"""The types of the records of a run."""


class Follower:
    """Yields new records of some types, each time from where the last call ended.

    A type that ends with a dot stands for all types that begin with it; None for all.
    """

    def __init__(self, log: Log, types: Collection[str] | None = RUN) -> None:
        self._log = log
        self._types = types
        self._position: int | None = None

    def bytes_left(self) -> int:
        """Return the number of bytes that were not read yet.

        It is negative if the log has lost what was read, by a loss of power.
        """
        backend = getattr(self._log, "backend_log", None)
        if backend is None or getattr(self._log, "is_draft", False):
            return 0
        left: int = backend.bytes_after(self._position or 0)
        return left

    def new(self, after: int) -> Iterator[LogRecord]:
        """Yield the records after seq `after`, in order, and the last record of the log.

        Records of other types may be among them.
        """
        backend = getattr(self._log, "backend_log", None)
        # Another implementation of a log: it offers only records.
        if backend is None:
            yield from self._log.records(after=after)
            return
        if getattr(self._log, "is_draft", False):
            return
        if self._position is None:
            self._position = backend.position_of(after)
        found = (
            backend.scan(self._position)
            if self._types is None
            else backend.scan_types(self._position, self._types)
        )
        for record, end in found:
            if record.seq > after:
                yield record
            self._position = end
