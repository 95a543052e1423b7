"""The state of a database, as far as a put needs it: plain values, which grow as batches are
planned.

`Lookup` fills them with a few questions for a whole group of batches, and `planning.plan` notes in
them what it plans, so that the next batch of the group knows about it. Knows no database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from ..adapters import Facts
from ..model import BLOCK
from ..timeline import Tally
from .calls import hash_of
from .numbering import Renumbering
from .values import Batch, Delta, LedgerCall, Tail

SourceKey = tuple[str, str]
"""(agent, path)."""

Age = tuple[datetime, datetime, int]
"""The order of sessions with the same events, the original first: since when a session has been
written on its own, as far as that is known; the time that it reaches; and how many sessions it
comes from, one from another, where the agent says so. A session is never older than the one that
it comes from, so that this is an order for any number of sessions."""

MAX_ANCESTORS = 32

LATEST = datetime.max.replace(tzinfo=UTC)
"""Stands for a time that is not known."""


class Place(NamedTuple):
    """An event with a native id, and what copies ask of its row. Without `rest` it was evicted."""

    session: int
    seq: int
    flags: int
    rest: bytes | None


class Stream:
    """A block of numbers in a session, and what its source says of the session. Stored values are
    unpacked when somebody asks for them: most are not needed, and one may be damaged."""

    __slots__ = ("_facts", "_tally", "block", "hash", "source")

    def __init__(
        self, block: int, source: int, facts: Facts | bytes, tally: Tally | bytes, hash_: bytes
    ) -> None:
        self.block, self.source, self.hash = block, source, hash_
        self._facts, self._tally = facts, tally

    @classmethod
    def empty(cls, block: int, source: int) -> Stream:
        """Return a block without events."""
        return cls(block, source, Facts(native_session_id=""), Tally(), b"")

    @property
    def facts(self) -> Facts:
        if isinstance(self._facts, bytes):
            self._facts = msgspec.msgpack.decode(self._facts, type=Facts)
        return self._facts

    @property
    def tally(self) -> Tally:
        if isinstance(self._tally, bytes):
            self._tally = msgspec.msgpack.decode(self._tally, type=Tally)
        return self._tally

    @property
    def packed(self) -> tuple[bytes, bytes, bytes]:
        """Facts, tally and hash as they are stored."""
        facts, tally = self._facts, self._tally
        return (
            facts if isinstance(facts, bytes) else msgspec.msgpack.encode(facts),
            tally if isinstance(tally, bytes) else msgspec.msgpack.encode(tally),
            self.hash,
        )

    def fill(self, delta: Delta) -> None:
        """Update the block by a delta."""
        self._facts, self._tally, self.hash = delta.facts, delta.tally, delta.hash


class CutPart(NamedTuple):
    """A source of which an eviction has left only a few events in a session."""

    source: int
    is_missing: bool
    has_gone: bool
    """Some of these events are no longer in the source."""


class KnownSession(msgspec.Struct, kw_only=True):
    """A session, stored or just planned."""

    number: int
    uid: str
    is_evicted: bool = False
    cut: list[CutPart] = []
    """The parts that are missing of a session that was evicted."""
    last_seq: int = -1
    streams: dict[int, Stream] = msgspec.field(default_factory=dict)
    """By block, in order."""
    segments: dict[int, int] = msgspec.field(default_factory=dict)
    """Ids, by the number of their first event."""
    next_segment: int = 0

    @property
    def declared_parent(self) -> str | None:
        """The session from which this one comes, where the agent says so."""
        facts = (stream.facts for stream in self.streams.values())
        return next((each.parent_uid for each in facts if each.parent_uid is not None), None)

    def parts(self, but: int | None = None) -> list[tuple[Facts, Tally]]:
        """The facts and totals of what counts in the session, without those of one source."""
        return [
            (stream.facts, stream.tally)
            for stream in self.streams.values()
            if stream.hash and stream.source != but
        ]

    def add_block(self, source: int) -> Stream:
        block = max(self.streams, default=-1) + 1
        stream = self.streams[block] = Stream.empty(block, source)
        return stream

    def of_source(self, source: int) -> list[Stream]:
        """The blocks of a source."""
        return [stream for stream in self.streams.values() if stream.source == source]

    def ranks(self, but: int) -> dict[int, int]:
        """The ranks of the other sources with events that count: see `Facts.rank`."""
        return {
            stream.source: rank
            for stream in self.streams.values()
            if stream.source != but
            and (rank := stream.facts.rank) is not None
            and stream.tally.events
        }

    def last_reading(self, source: int) -> list[int]:
        """The blocks in which the last reading of a source numbered its events."""
        streams = self.of_source(source)
        # A block that was added because the one before was full has no hash of its own.
        first = len(streams) - 1
        while first > 0 and not streams[first].hash:
            first -= 1
        return [stream.block for stream in streams[max(first, 0) :]]

    def add_segment(self, first: int) -> tuple[int, bool]:
        """The id of the segment that begins with an event, and whether there was one before."""
        is_old = first in self.segments
        if not is_old:
            self.segments[first] = self.next_segment
            self.next_segment += 1
        return self.segments[first], is_old


class KnownSource(msgspec.Struct, kw_only=True):
    """A source that is about to be put."""

    number: int
    is_new: bool = True
    offset: int = 0
    merged: dict[str, int] = msgspec.field(default_factory=dict)
    records: dict[int, int] = msgspec.field(default_factory=dict)
    """Counts of stored records, by the number of the first."""
    skips: set[tuple[int, str]] = msgspec.field(default_factory=set)
    sessions: set[int] = msgspec.field(default_factory=set)
    """Those that have a block of it."""

    def has_records_before(self, first: int) -> bool:
        """Return True if the record before this one is stored. Without it, as when it has left,
        nothing could be derived from what follows."""
        before = max((start for start in self.records if start <= first), default=None)
        return not first or (before is not None and before + self.records[before] >= first)


class File(NamedTuple):
    """The facts about a source that its sessions show."""

    path: str
    size: int
    missing_at: str | None
    is_whole: bool = True
    """All of its records are stored, if it is missing."""


class KnownCall(NamedTuple):
    """A call of the ledger. Without `kept` it was changed, and the database has to be asked for
    it."""

    kept: LedgerCall | None
    session: int
    uid: str
    seq: int


class Known:
    """The state of a database, as far as some batches need it."""

    def __init__(
        self,
        *,
        unread: set[int] | None = None,
        renumberings: dict[int, Renumbering] | None = None,
    ) -> None:
        self.pending: dict[tuple[object, ...], Batch] = {}
        """The batches of a group that are still to be put, by key."""
        self.sources_of: dict[str, set[SourceKey]] = {}
        """The sources that tell of a session."""
        self.unread = unread if unread is not None else set()
        """Sessions of a source that is read anew which this reading has not come to yet."""
        self.renumberings = renumberings if renumberings is not None else {}
        """By number, sessions that are being derived again."""
        self.forget()

    def forget(self) -> None:
        """Forget what the database has: something else than a plan has changed it."""
        self.batches: set[tuple[object, ...]] = set()
        """The keys of the batches that this is about."""
        self.tombstones: set[str] = set()
        self.sources: dict[SourceKey, KnownSource] = {}
        self.files: dict[int, File] = {}
        """By number of a source."""
        self.sessions: dict[str, KnownSession] = {}
        self.by_number: dict[int, KnownSession] = {}
        self.new_numbers: dict[str, int] = {}
        """Numbers for sessions that are not there, by uid."""
        self.natives: dict[int, tuple[Place, ...]] = {}
        """Events by the hash of their native id."""
        self.cited: dict[tuple[int, int], Place] = {}
        """Events that copies among those refer to, by session and number."""
        self.aliases: dict[tuple[int, int], tuple[int, int]] = {}
        """(session, seq) of the event that is meant by (source, hash of a record without one)."""
        self.calls: dict[int, KnownCall | None] = {}
        """By hash; None for one that is not there."""
        self.tails: dict[tuple[int, int], Tail | None] = {}
        """By session and source, where some of what follows is a copy."""
        self.foreign: set[str] = set()
        """Uids by which other authors mean a session of their own."""

    def add_session(self, session: KnownSession) -> None:
        self.sessions[session.uid] = self.by_number[session.number] = session

    def place_in(self, session: int, h: int) -> int | None:
        """The number of the event with a native id in a session."""
        return next((at.seq for at in self.natives.get(h, ()) if at.session == session), None)

    def cited_place(self, origin: str) -> Place | None:
        """The event that a copy refers to, if it is known."""
        uid, _, seq = origin.rpartition("#")
        session = self.sessions.get(uid)
        return self.cited.get((session.number, int(seq))) if session is not None else None

    def seq_of(self, session: KnownSession, h: int) -> int | None:
        """Return the number of the event with a native id. A record without an event stands for
        the event it follows."""
        seq = self.place_in(session.number, h)
        if seq is not None:
            return seq
        for source in {stream.source for stream in session.streams.values()}:
            number, seq = self.aliases.get((source, h), (None, None))
            if number == session.number:
                return seq
        return None

    def age(self, session: KnownSession) -> Age:
        """Return the age of a session, with those that it comes from."""
        return self.age_below(session.declared_parent, age_of(session.parts()))

    def age_below(self, parent: str | None, own: Age) -> Age:
        """Return the age of a session with this age of its own that comes from another one."""
        since, reached, _ = own
        ancestors = list[str]()
        while parent is not None and parent not in ancestors and len(ancestors) < MAX_ANCESTORS:
            ancestors.append(parent)
            session = self.sessions.get(parent)
            if session is None:
                break
            since, reached, _ = max((since, reached, 0), age_of(session.parts()))
            parent = session.declared_parent
        return since, reached, len(ancestors)

    def can_be_derived_again(self, session: KnownSession) -> bool:
        """Return True unless a source of the session is gone, and with it some of its records."""
        counted = {stream.source for stream in session.streams.values() if stream.hash}
        files = [file for source in counted if (file := self.files.get(source))]
        return all(file.missing_at is None or file.is_whole for file in files)


def age_of(parts: Iterable[tuple[Facts, Tally]]) -> Age:
    """Return the age of a session by itself, from the facts and totals of its streams.

    A copy is written later than its original, and goes on where that ended. So the session is the
    original that was written on its own first, or else the one that ends first.
    """
    parts = list(parts)
    starts = [facts.own_since for facts, _ in parts if facts.own_since is not None]
    ends = [end for _, tally in parts if (end := tally.reached_at) is not None]
    reached = max(ends, default=LATEST)
    return min(starts, default=reached), reached, 0


def key_of(batch: Batch) -> tuple[object, ...]:
    """Return a key that tells batches apart which are put together."""
    uids = (delta.session_uid for delta in batch.deltas)
    return batch.source.agent, batch.source.path, batch.since, *uids


def source_key(batch: Batch) -> SourceKey:
    return batch.source.agent, batch.source.path


def originals_first(batch: Batch) -> list[Delta]:
    """Return the deltas in the order in which they are put: a session before those from it."""
    return sorted(batch.deltas, key=lambda delta: delta.facts.parent_uid is not None)


def uids_of(batch: Batch) -> Iterator[str]:
    """Return the sessions of a batch, their parents, and the sessions of its calls."""
    for delta in batch.deltas:
        yield delta.session_uid
        if delta.facts.parent_uid:
            yield delta.facts.parent_uid
    for kept in batch.calls:
        yield kept.call.session_uid


def hashes_of(batch: Batch) -> Iterator[int]:
    """The hashes of the native ids that a batch has, copies, or refers to."""
    for delta in batch.deltas:
        yield from delta.natives
        yield from (original for _, original in delta.originals)
        yield from (twin for _, twin in delta.twins)
        yield from (parent for _, parent in delta.links)
    yield from (target for _, target in batch.aliases)
    yield from (kept.event for kept in batch.calls)


def hashes_without_event(batch: Batch) -> Iterator[int]:
    """Return the hashes by which a batch may refer to a record without an event."""
    for pair in batch.aliases:
        yield from pair
    yield from (kept.event for kept in batch.calls)
    yield from (parent for delta in batch.deltas for _, parent in delta.links)


def calls_of(batch: Batch) -> Iterator[int]:
    """The hashes of its calls."""
    return (hash_of(kept.call) for kept in batch.calls)


def block_of(seq: int) -> int:
    return seq // BLOCK
