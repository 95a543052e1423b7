"""Tokens and invoices in Grok Build's transcripts. Pure."""

from __future__ import annotations

from typing import Any

from ...model import Usage
from ..shared.pick import number, pick

TICK = 100
"""One tick in units of 1e-12 USD: ten thousand million ticks are a dollar."""


def usage_of(counts: dict[str, Any]) -> Usage:
    """Return the usage in buckets that do not overlap: the input includes the tokens that were read
    from and written to the cache."""
    names = (
        "inputTokens",
        "cachedReadTokens",
        "cacheCreationTokens",
        "outputTokens",
        "reasoningTokens",
    )
    sent, read, written, received, reasoned = (number(counts.get(name)) or 0 for name in names)
    return Usage(
        input_tokens=max(0, sent - read - written),
        output_tokens=received,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(reasoned, received),
    )


def ticks_of(counts: dict[str, Any]) -> int | None:
    """Return the invoiced amount; None when it is not written, which is not the same as 0."""
    return number(counts.get("costUsdTicks"), 1 << 62)


def bill_of(counts: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Return the exact invoiced amount as extra fields of an event, with a mark when it is
    incomplete."""
    bill: dict[str, Any] = {}
    ticks = ticks_of(counts)
    if ticks is not None:
        bill["cost_usd_ticks"] = ticks
    if whole.get("usageIsIncomplete") is True or counts.get("costIsPartial") is True:
        bill["cost_is_partial"] = True
    return bill


def by_model(usage: dict[str, Any]) -> list[tuple[str | None, dict[str, Any]]]:
    """Return the counts of a turn, by model where these add up to the whole, else as they are."""
    parts = pick(usage, "modelUsage", of=dict) or {}
    rows = [
        (model[:200], counts)
        for model, counts in list(parts.items())[:100]
        if isinstance(counts, dict)
    ]
    if len(rows) == 1:
        return [(rows[0][0], usage)]
    names = (
        "inputTokens",
        "outputTokens",
        "cachedReadTokens",
        "cacheCreationTokens",
        "costUsdTicks",
    )
    adds_up = all(
        sum(number(row.get(name), 1 << 62) or 0 for _, row in rows)
        == (number(usage.get(name), 1 << 62) or 0)
        for name in names
    )
    return list(rows) if rows and adds_up else [(None, usage)]
