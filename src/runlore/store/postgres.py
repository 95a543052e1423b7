"""The store in a PostgreSQL database, for the sessions of a team: many machines write to it, and
each says whose they are.

What both databases can say is in `_sql_….py`, what only PostgreSQL can in `_postgres_….py`. Here is
how the database is opened, locked, partitioned and emptied. One transaction writes at a time,
whoever it is from: so that a copy always finds its original. What takes long in a sync, reading and
packing, is done before.
"""

from __future__ import annotations

import getpass
import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ..errors import StoreBusy, StoreError, StoreMissing, StoreTooNew, StoreTooOld
from ._postgres_copy import PostgresTaker
from ._postgres_db import PATIENCE_S, SETTINGS, Database, array
from ._postgres_read import Seen
from ._sql import migrations
from ._sql_put import OVERTAKEN_AND_KEPT
from ._sql_retain import Evictor
from .contract import FORGOTTEN, SourceState
from .numbering import Again
from .pieces import Cleaner

MIGRATIONS = Path(__file__).parent / "migrations" / "postgres"

PARTITIONED = ("events", "segments", "search")

_OPTIONS = {"segments": "with (toast_tuple_target = 128)"}
"""Bodies and words lie apart also when they are short: counting and finding segments reads a third
of the pages, in half the time."""

_OLDER = (
    "select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    " and greatest(age(backend_xmin), age(backend_xid)) > age(?::text::xid) limit 1"
)
"""Whether another transaction here sees what was there before this one."""

WAIT_S = 10.0
"""How long who gives room back waits for others that may still read what was there."""

_WRITE, _MIGRATE, _DIVIDE, _SYNC = range(1, 5)
"""What a lock is for."""


