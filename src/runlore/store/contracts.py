"""The contracts of a store: ten small ones, which `Store` has as its parts.

Seven are here; `upkeep.py` has the three for removal, checks and copies.
There is one suite of tests over every database that implements them (`tests/store`). A store keeps
and links; it does not know what an agent's records mean, and it decides nothing about ranking or
rendering. Values are in `values.py`, filters in `filters.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from ..adapters import Position, Record, Source
from ..model import Call, Digest, Session, SessionEvent
from .filters import CallFilter, CallSum, Filter
from .session_line import SessionLine
from .upkeep import Maintenance, Retention, Transfer
from .values import (
    AgentTotals,
    Batch,
    Billed,
    CommittedSession,
    Family,
    Hour,
    LastSession,
    LedgerCall,
    Marks,
    PackedSegment,
    PriceRow,
    Put,
    Resume,
    Row,
    SegmentEvent,
    SessionError,
    SessionPlace,
    SourceState,
    StoreState,
)


class Store(Protocol):
    """A database with sessions. Every write is one transaction; a reader never waits for a
    writer."""

    @property
    def url(self) -> str:
        """The address, without a password."""

    @property
    def machine(self) -> str | None:
        """The machine of sessions whose source names none; None where only one machine writes."""

    @property
    def own_machine(self) -> str:
        """The name of this machine: sessions without a machine were run on it."""

    @property
    def own_author(self) -> str | None:
        """The author of sessions that are written here; None where all are one person's."""

    takes_tokens: bool
    """Whether the words of segments are cut by whoever packs them, before they are put."""
    takes_groups: bool
    """Whether several sources are put together, in transactions that are closed by time alone."""

    @property
    def sessions(self) -> Sessions: ...

    @property
    def overview(self) -> Overview: ...

    @property
    def index(self) -> SearchIndex: ...

    @property
    def sources(self) -> Sources: ...

    @property
    def ingest(self) -> Ingest: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def digests(self) -> Digests: ...

    @property
    def retention(self) -> Retention: ...

    @property
    def maintenance(self) -> Maintenance: ...

    @property
    def transfer(self) -> Transfer: ...

    @property
    def is_alone(self) -> bool:
        """True if nobody else can open the store as long as this one is open."""

    def transaction(self) -> AbstractContextManager[None]:
        """Keep everything that is written inside, or nothing of it. May be nested."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Read everything inside as of one moment, whatever is written meanwhile. May be nested."""

    def sync_lock(self) -> AbstractContextManager[None]:
        """Hold the lock of the one sync that may run. Raises StoreBusy.

        The system releases it when its process dies.
        """

    def backup(self, path: Path, step: Callable[[int, int], None] | None = None) -> None:
        """Copy the store to a new file as of this moment. Raises StoreError."""

    def close(self) -> None:
        """Close the store. It is not used afterwards."""


class Sessions(Protocol):
    """Sessions and their events."""

    def get(self, uid: str) -> Session | None:
        """Return the session of exactly this uid."""

    def find(self, name: str, limit: int = 10) -> list[str]:
        """Return the uids that a person may mean by `name`, newest first.

        A name is a uid, a native id, or the beginning of either.
        """

    def select(
        self, chosen: Filter, *, sort: str = "ended", limit: int | None = None, offset: int = 0
    ) -> list[SessionLine]:
        """Return sessions as lines of a list, newest first.

        `sort` is `ended`, `started`, `events`, `errors`, `tokens`, `duration` or `cost`.
        """

    def uids(self, chosen: Filter, *, limit: int | None = None) -> list[str]:
        """Return the uids that the filter chooses, in no order; with a limit the newest ones."""

    def labels(self, uids: Sequence[str]) -> dict[str, tuple[str, str | None, str | None]]:
        """Return the agent, the title and the repository of these sessions, by uid."""

    def count(self, chosen: Filter) -> int:
        """Return how many sessions the filter chooses."""

    def numbers(self, chosen: Filter) -> set[int]:
        """Return the numbers of the sessions that the filter chooses."""

    def lines(self, numbers: Sequence[int]) -> dict[int, SessionLine]:
        """Return sessions as lines of a list, by number."""

    def newest(self, numbers: Sequence[int], *, by: str = "ended") -> list[int]:
        """Return the same numbers, newest first by the end (or `by="started"`) of the session."""

    def events(self, uid: str, first: int = 0, last: int | None = None) -> list[SessionEvent]:
        """Return the events of a session in order.

        Events copied from another session have an `origin` and no `payload_ref`.
        """

    def outline(self, uid: str) -> list[SessionEvent]:
        """Return all events with few fields: kind, parent, call, and whether it is an error.

        Prompts, attempts and failures also have tool, summary, files and origin. A kind of a newer
        version is `lifecycle`.
        """

    def bodies(self, uid: str, first: int = 0, last: int | None = None) -> dict[int, str]:
        """Return the bodies of a session's events by seq. Copies are followed to the original."""

    def first_prompt(self, uid: str) -> str | None:
        """Return the body of the first prompt that is no copy; None if a session has none."""

    def record_of(self, uid: str, seq: int) -> tuple[str, int] | None:
        """Return the path of an event's source and the number of its native record there."""

    def mark(self, uid: str, marks: Marks) -> None:
        """Set what people say of a session: pin, name, tags, note."""


