"""The values that a store is given and returns.

One protocol, one contract suite over every database that speaks it. The store keeps and links; it
does not know what an agent's records mean, and it decides nothing about ranking or rendering.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..adapters import Facts, Position, Skip, Source
from ..model import Call, Digest
from ..timeline import Tally

if TYPE_CHECKING:
    pass


Words = list[tuple[bytes | None, bytes | None, bytes | None]]
"""The words of a segment's prompts, replies and tools, each once, as binary tsvectors: the rows of
PostgreSQL's table `search`."""
CutWords = tuple[Words, bytes]
"""The same, and all words in order, packed."""


class Segment(msgspec.Struct, kw_only=True):
    """The bodies of consecutive events, packed, with the words to find them by."""

    first_seq: int
    last_seq: int
    length: int
    hash: bytes
    body: bytes
    prompt: bytes
    reply: bytes
    tool: bytes
    cut: CutWords | None = None
    """The words as a store that `takes_cut_words` keeps them, in place of the texts."""


class Tail(msgspec.Struct, kw_only=True):
    """The last segment of a stream while there is room in it: the next events are added to it."""

    first_seq: int
    last_seq: int
    data: bytes
    events: list[tuple[str, str | None, int, int, int]]
    """Of each body in it: the event's kind, tool and flags, and its offset and length."""


class StreamState(msgspec.Struct, kw_only=True):
    """Where a stream stands: what the next read of its source goes on from."""

    block: int
    facts: Facts
    tally: Tally
    hash: bytes
    tail: Tail | None = None


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
    """Whether something of what was read from it has been evicted: it cannot be gone on with, only
    derived again."""


class Resume(msgspec.Struct, kw_only=True):
    """What the next read of a source goes on from."""

    carry: bytes | None = None
    streams: dict[str, StreamState] = msgspec.field(default_factory=dict)


FORGOTTEN = "forgotten"
"""The problem of a source that holds nothing but what was forgotten: it is not read again."""

DAMAGED = 0
"""The adapter version of a source whose stored events are to be derived again, whatever made
them."""

STALE_COPIES = -1
"""The adapter version of a source with events that have turned out to be copies: derived again,
they refer to the originals."""

Row = tuple[Any, ...]
"""An event as it is stored, without its session: see `rows.ROW`. Tuples, because there are
millions of them."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of one stream, as they are stored (None: they cannot be read) and as its events
    give them."""

    blocks: list[int]
    """Those that have the totals: the last of them, where there are several, all."""
    source: int
    stored: Tally | None
    made: Tally
    is_ordered: bool = True
    """False when numbers do not follow the order of the source, as after a newer adapter found more
    events, or when something that was copied is forgotten: then what depends on the order, or on
    the words, cannot be known."""

    @property
    def differences(self) -> dict[str, tuple[Any, Any]]:
        """By name what is stored and what it should be, of all that can be known from the
        events."""
        names = ["events", "copies", "errors", "turns", "usage", "started_at", "ended_at", "kinds"]
        if self.is_ordered:
            names += ["retries", "wall_clock_s", "first_prompt"]
        both = {
            name: (getattr(self.stored, name, None), getattr(self.made, name)) for name in names
        }
        return {name: (old, new) for name, (old, new) in both.items() if old != new}

    @property
    def better(self) -> Tally:
        """The totals as they should be."""
        if self.stored is None:
            return self.made
        return msgspec.structs.replace(
            self.stored, **{name: new for name, (_, new) in self.differences.items()}
        )


class Delta(msgspec.Struct, kw_only=True):
    """What a batch adds to one session. Sequence numbers count within the stream; the store adds
    the block."""

    session_uid: str
    facts: Facts
    tally: Tally
    hash: bytes
    rows: list[Row]
    segments: list[Segment]
    natives: list[int]
    """Of each row, the hash of its native id; 0 when it has none."""
    links: list[tuple[int, int]]
    """(row, hash of the parent's native id), for parents that are not in this batch."""
    originals: list[tuple[int, int]]
    """(row, hash of the native id it is a copy of, as the agent says)."""
    digest: Digest | None = None
    """Of all that the session is, if this is all of it and nothing in it turns out to be a copy."""


class PriceRow(msgspec.Struct, frozen=True, gc=False):
    """What one call cost, in 1e-12 USD, and how that is known."""

    hash: int
    usd: int
    basis: str
    source: str | None
    since: str | None
    match: str
    name: str | None
    above: int | None
    notes: str | None


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A call in the ledger: the copy that counts, and those that do not."""

    call: Call
    superseded: tuple[Call, ...] = ()
    event: int = 0
    """The hash of the native id of the event where it was made; 0 when that is not known, or was
    said before."""
    price: PriceRow | None = None
    """What it cost, when that is known already."""


class Batch(msgspec.Struct, kw_only=True):
    """A part of one source, read, normalized, redacted and packed: one `put`, one step of its
    position."""

    source: Source
    since: int
    """The offset at which this batch begins; 0 is the beginning of the source."""
    position: Position
    carry: bytes
    adapter_version: int
    redact_version: str
    deltas: list[Delta]
    aliases: list[tuple[int, int]]
    """Records without an event, in order: the hash of their native id, and of that of the event
    that they follow."""
    records: list[tuple[int, int, int, bytes]]
    """Native records: (first, count, length, packed)."""
    merged: dict[str, int]
    skips: list[Skip]
    size: int
    """How many bytes of the source this is."""
    is_gone: bool = False
    """The records came out of the store: the source itself is still missing."""
    calls: list[Kept] = []
    """For the ledger: as the source has them, and once they are settled as they are to be kept."""


class Billed(msgspec.Struct, frozen=True, kw_only=True):
    """A call with what it cost: None as long as it is not priced."""

    kept: Kept
    price: PriceRow | None = None
    old_usd: int | None = None
    """What it was first counted with, when it was priced again since."""


class Put(msgspec.Struct, kw_only=True):
    """What a `put` did."""

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
    """An event as a search sees it: what filters ask for, and where its body is in the segment."""

    seq: int
    kind: str
    ts: str | None
    tool: str | None
    is_error: bool
    files: tuple[str, ...]
    offset: int
    length: int


class Taken(msgspec.Struct, kw_only=True):
    """A session as another store has it, to be taken over: rows without the number that it has
    there."""

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
    """One error of one session. `fixed_seq` is None when it never went away."""

    uid: str
    agent: str
    repo: str | None
    fingerprint: str
    kind: str
    name: str
    template: str
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
    """What a session takes up, and what is to be known before it may leave."""

    uid: str
    parent_uid: str | None
    title: str | None
    ended_at: str | None
    events: int
    is_pinned: bool
    is_covered: bool
    """Whether its digest covers all that is stored of it."""
    is_evicted: bool
    """Whether nothing is there any more that could leave."""
    is_shown_elsewhere: bool
    """Whether a session that has not been evicted refers to what happened here: its text would go
    as well."""
    body_bytes: int
    """What its bodies take, packed."""


class Bulk(msgspec.Struct, frozen=True, gc=False):
    """The native records that are kept of a source, packed, and the sessions that they are of."""

    source: int
    path: str
    size: int
    uids: tuple[str, ...]


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """What people say of a session."""

    pinned: bool = False
    name: str | None = None
    tags: tuple[str, ...] = ()
    note: str | None = None


class StoreState(NamedTuple):
    """How much is stored, and when it last changed."""

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
    """How much is stored of an agent."""

    sources: int
    source_bytes: int
    sessions: int


class LastSession(NamedTuple):
    """The last session of a repository or a folder."""

    uid: str
    title: str | None
    ended_at: str | None
    outcome: str
