"""The ledger's part of a sync: one of all copies of a call is counted and priced.

It stands between the store, which keeps calls, and `pricing`, which computes. Each step can be run
twice, or after being killed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from ..config import Config
from ..model import Call
from ..pricing import ledger
from ..pricing.sheets import PriceSheets
from ..store import Batch, LedgerCall, PriceRow, Store
from ..store.calls import costs_alike, hash_of


def merge_with_ledger(
    store: Store, batch: Batch, find_price: Callable[[Call], PriceRow | None] | None = None
) -> Batch:
    """Return the batch with its calls as the ledger is to keep them.

    They are merged with the copies that the ledger has, without those that add nothing. With
    `find_price` they are priced at once; otherwise `price` does it later.
    """
    if not batch.calls:
        return batch
    known = {
        hash_of(stored.call): stored
        for stored in store.ledger.find([hash_of(new.call) for new in batch.calls])
    }
    calls = list(_merge(batch.calls, known)) if known else batch.calls
    if find_price is not None:
        calls = [
            call if _costs_as_before(call, known) else _with_price(call, find_price(call.call))
            for call in calls
        ]
    return msgspec.structs.replace(batch, calls=calls)


def _costs_as_before(new: LedgerCall, known: dict[int, LedgerCall]) -> bool:
    """Return True if everything that the price depends on is as in the ledger."""
    old = known.get(hash_of(new.call)) if known else None
    return old is not None and costs_alike(old.call, new.call)


def _with_price(entry: LedgerCall, price: PriceRow | None) -> LedgerCall:
    return msgspec.structs.replace(entry, price=price)


def _merge(calls: Iterable[LedgerCall], known: dict[int, LedgerCall]) -> Iterator[LedgerCall]:
    """Merge new calls with those in the ledger; yield the entries that are new or changed."""
    for new in calls:
        old = known.get(hash_of(new.call))
        if old is None:
            yield new
            continue
        before, after = _without_places(old), _without_places(new)
        [merged] = ledger.merge([*before.copies, *after.copies])
        is_moved = merged.best in before.superseded and merged.best not in (before.best, after.best)
        if is_moved:  # To the session where it was made.
            merged = ledger.in_session(merged, before.call.session_uid)
        if merged == before:
            continue
        # A copy that still counts keeps its event. The event of another copy is not its own.
        call = (
            msgspec.structs.replace(merged.call, seq=old.call.seq)
            if is_moved or merged.best == before.best
            else merged.call
        )
        yield LedgerCall(
            call=call,
            superseded=merged.superseded,
            is_composed=merged.is_composed,
            event=new.event if merged.best == after.best else 0,
        )


def move_to_originals(store: Store, uids: Collection[str]) -> None:
    """Bill calls of these sessions where they were made: in the session that has the original of
    their event."""
    moved = []
    for entry, origin in store.ledger.misplaced(uids):
        uid, _, seq = origin.rpartition("#")
        there = ledger.in_session(_without_places(entry), uid)
        entry = LedgerCall(
            call=there.call, superseded=there.superseded, is_composed=there.is_composed
        )
        moved.append((entry, int(seq)))
    if moved:
        store.ledger.move(moved)


def _without_places(entry: LedgerCall) -> ledger.Merged:
    """Return the copies of a call without the number of their event, which may change."""
    call, *superseded = (
        msgspec.structs.replace(call, seq=-1) if call.seq != -1 else call
        for call in (entry.call, *entry.superseded)
    )
    return ledger.Merged(call=call, superseded=tuple(superseded), is_composed=entry.is_composed)


class Pricer:
    """Prices calls by the user's own prices and the current table."""

    def __init__(self, config: Config) -> None:
        self._sheets = PriceSheets(config)

    @property
    def version(self) -> str:
        """The version of the price table."""
        return self._sheets.table.version

    def __call__(self, call: Call) -> PriceRow:
        price = ledger.cost(call, self._sheets.find(call))
        return PriceRow(
            hash_of(call),
            price.usd,
            price.basis,
            price.source or self.version,  # For a call without a price: which table had none.
            price.since.isoformat() if price.since else None,
            price.match,
            price.name,
            price.above,
            ", ".join(price.notes) or None,
        )

    def save(self) -> None:
        """Save the price sheets that were looked up."""
        self._sheets.save()


def price(store: Store, config: Config) -> int:
    """Price calls without a price, and those that an older table had no exact price for.

    Return the number of calls. Nothing happens while every call has a price.
    """
    return price_again(store, Pricer(config)) if store.ledger.unpriced(limit=1) else 0


def price_again(store: Store, pricer: Pricer) -> int:
    """Price calls without a price, and those that another table had no exact price for.

    Return the number of calls.
    """
    store.ledger.unprice([pricer.version, "config", "built-in"])
    count = 0
    while calls := store.ledger.unpriced():
        store.ledger.set_prices([pricer(call) for _, call in calls])
        count += len(calls)
    pricer.save()
    return count


def reprice(store: Store, config: Config) -> int:
    """Price every call again that was not invoiced, and return their number.

    The first price of a call stays beside the new one.
    """
    store.ledger.unprice()
    return price(store, config)
