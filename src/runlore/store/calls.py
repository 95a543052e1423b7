"""API calls as a store keeps them: from a `Call` to a row of the ledger, and back. Pure; knows no
database and no price."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import asdict

from ..model import Call, format_time, parse_time
from .filters import SIDECHAIN
from .natives import native_hash
from .values import Kept

SUM = 2
"""A flag, as is `SIDECHAIN`: the figure stands for several requests."""
ALONE = 64
"""Another: no other session has a copy of it. Calls from before there was this flag do not have it,
so not to have it says nothing."""

COLUMNS = (
    "key", "seq", "ts", "provider", "model", "tier", "region", "flags", "input_tokens",
    "output_tokens", "cache_read_tokens",
    "cache_write_5m_tokens", "cache_write_1h_tokens", "reasoning_tokens", "web_searches",
    "invoiced", "request_id", "superseded",
)  # fmt: skip
"""What is kept of a call, besides its hash and its session. `seq` is where its event is now; in the
copies it says nothing."""
PRICED = (*COLUMNS[2:13], "web_searches", "invoiced")
"""What the price of a call follows from."""
_PRICED = [COLUMNS.index(name) for name in PRICED]

_COPIED = (
    "session_uid", "seq", "ts", "provider", "model", "tier", "region", "input_tokens",
    "output_tokens", "cache_read_tokens",
    "cache_write_5m_tokens", "cache_write_1h_tokens", "reasoning_tokens", "web_searches",
    "is_sidechain", "is_sum", "invoiced",
    "request_id",
)  # fmt: skip
"""What may differ between the copies of a call. Only added to at the end: what is stored names them
by their place."""

_PLACES: dict[int | str, str] = dict(enumerate(_COPIED))
_REQUEST = _COPIED.index("request_id")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[dict[int | str, Any]]).decode


def hash_of(call: Call) -> int:
    """What the ledger finds a call by: the same for every copy of it."""
    return _hash_of(call.session_uid, call.key)


@lru_cache(maxsize=1 << 13)
def _hash_of(uid: str, key: str) -> int:
    # A call is looked for half a dozen times while it is put.
    return native_hash(uid.partition(":")[0], "call:" + key)


def costs_alike(one: Call, other: Call) -> bool:
    """Whether everything that a price follows from is the same."""
    return _priced(one) == _priced(other)


def _priced(call: Call) -> list[Any]:
    row = to_row(Kept(call=call))
    return [row[n] for n in _PRICED]


def to_row(kept: Kept) -> list[Any]:
    """The values of `COLUMNS`."""
    call = kept.call
    flags = call.is_sidechain * SIDECHAIN | call.is_sum * SUM | _is_alone(kept) * ALONE
    return [
        call.key, call.seq, format_time(call.ts) if call.ts else None, call.provider, call.model,
        call.tier, call.region,
        flags, call.input_tokens, call.output_tokens, call.cache_read_tokens,
        call.cache_write_5m_tokens, call.cache_write_1h_tokens, call.reasoning_tokens,
        call.web_searches, call.invoiced,
        call.request_id, _pack_copies(call, kept.superseded) if kept.superseded else None,
    ]  # fmt: skip


def _is_alone(kept: Kept) -> bool:
    return not kept.superseded or all(
        copy.session_uid == kept.call.session_uid for copy in kept.superseded
    )


def _pack_copies(call: Call, copies: Iterable[Call]) -> bytes:
    """Of each copy only what is not as in the call that counts: a tenth of all of it, and there is
    one for every second call."""
    counts = {**asdict(call), "seq": -1}
    return _encode(
        [
            {
                n: mine
                for n, name in enumerate(_COPIED)
                if (mine := getattr(copy, name)) != counts[name]
            }
            for copy in copies
        ]
    )


def _unpack_copies(call: Call, data: bytes) -> tuple[Call, ...]:
    counts = {**asdict(call), "seq": -1}
    found = []
    for copy in _decode(data):
        if "key" in copy:  # Stores of before format 6 have all of it.
            found.append(msgspec.convert(copy, Call))
        else:
            found.append(
                Call(
                    **{**counts, **{_PLACES[n]: value for n, value in copy.items() if n in _PLACES}}
                )
            )
    return tuple(found)


def has_other_request(superseded: bytes) -> bool:
    """Whether a copy has another request id than the call that counts. Unpacking it takes ten times
    as long."""
    return any(_REQUEST in copy or "key" in copy for copy in _decode(superseded))


def from_row(uid: str, row: Sequence[Any]) -> Kept:
    """The call of these values, made in the session of this uid."""
    (
        key, seq, ts, provider, model, tier, region, flags, given, made, read, short_written,
        long_written, reasoning, searches, invoiced,
        request_id, superseded,
    ) = row  # fmt: skip
    call = Call(
        key=key, session_uid=uid, seq=seq, ts=parse_time(ts) if ts else None, provider=provider,
        model=model, tier=tier, region=region,
        input_tokens=given, output_tokens=made, cache_read_tokens=read,
        cache_write_5m_tokens=short_written,
        cache_write_1h_tokens=long_written, reasoning_tokens=reasoning, web_searches=searches,
        is_sidechain=bool(flags & SIDECHAIN), is_sum=bool(flags & SUM), invoiced=invoiced,
        request_id=request_id,
    )  # fmt: skip
    return Kept(call=call, superseded=_unpack_copies(call, superseded) if superseded else ())
