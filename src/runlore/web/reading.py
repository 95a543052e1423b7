"""Progress of the sync that `runlore up` runs while it serves the page."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..sync.report import Progress
from .rendering import render


class ReadingState(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a page shows."""

    what: str
    """What is counted: files, then digests."""
    done: int
    total: int
    share: float
    """From 0 to 1, by bytes where they are known."""


class Reading:
    """The progress of a sync, which runs in one thread while pages ask for it in others.

    The terminal shows it too. It is a `sync.report.Progress`.
    """

    def __init__(self, terminal: Progress) -> None:
        self._terminal = terminal
        self._state: ReadingState | None = ReadingState(what="files", done=0, total=0, share=0.0)
        self._size = self._size_done = 0
        self._is_stopped = False

    @property
    def state(self) -> ReadingState | None:
        """The current state; None when all is read."""
        return self._state

    def start(self, total: int, size_bytes: int, what: str = "files") -> None:
        self._size, self._size_done = size_bytes, 0
        self._state = ReadingState(what=what, done=0, total=total, share=0.0)
        self._terminal.start(total, size_bytes, what)

    def advance(self, count: int, size_bytes: int) -> None:
        """Count what is stored. Raises KeyboardInterrupt once it is to stop."""
        if self._is_stopped:
            raise KeyboardInterrupt
        before = self._state
        if before is None:
            return
        self._size_done += size_bytes
        done, total = before.done + count, before.total
        share = self._size_done / self._size if self._size else done / max(1, total)
        self._state = ReadingState(
            what=before.what, done=min(done, total), total=total, share=min(1.0, share)
        )
        self._terminal.advance(count, size_bytes)

    def close(self) -> None:
        self._terminal.close()

    def mark_done(self) -> None:
        """Tell the pages that all is read."""
        self._state = None

    def stop(self) -> None:
        """End the sync as Ctrl-C would: what was committed stays."""
        self._is_stopped = True


def part(request: Request) -> Response:
    """Return the progress note as HTML, for open pages to refresh."""
    return render(request, "_reading.html")


routes = [Route("/x/reading", part)]
