"""How a SQLite store writes sessions, rows and native ids."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from ...adapters import Facts
from ...model import SCHEMA_VERSION, format_time
from ...timeline import Tally, merge
from ..numbering import absolute, rows_in
from ..rows import SEQ
from ..sql.ingest import INTO_EVENTS, SqlIngest
from ..sql.totals import columns_of
from ..values import Batch, Piece, Put
from .database import SqliteDatabase
from .index import SqliteIndex

_NO_FACTS = msgspec.msgpack.encode(Facts(native_session_id=""))

_NO_TALLY = msgspec.msgpack.encode(Tally())


class SqliteIngest(SqlIngest):
    """See `Ingest` in the contracts."""

    db: SqliteDatabase
    index: SqliteIndex
    _fresh: int | None = None
    """The session that was just made: nothing is in it."""
    _made: dict[int, Piece]
    """Sessions made by the current put, with all that is in them."""

    def put(self, batch: Batch) -> Put:
        self._made = {}
        return super().put(batch)

    def _session(self, flavor: str, piece: Piece, batch: Batch) -> int:
        self._fresh = None
        row = self.db.one("select number from sessions where uid = ?", (piece.session_uid,))
        if row is not None:
            return int(row[0])
        now = format_time(datetime.now(UTC))
        self.db.execute(
            "insert into sessions (uid, flavor, native_session_id, machine, source_path, discovered_at, ingested_at, schema_version)"
            " values (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                piece.session_uid, flavor, piece.facts.native_session_id, batch.source.machine,
                batch.source.path, now, now,
                SCHEMA_VERSION,
            ),
        )  # fmt: skip
        self._fresh = self.db.connection.last_insert_rowid()
        return self._fresh

    def _blocks(self, session: int, source: int, *, fresh: bool) -> list[int]:
        if session != self._fresh:
            return super()._blocks(session, source, fresh=fresh)
        self._insert_block(session, 0, source)
        return [0]

    def _is_told_better(self, session: int, source: int, piece: Piece) -> bool:
        return session != self._fresh and super()._is_told_better(session, source, piece)

    def _add_block(self, session: int, source: int) -> int:
        (block,) = self.db.one(
            "select coalesce(max(block) + 1, 0) from streams where session = ?", (session,)
        )
        self._insert_block(session, block, source)
        return int(block)

    def _insert_block(self, session: int, block: int, source: int) -> None:
        self.db.execute(
            "insert into streams values (?, ?, ?, ?, ?, ?)",
            (session, block, source, _NO_FACTS, _NO_TALLY, b""),
        )

    def find_natives(self, hashes: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        wanted = [h for h in hashes if h]
        if not wanted:
            return found
        sql = "select n.hash, n.session, n.seq from carray(?) c join natives n on n.hash = c.value"
        for h, session, seq in self.db.all(sql, (self.db.ids(wanted),)):
            found.setdefault(h, []).append((session, seq))
        return found

    def _write(self, session: int, home: int, piece: Piece, blocks: list[int]) -> None:
        self.db.insert(INTO_EVENTS, rows_in(session, piece, blocks))
        self._write_natives(session, piece, blocks)
        if blocks == [0] and session == self._fresh:
            self._made[session] = piece
            for n, segment in enumerate(piece.segments):
                self.index.add(
                    (session << 20) + n, session, segment.first_seq, segment.last_seq, segment
                )
        else:
            for segment in piece.segments:
                self.index.write(
                    session,
                    absolute(segment.first_seq, blocks),
                    absolute(segment.last_seq, blocks),
                    segment,
                )
        self.db.execute(
            "update streams set facts = ?, tally = ?, hash = ? where session = ? and block = ?",
            (
                msgspec.msgpack.encode(piece.facts),
                msgspec.msgpack.encode(piece.tally),
                piece.hash,
                session,
                home,
            ),
        )

    def _write_natives(self, session: int, piece: Piece, blocks: list[int]) -> None:
        """Writes which events the native ids are, in the order of their hashes: in any other, more
        pages of the table are split."""
        rows = [
            (h, session, absolute(row[SEQ], blocks))
            for h, row in zip(piece.natives, piece.rows, strict=True)
            if h
        ]
        originals = [(h, session, absolute(piece.rows[n][SEQ], blocks)) for n, h in piece.originals]
        self.db.insert("insert or ignore into natives", sorted(rows) + originals)

    def _update_totals(self, source: int, batch: Batch, uids: set[str]) -> None:
        # Nearly always all that the source tells of was made just now: then it need not be read and
        # taken apart again, which takes four times as long, and it is known when that was.
        made, file = self._made, batch.source
        (streams,) = self.db.one("select count(*) from streams where source = ?", (source,))
        if streams != len(made) or batch.is_gone:
            super()._update_totals(source, batch, uids)
            return
        for session, piece in made.items():
            last_seq = piece.rows[-1][SEQ] if piece.rows else -1
            columns = columns_of(
                piece.facts,
                merge([piece.tally]),
                piece.hash,
                last_seq,
                {file.path: (file.size, None)},
            )
            self.totals.write(session, piece.facts, columns)
