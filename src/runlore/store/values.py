"""The values that a store is given and returns. See `contracts.py` for its methods."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from ..adapters import Facts, Position, Skip, Source
from ..model import Call, Digest, Outcome
from ..timeline import Tally

Words = list[tuple[bytes | None, bytes | None, bytes | None]]
"""The rows of a segment in PostgreSQL's table `search`: the words of its prompts, replies and
tools, each once, as binary tsvectors."""
SegmentTokens = tuple[Words, bytes]
"""The words as above, and all words in their order, packed."""


class Segment(msgspec.Struct, kw_only=True):
    """The packed bodies of consecutive events, and the texts to index them by."""

    first_seq: int
    last_seq: int
    length: int
    hash: bytes
    body: bytes
    prompt: bytes
    reply: bytes
    tool: bytes
    tokens: SegmentTokens | None = None
    """The words, in place of the texts, for a store that `takes_tokens`."""


PackedSegment = tuple[int, int, bytes]
"""The id of a segment, the length of its bodies, and the bodies compressed."""


class Tail(msgspec.Struct, kw_only=True):
    """The last segment of a stream while it is not full. The next events are added to it."""

    first_seq: int
    last_seq: int
    data: bytes
    events: list[tuple[str, str | None, int, int, int]]
    """For each body (kind, tool and flags of its event, offset, length)."""


class StreamState(msgspec.Struct, kw_only=True):
    """The state of a stream, from which the next read of its source continues."""

    block: int
    facts: Facts
    tally: Tally
    hash: bytes
    tail: Tail | None = None


MAX_AGES = 2
"""Nanoseconds that ageing adds to the time of a source at most: see `Adapter.aged`."""


class SourceState(msgspec.Struct, kw_only=True):
    """A source as it was when it was last read."""

    number: int
    source: Source
    position: Position
    adapter_version: int
    redact_version: str
    missing_at: str | None = None
    problem: str | None = None
    is_evicted: bool = False
    """True if some of its events were evicted. The next read cannot continue it, only derive it
    again as a whole."""

    def is_same(self, source: Source) -> bool:
        """Return True if the source is as it was when it was read, or is only older and was read to
        its end."""
        old = self.source
        return (source.size, source.mtime_ns, source.inode) == (
            old.size,
            old.mtime_ns,
            old.inode,
        ) or (self.position.offset == source.size and self.is_older(source))

    def is_older(self, source: Source) -> bool:
        """Return True if nothing has changed but the age of the source (`Adapter.aged`)."""
        old, age = self.source, source.mtime_ns - self.source.mtime_ns
        return 0 < age <= MAX_AGES and (source.size, source.inode) == (old.size, old.inode)


class Resume(msgspec.Struct, kw_only=True):
    """The state from which the next read of a source continues."""

    carry: bytes | None = None
    streams: dict[str, StreamState] = msgspec.field(default_factory=dict)


FORGOTTEN = "forgotten"
"""The problem of a source with forgotten sessions only. It is not read again."""

DAMAGED = 0
"""The adapter version of a source whose stored events are to be derived again, whatever version
wrote them."""

STALE_COPIES = -1
"""The adapter version of a source with events that have turned out to be copies. It is derived
again, so that they refer to the originals."""

Row = tuple[Any, ...]
"""A row of a table. For an event, the columns of `rows.ROW`, without its session."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of one stream: as stored, and as computed from its events."""

    blocks: list[int]
    """The blocks that have totals. If there are several, the last one gets the totals of all."""
    source: int
    stored: Tally | None
    """None if they cannot be read."""
    made: Tally
    is_ordered: bool = True
    """False if the numbers do not follow the order of the source, as after a newer adapter found
    more events, or if the original of a copy was forgotten. Totals that depend on the order or on
    the text cannot be checked then."""

    @property
    def differences(self) -> dict[str, tuple[Any, Any]]:
        """The stored and the right value by name, for totals that can be checked and are wrong."""
        names = ["events", "copies", "errors", "turns", "usage", "started_at", "ended_at", "kinds"]
        names.append("copied_until")
        if self.is_ordered:
            names += ["retries", "wall_clock_s", "first_prompt", "origins"]
        both = {
            name: (getattr(self.stored, name, None), getattr(self.made, name)) for name in names
        }
        return {name: (old, new) for name, (old, new) in both.items() if old != new}

    @property
    def better(self) -> Tally:
        """The right totals."""
        if self.stored is None:
            return self.made
        return msgspec.structs.replace(
            self.stored, **{name: new for name, (_, new) in self.differences.items()}
        )


