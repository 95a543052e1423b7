"""What a store answers, in words that both databases understand. Nothing here writes."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec
import zstandard

from ..adapters import Facts, Position, Record, Source
from ..model import BLOCK, CALL_KINDS, Cost, Session, SessionEvent, parse_time, shorten
from ..timeline import Tally
from ._sql_list import Lister, _high
from .contract import Resume, SourceState, StreamState, Tail
from .pieces import (
    ASIDE,
    CUT,
    ERROR,
    FLAGS,
    LENGTH,
    OFFSET,
    SEGMENT_BYTES,
    SEQ,
    SUMMARY,
    read_briefly,
    read_row,
    unpack,
    unpack_records,
)

EVENT = (
    "seq, ts, kind, parent_seq, tool, action, flags, exit_code, native_id, call_id, summary,"
    ' "offset", length, rest'
)
_TRIES = ", ".join(
    repr(kind) for kind in sorted({*CALL_KINDS, "user_msg", "human_intervention", "retry"})
)
_TELLING = f"flags & {ERROR} != 0 or kind in ({_TRIES})"
"""Of an event: a prompt, an attempt or a failure."""
_SCANNED_BYTES = 1 << 20
"""What a thread is given at a time."""
_COSTS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
    "usd", "wall_clock_s",
    "turns", "retries",
)  # fmt: skip


class Reader(Lister):
    """The reading part of a store."""

    _unread: frozenset[int] = frozenset()
    """The sessions of a source that is read anew which this reading has not come to yet: what is
    stored of them is from another."""

    @property
    def mine(self) -> tuple[str, tuple[Any, ...]]:
        """Which sources are read here, as a test with what it is given: in a file all are."""
        return "1 = 1", ()

    @property
    def own_sessions(self) -> tuple[str, tuple[Any, ...]]:
        """Which sessions are this author's, in the same way."""
        return "1 = 1", ()

    @abstractmethod
    def _file_bytes(self) -> int:
        """The size of the store."""

    @abstractmethod
    def _columns(self) -> list[str]:
        """The columns of table `sessions`, in their order."""

    def session(self, uid: str) -> Session | None:
        columns = self._columns()
        row = self._one(f"select {', '.join(columns)} from sessions where uid = ?", (uid,))
        if row is None:
            return None
        data = dict(zip(columns, row, strict=True))
        del data["number"], data["uid"]
        cost = {name: data.pop(name) for name in _COSTS}
        data["pinned"], data["tags"] = bool(data["pinned"]), msgspec.json.decode(data["tags"])
        extra = data.pop("extra")
        if extra:
            data.update(msgspec.json.decode(extra))
        for name in Session.TIMES:
            data[name] = parse_time(data[name]) if data[name] else None
        return Session.from_dict({**data, "session_uid": uid, "cost": Cost(**cost).to_dict()})

    # ── events ────────────────────────────────────────────────────────────────────────────────────
    def events(self, uid: str, first: int = 0, last: int | None = None) -> list[SessionEvent]:
        session = self._number(uid)
        if session is None:
            return []
        # Not the bodies: megabytes that nobody asked for.
        spans = self._segments(session, first, last, "id, first_seq, last_seq")
        events = []
        at = 0
        rows = self._told(session, first, last)
        cut = [
            row
            for row in rows
            if row[FLAGS] & CUT and row[OFFSET] is not None and row[SUMMARY] is None
        ]
        said = self._bodies(uid, session, first, last, cut) if cut else {}
        for row in rows:
            ref = None
            if row[OFFSET] is not None:
                while at < len(spans) and spans[at][2] < row[SEQ]:
                    at += 1
                # A reference names the segment and says what lies there: a swapped or cut one is
                # noticed by its hash.
                ref = f"{spans[at][0]}:{row[OFFSET]}+{row[LENGTH]}" if at < len(spans) else None
            event = read_row(uid, row, ref)
            if text := said.get(event.seq):
                event = msgspec.structs.replace(event, summary=shorten(text.partition("\n")[0]))
            events.append(event)
        return events

    def outline(self, uid: str) -> list[SessionEvent]:
        rest = ", ".join(
            f"case when {_TELLING} then {name} end" for name in ("tool", "summary", "rest")
        )
        sql = (
            f"select seq, kind, parent_seq, flags, call_id, {rest} from events where session = ?"
            f" and flags & {ASIDE} = 0 order by seq"
        )
        return [read_briefly(uid, row) for row in self._all(sql, (self._number(uid),))]

    def bodies(self, uid: str, first: int = 0, last: int | None = None) -> dict[int, str]:
        session = self._number(uid)
        return (
            {}
            if session is None
            else self._bodies(uid, session, first, last, self._told(session, first, last))
        )

    def _bodies(
        self, uid: str, session: int, first: int, last: int | None, rows: list[Any]
    ) -> dict[int, str]:
        """The bodies of these rows, all of which lie between the two numbers."""
        found: dict[int, str] = {}
        spans = self._segments(session, first, last)
        data = b""
        at, loaded = 0, -1
        for row in rows:
            if row[OFFSET] is None:
                copied = self._body_at(read_row(uid, row).origin)
                if copied is not None:
                    found[row[SEQ]] = copied
                continue
            while spans[at][2] < row[SEQ]:
                at += 1
            if loaded != at:
                _, _, _, length, hash_, body = spans[at]
                data, loaded = unpack(body, length, hash_), at
            found[row[SEQ]] = data[row[OFFSET] : row[OFFSET] + row[LENGTH]].decode(
                "utf-8", "replace"
            )
        return found

    def _body_at(self, origin: str | None) -> str | None:
        """The body of an event named as uid#seq. An origin is never a copy itself, so this ends."""
        uid, _, seq = (origin or "").rpartition("#")
        session = self._number(uid)
        row = None if session is None else next(iter(self._rows(session, int(seq), int(seq))), None)
        if row is None or row[OFFSET] is None:
            return None
        return self.bodies(uid, int(seq), int(seq)).get(int(seq))

    def _told(self, session: int, first: int, last: int | None) -> list[Any]:
        """The rows that tell a session. What is set aside is given only to whoever asks for its
        number."""
        rows = self._rows(session, first, last)
        return rows if first == last else [row for row in rows if not row[FLAGS] & ASIDE]

    def _rows(self, session: int, first: int, last: int | None) -> list[Any]:
        sql = f"select {EVENT} from events where session = ? and seq between ? and ? order by seq"
        return self._all(sql, (session, first, _high(last)))

    def _segments(
        self,
        session: int,
        first: int,
        last: int | None,
        what: str = "id, first_seq, last_seq, length, hash, body",
    ) -> list[Any]:
        sql = (
            f"select {what} from segments where session = ? and last_seq >= ? and first_seq <= ?"
            " order by first_seq"
        )
        return self._all(sql, (session, first, _high(last)))

    def _event(self, session: int, seq: int) -> SessionEvent | None:
        rows = self._rows(session, seq, seq)
        if not rows:
            return None
        (uid,) = self._one("select uid from sessions where number = ?", (session,))
        return read_row(uid, rows[0])

    def record_of(self, uid: str, seq: int) -> tuple[str, int] | None:
        session = self._number(uid)
        event = None if session is None else self._event(session, seq)
        if event is None or event.record is None:
            return None
        sql = (
            "select path from streams join sources on number = source where session = ? and"
            " block = ?"
        )
        row = self._one(sql, (session, seq // BLOCK))
        return None if row is None else (row[0], event.record)

    def records(
        self, source_path: str, first: int = 0, last: int | None = None
    ) -> Iterator[tuple[int, int, bytes]]:
        sql = (
            "select r.first, r.length, r.body from records r join sources s on s.number = r.source"
            " where s.path = ? and r.first + r.count > ? and r.first <= ? order by r.first"
        )
        for start, length, body in self._all(sql, (source_path, first, _high(last))):
            lines = (record for record in unpack_records(body, length) if record.aside is None)
            for number, record in enumerate(lines, start):
                if first <= number <= _high(last):
                    yield number, record.offset, record.data

    # ── the index ─────────────────────────────────────────────────────────────────────────────────
    def scan(self, numbers: Sequence[int], test: Callable[[bytes], bool]) -> Iterator[int]:
        sql = "select id, length, body from segments where session = ? order by first_seq"
        # Decompression and RE2 let go of Python's lock, and a second thread brings 1.7 times the
        # speed; more would wait for it.
        with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
            ahead: deque[Future[list[int]]] = deque()
            rows: list[tuple[int, int, bytes]] = []
            size = 0
            try:
                for number in numbers:
                    more = self._all(sql, (number,))
                    rows += more
                    size += sum(length for _, length, _ in more)
                    if size >= _SCANNED_BYTES:
                        ahead.append(pool.submit(_passing, rows, test))
                        rows, size = [], 0
                    if len(ahead) > 8:
                        yield from ahead.popleft().result()
                ahead.append(pool.submit(_passing, rows, test))
                while ahead:
                    yield from ahead.popleft().result()
            finally:
                for job in ahead:
                    job.cancel()

    # ── sources ───────────────────────────────────────────────────────────────────────────────────
    def sources(self, agent: str | None = None) -> dict[str, SourceState]:
        return {state.source.path: state for state in self._states(agent)}

    def all_sources(self) -> list[SourceState]:
        return self._states(None)

    def _states(self, agent: str | None) -> list[SourceState]:
        sql = (
            'select number, agent, path, root, machine, size, mtime_ns, inode, "offset", head,'
            " tail, records, adapter_version,"
            " redact_version, missing_at, problem from sources where"
            f" {self.mine[0]}{'' if agent is None else ' and agent = ?'}"
        )
        rows = self._all(sql, self.mine[1] if agent is None else (*self.mine[1], agent))
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
            {source for (source,) in self._all(evicted, () if agent is None else (agent,))}
            if rows
            else set()
        )
        return [
            SourceState(
                number=number,
                source=Source(
                    agent=name,
                    path=path,
                    root=root,
                    machine=machine,
                    size=size,
                    mtime_ns=mtime,
                    inode=inode,
                ),
                position=Position(offset=offset, head=head, tail=tail, records=records),
                adapter_version=rest[0],
                redact_version=rest[1],
                missing_at=rest[2],
                problem=rest[3],
                is_evicted=number in bare,
            )
            for number, name, path, root, machine, size, mtime, inode, offset, head, tail, records, *rest in (
                rows
            )
        ]

    def resume(self, source: int) -> Resume:
        (carry,) = self._one("select carry from sources where number = ?", (source,))
        sql = (
            "select uid, session, block, hash from streams join sessions on number = session where"
            " source = ? order by session, block"
        )
        blocks: dict[tuple[str, int], list[int]] = {}
        for uid, session, block, hash_ in self._all(sql, (source,)):
            if session in self._unread:
                continue
            if hash_ or (uid, session) not in blocks:
                blocks[uid, session] = [block]
            else:
                blocks[uid, session].append(block)
        return Resume(
            carry=carry,
            streams={
                uid: self._stream_state(session, found) for (uid, session), found in blocks.items()
            },
        )

    def kept(self, source: int) -> Iterator[Record]:
        for length, body in self._all(
            "select length, body from records where source = ? order by first", (source,)
        ):
            yield from unpack_records(body, length)

    def kept_count(self, source: int) -> int:
        (count,) = self._one(
            "select coalesce(sum(count), 0) from records where source = ?", (source,)
        )
        return int(count)

    def _stream_state(self, session: int, blocks: Sequence[int]) -> StreamState:
        facts, tally, hash_ = self._one(
            "select facts, tally, hash from streams where session = ? and block = ?",
            (session, blocks[0]),
        )
        return StreamState(
            block=blocks[0],
            facts=msgspec.msgpack.decode(facts, type=Facts),
            tally=msgspec.msgpack.decode(tally, type=Tally),
            hash=hash_,
            tail=self._tail(session, blocks),
        )

    def _tail(self, session: int, blocks: Sequence[int]) -> Tail | None:
        """The last segment of the stream while it is not full, numbered within the stream."""
        low, high = blocks[-1] * BLOCK, (blocks[-1] + 1) * BLOCK - 1
        row = self._one(
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
            events=self._all(sql, (session, first, last)),
        )

    def skips(self, source_path: str | None = None) -> list[tuple[str, int, str]]:
        sql = (
            'select path, k."offset", reason from skips k join sources on number = source'
            f" where {self.mine[0]} and path = coalesce(?, path) order by 1, 2"
        )
        return self._all(sql, (*self.mine[1], source_path))

    def tombstones(self) -> set[str]:
        return {uid for (uid,) in self._all("select uid from tombstones")}

    def unredacted(self, version: str, limit: int = 100) -> list[tuple[int, str]]:
        sql = (
            "select number, path from sources where redact_version != ? and synced_at is not null"
            f" and {self.mine[0]} order by mtime_ns desc, path limit ?"
        )
        return self._all(sql, (version, *self.mine[1], limit))

    def stats(self) -> dict[str, Any]:
        tables = ("sessions", "sources", "events", "segments", "records", "skips")
        found: dict[str, Any] = {
            name: self._one(f"select count(*) from {name}")[0] for name in tables
        }
        found["body_bytes"] = int(self._one("select coalesce(sum(length), 0) from segments")[0])
        found["source_bytes"] = int(self._one("select coalesce(sum(size), 0) from sources")[0])
        found["file_bytes"] = self._file_bytes()
        return found


def _passing(rows: list[tuple[int, int, bytes]], test: Callable[[bytes], bool]) -> list[int]:
    # One for each thread. Hashes are for `doctor`: they cost as much again.
    unpack_one = zstandard.ZstdDecompressor().decompress
    found = []
    for id_, length, body in rows:
        try:
            passes = test(unpack_one(body, max_output_size=length))
        except zstandard.ZstdError:
            passes = True  # Whoever unpacks it is told that it is damaged.
        if passes:
            found.append(id_)
    return found
