"""A connection to PostgreSQL that understands the SQL of the package `sql`.

Placeholders are `?` and `?1`. A NUL, which no text of PostgreSQL can hold, becomes a visible sign.
Errors of the server and of the network become a StoreError. Knows no table.
"""

from __future__ import annotations

import logging
import re
import selectors
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.numeric import Int8Dumper

from ...errors import StoreError, StoreLost
from ..sql.database import plain
from .pool import Share
from .sending import Sending

MAX_AWAY_S = 60
"""Maximum seconds that a server may be away before a sync gives up."""

SETTINGS = {
    "statement_timeout": "10min",  # Giving space back rewrites whole tables.
    # A machine that was suspended in the middle of a sync must not keep others waiting.
    "idle_in_transaction_session_timeout": "2min",
    # Every query has an index. The server may not know yet how large a table is.
    "enable_seqscan": "off",
    # The same statements are run again and again, and their best plan does not depend on values.
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",  # Compiling takes longer than the queries.
    "work_mem": "64MB",
    "maintenance_work_mem": "256MB",
}

FOR_READING = {"default_transaction_read_only": "on", "statement_timeout": "2min"}

OPTIONS: dict[str, Any] = dict(
    autocommit=True, connect_timeout=10, application_name="runlore",
    # The loss of a server is noticed within a minute, also while something is sent to it.
    keepalives_idle=30, keepalives_interval=10, keepalives_count=3,
    tcp_user_timeout=60_000,
)  # fmt: skip

MAX_INSERTED_ROWS = 16
"""Maximum number of waiting rows that are all inserted one by one, in one round trip."""

MAX_INSERTED_ROWS_PER_TABLE = 2
"""Maximum number of a table's rows that are inserted one by one if more rows wait in total. A COPY
needs a round trip for each table, and costs as much as two or three inserts."""

MIN_SEND_BYTES = 512 * 1024
"""Minimum size of rows that are sent in a thread while more are prepared."""

MAX_WAITING_ROWS = 100
"""Maximum number of rows with which a statement waits to be sent; with more it is sent at once."""

MAX_CANCEL_S = 2
"""Maximum seconds for telling a server that nobody waits for its answer."""

CANCEL_AGAIN_S = 0.1
"""Seconds without an answer after which a statement is cancelled again."""

_AMONG = re.compile(r"\bin \(select value from carray\((\?\d*)\)\)")
_NUMBERS = re.compile(r"carray\((\?\d*)\)")
_PLACE = re.compile(r"\?(\d*)")
_BYTES = re.compile(r"\bx'([0-9a-f]*)'")
_AWAY = (
    psycopg.errors.CannotConnectNow,
    psycopg.errors.AdminShutdown,
    psycopg.errors.CrashShutdown,
)
_AGAIN = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.IdleInTransactionSessionTimeout,
)


MAY_NOT_READ = "ask the owner of the tables to grant this role `select` on all of them"
MAY_NOT_WRITE = (
    "this role may only read: what writes needs the role that owns the tables, or a member of it"
)
"""What to do if the server refuses."""

Statements = Sequence[tuple[str, Sequence[Any]]]
Rows = dict[str, list[Sequence[Any]]]
"""Rows by table, or by table and columns as in `insert into`."""


class Vector(bytes):
    """A tsvector in its binary form: see `tsvectors.py`."""


class VectorDumper(Dumper):
    """Sends a `Vector` as it is."""

    oid = 3614  # The type tsvector, in every PostgreSQL.
    format = Format.BINARY

    def dump(self, obj: Vector) -> bytes:
        return obj