class SessionPlace(msgspec.Struct, kw_only=True):
    """The folder, repository and machine that a session was run in."""

    number: int
    cwd: str | None
    repo: str | None
    """The name of its repository as it is stored."""
    recorded: str | None = None
    linked: str | None = None
    """The repositories that its sources name: see `Facts`."""
    machine: str | None = None
    """The machine that it was run on; None for this one."""


class Delta(msgspec.Struct, kw_only=True):
    """The events that a batch adds to one session.

    Sequence numbers count within the stream; the store adds the block.
    """

    session_uid: str
    facts: Facts
    tally: Tally
    hash: bytes
    rows: list[Row]
    segments: list[Segment]
    natives: list[int]
    """For each row the hash of its native id; 0 if it has none."""
    links: list[tuple[int, int]]
    """(row, hash of the parent's native id) for parents that are not in this batch."""
    originals: list[tuple[int, int]]
    """(row, hash of the original's native id) for rows that the agent says are copies."""
    has_place: bool = True
    """The batch tells where the session was run, and that was not known."""
    twins: list[tuple[int, int]] = []
    """(row, hash of a name for what it says) for rows that may be in another session under another
    native id."""
    digest: Digest | None = None
    """The digest of the session, valid if the delta is the whole session and has no copies."""


class PriceRow(msgspec.Struct, frozen=True, gc=False):
    """The price of one call in 1e-12 USD, and how it was determined."""

    hash: int
    usd: int
    basis: str
    source: str | None
    since: str | None
    match: str
    name: str | None
    above: int | None
    notes: str | None


class LedgerCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call in the ledger: the copy that counts, and the superseded copies."""

    call: Call
    superseded: tuple[Call, ...] = ()
    is_composed: bool = False
    """True if `call` is made of two copies, which are the first of `superseded`."""
    event: int = 0
    """The hash of the native id of its event; 0 if that is not known or was stored before."""
    price: PriceRow | None = None
    """The price, if it is known already."""


class Batch(msgspec.Struct, kw_only=True):
    """A part of one source, read, normalized, redacted and packed.

    One `put` stores it and moves the position of the source.
    """

    source: Source
    since: int
    """The offset at which this batch begins; 0 is the beginning of the source."""
    position: Position
    carry: bytes
    adapter_version: int
    redact_version: str
    deltas: list[Delta]
    aliases: list[tuple[int, int]]
    """Records without an event, in order: (hash of the native id, hash of the native id of the
    event before it)."""
    records: list[tuple[int, int, int, bytes]]
    """Chunks of native records: (first, count, length, packed)."""
    merged: dict[str, int]
    skips: list[Skip]
    size: int
    """The number of bytes of the source in this batch."""
    is_gone: bool = False
    """True if the records came from the store, because the source itself is missing."""
    calls: list[LedgerCall] = []
    """Calls for the ledger: as the source has them, later as merged with the ledger."""


class Billed(msgspec.Struct, frozen=True, kw_only=True):
    """A call with its price, which is None as long as there is none."""

    kept: LedgerCall
    price: PriceRow | None = None
    old_usd: int | None = None
    """The first price, if the call was priced again since."""


class Put(msgspec.Struct, kw_only=True):
    """The result of a `put`."""

    sessions: set[str]
    events: int = 0
    copies: int = 0
    forgotten: int = 0
    digests: int = 0
    """Digests that came with the batch and were stored."""
    to_rederive: int = 0
    """Parts of other sources that are to be derived again: they have turned out to be copies of
    what this batch brought, or belong to a session that comes back with it."""


class SegmentEvent(msgspec.Struct, frozen=True, gc=False):
    """An event as a search needs it: the fields of filters, and the place of its body."""

    seq: int
    kind: str
    ts: str | None
    tool: str | None
    is_error: bool
    files: tuple[str, ...]
    offset: int
    length: int
    is_injected: bool = False
    """True for text that the agent's program added by itself."""


