"""Ledgers for tests: stores that hold calls and nothing else, and a toy agent that tells what its
calls took."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runlore.adapters import Facts, Normalized, Position, Record, Source
from runlore.model import Call
from runlore.pricing.ledger import merge
from runlore.store import Batch, Delta, LedgerCall, PriceRow, Store, open_store
from runlore.store.rows import ROW
from runlore.sync.billing import merge_with_ledger
from runlore.timeline import Tally
from tests.toy import Toy

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)


def call(key: str, session: str = "s1", **fields: Any) -> Call:
    return Call(
        **{
            "key": key,
            "session_uid": f"toy:{session}",
            "ts": NOON,
            "model": "m",
            "input_tokens": 100,
            **fields,
        }
    )


def keep(
    store: Store, calls: Iterable[Call], facts: dict[str, dict[str, Any]] | None = None
) -> None:
    """Puts these calls, as a sync would; their sessions are made. `facts` are those of sessions, by
    native id."""
    found = list(calls)
    names = dict.fromkeys(one.session_uid.partition(":")[2] for one in found)
    source = Source(
        agent="toy",
        path=f"/toy/{len(store.sources.by_path())}",
        root="/toy",
        machine=None,
        size=1,
        mtime_ns=1,
        inode=1,
    )
    batch = Batch(
        source=source,
        since=0,
        position=Position(offset=1, records=1),
        carry=b"",
        adapter_version=1,
        redact_version="1",
        deltas=[_piece(name, (facts or {}).get(name, {})) for name in names],
        aliases=[],
        records=[],
        merged={},
        skips=[],
        size=1,
        calls=[
            LedgerCall(call=one.call, superseded=one.superseded, is_composed=one.is_composed)
            for one in merge(found)
        ],
    )
    store.ingest.put(merge_with_ledger(store, batch))


def _piece(name: str, facts: dict[str, Any]) -> Delta:
    row = dict.fromkeys(ROW)
    row.update(seq=0, kind="lifecycle", flags=0, rest=b"\x80")
    return Delta(
        session_uid=f"toy:{name}",
        facts=Facts(native_session_id=name, **facts),
        tally=Tally(events=1, last_seq=0),
        hash=name.encode(),
        rows=[tuple(row.values())],
        segments=[],
        natives=[0],
        links=[],
        originals=[],
    )


def price(store: Store, usd_of: Any = lambda call: call.total) -> None:
    """Gives every call without a price one: the figure that the function names, or none."""
    rows = []
    for h, one in store.ledger.unpriced():
        usd = usd_of(one)
        rows.append(
            PriceRow(
                h,
                usd or 0,
                "none" if usd is None else "listed",
                "list",
                None,
                "exact",
                one.model,
                None,
                None,
            )
        )
    store.ledger.set_prices(rows)


def open_ledger(folder: Path) -> Store:
    return open_store(str(folder / "runlore.db"))


class Paid(Toy):
    """The toy agent, when it tells what its calls took: an event with tokens is one, under its id
    or the one named `msg`."""

    def normalize(
        self, source: Source, records: Iterable[Record], carry: bytes | None
    ) -> Normalized:
        kept = list(records)
        found = super().normalize(source, kept, carry)
        lines = {}
        for record in kept:
            with suppress(ValueError):
                data = json.loads(record.data)
                lines[data.get("id")] = data
        for event in found.events:
            line = lines.get(event.native_id, {})
            if event.usage is not None:
                made = Call(
                    key=line.get("msg") or event.native_id or "",
                    session_uid=event.session_uid,
                    ts=event.ts,
                    model=line.get("model", "toy-1"),
                    input_tokens=line.get("input", 0),
                    output_tokens=event.tokens,
                )
                found.calls.append((made, event.native_id))
        return found


PRICES = """
[prices.toy-1]
input = 1.0
output = 10.0
"""
