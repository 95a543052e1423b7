"""Calls that repeat one of the last few that failed: the same tool, with the same words and
files."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from zlib import crc32

from ..model import CALL_KINDS, SessionEvent
from .branch import in_order

WINDOW = 5
"""The number of calls within which a repeated call counts as a retry. Later it is a new attempt."""

RecentCall = tuple[str | None, int, bool]
"""A call id, a checksum of what was called, and True if it failed. The words themselves are not
stored here, so that redaction need not look at them."""


class RecentCalls:
    """The last calls, oldest first.

    Knows which of them failed, and if the next one repeats one of these.
    """

    def __init__(self, calls: Iterable[RecentCall] = ()) -> None:
        # A call that has not failed is kept as an event, because its checksum is seldom needed.
        self._calls: deque[RecentCall | SessionEvent] = deque(calls, maxlen=WINDOW)
        self._fresh_failure = WINDOW

    def add(self, event: SessionEvent) -> bool:
        """Add a call. Return True if it repeats one that failed."""
        is_repeat = False
        if self._fresh_failure:  # Most calls follow no failure.
            self._fresh_failure -= 1
            failures = [call[1] for call in self._calls if isinstance(call, tuple) and call[2]]
            is_repeat = bool(failures) and _checksum(event) in failures
        self._calls.append(event)
        return is_repeat

    def mark_failed(self, call_id: str | None) -> None:
        """Mark the latest call with this id as failed."""
        calls, self._fresh_failure = self._calls, WINDOW
        for n in range(len(calls) - 1, -1, -1):
            call = calls[n]
            if (call[0] if isinstance(call, tuple) else call.call_id) == call_id:
                checksum = _to_recent(call)[1]
                calls[n] = (call_id, checksum, checksum != 0)
                return

    def snapshot(self) -> tuple[RecentCall, ...]:
        """Return the state from which to continue when more events come."""
        return tuple(map(_to_recent, self._calls))


def repeats(events: Iterable[SessionEvent]) -> list[int]:
    """Return the seqs of the events that count as retries."""
    seqs: list[int] = []
    recent = RecentCalls()
    for event in in_order(events):
        kind = event.kind
        if event.origin is not None:
            continue
        if kind == "retry" or (kind in CALL_KINDS and recent.add(event)):
            seqs.append(event.seq)
        if event.is_error and kind not in CALL_KINDS:
            recent.mark_failed(event.call_id)
    return seqs


def _to_recent(call: RecentCall | SessionEvent) -> RecentCall:
    return call if isinstance(call, tuple) else (call.call_id, _checksum(call), False)


def _checksum(event: SessionEvent) -> int:
    """Return the checksum of a call, or 0 if only its tool is known: nothing repeats such a
    call."""
    if not event.summary and not event.files:
        return 0
    return crc32(f"{event.tool}\n{event.summary}\n{event.files}".encode(errors="surrogatepass"))
