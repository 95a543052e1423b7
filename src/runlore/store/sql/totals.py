"""What a session adds up to over the streams of its sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import groupby
from typing import Any

import msgspec

from ...adapters import Facts
from ...model import format_time
from ...timeline import Tally, merge
from ..facts import fold_facts
from .database import Database


class Totals:
    """Writes the columns of `sessions` that are sums over its streams."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def update_source(self, source: int) -> None:
        """Writes what is a sum over streams, for all sessions of a source in one question."""
        sql = (
            "select s.session, s.facts, s.tally, s.hash, q.path, q.size, q.missing_at, (select"
            " coalesce(max(seq), -1) from events e where e.session = s.session) from streams s join"
            " sources q on q.number = s.source where s.hash != x'' and s.session in (select session"
            " from streams where source = ?) order by s.session, s.block"
        )
        for session, rows in groupby(self.db.all(sql, (source,)), key=lambda row: row[0]):
            streams = list(rows)
            self.write(session, *self.add_up([row[1:7] for row in streams], streams[0][7]))

    def update(self, uid: str) -> None:
        """Writes what is a sum over the session's streams."""
        (session,) = self.db.one("select number from sessions where uid = ?", (uid,))
        sums = self.of_session(session)
        if sums is not None:
            self.write(session, *sums)

    def write(self, session: int, facts: Facts, columns: dict[str, Any]) -> None:
        self.db.execute(
            f"update sessions set {' = ?, '.join(columns)} = ?, task_ref = coalesce(?, task_ref),"
            " repo = coalesce(repo, ?) where number = ?",
            (*columns.values(), facts.task_ref, facts.repo, session),
        )

    def of_session(self, session: int) -> tuple[Facts, dict[str, Any]] | None:
        rows = self.db.all(
            "select s.facts, s.tally, s.hash, q.path, q.size, q.missing_at from streams s join"
            " sources q on q.number = s.source where s.session = ? and s.hash != x'' order by"
            " s.block",
            (session,),
        )
        if not rows:
            return None
        (last_seq,) = self.db.one(
            "select coalesce(max(seq), -1) from events where session = ?", (session,)
        )
        return self.add_up(rows, last_seq)

    def add_up(self, rows: Sequence[Any], last_seq: int) -> tuple[Facts, dict[str, Any]]:
        """The same, of (facts, tally, hash, path, size, missing_at) of its streams."""
        facts = fold_facts([msgspec.msgpack.decode(row[0], type=Facts) for row in rows])
        tally = merge([msgspec.msgpack.decode(row[1], type=Tally) for row in rows])
        hashes = b"".join(row[2] for row in rows)
        content = hashes if len(rows) == 1 else blake2b(hashes, digest_size=16).digest()
        return facts, columns_of(
            facts, tally, content, last_seq, {row[3]: (row[4], row[5]) for row in rows}
        )


def columns_of(
    facts: Facts,
    tally: Tally,
    content: bytes,
    last_seq: int,
    files: Mapping[str, tuple[int, str | None]],
) -> dict[str, Any]:
    """What a session adds up to, by column. Of each of its sources in their order, `files` has the
    size and since when it is missing."""
    return dict(
        title=facts.title or tally.first_prompt,
        cwd=facts.cwd,
        git_branch=facts.git_branch,
        model=facts.model,
        parent_uid=facts.parent_uid,
        relation=facts.relation,
        started_at=_iso(tally.started_at),
        ended_at=_iso(tally.ended_at or facts.written_at),
        events=tally.events,
        errors=tally.errors,
        turns=tally.turns,
        retries=tally.retries,
        wall_clock_s=tally.wall_clock_s,
        **msgspec.structs.asdict(tally.usage),
        last_seq=last_seq,
        content_hash=content.hex(),
        source_path=next(iter(files)),
        source_bytes=sum(size for size, _ in files.values()),
        source_missing_at=(
            None
            if any(gone is None for _, gone in files.values())
            else max(gone for _, gone in files.values() if gone)
        ),
    )


def _iso(value: datetime | None) -> str | None:
    return format_time(value) if value else None
