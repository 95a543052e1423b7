"""The ledger's part of a sync: of all copies of a call one is counted, and what counts is priced.

Between the store, which keeps, and `ledger` and `prices`, which compute. Both steps can be run
twice, or after being killed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from .config import FILE, Config
from .errors import ConfigError
from .model import Call
from .pricing import ledger, prices
from .pricing.table import ListPrice, Sheet
from .store import Batch, Kept, PriceRow, Store
from .store.calls import costs_alike, hash_of

CACHE = "prices.cache"


def settle(
    store: Store, batch: Batch, price: Callable[[Call], PriceRow | None] | None = None
) -> Batch:
    """The batch with its calls as the ledger is to keep them: merged with the copies that it has,
    and none that say nothing new. With `price` they are priced at once; what is not, `price` does
    later."""
    if not batch.calls:
        return batch
    known = {
        hash_of(kept.call): kept
        for kept in store.ledger.find([hash_of(kept.call) for kept in batch.calls])
    }
    calls = list(_settled(batch.calls, known)) if known else batch.calls
    if price is not None:
        calls = [
            kept if _costs_as_before(kept, known) else _with_price(kept, price(kept.call))
            for kept in calls
        ]
    return msgspec.structs.replace(batch, calls=calls)


def _costs_as_before(kept: Kept, known: dict[int, Kept]) -> bool:
    """Whether all that a price follows from is as it was."""
    return (
        bool(known)
        and (old := known.get(hash_of(kept.call))) is not None
        and costs_alike(old.call, kept.call)
    )


def _with_price(kept: Kept, price: PriceRow | None) -> Kept:
    return Kept(call=kept.call, superseded=kept.superseded, event=kept.event, price=price)


def _settled(calls: Iterable[Kept], known: dict[int, Kept]) -> Iterator[Kept]:
    for new in calls:
        old = known.get(hash_of(new.call))
        if old is None:
            yield new
            continue
        before, after = _bare(old), _bare(new)
        [merged] = ledger.merge([*before, *after])
        if (merged.call, *merged.superseded) == before:
            continue
        # A copy that stays the one that counts stays where it is, and the event of another copy is
        # not its own.
        call = (
            msgspec.structs.replace(merged.call, seq=old.call.seq)
            if merged.call == before[0]
            else merged.call
        )
        yield Kept(
            call=call,
            superseded=merged.superseded,
            event=new.event if merged.call == after[0] else 0,
        )


def _bare(kept: Kept) -> tuple[Call, ...]:
    """All copies of a call, without where their events are: that may change, and is no
    difference."""
    return tuple(
        msgspec.structs.replace(call, seq=-1) if call.seq != -1 else call
        for call in (kept.call, *kept.superseded)
    )


class Pricer:
    """What each call costs by the user's own prices and the table of today."""

    def __init__(self, config: Config) -> None:
        self.table = prices.table_of(config.home)
        self.count = 0
        self._own, self._sheets = _own_prices(config), _Sheets(config, self.table)

    def __call__(self, call: Call) -> PriceRow:
        self.count += 1
        known = prices.find(call.model, call.ts, call.provider, self._own, self._sheets.look_up)
        found = ledger.cost(call, known)
        return _row(hash_of(call), found, self.table.version)

    def save(self) -> None:
        """Keeps the price sheets that were looked up: the next one need not load the table."""
        self._sheets.save()


def price(store: Store, config: Config) -> int:
    """Prices what has no price yet, and again what an older table had no exact price for; how many
    calls that were."""
    return price_again(store, Pricer(config)) if store.ledger.unpriced(limit=1) else 0


def price_again(store: Store, pricer: Pricer) -> int:
    """The same where nothing is without a price, but the table may be newer."""
    store.ledger.unprice([pricer.table.version, "config", "built-in"])
    count = 0
    while calls := store.ledger.unpriced():
        store.ledger.set_prices([pricer(call) for _, call in calls])
        count += len(calls)
    pricer.save()
    return count


def reprice(store: Store, config: Config) -> int:
    """Prices everything again that was not invoiced; the figure that it was first counted with
    stays beside the new one."""
    store.ledger.unprice()
    return price(store, config)


def stored_parts(config: Config) -> Callable[[Call], tuple[ledger.Part, ...]]:
    """How the cost of a call is made up, from the price sheets that were looked up before; nothing
    where there is none."""
    own, sheets = _own_prices(config), _Sheets(config, prices.table_of(config.home))

    def parts(call: Call) -> tuple[ledger.Part, ...]:
        price = prices.find(call.model, call.ts, call.provider, own, sheets.known)
        return ledger.parts(call, price)

    return parts


def _row(h: int, found: ledger.Price, table: str) -> PriceRow:
    """For a call without a price too it is kept which table had none."""
    since = found.since.isoformat() if found.since else None
    return PriceRow(
        h,
        found.usd,
        found.basis,
        found.source or table,
        since,
        found.match,
        found.name,
        found.above,
        ", ".join(found.notes) or None,
    )


class _Sheets:
    """Price sheets that were looked up before: loading the whole table takes longer. A cache, to be
    deleted at will."""

    def __init__(self, config: Config, table: prices.Table) -> None:
        self._file, self._table = config.home / CACHE, table
        self._known: dict[str, Sheet | None] = {}
        self._is_new = False
        try:
            found = msgspec.msgpack.decode(
                self._file.read_bytes(), type=tuple[str, dict[str, Sheet | None]]
            )
        except (OSError, msgspec.DecodeError):
            return
        if found[0] == table.version:
            self._known = found[1]

    def look_up(self, model: str, provider: str | None) -> Sheet | None:
        name = f"{provider or ''} {model}"
        if name not in self._known:
            self._known[name] = prices.look_up(model, provider, self._table)
            self._is_new = True
        return self._known[name]

    def known(self, model: str, provider: str | None) -> Sheet | None:
        """Without looking anything up."""
        return self._known.get(f"{provider or ''} {model}")

    def save(self) -> None:
        if not self._is_new:
            return
        made = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with suppress(OSError):
            with open(
                os.open(made, os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600), "wb"
            ) as file:
                file.write(msgspec.msgpack.encode((self._table.version, self._known)))
            made.replace(self._file)


def _own_prices(config: Config) -> dict[str, Any]:
    lower = {name.lower(): lines for name, lines in config.prices.items()}
    try:
        return msgspec.convert(lower, dict[str, ListPrice | list[ListPrice]])
    except msgspec.ValidationError as error:
        raise ConfigError(f"{config.home / FILE}: prices: {error}") from None
