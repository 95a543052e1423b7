"""Unique API calls and what each cost. Pure: values in, values out.

A call is often written down several times: while it streams, when a session is resumed or forked,
by a subagent's parent. `merge` makes one call of its copies under a total order, so no order in
which transcripts are read changes a figure. `cost` multiplies. Nothing here knows where prices come
from, an agent's format, or a database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from operator import attrgetter
from typing import Any, Literal

import msgspec

from ..model import MAX_UNITS, Call
from .table import Match, Rate, Rates

MAX_SUPERSEDED = 16
"""Copies of one call that are stored beside the one that counts, the best ones. The limit does not
make `merge` depend on the order: the best of all are the best of the best of every part."""


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """One call: the copy that counts, and the others that say something else, best first.

    The best copy says where the call was made. If one on a side chain has larger figures, these are
    the final ones: `call` is then composed, the best copy with these figures. The copies that it is
    made of are the first of `superseded`, that with the figures before the best.
    """

    call: Call
    superseded: tuple[Call, ...] = ()
    is_composed: bool = False

    @property
    def copies(self) -> tuple[Call, ...]:
        """All copies as they were written down, to be merged again with new ones."""
        return self.superseded if self.is_composed else (self.call, *self.superseded)

    @property
    def best(self) -> Call:
        """The copy that says where the call was made."""
        return self.superseded[1] if self.is_composed else self.call


def merge(calls: Iterable[Call]) -> list[Merged]:
    """Return one entry for each call, ordered by flavor and key.

    The order, repetition or batches of `calls` make no difference.
    """
    groups: dict[tuple[str, str], list[Call]] = {}
    uid = flavor = ""
    for call in calls:
        if call.session_uid != uid:  # Those of a session mostly follow each other.
            uid, flavor = call.session_uid, call.flavor
        name = flavor, call.key
        if name in groups:
            groups[name].append(call)
        else:
            groups[name] = [call]
    return [_merge_copies(groups[name]) for name in sorted(groups)]


def _merge_copies(copies: list[Call]) -> Merged:
    if len(copies) == 1:
        return Merged(call=copies[0])
    by_size = {(call.is_sidechain, -call.total): call for call in copies}
    # If the first two parts of `preference` differ, the rest of it, which is slower, is not needed.
    if len(by_size) == len(copies):
        distinct = [by_size[size] for size in sorted(by_size)]
    else:
        distinct = _distinct(copies)
    return _compose(distinct)


def _distinct(copies: Iterable[Call]) -> list[Call]:
    """Return copies that differ, best first."""
    ordered = sorted(copies, key=preference)
    return [call for call, before in zip(ordered, (None, *ordered), strict=False) if call != before]


def _compose(distinct: Sequence[Call]) -> Merged:
    """Return a call of copies that differ. The first says where it was made."""
    best, largest = distinct[0], max(distinct, key=attrgetter("total"))
    if largest.total == best.total:
        return Merged(call=best, superseded=tuple(distinct[1 : MAX_SUPERSEDED + 1]))
    others = (call for call in distinct[:MAX_SUPERSEDED] if call is not largest)
    return Merged(
        call=msgspec.structs.replace(best, **{name: getattr(largest, name) for name in _FIGURES}),
        superseded=(largest, *others),
        is_composed=True,
    )


_FIGURES = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens",
    "cache_write_1h_tokens", "reasoning_tokens", "web_searches",
)  # fmt: skip
"""The fields that grow while a call streams."""


def in_session(merged: Merged, uid: str) -> Merged:
    """Return the call as one of this session, where it was made. The other copies stay."""
    best = msgspec.structs.replace(merged.best, session_uid=uid)
    return _compose([best, *(copy for copy in _distinct(merged.copies) if copy != best)])


def preference(call: Call) -> tuple[Any, ...]:
    """Return a sort key of the copies of a call. Smaller is better.

    The main chain comes first, then more tokens, then a higher cost by the agent's own account,
    then earlier, then more information, then the smaller uid. The rest makes the order total, so
    that equal keys mean equal calls. The uid stands behind all that a copy says of the call, so
    that a call says the same when it was moved to another session. The best copy says to which
    session a call belongs; its figures are those of the largest copy.
    """
    return (
        call.is_sidechain,
        -call.total,
        -(call.recorded or 0),
        *_none_last(call.ts, datetime.min.replace(tzinfo=UTC)),
        call.is_sum,
        *_none_last(call.invoiced, 0),
        *_none_last(call.tier, ""),
        *_none_last(call.region, ""),
        *_none_last(call.model, ""),
        *_none_last(call.provider, ""),
        -call.output_tokens,
        -call.cache_write_1h_tokens,
        -call.cache_write_5m_tokens,
        -call.input_tokens,
        -call.reasoning_tokens,
        -call.web_searches,
        *_none_last(call.request_id, ""),
        call.recorded is None,
        call.session_uid,
        call.seq < 0,
        call.seq,
        call.key,
    )


def _none_last(value: Any, instead: Any) -> tuple[bool, Any]:
    return (True, instead) if value is None else (False, value)


def by_request(merged: Merged) -> Iterator[Call]:
    """Yield the copies that a count by message and request has besides `merged.call`.

    ccusage counts a message again for every request id, unless one of the two copies is on a
    sidechain.
    """
    request_ids = {merged.call.request_id}
    for call in merged.superseded if not merged.call.is_sidechain else ():
        if not call.is_sidechain and call.request_id not in request_ids:
            request_ids.add(call.request_id)
            yield call


class Part(msgspec.Struct, frozen=True, gc=False):
    """One line of a price: a number of tokens of a bucket, at `rate` × 1e-12 USD each."""

    bucket: str
    count: int
    rate: int

    @property
    def usd(self) -> int:
        return self.count * self.rate


class Price(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cost of a call in 1e-12 USD, and its reason.

    `above` is the prompt length beyond which the whole request costs more, if it did. `notes` are
    the assumptions: `sum` (several requests of unknown length), `no tier price` (the standard price
    is used), `built-in` or `ratio of DATE` (the source of the tier's price), `capped`, `recorded`
    (what the agent itself wrote).
    """

    usd: int
    basis: Literal["invoiced", "listed", "recorded", "none"]
    source: str | None = None
    since: date | None = None
    match: Match = "none"
    name: str | None = None
    above: int | None = None
    notes: tuple[str, ...] = ()


