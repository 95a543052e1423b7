"""A connection to PostgreSQL that understands the SQL of `_sql.py`.

Placeholders are `?` and `?1`; a NUL, which no text of PostgreSQL can hold, becomes the sign for it; what the server or the
network is to blame for becomes a StoreError. Knows no table.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.types.numeric import Int8Dumper

from ..errors import StoreError, StoreLost
from ._sql import plain

if TYPE_CHECKING:
    from ._postgres_pool import Share

PATIENCE_S = 60
"""How long a server may be away before a sync gives up on it."""

SETTINGS = {
    "statement_timeout": "10min",  # A merge of the index over words at the end of a large first sync takes a minute or two.
    "idle_in_transaction_session_timeout": "2min",  # A machine that was closed in mid-sync must not keep the others waiting.
    "enable_seqscan": "off",  # Every question here has an index; a scan of the words would unpack all of them.
    "plan_cache_mode": "force_generic_plan",  # The same statements come again and again, and none depends on what it is given.
    "jit": "off",  # Compiling takes longer than any answer.
    "work_mem": "64MB",
    "maintenance_work_mem": "256MB",
}

FOR_READING = {"default_transaction_read_only": "on", "statement_timeout": "2min"}

OPTIONS: dict[str, Any] = dict(
    autocommit=True, connect_timeout=10, application_name="runlore",
    keepalives_idle=30, keepalives_interval=10, keepalives_count=3,  # A server that vanished is noticed within a minute.
)  # fmt: skip

FEW = 100
"""So many rows are inserted one by one; more of them by COPY."""

_NUMBERS = re.compile(r"carray\((\?\d*)\)")
_PLACE = re.compile(r"\?(\d*)")
_BYTES = re.compile(r"\bx'([0-9a-f]*)'")
_AWAY = (psycopg.errors.CannotConnectNow, psycopg.errors.AdminShutdown, psycopg.errors.CrashShutdown)
_AGAIN = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected, psycopg.errors.IdleInTransactionSessionTimeout)


class Database:
    """One connection, or for many readers of a process one of those that they share, for as long as it is needed. Commits every statement
    by itself unless a transaction was begun."""

    def __init__(self, url: str, name: str, *, read_only: bool = False, is_shared: bool = False, patience_s: float = 0) -> None:
        self.name = name
        self._url, self._read_only = url, read_only
        self._has_begun = False
        self._later: list[tuple[str, Sequence[Any]]] = []
        """Statements that change something and answer nothing. They are sent with the next question: each round trip takes as long as
        the server, or the network, needs to wake up."""
        self._rows: dict[str, list[Sequence[Any]]] = {}
        """Rows that are to be added, by table. They are sent with the next question as well, and before what waits."""
        self.sent = 0
        """How often such rows have been sent."""
        self._last: psycopg.Cursor[Any] | None = None
        self._share: Share | None = None
        if is_shared:
            from ._postgres_pool import Share

            self._share = Share(url, OPTIONS, self._set_up)
        else:
            self._connection = self._connect_within(patience_s)

    def _connect(self) -> psycopg.Connection[Any]:
        try:
            connection = psycopg.connect(self._url, **OPTIONS)
            self._set_up(connection)
        except psycopg.Error as error:
            raise StoreError(f"{self.name}: {_first_line(error)}") from None
        return connection

    def _set_up(self, connection: psycopg.Connection[Any]) -> None:
        settings = SETTINGS | (FOR_READING if self._read_only else {})
        connection.adapters.register_dumper(int, Int8Dumper)  # One plan for each statement, whatever the size of its numbers.
        connection.execute("select " + ", ".join(f"set_config('{key}', '{value}', false)" for key, value in settings.items()))

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """With a connection for one statement, when there is none for a transaction."""
        if self._share is None or self._has_begun:
            yield
            return
        with self.told():
            self._connection = self._share.take()
        try:
            yield
        finally:
            self._share.give_back(self._connection)

    def connect_again(self) -> None:
        """After a connection was lost. Waits for a server that is being restarted. Raises StoreError."""
        if self._share is None:
            self._connection.close()
            self._connection = self._connect_within(PATIENCE_S)

    def _connect_within(self, seconds: float) -> psycopg.Connection[Any]:
        until = time.monotonic() + seconds
        while True:
            try:
                return self._connect()
            except StoreError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> Any:
        if sql.startswith("rollback"):
            self._later.clear()
            self._rows.clear()
        if self._has_begun and is_plain_write(sql):
            self._send_rows()
            self._later.append((sql, bindings))
            return None
        for attempt in range(2):
            try:
                with self._connected():
                    return self._run(sql, bindings)
            except StoreLost:
                if self._has_begun or attempt:
                    raise
                self.connect_again()  # Nothing was begun, so nothing is lost by asking again.
        raise AssertionError("returned or raised")

    def _run(self, sql: str, bindings: Sequence[Any]) -> psycopg.Cursor[Any]:
        """The statement, and before it those that wait, in one round trip."""
        self._send_rows()
        waiting, self._later = self._later, []
        with self.told():
            if not waiting:
                return self._connection.execute(translate(sql), _bind(sql, bindings), binary=True)
            with self._connection.pipeline():
                for early, values in waiting:
                    self._last = self._connection.execute(translate(early), _bind(early, values))
                return self._connection.execute(translate(sql), _bind(sql, bindings), binary=True)

    def script(self, sql: str) -> None:
        """Several statements, without values."""
        self.flush()
        with self.told():
            self._connection.execute(sql)

    def ask(self, questions: Sequence[tuple[str, Sequence[Any]]]) -> list[list[Any]]:
        """The answers to several questions, in one round trip."""
        self.flush()
        with self._connected(), self.told(), self._connection.pipeline():
            cursors = [self._connection.execute(translate(sql), _bind(sql, values), binary=True) for sql, values in questions]
            return [cursor.fetchall() for cursor in cursors]

    def flush(self) -> None:
        """Sends what waits. Only then is it known that the database takes it."""
        self._send_rows()
        if self._later:
            self._run("select 1", ())

    def _send_rows(self) -> None:
        if not self._rows:
            return
        waiting, self._rows = self._rows, {}
        self.sent += 1
        with self.told():
            with self._connection.pipeline():
                for into, rows in waiting.items():
                    if len(rows) <= FEW:
                        sql = f"insert into {into} values (%s{', %s' * (len(rows[0]) - 1)})"
                        for row in rows:
                            self._connection.execute(sql, row)
            for into, rows in waiting.items():
                if len(rows) > FEW:
                    with self._connection.cursor() as cursor, cursor.copy(f"copy {into} from stdin") as copy:
                        for row in rows:
                            copy.write_row(row)

    def begin(self, words: str = "") -> None:
        if self._share is not None:
            with self.told():
                self._connection = self._share.take()
            self._has_begun = True
            try:
                self._run(f"begin {words}", ())
            except BaseException:
                self._end()
                raise
            return
        self.execute(f"begin {words}")
        self._has_begun = True

    def commit(self) -> None:
        self.execute("commit")
        self._end()

    def rollback(self) -> None:
        """Ends the transaction, also one that was lost with its connection."""
        self._later.clear()
        self._rows.clear()
        if self._has_begun and not self._connection.closed:
            with suppress(StoreLost):
                self._run("rollback", ())
        self._end()

    def _end(self) -> None:
        if self._has_begun and self._share is not None:
            self._share.give_back(self._connection)
        self._has_begun = False

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        values = list(rows)
        if self._has_begun and len(values) <= FEW:
            self._send_rows()
            self._later += [(sql, row) for row in values]
        elif values:
            self.flush()
            with self.told(), self._connection.cursor() as cursor:
                cursor.executemany(translate(sql), [_bind(sql, row) for row in values])

    def copy(self, into: str, rows: Sequence[Sequence[Any]]) -> None:
        """Adds rows to a table, with its columns, or to those that `into` names: a few together by INSERT, many by COPY."""
        if not rows:
            return
        if self._later:
            self.flush()
        self._rows.setdefault(into, []).extend(rows)
        if not self._has_begun:
            self._send_rows()

    def changes(self) -> int:
        """How many rows the last statement changed."""
        self.flush()
        return self._last.rowcount if self._last is not None else 0

    @property
    def in_transaction(self) -> bool:
        return self._has_begun and not self._connection.closed

    @contextmanager
    def told(self) -> Iterator[None]:
        """What the database raises as what runlore raises."""
        try:
            yield
        except _AGAIN as error:
            raise StoreLost(f"{self.name}: {_first_line(error)}") from None
        except psycopg.errors.NumericValueOutOfRange as error:
            raise OverflowError(_first_line(error)) from None
        except psycopg.errors.ReadOnlySqlTransaction:
            raise StoreError(f"{self.name}: this store was opened for reading") from None
        except psycopg.Error as error:
            is_lost = self._connection.closed or isinstance(error, _AWAY)
            raise (StoreLost if is_lost else StoreError)(f"{self.name}: {_first_line(error)}") from None

    def close(self) -> None:
        if self._share is None:
            self._connection.close()
            return
        if self._has_begun:
            self.rollback()
        self._share.leave()


@lru_cache(maxsize=512)
def is_plain_write(sql: str) -> bool:
    """Whether a statement changes something, and answers nothing that anyone waits for."""
    return sql.lstrip().startswith(("insert", "update", "delete")) and "returning" not in sql


def array(numbers: Iterable[int]) -> str:
    """Numbers as PostgreSQL reads them, for `any(?::bigint[])`: ten times as fast as adapting each."""
    return "{" + ",".join(map(str, numbers)) + "}"


@lru_cache(maxsize=512)
def translate(sql: str) -> str:
    """The same statement for PostgreSQL."""
    sql = _BYTES.sub(r"'\\x\1'::bytea", sql.replace("%", "%%"))
    if sql.lstrip().startswith("insert or ignore"):
        sql = sql.replace("insert or ignore", "insert", 1) + " on conflict do nothing"
    sql = _NUMBERS.sub(r"(select unnest(\1::bigint[]) as value)", sql)
    return _PLACE.sub(lambda match: f"%(p{match[1]})s" if match[1] else "%s", sql)


def _bind(sql: str, bindings: Sequence[Any]) -> Any:
    values = [plain(value) if isinstance(value, str) else value for value in bindings]
    return {f"p{n}": value for n, value in enumerate(values, 1)} if "?1" in sql else values


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
