"""Why a figure is what it is: the calls of a session with all their copies, and what of the whole
ledger is not certain."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec

from ..adapters import LOST
from ..config import Config
from ..model import Call
from ..pricing.ledger import Merged, Part, by_request
from ..pricing.sheets import stored_parts
from ..store import Billed, CallFilter, LedgerCall, Store
from .report import OWN_CALLS, Row, merged, row_of, row_of_call, total

CANNOT_KNOW = (
    (
        "Calls that an agent makes and never writes down (titles, summaries of web pages, some"
        " compactions) are in no transcript: what a provider's console shows may be 15 to 20 %"
        " more."
    ),
    (
        "Some agents write input tokens down while the answer still streams, and these may be"
        " placeholders."
    ),
    (
        "A figure that stands for several requests (marked sum) cannot be priced by prompt length:"
        " if one was long, it cost more."
    ),
    (
        "Discounts, credits, taxes and what a subscription covers are known to the provider alone:"
        " a list price is what a call would cost."
    ),
    (
        "Where an agent keeps no running total, a call that its transcript has lost is not missed"
        " here."
    ),
)
"""Facts that cannot be found out from transcripts."""


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a call that does not count, and why."""

    call: Call
    why: str


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A call as the transcript has it, what it cost, and the copies that do not count. `parts` are
    lines of the sum, as far as the price sheet of then is still at hand; `units` is None as long as
    there is no price."""

    call: Call
    units: int | None
    old_units: int | None
    basis: str | None
    price: str
    parts: tuple[Part, ...]
    copies: tuple[Copy, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that count for a session, those that count elsewhere, and its subagents."""

    calls: list[Explained]
    elsewhere: list[Explained]
    """Calls of which this session has a copy, and that count for another."""
    own: Row
    with_subagents: Row
    repeated: Row
    """Calls that a count by message and request, as in other tools, would add: copies of a message
    under another request id. Their cost is not known."""


def explain(store: Store, config: Config, uid: str, last: int | None = None) -> Explanation:
    """Return the calls of a session, or the last so many, and how their figures came about. Totals
    are of all calls."""
    explained = partial(_explained, stored_parts(config))
    billed = store.ledger.billed(uid, last)
    several = store.ledger.resent(uid) if last is not None else [one.kept for one in billed]
    sums = [
        (one.keys[0], row_of(None, one))
        for one in store.ledger.sum(["subagent"], CallFilter(session=uid))
    ]
    return Explanation(
        calls=[explained(one) for one in billed],
        elsewhere=[explained(one) for one in store.ledger.copied(uid)],
        own=total(row for name, row in sums if name in OWN_CALLS or name == uid),
        repeated=total(row_of_call(one) for one in _by_request(several)),
        with_subagents=total(row for _, row in sums),
    )


def _explained(parts_of: Callable[[Call], tuple[Part, ...]], one: Billed) -> Explained:
    price, call = one.price, one.kept.call
    parts = parts_of(call) if price is not None and price.basis == "listed" else ()
    # The current price sheet may not be the one that was used.
    is_same_price = price is not None and sum(part.usd for part in parts) == price.usd
    return Explained(
        call=call,
        units=price.usd if price else None,
        old_units=one.old_usd,
        basis=price.basis if price else None,
        price=_price_words(one),
        parts=parts if is_same_price else (),
        copies=tuple(Copy(call=copy, why=why(call, copy)) for copy in one.kept.superseded),
    )


def _by_request(calls: Iterable[LedgerCall]) -> Iterator[Billed]:
    for kept in calls:
        merged = Merged(call=kept.call, superseded=kept.superseded, is_composed=kept.is_composed)
        for call in by_request(merged):
            yield Billed(kept=LedgerCall(call=call))


def why(call: Call, copy: Call) -> str:
    """Return the reason why a copy does not count.

    It is the first rule of `ledger.preference` by which it differs from the copy that counts.
    """
    if copy.is_sidechain != call.is_sidechain:
        return (
            "a copy on a side chain; its final figures are counted on the main line"
            if copy.total == call.total
            else "a copy on a side chain; the main line goes first"
        )
    if copy.total != call.total:
        return f"{call.total - copy.total:,} tokens fewer; the copy with most counts"
    if copy.ts != call.ts:
        return (
            "a later copy; the first counts"
            if copy.ts is not None
            else "a copy without a time; one with a time goes first"
        )
    if copy.session_uid != call.session_uid:
        return "the same in another session; the smaller id counts"
    return "the same figures, with less beside them"


