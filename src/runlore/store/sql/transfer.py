"""Sources and sessions of another store, stored here under new numbers, each in one transaction.

`copying` decides what is transferred, and in which order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..digest_rows import ERROR
from ..rows import LENGTH, OFFSET
from ..segments import pack_one, unpack
from ..values import Row, TransferredSession
from .database import Database
from .index import SqlIndex
from .ledger import SqlLedger
from .put import INSERT_EVENT, PUT_RECORDS
from .sessions import SqlSessions
from .terms import MODEL, TARIFF


class SqlTransfer:
    """See `Transfer` in the contracts."""

    def __init__(
        self, db: Database, sessions: SqlSessions, index: SqlIndex, ledger: SqlLedger
    ) -> None:
        self.db, self.sessions, self.index, self.ledger = db, sessions, index, ledger
        self.source_columns = db.source_columns

    def session_columns(self) -> list[str]:
        return [name for name in self.db.session_columns() if name != "number"]

    def _take_source_row(self, row: dict[str, Any], number: int | None) -> int:
        """Update a source, or insert it if it has no number here; return its number here."""
        names = [
            name
            for name in row
            if name != "number"
            and (name in self.db.source_columns or name not in ("reader", "author"))
        ]
        quoted = ", ".join(f'"{name}"' for name in names)
        values = [row[name] for name in names]
        if number is None:
            placeholders = ", ".join("?" * len(names))
            sql = f"insert into sources ({quoted}) values ({placeholders}) returning number"
            return int(self.db.one(sql, values)[0])
        changes = ", ".join(f'"{name}" = ?' for name in names)
        self.db.execute(f"update sources set {changes} where number = ?", (*values, number))
        return number

    def take_session(self, taken: TransferredSession) -> int:
        with self.db.transaction():
            self._drop_old(str(taken.session["uid"]))
            number = self._take_row(taken.session)
            self.db.executemany(
                "insert into streams values (?, ?, ?, ?, ?, ?)",
                ((number, *row) for row in taken.streams),
            )
            self._take_events(number, taken)
            self.db.executemany(
                "insert or ignore into natives values (?, ?, ?)",
                ((h, number, seq) for h, seq in taken.natives),
            )
            self._take_segments(number, taken)
            self._take_calls(number, taken.calls)
            self._take_digest(number, taken)
            self.ledger.changed.add(number)
        return number

    def _take_digest(self, number: int, taken: TransferredSession) -> None:
        if taken.digest is not None:
            self.db.execute(
                "insert into digests values (?, ?, ?, ?, ?, ?, ?, ?)", (number, *taken.digest)
            )
        self.db.executemany(
            f"insert into errors values (?{', ?' * len(ERROR)})",
            ((number, *row) for row in taken.errors),
        )

    def _take_events(self, number: int, taken: TransferredSession) -> None:
        self.db.executemany(INSERT_EVENT, ((number, *row) for row in taken.events))

    def _drop_old(self, uid: str) -> None:
        """Drop a session that was transferred before and has changed since."""
        number = self.sessions.number(uid)
        if number is None:
            return
        self.index.drop("session = ?", (number,))
        for table in (
            "natives",
            "events",
            "streams",
            "calls",
            "aliases",
            "digests",
            "errors",
            "sums",
        ):
            self.db.execute(f"delete from {table} where session = ?", (number,))
        self.db.execute("delete from sessions where number = ?", (number,))

    def _take_row(self, row: dict[str, Any]) -> int:
        """Insert the row of a session; return its number here."""
        names = [name for name in self.db.session_columns() if name in row and name != "number"]
        sql = (
            f"insert into sessions ({', '.join(names)}) values ({', '.join('?' * len(names))})"
            " returning number"
        )
        return int(self.db.one(sql, [row[name] for name in names])[0])

    def _take_segments(self, number: int, taken: TransferredSession) -> None:
        at = 0
        for first, last, length, hash_, body in taken.segments:
            data = unpack(body, length, hash_)
            while at < len(taken.events) and taken.events[at][0] < first:
                at += 1
            end = at
            while end < len(taken.events) and taken.events[end][0] <= last:
                end += 1
            rows = [list(row) for row in taken.events[at:end]]
            bodies = [
                None if row[OFFSET] is None else data[row[OFFSET] : row[OFFSET] + row[LENGTH]]
                for row in rows
            ]
            self.index.write(number, first, last, pack_one(rows, bodies))
            at = end

    def _take_calls(self, number: int, calls: Sequence[dict[str, Any]]) -> None:
        if not calls:
            return
        terms = (*MODEL, *TARIFF)
        rows = [
            {
                "session": number,
                **{name: value for name, value in call.items() if name not in terms},
                "made_by": self.ledger.terms.model(call[name] for name in MODEL),
                "priced_by": self.ledger.terms.tariff(call[name] for name in TARIFF),
            }
            for call in calls
        ]
        names = list(rows[0])
        changes = ", ".join(f"{name} = excluded.{name}" for name in names)
        sql = (
            f"insert into calls ({', '.join(names)}) values (?{', ?' * (len(names) - 1)})"
            f" on conflict (hash) do update set {changes} {self.db.may_replace_call}"
        )
        # A call that counted for another session here may now count for this one.
        self.ledger.touch_calls([call["hash"] for call in calls])
        self.db.executemany(sql, (tuple(row.values()) for row in rows))
        self.ledger.charges.to_charge.setdefault(number)

    def take_rest(
        self, source: int, records: Sequence[Any], skips: Sequence[Any], aliases: Sequence[Any]
    ) -> None:
        with self.db.transaction():
            for table in ("records", "skips", "aliases"):
                self.db.execute(f"delete from {table} where source = ?", (source,))
            self.db.executemany(PUT_RECORDS, ((source, *row) for row in records))
            self.db.executemany(
                "insert or ignore into skips values (?, ?, ?)", ((source, *row) for row in skips)
            )
            self.db.executemany(
                "insert or ignore into aliases values (?, ?, ?, ?)",
                ((source, *row) for row in aliases),
            )

    def claims(self) -> list[Row]:
        return []  # All sessions in a file belong to one author.

    def take_claims(self, rows: Sequence[Row]) -> None:
        return  # A file has no other authors.

    def name_of(self, uid: str, author: str | None) -> tuple[str, str | None]:
        return uid, author

    def take_tombstones(self, rows: Sequence[tuple[str, str]]) -> None:
        with self.db.transaction():
            self.db.executemany("insert or ignore into tombstones values (?, ?)", rows)
