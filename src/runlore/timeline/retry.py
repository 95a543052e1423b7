"""Which calls repeat one of the last few that failed: the same tool, with the same words and files."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from zlib import crc32

from ..model import SessionEvent

WINDOW = 5
"""A call that repeats a failed one counts as a retry when at most this many calls lie between: later it is a new try."""

Kept = tuple[str | None, int, bool]
"""A call id, a checksum of what was called, and whether it failed. The words stay where redaction can reach them."""


class Recent:
    """The last calls, oldest first: which of them failed, and whether the next one repeats one of these."""

    def __init__(self, calls: Iterable[Kept] = ()) -> None:
        # A call that has not failed is kept as it is until someone asks for its checksum: that takes longer than all else done with it.
        self._calls: deque[Kept | SessionEvent] = deque(calls, maxlen=WINDOW)
        self._fresh_failure = WINDOW

    def is_repeated_by(self, event: SessionEvent) -> bool:
        """And adds this call to them."""
        is_repeat = False
        if self._fresh_failure:  # Most calls follow no failure.
            self._fresh_failure -= 1
            failures = [call[1] for call in self._calls if isinstance(call, tuple) and call[2]]
            is_repeat = bool(failures) and _called(event) in failures
        self._calls.append(event)
        return is_repeat

    def mark_failed(self, call_id: str | None) -> None:
        calls, self._fresh_failure = self._calls, WINDOW
        for n in range(len(calls) - 1, -1, -1):
            call = calls[n]
            if (call[0] if isinstance(call, tuple) else call.call_id) == call_id:
                called = _kept(call)[1]
                calls[n] = (call_id, called, called != 0)
                return

    def kept(self) -> tuple[Kept, ...]:
        """What is to be known of them when the next ones come."""
        return tuple(map(_kept, self._calls))


def _kept(call: Kept | SessionEvent) -> Kept:
    return call if isinstance(call, tuple) else (call.call_id, _called(call), False)


def _called(event: SessionEvent) -> int:
    """The checksum of a call. One of which nothing is known but the tool cannot be told from another, so nothing repeats it: 0."""
    if not event.summary and not event.files:
        return 0
    return crc32(f"{event.tool}\n{event.summary}\n{event.files}".encode(errors="surrogatepass"))
