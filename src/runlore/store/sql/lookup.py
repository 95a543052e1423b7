"""Questions about batches that are about to be put, asked once for a whole group.

Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from ...model import BLOCK
from ..calls import COLUMNS, from_row
from ..deltas import repeated
from ..known import (
    CutPart,
    File,
    Known,
    KnownCall,
    KnownSession,
    KnownSource,
    Place,
    SourceKey,
    Stream,
    calls_of,
    hashes_of,
    hashes_without_event,
    key_of,
    originals_first,
    source_key,
    uids_of,
)
from ..rows import CUT, GONE, copied
from ..values import Batch, Delta
from .database import Database, Question, Test
from .ledger import CALL
from .sources import SqlSources

Inquiry = tuple[Question, Callable[[list[Any]], None]]
"""A question, and a function that notes the rows of its answer."""

_SEQ = COLUMNS.index("seq")

_CALLS = (
    f"select c.hash, c.session, s.uid, {CALL} from ledger c left join sessions s on s.number ="
    " c.session where c.hash in (select value from carray(?))"
)

_SESSIONS = (
    "select number, uid, evicted_at is not null, (select coalesce(max(seq), -1) from events e where"
    " e.session = number) from sessions where number in (select value from carray(?))"
)

_STREAMS = (
    "select t.session, t.block, t.source, t.facts, t.tally, t.hash, q.path, q.size, q.missing_at,"
    " case when q.missing_at is not null then (select coalesce(sum(r.count), 0) from records r"
    " where r.source = q.number) = q.records else true end from streams t left join sources q on"
    " q.number = t.source where t.session in (select value from carray(?)) order by t.session,"
    " t.block"
)

_SEGMENTS = (
    "select session, first_seq, id from segments where session in (select value from carray(?))"
)

_ALIASES = (
    "select source, hash, session, seq from aliases where source in (select value from carray(?))"
    " and hash in (select value from carray(?))"
)

_CUTS = (
    f"select e.session, q.number, q.missing_at is not null, max(e.flags & {GONE}) from events e"
    f" join streams s on s.session = e.session and s.block = e.seq / {BLOCK} join sources q on"
    " q.number = s.source where e.session in (select value from carray(?))"
    f" and e.flags & {CUT} != 0 group by 1, 2, 3"
)


class Reserving(Protocol):
    """The methods of an ingest that a lookup needs."""

    @property
    def known_natives(self) -> Test:
        """The test for rows of `natives n` that may be the same events."""

    def reserve(self, known: Known, sources: list[SourceKey], deltas: list[Delta]) -> None:
        """Add numbers for new sources and sessions."""

    def find_foreign(self, uids: set[str]) -> set[str]:
        """Return those uids that may be another author's sessions."""


