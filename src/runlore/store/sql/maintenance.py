"""Checks and repairs. The doctor decides what is to be done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ...adapters import Facts, Position
from ...errors import StoreError
from ...model import BLOCK, SCHEMA_VERSION, SessionEvent, format_time
from ...timeline import Tally, merge
from ..rows import OFFSET, PARENT, SEQ, read_row
from ..values import DAMAGED, Counted, Row
from .database import Database
from .index import SqlIndex
from .ingest import PUT_BACK, SqlIngest
from .ledger import SqlLedger
from .sessions import SqlSessions
from .sources import SqlSources
from .totals import SqlTotals

T = TypeVar("T")


class SqlMaintenance(ABC):
    """See `Maintenance` in the contracts."""

    def __init__(
        self,
        db: Database,
        sessions: SqlSessions,
        index: SqlIndex,
        sources: SqlSources,
        ledger: SqlLedger,
        totals: SqlTotals,
        ingest: SqlIngest,
    ) -> None:
        self.db, self.sessions, self.index = db, sessions, index
        self.sources, self.ledger, self.totals, self.ingest = sources, ledger, totals, ingest

    @abstractmethod
    def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[Row]:
        """See `Maintenance`."""

    def check_session(self, session: int) -> tuple[Facts, dict[str, Any]] | None:
        return self.totals.of_session(session)

    def wrong_rollups(self) -> list[int]:
        return self.ledger.wrong_rollups()

    def is_charged(self, session: int) -> bool:
        return self.ledger.charges.is_right(session)

    def tallies(self, session: int) -> list[Counted]:
        (uid,) = self.db.one("select uid from sessions where number = ?", (session,))
        sql = (
            "select block, tally, hash from streams where session = ? and source = ? order by block"
        )
        found = []
        for (source,) in self.db.all(
            "select distinct source from streams where session = ? order by source", (session,)
        ):
            streams = self.db.all(sql, (session, source))
            stored = {block: _decode(tally, Tally) for block, tally, _ in streams}
            for homes, blocks in readings([(block, hash_) for block, _, hash_ in streams]):
                events = [
                    _as_counted(uid, n * BLOCK + row[SEQ] % BLOCK, row)
                    for n, block in enumerate(blocks)
                    for row in self.sessions.rows(session, block * BLOCK, (block + 1) * BLOCK - 1)
                ]
                is_ordered = homes == blocks[:1] and all(event.origin != "" for event in events)
                known = [tally for home in homes if (tally := stored[home]) is not None]
                total = (
                    None
                    if len(known) < len(homes)
                    else known[0]
                    if len(homes) == 1
                    else merge(known)
                )
                found.append(
                    Counted(
                        blocks=homes,
                        source=source,
                        stored=total,
                        made=Tally().add(events),
                        is_ordered=is_ordered,
                    )
                )
        return found

    def recount(self, sessions: Sequence[int], *, streams: bool = False) -> None:
        with self.db.transaction(), self.db.translate_errors():
            self.ledger.changed.update(sessions)
            self.ledger.charges.to_charge.update(dict.fromkeys(sessions))
            for session in sessions:
                if streams:
                    self._salvage("session = ?", (session,))
                for counted in self.tallies(session) if streams else ():
                    for tally, block in zip(
                        [counted.better] + [Tally()] * len(counted.blocks),
                        reversed(counted.blocks),
                        strict=False,
                    ):
                        packed = msgspec.msgpack.encode(tally)
                        self.db.execute(
                            "update streams set tally = ? where session = ? and block = ?",
                            (packed, session, block),
                        )
                # Sums may be left of a session that is not there; then they go, and nothing is to
                # be folded.
                for (uid,) in self.db.all("select uid from sessions where number = ?", (session,)):
                    self.totals.update(uid)

    def relink(self, sessions: Sequence[int]) -> None:
        # Where a source is to be derived again, this is all that remembers the numbers of the
        # events that it lost.
        lost = (
            f"select 1 from streams join sources on number = source and adapter_version = {DAMAGED}"
            f" where session = natives.session and block = natives.seq / {BLOCK} and not exists"
            " (select 1 from events e where e.session = natives.session and e.seq = natives.seq)"
        )
        with self.db.transaction(), self.db.translate_errors():
            for session in sessions:
                self.db.execute(
                    f"delete from natives where session = ? and not exists ({lost})", (session,)
                )
                rows = sorted((h, session, seq) for h, seq in self.ingest.native_hashes(session))
                self.db.executemany("insert or ignore into natives values (?, ?, ?)", rows)

    def derive_again(self, sources: Sequence[int]) -> None:
        # Where nothing was read a sync sees nothing to replace, hence an offset that is not 0; the
        # reading sets it right.
        sql = (
            f'update sources set adapter_version = {DAMAGED}, "offset" = case when "offset" > 1'
            ' then "offset" else 1 end where number = ?'
        )
        with self.db.transaction(), self.db.translate_errors():
            for number in sources:
                self.db.execute(sql, (number,))
                self._salvage("source = ?", (number,))
                # A segment that lies in no block would be overlooked.
                nowhere = (
                    f"(first_seq < 0 or first_seq / {BLOCK} not in (select block from streams s"
                    " where s.session = segments.session))"
                )
                self.index.drop(
                    f"session in (select session from streams where source = ?) and {nowhere}",
                    (number,),
                )

    def _salvage(self, where: str, bindings: tuple[Any, ...]) -> None:
        """Puts what the session says in the place of what its streams say, where that cannot be
        read: no sync could go on."""
        for session, block, facts, tally in self.db.all(
            f"select session, block, facts, tally from streams where {where}", bindings
        ):
            row = self.db.one(
                "select native_session_id, title, cwd, git_branch, model, task_ref, parent_uid,"
                " relation from sessions where number = ?",
                (session,),
            )
            if row is None:
                continue
            native_id, title, cwd, branch, model, task, parent, relation = row
            known = Facts(
                native_session_id=native_id, title=title, title_rank=1, cwd=cwd, git_branch=branch,
                model=model, task_ref=task,
                parent_uid=parent, relation=relation,
            )  # fmt: skip
            better = (_decode(facts, Facts) or known, _decode(tally, Tally) or Tally())
            self.db.execute(
                "update streams set facts = ?, tally = ? where session = ? and block = ?",
                (*map(msgspec.msgpack.encode, better), session, block),
            )

    def drop_strays(self, sessions: Sequence[int]) -> None:
        with self.db.transaction(), self.db.translate_errors():
            for session in sessions:
                self.index.drop("session = ?", (session,))
                for table in ("events", "streams", "natives", "aliases", "digests", "errors"):
                    self.db.execute(f"delete from {table} where session = ?", (session,))
            for table in ("records", "skips", "aliases"):
                known = "select number from sources union all select source from streams"
                self.db.execute(f"delete from {table} where source not in ({known})")

    def set_position(self, number: int, position: Position) -> None:
        sql = 'update sources set "offset" = ?, head = ?, tail = ?, records = ? where number = ?'
        with self.db.transaction(), self.db.translate_errors():
            self.db.execute(
                sql, (position.offset, position.head, position.tail, position.records, number)
            )

    def restore_session(self, number: int, uid: str) -> None:
        flavor, _, native_id = uid.partition(":")
        now = format_time(datetime.now(UTC))
        with self.db.transaction(), self.db.translate_errors():
            self.db.execute(
                "insert into sessions (number, uid, flavor, native_session_id, discovered_at,"
                " ingested_at, schema_version, machine) values (?, ?, ?, ?, ?, ?, ?, (select"
                " machine from sources join streams on source = number where session = ? limit 1))",
                (number, uid, flavor, native_id, now, now, SCHEMA_VERSION, number),
            )
            self.totals.update(uid)

    def restore_stream(self, session: int, block: int, source: int) -> None:
        (native_id,) = self.db.one(
            "select native_session_id from sessions where number = ?", (session,)
        )
        facts, tally = Facts(native_session_id=native_id), Tally()
        row = (
            session,
            block,
            source,
            msgspec.msgpack.encode(facts),
            msgspec.msgpack.encode(tally),
            b"",
        )
        with self.db.transaction(), self.db.translate_errors():
            self.db.execute(
                "insert into streams values (?, ?, ?, ?, ?, ?) on conflict (session, block) do"
                " update set source = excluded.source",
                row,
            )
            self.derive_again([source])

    def restore_source(self, number: int) -> None:
        sql = (
            "select flavor, source_path, machine from sessions where source_path is not null"
            " and number in (select session from streams where source = ?)"
            " and not exists (select 1 from sources where agent = flavor and path = source_path)"
        )
        with self.db.transaction(), self.db.translate_errors():
            row = self.db.one(sql, (number,))
            if row is None:
                raise StoreError(
                    f"source {number} is known only by its number, and no session says where it is"
                )
            agent, path, machine = row
            self.db.execute(
                "insert into sources (number, agent, path, root, machine, size, mtime_ns, inode,"
                ' "offset", records, adapter_version, redact_version, discovered_at) values (?,'
                " ?, ?, ?, ?, 0, 0, 0, 1, ?, ?, '', ?)",
                (
                    number,
                    agent,
                    path,
                    str(Path(path).parent),
                    machine,
                    self.sources.count_records(number),
                    DAMAGED,
                    format_time(datetime.now(UTC)),
                ),
            )


def readings(streams: list[tuple[int, bytes]]) -> list[tuple[list[int], list[int]]]:
    """(homes, blocks) of each reading of a source in a session. A home has a hash, and the totals.
    A block without one goes on where the home before it was full; with no home before it, it was
    replaced by the reading that follows. Where something that is gone from the source was put back,
    blocks are shared, and all is one."""
    if any(hash_ == PUT_BACK for _, hash_ in streams):
        return [([block for block, hash_ in streams if hash_], [block for block, _ in streams])]
    found: list[tuple[list[int], list[int]]] = []
    before: list[int] = []
    for block, hash_ in streams:
        if hash_:
            found.append(([block], [*before, block]))
            before = []
        elif found:
            found[-1][1].append(block)
        else:
            before.append(block)
    return found


def _as_counted(uid: str, seq: int, row: Row) -> SessionEvent:
    """The event as its stream counted it. What was a copy, and has no origin since that was
    forgotten, is a copy of nothing."""
    event = read_row(uid, [seq, *row[1:PARENT], None, *row[PARENT + 1 :]])
    return (
        msgspec.structs.replace(event, origin="")
        if row[OFFSET] is None and event.origin is None
        else event
    )


def _decode(blob: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.msgpack.decode(blob, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        return None
