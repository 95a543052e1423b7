"""What a database must answer, and the values it is given.

One protocol, one contract suite over every database that speaks it. The store keeps and links; it
does not know what an agent's records mean, and it decides nothing about ranking or rendering.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from ..adapters import Facts, Position, Record, Skip, Source
from ..model import Call, Digest, Session, SessionEvent
from ..timeline import Tally
from .asked import CallFilter, CallSum, Filter
from .digests import Digests
from .line import SessionLine as SessionLine
from .proving import Provable
from .retention import Retention

if TYPE_CHECKING:
    from .pieces import Cleaner


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

OVERTAKEN = -1
"""The adapter version of a source with events that have turned out to be copies: derived again,
they refer to the originals."""

Row = tuple[Any, ...]
"""An event as it is stored, without its session: see `pieces.ROW`. Tuples, because there are
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


class Piece(msgspec.Struct, kw_only=True):
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
    pieces: list[Piece]
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
    overtaken: int = 0
    """Sessions that have turned out to hold copies of what this batch brought: they are to be
    derived again."""


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


class Store(Digests, Provable, Retention, Protocol):
    """What runlore asks of a database. Every write is one transaction; a reader never waits for a
    writer."""

    url: str
    """Where it is, without a password."""
    machine: str | None
    """What sessions are said to come from whose source names no machine; None where only one
    writes."""
    takes_cut_words: bool
    """Whether the words of segments are better cut before they are put, by whoever packs them."""
    takes_groups: bool
    """Whether several sources are better put together, and in transactions that are closed by time
    alone: where the database is far away, asking costs more than the answer, and what a transaction
    has put itself it need not ask."""

    # ── reading ───────────────────────────────────────────────────────────────────────────────────
    def session(self, uid: str) -> Session | None:
        """The session of exactly this uid."""

    def find(self, name: str, limit: int = 10) -> list[str]:
        """The uids that a person may mean by `name`: the uid, its native id, or a beginning of
        either. Newest first."""

    def sessions(
        self, chosen: Filter, *, sort: str = "ended", limit: int | None = None, offset: int = 0
    ) -> list[SessionLine]:
        """Sessions, newest first, or by `started`, `events`, `errors`, `tokens`, `duration`,
        `cost`."""

    def uids(self, chosen: Filter, *, limit: int | None = None) -> list[str]:
        """The uids that the filter chooses, in no order; with a limit so many of them, the newest
        first."""

    def labels(self, uids: Sequence[str]) -> dict[str, tuple[str, str | None, str | None]]:
        """How people know these sessions: by uid the agent, the title and the repository."""

    def count(self, chosen: Filter) -> int:
        """How many sessions the filter chooses."""

    def events(self, uid: str, first: int = 0, last: int | None = None) -> list[SessionEvent]:
        """The events of a session in order; those copied from elsewhere have an `origin` and no
        `payload_ref`."""

    def outline(self, uid: str) -> list[SessionEvent]:
        """The same events in a third of the time: of each its kind, its place, its call, and
        whether it is an error; of prompts, attempts and failures also tool, summary, files and
        origin. A kind of a newer version is `lifecycle`."""

    def bodies(self, uid: str, first: int = 0, last: int | None = None) -> dict[int, str]:
        """The bodies of a session's events by seq, copies followed to where they happened."""

    def record_of(self, uid: str, seq: int) -> tuple[str, int] | None:
        """The source of an event and the number of its native record there, when it has one."""

    def records(
        self, source_path: str, first: int = 0, last: int | None = None
    ) -> Iterator[tuple[int, int, bytes]]:
        """(number, offset, bytes) of the native records kept of a source, in order."""

    def postings(self, term: str, *, prefix: bool = False, column: str | None = None) -> list[int]:
        """The id of every segment that has this word or phrase, ascending. An id is session number
        << 20 | segment number. Columns are `prompt`, `reply` and `tool`; `said` is the first two.
        Of a phrase of very common words, old segments may be among them that only have its
        words."""

    def segment(self, id: int, *, files: bool = True) -> tuple[bytes, list[SegmentEvent]] | None:
        """The bodies of a segment in one piece, and its events with where theirs are; None when
        there is no such segment. Without `files` those of the events are left out, which is twice
        as fast."""

    def segments(
        self, ids: Sequence[int], *, files: bool = True
    ) -> dict[int, tuple[bytes, list[SegmentEvent]]]:
        """Several at once, without those that are not there or are damaged. Where the database is
        far away, so much faster."""

    def segment_count(self) -> int:
        """About how many segments there are."""

    def sizes(self) -> dict[int, int]:
        """How many segments each session has, by its number. Not to be changed: it is kept until
        the store is written to."""

    def scan(self, numbers: Sequence[int], test: Callable[[bytes], bool]) -> Iterator[int]:
        """The ids of the segments of these sessions, in this order, whose bodies in one piece pass
        the test. Threads unpack and test ahead of the caller."""

    def numbers(self, chosen: Filter) -> set[int]:
        """The numbers of the sessions that the filter chooses."""

    def lines(self, numbers: Sequence[int]) -> dict[int, SessionLine]:
        """Sessions by number."""

    def newest(self, numbers: Sequence[int], *, by: str = "ended") -> list[int]:
        """The same numbers, the session that ended (`by="started"`: started) last first, those at
        the same time by uid."""

    def sources(self, agent: str | None = None) -> dict[str, SourceState]:
        """Every known source by path. Without an agent, of two that have one at the same path it is
        one of them."""

    def all_sources(self) -> list[SourceState]:
        """Every known source of every agent."""

    def unsettled(self) -> Iterator[list[SourceState]]:
        """Sources with copies whose originals another machine stored, and of which all records are
        kept, to be derived again: those of one machine at a time, for which the store acts until
        the next are asked for."""

    def resume(self, source: int) -> Resume:
        """Where the reading of a source left off: the carry, and the stream of each session that it
        has a part in."""

    def kept(self, source: int) -> Iterator[Record]:
        """The native records kept of a source, as its adapter would read them."""

    def kept_count(self, source: int) -> int:
        """How many native records of a source are kept."""

    def skips(self, source_path: str | None = None) -> list[tuple[str, int, str]]:
        """(path, offset, reason) of what could not be understood."""

    def tombstones(self) -> set[str]:
        """The uids that were forgotten."""

    def stats(self) -> dict[str, Any]:
        """Counts and sizes, for people and for tests."""

    # ── the ledger ────────────────────────────────────────────────────────────────────────────────
    def sum_calls(
        self, by: Sequence[str], chosen: CallFilter, offsets: Sequence[tuple[int, int]] = ()
    ) -> list[CallSum]:
        """Sums over calls, one for each combination of what `by` names, in no order: `agent`,
        `branch`, `day`, `hour`, `machine`, `model`, `project` (repository or folder), `session`
        (with its subagents), `subagent` (its uid, `sidechain` or `main`), `price_match`,
        `price_name`, `price_notes`, `waste` (the flags of `asked.MARKS`; None in sessions of which
        they are not known). Nothing named is one sum over all, when there is any call.

        A day is the ordinal of a local date: `offsets` are (from when on in seconds since 1970,
        seconds to add to UTC), the earliest first and valid before as well. An hour is counted in
        UTC from 1970. Both are None for a call without a time.
        """

    def gaps(self, agent: str | None) -> tuple[int, list[tuple[str, int, int]]]:
        """How many sessions have calls; and those whose events tell of another number of tokens
        than their calls, with both numbers, in no order. All with their subagents; a session whose
        events tell of none is not among them."""

    def call_times(self) -> tuple[str, str] | None:
        """The times of the first and of the last call that have one."""

    def billed(
        self, uid: str, last: int | None = None, at: Sequence[int] | None = None
    ) -> list[Billed]:
        """The calls that count for exactly this session, in the order of time: all, those at some
        events, or the last so many."""

    def asked_again(self, uid: str) -> list[Kept]:
        """Of the same calls, in any order, at least all of which a copy was made under another
        request id."""

    def spent(self, uid: str) -> list[tuple[int, int, int | None]]:
        """Of the same calls, in any order, only seq, tokens, and the price in 1e-12 USD where there
        is one: in a tenth of the time."""

    def copied_calls(self, uid: str) -> list[Billed]:
        """Calls that count for another session, and of which this one has a copy."""

    def wasteful(self, chosen: CallFilter) -> tuple[int, list[str]]:
        """In how many sessions calls are marked as having led nowhere; and the uids of those of
        which it is not known, in order: they have no digest, or one of other events than are stored
        now."""

    # ── writing ───────────────────────────────────────────────────────────────────────────────────
    def sync_lock(self) -> AbstractContextManager[None]:
        """Held by the one sync that may run. Raises StoreBusy; let go by the system when its
        process dies."""

    def transaction(self) -> AbstractContextManager[None]:
        """Everything inside is kept, or nothing is. May be nested."""

    def together(self, batches: Sequence[Batch]) -> AbstractContextManager[None]:
        """Held while these are put: what must be known for that may then be asked, and what is new
        be written, for all of them at once. What the database does not take of it is said at the
        end."""

    def put(self, batch: Batch) -> Put:
        """Keeps a batch, links it, and moves its source's position, all at once. Putting it twice
        changes nothing."""

    def rewrite(self, source: int, batches: Iterable[Batch]) -> Put:
        """A source that was written anew: what is new in it is added, what is gone from it stays
        and is marked."""

    def rederive(self, source: int, batches: Iterable[Batch]) -> Put:
        """The same source read by a newer adapter: its events are replaced. A native id that was
        known keeps its number; the others get numbers that were never used."""

    def touch(
        self,
        source: Source,
        *,
        adapter_version: int,
        redact_version: str,
        problem: str | None = None,
    ) -> None:
        """Notes that a source was seen, without reading anything from it."""

    def move_source(self, number: int, source: Source) -> None:
        """The same file at another path."""

    def miss_sources(self, numbers: Sequence[int], when: datetime) -> None:
        """These are no longer where they were. Their sessions stay."""

    def calls(self, hashes: Sequence[int]) -> list[Kept]:
        """The calls of these hashes that the ledger has."""

    def unpriced(self, limit: int = 10_000) -> list[tuple[int, Call]]:
        """(hash, call) of calls that have no price yet."""

    def set_prices(self, prices: Iterable[PriceRow]) -> None:
        """What calls cost, and what that makes of their sessions."""

    def unprice(self, sources: Sequence[str] | None = None) -> int:
        """Takes the prices from calls that were not priced exactly, by other sources than these;
        from all that were not invoiced when None. The first figure that was not zero stays beside
        the new one. How many there are."""

    def wrong_sums(self) -> list[int]:
        """The numbers of the sessions whose sums, which reports are made of, are not those of their
        calls. For `doctor`."""

    def is_charged(self, session: int) -> bool:
        """Whether the calls of a session are marked as its digest says, if that covers all that is
        stored. For `doctor`."""

    def set_places(self, found: dict[str, tuple[str | None, str | None]]) -> None:
        """By session uid: its repository, and the task it was about, where its source names
        none."""

    def set_domains(self, domain_of: Callable[[str | None], str | None]) -> None:
        """The domain of each repository, for all sessions that were read here. Writes only what is
        another than it was."""

    def unredacted(self, version: str, limit: int = 100) -> list[tuple[int, str]]:
        """(number, path) of the sources whose text was cleaned by other rules than these, newest
        first."""

    def redact_again(self, source: int, version: str, cleaner: Cleaner) -> int:
        """Runs newer rules over all that is stored of a source. How many texts changed."""

    def forget(self, uids: Iterable[str], when: datetime) -> None:
        """Removes these sessions from every tier and leaves a tombstone for each."""

    def copies_of(self, uids: Iterable[str]) -> list[str]:
        """The other sessions that show parts of these as copies."""

    def sharing(self) -> list[set[str]]:
        """Sets of sessions that have an event in common, whichever of them it happened in; one may
        be in several."""

    def purge(self) -> None:
        """Leaves nothing in the file of what was removed from it."""

    # ── taking over, for `copying` ────────────────────────────────────────────────────────────────
    source_columns: tuple[str, ...]
    """What it knows of a source besides what every store does."""

    @property
    def session_columns(self) -> list[str]:
        """What it knows of a session, but for its number."""

    def take_source(self, row: dict[str, Any]) -> int:
        """Keeps a source as another store has it; the number that it has here."""

    def name_of(self, uid: str, author: str | None) -> tuple[str, str | None]:
        """The uid under which a session of another store is here, or would be, and whose it is
        here."""

    def take_session(self, taken: Taken) -> int:
        """Keeps a session as another store has it, instead of what is here of it; its number here.
        What someone else has of it stays."""

    def take_rest(
        self, source: int, records: Sequence[Row], skips: Sequence[Row], aliases: Sequence[Row]
    ) -> None:
        """Keeps what another store has of a source, by its number here, instead of what is here of
        it: rows without that number."""

    def claims(self) -> list[Row]:
        """(author, uid, number of the session that they mean by it), where that is not a session of
        their own of this uid."""

    def take_claims(self, rows: Sequence[Row]) -> None:
        """The same from another store, with the numbers that the sessions have here."""

    def take_tombstones(self, rows: Sequence[tuple[str, str]]) -> None:
        """(uid, when) of what was forgotten elsewhere: it is forgotten here too, and not taken
        in."""

    def close(self) -> None:
        """Closes the store. It is not used afterwards."""
