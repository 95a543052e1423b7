"""Sources and how far each has been read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from ...adapters import Facts, Position, Record, Source
from ...errors import StoreBusy
from ...model import (
    BLOCK,
    format_time,
)
from ...timeline import Tally
from ..rows import CUT
from ..segments import SEGMENT_BYTES, unpack, unpack_records
from ..values import STALE_COPIES, Resume, SourceState, StreamState, Tail
from .database import Database
from .filters import high
from .group import PutGroup
from .totals import SqlTotals

MAX_ROUNDS = 10
"""Maximum number of rounds: copies of copies need as many as there are generations."""

STALE_AND_STORED = (
    f"adapter_version = {STALE_COPIES} and records > 0 and records = (select"
    " coalesce(sum(r.count), 0)"
    " from records r where r.source = sources.number)"
)
"""Test that a source has stale copies, and can be derived again from its stored records."""


class SqlSources:
    """See `Sources` in the contracts."""

    def __init__(self, db: Database, totals: SqlTotals, group: PutGroup) -> None:
        self.db, self.totals, self.group = db, totals, group

    def by_path(self, agent: str | None = None) -> dict[str, SourceState]:
        return {state.source.path: state for state in self._states(agent)}

    def all(self) -> list[SourceState]:
        return self._states(None)

    def are_below(self, part: str) -> bool:
        sql = "select 1 from sources where replace(path, ?, '') = path limit 1"
        return not self.db.all(sql, (part,))

    def _states(self, agent: str | None) -> list[SourceState]:
        sql = (
            'select number, agent, path, root, machine, size, mtime_ns, inode, "offset", head,'
            " tail, records, adapter_version,"
            " redact_version, missing_at, problem from sources where"
            f" {self.db.own_sources[0]}{'' if agent is None else ' and agent = ?'}"
        )
        rows = self.db.all(
            sql, self.db.own_sources[1] if agent is None else (*self.db.own_sources[1], agent)
        )
        # Of a block all is cut or nothing: its first event tells.
        inside = f"e.seq between t.block * {BLOCK} and (t.block + 1) * {BLOCK} - 1"
        first = (
            f"select flags from events e where e.session = t.session and {inside} order by e.seq"
            " limit 1"
        )
        evicted = (
            "select distinct t.source from streams t join sessions s on s.number = t.session where"
            f" s.evicted_at is not null{'' if agent is None else ' and s.flavor = ?'} and ({first})"
            f" & {CUT} != 0"
        )
        # Most agents that there are have no sources.
        bare = (
            {source for (source,) in self.db.all(evicted, () if agent is None else (agent,))}
            if rows
            else set()
        )
        return [_source_state(row, is_evicted=row[0] in bare) for row in rows]

    def stale_copies(self) -> Iterator[list[SourceState]]:
        # Whoever could not have a lock relies on its holder to look once more, also when that found
        # nothing to do.
        for _ in range(MAX_ROUNDS):
            is_done = True
            for states in self.stale_copies_once():
                is_done = False
                yield states
            if is_done:
                return

    def stale_copies_once(self) -> Iterator[list[SourceState]]:
        """Yield the sources of one round."""
        if self.db.one(
            f"select 1 from sources where {self.db.own_sources[0]} and {STALE_AND_STORED} limit 1",
            self.db.own_sources[1],
        ):
            with suppress(StoreBusy), self.db.sync_lock():
                chosen = {
                    number
                    for (number,) in self.db.all(
                        f"select number from sources where {STALE_AND_STORED}"
                    )
                }
                yield [state for state in self.all() if state.number in chosen]

    def resume(self, source: int) -> Resume:
        (carry,) = self.db.one("select carry from sources where number = ?", (source,))
        sql = (
            "select uid, session, block, hash from streams join sessions on number = session where"
            " source = ? order by session, block"
        )
        blocks: dict[tuple[str, int], list[int]] = {}
        for uid, session, block, hash_ in self.db.all(sql, (source,)):
            if session in self.group.unread:
                continue
            if hash_ or (uid, session) not in blocks:
                blocks[uid, session] = [block]
            else:
                blocks[uid, session].append(block)
        return Resume(
            carry=carry,
            streams={
                uid: self.stream_state(session, found) for (uid, session), found in blocks.items()
            },
        )

    def records(self, source: int) -> Iterator[Record]:
        for length, body in self.db.all(
            "select length, body from records where source = ? order by first", (source,)
        ):
            yield from unpack_records(body, length)

    def native_records(
        self, source_path: str, first: int = 0, last: int | None = None
    ) -> Iterator[tuple[int, int, bytes]]:
        sql = (
            "select r.first, r.length, r.body from records r join sources s on s.number = r.source"
            " where s.path = ? and r.first + r.count > ? and r.first <= ? order by r.first"
        )
        for start, length, body in self.db.all(sql, (source_path, first, high(last))):
            lines = (record for record in unpack_records(body, length) if record.sidecar is None)
            for number, record in enumerate(lines, start):
                if first <= number <= high(last):
                    yield number, record.offset, record.data

    def count_records(self, source: int) -> int:
        (count,) = self.db.one(
            "select coalesce(sum(count), 0) from records where source = ?", (source,)
        )
        return int(count)

    def stream_state(self, session: int, blocks: Sequence[int]) -> StreamState:
        facts, tally, hash_ = self.db.one(
            "select facts, tally, hash from streams where session = ? and block = ?",
            (session, blocks[0]),
        )
        return StreamState(
            block=blocks[0],
            facts=msgspec.msgpack.decode(facts, type=Facts),
            tally=msgspec.msgpack.decode(tally, type=Tally),
            hash=hash_,
            tail=self.tail(session, blocks),
        )

    def tail(self, session: int, blocks: Sequence[int]) -> Tail | None:
        """Return the last segment of a stream if it is not full, numbered within the stream."""
        low, high = blocks[-1] * BLOCK, (blocks[-1] + 1) * BLOCK - 1
        row = self.db.one(
            "select first_seq, last_seq, length, hash, body from segments where session = ? and"
            " first_seq between ? and ? order by first_seq desc limit 1",
            (session, low, high),
        )
        if row is None or row[2] >= SEGMENT_BYTES:
            return None
        first, last, length, hash_, body = row
        shift = (len(blocks) - 1) * BLOCK - low
        sql = (
            'select kind, tool, flags, "offset", length from events'
            ' where session = ? and seq between ? and ? and "offset" is not null order by seq'
        )
        return Tail(
            first_seq=first + shift,
            last_seq=last + shift,
            data=unpack(body, length, hash_),
            events=self.db.all(sql, (session, first, last)),
        )

    def skips(self, source_path: str | None = None) -> list[tuple[str, int, str]]:
        sql = (
            'select path, k."offset", reason from skips k join sources on number = source'
            f" where {self.db.own_sources[0]} and path = coalesce(?, path) order by 1, 2"
        )
        return self.db.all(sql, (*self.db.own_sources[1], source_path))

    def tombstones(self) -> set[str]:
        return {uid for (uid,) in self.db.all("select uid from tombstones")}

    def unredacted(self, version: str, limit: int = 100) -> list[tuple[int, str]]:
        sql = (
            "select number, path from sources where redact_version != ? and synced_at is not null"
            f" and {self.db.own_sources[0]} order by mtime_ns desc, path limit ?"
        )
        return self.db.all(sql, (version, *self.db.own_sources[1], limit))

    def touch(
        self,
        source: Source,
        *,
        adapter_version: int,
        redact_version: str,
        problem: str | None = None,
    ) -> None:
        with self.db.transaction():
            self.group.forget_source(source.agent, source.path)
            number = self.register(source, adapter_version, redact_version, problem)
            # It may be there again, or have another size, and its sessions say so.
            if problem is not None:
                self.totals.update_source(number)

    def register(
        self, source: Source, adapter_version: int, redact_version: str, problem: str | None
    ) -> int:
        row = self.db.source_values | dict(
            agent=source.agent, path=source.path, root=source.root, machine=source.machine,
            size=source.size, mtime_ns=source.mtime_ns,
            inode=source.inode, adapter_version=adapter_version, redact_version=redact_version,
            discovered_at=format_time(datetime.now(UTC)), problem=problem,
        )  # fmt: skip
        sql = (
            f"insert into sources ({', '.join(row)}) values (?{', ?' * (len(row) - 1)}) on conflict"
            f" ({', '.join(self.db.source_key)}) do update set size = excluded.size, mtime_ns ="
            " excluded.mtime_ns, inode = excluded.inode, problem = excluded.problem, missing_at ="
            " null"
        )
        # Its number is asked for apart: a statement that returns rows is a savepoint of its own,
        # and at each savepoint SQLite's index writes out what it has collected.
        self.db.execute(sql, tuple(row.values()))
        where = " and ".join(f"{name} = ?" for name in self.db.source_key)
        return int(
            self.db.one(
                f"select number from sources where {where}",
                tuple(row[name] for name in self.db.source_key),
            )[0]
        )

    def set_position(self, number: int, position: Position) -> None:
        sql = 'update sources set "offset" = ?, head = ?, tail = ?, records = ? where number = ?'
        with self.db.transaction(), self.db.translate_errors():
            self.db.execute(
                sql, (position.offset, position.head, position.tail, position.records, number)
            )

    def move(self, number: int, source: Source) -> None:
        with self.db.transaction():
            self.db.execute(
                "update sources set path = ?, root = ?, machine = ?, missing_at = null where"
                " number = ?",
                (source.path, source.root, source.machine, number),
            )
            self.totals.update_source(number)

    def mark_missing(self, numbers: Sequence[int], when: datetime) -> None:
        with self.db.transaction():
            for number in numbers:
                self.db.execute(
                    "update sources set missing_at = ? where number = ?",
                    (format_time(when), number),
                )
                self.totals.update_source(number)


def _source_state(row: Sequence[Any], *, is_evicted: bool) -> SourceState:
    number, agent, path, root, machine, size, mtime_ns, inode = row[:8]
    offset, head, tail, records, adapter_version, redact_version, missing_at, problem = row[8:]
    source = Source(
        agent=agent,
        path=path,
        root=root,
        machine=machine,
        size=size,
        mtime_ns=mtime_ns,
        inode=inode,
    )
    return SourceState(
        number=number,
        source=source,
        position=Position(offset=offset, head=head, tail=tail, records=records),
        adapter_version=adapter_version,
        redact_version=redact_version,
        missing_at=missing_at,
        problem=problem,
        is_evicted=is_evicted,
    )