class TransferredSession(msgspec.Struct, kw_only=True):
    """A session of another store: its rows, without the number that it has there."""

    session: dict[str, Any]
    streams: list[Row]
    """(block, number of the source here, facts, tally, hash)."""
    events: list[Row]
    segments: list[Row]
    """(first_seq, last_seq, length, hash, body)."""
    natives: list[Row]
    """(hash, seq)."""
    calls: list[dict[str, Any]]
    digest: Row | None = None
    """(version, last_seq, content_hash, made_at, length, hash, body)."""
    errors: list[Row] = []
    """See `digest_rows.ERROR`."""


class SessionError(msgspec.Struct, frozen=True, gc=False):
    """One error of one session. `fixed_seq` is None if it was not fixed."""

    uid: str
    agent: str
    repo: str | None
    fingerprint: str
    kind: str
    name: str
    template: str
    sample: str
    count: int
    first_seq: int
    last_seq: int
    first_at: str | None
    last_at: str | None
    tool: str | None
    fixed_seq: int | None
    how: str | None
    confidence: float


class Weight(msgspec.Struct, frozen=True, gc=False):
    """The size of a session, and what decides whether it may be evicted."""

    uid: str
    parent_uid: str | None
    title: str | None
    ended_at: str | None
    events: int
    is_pinned: bool
    is_covered: bool
    """True if its digest covers all that is stored of it."""
    is_evicted: bool
    """True if nothing is left to evict."""
    is_shown_elsewhere: bool
    """True if a session that is not evicted has copies of events of this one. They would lose their
    text as well."""
    body_bytes: int
    """The packed size of its bodies."""


class Bulk(msgspec.Struct, frozen=True, gc=False):
    """The packed native records of a source, and the sessions that they belong to."""

    source: int
    path: str
    size: int
    uids: tuple[str, ...]


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a session together with all subagents below it."""

    subagents: int = 0
    errors: int = 0
    tokens: int = 0
    usd: float | None = None
    """None if no price is known."""
    unpriced: int = 0
    """The number of calls whose price is not known."""
    own_unpriced: int = 0
    """Those of the session alone."""


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """Marks that people set on a session."""

    pinned: bool = False
    name: str | None = None
    tags: tuple[str, ...] = ()
    note: str | None = None
    outcome: Outcome | None = None
    """How it ended, as a person says; None leaves it to the evidence."""


class CommittedSession(NamedTuple):
    """A session that made commits, and what git said of them."""

    uid: str
    cwd: str
    branch: str | None
    started_at: str | None
    state: str
    """open, merged, reverted."""
    note: str | None


class StoreState(NamedTuple):
    """The size of the store, and when it last changed."""

    sessions: int
    events: int
    usd: float | None
    ended_at: str | None
    analyzed_at: str | None


class Hour(NamedTuple):
    """The sessions that were started in an hour, without subagents."""

    start: datetime
    sessions: int
    turns: int
    errors: int


class AgentTotals(NamedTuple):
    """The amount that is stored of an agent."""

    sources: int
    source_bytes: int
    sessions: int


class LastSession(NamedTuple):
    """The last session of a repository or a folder."""

    uid: str
    title: str | None
    ended_at: str | None
    outcome: str
