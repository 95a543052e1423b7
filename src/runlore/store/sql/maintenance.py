"""Checks and repairs. The doctor decides which of them are run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ...adapters import Facts
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
        totals = []
        for (source,) in self.db.all(
            "select distinct source from streams where session = ? order by source", (session,)
        ):
            streams = self.db.all(sql, (session, source))
            stored = {block: _decode(tally, Tally) for block, tally, _ in streams}
            for homes, blocks in readings([(block, hash_) for block, _, hash_ in streams]):
                events = self._events_in(uid, session, blocks)
                totals.append(
                    Counted(
                        blocks=homes,
                        source=source,
                        stored=_merge_known([stored[home] for home in homes]),
                        made=Tally().add(events),
                        is_ordered=homes == blocks[:1]
                        and all(event.origin != "" for event in events),
                    )
                )
        return totals

    def _events_in(self, uid: str, session: int, blocks: list[int]) -> list[SessionEvent]:
        """Return the events of a reading, numbered as if its blocks followed each other."""
        return [
            _as_counted(uid, n * BLOCK + row[SEQ] % BLOCK, row)
            for n, block in enumerate(blocks)
            for row in self.sessions.rows(session, block * BLOCK, (block + 1) * BLOCK - 1)
        ]

    def recount(self, sessions: Sequence[int], *, streams: bool = False) -> None:
        with self.db.transaction(), self.db.translate_errors():
            self.ledger.changed.update(sessions)
            self.ledger.charges.to_charge.update(dict.fromkeys(sessions))
            for session in sessions:
                if streams:
                    self._salvage("session = ?", (session,))
                    for counted in self.tallies(session):
                        self._write_tallies(session, counted)
                # A session may be missing of which rollups are left. These are dropped at the end
                # of the transaction, and there are no totals to update.
                for (uid,) in self.db.all("select uid from sessions where number = ?", (session,)):
                    self.totals.update(uid)

    def _write_tallies(self, session: int, counted: Counted) -> None:
        """Write the right totals to the last of the blocks, and empty ones to the others."""
        tallies = [counted.better] + [Tally()] * len(counted.blocks)
        for tally, block in zip(tallies, reversed(counted.blocks), strict=False):
            self.db.execute(
                "update streams set tally = ? where session = ? and block = ?",
                (msgspec.msgpack.encode(tally), session, block),
            )

    def relink(self, sessions: Sequence[int]) -> None:
        # If a source is to be derived again, the rows of its lost events stay: nothing else has the
        # numbers of these events.
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
        # A sync replaces nothing of a source with offset 0, so it is at least 1. The next read sets
        # it right.
        sql = (
            f'update sources set adapter_version = {DAMAGED}, "offset" = case when "offset" > 1'
            ' then "offset" else 1 end where number = ?'
        )
        with self.db.transaction(), self.db.translate_errors():
            for number in sources:
                self.db.execute(sql, (number,))
                self._salvage("source = ?", (number,))
                # Replacing the blocks of the source would miss a segment that is in no block.
                in_no_block = (
                    f"(first_seq < 0 or first_seq / {BLOCK} not in (select block from streams s"
                    " where s.session = segments.session))"
                )
                self.index.drop(
                    f"session in (select session from streams where source = ?) and {in_no_block}",
                    (number,),
                )

    def _salvage(self, where: str, bindings: tuple[Any, ...]) -> None:
        """Replace the facts and totals of streams that cannot be decoded by those of the session.

        Otherwise no sync could continue the streams.
        """
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
            of_session = Facts(
                native_session_id=native_id, title=title, title_rank=1, cwd=cwd, git_branch=branch,
                model=model, task_ref=task,
                parent_uid=parent, relation=relation,
            )  # fmt: skip
            readable = (_decode(facts, Facts) or of_session, _decode(tally, Tally) or Tally())
            self.db.execute(
                "update streams set facts = ?, tally = ? where session = ? and block = ?",
                (*map(msgspec.msgpack.encode, readable), session, block),
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
    """Return (homes, blocks) for each reading of a source in a session.

    A home is a block with a hash; it has the totals. A block without a hash continues the home
    before it, which was full. If no home is before it, the reading that follows has replaced it. If
    events that are gone from the source were put back, blocks are shared, and all of them are one
    reading.
    """
    if any(hash_ == PUT_BACK for _, hash_ in streams):
        return [([block for block, hash_ in streams if hash_], [block for block, _ in streams])]
    pairs: list[tuple[list[int], list[int]]] = []
    before: list[int] = []
    for block, hash_ in streams:
        if hash_:
            pairs.append(([block], [*before, block]))
            before = []
        elif pairs:
            pairs[-1][1].append(block)
        else:
            before.append(block)
    return pairs


def _merge_known(tallies: list[Tally | None]) -> Tally | None:
    """Return the sum of totals; None if one of them is unknown."""
    known = [tally for tally in tallies if tally is not None]
    if len(known) < len(tallies):
        return None
    return known[0] if len(known) == 1 else merge(known)


def _as_counted(uid: str, seq: int, row: Row) -> SessionEvent:
    """Return the event as its stream counted it.

    A copy whose original was forgotten has no origin any more; its origin is "" here.
    """
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
