"""Totals of sessions over the streams of their sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from ...adapters import Facts
from ..known import File, Stream
from ..totals import add_up
from .database import Database


class SqlTotals:
    """Updates the columns of `sessions` that are totals over streams."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def update_source(self, source: int) -> None:
        """Write the totals of the sessions of a source."""
        where = "t.session in (select session from streams where source = ?)"
        for session, totals in self._of_streams(where, source):
            self.write(session, *totals)

    def update(self, uid: str) -> None:
        """Write the totals of a session."""
        (session,) = self.db.one("select number from sessions where uid = ?", (uid,))
        totals = self.of_session(session)
        if totals is not None:
            self.write(session, *totals)

    def of_session(self, session: int) -> tuple[Facts, dict[str, Any]] | None:
        return next((totals for _, totals in self._of_streams("t.session = ?", session)), None)

    def _of_streams(
        self, where: str, value: int
    ) -> Iterator[tuple[int, tuple[Facts, dict[str, Any]]]]:
        """Yield the totals of sessions by number. `where` selects streams `t`."""
        sql = (
            "select t.session, t.block, t.source, t.facts, t.tally, t.hash, q.path, q.size,"
            " q.missing_at, (select coalesce(max(seq), -1) from events e where e.session ="
            " t.session) from streams t join sources q on q.number = t.source where t.hash != x''"
            f" and {where} order by t.session, t.block"
        )
        for session, group in groupby(self.db.all(sql, (value,)), key=lambda row: row[0]):
            rows = list(group)
            streams = [Stream(*row[1:6]) for row in rows]
            files = {row[2]: File(*row[6:9]) for row in rows}
            totals = add_up(streams, files, rows[0][9])
            if totals is not None:
                yield session, totals

    def write(self, session: int, facts: Facts, columns: dict[str, Any]) -> None:
        self.db.execute(
            totals_update(columns), (*columns.values(), facts.task_ref, facts.repo, session)
        )


def totals_update(columns: Iterable[str]) -> str:
    """Return the statement that updates these columns of a session.

    Its last values are the task, the repository, and the number of the session.
    """
    return (
        f"update sessions set {' = ?, '.join(columns)} = ?, task_ref = coalesce(?, task_ref), repo"
        " = coalesce(repo, ?) where number = ?"
    )
