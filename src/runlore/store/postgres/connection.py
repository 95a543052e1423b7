"""A connection to PostgreSQL that understands the SQL of the package `sql`.

Placeholders are `?` and `?1`; a NUL, which no text of PostgreSQL can hold, becomes the sign for it;
what the server or the network is to blame for becomes a StoreError. Knows no table.
"""

from __future__ import annotations

import re
import sys
import threading
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

PATIENCE_S = 60
"""How long a server may be away before a sync gives up on it."""

SETTINGS = {
    "statement_timeout": "10min",  # Giving room back writes a whole table anew.
    # A machine that was closed in mid-sync must not keep the others waiting.
    "idle_in_transaction_session_timeout": "2min",
    # Every question here has an index, also while the server does not know yet how large a table
    # is.
    "enable_seqscan": "off",
    # The same statements come again and again, and none depends on what it is given.
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",  # Compiling takes longer than any answer.
    "work_mem": "64MB",
    "maintenance_work_mem": "256MB",
}

FOR_READING = {"default_transaction_read_only": "on", "statement_timeout": "2min"}

OPTIONS: dict[str, Any] = dict(
    autocommit=True, connect_timeout=10, application_name="runlore",
    # A server that vanished is noticed within a minute,
    keepalives_idle=30, keepalives_interval=10, keepalives_count=3,
    tcp_user_timeout=60_000,  # also by who is sending something to it.
)  # fmt: skip

FEW, FEWEST = 16, 2
"""When so many rows wait, they are inserted one by one, all tables in one round trip. When there
are more, only those of a table that has no more than so many: COPY takes a round trip for each
table, and client and server as long as two or three such statements."""

ENOUGH_BYTES = 512 * 1024
"""Of rows that are sent while more is read. For fewer a thread is not worth its while."""

MANY = 100
"""So many times a statement waits with others; for more of them it does not."""

SWITCH_S = 0.0005
"""How long who sends rows waits for who makes the next ones: a socket takes a tenth of a megabyte
at a time."""

CANCEL_S = 2
"""How long a server may take to be told that nobody waits for its answer."""

START_S = 0.1
"""How long a thread that was started may take until it runs."""

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


Statements = Sequence[tuple[str, Sequence[Any]]]
Rows = dict[str, list[Sequence[Any]]]
"""By table, or by table and columns as in `insert into`."""


class Vector(bytes):
    """A tsvector in its binary form: see `words.py`."""


class VectorDumper(Dumper):
    """Sends a `Vector` as it is."""

    oid = 3614  # Of tsvector, in every PostgreSQL.
    format = Format.BINARY

    def dump(self, obj: Vector) -> bytes:
        return obj


