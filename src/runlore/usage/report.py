"""Sums over the ledger, by time or by what calls have in common; and what a prompt line wants to
know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Literal, get_args

import msgspec
from msgspec.structs import astuple, replace

from ..model import USD, parse_time
from ..store import Billed, CallFilter, CallSum, Store
from .zone import Zone

By = Literal[
    "day",
    "week",
    "month",
    "session",
    "model",
    "agent",
    "repo",
    "branch",
    "task",
    "machine",
    "author",
    "subagent",
    "block",
]
"""The groupings of a report. Every interface offers these."""
BY: tuple[str, ...] = get_args(By)
BY_ALIASES = {"project": "repo"}
"""Other names of groupings that people may type."""
ORDERS = ("key", "cost", "tokens", "calls")
OWN_CALLS = ("main", "sidechain")
"""The keys of calls by subagent that are the session's own."""
_IN_TIME = ("day", "week", "month", "block")

BLOCK_HOURS = 5
"""A block is what plans count in: it begins at the full hour of its first call and ends five hours
later, and the next call after that begins another."""
_LAST = datetime.max.replace(tzinfo=UTC)
RECENT = timedelta(days=8)
"""The current block is searched among these calls before all are read."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """The exact totals of some calls."""

    key: str | None
    """The day, model, session, … that it is about; None for calls that do not say."""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0
    """A part of output."""
    web_searches: int = 0
    units: int = 0
    """The cost in 1e-12 USD, exact."""
    unpriced: int = 0
    """Number of calls without a price."""
    fuzzy: int = 0
    """Number of calls at the price of a model with a similar name."""
    recorded: int = 0
    """Number of calls without a price that cost what their agent itself recorded."""

    @property
    def usd(self) -> float:
        return self.units / USD

    @property
    def cache_write_tokens(self) -> int:
        return self.cache_write_5m_tokens + self.cache_write_1h_tokens

    @property
    def total_tokens(self) -> int:
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_5m_tokens
            + self.cache_write_1h_tokens
        )


class Block(msgspec.Struct, frozen=True):
    """A block of five hours."""

    start: datetime
    row: Row

    @property
    def end(self) -> datetime:
        return self.start + min(timedelta(hours=BLOCK_HOURS), _LAST - self.start)


class Alone(msgspec.Struct, frozen=True):
    """The calls of a session without its subagents, and the number of these, as a list has it."""

    row: Row
    subagents: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a report, all of them, and their sum."""

    by: str
    timezone: str
    rows: list[Row]
    total: Row
    alone: dict[str | None, Alone] = {}
    """By session, those that have subagents, which may have none of these calls."""


def report(
    store: Store,
    by: str = "day",
    chosen: CallFilter | None = None,
    *,
    zone: Zone | None = None,
    order: str | None = None,
) -> Report:
    """Return the usage, by one of `BY`. Days, weeks, months and blocks are in order of time, others
    the most expensive first, unless `order` is given.

    Blocks are whole: their calls before `since` and after `until` count too.
    """
    chosen, zone = chosen or CallFilter(), zone or Zone()
    rows = _ordered(_rows(store, by, chosen, zone), order or ("key" if by in _IN_TIME else "cost"))
    return Report(
        by=by,
        timezone=zone.name,
        rows=rows,
        total=total(rows),
        alone=_without_subagents(store, chosen) if by == "session" else {},
    )


def _rows(store: Store, by: str, chosen: CallFilter, zone: Zone) -> list[Row]:
    if by == "block":
        hours = _hours(store, chosen)
        rows = [block.row for block in _blocks(hours) if _is_in(block, chosen)]
        if chosen.since is None and chosen.until is None:
            rows += [row_of(None, one) for one in hours if one.keys[0] is None]
        return rows
    if by in ("day", "week", "month"):
        days = store.ledger.sum(["day"], chosen, _spans(store, zone, chosen))
        return merged((_period(by, one.keys[0]), one) for one in days)
    # A session without a machine was run on this one.
    unnamed = store.own_machine if by == "machine" else None
    return merged((one.keys[0] or unnamed, one) for one in store.ledger.sum([by], chosen))


def _without_subagents(store: Store, chosen: CallFilter) -> dict[str | None, Alone]:
    """Return what each session with subagents took without them."""
    own: dict[str, list[Row]] = {}
    subagents = store.overview.subagents()
    for one in store.ledger.sum(["session", "subagent"], chosen):
        session, subagent = one.keys
        if session not in subagents:
            continue
        rows = own.setdefault(session, [])
        if subagent in OWN_CALLS or subagent == session:
            rows.append(row_of(session, one))
    return {
        session: Alone(replace(total(rows), key=session), subagents[session])
        for session, rows in own.items()
    }


def daily(store: Store, by: str, chosen: CallFilter, *, zone: Zone) -> dict[str, list[Row]]:
    """By day what was used, in a row for each of what `by` names: `model`, `agent` or another that
    is not in time."""
    found: dict[str, list[Row]] = {}
    for one in store.ledger.sum(["day", by], chosen, _spans(store, zone, chosen)):
        day, key = one.keys
        if day is not None:
            found.setdefault(_period("day", day) or "", []).append(row_of(key, one))
    return dict(sorted(found.items()))


def total(rows: Iterable[Row]) -> Row:
    return Row(None, *map(sum, zip(*(astuple(row)[1:] for row in rows), strict=True)))


