"""Price lists, in whole units and as people write them, and a few prices of our own.

Ours fill gaps of genai-prices, whose own prices win. Nothing here knows how the price of a model is
looked up.
"""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Annotated, Literal

import msgspec

from ..model import USD

Match = Literal["exact", "alias", "fuzzy", "none"]
Usd = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class ListPrice(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"since": "from"}
):
    """One line of a price list, valid from a day on.

    Cache prices that are not given follow from `input`: 0.1 × to read, 1.25 × to write for 5
    minutes, 2 × for an hour. `web_search` is for a thousand, `fast` a factor on all token prices.
    """

    input: Usd
    output: Usd
    cache_read: Usd | None = None
    cache_write: Usd | None = None
    cache_write_1h: Usd | None = None
    web_search: Usd | None = None
    fast: Usd | None = None
    since: date | None = None


class Rate(msgspec.Struct, frozen=True, gc=False):
    """1e-12 USD for one token of each bucket."""

    input: int
    output: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int

    def times(self, on_input: int, on_output: int | None = None) -> Rate:
        """This rate with factors in thousandths."""
        out = on_input if on_output is None else on_output
        return Rate(
            share(self.input, on_input, 1000),
            share(self.output, out, 1000),
            share(self.cache_read, on_input, 1000),
            share(self.cache_write_5m, on_input, 1000),
            share(self.cache_write_1h, on_input, 1000),
        )


class Schedule(msgspec.Struct, frozen=True):
    """A rate, and others that take its place for the whole request when its prompt is longer:
    (above, rate), lowest first. `note` says when this is not a line of the table itself."""

    base: Rate
    steps: tuple[tuple[int, Rate], ...] = ()
    note: str | None = None

    def rate(self, prompt_tokens: int) -> tuple[Rate, int | None]:
        """What applies to a prompt of this length, and the length above which it does."""
        for above, rate in reversed(self.steps):
            if prompt_tokens > above:
                return rate, above
        return self.base, None

    def times(self, on_input: int, note: str) -> Schedule:
        return Schedule(
            self.base.times(on_input),
            tuple((above, rate.times(on_input)) for above, rate in self.steps),
            note,
        )


class Rates(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prices of one model in one window of time, with where they are from and how the model was
    found there."""

    name: str
    provider: str | None = None
    match: Match
    source: str
    since: date | None = None
    standard: Schedule
    tiers: dict[str, Schedule] = {}
    web_search: int = 0
    us_permille: int = 1000


class Window(msgspec.Struct, frozen=True):
    """When rates apply: from a day on, or at these hours (UTC) of every day from then on."""

    start: date | None
    hours: tuple[time, time] | None
    rates: Rates

    def covers(self, ts: datetime) -> bool:
        if self.start is not None and ts.date() < self.start:
            return False
        if self.hours is None:
            return True
        begin, end = self.hours
        clock = ts.time()
        return begin <= clock < end if begin <= end else clock >= begin or clock < end


class Sheet(msgspec.Struct, frozen=True):
    """All prices of one model, oldest first. A plain value: it can be stored, and spares the next
    process the import."""

    windows: tuple[Window, ...]

    def at(self, ts: datetime | None) -> Rates | None:
        for window in reversed(self.windows):
            if window.hours is None if ts is None else window.covers(ts):
                return window.rates
        return None


def make_rate(
    prompt: int,
    out: int,
    read: int | None,
    write: int | None,
    write_1h: int | None,
    defaults: tuple[int, int] = (100, 1250),
) -> Rate:
    """A rate with the cache prices that a list leaves out: `defaults` are read and 5-minute write
    in thousandths of input."""
    read = share(prompt, defaults[0], 1000) if read is None else read
    write = share(prompt, defaults[1], 1000) if write is None else write
    # An hour costs 2 × input where 5 minutes cost 1.25 ×.
    return Rate(prompt, out, read, write, share(write, 8, 5) if write_1h is None else write_1h)


def units(usd_per_million: Decimal | float) -> int:
    return round(usd_per_million * (USD // 1_000_000))


def share(amount: int, part: int, whole: int) -> int:
    """amount × part / whole, to the nearest integer: exact for every price that is listed to 1e-5
    USD per million."""
    return (amount * part + whole // 2) // whole if whole else part


# https://platform.claude.com/docs/en/about-claude/pricing, read in November 2026. Both are of
# limited availability.
BUILT_IN: dict[str, tuple[ListPrice, ...]] = {
    "claude-mythos-5": (
        ListPrice(
            input=10, output=50, cache_read=1, cache_write=12.5, cache_write_1h=20, web_search=10
        ),
    ),
    "claude-mythos-5-1": (
        ListPrice(
            input=10, output=50, cache_read=0.25, cache_write=12.5, cache_write_1h=20, web_search=10
        ),
    ),
}

# Fast mode is a factor on every token price, in thousandths. It is what the `-fast` models cost
# that genai-prices lists for a reseller (openrouter, anthropic/claude-opus-4.6-fast and so on).
# Opus 5.5: https://docs.litellm.ai/blog/claude_opus_5_5. November 2026.
FAST: dict[str, int] = {
    "claude-opus-4-6": 6000,
    "claude-opus-4-7": 6000,
    "claude-opus-4-8": 2000,
    "claude-opus-5": 2000,
    "claude-opus-5-5": 2000,
}

# Model → (above how many prompt tokens, factor on all input prices, factor on output), the factors
# in thousandths. Sonnet 4 could take longer prompts only while the 1M beta ran, at the price of
# Sonnet 4.5, as LiteLLM's table has it; genai-prices has the latter alone.
LONG: dict[str, tuple[int, int, int]] = {
    "claude-sonnet-4-0": (200_000, 2000, 1500),
}

US_ONLY = 1100
"""Inference in the US alone (`inference_geo`,
https://platform.claude.com/docs/en/manage-claude/data-residency), in thousandths: the factor `us`
of LiteLLM's table."""
