"""The connections of one store: each is lent for a statement or a transaction.

A signal handler, or another thread, that needs one meanwhile gets another one. Errors of the server
and of the network become a LogError, which never has a password in it.
"""

from __future__ import annotations

import os
import select
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8Dumper

from ...errors import LogError, SessionBusy

OPTIONS: dict[str, Any] = dict(
    autocommit=True, connect_timeout=10, application_name="runlore live",
    # The loss of a server is noticed within a minute, also while something is sent to it.
    keepalives_idle=30, keepalives_interval=10, keepalives_count=3,
    tcp_user_timeout=60_000,
)  # fmt: skip
SETTINGS = (
    "select set_config('timezone', 'UTC', false), set_config('statement_timeout', '1min', false),"
    " set_config('idle_in_transaction_session_timeout', '1min', false),"
    " set_config('client_encoding', 'UTF8', false), set_config('jit', 'off', false)"
)
MAX_IDLE = 4
"""Maximum number of connections that are kept open while nobody needs them."""

Connection = psycopg.Connection[Any]


class ConnectionLost(LogError):
    """The connection was lost while a statement ran."""

    code = "log_connection_lost"
    hint = "try again when the server is there; with a key nothing is appended twice"


class Connections:
    """`name` is the address as messages show it."""

    def __init__(self, url: str, lock_timeout_s: float) -> None:
        try:
            parts = conninfo_to_dict(url)
        except psycopg.ProgrammingError:  # Its text quotes the address, with the password.
            raise LogError(
                "the address of the server cannot be read; write"
                " postgresql://USER:PASSWORD@HOST/DATABASE, and special characters as %XX"
            ) from None
        self.name = _shown(parts)
        self._url = url
        self._lock_timeout_s = lock_timeout_s
        self._password = str(parts.get("password") or "")
        self._idle: list[Connection] = []
        self._pid = os.getpid()
        weakref.finalize(self, close_own, self._idle, self._pid)

    @contextmanager
    def borrow(self) -> Iterator[Connection]:
        """Lend a connection. Raises LogError, or ConnectionLost."""
        connection = self._take()
        try:
            yield connection
        except psycopg.errors.UniqueViolation:
            raise
        except psycopg.Error as error:
            raise self._as_log_error(error, connection) from None
        finally:
            self._give_back(connection)

    def open(self) -> Connection:
        """Return a new connection, which the caller closes."""
        try:
            connection = psycopg.connect(self._url, **OPTIONS)
            try:
                # All integers have one type, so that each statement has one plan.
                connection.adapters.register_dumper(int, Int8Dumper)
                connection.execute(SETTINGS)
                timeout_ms = max(1, int(self._lock_timeout_s * 1000))
                connection.execute(
                    "select set_config('lock_timeout', %s, false)", (str(timeout_ms),)
                )
            except BaseException:
                connection.close()
                raise
        except psycopg.Error as error:
            raise LogError(f"{self.name}: {self._words(error)}") from None
        return connection

    def close(self) -> None:
        self._forget_inherited()
        close_own(self._idle, self._pid)

    def _take(self) -> Connection:
        self._forget_inherited()
        while self._idle:
            connection = self._idle.pop()
            if _is_usable(connection):
                return connection
            connection.close()
        return self.open()

    def _give_back(self, connection: Connection) -> None:
        is_idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if is_idle and len(self._idle) < MAX_IDLE and self._pid == os.getpid():
            self._idle.append(connection)
        elif self._pid == os.getpid():
            connection.close()

    def _forget_inherited(self) -> None:
        if self._pid != os.getpid():
            _INHERITED.append(self._idle)  # Closing them would end those of the parent.
            self._idle, self._pid = [], os.getpid()
            weakref.finalize(self, close_own, self._idle, self._pid)

    def _as_log_error(self, error: psycopg.Error, connection: Connection) -> LogError:
        if isinstance(error, psycopg.errors.LockNotAvailable):
            return SessionBusy(
                f"{self.name}: another process has locked the session for"
                f" {self._lock_timeout_s:g} s; nothing was appended"
            )
        if connection.closed or isinstance(error, psycopg.errors.AdminShutdown):
            return ConnectionLost(f"{self.name}: the connection was lost: {self._words(error)}")
        if isinstance(error, psycopg.errors.InsufficientPrivilege | psycopg.errors.UndefinedTable):
            return LogError(
                f"{self.name}: {self._words(error)}; this role needs the tables live_* and the"
                " right to write them"
            )
        return LogError(f"{self.name}: {self._words(error)}")

    def _words(self, error: Exception) -> str:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        words = " ".join(lines[0].split()).replace(self._url, self.name)
        return words.replace(self._password, "…") if self._password else words


def close_own(connections: list[Connection], pid: int) -> None:
    """Close connections in the process that opened them."""
    while connections and pid == os.getpid():
        connections.pop().close()


def _is_usable(connection: Connection) -> bool:
    """Return False if the server has closed the connection, or has anything else to say of it."""
    if connection.closed:
        return False
    with suppress(OSError, ValueError):
        return not select.select([connection.fileno()], [], [], 0)[0]
    return False


def _shown(parts: dict[str, Any]) -> str:
    """Return the address without password and options."""
    host, port, name = (str(parts.get(key) or "") for key in ("host", "port", "dbname"))
    if "@" in f"{host}{port}{name}":  # A password with an unescaped character is cut there.
        return "postgresql://…"
    user = f"{quote(str(parts['user']))}@" if parts.get("user") else ""
    place = "" if host.startswith("/") else host
    return f"postgresql://{user}{place}{f':{port}' if port else ''}/{name}"


_INHERITED: list[list[Connection]] = []
