"""API calls as rows of the ledger, and back. Pure; knows no database and no price."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import asdict

from ..model import Call, format_time, parse_time
from .filters import SIDECHAIN
from .natives import native_hash
from .values import LedgerCall

SUM = 2
"""A flag like `SIDECHAIN`: the figures are the sum of several requests."""
ALONE = 64
"""A flag: no other session has a copy of the call."""
COMPOSED = 128
"""A flag: see `LedgerCall.is_composed`."""

COLUMNS = (
    "key", "seq", "ts", "provider", "model", "tier", "region", "flags", "input_tokens",
    "output_tokens", "cache_read_tokens",
    "cache_write_5m_tokens", "cache_write_1h_tokens", "reasoning_tokens", "web_searches",
    "invoiced", "recorded", "request_id", "superseded",
)  # fmt: skip
"""The columns of a call, besides its hash and its session. `seq` is the present number of its
event; it has no meaning in the copies."""
PRICED = (*COLUMNS[2:13], "web_searches", "invoiced", "recorded")
"""The columns that determine the price of a call."""
_PRICED_INDEXES = [COLUMNS.index(name) for name in PRICED]

_COPIED_FIELDS = (
    "session_uid", "seq", "ts", "provider", "model", "tier", "region", "input_tokens",
    "output_tokens", "cache_read_tokens",
    "cache_write_5m_tokens", "cache_write_1h_tokens", "reasoning_tokens", "web_searches",
    "is_sidechain", "is_sum", "invoiced",
    "request_id", "recorded",
)  # fmt: skip
"""The fields that may differ between the copies of a call. Stored copies name a field by its index
in this tuple, so new fields are added only at the end."""

_FIELD_BY_INDEX = dict(enumerate(_COPIED_FIELDS))
_REQUEST_ID = _COPIED_FIELDS.index("request_id")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[dict[int, Any]]).decode


def hash_of(call: Call) -> int:
    """Return the number by which the ledger finds a call; it is the same for every copy of it."""
    return _hash_of(call.session_uid, call.key)


@lru_cache(maxsize=1 << 13)
def _hash_of(uid: str, key: str) -> int:
    # Cached, because a put looks for the same call several times.
    return native_hash(uid.partition(":")[0], "call:" + key)


def costs_alike(one: Call, other: Call) -> bool:
    """Return True if two calls are alike in everything that determines a price."""
    return _priced(one) == _priced(other)


def _priced(call: Call) -> list[Any]:
    row = to_row(LedgerCall(call=call))
    return [row[n] for n in _PRICED_INDEXES]


def to_row(kept: LedgerCall) -> list[Any]:
    """Return the values of `COLUMNS` for a call."""
    call = kept.call
    flags = call.is_sidechain * SIDECHAIN | call.is_sum * SUM
    flags |= _is_alone(kept) * ALONE | kept.is_composed * COMPOSED
    return [
        call.key, call.seq, format_time(call.ts) if call.ts else None, call.provider, call.model,
        call.tier, call.region,
        flags, call.input_tokens, call.output_tokens, call.cache_read_tokens,
        call.cache_write_5m_tokens, call.cache_write_1h_tokens, call.reasoning_tokens,
        call.web_searches, call.invoiced, call.recorded,
        call.request_id, _pack_copies(call, kept.superseded) if kept.superseded else None,
    ]  # fmt: skip


def _is_alone(kept: LedgerCall) -> bool:
    return not kept.superseded or all(
        copy.session_uid == kept.call.session_uid for copy in kept.superseded
    )


def _pack_copies(call: Call, copies: Iterable[Call]) -> bytes:
    """Pack the copies of a call, each as the fields that differ from the call that counts.

    Copies are frequent, and most of their fields are the same.
    """
    counted = {**asdict(call), "seq": -1}
    return _encode(
        [
            {
                n: value
                for n, name in enumerate(_COPIED_FIELDS)
                if (value := getattr(copy, name)) != counted[name]
            }
            for copy in copies
        ]
    )


def _unpack_copies(call: Call, data: bytes) -> tuple[Call, ...]:
    counted = {**asdict(call), "seq": -1}
    copies = []
    for fields in _decode(data):
        changes = {_FIELD_BY_INDEX[n]: value for n, value in fields.items() if n in _FIELD_BY_INDEX}
        copies.append(Call(**{**counted, **changes}))
    return tuple(copies)


def has_other_request(superseded: bytes) -> bool:
    """Return True if a packed copy has another request id than the call that counts.

    This is cheaper than unpacking the copies.
    """
    return any(_REQUEST_ID in copy for copy in _decode(superseded))


def from_row(uid: str, row: Sequence[Any]) -> LedgerCall:
    """Return the call of these values, which belongs to the session of this uid."""
    (
        key, seq, ts, provider, model, tier, region, flags, fresh, output, read, written_5m,
        written_1h, reasoning, searches, invoiced,
        recorded, request_id, superseded,
    ) = row  # fmt: skip
    call = Call(
        key=key, session_uid=uid, seq=seq, ts=parse_time(ts) if ts else None, provider=provider,
        model=model, tier=tier, region=region,
        input_tokens=fresh, output_tokens=output, cache_read_tokens=read,
        cache_write_5m_tokens=written_5m,
        cache_write_1h_tokens=written_1h, reasoning_tokens=reasoning, web_searches=searches,
        is_sidechain=bool(flags & SIDECHAIN), is_sum=bool(flags & SUM), invoiced=invoiced,
        request_id=request_id, recorded=recorded,
    )  # fmt: skip
    return LedgerCall(
        call=call,
        superseded=_unpack_copies(call, superseded) if superseded else (),
        is_composed=bool(flags & COMPOSED),
    )
