"""Copies all of a store that another does not have yet, whatever databases they are in.

A session is copied as a whole and in one transaction, so a copy that was stopped continues where it
stopped. The copy is of one moment, also while a sync writes to the source. Sources and sessions get
new numbers; uids, seqs, hashes and text stay the same.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from .calls import COLUMNS
from .contracts import Store
from .digest_rows import ERROR
from .rows import ROW
from .sql.terms import TARIFF
from .values import TransferredSession

SOURCE_COLUMNS = (
    "agent", "path", "root", "machine", "size", "mtime_ns", "inode", "offset", "head", "tail",
    "records", "carry", "adapter_version",
    "redact_version", "merged", "discovered_at", "synced_at", "missing_at", "problem",
)  # fmt: skip
STATE_COLUMNS = (
    "content_hash, last_seq, evicted_at, analyzed_seq, analyzed_hash, usd, pinned, name, tags, note"
)
"""Columns of a session of which one differs when anything of it does. Times of storing are not
among them, so two stores that synced the same sources have the same."""
CONTENT_COLUMNS = 3
"""The number of `STATE_COLUMNS`, from the first on, that depend on the events alone."""

Progress = Callable[[int, int], None]


class Copied(msgspec.Struct, kw_only=True):
    """The result of a copy."""

    sessions: int = 0
    events: int = 0
    calls: int = 0
    unchanged: int = 0
    """Sessions that the target had already."""
    forgotten: int = 0
    """Sessions that were forgotten in the target, and stay so."""


def copy(source: Store, target: Store, progress: Progress | None = None) -> Copied:
    """Copy everything from `source` to `target`; what else is in `target` stays.

    Raises StoreError.
    """
    result = Copied()
    with source.snapshot():
        sources = _copy_sources(source, target)
        sessions = _copy_sessions(source, target, sources, result, progress)
        _copy_rest(source, target, sources, sessions)
        target.transfer.take_claims(
            [
                (author, uid, sessions[number])
                for author, uid, number in source.transfer.claims()
                if number in sessions
            ]
        )
        _copy_tombstones(source, target)
    return result


def _copy_sources(source: Store, target: Store) -> dict[int, int]:
    """Copy the sources; return their numbers in the target by those in `source`."""
    columns = ("number", *source.transfer.source_columns, *SOURCE_COLUMNS)
    names = ", ".join(f'"{name}"' for name in columns)
    rows = (
        dict(zip(columns, row, strict=True))
        for row in source.maintenance.rows(f"select {names} from sources order by number")
    )
    return {row["number"]: target.transfer.take_source(row) for row in rows}


def _copy_sessions(
    source: Store,
    target: Store,
    sources: dict[int, int],
    result: Copied,
    progress: Progress | None,
) -> dict[int, int]:
    """Copy the sessions that differ; return the numbers in the target by those in `source`."""
    rows = source.maintenance.rows(
        f"select number, uid, author, {STATE_COLUMNS} from sessions order by number"
    )
    known = {
        uid: (author, tuple(state))
        for uid, author, *state in target.maintenance.rows(
            f"select uid, author, {STATE_COLUMNS} from sessions"
        )
    }
    numbers: dict[int, int] = {}
    forgotten = target.sources.tombstones()
    for n, (number, uid, author, *state) in enumerate(rows, 1):
        name, owner = target.transfer.name_of(uid, author)
        known_owner, known_state = known.get(name, (None, ()))
        # Of a session of another author, or under another name, only the content is compared.
        compared = len(state) if name == uid and known_owner == owner else CONTENT_COLUMNS
        if uid in forgotten:
            result.forgotten += 1
        elif known_state[:compared] == tuple(state)[:compared]:
            result.unchanged += 1
            ((numbers[number],),) = target.maintenance.rows(
                "select number from sessions where uid = ?", (name,)
            )
        else:
            session = read_session(source, number, sources)
            numbers[number] = target.transfer.take_session(session)
            result.sessions += 1
            result.events += len(session.events)
            result.calls += len(session.calls)
        if progress:
            progress(n, len(rows))
    return numbers


def read_session(source: Store, number: int, sources: dict[int, int]) -> TransferredSession:
    """Return all that is stored of a session, with the numbers of its sources in the target."""
    columns = source.transfer.session_columns()
    (row,) = source.maintenance.rows(
        f"select {', '.join(columns)} from sessions where number = ?", (number,)
    )
    event_columns = ", ".join(f'"{name}"' for name in ROW)
    call_columns = ("hash", *COLUMNS, "usd", *TARIFF, "old_usd")
    digest = source.maintenance.rows(
        "select version, last_seq, content_hash, made_at, length, hash, body from digests where"
        " session = ?",
        (number,),
    )
    streams = source.maintenance.rows(
        "select block, source, facts, tally, hash from streams where session = ? order by block",
        (number,),
    )
    return TransferredSession(
        session=dict(zip(columns, row, strict=True)),
        streams=[(block, sources.get(origin, -1), *rest) for block, origin, *rest in streams],
        events=source.maintenance.rows(
            f"select {event_columns} from events where session = ? order by seq", (number,)
        ),
        segments=source.maintenance.rows(
            "select first_seq, last_seq, length, hash, body from segments where session = ? order"
            " by first_seq",
            (number,),
        ),
        natives=source.maintenance.rows(
            "select hash, seq from natives where session = ?", (number,)
        ),
        calls=[
            dict(zip(call_columns, call, strict=True))
            for call in source.maintenance.rows(
                f"select {', '.join(call_columns)} from ledger where session = ?", (number,)
            )
        ],
        digest=next(iter(digest), None),
        errors=source.maintenance.rows(
            f"select {', '.join(ERROR)} from errors where session = ?", (number,)
        ),
    )


def _copy_rest(
    source: Store, target: Store, sources: dict[int, int], sessions: dict[int, int]
) -> None:
    """Copy the native records, skips and aliases of each source that differs in number or size."""
    sql = "select source, count(*), sum(length) from records group by source"
    there = {number: (count, int(size)) for number, count, size in target.maintenance.rows(sql)}
    here = {number: (count, int(size)) for number, count, size in source.maintenance.rows(sql)}
    for old, new in sources.items():
        skips = source.maintenance.rows(
            'select "offset", reason from skips where source = ?', (old,)
        )
        aliases = source.maintenance.rows(
            "select hash, session, seq from aliases where source = ?", (old,)
        )
        counts: list[Any] = [
            target.maintenance.rows(f"select count(*) from {table} where source = ?", (new,))[0][0]
            for table in ("skips", "aliases")
        ]
        if here.get(old) == there.get(new) and counts == [len(skips), len(aliases)]:
            continue
        records = source.maintenance.rows(
            "select first, count, length, body from records where source = ? order by first", (old,)
        )
        mapped = [(h, sessions[session], seq) for h, session, seq in aliases if session in sessions]
        target.transfer.take_rest(new, records, skips, mapped)


def _copy_tombstones(source: Store, target: Store) -> None:
    """Copy the tombstones, and forget in the target what was forgotten in `source`."""
    tombstones = [
        (uid, when)
        for uid, when in source.maintenance.rows("select uid, forgotten_at from tombstones")
    ]
    target.transfer.take_tombstones(tombstones)
    # The target may refuse tombstones of sessions of other authors.
    accepted = target.sources.tombstones().intersection(uid for uid, _ in tombstones)
    if remaining := [uid for uid in accepted if target.sessions.get(uid) is not None]:
        target.retention.forget(remaining, datetime.now(UTC))
