"""One examination of a store: its progress, what is stored, and what of it can be rebuilt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, TypeVar

import msgspec

from .. import adapters
from ..adapters import Facts, Source, stat_source
from ..config import Config
from ..errors import ConfigError
from ..model import BLOCK, make_uid
from ..store import DAMAGED, SourceState, Store
from ..store.rows import GONE, OUTRANKED

SAMPLE = 200
"""Segments, sessions and packs of records that are examined closely, spread over the store."""
INDEX_SAMPLE = 50

Kind = Literal[
    "session",
    "source",
    "stream",
    "strays",
    "forget",
    "exposures",
    "position",
    "natives",
    "derive",
    "streams",
    "sums",
    "digest",
    "index",
    "mode",
]
Repair = tuple[Kind, Any]
"""The kind of a repair, and the key of what it repairs."""

Progress = Callable[[str, int, int], None]
"""Called with the name of the check, how much is done, and of how much."""

T = TypeVar("T")


class Finding(msgspec.Struct, frozen=True):
    """Something that is wrong, and its repairs. Without any it cannot be rebuilt.

    A note is no problem.
    """

    text: str
    repairs: tuple[Repair, ...] = ()
    is_note: bool = False


class Check(msgspec.Struct, kw_only=True):
    """The result of a check."""

    name: str
    ok: bool = True
    checked: int = 0
    of: int = 0
    """Number of things that there are; `checked` of them were looked at."""
    count: int = 0
    problems: list[str] = msgspec.field(default_factory=list)
    """The first of `count`."""
    notes: list[str] = msgspec.field(default_factory=list)
    """Remarks on what is not wrong."""


class Exam:
    """One examination of a store, shared by all checks."""

    def __init__(self, store: Store, config: Config, full: bool, progress: Progress | None) -> None:
        self.store, self.config, self.full = store, config, full
        self._progress = progress
        self._why_not: dict[int, str | None] = {}
        self._given: dict[int, dict[str, set[str | None]]] = {}
        self._led_to: dict[int, set[int]] = {}

    def begin(self, name: str) -> Check:
        self.check = Check(name=name)
        self._expected = 0
        self.step(0)
        return self.check

    def each(self, items: Sequence[T], sample: int | None = None) -> Iterator[T]:
        """Yield the items with progress; of many only a sample, evenly spread."""
        chosen = self.spread(items, sample) if sample else items
        self.expect(len(chosen), len(items))
        for item in chosen:
            yield item
            self.step(1)

    def spread(self, items: Sequence[T], size: int) -> Sequence[T]:
        if self.full or len(items) <= size:
            return items
        return [items[n * len(items) // size] for n in range(size)]

    def expect(self, number: int, of: int) -> None:
        self._expected += number
        self.check.of += of

    def step(self, number: int) -> None:
        self.check.checked += number
        if self._progress:
            self._progress(self.check.name, self.check.checked, self._expected)

    # ── what is stored ────────────────────────────────────────────────────────────────────────────
    @cached_property
    def sessions(self) -> dict[int, tuple[str, str]]:
        """The uid and flavor of every session that was not evicted, by number."""
        sql = "select number, uid, flavor from sessions where evicted_at is null order by number"
        return {number: (uid, flavor) for number, uid, flavor in self.store.maintenance.rows(sql)}

    def some_sessions(self) -> Iterator[int]:
        return self.each(list(self.sessions), SAMPLE)

    @cached_property
    def sources(self) -> dict[int, SourceState]:
        return known_sources(self.store)

    @cached_property
    def totals(self) -> dict[int, dict[str, Any] | Exception | None]:
        """The columns of every session that follow from its streams, or why they are unreadable."""
        found: dict[int, dict[str, Any] | Exception | None] = {}
        for session in self.sessions:
            try:
                sums = self.store.maintenance.check_session(session)
                found[session] = None if sums is None else sums[1]
            except (ValueError, TypeError, msgspec.MsgspecError) as error:
                found[session] = error
        return found

    @cached_property
    def miscounted(self) -> set[int]:
        """The sessions with more or fewer events than their streams count."""
        counts: dict[int, int] = dict(
            self.store.maintenance.rows(
                f"select session, count(*) from events where flags & {OUTRANKED} = 0"
                " group by session"
            )
        )
        return {
            s
            for s, totals in self.totals.items()
            if not isinstance(totals, dict) or totals["events"] != counts.get(s, 0)
        }

    @cached_property
    def strays(self) -> dict[int, Counter[str]]:
        """The sessions that are not there, with the number of their rows left in each table."""
        found: dict[int, Counter[str]] = {}
        for table in ("events", "segments", "streams", "natives", "aliases", "digests", "errors"):
            for session, count in self.store.maintenance.rows(
                count_strays(table, "session", "sessions")
            ):
                found.setdefault(session, Counter())[table] = count
        return found

    def led_to(self, session: int) -> set[int]:
        """Return the events of a session that some native id leads to.

        This scans a table, so it is called only for what is wrong.
        """
        if session not in self._led_to:
            self._led_to[session] = {
                seq
                for (seq,) in self.store.maintenance.rows(
                    "select seq from natives where session = ?", (session,)
                )
            }
        return self._led_to[session]

    def sources_of(self, session: int) -> list[int]:
        return [
            source
            for (source,) in self.store.maintenance.rows(
                "select distinct source from streams where session = ?", (session,)
            )
        ]

    def uid_by_streams(self, session: int) -> str | None:
        """Return the uid of a session that is not there, from its streams."""
        for facts, agent in self.store.maintenance.rows(
            "select facts, agent from streams join sources on number = source where session = ?",
            (session,),
        ):
            try:
                return make_uid(agent, msgspec.msgpack.decode(facts, type=Facts).native_session_id)
            except (ValueError, TypeError, msgspec.MsgspecError):
                continue
        return None

    def claimant(self, session: int, block: int) -> int | None:
        """Return the source that the events of a block are from.

        It gives the same events when it is read, and no other session has events of it. Any other
        source would lose them when it is derived again.
        """
        sql = (
            "select native_id from events where session = ? and seq between ? and ? and native_id"
            ' is not null and "offset" is not null'
        )
        wanted = {
            native_id
            for (native_id,) in self.store.maintenance.rows(
                sql, (session, block * BLOCK, (block + 1) * BLOCK - 1)
            )
        }
        elsewhere = {
            source
            for (source,) in self.store.maintenance.rows(
                "select source from streams where session != ?", (session,)
            )
        }
        free = (number for number in self.sources if number not in elsewhere) if wanted else ()
        return next(
            (
                number
                for number in free
                if wanted <= self._gives(number).get(self.uid(session), set())
            ),
            None,
        )

    def _gives(self, number: int) -> dict[str, set[str | None]]:
        """Return the native ids that reading a source gives, by session."""
        if number not in self._given:
            found = self._given[number] = dict[str, set[str | None]]()
            state = self.sources[number]
            try:
                adapter = adapters.get(state.source.agent)
                records = list(self.store.sources.records(number)) or list(
                    adapter.read(state.source, None)
                )
                for event in adapter.normalize(state.source, records, None).events:
                    found.setdefault(event.session_uid, set()).add(event.native_id)
            except Exception:
                # Damaged records, a file that is gone, someone else's adapter: then it gives
                # nothing.
                found.clear()
        return self._given[number]

    def uid(self, session: int) -> str:
        return self.sessions[session][0] if session in self.sessions else f"session {session}"

    def source_of(self, session: int, seq: int) -> int | None:
        found = self.store.maintenance.rows(
            "select source from streams where session = ? and block = ?", (session, seq // BLOCK)
        )
        return int(found[0][0]) if found else self.source_named(session)

    def source_named(self, session: int) -> int | None:
        """Return the source that the session itself names."""
        sql = (
            "select q.number from sessions s join sources q on q.agent = s.flavor and q.path ="
            " s.source_path where s.number = ?"
        )
        found = self.store.maintenance.rows(sql, (session,))
        return int(found[0][0]) if found else None

    # ── what can be made again ────────────────────────────────────────────────────────────────────
    def wrong_event(self, session: int, seq: int, text: str) -> Finding:
        """Return the finding of a wrong event: its source is to be derived again."""
        return self.wrong_source(self.source_of(session, seq), f"{self.uid(session)}{text}")

    def wrong_source(self, source: int | None, text: str) -> Finding:
        why_not = self.why_not(source)
        return (
            Finding(text, (("derive", source),))
            if why_not is None
            else Finding(f"{text}; cannot be made again: {why_not}")
        )

    def why_not(self, source: int | None) -> str | None:
        """Return why a source cannot be derived again; None if it can."""
        if source is None:
            return "no source is known"
        if source not in self._why_not:
            self._why_not[source] = self._find_out(source)
        return self._why_not[source]

    def _find_out(self, number: int) -> str | None:
        state = self.sources.get(number)
        if state is None:
            return "its source is not known any more"
        path = state.source.path
        if adapter_of(state) is None:
            return f"there is no adapter for {state.source.agent}"
        gone = (
            "select 1 from streams s join events e on e.session = s.session and e.seq between"
            f" s.block * {BLOCK} and s.block * {BLOCK} + {BLOCK - 1} where s.source = ? and e.flags"
            f" & {GONE} != 0 limit 1"
        )
        if self.store.maintenance.rows(gone, (number,)):
            return f"{path} was rewritten, and what is gone from it is only here"
        now = how_it_is(state)
        if now != "gone":
            return (
                f"{path} was rewritten"
                if now == "rewritten" and state.adapter_version != DAMAGED
                else None
            )
        try:
            kept = sum(record.sidecar is None for record in self.store.sources.records(number))
        except Exception:
            # zstd, msgpack and UTF-8 each have their own way to say that it cannot be read.
            kept = -1
        return (
            None
            if kept == state.position.records > 0
            else f"{path} is gone, and its records are not all kept"
        )


def known_sources(store: Store) -> dict[int, SourceState]:
    """Return every source by number."""
    return {state.number: state for state in store.sources.all()}


def count_strays(table: str, column: str, owners: str) -> str:
    return (
        f"select {column}, count(*) from {table} where {column} not in (select number from"
        f" {owners}) group by {column}"
    )


def adapter_of(state: SourceState) -> adapters.Adapter | None:
    try:
        return adapters.get(state.source.agent)
    except ConfigError:
        return None


def how_it_is(state: SourceState) -> Literal["gone", "same", "grown", "rewritten"]:
    """Return how a source has changed since it was last read."""
    now = source_now(state)
    if now is None:
        return "gone"
    if state.is_same(now):
        return "same"
    adapter = adapter_of(state)
    return "grown" if adapter is not None and adapter.follows(now, state.position) else "rewritten"


def source_now(state: SourceState) -> Source | None:
    """Return the source as it is now; None if it is gone.

    Without its adapter, the file at its path is looked at.
    """
    adapter = adapter_of(state)
    if adapter is None:
        return stat_source(state.source)
    now = adapter.refresh(state.source)
    return now and adapter.aged(now)
