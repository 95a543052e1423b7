"""How the SQLite store keeps a batch, in words of its own: sessions, rows and segments."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..adapters import Facts
from ..errors import StoreError
from ..model import SCHEMA_VERSION, format_time
from ..timeline import Tally, merge
from ._sql import values_for
from ._sql_calls import INTO_CALLS
from ._sql_put import INTO_EVENTS, Writer
from ._sql_sources import columns_of
from ._sqlite_read import SqliteReader
from .calls import hash_of
from .contract import Batch, Kept, Piece, Put, Segment
from .numbering import absolute, rows_in
from .pieces import SEQ

INDEX_CHARS = 1024 * 1024
"""So much text waits for its words to be written. More would make no difference, nor wait while the
workers read."""

_NO_FACTS = msgspec.msgpack.encode(Facts(native_session_id=""))
_NO_TALLY = msgspec.msgpack.encode(Tally())


class SqliteWriter(SqliteReader, Writer):
    """The putting part of `SqliteStore`."""

    _to_index: dict[int, Segment]
    """Segments that were put in the open transaction and are not in the index yet."""
    _index_chars = 0
    _fresh: int | None = None
    """The session that was just made. That there is nothing in it need not be asked."""
    _unmarked: set[int]
    """Sessions that were made in the open transaction: none of their calls is marked yet. To look
    at all of these takes 10 ms."""
    _absent: set[int]
    """Calls that were just asked for and are not there. A sync asks for all that it is about to
    put."""
    _made: dict[int, Piece]
    """The sessions that were made by the put that goes on, with all that is in them."""

    def put(self, batch: Batch) -> Put:
        self._made = {}
        return super().put(batch)

    def _session(self, flavor: str, piece: Piece, batch: Batch) -> int:
        self._fresh = None
        row = self._one("select number from sessions where uid = ?", (piece.session_uid,))
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
        self._fresh = self.db.last_insert_rowid()
        self._unmarked.add(self._fresh)
        return self._fresh

    def _blocks(self, session: int, source: int, *, fresh: bool) -> list[int]:
        if session != self._fresh:
            return super()._blocks(session, source, fresh=fresh)
        self._insert_block(session, 0, source)
        return [0]

    def _is_told_better(self, session: int, source: int, piece: Piece) -> bool:
        return session != self._fresh and super()._is_told_better(session, source, piece)

    def _add_block(self, session: int, source: int) -> int:
        (block,) = self._one(
            "select coalesce(max(block) + 1, 0) from streams where session = ?", (session,)
        )
        self._insert_block(session, block, source)
        return int(block)

    def _insert_block(self, session: int, block: int, source: int) -> None:
        self.db.execute(
            "insert into streams values (?, ?, ?, ?, ?, ?)",
            (session, block, source, _NO_FACTS, _NO_TALLY, b""),
        )

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
        self._insert(INTO_EVENTS, rows_in(session, piece, blocks))
        self._write_natives(session, piece, blocks)
        if blocks == [0] and session == self._fresh:
            self._made[session] = piece
            for n, segment in enumerate(piece.segments):
                self._add_segment(
                    (session << 20) + n, session, segment.first_seq, segment.last_seq, segment
                )
        else:
            for segment in piece.segments:
                self._write_segment(
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
        self._insert("insert or ignore into natives", sorted(rows) + originals)

    def calls(self, hashes: Sequence[int]) -> list[Kept]:
        found = super().calls(hashes)
        self._absent.clear()
        if self.db.in_transaction:
            self._absent.update(hashes)
            self._absent.difference_update(hash_of(kept.call) for kept in found)
        return found

    def _there(self, hashes: Sequence[int]) -> dict[int, int]:
        there = super()._there([h for h in hashes if h not in self._absent])
        self._absent.clear()
        return there

    def _may_be_marked(self, session: int) -> bool:
        return session not in self._unmarked

    def _put_call_rows(self, rows: list[list[Any]], there: Container[int]) -> None:
        # Nearly all are new. What is to be done with an old one is 2 KB of SQL, which apsw compares
        # for each row.
        new: dict[int, list[Any]] = {}
        again = [row for row in rows if row[0] in there or new.setdefault(row[0], row) is not row]
        self.db.executemany(values_for(INTO_CALLS, len(rows[0])), new.values())
        if again:
            super()._put_call_rows(again, there)

    def _write_segment(self, session: int, first: int, last: int, segment: Segment) -> None:
        row = self._one(
            "select id from segments where session = ? and first_seq = ?", (session, first)
        )
        if row is not None:
            self._drop_segments("id = ?", row)
            id_ = row[0]
        else:
            low = session << 20
            sql = "select max(id) from segments where id between ? and ?"
            (top,) = self._one(sql, (low, low | 0xFFFFF))
            id_ = low if top is None else top + 1
        self._add_segment(id_, session, first, last, segment)

    def _add_segment(self, id_: int, session: int, first: int, last: int, segment: Segment) -> None:
        if id_ >> 20 != session:
            raise StoreError("a session has more than a million segments")
        self.db.execute(
            "insert into segments values (?, ?, ?, ?, ?, ?, ?)",
            (id_, session, first, last, segment.length, segment.hash, segment.body),
        )
        self._to_index[id_] = segment
        self._index_chars += len(segment.prompt) + len(segment.reply) + len(segment.tool)
        if self._index_chars >= INDEX_CHARS:
            self._index()

    def _drop_segments(self, where: str, bindings: tuple[Any, ...]) -> None:
        ids = self._all(f"select id from segments where {where}", bindings)
        self.db.executemany(
            "delete from search where rowid = ?",
            [row for row in ids if self._to_index.pop(row[0], None) is None],
        )
        self.db.executemany("delete from segments where id = ?", ids)

    def _fold_put(self, source: int, batch: Batch, uids: set[str]) -> None:
        # Nearly always all that the source tells of was made just now: then it need not be read and
        # taken apart again, which takes four times as long, and it is known when that was.
        made, file = self._made, batch.source
        (streams,) = self._one("select count(*) from streams where source = ?", (source,))
        if streams != len(made) or batch.is_gone:
            super()._fold_put(source, batch, uids)
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
            self._write_sums(session, piece.facts, columns)

    # ── the index ─────────────────────────────────────────────────────────────────────────────────
    def _index(self) -> None:
        """Writes the words of the segments that were put. Not one by one: FTS5 writes out what it
        has collected at every savepoint, and for every segment that does not come behind the one
        before, as when two sources tell of a session."""
        sql = "insert into search (rowid, prompt, reply, tool) values (?, ?, ?, ?)"
        for id_, segment in sorted(self._to_index.items()):
            self.db.execute(sql, (id_, segment.prompt, segment.reply, segment.tool))
        self._to_index.clear()
        self._index_chars = 0

    def _sum_up(self) -> None:
        self._index()
        super()._sum_up()

    @contextmanager
    def _step(self) -> Iterator[None]:
        self._index()
        try:
            with super()._step():
                yield
        except BaseException:
            self._to_index.clear()
            raise

    def postings(self, term: str, *, prefix: bool = False, column: str | None = None) -> list[int]:
        self._index()
        return super().postings(term, prefix=prefix, column=column)
