"""How the SQLite store keeps a batch, in words of its own: sessions, rows and segments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..adapters import Facts
from ..errors import StoreError
from ..model import SCHEMA_VERSION, format_time
from ..timeline import Tally
from . import Batch, Piece, Segment
from ._sql_put import INSERT_EVENT, Writer, absolute
from ._sqlite_read import SqliteReader
from .pieces import PARENT, SEQ, outside


class SqliteWriter(SqliteReader, Writer):
    """The putting part of `SqliteStore`."""

    def _session(self, flavor: str, piece: Piece, batch: Batch) -> int:
        row = self._one("select number from sessions where uid = ?", (piece.session_uid,))
        if row is not None:
            return int(row[0])
        now = format_time(datetime.now(UTC))
        self.db.execute(
            "insert into sessions (uid, flavor, native_session_id, machine, source_path, discovered_at, ingested_at, schema_version)"
            " values (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                piece.session_uid, flavor, piece.facts.native_session_id, batch.source.machine, batch.source.path, now, now,
                SCHEMA_VERSION,
            ),
        )  # fmt: skip
        return self.db.last_insert_rowid()

    def _add_block(self, session: int, source: int) -> int:
        (block,) = self._one("select coalesce(max(block) + 1, 0) from streams where session = ?", (session,))
        empty = msgspec.msgpack.encode(Facts(native_session_id=""))
        tally = msgspec.msgpack.encode(Tally())
        self.db.execute("insert into streams values (?, ?, ?, ?, ?, ?)", (session, block, source, empty, tally, b""))
        return int(block)

    def _known(self, hashes: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        wanted = [h for h in hashes if h]
        if not wanted:
            return found
        sql = "select n.hash, n.session, n.seq from carray(?) c join natives n on n.hash = c.value"
        for h, session, seq in self._all(sql, (self.ids(wanted),)):
            found.setdefault(h, []).append((session, seq))
        return found

    def _write(self, session: int, home: int, piece: Piece, blocks: list[int]) -> None:
        plain = blocks == [0]  # Nearly always: then numbers in the stream are numbers in the session.

        def rows() -> Iterator[tuple[Any, ...]]:
            for row in piece.rows:
                parent = row[PARENT]
                if plain and (parent is None or parent >= 0):
                    yield (session, *row)
                    continue
                seq = absolute(row[SEQ], blocks)
                if parent is not None:
                    parent = outside(parent) if parent < 0 else absolute(parent, blocks)
                    # What stands in for a copy may be numbered in a later block, and is then no parent.
                    parent = parent if parent < seq else None
                yield (session, seq, *row[1:PARENT], parent, *row[PARENT + 1 :])

        self.db.executemany(INSERT_EVENT, rows())
        natives = sorted((h, session, absolute(row[SEQ], blocks)) for h, row in zip(piece.natives, piece.rows, strict=True) if h)
        natives += [(h, session, absolute(piece.rows[n][SEQ], blocks)) for n, h in piece.originals]
        self.db.executemany("insert or ignore into natives values (?, ?, ?)", natives)
        for segment in piece.segments:
            self._write_segment(session, absolute(segment.first_seq, blocks), absolute(segment.last_seq, blocks), segment)
        self.db.execute(
            "update streams set facts = ?, tally = ?, hash = ? where session = ? and block = ?",
            (msgspec.msgpack.encode(piece.facts), msgspec.msgpack.encode(piece.tally), piece.hash, session, home),
        )

    def _write_segment(self, session: int, first: int, last: int, segment: Segment) -> None:
        row = self._one("select id from segments where session = ? and first_seq = ?", (session, first))
        if row is not None:
            self.db.execute("delete from search where rowid = ?", row)
            self.db.execute("delete from segments where id = ?", row)
            id_ = row[0]
        else:
            low = session << 20
            sql = "select max(id) from segments where id between ? and ?"
            (top,) = self._one(sql, (low, low | 0xFFFFF))
            id_ = low if top is None else top + 1
            if id_ > low | 0xFFFFF:
                raise StoreError("a session has more than a million segments")
        self.db.execute(
            "insert into segments values (?, ?, ?, ?, ?, ?, ?)",
            (id_, session, first, last, segment.length, segment.hash, segment.body),
        )
        self.db.execute(
            "insert into search (rowid, prompt, reply, tool) values (?, ?, ?, ?)",
            (id_, segment.prompt, segment.reply, segment.tool),
        )

    def _drop_segments(self, where: str, bindings: tuple[Any, ...]) -> None:
        ids = self._all(f"select id from segments where {where}", bindings)
        self.db.executemany("delete from search where rowid = ?", ids)
        self.db.executemany("delete from segments where id = ?", ids)
