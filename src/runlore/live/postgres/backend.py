"""A PostgreSQL server with sessions: see `LogBackend`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from ...errors import Conflict, LogError, SessionNotFound
from ...model import LogRecord
from ..backend import FIELDS, Listener, Look, SessionInfo, check_comparable, has_facts
from ..names import SHARED
from .connections import Connections
from .rows import text_of, to_column
from .schema import migrate
from .session_log import PostgresLog, add_session

FILTERS = ("cwd", "status", "agent")


class PostgresBackend:
    """Each session is a row, and each record is one.

    `lease_s` is the time after which a lease that is not renewed is free.
    """

    def __init__(self, url: str, lock_timeout_s: float, lease_s: float) -> None:
        self._connections = Connections(url, lock_timeout_s)
        self._lease_s = lease_s
        migrate(self._connections)

    @property
    def name(self) -> str:
        return self._connections.name

    @property
    def path(self) -> Path:
        raise LogError(f"{self.name}: the sessions are on a server, in no folder")

    def log(self, id: str, listener: Listener) -> PostgresLog:
        return PostgresLog(self._connections, id, listener, self._lease_s)

    def folder_of(self, id: str) -> Path:
        return self.path / id

    def creating(self) -> AbstractContextManager[Callable[[SessionInfo, int], None]]:
        return self._creating()

    @contextmanager
    def _creating(self) -> Iterator[Callable[[SessionInfo, int], None]]:
        yield self.update

    def list(
        self,
        look: Look,
        *,
        cwd: str | None,
        status: str | None,
        agent: str | None,
        where: Mapping[str, Any] | None,
        limit: int | None,
        offset: int,
    ) -> list[SessionInfo]:
        also = dict(where or {})
        check_comparable(also)
        is_stored = True
        looked: dict[str, SessionInfo] = {}
        for (id,) in self._ask(
            "select id from live_sessions where deleted_at is null"
            " and (info is null or info_seq < last_seq)"
        ):
            if (facts := look(id)) is not None:
                looked[id] = facts[0]
                is_stored = self._store(*facts) and is_stored
        wanted = {"cwd": cwd, "status": status, "agent": agent}
        if is_stored:
            return [*self._select(wanted, also, limit, offset)]
        # A role that may only read. The facts are then looked up for each listing.
        known = {info.id: info for info in self._select({}, {}, None, 0)} | looked
        sessions = [
            info
            for info in known.values()
            if all(value is None or getattr(info, name) == value for name, value in wanted.items())
            and has_facts(info, also)
            and not info.id.startswith(SHARED)
        ]
        sessions.sort(key=lambda info: (info.updated_at, info.id), reverse=True)
        return sessions[offset : None if limit is None else offset + limit]

    def update(self, info: SessionInfo, end: int) -> None:
        self._store(info, end)

    def copy(self, source: str, target: str, records: Iterable[LogRecord]) -> None:
        with self._connections.borrow() as connection, connection.transaction():
            number, last_seq, last_ns = add_session(connection, target), -1, 0
            with (
                connection.cursor() as cursor,
                cursor.copy(
                    "copy live_records (session, seq, id, ts, type, key, epoch, payload) from stdin"
                ) as copy,
            ):
                for record in records:
                    last_seq, last_ns = record.seq, max(last_ns, _ns_of(record.id))
                    copy.write_row(
                        (number, record.seq, record.id, record.ts, to_column(record.type),
                         None if record.key is None else to_column(record.key),
                         record.epoch, text_of(record.type, record.payload))
                    )  # fmt: skip
            connection.execute(
                "update live_sessions set last_seq = %s, last_ns = %s where number = %s",
                (last_seq, last_ns, number),
            )
            connection.execute(
                "insert into live_blobs select %s, name, data from live_blobs, live_sessions"
                " where session = number and id = %s and deleted_at is null",
                (number, source),
            )

    def discard(self, id: str) -> None:
        with self._connections.borrow() as connection:
            connection.execute(
                "update live_sessions set deleted_at = clock_timestamp()"
                " where id = %s and deleted_at is null",
                (id,),
            )

    def trash(self) -> Sequence[str]:
        rows = self._ask(
            "select id from live_sessions where deleted_at is not null"
            " order by deleted_at desc, number desc"
        )
        return [id for (id,) in rows]

    def restore(self, id: str) -> None:
        try:
            with self._connections.borrow() as connection:
                restored = connection.execute(
                    "update live_sessions set deleted_at = null where number = ("
                    " select number from live_sessions where id = %s and deleted_at is not null"
                    " order by deleted_at desc, number desc limit 1)",
                    (id,),
                ).rowcount
        except psycopg.errors.UniqueViolation:
            raise Conflict(f"{id}: a session with this id exists") from None
        if not restored:
            raise SessionNotFound(f"{id}: not in the trash")

    def empty_trash(self) -> int:
        return self._delete_trashed("true", ())

    def purge(self, id: str) -> bool:
        return bool(self._delete_trashed("id = %s", (id,)))

    def scrub(self) -> None:
        """Do nothing: the server frees old versions of a row by itself."""

    def reindex(self) -> None:
        with self._connections.borrow() as connection:
            connection.execute("update live_sessions set info = null, info_seq = -1")

    def close(self) -> None:
        self._connections.close()

    def _delete_trashed(self, condition: str, values: Sequence[Any]) -> int:
        """Delete sessions in the trash with all they have, and return their number."""
        with self._connections.borrow() as connection, connection.transaction():
            rows = connection.execute(
                f"delete from live_sessions where deleted_at is not null and {condition}"
                " returning number",
                values,
            ).fetchall()
            numbers = [number for (number,) in rows]
            for table in ("live_records", "live_blobs", "live_snapshots"):
                connection.execute(f"delete from {table} where session = any(%s)", (numbers,))
        return len(numbers)

    def _ask(self, sql: str, values: Sequence[Any] = ()) -> Sequence[Any]:
        with self._connections.borrow() as connection:
            return connection.execute(sql, values).fetchall()

    def _select(
        self,
        wanted: dict[str, str | None],
        also: dict[str, Any],
        limit: int | None,
        offset: int,
    ) -> Sequence[SessionInfo]:
        conditions, values = [f"id not like '{SHARED}%%'"], list[Any]()
        for name, value in wanted.items():
            if value is not None:
                conditions.append(f"{name} = %s")
                values.append(_clean(value))
        for name, value in also.items():
            path = [name] if name in FIELDS else ["extra", name]
            if value is None:
                conditions.append("info #> %s is null")
                values.append(path)
            else:
                conditions.append("(info #> %s)::text = %s")
                values += [path, _clean(json.dumps(value, ensure_ascii=False))]
        rows = self._ask(
            "select info::text from live_sessions where deleted_at is null and info is not null"
            f" and {' and '.join(conditions)} order by updated_at desc, id limit %s offset %s",
            (*values, limit, offset),
        )
        return [msgspec.json.decode(text, type=SessionInfo) for (text,) in rows]

    def _store(self, info: SessionInfo, end: int) -> bool:
        """Store the facts in a log up to a position. Return False if the server refuses."""
        text = json.dumps(msgspec.to_builtins(info, str_keys=True), ensure_ascii=False)
        try:
            with self._connections.borrow() as connection:
                connection.execute(
                    "update live_sessions set info = %s, info_seq = %s, cwd = %s, agent = %s,"
                    " status = %s, updated_at = %s"
                    " where id = %s and deleted_at is null and info_seq < %s",
                    (_clean(text), end - 1, _clean(info.cwd), _clean(info.agent),
                     _clean(info.status), info.updated_at, info.id, end),
                )  # fmt: skip
        except LogError:
            return False
        return True


def _clean(text: str | None) -> str | None:
    """Replace what no text of PostgreSQL can hold: lone surrogates and NUL."""
    return None if text is None else text.encode("utf-8", "replace").decode().replace("\0", "�")


def _ns_of(id: str) -> int:
    try:
        return min(int(id[:16], 16), (1 << 63) - 1)
    except ValueError:
        return 0
