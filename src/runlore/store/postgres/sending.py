"""A thread that sends rows to PostgreSQL while the next ones are prepared."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

SWITCH_S = 0.0005
"""The switch interval of threads while rows are sent. A socket takes little at a time, so the
thread that sends has to run often."""

MAX_START_S = 0.1
"""Maximum seconds until a thread that was started runs."""


class Sending:
    """A thread that sends rows once.

    It does not stay, because workers are forked between two syncs, and a process with threads
    should not fork.
    """

    def __init__(self, send: Callable[[Callable[[], bool]], None]) -> None:
        """Take the function that sends. It is given another one: are the rows still wanted?"""
        self.error: BaseException | None = None
        """The error of the thread, known after `wait`."""
        self._is_wanted = True
        self._interval = sys.getswitchinterval()
        self._thread = threading.Thread(
            target=self._run, args=(send,), name="runlore-rows", daemon=True
        )

    def start(self) -> None:
        """Start the thread. Raises RuntimeError if the system has none left."""
        self._thread.start()
        sys.setswitchinterval(SWITCH_S)

    def _run(self, send: Callable[[Callable[[], bool]], None]) -> None:
        try:
            send(lambda: self._is_wanted)
        except BaseException as error:  # Raised again by whoever waits for the thread.
            self.error = error

    def wait(self) -> None:
        """Wait until the rows are sent, or sending failed."""
        # If the start was interrupted, the thread may run in a moment, or never.
        if self._thread.ident is None:
            time.sleep(MAX_START_S)
        if self._thread.ident is not None:
            self._thread.join()
        sys.setswitchinterval(self._interval)

    def stop(self) -> None:
        """Tell the thread to send no further rows, and wait for it."""
        self._is_wanted = False
        self.wait()