class Overview(Protocol):
    """Counts over all sessions, for the first page, for hooks and for completion."""

    def family(self, uid: str) -> Family:
        """Return the figures of a session together with all subagents below it."""

    def state(self) -> StoreState:
        """Return how much is stored and when it last changed: equal means nothing is new."""

    def stats(self) -> dict[str, Any]:
        """Return counts and sizes."""

    def hours(self, since: datetime) -> list[Hour]:
        """Return sessions, turns and errors for each hour in which a session started."""

    def agents(self) -> dict[str, AgentTotals]:
        """Return sources, bytes and sessions of each agent."""

    def count_values(
        self, column: str, chosen: Filter, within: Collection[int] | None = None
    ) -> list[tuple[str | None, int]]:
        """Return the values of a column of sessions, each with its count, the most frequent first.

        `within` are numbers of sessions; None means all that the filter chooses.
        """

    def below(self, uid: str) -> tuple[int, int]:
        """Return how many subagents a session has, and how many events they have."""

    def subagents(self) -> dict[str, int]:
        """Return the number of all subagents below each session that has any, by uid."""

    def parent_calls(self, uid: str) -> dict[str, str]:
        """Return the ids of the calls that started the subagents of a session, by subagent, where
        the agent records them."""

    def last_session(self, repo: str | None, cwd: str) -> tuple[int, LastSession | None]:
        """Return how many sessions a repository or folder has, and the last of them.

        Subagents are not counted. Without a repository the sessions of the folder count.
        """

    def last_call(self, before: datetime) -> datetime | None:
        """Return when the last API call before a time was made, to a quarter of an hour."""

    def lost_sessions(self) -> int:
        """Return how many sessions were evicted without a digest."""

    def newest_sources(self, agent: str, limit: int) -> list[int]:
        """Return the numbers of an agent's newest sources with native records."""


class SearchIndex(Protocol):
    """Segments, and the words in them."""

    def postings(self, term: str, *, prefix: bool = False, column: str | None = None) -> list[int]:
        """Return the ids of all segments that have this word or phrase, ascending.

        An id is session number << 20 | segment number. Columns are `prompt`, `reply` and `tool`;
        `said` is the first two. For a phrase of very common words, old segments may be included
        that only have its words.
        """

    def having(self, words: Collection[str], *, column: str | None = None) -> list[int]:
        """Return the ids of all segments that have any of these words, ascending.

        The words are letters and digits alone. Columns are those of `postings`.
        """

    def segment(self, id: int, *, files: bool = True) -> tuple[bytes, list[SegmentEvent]] | None:
        """Return the bodies of a segment as one bytes object, and its events with their positions
        in it.

        Without `files` those of the events are left out.
        """

    def segments(
        self, ids: Sequence[int], *, files: bool = True
    ) -> dict[int, tuple[bytes, list[SegmentEvent]]]:
        """Return several segments at once, without those that are missing or damaged."""

    def words(self) -> list[str]:
        """Return every word of the index once."""

    def segment_count(self) -> int:
        """Return about how many segments there are."""

    def sizes(self) -> dict[int, int]:
        """Return how many segments each session has, by its number.

        The caller must not change the answer: it is cached until the store is written to.
        """

    def packed(self, numbers: Sequence[int]) -> Iterator[PackedSegment]:
        """Yield the segments of these sessions as they are stored, in order. See `scanning.py`."""


