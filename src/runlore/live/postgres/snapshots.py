"""Saved views: one row for each, which can be deleted at any time."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ...errors import LogError
from ..backend import SavedView

if TYPE_CHECKING:
    from .session_log import PostgresLog


class PostgresSnapshots:
    def __init__(self, log: PostgresLog) -> None:
        self._log = log

    def read(self, name: str) -> SavedView | None:
        # A server that lost its last transactions may have kept the view of a record that is gone.
        rows = self._log.ask(
            "select view.seq, data from live_snapshots view join live_sessions on number = session"
            " where session = %s and name = %s and view.seq <= last_seq",
            (self._log.known_number(), name),
        )
        return SavedView(rows[0][0], rows[0][0] + 1, bytes(rows[0][1])) if rows else None

    def write(self, name: str, seq: int, data: bytes, folded: tuple[int, int] | None) -> None:
        # A failure costs only time later, so it is not an error.
        with suppress(LogError), self._log.connections.borrow() as connection:
            connection.execute(
                "insert into live_snapshots values (%s, %s, %s, %s) on conflict (session, name)"
                " do update set seq = excluded.seq, data = excluded.data"
                " where live_snapshots.seq <= excluded.seq",
                (self._log.known_number(), name, seq, data),
            )

    def delete_all(self) -> None:
        with self._log.connections.borrow() as connection:
            connection.execute(
                "delete from live_snapshots where session = %s", (self._log.known_number(),)
            )
