"""Transfers into a PostgreSQL store.

Rows are sent in bulk, each session to the partition of its month. Sessions of other authors are not
changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ...adapters import Facts
from ...model import parse_time
from ...timeline import Tally
from ..sql.index import SqlIndex
from ..sql.ledger import SqlLedger
from ..sql.sessions import SqlSessions
from ..sql.transfer import SqlTransfer
from ..values import STALE_COPIES, Row, TransferredSession
from .claims import Claims
from .database import AuthorNotes, PostgresDatabase
from .months import month_of
from .rows import clean_row, clean_stream

_OTHER_AUTHORS = (
    "select 1 from streams t join sources s on s.number = t.source where s.author != ? and"
    " t.session = ? limit 1"
)
"""The test for sources of other authors in a session."""

_NO_DIGEST: dict[str, Any] = dict.fromkeys(("analyzed_at", "analyzed_seq", "analyzed_hash"))
"""Values for a session under another uid. A digest contains the uid, so it is made again."""


class PostgresTransfer(SqlTransfer):
    """See `Transfer` in the contracts."""

    db: PostgresDatabase

    def __init__(
        self,
        db: PostgresDatabase,
        sessions: SqlSessions,
        index: SqlIndex,
        ledger: SqlLedger,
        claims: Claims,
    ) -> None:
        super().__init__(db, sessions, index, ledger)
        self._claims = claims

    def take_source(self, row: dict[str, Any]) -> int:
        row = {
            **row,
            "reader": row.get("reader") or self.db.reader,
            "author": row.get("author") or self.db.author,
        }
        with self.db.transaction():
            self.db.lock_for_writing()
            known = self.db.one(
                "select number from sources where reader = ? and agent = ? and path = ?",
                (row["reader"], row["agent"], row["path"]),
            )
            return self._take_source_row(row, None if known is None else int(known[0]))

    def name_of(self, uid: str, author: str | None) -> tuple[str, str | None]:
        owner = author or self.db.author
        return self._name_for(owner, uid), owner

    def _name_for(self, author: str, uid: str) -> str:
        """Return the uid under which a session of an author is, or would be, stored.

        It is another one if the uid belongs to a session of another author.
        """
        claim = self.db.one(
            "select s.uid from claims c join sessions s on s.number = c.session where c.author = ?"
            " and c.uid = ?",
            (author, uid),
        )
        if claim is not None:
            return str(claim[0])
        known = self.db.one("select author from sessions where uid = ?", (uid,))
        return uid if known is None or known[0] in (author, None) else f"{uid}~{author}"

    def take_session(self, taken: TransferredSession) -> int:
        uid, author = taken.session["uid"], taken.session.get("author") or self.db.author
        with self.db.transaction():
            self.db.lock_for_writing()
            name = self._name_for(author, uid)
            known = self.db.one(
                "select number, content_hash, last_seq, evicted_at is not null from sessions where"
                " uid = ?",
                (uid,),
            )
            content = (
                taken.session["content_hash"],
                taken.session["last_seq"],
                taken.session["evicted_at"] is not None,
            )
            # Another author has a session with the same content.
            if known is not None and name != uid and known[1:] == content:
                self._claims.add(author, uid, known[0])
                return int(known[0])
            before = self.db.one("select number from sessions where uid = ?", (name,))
            if before is not None and self.db.one(_OTHER_AUTHORS, (author, *before)):
                # Replacing the session would lose the parts of others. The next sync derives the
                # parts of this author again.
                self._derive_again(source for _, source, *_ in taken.streams)
                return int(before[0])
            number = super().take_session(self._adapt(taken, author, name))
            if before is not None:
                self.db.execute(
                    "update claims set session = ? where session = ?", (number, *before)
                )
            if name != uid:
                self._claims.add(author, uid, number)
            return number

    def _derive_again(self, sources: Iterable[int]) -> None:
        """Mark these sources, so that the next sync derives them again."""
        for source in sources:
            self.db.execute(
                "update sources set adapter_version = ? where number = ?", (STALE_COPIES, source)
            )

    def _adapt(self, taken: TransferredSession, author: str, name: str) -> TransferredSession:
        """Return the session as this database stores it: with an author, under a uid, without NUL.

        Under another uid it has no digest.
        """
        columns: dict[str, Any] = {
            "author": author,
            "machine": taken.session.get("machine") or self.db.machine,
        }
        if name != taken.session["uid"]:
            columns |= {"uid": name, "native_session_id": name.partition(":")[2], **_NO_DIGEST}
            taken = msgspec.structs.replace(taken, digest=None, errors=[])
        streams = [
            (block, source, *_clean_packed(facts, tally), hash_)
            for block, source, facts, tally, hash_ in taken.streams
        ]
        return msgspec.structs.replace(taken, session={**taken.session, **columns}, streams=streams)

    def _take_row(self, row: dict[str, Any]) -> int:
        month = month_of(parse_time(row["started_at"]) if row["started_at"] else None)
        self.db.months.make({month})
        names = [name for name in self.db.session_columns() if name in row and name != "number"]
        sql = (
            f"insert into sessions (number, {', '.join(names)}) values (?::bigint << 31 |"
            f" nextval('session_numbers'){', ?' * len(names)}) returning number"
        )
        self.db.notes = AuthorNotes()
        return int(self.db.one(sql, [month, *(row[name] for name in names)])[0])

    def _take_events(self, number: int, taken: TransferredSession) -> None:
        flavor = taken.session["flavor"]
        self.db.connection.copy(
            "events", [clean_row([number, *row], flavor) for row in taken.events]
        )

    def claims(self) -> list[Row]:
        return self.db.all("select author, uid, session from claims order by author, uid")

    def take_claims(self, rows: Sequence[Row]) -> None:
        with self.db.transaction():
            self.db.lock_for_writing()
            for author, uid, session in rows:
                self._claims.add(author, uid, session)

    def take_tombstones(self, rows: Sequence[tuple[str, str]]) -> None:
        """Store tombstones, except those of sessions that belong to other authors here."""
        sql = (
            "select uid from sessions where uid = any(?) and author is distinct from ? and author"
            " is not null"
        )
        others = {uid for (uid,) in self.db.all(sql, ([uid for uid, _ in rows], self.db.author))}
        super().take_tombstones([row for row in rows if row[0] not in others])


def _clean_packed(facts: bytes, tally: bytes) -> tuple[bytes, bytes]:
    clean_facts, clean_tally = clean_stream(
        msgspec.msgpack.decode(facts, type=Facts), msgspec.msgpack.decode(tally, type=Tally)
    )
    return msgspec.msgpack.encode(clean_facts), msgspec.msgpack.encode(clean_tally)