class Sources(Protocol):
    """Sources, and how far each has been read."""

    def by_path(self, agent: str | None = None) -> dict[str, SourceState]:
        """Return the known sources by path. Without an agent, one of those at the same path."""

    def all(self) -> list[SourceState]:
        """Return the known sources of every agent."""

    def are_below(self, part: str) -> bool:
        """Return True if the path of every source, of any machine, has this part."""

    def stale_copies(self) -> Iterator[list[SourceState]]:
        """Yield sources with copies whose originals another machine stored, to be derived again.

        One list for each machine. While a list is worked on, what is written counts as that
        machine's.
        """

    def resume(self, source: int) -> Resume:
        """Return the carry of a source, and the state of each session that it has a part in."""

    def records(self, source: int) -> Iterator[Record]:
        """Yield the native records stored of a source, as its adapter would read them."""

    def native_records(
        self, source_path: str, first: int = 0, last: int | None = None
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield (number, offset, bytes) of the native records stored of a source, in order."""

    def count_records(self, source: int) -> int:
        """Return how many native records of a source are stored."""

    def skips(self, source_path: str | None = None) -> list[tuple[str, int, str]]:
        """Return (path, offset, reason) of records that could not be understood."""

    def tombstones(self) -> set[str]:
        """Return the uids of forgotten sessions, which are not read again."""

    def unredacted(self, version: str, limit: int = 100) -> list[tuple[int, str]]:
        """Return (number, path) of sources redacted by other rules than these, newest first."""

    def touch(
        self,
        source: Source,
        *,
        adapter_version: int,
        redact_version: str,
        problem: str | None = None,
    ) -> None:
        """Note that a source exists, without reading anything from it."""

    def set_position(self, number: int, position: Position) -> None:
        """Set how far a source has been read."""

    def move(self, number: int, source: Source) -> None:
        """Note that a source is now at another path."""

    def mark_missing(self, numbers: Sequence[int], when: datetime) -> None:
        """Note that sources are no longer where they were. Their sessions stay."""


class Ingest(Protocol):
    """What a sync writes."""

    def together(self, batches: Sequence[Batch]) -> AbstractContextManager[None]:
        """Hold what the store has of these batches while they are put, one after the other.

        The store is asked once for all of them, and may send what is new later: an error of the
        database may be raised by a later statement. A value that no column can hold is raised by
        `put`.
        """

    def put(self, batch: Batch) -> Put:
        """Store a batch, link it, and move its source's position, all at once.

        Digests that came with it are stored where they cover their sessions. Putting it twice
        changes nothing.
        """

    def rewrite(self, source: int, batches: Iterable[Batch]) -> Put:
        """Store a source that was written anew: add what is new, mark what is gone from it."""

    def rederive(self, source: int, batches: Iterable[Batch]) -> Put:
        """Replace the events of a source that a newer adapter has read.

        A native id that was known keeps its number; the others get numbers that were never used.
        """

    def return_whole(self, source: int, batches: Iterable[Batch], *, is_proved: bool) -> Put | None:
        """Derive a source again of which something was evicted, and bring that back.

        Return None and change nothing when not all of it comes again. `is_proved` says that the
        source begins with what was read from it, whatever ids that had.
        """

    def part_with(self, source: int, batches: Iterable[Batch], when: datetime) -> Put:
        """Store a source again when some of its evicted events do not come again.

        Everything that was read before is given to a missing source with a path of its own, and the
        batches are put as those of a new source. Events of both are stored once.
        """

    def mark_stale_copies(self, uids: Collection[str], quiet_since: datetime) -> int:
        """Mark the sources of forks whose original has turned out to be younger, to be derived
        again. Does nothing unless one of these sessions is a fork or has one, and leaves sessions
        that were written to since `quiet_since`. Return the number of marked sources.
        """

    def set_places(self, found: dict[str, tuple[str | None, str | None]]) -> None:
        """Set by session uid the repository, and the task where its source names none."""

    def places(self) -> list[SessionPlace]:
        """Return where the sessions were run that were read here, in the order of their
        numbers."""

    def set_repos(self, names: Mapping[int, str | None]) -> None:
        """Set the repositories of sessions, by their numbers."""

    def set_domains(self, domain_of: Callable[[str | None], str | None]) -> None:
        """Set the domain of each repository, for all sessions that were read here."""


class Ledger(Protocol):
    """API calls, their prices and their rollups."""

    def find(self, hashes: Sequence[int]) -> list[LedgerCall]:
        """Return the calls of these hashes that the ledger has."""

    def billed(
        self, uid: str, last: int | None = None, at: Sequence[int] | None = None
    ) -> list[Billed]:
        """Return the calls that count for exactly this session, in the order of time.

        All of them, those made at some events, or the `last` so many.
        """

    def resent(self, uid: str) -> list[LedgerCall]:
        """Return the calls of this session that were also made under another request id."""

    def spent(self, uid: str) -> list[tuple[int, int, int | None]]:
        """Return seq, tokens and price in 1e-12 USD of the calls of this session."""

    def copied(self, uid: str) -> list[Billed]:
        """Return calls that count for another session, and of which this one has a copy."""

    def misplaced(self, uids: Collection[str]) -> list[tuple[LedgerCall, str]]:
        """Return calls of these sessions whose event happened in another one, with its origin."""

    def move(self, calls: Sequence[tuple[LedgerCall, int]]) -> None:
        """Store calls in the sessions that they name now, each with the number of its event."""

    def unpriced(self, limit: int = 10_000) -> list[tuple[int, Call]]:
        """Return (hash, call) of calls that have no price yet."""

    def set_prices(self, prices: Iterable[PriceRow]) -> None:
        """Set what calls cost, and update their sessions."""

    def unprice(self, sources: Sequence[str] | None = None) -> int:
        """Remove prices that are not exact and not from these sources; return how many.

        With None, remove all prices but invoiced ones. The first figure that was not zero stays
        beside the new one.
        """

    def sum(
        self, by: Sequence[str], chosen: CallFilter, offsets: Sequence[tuple[int, int]] = ()
    ) -> list[CallSum]:
        """Return sums over calls, one for each combination of the keys in `by`, in no order.

        Keys are `agent`, `branch`, `day`, `hour`, `machine`, `model`, `project` (repository or
        folder), `session` (with its subagents), `subagent` (its uid, `sidechain` or `main`), `task`
        (issue or pull request), `price_match`, `price_name`, `price_notes`, `waste` (the flags of
        `filters.MARKS`; None in sessions of which they are not known). Without keys there is one
        sum over all calls, if any.

        A day is the ordinal of a local date: `offsets` are (from when on in seconds since 1970,
        seconds to add to UTC), the earliest first and valid before as well. An hour is counted in
        UTC from 1970. Both are None for a call without a time.
        """

    def gaps(self, agent: str | None) -> tuple[int, list[tuple[str, int, int]]]:
        """Return how many sessions have calls, and those whose events have other token counts.

        The latter as (uid, tokens of events, tokens of calls), with their subagents. A session
        whose events have no usage is not among them.
        """

    def times(self) -> tuple[str, str] | None:
        """Return the times of the first and of the last call that have one."""

    def wasteful(self, chosen: CallFilter) -> tuple[int, list[str]]:
        """Return how many sessions have calls that led nowhere, and the uids of unknown ones.

        It is unknown for a session without a digest, or with one of other events than are stored.
        """


class Digests(Protocol):
    """Digests. A digest outlives the events it was made from."""

    def timeline(self, uid: str) -> tuple[list[SessionEvent], Mapping[int, str]]:
        """Return the events of a session and their bodies by seq: what a digest is made from.

        Remains of evicted events are left out, and so are bodies of copies. Bodies are decompressed
        when they are looked at, so a damaged one is noticed then. Events have no `payload_ref`.
        """

    def stored(self, uid: str) -> tuple[Sequence[Row], Sequence[Row]]:
        """Return all rows and segments of a session, of which `bodies.whole` makes a timeline."""

    def get(self, uid: str) -> Digest | None:
        """Return the digest of a session, also one that covers less than what is stored now.

        Raises StoreError when it is damaged.
        """

    def iter(self, chosen: Filter) -> Iterator[Digest]:
        """Yield the digests of the sessions that the filter chooses, in the order of their uids."""

    def search_evicted(self, word: str) -> Iterator[tuple[int, Digest]]:
        """Yield the numbers and digests of evicted sessions that contain a word, in any case."""

    def stale(self, version: int, quiet_since: datetime, limit: int | None = None) -> list[str]:
        """Return the uids of sessions that need a digest, newest first.

        They have none, one made by older rules than `version`, or one that covers less than what is
        stored; and nothing happened in them, or nothing was put, after `quiet_since`. Evicted
        sessions and those of other authors need none.
        """

    def put(self, digest: Digest, when: datetime) -> None:
        """Store a digest in place of the present one, with its outcome and errors.

        A digest by newer rules of the same content stays. A session that is not stored has none.
        """

    def committed(self, asked_before: datetime, ended_after: datetime) -> list[CommittedSession]:
        """Return the sessions of this machine that made commits of which git may have news.

        They were never asked about; or were asked about before a time, ended after another, and
        are not reverted.
        """

    def folders_since(self, since: datetime) -> list[str]:
        """Return the folders whose repository was asked about commits since then."""

    def put_fate(self, uid: str, state: str, note: str | None, when: datetime) -> None:
        """Store what git said of a session's commits (open, merged, reverted), and when."""

    def drop(self, uids: Sequence[str]) -> None:
        """Remove the digests of these sessions, so that the next sync makes them again."""

    def errors(
        self, chosen: Filter, fingerprints: Sequence[str] | None = None
    ) -> list[SessionError]:
        """Return the errors of the sessions that the filter chooses, in no order."""

    def spent_on(self, chosen: Filter, fingerprints: Sequence[str]) -> dict[str, float]:
        """Return by fingerprint what the calls cost between an error's first event and its fix.

        Without a fix, its last event ends the span. Work beside it is included, and calls between
        two errors are counted for both. An error is missing if none of its calls has a price.
        """

    def templates(self) -> list[tuple[str, str, str, str, int]]:
        """Return (fingerprint, kind, name, template, sessions) of every known error."""