def _price_words(one: Billed) -> str:
    price = one.price
    if price is None:
        return "not priced yet; the next sync does that"
    if price.basis == "invoiced":
        return "as the provider charged it"
    if price.basis == "recorded":
        return f"as its agent recorded it; no price is known ({price.source})"
    if price.basis == "none":
        return f"no price is known ({price.source})"
    words = [f"{price.name} ({price.match})", f"from {price.source}"]
    if price.since:
        words.append(f"valid since {price.since}")
    if price.above:
        words.append(f"price above {price.above:,} tokens")
    return ", ".join(words) + (f"; {price.notes}" if price.notes else "")


# ── what is not certain ───────────────────────────────────────────────────────────────────────────
class Gap(msgspec.Struct, frozen=True):
    """A session whose events have other token totals than its calls, subagents included."""

    uid: str
    events_tokens: int
    ledger_tokens: int


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that a transcript has in its own running total, and in no record: they are in no
    figure."""

    path: str
    tokens: int


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """Facts to know before trusting a figure."""

    calls: int
    unpriced: list[Row]
    """Calls without a price, by model."""
    fuzzy: list[Row]
    """Calls at the price of a model with a similar name, by `model = name of the price`."""
    assumed: list[Row]
    """Calls for whose price something was assumed, by what that is."""
    undated: Row
    """Calls without a time, which are in no day."""
    gaps: list[Gap]
    lost: list[Lost]
    """Tokens that are in no figure."""
    sessions: int
    cannot_know: tuple[str, ...] = CANNOT_KNOW
    """Facts that transcripts do not contain."""


def check(store: Store, chosen: CallFilter | None = None) -> Check:
    """Calls without a certain price, sums that differ, and what transcripts cannot know."""
    chosen = chosen or CallFilter()
    doubts = store.ledger.sum(
        ["price_match", "model", "price_name", "price_notes"], chosen._replace(is_doubtful=True)
    )
    unpriced = merged((one.keys[1], one) for one in doubts if one.unpriced)
    fuzzy = merged(
        (f"{one.keys[1]} = {one.keys[2]}", one) for one in doubts if one.keys[0] == "fuzzy"
    )
    notes = merged((one.keys[3], one) for one in doubts if one.keys[3])
    hours = store.ledger.sum(["hour"], chosen)
    sessions, gaps = store.ledger.gaps(chosen.agent)
    return Check(
        calls=sum(one.calls for one in hours),
        unpriced=sorted(unpriced, key=lambda row: -row.total_tokens),
        fuzzy=sorted(fuzzy, key=lambda row: -row.units),
        assumed=sorted(notes, key=lambda row: -row.units),
        undated=total(row_of(None, one) for one in hours if one.keys[0] is None),
        gaps=sorted(
            (Gap(*gap) for gap in gaps),
            key=lambda gap: (-abs(gap.events_tokens - gap.ledger_tokens), gap.uid),
        ),
        lost=sorted(_lost(store, chosen.agent), key=lambda one: (-one.tokens, one.path)),
        sessions=sessions,
    )


def _lost(store: Store, agent: str | None) -> Iterator[Lost]:
    """For each source; of several copies of a file, such as an archived one, the first."""
    found: dict[str, dict[int, int]] = {}
    for path, offset, reason in store.sources.skips():
        count, _, what = reason.partition(" ")
        if what == LOST and count.isdecimal():
            found.setdefault(path, {})[offset] = int(count)
    known = store.sources.by_path(agent) if found else {}
    found = {path: gaps for path, gaps in found.items() if path in known}
    copies = {
        (os.path.basename(path), tuple(gaps.items())): path
        for path, gaps in sorted(found.items(), reverse=True)
    }
    for path in copies.values():
        yield Lost(path=path, tokens=sum(found[path].values()))