class PostgresConnection:
    """One connection. Every statement is committed by itself unless a transaction was begun.

    With `is_shared` it is one of the connections that the readers of a process share, and it is
    held only for a statement or a transaction.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        read_only: bool = False,
        is_shared: bool = False,
        max_away_s: float = 0,
    ) -> None:
        self.name = name
        self._url, self._read_only = url, read_only
        self._has_begun = False
        self._deferred: list[tuple[str, Sequence[Any]]] = []
        """Statements without an answer. They are sent with the next query, to save round trips."""
        self._rows: Rows = {}
        """Rows to be added. They are sent with the next query as well, before the statements."""
        self._size = 0
        """The size of the texts and bytes in these rows."""
        self._types: dict[str, list[int]] = {}
        """The types of the columns that rows are added to."""
        self._sending: Sending | None = None
        self._last: psycopg.Cursor[Any] | None = None
        self._share: Share | None = None
        if is_shared:
            self._share = Share(url, OPTIONS, self._set_up)
        else:
            self._line = self._connect_within(max_away_s)

    @property
    def _connection(self) -> psycopg.Connection[Any]:
        """The connection, once nothing is being sent. Raises the error of the sending thread."""
        if self._sending is not None:
            # `_sending` is reset after the wait: if this is interrupted, the next use waits again,
            # because two threads must not use the connection together.
            self._sending.wait()
            error, self._sending = self._sending.error, None
            if error is not None:
                raise error
        return self._line

    def _connect(self) -> psycopg.Connection[Any]:
        try:
            connection = psycopg.connect(self._url, **OPTIONS)
            self._set_up(connection)
        except psycopg.Error as error:
            raise self._refused(error, _advice_on_connecting(error)) from None
        return connection

    def _set_up(self, connection: psycopg.Connection[Any]) -> None:
        settings = SETTINGS | (FOR_READING if self._read_only else {})
        # All integers have one type, so that each statement has one plan.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_dumper(Vector, VectorDumper)
        connection.execute(
            "select "
            + ", ".join(f"set_config('{key}', '{value}', false)" for key, value in settings.items())
        )

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Take a shared connection for one statement, unless a transaction has one."""
        if self._share is None or self._has_begun:
            yield
            return
        self._line = self._take(self._share)
        try:
            yield
        finally:
            self._share.give_back(self._line)

    def _take(self, share: Share) -> psycopg.Connection[Any]:
        try:
            return share.take()
        except psycopg.Error as error:
            raise self._refused(error, _advice_on_connecting(error)) from None

    def connect_again(self) -> None:
        """Connect again after a connection was lost. Raises StoreError.

        Waits for a server that is being restarted.
        """
        if self._share is None:
            self._line.close()
            self._line = self._connect_within(MAX_AWAY_S)

    def _connect_within(self, seconds: float) -> psycopg.Connection[Any]:
        until = time.monotonic() + seconds
        has_warned = False
        while True:
            try:
                return self._connect()
            except StoreError as error:
                if time.monotonic() > until:
                    raise
                if not has_warned:
                    # Without a handler, a warning is printed on stderr.
                    logging.getLogger(__name__).warning(
                        "runlore: %s; trying again for %d s", error, seconds
                    )
                    has_warned = True
                time.sleep(0.1)

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> Any:
        if sql.startswith("rollback"):
            self._drop_waiting()
        if self._has_begun and is_plain_write(sql):
            self._defer(sql, bindings)
            return None
        for attempt in range(2):
            try:
                with self._connected():
                    return self._run(sql, bindings)
            except StoreLost:
                if self._has_begun or attempt:
                    raise
                self.connect_again()  # There is no transaction, so the statement can be repeated.
        raise AssertionError("returned or raised")

    def _defer(self, sql: str, bindings: Sequence[Any]) -> None:
        """Keep a statement until the next query.

        A value that no column can hold raises an error at once, while it is known where it belongs.
        """
        check_row(bindings)
        self._deferred.append((sql, bindings))

    def _run(self, sql: str, bindings: Sequence[Any]) -> psycopg.Cursor[Any]:
        """Run the statements that wait, and then this one, in one round trip; return its cursor."""
        self._send_rows()
        deferred, self._deferred = self._deferred, []
        with self.translate_errors():
            if not deferred:
                return self._connection.execute(translate(sql), _bind(sql, bindings), binary=True)
            with self._connection.pipeline():
                for earlier, values in deferred:
                    self._last = self._connection.execute(
                        translate(earlier), _bind(earlier, values)
                    )
                return self._connection.execute(translate(sql), _bind(sql, bindings), binary=True)

    def script(self, sql: str) -> None:
        """Run several statements without values."""
        self.flush()
        with self.translate_errors():
            self._connection.execute(sql)

    def ask(self, questions: Sequence[tuple[str, Sequence[Any]]]) -> list[list[Any]]:
        """Return the answers to several queries, in one round trip."""
        self.flush()
        with self._connected(), self.translate_errors(), self._connection.pipeline():
            cursors = [
                self._connection.execute(translate(sql), _bind(sql, values), binary=True)
                for sql, values in questions
            ]
            return [cursor.fetchall() for cursor in cursors]

    def flush(self) -> None:
        """Send what waits. Only now the database may report an error in it."""
        self._send_rows()
        if self._deferred:
            self._run("select 1", ())

    def send_behind(self) -> None:
        """Send what waits in a thread, if it is enough, while the caller prepares more.

        The next statement waits for the thread, and raises its error.
        """
        if self._size >= MIN_SEND_BYTES:
            line, rows, deferred = self._connection, self._pop_rows(), self._deferred
            self._deferred = []
            # Assigned before the start: if this is interrupted, the thread has to be waited for.
            self._sending = Sending(lambda is_wanted: self._send(line, rows, deferred, is_wanted))
            try:
                self._sending.start()
            except RuntimeError:  # The system has no thread left.
                self._sending = None
                self._send(line, rows, deferred)

    def _send_rows(self) -> None:
        if self._rows:
            self._send(self._connection, self._pop_rows())

    def _pop_rows(self) -> Rows:
        rows, self._rows, self._size = self._rows, {}, 0
        for into in rows:
            self._types_of(into)  # Now, while the connection is free for a query.
        return rows

    def _drop_waiting(self) -> None:
        self._size = 0
        self._deferred.clear()
        self._rows.clear()

    def _types_of(self, into: str) -> list[int]:
        if into not in self._types:
            table, _, columns = into.partition(" ")
            with self.translate_errors():
                description = self._connection.execute(
                    f"select {columns.strip('()') or '*'} from {table} limit 0"
                ).description
            self._types[into] = [column.type_code for column in description or ()]
        return self._types[into]

    def _send(
        self,
        line: psycopg.Connection[Any],
        rows: Rows,
        deferred: Statements = (),
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Send rows, a few by INSERT and many by COPY, and then statements."""
        is_small = sum(map(len, rows.values())) <= MAX_INSERTED_ROWS
        max_inserted = MAX_INSERTED_ROWS if is_small else MAX_INSERTED_ROWS_PER_TABLE
        inserted = {into: some for into, some in rows.items() if len(some) <= max_inserted}
        with self.translate_errors():
            if inserted:
                _insert_rows(line, inserted)
            for into in rows.keys() - inserted.keys():
                self._copy_rows(line, into, rows[into], is_wanted)
            if deferred:
                with line.pipeline():
                    for sql, values in deferred:
                        self._last = line.execute(translate(sql), _bind(sql, values))

    def _copy_rows(
        self,
        line: psycopg.Connection[Any],
        into: str,
        rows: Sequence[Sequence[Any]],
        is_wanted: Callable[[], bool],
    ) -> None:
        with (
            line.cursor() as cursor,
            cursor.copy(f"copy {into} from stdin (format binary)") as copy,
        ):
            copy.set_types(self._types[into])
            for row in rows:
                if not is_wanted():
                    raise StoreLost(f"{self.name}: what was being sent was taken back")
                copy.write_row(row)

    def begin(self, words: str = "") -> None:
        if self._share is not None:
            self._line = self._take(self._share)
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
        """End the transaction, also one that was lost with its connection."""
        self._drop_waiting()
        if self._sending is not None:
            self._sending.stop()
            self._sending = None  # Its error does not matter any more.
        try:
            if self._has_begun and not self._line.closed:
                self._run("rollback", ())
        except StoreError:
            # After an interruption in the middle of a statement, none can be sent.
            self._abandon()
        finally:
            self._end()

    def _abandon(self) -> None:
        """Cancel the running statement and close the connection.

        Otherwise the server would run the statement to its end, and block other writers until then:
        it notices a closed connection only when it answers.
        """
        try:
            with suppress(psycopg.Error):
                self._cancel()
        finally:  # Also if this is interrupted again.
            self._line.close()

    def _cancel(self) -> None:
        """Cancel the running statement, and wait a moment for the server's answer.

        A request that arrives before the statement begins has no effect, so it is sent again.
        """
        until = time.monotonic() + MAX_CANCEL_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._line.fileno(), selectors.EVENT_READ)
            self._line.cancel_safe(timeout=MAX_CANCEL_S)
            while not selector.select(CANCEL_AGAIN_S) and time.monotonic() < until:
                self._line.cancel_safe(timeout=MAX_CANCEL_S)

    def _end(self) -> None:
        if self._has_begun and self._share is not None:
            self._share.give_back(self._line)
        self._has_begun = False

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        values = list(rows)
        if self._has_begun and len(values) <= MAX_WAITING_ROWS:
            for row in values:
                self._defer(sql, row)
        elif values:
            self.flush()
            with self.translate_errors(), self._connection.cursor() as cursor:
                cursor.executemany(translate(sql), [_bind(sql, row) for row in values])

    def copy(self, into: str, rows: Sequence[Sequence[Any]], *, ahead: bool = False) -> None:
        """Add rows to a table, or to the columns of it that `into` names.

        A few rows are sent by INSERT, many by COPY. With `ahead` they may be sent before the
        statements that wait, which must be about other rows. Raises
        OverflowError or UnicodeError if a column cannot hold a value.
        """
        if not rows:
            return
        if self._deferred and not ahead:
            self.flush()
        self._size += sum(map(check_row, rows))
        self._rows.setdefault(into, []).extend(rows)
        if not self._has_begun:
            self._send_rows()

    def changes(self) -> int:
        """Return how many rows the last statement changed."""
        self.flush()
        return self._last.rowcount if self._last is not None else 0

    @property
    def in_transaction(self) -> bool:
        return self._has_begun and not self._line.closed

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise errors of the database as a StoreError."""
        try:
            yield
        except _AGAIN as error:
            raise StoreLost(f"{self.name}: {_first_line(error)}") from None
        except psycopg.errors.NumericValueOutOfRange as error:
            raise OverflowError(_first_line(error)) from None
        except psycopg.errors.ReadOnlySqlTransaction as error:
            if self._read_only:
                raise StoreError(f"{self.name}: this store was opened for reading") from None
            raise self._refused(error, MAY_NOT_WRITE) from None
        except psycopg.errors.InsufficientPrivilege as error:
            advice = MAY_NOT_READ if self._read_only else MAY_NOT_WRITE
            raise self._refused(error, advice) from None
        except psycopg.Error as error:
            is_lost = self._line.closed or isinstance(error, _AWAY)
            raise (StoreLost if is_lost else StoreError)(
                f"{self.name}: {_first_line(error)}"
            ) from None

    def _refused(self, error: Exception, advice: str) -> StoreError:
        """Return an error of the server as ours, with what to do about it."""
        # An address that cannot be parsed is quoted with its password.
        words = _first_line(error).replace(self._url, self.name)
        refused = StoreError(f"{self.name}: {words}; {advice}")
        refused.hint = advice
        return refused

    def close(self) -> None:
        if self._has_begun:
            self.rollback()
        if self._share is None:
            self._line.close()
            return
        self._share.leave()


def _insert_rows(line: psycopg.Connection[Any], rows: Rows) -> None:
    with line.pipeline():
        for into, some in rows.items():
            for row in some:
                line.execute(f"insert into {into} values (%s{', %s' * (len(row) - 1)})", row)


def check_row(row: Sequence[Any]) -> int:
    """Return the size of the texts and bytes in a row.

    Raises OverflowError or UnicodeError if it has a value that no column can hold.
    """
    size = 0
    for value in row:
        if isinstance(value, str):
            size += len(value.encode())
        elif isinstance(value, bytes):
            size += len(value)
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise OverflowError("a number has more than 64 bits")
    return size


@lru_cache(maxsize=512)
def is_plain_write(sql: str) -> bool:
    """Return True if a statement changes rows and returns none."""
    return sql.lstrip().startswith(("insert", "update", "delete")) and "returning" not in sql


def array(numbers: Iterable[int]) -> str:
    """Return numbers as a value for `any(?::bigint[])`. A text is much faster than a list here."""
    return "{" + ",".join(map(str, numbers)) + "}"


@lru_cache(maxsize=512)
def translate(sql: str) -> str:
    """Return the statement in PostgreSQL's dialect."""
    sql = _BYTES.sub(r"'\\x\1'::bytea", sql.replace("%", "%%"))
    if sql.lstrip().startswith("insert or ignore"):
        sql = sql.replace("insert or ignore", "insert", 1) + " on conflict do nothing"
    sql = _AMONG.sub(r"= any(\1::bigint[])", sql)
    sql = _NUMBERS.sub(r"(select unnest(\1::bigint[]) as value)", sql)
    return _PLACE.sub(lambda match: f"%(p{match[1]})s" if match[1] else "%s", sql)


def _bind(sql: str, bindings: Sequence[Any]) -> Any:
    values = [plain(value) if isinstance(value, str) else value for value in bindings]
    return {f"p{n}": value for n, value in enumerate(values, 1)} if "?1" in sql else values


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # If a host has several addresses, the first line only announces what failed for each.
    is_list = len(lines) > 1 and lines[1].startswith("- ")
    return " ".join((lines[1][2:] if is_list else lines[0]).split())


def _advice_on_connecting(error: Exception) -> str:
    """Return what to do if there is no connection. The errors have no code, only their words."""
    words = _first_line(error)
    if "have been busy" in words:
        return "try again in a moment"
    if re.search(r'database ".*" does not exist', words):
        return "create the database first, or correct its name in the address of the store"
    if re.search(r"password|authentication|role |pg_hba", words):
        return "correct the user and the password, in the address of the store or in ~/.pgpass"
    return "look whether the server runs, and whether the address of the store is right"
