"""The log of a session on a server: see `SessionLog`. A position is the seq of the next record."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg

from ...errors import Conflict, LogError, SessionBusy, SessionNotFound
from ...model import LogRecord
from .. import codec
from ..backend import Item, Listener, Problem
from .blobs import PostgresBlobs
from .connections import Connection, ConnectionLost, Connections
from .following import Following, channel
from .lease import PostgresLease
from .rows import COLUMNS, record_of, text_of, to_column
from .snapshots import PostgresSnapshots

PAGE = 1000
"""Number of records that are read at once."""
BYTES_PER_RECORD = 1000
"""A guess: the size of a record is not worth a question to the server."""
MAX_PROBLEMS = 1000
MAX_TRIES = 20
"""Maximum number of tries for an append whose obstacles vanish before they can be named."""

_APPEND = """
with session as (
    update live_sessions set
        last_seq = last_seq + %(count)s,
        last_ns = greatest(last_ns, %(ns)s) + %(count)s,
        lease_until = case when %(epoch)s::int is null then lease_until
            else clock_timestamp() + make_interval(secs => %(lease_s)s) end,
        -- A holder whose time is over must notice that someone else has written.
        lease_epoch = lease_epoch
            + case when %(epoch)s::int is null and lease_until is not null then 1 else 0 end
    where number = %(session)s and deleted_at is null
        and (%(expect)s::bigint is null or last_seq = %(expect)s)
        and case when %(epoch)s::int is null
            then lease_until is null or lease_until <= clock_timestamp()
            else lease_epoch = %(epoch)s end
    returning last_seq - %(count)s as last_seq, last_ns - %(count)s as last_ns
), added as (
    insert into live_records
    select %(session)s, last_seq + place, lpad(to_hex(last_ns + place), 16, '0') || %(suffix)s,
        %(ts)s, type, key, %(epoch)s, payload::json
    from session, {items} as item (type, key, payload, place)
)
select last_seq, last_ns,
    -- Whoever follows the session has the lock, shared.
    case when not pg_try_advisory_xact_lock(%(channel)s)
        then pg_notify('runlore_live', %(session)s::text) end
from session
"""
"""Locks the row of the session, checks what the writer expects and its epoch, and appends.