class Lookup:
    """Questions to a store."""

    def __init__(self, db: Database, sources: SqlSources, ingest: Reserving) -> None:
        self._db, self._stored_sources, self._ingest = db, sources, ingest

    def fill(self, known: Known, batches: Sequence[Batch]) -> None:
        """Add to `known` what the store has of these batches."""
        uids = {uid for batch in batches for uid in uids_of(batch)}
        known.foreign |= self._ingest.find_foreign(uids)
        _note_batches(known, batches)
        self._ask(
            self._sources(known, batches),
            self._sessions(known, uids),
            self._tombstones(known, uids),
            self._natives(known, {h for batch in batches for h in hashes_of(batch)} - {0}),
            self._calls(known, {h for batch in batches for h in calls_of(batch)}),
        )
        sources = _stored_sources(known, batches)
        if sources:
            self._ask(*self._parts(sources))
        added = [session.number for uid in uids if (session := known.sessions.get(uid))]
        numbers = {*added, *_related_sessions(known, sources)}
        if numbers:
            self._ask(*self._streams(known, numbers))
        self._read_cited(known)
        if added or sources:
            self._ask(*self._details(known, batches, added, sources))
        self._reserve(known, batches)

    def read_tails(self, known: Known, batch: Batch) -> None:
        """Read the last segments of streams that go on, where they have to be packed anew: some of
        what follows is a copy."""
        source = known.sources[source_key(batch)].number
        for delta in batch.deltas if batch.since else ():
            session = known.sessions.get(delta.session_uid)
            blocks = session.last_reading(source) if session else []
            if session and blocks and _may_have_copies(delta, known):
                known.tails[session.number, source] = self._stored_sources.tail(
                    session.number, blocks
                )

    def read_sessions(self, known: Known, numbers: Sequence[int]) -> None:
        """Add to `known` these sessions, and what their sources say of them."""
        if numbers:
            self._ask(*self._streams(known, {*numbers}))

    def _read_cited(self, known: Known) -> None:
        """Read the events that copies refer to, and their sessions. They need not have a name in
        common with what is put: a copy of a copy is marked with that one's id alone."""
        known.cited |= {at[:2]: at for places in known.natives.values() for at in places}
        origins = {copied(at.rest)[0] for at in known.cited.values() if at.rest is not None}
        cited = {origin for origin in origins if origin and not known.cited_place(origin)}
        uids = {uid for origin in cited if (uid := origin.rpartition("#")[0])}
        if not uids:
            return
        test, names = self._db.among("s.uid", uids)
        sql = (
            "select s.uid, e.session, e.seq, e.flags, e.rest from sessions s join events e on"
            f" e.session = s.number where {test} and e.seq in (select value from carray(?))"
        )
        seqs = self._db.ids({int(origin.rpartition("#")[2]) for origin in cited})
        for uid, *at in self._db.all(sql, (names, seqs)):
            if f"{uid}#{at[1]}" in cited:
                known.cited[at[0], at[1]] = Place(*at)
        more = {number for number, _ in known.cited} - known.by_number.keys()
        self.read_sessions(known, sorted(more))

    def _ask(self, *inquiries: Inquiry) -> None:
        answers = self._db.answer([question for question, _ in inquiries])
        for (_, note), rows in zip(inquiries, answers, strict=True):
            note(rows)

    # ── what is there ─────────────────────────────────────────────────────────────────────────────
    def _sources(self, known: Known, batches: Sequence[Batch]) -> Inquiry:
        mine, values = self._db.own_sources
        by_agent, agents = self._db.among("agent", {batch.source.agent for batch in batches})
        by_path, paths = self._db.among("path", {batch.source.path for batch in batches})

        def note(rows: list[Any]) -> None:
            for number, agent, path, offset, merged in rows:
                totals = msgspec.json.decode(merged, type=dict[str, int])
                known.sources[agent, path] = KnownSource(
                    number=number, is_new=False, offset=offset, merged=totals
                )

        sql = (
            f'select number, agent, path, "offset", merged from sources where {mine} and {by_agent}'
            f" and {by_path}"
        )
        return (sql, (*values, agents, paths)), note

    def _sessions(self, known: Known, uids: set[str]) -> Inquiry:
        test, names = self._db.among("uid", uids or {""})

        def note(rows: list[Any]) -> None:
            for number, uid in rows:
                known.add_session(KnownSession(number=number, uid=uid, next_segment=number << 20))

        return (f"select number, uid from sessions where {test}", (names,)), note

    def _tombstones(self, known: Known, uids: set[str]) -> Inquiry:
        test, names = self._db.among("uid", uids or {""})

        def note(rows: list[Any]) -> None:
            known.tombstones.update(uid for (uid,) in rows)

        return (f"select uid from tombstones where {test}", (names,)), note

    def _natives(self, known: Known, hashes: set[int]) -> Inquiry:
        may, values = self._ingest.known_natives

        def note(rows: list[Any]) -> None:
            found: dict[int, tuple[Place, ...]] = {}
            for h, *at in rows:
                found[h] = (*found.get(h, ()), Place(*at))
            known.natives |= found

        row = "from events e where e.session = n.session and e.seq = n.seq"
        sql = (
            f"select n.hash, n.session, n.seq, (select flags {row}), (select rest {row}) from"
            f" natives n where n.hash in (select value from carray(?)) and {may}"
            " order by n.session, n.seq"
        )
        return (sql, (self._db.ids(hashes or {0}), *values)), note

    def _calls(self, known: Known, hashes: set[int]) -> Inquiry:
        def note(rows: list[Any]) -> None:
            known.calls.update(dict.fromkeys(hashes))
            for h, number, uid, *row in rows:
                kept = from_row(uid, row) if uid is not None else None
                known.calls[h] = KnownCall(kept, number, uid or "", row[_SEQ])

        return (_CALLS, (self._db.ids(hashes or {0}),)), note

    # ── what is in it ─────────────────────────────────────────────────────────────────────────────
    def _parts(self, sources: dict[int, KnownSource]) -> Iterable[Inquiry]:
        """Ask for the sessions of sources, and for what is kept of their records."""

        def note_sessions(rows: list[Any]) -> None:
            for number, session in rows:
                sources[number].sessions.add(session)

        def note_records(rows: list[Any]) -> None:
            for number, first, count in rows:
                sources[number].records[first] = count

        def note_skips(rows: list[Any]) -> None:
            for number, offset, reason in rows:
                sources[number].skips.add((offset, reason))

        notes = {
            "session from streams": note_sessions,
            "first, count from records": note_records,
            '"offset", reason from skips': note_skips,
        }
        for what, note in notes.items():
            sql = f"select source, {what} where source in (select value from carray(?))"
            yield (sql, (self._db.ids(sources),)), note

    def _streams(self, known: Known, numbers: set[int]) -> Iterable[Inquiry]:
        """Ask for all that counts in the sessions that are there, in those of known sources, and in
        those that have the same events."""

        def note_sessions(rows: list[Any]) -> None:
            for number, uid, is_evicted, last_seq in rows:
                if number not in known.by_number:
                    session = KnownSession(number=number, uid=uid, next_segment=number << 20)
                    known.add_session(session)
                session = known.by_number[number]
                session.is_evicted, session.last_seq = bool(is_evicted), last_seq

        def note_streams(rows: list[Any]) -> None:
            for number, block, source, facts, tally, hash_, path, *file in rows:
                if number in known.by_number:
                    stream = Stream(block, source, facts, tally, hash_)
                    known.by_number[number].streams[block] = stream
                if path is not None:
                    size, missing_at, is_whole = file
                    known.files[source] = File(path, size, missing_at, bool(is_whole))

        these = self._db.ids(sorted(numbers))
        return [((_SESSIONS, (these,)), note_sessions), ((_STREAMS, (these,)), note_streams)]

    def _details(
        self,
        known: Known,
        batches: Sequence[Batch],
        numbers: Sequence[int],
        stored: Iterable[int],
    ) -> Iterable[Inquiry]:
        """Ask for the details of sessions that are added to, and of stored sources.

        These are segments, aliases of records without an event, and what an eviction has left.
        """

        def note_segments(rows: list[Any]) -> None:
            for number, first, id_ in rows:
                session = known.by_number[number]
                session.segments[first] = id_
                session.next_segment = max(session.next_segment, id_ + 1)

        def note_aliases(rows: list[Any]) -> None:
            known.aliases.update(((source, h), (number, seq)) for source, h, number, seq in rows)

        def note_cuts(rows: list[Any]) -> None:
            for number, source, is_missing, gone in rows:
                part = CutPart(source, bool(is_missing), bool(gone))
                known.by_number[number].cut.append(part)

        ids = self._db.ids
        sessions = [known.by_number[number] for number in numbers]
        sources = {stream.source for session in sessions for stream in session.streams.values()}
        sources |= {*stored}
        evicted = [session.number for session in sessions if session.is_evicted]
        hashes = {h for batch in batches for h in hashes_without_event(batch)}
        return [
            ((_SEGMENTS, (ids(numbers or [-1]),)), note_segments),
            ((_ALIASES, (ids(sources or {-1}), ids(hashes or {0}))), note_aliases),
            ((_CUTS, (ids(evicted or [-1]),)), note_cuts),
        ]

    def _reserve(self, known: Known, batches: Sequence[Batch]) -> None:
        """Get numbers for what is not there."""
        sources = dict.fromkeys(map(source_key, batches))
        deltas = {delta.session_uid: delta for batch in batches for delta in originals_first(batch)}
        self._ingest.reserve(
            known,
            [key for key in sources if key not in known.sources],
            [delta for uid, delta in deltas.items() if uid not in known.sessions],
        )


def _may_have_copies(delta: Delta, known: Known) -> bool:
    hashes = (*delta.natives, *(name for _, name in (*delta.originals, *delta.twins)))
    return any(h in known.natives for h in hashes) or bool(repeated(delta))


def _note_batches(known: Known, batches: Sequence[Batch]) -> None:
    for batch in batches:
        known.batches.add(key_of(batch))
        for delta in batch.deltas:
            known.sources_of.setdefault(delta.session_uid, set()).add(source_key(batch))


def _stored_sources(known: Known, batches: Sequence[Batch]) -> dict[int, KnownSource]:
    """Return the sources of these batches that the store has, by number."""
    sources = (known.sources.get(source_key(batch)) for batch in batches)
    return {source.number: source for source in sources if source and not source.is_new}


def _related_sessions(known: Known, sources: dict[int, KnownSource]) -> set[int]:
    """Return the sessions of known sources, and those that have the same events or calls."""
    numbers = {number for source in sources.values() for number in source.sessions}
    numbers |= {at.session for places in known.natives.values() for at in places}
    # Once it is merged with the ledger, a call may count for the session that has it.
    return numbers | {call.session for call in known.calls.values() if call is not None}