def merged(found: Iterable[tuple[str | None, CallSum]]) -> list[Row]:
    """A row for each key. Weeks and months are made of days here."""
    rows: dict[str | None, list[Row]] = {}
    for key, one in found:
        rows.setdefault(key, []).append(row_of(key, one))
    return [
        same[0] if len(same) == 1 else replace(total(same), key=key) for key, same in rows.items()
    ]


def row_of(key: str | None, one: CallSum) -> Row:
    return Row(key, *one[1:])  # Both have the same figures in the same order.


def row_of_call(one: Billed) -> Row:
    """A single call as a row."""
    call, price = one.kept.call, one.price
    counts = [getattr(call, name) for name in Row.__struct_fields__[2:9]]
    is_unpriced = (price is None or price.basis == "none") and not (call.model or "").startswith(
        "<"
    )
    is_fuzzy = price is not None and price.match == "fuzzy"
    is_recorded = price is not None and price.basis == "recorded"
    marks = map(int, (is_unpriced, is_fuzzy, is_recorded))
    return Row(None, *[1, *counts, price.usd if price else 0, *marks])


def _ordered(rows: list[Row], order: str) -> list[Row]:
    """Return the rows in this order. Ties are broken by name, so the order is stable."""
    return sorted(rows, key=lambda row: (*_RANKS[order](row), row.key is not None, row.key or ""))


_RANKS: dict[str, Callable[[Row], tuple[int, ...]]] = {
    "key": lambda _: (),
    "calls": lambda row: (-row.calls,),
    "tokens": lambda row: (-row.total_tokens,),
    "cost": lambda row: (-row.units, -row.total_tokens),
}


def _period(by: str, ordinal: int | None) -> str | None:
    """The day, the Monday of its week, or the month. A transcript may name any time, also the last
    day of year 9999."""
    if ordinal is None:
        return None
    day = date.fromordinal(min(max(ordinal, 1), date.max.toordinal()))
    if by == "week":
        day = date.fromordinal(max(day.toordinal() - day.weekday(), 1))
    return day.isoformat()[:7] if by == "month" else day.isoformat()


def _spans(store: Store, zone: Zone, chosen: CallFilter) -> list[tuple[int, int]]:
    times = store.ledger.times()
    if times is None:
        return [(0, 0)]
    first, last = (parse_time(time) for time in times)
    first, last = max(first, chosen.since or first), min(last, chosen.until or last)
    return zone.spans(first.timestamp(), max(first, last).timestamp())


# ── blocks ────────────────────────────────────────────────────────────────────────────────────────
def blocks(store: Store, chosen: CallFilter) -> list[Block]:
    """All blocks in question, in order."""
    return [block for block in _blocks(_hours(store, chosen)) if _is_in(block, chosen)]


def _hours(store: Store, chosen: CallFilter) -> list[CallSum]:
    """Return the sums of all hours: the beginning of a block depends on all calls before it."""
    return store.ledger.sum(["hour"], chosen._replace(since=None, until=None))


def _is_in(block: Block, chosen: CallFilter) -> bool:
    return (chosen.since is None or block.end > chosen.since) and (
        chosen.until is None or block.start < chosen.until
    )


def _blocks(hours: Sequence[CallSum]) -> list[Block]:
    groups: dict[int, list[tuple[int, ...]]] = {}
    start = -BLOCK_HOURS
    for one in sorted(
        (one for one in hours if one.keys[0] is not None), key=lambda one: one.keys[0]
    ):
        hour = one.keys[0]
        if not groups or hour >= start + BLOCK_HOURS:
            start = hour
        groups.setdefault(start, []).append(one[1:])
    return [_block(hour, sums) for hour, sums in groups.items()]


def _block(hour: int, sums: Sequence[tuple[int, ...]]) -> Block:
    start = datetime.fromtimestamp(0, UTC) + timedelta(hours=hour)
    return Block(
        start, Row(start.isoformat().replace("+00:00", "Z"), *map(sum, zip(*sums, strict=True)))
    )


def present_block(store: Store, now: datetime) -> Block | None:
    """The block that is running, when there is one."""
    since = now - RECENT
    found = sorted(store.ledger.sum(["hour"], CallFilter(since=since)), key=lambda one: one.keys[0])
    if not found:
        return None
    # After five hours without a call a block begins for certain; without such a pause all calls
    # must be asked.
    hours, present = (
        [since.timestamp() // 3600, *(one.keys[0] for one in found)],
        now.timestamp() // 3600,
    )
    certain = [
        n
        for n, (last, hour) in enumerate(pairwise(hours))
        if hour - last >= BLOCK_HOURS and hour <= present
    ]
    near = _blocks(found[certain[-1] :]) if certain else blocks(store, CallFilter())
    return next((block for block in near if block.start <= now < block.end), None)


# ── a line for prompts ────────────────────────────────────────────────────────────────────────────
class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a prompt line: today, the running block, and the share of the current project
    or session if there is one."""

    today: Row
    block: Block | None
    project: Row | None
    session: Row | None


def status(
    store: Store,
    now: datetime,
    zone: Zone,
    *,
    folder: str | None = None,
    session: str | None = None,
) -> Status:
    """`folder` is that of the project, `session` a uid."""

    def one(chosen: CallFilter) -> Row:
        return total(row_of(None, found) for found in store.ledger.sum([], chosen))

    since = zone.midnight(zone.today(now))
    today = CallFilter(since=since, until=zone.end(since, None, now))
    return Status(
        today=one(today),
        block=present_block(store, now),
        project=one(today._replace(cwd=folder)) if folder else None,
        session=one(CallFilter(session=session)) if session else None,
    )
