"""Follows a log for the records of its run, without decoding the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..model import LogRecord

if TYPE_CHECKING:
    from .run_log import Log

RUN = frozenset({"state.", "checkpoint", "checkpoint."})
"""The types of the records of a run."""


class Follower:
    """Yields the new records of a run, each time from where the last call ended."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._place: int | None = None

    def new(self, after: int) -> Iterator[LogRecord]:
        """Yield the records of the run after seq `after`, in order, and the last record of the log.

        Other records may be among them.
        """
        backend = getattr(self._log, "backend_log", None)
        # Another implementation of a log: it offers only records.
        if backend is None:
            yield from self._log.records(after=after)
            return
        if getattr(self._log, "is_draft", False):
            return
        if self._place is None:
            self._place = backend.place_of(after)
        for record, end in backend.scan_types(self._place, RUN):
            if record.seq > after:
                yield record
            self._place = end
