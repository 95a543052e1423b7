"""From one store into another, whatever databases they are in: everything, and only what is not
there yet.

A session is taken over whole and in one transaction, so a copy that was stopped goes on where it
stopped. It is of one moment, also while a sync writes to the store it is taken from. Numbers are
given anew; uids, seqs, hashes and text stay what they are.
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
from .values import Taken

SOURCE = (
    "agent", "path", "root", "machine", "size", "mtime_ns", "inode", "offset", "head", "tail",
    "records", "carry", "adapter_version",
    "redact_version", "merged", "discovered_at", "synced_at", "missing_at", "problem",
)  # fmt: skip
COPIED = frozenset(
    "sessions sources streams skips tombstones events segments natives aliases records calls"
    " digests errors".split()
)
MADE_AGAIN = frozenset({"search", "sums", "models", "tariffs"})
"""Tables that follow from the others, or are written with them."""
STATE = (
    "content_hash, last_seq, evicted_at, analyzed_seq, analyzed_hash, usd, pinned, name, tags, note"
)
CONTENT = 3
"""What is another when something of a session is; when its events are, the first so many. Not when
it was stored: two stores that were synced by themselves have the same."""

Progress = Callable[[int, int], None]


class Copied(msgspec.Struct, kw_only=True):
    """What a copy did."""

    sessions: int = 0
    events: int = 0
    calls: int = 0
    unchanged: int = 0
    """Sessions that were there already."""
    forgotten: int = 0
    """Sessions that were forgotten there, and stay so."""


def copy(source: Store, target: Store, progress: Progress | None = None) -> Copied:
    """Takes over all that is in `source`. What else is in `target` stays. Raises StoreError."""
    done = Copied()
    with source.snapshot():
        numbers = _sources(source, target)
        wanted = source.maintenance.rows(
            f"select number, uid, author, {STATE} from sessions order by number"
        )
        known = {
            uid: (author, tuple(state))
            for uid, author, *state in target.maintenance.rows(
                f"select uid, author, {STATE} from sessions"
            )
        }
        sessions: dict[int, int] = {}
        forgotten = target.sources.tombstones()
        for at, (number, uid, author, *state) in enumerate(wanted):
            name, whose = target.transfer.name_of(uid, author)
            owner, there = known.get(name, (None, ()))
            # Of what is someone else's there, and of what has another name, nothing is taken but
            # what it holds.
            compared = len(state) if name == uid and owner == whose else CONTENT
            if uid in forgotten:
                done.forgotten += 1
            elif there[:compared] == tuple(state)[:compared]:
                done.unchanged += 1
                ((sessions[number],),) = target.maintenance.rows(
                    "select number from sessions where uid = ?", (name,)
                )
            else:
                taken = _session(source, number, numbers)
                sessions[number] = target.transfer.take_session(taken)
                done.sessions += 1
                done.events += len(taken.events)
                done.calls += len(taken.calls)
            if progress:
                progress(at + 1, len(wanted))
        _rest(source, target, numbers, sessions)
        target.transfer.take_claims(
            [
                (author, uid, sessions[number])
                for author, uid, number in source.transfer.claims()
                if number in sessions
            ]
        )
        gone = [
            (uid, when)
            for uid, when in source.maintenance.rows("select uid, forgotten_at from tombstones")
        ]
        target.transfer.take_tombstones(gone)
        if left := [
            uid
            for uid in target.sources.tombstones().intersection(uid for uid, _ in gone)
            if target.sessions.get(uid) is not None
        ]:
            target.retention.forget(left, datetime.now(UTC))
    return done


def _sources(source: Store, target: Store) -> dict[int, int]:
    """The numbers of the sources, there and here."""
    names = ", ".join(f'"{name}"' for name in ("number", *source.transfer.source_columns, *SOURCE))
    columns = ("number", *source.transfer.source_columns, *SOURCE)
    rows = (
        dict(zip(columns, row, strict=True))
        for row in source.maintenance.rows(f"select {names} from sources order by number")
    )
    return {row["number"]: target.transfer.take_source(row) for row in rows}


def _session(source: Store, number: int, sources: dict[int, int]) -> Taken:
    columns = source.transfer.session_columns()
    (row,) = source.maintenance.rows(
        f"select {', '.join(columns)} from sessions where number = ?", (number,)
    )
    event = ", ".join(f'"{name}"' for name in ROW)
    calls = ("hash", *COLUMNS, "usd", *TARIFF, "old_usd")
    digest = source.maintenance.rows(
        "select version, last_seq, content_hash, made_at, length, hash, body from digests where"
        " session = ?",
        (number,),
    )
    streams = source.maintenance.rows(
        "select block, source, facts, tally, hash from streams where session = ? order by block",
        (number,),
    )
    return Taken(
        session=dict(zip(columns, row, strict=True)),
        streams=[(block, sources.get(where, -1), *rest) for block, where, *rest in streams],
        events=source.maintenance.rows(
            f"select {event} from events where session = ? order by seq", (number,)
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
            dict(zip(calls, call, strict=True))
            for call in source.maintenance.rows(
                f"select {', '.join(calls)} from ledger where session = ?", (number,)
            )
        ],
        digest=next(iter(digest), None),
        errors=source.maintenance.rows(
            f"select {', '.join(ERROR)} from errors where session = ?", (number,)
        ),
    )


def _rest(source: Store, target: Store, sources: dict[int, int], sessions: dict[int, int]) -> None:
    """Native records, skips and aliases of each source, where they differ in number or size."""
    sizes = "select source, count(*), sum(length) from records group by source"
    there = {number: (count, int(size)) for number, count, size in target.maintenance.rows(sizes)}
    here = {number: (count, int(size)) for number, count, size in source.maintenance.rows(sizes)}
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
