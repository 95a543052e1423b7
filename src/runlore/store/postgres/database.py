"""The database of a PostgreSQL store: opening, locking and upgrading it.

One transaction writes at a time, so that a copy always finds its original. The slow steps of a
sync, reading and packing, are done before.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ...errors import StoreBusy, StoreError, StoreMissing, StoreTooNew, StoreTooOld
from ..sql.database import Database, Question, migrations, plain, without_nul
from .connection import MAX_AWAY_S, SETTINGS, PostgresConnection, array
from .months import Months

MIGRATIONS = Path(__file__).parent / "migrations"

_WRITE, _MIGRATE, _SYNC = 1, 2, 4
"""The numbers of locks; see also `months.PARTITION_LOCK`."""

SNAPSHOT = "isolation level repeatable read read only"


class AuthorNotes:
    """What a transaction that holds the lock knows of other authors."""

    def __init__(self) -> None:
        self.claims: dict[str, str] | None = None
        self.is_alone: bool | None = None


class PostgresDatabase(Database):
    """See `Database`."""

    instr = "strpos"
    has_bytes = "position(?::bytea in {}) > 0"
    epoch_of = "floor(extract(epoch from {}::timestamptz))::bigint"
    source_key = ("reader", "agent", "path")
    source_columns = ("reader", "author")
    # A call stays with the author who stored it first.
    may_replace_call = (
        "where (select author from sessions where number = calls.session) is not distinct from"
        " (select author from sessions where number = excluded.session)"
    )

    connection: PostgresConnection
    machine: str

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        is_shared: bool = False,
        machine: str | None = None,
        author: str | None = None,
    ) -> None:
        assert read_only or not is_shared, "a sync has a connection of its own"
        super().__init__()
        self.url = without_password(url)
        self.machine = machine or super().own_machine
        self.author = author or os.environ.get("RUNLORE_AUTHOR") or _user()
        self._private_url = url
        self._is_open = False
        self._has_lock = False
        self._columns: list[str] | None = None
        self.notes: AuthorNotes | None = None
        """While this connection alone may write, what it knows of authors and need not ask
        again."""
        self.moment: str | None = None
        """The version of the open snapshot; None outside of one."""
        self.months = Months(self)
        self.pending.append(self.months)
        self._second: PostgresConnection | None = None
        self.connection = PostgresConnection(
            url, self.url, read_only=read_only, is_shared=is_shared
        )
        try:
            self._migrate_server(read_only)
        except BaseException:
            self.connection.close()
            raise

    def _migrate_server(self, read_only: bool) -> None:
        steps = migrations(MIGRATIONS)
        newest = steps[-1][0]
        version = self._format()
        if version > newest:
            raise StoreTooNew(
                f"{self.url} was made by a newer runlore (format {version}, this one knows"
                f" {newest}); update runlore"
            )
        if version == newest:
            return
        if read_only:
            if not version:
                raise StoreMissing(f"{self.url}: there is no store yet; run `runlore sync` first")
            raise StoreError(f"{self.url}: of an older format; run `runlore sync` once")
        with self.transaction():
            self._lock(_MIGRATE)
            # Another sync may be about to create a partition, and would wait for this transaction.
            self.lock_for_writing()
            self.connection.execute("set local statement_timeout = 0")
            version = self._format()  # Another process may have migrated it meanwhile.
            for number, sql in steps:
                if number > version:
                    self.connection.script(sql)
                    self.connection.execute(
                        "insert into runlore_migrations values (?, now())", (number,)
                    )

    def _format(self) -> int:
        """Return the number of the last migration; 0 for an empty schema.

        Raises StoreError if the schema has tables of something else.
        """
        if self.one("select current_schema()")[0] is None:
            raise StoreError(
                f"{self.url}: the schema of its search_path does not exist, or this role may not"
                " use it; create it, or `grant usage on schema`"
            )
        tables = self.tables()
        if "runlore_migrations" in tables:
            return int(self.one("select coalesce(max(number), 0) from runlore_migrations")[0])
        if tables >= {"sessions", "streams"} and tables & {"runlore_format", "migrations"}:
            raise StoreTooOld(
                f"{self.url} was made by a development version of runlore, which this one cannot"
                " read; name an empty database or schema, and run `runlore sync`"
            )
        if "sessions" in tables:
            raise StoreError(
                f"{self.url} is a database of something else; name another, or a schema:"
                " ?options=-csearch_path%3Dname"
            )
        return 0

    def tables(self) -> set[str]:
        """Return the tables of the store's schema, all as of one moment: another process may be
        about to create them."""
        # Not `to_regclass`, which may not know a table that another process has just created.
        sql = (
            "select relname from pg_class where relkind in ('r', 'p') and relnamespace ="
            " current_schema()::regnamespace"
        )
        return {name for (name,) in self.all(sql)}

    def close(self) -> None:
        self.connection.close()
        self._close_second()

    @property
    def second(self) -> PostgresConnection:
        """A second connection, for statements that must not be part of the open transaction.

        It stays open for the length of a sync, because opening one is slow.
        """
        if self._second is None:
            self._second = PostgresConnection(self._private_url, self.url, max_away_s=MAX_AWAY_S)
        return self._second

    def _close_second(self) -> None:
        if self._second is not None:
            self._second.close()
        self._second = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._is_open:
            yield
            return
        self.connection.begin()
        self._is_open, self._has_lock = True, False
        try:
            yield
            self.flush()
            self.connection.commit()
        except BaseException:
            self.connection.rollback()
            raise
        finally:
            self._is_open = False
            self.notes = None
            self.clear()

    def clear(self) -> None:
        super().clear()
        if self.notes is not None:  # What was noted may be undone.
            self.notes = AuthorNotes()

    def lock_for_writing(self) -> None:
        if not self._has_lock:
            self._lock(_WRITE)
            self._has_lock = True
            self.notes = AuthorNotes()

    def _lock(self, number: int) -> None:
        """Hold a lock until the transaction ends.

        There is no limit to the wait: the holder is at work, or the server ends its transaction.
        """
        self.connection.execute("set local statement_timeout = 0")
        self.connection.execute(
            "select pg_advisory_xact_lock(?::int, hashtext(current_schema()))", (number,)
        )
        self.connection.execute(f"set local statement_timeout = '{SETTINGS['statement_timeout']}'")

    @contextmanager
    def sync_lock(self) -> Iterator[None]:
        """Hold the lock of the one sync of this author and machine. Raises StoreBusy.

        Syncs of others may run at the same time; their transactions write one after the other.
        """
        # The lock has a connection of its own, whatever happens to the other one. The server
        # releases the lock when this connection is lost.
        lock = PostgresConnection(self._private_url, self.url, max_away_s=MAX_AWAY_S)
        try:
            sql = "select pg_try_advisory_lock(?::int, hashtext(current_schema() || ' ' || ?))"
            if not lock.execute(sql, (_SYNC, self.reader)).fetchone()[0]:
                raise StoreBusy("another sync is running; this one has nothing to do")
            yield
        finally:
            self._close_second()
            with suppress(StoreError):
                # Explicitly, because the server notices a closed connection only a moment later.
                lock.execute("select pg_advisory_unlock_all()")
            lock.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        if self.connection.in_transaction:
            yield
            return
        self.connection.begin(SNAPSHOT)
        try:
            self.moment = self.version()  # The first read determines the moment.
            yield
        finally:
            self.moment = None
            self.connection.rollback()

    def ids(self, numbers: Iterable[int]) -> str:
        return array(numbers)

    def among(self, column: str, texts: Iterable[str]) -> tuple[str, Any]:
        return f"{column} = any(?)", [without_nul(text) for text in texts]

    def answer(self, questions: Sequence[Question]) -> list[list[Any]]:
        return self.connection.ask(questions)

    def storable(self, row: Iterable[Any]) -> list[Any]:
        return [plain(value) if isinstance(value, str) else value for value in row]

    def glob(self, column: str, pattern: str, *, is_part: bool = False) -> tuple[str, str]:
        return f"{column} ~ ?", as_regex(pattern, is_part=is_part)

    @property
    def own_machine(self) -> str:
        return self.machine

    @property
    def own_author(self) -> str:
        return self.author

    @property
    def reader(self) -> str:
        """The author and machine that read the sources of this store object."""
        return f"{self.author}@{self.machine}"

    @property
    def own_sources(self) -> tuple[str, tuple[Any, ...]]:
        """The test for sources of this author and machine: paths have no meaning elsewhere."""
        return "reader = ?", (self.reader,)

    @property
    def own_sessions(self) -> tuple[str, tuple[Any, ...]]:
        return "author = ?", (self.author,)

    def session_columns(self) -> list[str]:
        # Cached, because this query takes as long as the one it is needed for.
        if self._columns is None:
            sql = (
                "select attname from pg_attribute where attrelid = 'sessions'::regclass and attnum"
                " > 0 and not attisdropped order by attnum"
            )
            self._columns = [name for (name,) in self.all(sql)]
        return self._columns

    def translate_errors(self) -> AbstractContextManager[None]:
        return nullcontext()  # The connection translates them.

    @property
    def in_snapshot(self) -> bool:
        """True if a transaction for reading is open."""
        return self.in_transaction and not self._is_open

    def version(self) -> str:
        """Return the version of the database, which changes with every transaction that writes."""
        return self.moment or str(self.one("select pg_current_snapshot()::text")[0])

    def file_bytes(self) -> int:
        sql = (
            "select coalesce(sum(pg_total_relation_size(oid)), 0) from pg_class"
            " where relkind = 'r' and relnamespace = current_schema()::regnamespace"
        )
        return int(self.one(sql)[0])

    @property
    def session_values(self) -> dict[str, str]:
        return {"author": self.author}

    @property
    def source_values(self) -> dict[str, str]:
        return {"reader": self.reader, "author": self.author}


def as_regex(pattern: str, *, is_part: bool = False) -> str:
    """Return a glob of SQLite as a regular expression.

    A pattern without wildcards means the whole text, or with `is_part` a part of it.
    """
    if is_part and not any(char in pattern for char in "*?["):
        return _escaped(pattern)
    regex, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "[":
            negative = pattern.startswith("^", at)
            first = at + negative
            end = pattern.find("]", first + 1)
            if end < 0:
                return "^(?!.*)"  # In SQLite, a class without an end matches nothing.
            inner = re.sub(r"([\\\[\]^:.=])", r"\\\1", pattern[first:end])
            regex += f"[{'^' if negative else ''}{inner}]"
            at = end + 1
        else:
            regex += {"*": ".*", "?": "."}.get(char) or _escaped(char)
    return f"^{regex}$"


def _escaped(text: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", text)


def without_password(url: str) -> str:
    """Return an address that may be shown."""
    try:
        parts = urlsplit(url)
    except ValueError:  # Brackets that no address has; connecting says so.
        return f"{url.partition('://')[0]}://…"
    user, at, host = parts.netloc.rpartition("@")
    query = "&".join(word for word in parts.query.split("&") if not word.startswith("password="))
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}", query=query))


def _user() -> str:
    try:
        return getpass.getuser()
    except (
        OSError,
        KeyError,
        ImportError,
    ):  # Containers and Windows may have no name for the user.
        return "unknown"
