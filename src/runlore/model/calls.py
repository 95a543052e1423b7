"""API calls: the tokens of one, and one as the ledger keeps it."""

from __future__ import annotations

from datetime import UTC, datetime
from operator import attrgetter
from typing import Literal

from msgspec.structs import force_setattr

from .units import USD, parse_time
from .value import Plain

Tier = Literal["fast", "priority", "flex", "batch"]

MAX_TOKENS = 10**11
MAX_UNITS = 10**17
"""Limits of one call. A transcript may claim any number; what is stored must fit in 64 bits, even
when it is summed."""
MAX_NAME_CHARS = 200


class Usage(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens of one API call, in buckets that do not overlap (reasoning is a part of output)."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total(self) -> int:
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
        )


class Call(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """One API call, as the ledger keeps it.

    The buckets do not overlap; `reasoning_tokens` is a part of output. `key` is the same in every
    copy of the call and on every machine, and unique within the flavor. `is_sum` marks a figure
    that stands for several requests, for which no price by prompt length can be chosen. `invoiced`
    is what the provider said it charged, `recorded` what the agent itself wrote that it cost.
    """

    key: str
    """The same in every copy of the call."""
    session_uid: str
    seq: int = -1
    """The event that it is recorded in, or -1."""
    ts: datetime | None = None
    provider: str | None = None
    model: str | None = None
    tier: Tier | None = None
    region: Literal["us"] | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0
    """A part of output."""
    web_searches: int = 0
    is_sidechain: bool = False
    is_sum: bool = False
    """True if the figure stands for several requests."""
    invoiced: int | None = None
    request_id: str | None = None
    recorded: int | None = None

    def __post_init__(self) -> None:
        self._cut_names()
        self._limit_counts()
        if self.ts is not None and self.ts.tzinfo is not UTC:
            force_setattr(self, "ts", parse_time(self.ts))

    def _cut_names(self) -> None:
        for name, text in zip(_NAMES, _names_of(self), strict=True):
            if text is not None and len(text) > MAX_NAME_CHARS:
                force_setattr(self, name, text[:MAX_NAME_CHARS])

    def _limit_counts(self) -> None:
        counts = _counts_of(self)
        if min(counts) < 0 or max(counts) > MAX_TOKENS:
            for name, count in zip(_COUNTS, counts, strict=True):
                force_setattr(self, name, min(max(count, 0), MAX_TOKENS))
        for name, units in (("invoiced", self.invoiced), ("recorded", self.recorded)):
            if units is not None and not 0 <= units <= MAX_UNITS:
                force_setattr(self, name, min(max(units, 0), MAX_UNITS))

    @property
    def flavor(self) -> str:
        return self.session_uid.partition(":")[0]

    @property
    def prompt_tokens(self) -> int:
        """All tokens that the model was given; prices by prompt length depend on it."""
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_5m_tokens
            + self.cache_write_1h_tokens
        )

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.output_tokens


_NAMES = ("provider", "model", "request_id")
_names_of = attrgetter(*_NAMES)
_COUNTS = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens",
    "cache_write_1h_tokens", "reasoning_tokens",
    "web_searches",
)  # fmt: skip
_counts_of = attrgetter(*_COUNTS)


def split_cache_writes(total: int, in_5m: int, in_1h: int) -> tuple[int, int]:
    """Return the cache writes for 5 minutes and for an hour, from a sum and its parts.

    Some transcripts have zeros for the parts beside a real sum, others parts without a sum. The
    larger figure is taken, and what no part claims was written for 5 minutes.
    """
    return max(total - in_1h, in_5m), in_1h


def to_units(usd: object) -> int | None:
    """Return an amount in USD as an integer of 1e-12 USD, or None if it cannot be one."""
    if (
        isinstance(usd, bool)
        or not isinstance(usd, int | float)
        or not 0 <= usd <= MAX_UNITS // USD
    ):
        return None
    return round(usd * USD)
