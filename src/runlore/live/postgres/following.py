"""Waits for what others append to a session: LISTEN, and a lock that tells writers to notify.

Notifying costs every writer of the server a moment, so a writer does so only while someone holds
the session's advisory lock. The server frees the lock when its holder dies.
"""

from __future__ import annotations

import os
import time

import psycopg

from ...errors import LogError
from .connections import Connection, Connections

MAX_SILENCE_S = 2.0
"""Seconds after which a follower looks by itself: a proxy may swallow notifications."""


class Following:
    def __init__(self, connections: Connections, number: int) -> None:
        self._connections = connections
        self._number = number
        self._connection: Connection | None = self._listen()
        self._pid = os.getpid()
        self._looked_at = time.monotonic()

    def wait(self, seconds: float) -> bool:
        """Return True if something may have been appended."""
        is_notified = False
        try:
            if self._connection is None:
                self._connection = self._listen()
                is_notified = True
            for note in self._connection.notifies(timeout=seconds, stop_after=1):
                is_notified = is_notified or note.payload == str(self._number)
        except psycopg.Error:
            self.close()  # The next call connects again.
            time.sleep(seconds)
        if is_notified or time.monotonic() - self._looked_at > MAX_SILENCE_S:
            self._looked_at = time.monotonic()
            return True
        return False

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __del__(self) -> None:
        if getattr(self, "_pid", None) == os.getpid():
            self.close()

    def _listen(self) -> Connection:
        from .session_log import channel

        connection = self._connections.open()
        try:
            connection.execute("listen runlore_live")
            connection.execute("select pg_advisory_lock_shared(%s)", (channel(self._number),))
        except psycopg.Error as error:
            connection.close()
            raise LogError(f"{self._connections.name}: {str(error).splitlines()[0]}") from None
        return connection