UNPRICED = Price(usd=0, basis="none")


def cost(call: Call, rates: Rates | None) -> Price:
    """Return what the provider charged if that is known, else the list price, else what the agent
    recorded, else nothing.

    Reasoning is a part of output, and billed there. A call without tokens has no list price.
    """
    if call.invoiced is not None:
        return Price(
            usd=call.invoiced, basis="invoiced", source="invoice", match="exact", name=call.model
        )
    has_counts = bool(call.total or call.web_searches)
    if call.recorded is not None and (rates is None or not has_counts):
        return Price(usd=call.recorded, basis="recorded", name=call.model, notes=("recorded",))
    if rates is None:
        return UNPRICED
    rate, above, notes = _applicable(call, rates)
    # The same as the sum of `parts`, without building them for every call.
    usd = (
        call.input_tokens * rate.input
        + call.output_tokens * rate.output
        + call.cache_read_tokens * rate.cache_read
        + call.cache_write_5m_tokens * rate.cache_write_5m
        + call.cache_write_1h_tokens * rate.cache_write_1h
        + call.web_searches * rates.web_search
    )
    if usd > MAX_UNITS:
        usd, notes = MAX_UNITS, (*notes, "capped")
    return Price(
        usd=usd,
        basis="listed",
        source=rates.source,
        since=rates.since,
        match=rates.match,
        name=rates.name,
        above=above,
        notes=notes,
    )


def parts(call: Call, rates: Rates | None) -> tuple[Part, ...]:
    """Return the lines of a list price; none if the provider charged, or if there is no price."""
    if call.invoiced is not None or rates is None:
        return ()
    rate, _, _ = _applicable(call, rates)
    return tuple(part for part in _parts(call, rate, rates) if part.count)


def _applicable(call: Call, rates: Rates) -> tuple[Rate, int | None, tuple[str, ...]]:
    """Return the rate for this tier, prompt length and region, its limit, and notes.

    The whole prompt decides, cached or not, for all buckets at once.
    """
    notes: tuple[str, ...] = ()
    schedule = rates.standard
    if call.tier is not None:
        schedule = rates.tiers.get(call.tier, schedule)
        notes = (
            ("no tier price",)
            if call.tier not in rates.tiers
            else (schedule.note,)
            if schedule.note
            else ()
        )
    rate, above = schedule.rate(call.prompt_tokens)
    if above is not None and call.is_sum:
        rate, above, notes = schedule.base, None, (*notes, "sum")
    elif above is not None and schedule.note and schedule.note not in notes:
        notes = (*notes, schedule.note)
    if call.region == "us" and rates.us_permille != 1000:
        rate = rate.times(rates.us_permille)
    return rate, above, notes


def _parts(call: Call, rate: Rate, rates: Rates) -> tuple[Part, ...]:
    return (
        Part("input", call.input_tokens, rate.input),
        Part("output", call.output_tokens, rate.output),
        Part("cache_read", call.cache_read_tokens, rate.cache_read),
        Part("cache_write_5m", call.cache_write_5m_tokens, rate.cache_write_5m),
        Part("cache_write_1h", call.cache_write_1h_tokens, rate.cache_write_1h),
        Part("web_search", call.web_searches, rates.web_search),
    )
