"""Sources that are read again as a whole.

They were rewritten, are derived by a newer adapter, or are outranked by another source. Stored
events are removed or marked first. Then the batches are put like any others. `Known.renumberings`
has the numbers that events had, and `Known.unread` the sessions that this reading has not reached.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec

from ...adapters import Facts
from ...model import BLOCK, format_time
from ...timeline import Tally
from ..known import Age, Known, KnownSession, Stream, age_of
from ..natives import native_hash
from ..numbering import Renumbering
from ..rows import (
    CUT,
    FLAGS,
    GONE,
    NATIVE_ID,
    OFFSET,
    OUTRANKED,
    REST,
    SEQ,
    names_of,
    read_row,
    record_of,
    with_record,
)
from ..segments import pack
from ..values import DAMAGED, Batch, Put, SessionPlace
from .put import INSERT_EVENT, SqlWriter

PUT_BACK = b"\x01"
"""The hash of a block whose totals are only those of events that are gone from its source.

Its other events are in the totals of a later reading.
"""

MAX_SEQ = 1 << 62
"""Higher than the number of any event."""


class SqlIngest(SqlWriter):
    """See `Ingest` in the contracts."""

    @contextmanager
    def putting_again(
        self, unread: Iterable[int] = (), again: dict[int, Renumbering] | None = None
    ) -> Iterator[None]:
        """Put the batches inside on their own, and forget what was known of the group."""
        outer, self.group.known = self.group.known, Known(unread=set(unread), renumberings=again)
        self.group.unread = self.group.known.unread
        try:
            yield
        finally:
            self.group.known, self.group.unread = outer, frozenset()
            self.group.forget()

    def rewrite(self, source: int, batches: Iterable[Batch]) -> Put:
        total = Put(sessions=set())
        with self.db.step():
            before = self.db.all("select session, block from streams where source = ?", (source,))
            self._rewind(source)
            present: dict[int, int | None] = {}
            with self.putting_again(unread=(session for session, _ in before)):
                for batch in batches:
                    for delta in batch.deltas:
                        records = map(record_of, delta.rows)
                        present.update(zip(delta.natives, records, strict=True))
                    version = self._redacted(source)
                    add(total, self.put(msgspec.structs.replace(batch, redact_version=version)))
            for session, block in before:
                self._mark_gone(session, block, present)
        return total

    def _mark_gone(self, session: int, block: int, present: dict[int, int | None]) -> None:
        """Mark events that are no longer in their source, and unmark those that are again.

        Update the number of the native record of each.
        """
        numbers = {seq: h for h, seq in reversed(self.native_hashes(session, block))}
        changes = []
        for row in self.sessions.rows(session, block * BLOCK, (block + 1) * BLOCK - 1):
            h = numbers.get(row[SEQ])
            if h is not None:
                flags = row[FLAGS] & ~GONE if h in present else row[FLAGS] | GONE
                changes.append((flags, with_record(row[REST], present.get(h)), session, row[SEQ]))
        self.db.executemany(
            "update events set flags = ?, rest = ? where session = ? and seq = ?", changes
        )

    def _redacted(self, source: int) -> str:
        (version,) = self.db.one("select redact_version from sources where number = ?", (source,))
        return str(version)

    def rederive(self, source: int, batches: Iterable[Batch]) -> Put:
        total = Put(sessions=set())
        with self.db.step():
            streams = self._ranked_streams(source)
            there = {session for session, _ in streams if not self.is_evicted(session)}
            again = {session: Renumbering(self._age(session)) for session, _ in streams}
            gone = self._take_all_out(source, streams, again)
            with self.putting_again(again=again):
                for batch in batches:
                    if any(rows for _, _, rows, _ in gone):
                        version = self._redacted(source)
                        batch = msgspec.structs.replace(batch, redact_version=version)
                    add(total, self.put(batch))
            for session, block, rows, bodies in gone:
                self._put_back(session, block, rows, bodies)
            for session in {session for session, _ in streams}:
                if self._is_outranked(session, source):  # The newer adapter knows that it is.
                    self.demote(session, source)
            self.totals.update_source(source)
            # The same text may be other events now, or copies that it was not: a digest of what
            # they were covers nothing any more.
            sql = (
                "update sessions set analyzed_seq = -1, analyzed_hash = '' where number = ? and"
                " analyzed_at is not null"
            )
            self.db.executemany(sql, [(session,) for session in there])
        return total

    def _age(self, session: int) -> Age:
        sql = "select facts, tally from streams where session = ? and hash != x''"
        return age_of(
            (
                msgspec.msgpack.decode(facts, type=Facts),
                msgspec.msgpack.decode(tally, type=Tally),
            )
            for facts, tally in self.db.all(sql, (session,))
        )

    def _ranked_streams(self, source: int) -> list[tuple[int, int]]:
        """Return (session, block) of a source, without sessions that another source outranks.

        Their events stay as they were cited: a newer adapter changes nothing in them.
        """
        streams = self.db.all("select session, block from streams where source = ?", (source,))
        sessions = {session for session, _ in streams}
        outranked = {session for session in sessions if self._is_outranked(session, source)}
        return [(session, block) for session, block in streams if session not in outranked]

    def _take_all_out(
        self, source: int, streams: list[tuple[int, int]], again: dict[int, Renumbering]
    ) -> list[tuple[int, int, list[list[Any]], list[bytes | None]]]:
        """Take out the blocks of a source and rewind it.

        Return (session, block, rows, bodies) of events that are no longer in the source.
        """
        (version,) = self.db.one("select adapter_version from sources where number = ?", (source,))
        gone = []
        for session, block in streams:
            rows, bodies = self._gone_from(session, block)
            gone.append((session, block, rows, bodies))
            is_damaged = version == DAMAGED or self.is_evicted(session)
            self.take_out(session, block, again[session], is_damaged=is_damaged)
            again[session].has_gone |= bool(rows)
        self._rewind(source)
        return gone

    def is_evicted(self, session: int) -> bool:
        return (
            self.db.one(
                "select 1 from sessions where number = ? and evicted_at is not null", (session,)
            )
            is not None
        )

    def _gone_from(self, session: int, block: int) -> tuple[list[list[Any]], list[bytes | None]]:
        """Return the rows and bodies of a block that no adapter can derive again from its
        source."""
        low, high = block * BLOCK, (block + 1) * BLOCK - 1
        rows = [list(row) for row in self.sessions.rows(session, low, high) if row[FLAGS] & GONE]
        if not rows:
            return [], []
        (uid,) = self.db.one("select uid from sessions where number = ?", (session,))
        bodies = self.sessions.bodies(uid, low, high)
        return rows, [
            None if row[OFFSET] is None else bodies[row[SEQ]].encode("utf-8", "replace")
            for row in rows
        ]

    def take_out(self, session: int, block: int, again: Renumbering, *, is_damaged: bool) -> None:
        """Drop the events of a block and remember which native id had which number."""
        low, high = block * BLOCK, (block + 1) * BLOCK - 1
        span = (session, low, high)
        known = self.native_hashes(session, block)
        # An event that was lost may still be known by its number. There is no index for this: it
        # takes a scan.
        if is_damaged:
            known = (
                self.db.all(
                    "select hash, seq from natives where session = ? and seq between ? and ?", span
                )
                + known
            )
        # The own id of an event is worth more than that of an original.
        again.numbers.update(reversed(known))
        (last,) = self.db.one("select last_seq from sessions where number = ?", (session,))
        # Where events were lost by accident, the highest number may be that of one of them.
        again.last = max(
            [
                again.last,
                MAX_SEQ if is_damaged and not self.is_evicted(session) else last,
                *(seq for _, seq in known),
            ]
        )
        self.db.executemany(
            "delete from natives where hash = ? and session = ?", ((h, session) for h, _ in known)
        )
        self.db.execute("delete from events where session = ? and seq between ? and ?", span)
        self.index.drop("session = ? and first_seq between ? and ?", span)
        self.db.execute(
            "update streams set tally = ?, hash = x'' where session = ? and block = ?",
            (msgspec.msgpack.encode(Tally()), session, block),
        )

    def _rewind(self, source: int) -> None:
        self.db.execute("delete from records where source = ?", (source,))
        self.db.execute("delete from skips where source = ?", (source,))
        self.db.execute("delete from aliases where source = ?", (source,))
        self.db.execute(
            'update sources set "offset" = 0, records = 0, carry = null where number = ?', (source,)
        )

    def _put_back(
        self, session: int, block: int, rows: list[list[Any]], bodies: list[bytes | None]
    ) -> None:
        """Put back rows that the source did not bring again. They count for their old block."""
        uid, flavor = self.db.one("select uid, flavor from sessions where number = ?", (session,))
        hashes = [native_hash(flavor, row[NATIVE_ID]) for row in rows]
        known = self.find_natives(hashes)
        left = [
            n
            for n, h in enumerate(hashes)
            if all(number != session for number, _ in known.get(h, []))
        ]
        rows, bodies = [rows[n] for n in left], [bodies[n] for n in left]
        if not rows:
            return
        natives = [(hashes[n], session, row[SEQ]) for n, row in zip(left, rows, strict=True)]
        self.db.executemany("insert or ignore into natives values (?, ?, ?)", natives)
        self._repack(uid, session, block, rows, bodies)
        (tally,) = self.db.one(
            "select tally from streams where session = ? and block = ?", (session, block)
        )
        total = msgspec.msgpack.decode(tally, type=Tally).add(read_row(uid, row) for row in rows)
        self.db.execute(
            "update streams set tally = ?, hash = case when hash = x'' then ? else hash end where"
            " session = ? and block = ?",
            (msgspec.msgpack.encode(total), PUT_BACK, session, block),
        )

    def _repack(
        self, uid: str, session: int, block: int, rows: list[list[Any]], bodies: list[bytes | None]
    ) -> None:
        """Add rows to a block between those that it has.

        Segments must not overlap, so all bodies of the block are packed anew.
        """
        span = (session, block * BLOCK, (block + 1) * BLOCK - 1)
        there = [list(row) for row in self.sessions.rows(*span)]
        texts = self.sessions.bodies_of(uid, session, span[1], span[2], there)
        packed = [
            None if row[OFFSET] is None else texts[row[SEQ]].encode("utf-8", "replace")
            for row in there
        ]
        both = sorted(
            zip(rows + there, bodies + packed, strict=True), key=lambda pair: pair[0][SEQ]
        )
        self.index.drop("session = ? and first_seq between ? and ?", span)
        self.db.execute("delete from events where session = ? and seq between ? and ?", span)
        segments = pack([row for row, _ in both], [body for _, body in both], None)
        self.db.executemany(INSERT_EVENT, ((session, *row) for row, _ in both))
        for segment in segments:
            self.index.write(session, segment.first_seq, segment.last_seq, segment)

    def native_hashes(self, session: int, block: int | None = None) -> list[tuple[int, int]]:
        """Return (hash, seq) of the native ids of a session, or of one block, of originals and of
        twins."""
        (flavor,) = self.db.one("select flavor from sessions where number = ?", (session,))
        low, high = (0, 1 << 62) if block is None else (block * BLOCK, (block + 1) * BLOCK - 1)
        sql = (
            "select native_id, seq, rest from events where session = ? and seq between ? and ? and"
            " native_id is not null"
        )
        rows = self.db.all(sql, (session, low, high))
        others = [(name, seq) for _, seq, rest in rows for name in names_of(rest)]
        return [(native_hash(flavor, native_id), seq) for native_id, seq, _ in rows] + others

    def _is_outranked(self, session: int, source: int) -> bool:
        """Return True if another source of the session has a better rank than this one."""
        sql = "select block, source, facts, tally, hash from streams where session = ?"
        streams = {row[0]: Stream(*row) for row in self.db.all(sql, (session,))}
        stored = KnownSession(number=session, uid="", streams=streams)
        own = max((stream.facts.rank or 0 for stream in stored.of_source(source)), default=0)
        return own > 0 and any(rank < own for rank in stored.ranks(source).values())

    def demote(self, session: int, source: int) -> None:
        """Exclude the events of a source from a session.

        They stay where they are, because they may be cited.
        """
        (uid,) = self.db.one("select uid from sessions where number = ?", (session,))
        for (block,) in self.db.all(
            "select block from streams where session = ? and source = ?", (session, source)
        ):
            span = (session, block * BLOCK, (block + 1) * BLOCK - 1)
            known = self.native_hashes(session, block)
            # Those of events that have left. There is no index for this: it takes a scan.
            if self.is_evicted(session):
                known += self.db.all(
                    "select hash, seq from natives where session = ? and seq between ? and ?", span
                )
            gone = [(h, session, seq) for h, seq in known]
            self.db.executemany(
                "delete from natives where hash = ? and session = ? and seq = ?", gone
            )
            # What an eviction left of it is not waited for.
            bare = (
                f"delete from events where session = ? and seq between ? and ? and flags & {CUT} !="
                ' 0 and "offset" is null'
            )
            self.db.execute(bare, span)
            flags = f"(flags | {OUTRANKED}) & {~CUT}"
            self.db.execute(
                f"update events set flags = {flags}, native_id = null where session = ? and seq"
                " between ? and ?",
                span,
            )
            self._repack(uid, session, block, [], [])
            self.db.execute(
                "update streams set tally = ?, hash = x'' where session = ? and block = ?",
                (msgspec.msgpack.encode(Tally()), session, block),
            )

    def return_whole(self, source: int, batches: Iterable[Batch], *, is_proved: bool) -> Put | None:
        cut = (
            "select 1 from streams s join events e on e.session = s.session and e.seq between"
            f" s.block * {BLOCK} and (s.block + 1) * {BLOCK} - 1 where s.source = ? and e.flags & ?"
            " = ? limit 1"
        )
        if self.db.one(cut, (source, CUT | GONE, CUT | GONE)):
            return None
        wanted: set[tuple[int, int]] = set()
        # Also of its sessions that are still there: what they lack afterwards would be lost.
        streams = "select session, block, tally from streams where source = ?"
        for session, block, tally in [] if is_proved else self.db.all(streams, (source,)):
            sql = "select hash, seq from natives where session = ? and seq between ? and ?"
            known = self.db.all(sql, (session, block * BLOCK, (block + 1) * BLOCK - 1))
            if len({seq for _, seq in known}) < msgspec.msgpack.decode(tally, type=Tally).events:
                return None  # What has no native id cannot be known again.
            wanted |= {(session, h) for h, _ in known}
        try:
            with self.db.step():
                done = self.rederive(source, batches)
                here = {
                    (session, h)
                    for h, places in self.find_natives([h for _, h in wanted]).items()
                    for session, _ in places
                }
                if not wanted <= here:
                    raise Short
        except Short:
            return None
        return done

    def part_with(self, source: int, batches: Iterable[Batch], when: datetime) -> Put:
        done = Put(sessions=set())
        with self.db.step():
            (path,) = self.db.one("select path from sources where number = ?", (source,))
            moved_path = os.path.join(
                os.path.dirname(path), f"until {when:%Y%m%dT%H%M%S%f}Z", os.path.basename(path)
            )
            sql = "update sources set path = ?, inode = 0, missing_at = ? where number = ?"
            self.db.execute(sql, (moved_path, format_time(when), source))
            with self.putting_again():
                for batch in batches:
                    add(done, self.put(batch))
            self.totals.update_source(source)
        return done

    def set_places(self, found: dict[str, tuple[str | None, str | None]]) -> None:
        with self.db.transaction():
            # The name alone, which a folder has too, takes nothing from one that is known with its
            # owner: it may be all that is left of a folder that is gone.
            self.db.executemany(
                "update sessions set repo = case when repo like '%/%' and ? not like '%/%' then"
                " repo else coalesce(?, repo) end, task_ref = coalesce(task_ref, ?) where uid = ?",
                [(repo, repo, task, uid) for uid, (repo, task) in found.items()],
            )

    def places(self) -> list[SessionPlace]:
        is_mine, reader = self.db.own_sources
        sql = (
            "select t.session, s.cwd, s.repo, q.machine, t.facts from streams t join sessions s on"
            " s.number = t.session join sources q on q.number = t.source where t.hash != x'' and"
            f" {is_mine} order by t.session, t.block"
        )
        found: dict[int, SessionPlace] = {}
        for number, cwd, repo, machine, facts in self.db.all(sql, reader):
            place = found.get(number)
            if place is None:
                place = found[number] = SessionPlace(
                    number=number, cwd=cwd, repo=repo, machine=machine
                )
            names = _decode_names(facts)
            place.recorded, place.linked = (
                place.recorded or names.repo,
                place.linked or names.linked_repo,
            )
        return list(found.values())

    def set_repos(self, names: Mapping[int, str | None]) -> None:
        with self.db.transaction():
            self.db.executemany(
                "update sessions set repo = ? where number = ?",
                [(repo, number) for number, repo in names.items()],
            )

    def set_domains(self, domain_of: Callable[[str | None], str | None]) -> None:
        (is_own, author), (is_mine, reader) = self.db.own_sessions, self.db.own_sources
        # Nearly always nothing has changed, and whose the sources are need not be asked.
        known = self.db.all(f"select distinct repo, domain from sessions where {is_own}", author)
        if all(domain_of(repo) == domain for repo, domain in known):
            return
        here = (
            "number in (select t.session from streams t join sources q on q.number = t.source"
            f" where {is_mine})"
        )
        others: dict[str | None, list[int]] = {}
        for number, repo, old in self.db.all(
            f"select number, repo, domain from sessions where {is_own} and {here}",
            (*author, *reader),
        ):
            if (domain := domain_of(repo)) != old:
                others.setdefault(domain, []).append(number)
        with self.db.transaction():
            for domain, numbers in others.items():
                sql = "update sessions set domain = ? where number in (select value from carray(?))"
                self.db.execute(sql, (domain, self.db.ids(numbers)))


class _Names(msgspec.Struct):
    """The part of `Facts` that names repositories."""

    repo: str | None = None
    linked_repo: str | None = None


_decode_names = msgspec.msgpack.Decoder(_Names).decode


class Short(Exception):
    """Raised when a session that was to come back did not come as a whole."""


def add(total: Put, more: Put) -> None:
    total.sessions |= more.sessions
    total.events += more.events
    total.copies += more.copies
    total.forgotten += more.forgotten
    total.digests += more.digests
    total.to_rederive += more.to_rederive