class PostgresStore(PostgresTaker, Evictor):
    """See `Store`: the methods are described there."""

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
        self.url = without_password(url)
        self.machine = machine or os.environ.get("RUNLORE_MACHINE") or platform.node() or "unknown"
        self.author = author or os.environ.get("RUNLORE_AUTHOR") or _user()
        self._private_url, self._read_only = url, read_only
        self._again: dict[int, Again] = {}
        self._to_sum: set[int] = set()
        self._to_charge: dict[int, dict[str, tuple[int, ...]] | None] = {}
        self._numbers: dict[str, dict[tuple[Any, ...], int]] = {}
        self._depth = 0
        self._parts: set[str] | None = None
        self._emptied: set[int] = set()
        self._aside: Database | None = None
        self.db = Database(url, self.url, read_only=read_only, is_shared=is_shared)
        try:
            self._migrate_server(read_only)
        except BaseException:
            self.db.close()
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
            # Another sync may be about to make a month, for which it would wait for us.
            self._lock_for_writing()
            self.db.execute("set local statement_timeout = 0")
            version = self._format()  # Another process may have done it while this one waited.
            for number, sql in steps:
                if number > version:
                    self.db.script(sql)
                    self.db.execute("insert into runlore_format values (?, now())", (number,))

    def _format(self) -> int:
        """Return the number of the last migration; 0 in an empty schema. Raises StoreError when the
        schema has something else in it."""
        if self._one("select current_schema()")[0] is None:
            raise StoreError(
                f"{self.url}: the schema of its search_path does not exist; create it first"
            )
        if self._is_there("runlore_format"):
            return int(self._one("select coalesce(max(number), 0) from runlore_format")[0])
        if (
            self._is_there("migrations")
            and self._is_there("sessions")
            and self._is_there("streams")
        ):
            raise StoreTooOld(
                f"{self.url} was made by a development version of runlore, which this one cannot"
                " read; name an empty database or schema, and run `runlore sync`"
            )
        if self._is_there("sessions"):
            raise StoreError(
                f"{self.url} is a database of something else; name another, or a schema:"
                " ?options=-csearch_path%3Dname"
            )
        return 0

    def _is_there(self, table: str) -> bool:
        # Not `to_regclass`: it may not see what another process has just made.
        return (
            self._one(
                "select 1 from pg_class where relname = ? and relnamespace ="
                " current_schema()::regnamespace",
                (table,),
            )
            is not None
        )

    def close(self) -> None:
        self.db.close()
        self._close_aside()

    @property
    def aside(self) -> Database:
        """A second connection, for what must not be a part of the open transaction, or is done
        beside it. Kept while a sync lasts: a server takes 10 ms for a new one, and longer until
        that knows the tables."""
        if self._aside is None:
            self._aside = Database(self._private_url, self.url, patience_s=PATIENCE_S)
        return self._aside

    def _close_aside(self) -> None:
        if self._aside is not None:
            self._aside.close()
        self._aside = None

    # ── transactions and locks ────────────────────────────────────────────────────────────────────
    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._depth:
            yield
            return
        self.db.begin()
        self._depth = 1
        self._is_writing = False
        self._parts = None  # Someone else may have dropped one.
        try:
            yield
            self._sum_up()
            self.db.commit()
        except BaseException:
            self._to_sum.clear()
            self._to_charge.clear()
            self.db.rollback()
            raise
        finally:
            self._depth = 0
            self._seen = None
            self._numbers.clear()

    def _lock_for_writing(self) -> None:
        if not self._is_writing:
            self._lock(_WRITE)
            self._is_writing = True
            self._seen = Seen()

    def _lock(self, what: int) -> None:
        """Until the transaction ends. Waits as long as it takes: whoever has it is at work, or is
        thrown out by the server."""
        self.db.execute("set local statement_timeout = 0")
        self.db.execute("select pg_advisory_xact_lock(?::int, hashtext(current_schema()))", (what,))
        self.db.execute(f"set local statement_timeout = '{SETTINGS['statement_timeout']}'")

    @contextmanager
    def sync_lock(self) -> Iterator[None]:
        """One sync for each author and machine. What several write at once is put in order by
        `put`."""
        # A connection of its own: the server lets go of the lock when it is lost, whatever becomes
        # of the other.
        lock = Database(self._private_url, self.url, patience_s=PATIENCE_S)
        try:
            sql = "select pg_try_advisory_lock(?::int, hashtext(current_schema() || ' ' || ?))"
            if not lock.execute(sql, (_SYNC, self.reader)).fetchone()[0]:
                raise StoreBusy("another sync is running; this one has nothing to do")
            yield
        finally:
            self._close_aside()
            with suppress(StoreError):
                # The server notices a closed connection a moment later.
                lock.execute("select pg_advisory_unlock_all()")
            lock.close()

    def _unsettled(self) -> Iterator[list[SourceState]]:
        """Of every machine of this author. One that is syncing has its lock, and looks for itself
        when it has let go of that."""
        sql = (
            f"select distinct reader from sources where author = ? and {OVERTAKEN_AND_KEPT} order"
            " by 1"
        )
        machine = self.machine
        try:
            for (reader,) in self._all(sql, (self.author,)):
                self.machine = reader.removeprefix(f"{self.author}@")
                yield from super()._unsettled()
        finally:
            self.machine = machine

    # ── months ────────────────────────────────────────────────────────────────────────────────────
    def _make_months(self, months: set[int]) -> None:
        """The partitions of these months. Made aside and at once: in the open transaction they
        would lock all others out."""
        self._lock_for_writing()  # So nobody drops one meanwhile.
        if self._parts is None:
            self._parts = self._find_parts()
        parts = {month: [partition(table, month) for table in PARTITIONED] for month in months}
        if not (
            missing := {
                month: names for month, names in parts.items() if not self._parts.issuperset(names)
            }
        ):
            return
        self.aside.begin()
        try:
            self.aside.execute(
                "select pg_advisory_xact_lock(?::int, hashtext(current_schema()))", (_DIVIDE,)
            )
            there = self._find_parts()
            sql = [
                _make_part(table, month)
                for month, names in missing.items()
                if not there.issuperset(names)
                for table in PARTITIONED
            ]
            self.aside.script("; ".join(sql) or "select 1")
            self.aside.commit()
        except BaseException:
            self.aside.rollback()
            raise
        made = [name for names in missing.values() for name in names]
        # A transaction notices what others have made when it takes a lock that it does not have
        # yet.
        self.db.execute(f"lock table {', '.join(made)} in row exclusive mode")
        self._parts.update(made)

    def _find_parts(self) -> set[str]:
        sql = (
            "select relname from pg_class where relispartition and relkind = 'r' and relnamespace ="
            " current_schema()::regnamespace"
        )
        return {name for (name,) in self._all(sql)}

    def _drop_empty_months(self, months: set[int]) -> None:
        """Drops the partitions in which nothing is left. Nobody writes meanwhile: this is called by
        who holds the lock."""
        for month in months:
            bounds = (month << 31, (month + 1) << 31)
            if any(
                self._one(
                    f"select 1 from {table} where session >= ? and session < ? limit 1", bounds
                )
                for table in PARTITIONED
            ):
                continue
            if self._is_there(partition("segments", month)):
                self.db.execute(
                    f"drop table {', '.join(partition(table, month) for table in PARTITIONED)}"
                )
        self._parts = None

    # ── the ledger ────────────────────────────────────────────────────────────────────────────────
    def _all_in(self, table: str, names: tuple[str, ...]) -> dict[tuple[Any, ...], int]:
        self._lock_for_writing()  # So nobody else gives the same number, or drops it.
        return super()._all_in(table, names)

    # ── digests ───────────────────────────────────────────────────────────────────────────────────
    def drop_digests(self, uids: Sequence[str]) -> None:
        with self.transaction():
            self._lock_for_writing()
            super().drop_digests(uids)

    # ── forgetting, space ─────────────────────────────────────────────────────────────────────────
    def _drop_sessions(self, numbers: list[int]) -> None:
        self._lock_for_writing()
        self._seen = Seen()
        these = array(numbers)
        sources = array(
            source
            for (source,) in self._all(
                "select distinct source from streams where session = any(?::bigint[])", (these,)
            )
        )
        for table in (
            "search",
            "segments",
            "natives",
            "events",
            "streams",
            "calls",
            "sums",
            "claims",
            "digests",
            "errors",
        ):
            self.db.execute(f"delete from {table} where session = any(?::bigint[])", (these,))
        self.db.execute("delete from sessions where number = any(?::bigint[])", (these,))
        # Native records of one file cannot be told apart by session, so all of the file's go.
        for table in ("records", "skips", "aliases"):
            self.db.execute(f"delete from {table} where source = any(?::bigint[])", (sources,))
        self.db.execute(
            "update sources set carry = null, problem = ? where number = any(?::bigint[])"
            " and not exists (select 1 from streams where source = number)",
            (FORGOTTEN, sources),
        )
        months = {number >> 31 for number in numbers}
        self._drop_empty_months(months)
        self._emptied |= months

    def _redact_block(self, session: int, block: int, cleaner: Cleaner) -> int:
        self._lock_for_writing()
        self._emptied.add(session >> 31)
        return super()._redact_block(session, block, cleaner)

    def _evict(self, session: int, uid: str, when: datetime) -> None:
        self._lock_for_writing()
        self._emptied.add(session >> 31)
        super()._evict(session, uid, when)

    def used_bytes(self) -> int:
        return self._file_bytes()

    def shrink(self, *, most_left: bool = False) -> None:
        self.purge()

    def purge(self) -> None:
        with self.transaction():
            self._lock_for_writing()
            self._drop_empty_months(self._emptied)
        self._wait_for_older()
        # Deleted rows keep their bytes until their table is written anew. That locks it, so only
        # what was deleted from is.
        parts = [
            partition(table, month) for month in sorted(self._emptied) for table in PARTITIONED
        ]
        for table in (
            *filter(self._is_there, parts),
            "sessions",
            "streams",
            "records",
            "sources",
            "calls",
            "models",
            "natives",
            "aliases",
            "skips",
            "digests",
            "errors",
        ):
            self.db.execute(f"vacuum full {table}")
        self._emptied.clear()

    def _wait_for_older(self) -> None:
        """Until nobody can see any more what was deleted, for a while: whoever began before may
        (the server, when it counts rows), and a table that is written anew keeps it for them, and
        its index as well."""
        (mark,) = self._one("select pg_current_xact_id()::xid::text")
        until = time.monotonic() + WAIT_S
        while self._one(_OLDER, (mark,)) is not None and time.monotonic() < until:
            time.sleep(0.05)


def _make_part(table: str, month: int) -> str:
    """The statements that make one."""
    name, bounds = partition(table, month), f"from ({month << 31}) to ({(month + 1) << 31})"
    make = f"create table {name} (like {table} including all) {_OPTIONS.get(table, '')}"
    return f"{make}; alter table {table} attach partition {name} for values {bounds}"


def partition(table: str, month: int) -> str:
    """The name of the part of a table that has the sessions of a month."""
    return f"{table}_{1970 + month // 12}_{month % 12 + 1:02}"


def without_password(url: str) -> str:
    """The address as it may be shown."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = "&".join(word for word in parts.query.split("&") if not word.startswith("password="))
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}", query=query))


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # A container without a name for its user, or Windows.
        return "unknown"
