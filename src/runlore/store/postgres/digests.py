"""Digests of a PostgreSQL store: a session is read for one in a single round trip."""

from __future__ import annotations

from collections.abc import Sequence

from ..sql.digests import SqlDigests
from ..sql.sessions import EVENT
from ..values import Row


class PostgresDigests(SqlDigests):
    """See `Digests` in the contracts."""

    def stored(self, uid: str) -> tuple[Sequence[Row], Sequence[Row]]:
        of = "where session = (select number from sessions where uid = ?) order by"
        columns = "id, first_seq, last_seq, length, hash, body"
        rows, segments = self.db.answer(
            [
                (f"select {EVENT} from events {of} seq", (uid,)),
                (f"select {columns} from segments {of} first_seq", (uid,)),
            ]
        )
        return rows, segments