No row comes back if a check fails.
"""
APPEND_ONE = _APPEND.format(
    items="(values (%(types)s::text, %(keys)s::text, %(payloads)s::text, 1))"
)
"""Arrays cost as much as the rest of the statement, so one record goes without."""
APPEND_MANY = _APPEND.format(
    items="unnest(%(types)s::text[], %(keys)s::text[], %(payloads)s::text[]) with ordinality"
)


class PostgresLog:
    """The records of one session."""

    def __init__(
        self, connections: Connections, id: str, listener: Listener, lease_s: float
    ) -> None:
        self.id = id
        self.number: int | None = None
        self.problems: list[Problem] = []
        self.is_inherited = False
        self.connections = connections
        self.lease = PostgresLease(self, lease_s)
        self.blobs = PostgresBlobs(self)
        self.snapshots = PostgresSnapshots(self)
        self._listener = listener
        self._end = 0
        self._following: Following | None = None
        self._pid = os.getpid()
        self._mutex = threading.RLock()

    @property
    def mutex(self) -> threading.RLock:
        # In the child of a fork, a thread of the parent may hold the inherited one.
        if self._pid != os.getpid():
            self._pid, self._mutex, self.is_inherited = os.getpid(), threading.RLock(), True
            self._following = None
        return self._mutex

    def exists(self) -> bool:
        rows = self.ask(
            "select number, last_seq from live_sessions where id = %s and deleted_at is null",
            (self.id,),
        )
        if not rows:
            return False
        self.number, self._end = rows[0][0], max(self._end, rows[0][1] + 1)
        return True

    def create(self, items: Sequence[Item]) -> list[LogRecord]:
        new, places = self._divide(items, {})
        with self.mutex:
            with self.connections.borrow() as connection, connection.transaction():
                number = add_session(connection, self.id)
                self.blobs.send(connection, number)
                records = self.insert(connection, number, new, None)
                assert records is not None
            self.number = number
            self.blobs.forget_waiting()
            self._added(records)
        return _in_order(places, records)

    def append(self, items: Sequence[Item], expect: int | None) -> list[LogRecord]:
        with self.mutex:
            number, known = self.known_number(), dict[str, LogRecord]()
            self.lease.check()
            if self.blobs.has_waiting:  # They were stored while this was a draft of the session.
                with self.connections.borrow() as connection:
                    self.blobs.send(connection, number)
                self.blobs.forget_waiting()
            for _ in range(MAX_TRIES):
                new, places = self._divide(items, known)
                if not new:
                    return _in_order(places, [])
                records = self._try(number, new, expect)
                if records is not None:
                    self._added(records)
                    return _in_order(places, records)
                last = self._last_seq(number)
                earlier = self._by_key(number, [key for _, _, key in new if key is not None])
                if not earlier and expect is not None and expect != last:
                    message = (
                        f"{self.id}: expected to follow record {expect}, but {last} is the last"
                    )
                    raise Conflict(message, expect, last)
                known |= earlier
            raise SessionBusy(f"{self.id}: others change the session all the time")

    def overwrite(self, seq: int, payloads: Sequence[dict[str, Any]]) -> LogRecord:
        with self.mutex, self.connections.borrow() as connection:
            self.lease.check()
            changed = connection.execute(
                f"update live_records set payload = %s::json where session = %s and seq = %s"
                f" returning {COLUMNS}",
                (text_of("", payloads[0]), self.known_number(), seq),
                binary=True,
            ).fetchone()
        if changed is None:
            raise LogError(f"{self.id}: no record {seq}")
        return record_of(changed)

    def is_current(self, *, has_key: bool = False) -> bool:
        """Return False: an append waits for the server."""
        return False

    def scan(self, position: int = 0) -> Iterator[tuple[LogRecord, int]]:
        expected = position
        for record in self._pages(position, "", ()):
            if record.seq != expected:
                self._report_missing(expected, record.seq - 1)
            expected = record.seq + 1
            yield record, expected

    def scan_types(self, position: int, types: Collection[str]) -> Iterator[tuple[LogRecord, int]]:
        families = [f"{type}%" for type in types if type.endswith(".")]
        where = """and (type = any(%s) or type like any(%s)
            or seq = (select last_seq from live_sessions where number = %s))"""
        values = (list(types), families, self.known_number())
        for record in self._pages(position, where, values):
            yield record, record.seq + 1

    def collect(self, low: int, high: int, types: frozenset[str]) -> list[LogRecord]:
        where = "and type = any(%s) and seq <= %s"
        return [*self._pages(low, where, (list(types), high))]

    def tail(self, count: int) -> list[LogRecord]:
        rows = self.ask(
            f"select {COLUMNS} from live_records where session = %s order by seq desc limit %s",
            (self.known_number(), max(count, 0)),
        )
        return [record_of(row) for row in reversed(rows)]

    def position_of(self, seq: int) -> int:
        return max(seq, 0)

    def find_id(self, id: str) -> LogRecord | None:
        rows = self.ask(
            f"select {COLUMNS} from live_records where session = %s and id = %s limit 1",
            (self.known_number(), id),
        )
        return record_of(rows[0]) if rows else None

    def bytes_after(self, position: int) -> int:
        if not self._end:
            self.exists()
        return max(0, self._end - position) * BYTES_PER_RECORD

    def wait(self, seconds: float) -> bool:
        if self.number is None:  # Someone else may create it.
            time.sleep(seconds)
            return True
        if self._following is None or self._pid != os.getpid():
            self._following = Following(self.connections, self.number)
            return True
        return self._following.wait(seconds)

    def sync(self) -> None:
        """Return at once: the server has committed what was appended."""

    def close(self) -> None:
        self.lease.release()
        following, self._following = self._following, None
        if following is not None and self._pid == os.getpid():
            following.close()

    # ── for the parts of this package ─────────────────────────────────────────────────────────────
    def known_number(self) -> int:
        """Return the number of the session. Raises SessionNotFound."""
        if self.number is None and not self.exists():
            raise SessionNotFound(f"{self.id}: no such session in {self.connections.name}")
        assert self.number is not None
        return self.number

    def ask(self, sql: str, values: Sequence[Any]) -> list[Any]:
        """Return the rows of a query. It is asked again if the connection was lost."""
        for attempt in range(2):
            try:
                with self.connections.borrow() as connection:
                    return connection.execute(sql, values, binary=True).fetchall()
            except ConnectionLost:
                if attempt:
                    raise
        raise AssertionError("returned or raised")

    def insert(
        self,
        connection: Connection,
        number: int,
        items: Sequence[Item],
        expect: int | None,
    ) -> list[LogRecord] | None:
        """Append records by one statement. Return None if it refuses."""
        now, suffix, epoch = datetime.now(UTC), os.urandom(4).hex(), self.lease.epoch
        types: Any = [to_column(type) for type, _, _ in items]
        keys: Any = [None if key is None else to_column(key) for _, _, key in items]
        payloads: Any = [text_of(type, payload) for type, payload, _ in items]
        sql = APPEND_MANY
        if len(items) == 1:
            sql, types, keys, payloads = APPEND_ONE, types[0], keys[0], payloads[0]
        values = {
            "session": number, "count": len(items), "ns": time.time_ns(), "expect": expect,
            "epoch": epoch, "lease_s": self.lease.seconds, "ts": now, "suffix": suffix,
            "types": types, "keys": keys, "payloads": payloads, "channel": channel(number),
        }  # fmt: skip
        try:
            row = connection.execute(sql, values, binary=True).fetchone()
        except psycopg.DataError as error:  # A payload with too many levels, for one.
            words = str(error).strip().splitlines()[0]
            raise LogError(f"{self.id}: the server cannot store this record: {words}") from None
        if row is None:
            return None
        seq, ns, _ = row
        return [
            LogRecord(
                seq=seq + place,
                id=f"{ns + place:016x}{suffix}",
                ts=now,
                type=type,
                payload=payload,
                key=key,
                epoch=epoch,
            )
            for place, (type, payload, key) in enumerate(items, 1)
        ]

    def added_by_lease(self, records: list[LogRecord]) -> None:
        self._added(records)

    def _try(
        self, number: int, items: Sequence[Item], expect: int | None
    ) -> list[LogRecord] | None:
        """Return the new records; None if the server refuses, or a key is in use."""
        for attempt in range(2):
            try:
                with self.connections.borrow() as connection:
                    return self.insert(connection, number, items, expect)
            except psycopg.errors.UniqueViolation as error:
                if error.diag.constraint_name == "live_records_by_key":
                    return None
                raise LogError(
                    f"{self.id}: its next seq is in use: someone has inserted records without"
                    " counting them in live_sessions"
                ) from None
            except ConnectionLost as error:
                # It may have been appended. With keys that does no harm.
                if attempt or any(key is None for _, _, key in items):
                    raise ConnectionLost(
                        f"{error}; it is not known whether the record was appended"
                    ) from None
        raise AssertionError("returned or raised")

    def _divide(
        self, items: Sequence[Item], known: dict[str, LogRecord]
    ) -> tuple[Sequence[Item], Sequence[LogRecord | int]]:
        """Return the items to append, and for each item its earlier record or its place."""
        new: list[Item] = []
        places: list[LogRecord | int] = []
        place_of: dict[str, int] = {}
        for item in items:
            key = item[2]
            if key is not None and key in known:
                self._check_same(item, known[key])
                places.append(known[key])
            elif key is not None and key in place_of:
                if item != new[place_of[key]]:
                    raise self._key_conflict(key)
                places.append(place_of[key])
            else:
                if key is not None:
                    place_of[key] = len(new)
                places.append(len(new))
                new.append(item)
        return new, places

    def _check_same(self, item: Item, earlier: LogRecord) -> None:
        type_, payload, key = item
        if type_ != earlier.type or codec.as_read(payload) != earlier.payload:
            raise self._key_conflict(str(key))

    def _key_conflict(self, key: str) -> Conflict:
        return Conflict(f"{self.id}: the key {key[:80]!r} was used for another record")

    def _by_key(self, number: int, keys: list[str]) -> dict[str, LogRecord]:
        if not keys:
            return {}
        rows = self.ask(
            f"select {COLUMNS} from live_records where session = %s and key = any(%s)",
            (number, [to_column(key) for key in keys]),
        )
        return {str(record.key): record for record in map(record_of, rows)}

    def _last_seq(self, number: int) -> int:
        """Return the last seq. Raises the error of a handle that may not write."""
        rows = self.ask(
            "select deleted_at is null, last_seq from live_sessions where number = %s", (number,)
        )
        if not rows or not rows[0][0]:
            raise SessionNotFound(f"{self.id}: the session was deleted")
        self.lease.raise_if_refused()
        return int(rows[0][1])

    def _added(self, records: list[LogRecord]) -> list[LogRecord]:
        self._end = max(self._end, records[-1].seq + 1)
        self._listener.on_own(records, records[-1].seq + 1)
        return records

    def _pages(self, position: int, where: str, values: Sequence[Any]) -> Iterator[LogRecord]:
        number = self.known_number()
        while True:
            rows = self.ask(
                f"select {COLUMNS} from live_records where session = %s and seq >= %s {where}"
                f" order by seq limit {PAGE}",
                (number, position, *values),
            )
            for row in rows:
                yield record_of(row)
            if rows:
                position = rows[-1][0] + 1
                self._end = max(self._end, position)
            if len(rows) < PAGE:
                return

    def _report_missing(self, first: int, last: int) -> None:
        problem = Problem(first, 0, "records are missing", (first, last))
        if problem not in self.problems and len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)


def _in_order(places: Sequence[LogRecord | int], records: Sequence[LogRecord]) -> list[LogRecord]:
    """Return the record of each item: an earlier one, or the new one at its place."""
    return [place if isinstance(place, LogRecord) else records[place] for place in places]


def add_session(connection: Connection, id: str) -> int:
    """Create a session without records and return its number. Raises Conflict."""
    row = connection.execute(
        "insert into live_sessions (id) values (%s) on conflict (id) where deleted_at is null"
        " do nothing returning number",
        (id,),
    ).fetchone()
    if row is None:
        raise Conflict(f"{id}: a session with this id exists")
    return int(row[0])