class PostgresConnection:
    """One connection, or for many readers of a process one of those that they share, for as long as
    it is needed. Commits every statement by itself unless a transaction was begun."""

    def __init__(
        self,
        url: str,
        name: str,
        *,
        read_only: bool = False,
        is_shared: bool = False,
        patience_s: float = 0,
    ) -> None:
        self.name = name
        self._url, self._read_only = url, read_only
        self._has_begun = False
        self._later: list[tuple[str, Sequence[Any]]] = []
        """Statements that change something and answer nothing. They are sent with the next
        question: each round trip takes as long as the server, or the network, needs to wake up."""
        self._rows: Rows = {}
        """Rows that are to be added. They are sent with the next question as well, and before the
        statements."""
        self._size = 0
        """Of the texts and bytes in these."""
        self._types: dict[str, list[int]] = {}
        """Of the columns of these tables."""
        self._sending: Sending | None = None
        self._last: psycopg.Cursor[Any] | None = None
        self._share: Share | None = None
        if is_shared:
            self._share = Share(url, OPTIONS, self._set_up)
        else:
            self._line = self._connect_within(patience_s)

    @property
    def _connection(self) -> psycopg.Connection[Any]:
        """When nothing is being sent on it any more. Raises what that did."""
        if self._sending is not None:
            # Interrupted, it is waited for once more: two cannot speak on one line.
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
            raise StoreError(f"{self.name}: {_first_line(error)}") from None
        return connection

    def _set_up(self, connection: psycopg.Connection[Any]) -> None:
        settings = SETTINGS | (FOR_READING if self._read_only else {})
        # One plan for each statement, whatever the size of its numbers.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_dumper(Vector, VectorDumper)
        connection.execute(
            "select "
            + ", ".join(f"set_config('{key}', '{value}', false)" for key, value in settings.items())
        )

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """With a connection for one statement, when there is none for a transaction."""
        if self._share is None or self._has_begun:
            yield
            return
        with self.translate_errors():
            self._line = self._share.take()
        try:
            yield
        finally:
            self._share.give_back(self._line)

    def connect_again(self) -> None:
        """After a connection was lost. Waits for a server that is being restarted. Raises
        StoreError."""
        if self._share is None:
            self._line.close()
            self._line = self._connect_within(PATIENCE_S)

    def _connect_within(self, seconds: float) -> psycopg.Connection[Any]:
        until = time.monotonic() + seconds
        is_told = False
        while True:
            try:
                return self._connect()
            except StoreError as error:
                if time.monotonic() > until:
                    raise
                if not is_told:
                    import logging  # Where nobody listens, it goes to stderr.

                    logging.getLogger(__name__).warning(
                        "runlore: %s; trying again for %d s", error, seconds
                    )
                    is_told = True
                time.sleep(0.1)

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> Any:
        if sql.startswith("rollback"):
            self._drop_waiting()
        if self._has_begun and is_plain_write(sql):
            self._wait_with(sql, bindings)
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

    def _wait_with(self, sql: str, bindings: Sequence[Any]) -> None:
        """Keeps a statement until the next question. What no column can hold is told at once: then
        it is known whose it is."""
        check_row(bindings)
        self._later.append((sql, bindings))

    def _run(self, sql: str, bindings: Sequence[Any]) -> psycopg.Cursor[Any]:
        """The statement, and before it those that wait, in one round trip."""
        self._send_rows()
        waiting, self._later = self._later, []
        with self.translate_errors():
            if not waiting:
                return self._connection.execute(translate(sql), _bind(sql, bindings), binary=True)
            with self._connection.pipeline():
                for early, values in waiting:
                    self._last = self._connection.execute(translate(early), _bind(early, values))
                return self._connection.execute(translate(sql), _bind(sql, bindings), binary=True)

    def script(self, sql: str) -> None:
        """Several statements, without values."""
        self.flush()
        with self.translate_errors():
            self._connection.execute(sql)

    def ask(self, questions: Sequence[tuple[str, Sequence[Any]]]) -> list[list[Any]]:
        """The answers to several questions, in one round trip."""
        self.flush()
        with self._connected(), self.translate_errors(), self._connection.pipeline():
            cursors = [
                self._connection.execute(translate(sql), _bind(sql, values), binary=True)
                for sql, values in questions
            ]
            return [cursor.fetchall() for cursor in cursors]

    def flush(self) -> None:
        """Sends what waits. Only then is it known that the database takes it."""
        self._send_rows()
        if self._later:
            self._run("select 1", ())

    def send_behind(self) -> None:
        """Sends what waits, when it is enough, while more is made: the next statement waits for
        that, and raises what it did."""
        if self._size >= ENOUGH_BYTES:
            line, rows, later = self._connection, self._take_rows(), self._later
            self._later = []
            # Known before it begins: whoever is interrupted in between has to wait for it.
            self._sending = Sending(lambda is_wanted: self._send(line, rows, later, is_wanted))
            try:
                self._sending.start()
            except RuntimeError:  # No thread is to be had.
                self._sending = None
                self._send(line, rows, later)

    def _send_rows(self) -> None:
        if self._rows:
            self._send(self._connection, self._take_rows())

    def _take_rows(self) -> Rows:
        rows, self._rows, self._size = self._rows, {}, 0
        for into in rows:
            self._types_of(into)  # While the connection is free to be asked.
        return rows

    def _drop_waiting(self) -> None:
        self._size = 0
        self._later.clear()
        self._rows.clear()

    def _types_of(self, into: str) -> list[int]:
        if into not in self._types:
            table, _, columns = into.partition(" ")
            with self.translate_errors():
                found = self._connection.execute(
                    f"select {columns.strip('()') or '*'} from {table} limit 0"
                ).description
            self._types[into] = [column.type_code for column in found or ()]
        return self._types[into]

    def _send(
        self,
        line: psycopg.Connection[Any],
        rows: Rows,
        later: Statements = (),
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Sends rows, a few together by INSERT, many by COPY; and statements behind them."""
        most = FEW if sum(map(len, rows.values())) <= FEW else FEWEST
        few = {into: some for into, some in rows.items() if len(some) <= most}
        with self.translate_errors():
            if few:
                with line.pipeline():
                    for into, some in few.items():
                        for row in some:
                            line.execute(
                                f"insert into {into} values (%s{', %s' * (len(row) - 1)})", row
                            )
            for into in rows.keys() - few.keys():
                with (
                    line.cursor() as cursor,
                    cursor.copy(f"copy {into} from stdin (format binary)") as copy,
                ):
                    copy.set_types(self._types[into])
                    for row in rows[into]:
                        if not is_wanted():
                            raise StoreLost(f"{self.name}: what was being sent was taken back")
                        copy.write_row(row)
            if later:
                with line.pipeline():
                    for sql, values in later:
                        self._last = line.execute(translate(sql), _bind(sql, values))

    def begin(self, words: str = "") -> None:
        if self._share is not None:
            with self.translate_errors():
                self._line = self._share.take()
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
        self._drop_waiting()
        if self._sending is not None:
            self._sending.stop()
            self._sending = None  # What went wrong with it does not matter any more.
        try:
            if self._has_begun and not self._line.closed:
                self._run("rollback", ())
        except StoreError:
            # Interrupted in the middle of a statement, it cannot be said: the server is told to
            # leave off.
            self._abandon()
        finally:
            self._end()

    def _abandon(self) -> None:
        """Closes a connection on which the server may be at something. It would go on with it to
        the end, and nobody could write before: that who asked has left, it notices when it
        answers."""
        try:
            with suppress(psycopg.Error):
                self._line.cancel_safe(timeout=CANCEL_S)
        finally:  # Also when somebody loses patience.
            self._line.close()

    def _end(self) -> None:
        if self._has_begun and self._share is not None:
            self._share.give_back(self._line)
        self._has_begun = False

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        values = list(rows)
        if self._has_begun and len(values) <= MANY:
            for row in values:
                self._wait_with(sql, row)
        elif values:
            self.flush()
            with self.translate_errors(), self._connection.cursor() as cursor:
                cursor.executemany(translate(sql), [_bind(sql, row) for row in values])

    def copy(self, into: str, rows: Sequence[Sequence[Any]], *, ahead: bool = False) -> None:
        """Adds rows to a table, with its columns, or to those that `into` names: a few together by
        INSERT, many by COPY. With `ahead` also before the statements that wait: these are about
        other rows. Raises OverflowError or UnicodeError when a column cannot hold a value."""
        if not rows:
            return
        if self._later and not ahead:
            self.flush()
        self._size += sum(map(check_row, rows))
        self._rows.setdefault(into, []).extend(rows)
        if not self._has_begun:
            self._send_rows()

    def changes(self) -> int:
        """How many rows the last statement changed."""
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
        except psycopg.errors.ReadOnlySqlTransaction:
            raise StoreError(f"{self.name}: this store was opened for reading") from None
        except psycopg.Error as error:
            is_lost = self._line.closed or isinstance(error, _AWAY)
            raise (StoreLost if is_lost else StoreError)(
                f"{self.name}: {_first_line(error)}"
            ) from None

    def close(self) -> None:
        if self._has_begun:
            self.rollback()
        if self._share is None:
            self._line.close()
            return
        self._share.leave()


class Sending:
    """Rows on their way, in a thread. One for each time: a process with threads is not to be
    forked, and workers are, between two syncs."""

    def __init__(self, send: Callable[[Callable[[], bool]], None]) -> None:
        """`send` is given a function to ask whether they are still wanted."""
        self.error: BaseException | None = None
        """What went wrong, when they had to be waited for."""
        self._is_wanted = True
        self._interval = sys.getswitchinterval()
        self._thread = threading.Thread(
            target=self._run, args=(send,), name="runlore-rows", daemon=True
        )

    def start(self) -> None:
        """Raises RuntimeError when the system has no thread left."""
        self._thread.start()
        sys.setswitchinterval(SWITCH_S)

    def _run(self, send: Callable[[Callable[[], bool]], None]) -> None:
        try:
            send(lambda: self._is_wanted)
        except BaseException as error:  # It is raised where it is waited for.
            self.error = error

    def wait(self) -> None:
        """Until they are there, or cannot be."""
        # Interrupted over starting it: it may come up in a moment, or never.
        if self._thread.ident is None:
            time.sleep(START_S)
        if self._thread.ident is not None:
            self._thread.join()
        sys.setswitchinterval(self._interval)

    def stop(self) -> None:
        """The same, but what is not on its way yet need not be sent."""
        self._is_wanted = False
        self.wait()


def check_row(row: Sequence[Any]) -> int:
    """Return the size of the texts and bytes in a row. Raises OverflowError or UnicodeError when
    there is something in it that no column can hold."""
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
    """Whether a statement changes something, and answers nothing that anyone waits for."""
    return sql.lstrip().startswith(("insert", "update", "delete")) and "returning" not in sql


def array(numbers: Iterable[int]) -> str:
    """Numbers as PostgreSQL reads them, for `any(?::bigint[])`: ten times as fast as adapting
    each."""
    return "{" + ",".join(map(str, numbers)) + "}"


@lru_cache(maxsize=512)
def translate(sql: str) -> str:
    """The same statement for PostgreSQL."""
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
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
