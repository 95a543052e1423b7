"""Waits for what others append to a session: LISTEN, and a lock that tells writers to notify.

Notifying costs every writer of the server a moment, so a writer does so only while someone holds
the session's advisory lock. The server frees the lock when its holder dies.
"""

from __future__ import annotations

import os
import time
import weakref

import psycopg

from ...errors import LogError
from .connections import Connection, Connections, close_own

MAX_SILENCE_S = 2.0
"""Seconds after which a follower looks by itself: a proxy may swallow notifications."""


class Following:
    def __init__(self, connections: Connections, number: int) -> None:
        self._connections = connections
        self._number = number
        self._open: list[Connection] = []
        """The connection that listens, if there is one."""
        weakref.finalize(self, close_own, self._open, os.getpid())
        self._listen()
        self._looked_at = time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Return True if something may have been appended."""
        is_notified = False
        try:
            if not self._open:
                self._listen()
                is_notified = True
            for note in self._open[0].notifies(timeout=seconds, stop_after=1):
                is_notified = is_notified or note.payload == str(self._number)
        except (psycopg.Error, LogError):
            self.close()  # The next call connects again.
            time.sleep(seconds)
        if is_notified or time.monotonic() - self._looked_at > MAX_SILENCE_S:
            self._looked_at = time.monotonic()
            return True
        return False

    def close(self) -> None:
        close_own(self._open, os.getpid())

    def _listen(self) -> None:
        connection = self._connections.open()
        self._open.append(connection)
        try:
            connection.execute("listen runlore_live")
            connection.execute("select pg_advisory_lock_shared(%s)", (channel(self._number),))
        except psycopg.Error as error:
            self.close()
            raise LogError(f"{self._connections.name}: {str(error).splitlines()[0]}") from None


def channel(number: int) -> int:
    """Return the advisory lock that those who follow a session share."""
    return (0x4C << 48) + number
