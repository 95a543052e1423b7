"""Digests of a PostgreSQL store."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...model import Digest
from ..dead_ends import dead_ends_of
from ..sql.digests import SqlDigests, rows_of_digest, said_by
from ..sql.sessions import EVENT
from ..values import Row
from .database import PostgresDatabase
from .known import clean


class PostgresDigests(SqlDigests):
    """See `Digests` in the contracts."""

    db: PostgresDatabase

    def stored(self, uid: str) -> tuple[Sequence[Row], Sequence[Row]]:
        """In one round trip."""
        of = "where session = (select number from sessions where uid = ?) order by"
        rows, segments = self.db.connection.ask(
            [
                (f"select {EVENT} from events {of} seq", (uid,)),
                (
                    (
                        f"select id, first_seq, last_seq, length, hash, body from segments {of}"
                        " first_seq"
                    ),
                    (uid,),
                ),
            ]
        )
        return rows, segments

    def is_current(self, digest: Digest) -> bool:
        known, covers = self.db.new_session(digest.session_uid), digest.covers
        if known is None:
            return super().is_current(digest)
        return (known[1]["last_seq"], known[1]["content_hash"]) == (
            covers.last_seq,
            covers.content_hash,
        )

    def put(self, digest: Digest, when: datetime) -> None:
        known = self.db.new_session(digest.session_uid)
        if known is None:
            with self.db.transaction():
                self.db.lock_for_writing()
                super().put(digest, when)
            return
        made, row = known
        is_first, made.has_digest = not made.has_digest, True
        if is_first and self.db.is_waiting(row):
            self.write(made.number, digest, when, is_first=True)
            self.charges.to_charge[made.number] = dead_ends_of(digest)
            row.update(**said_by(digest, when))
        else:
            self.replace(made.number, digest, when, is_first=is_first)

    def write(
        self, session: int, digest: Digest, when: datetime, *, is_first: bool = False
    ) -> None:
        if not is_first:
            super().write(session, digest, when)
            return
        row, errors = rows_of_digest(session, digest, when)
        self.db.connection.copy("digests", [row], ahead=True)
        self.db.connection.copy("errors", [clean(error) for error in errors], ahead=True)
