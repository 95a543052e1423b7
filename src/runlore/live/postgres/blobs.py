"""Data too large for a record, in a row of its own that is named by the hash of its content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import LogError
from .connections import Connection

if TYPE_CHECKING:
    from .session_log import PostgresLog

MAX_BYTES = 1 << 29
"""Maximum size of a blob. A value of PostgreSQL has less than 1 GB, which includes its escapes."""


class PostgresBlobs:
    def __init__(self, log: PostgresLog) -> None:
        self._log = log
        self._waiting: dict[str, bytes] = {}
        """Blobs of a draft. They are stored with its first record."""

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def put(self, name: str, data: bytes) -> None:
        if len(data) > MAX_BYTES:
            raise LogError(
                f"{self._log.id}: an output of {len(data)} bytes is too large; the server takes"
                f" {MAX_BYTES}"
            )
        number = self._log.number
        if number is None and not self._log.exists():
            self._waiting[name] = data
            return
        with self._log.connections.borrow() as connection:
            _insert(connection, self._log.known_number(), name, data)

    def delete(self, name: str) -> None:
        self._waiting.pop(name, None)
        with self._log.connections.borrow() as connection:
            connection.execute(
                "delete from live_blobs where session = %s and name = %s",
                (self._log.known_number(), name),
            )

    def get(self, name: str) -> bytes:
        if name in self._waiting:
            return self._waiting[name]
        rows = self._log.ask(
            "select data from live_blobs where session = %s and name = %s",
            (self._log.known_number(), name),
        )
        if not rows:
            raise LogError(f"{self._log.id}: the output {name} is not there")
        return bytes(rows[0][0])

    def send(self, connection: Connection, number: int) -> None:
        """Store what waits, in the caller's transaction."""
        for name, data in self._waiting.items():
            _insert(connection, number, name, data)

    def forget_waiting(self) -> None:
        self._waiting.clear()


def _insert(connection: Connection, number: int, name: str, data: bytes) -> None:
    connection.execute(
        "insert into live_blobs values (%s, %s, %s) on conflict do nothing", (number, name, data)
    )
