"""The usage of API calls in a live session log, in the form of any provider. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...model import Usage, split_cache_writes

# A larger count is damage. The sum over a million events still fits a database column.
MAX_COUNT = 1 << 40
_TIERS = ("fast", "priority", "flex", "batch")
_DETAILS = (
    "prompt_tokens_details",
    "input_tokens_details",
    "completion_tokens_details",
    "output_tokens_details",
)


def usage_of(value: Any) -> Usage | None:
    """Return the tokens of any provider's usage, in buckets that do not overlap; None when there
    are none.

    `prompt_tokens` includes the cached tokens, `input_tokens` does not, unless
    `input_tokens_details` counts them, or the total is too small for both.
    """
    if not isinstance(value, dict):
        return None
    sent = _count(value, "input_tokens", "prompt_tokens", "prompt_token_count")
    received = _count(value, "output_tokens", "completion_tokens")
    read = _count(value, "cache_read_input_tokens", "cache_read_tokens")
    written = _count(value, "cache_creation_input_tokens", "cache_write_tokens")
    inside, reasoned = 0, _count(value, "reasoning_tokens")
    for name in _DETAILS:
        if isinstance(details := value.get(name), dict):
            inside = max(inside, _count(details, "cached_tokens"))
            reasoned = max(reasoned, _count(details, "reasoning_tokens"))
    if read and sent + received == _count(value, "total_tokens"):
        inside, read = max(inside, read), 0
    usage = Usage(
        input_tokens=max(0, sent - inside),
        output_tokens=received,
        cache_read_tokens=read or min(inside, sent),
        cache_write_tokens=written,
        reasoning_tokens=min(reasoned, received),
    )
    return usage if usage.total else None


def spent_of(usage: Usage, value: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage as the fields of an API call, with the lifetime of cache writes, the service
    tier, the provider and the model."""
    parts, tools = value.get("cache_creation"), value.get("server_tool_use")
    in_5m, in_1h = (
        _count(parts, f"ephemeral_{ttl}_input_tokens") if isinstance(parts, dict) else 0
        for ttl in ("5m", "1h")
    )
    write_5m, write_1h = split_cache_writes(usage.cache_write_tokens, in_5m, in_1h)
    tier = value.get("service_tier")
    return dict(
        provider=_name(about, "provider"), model=_name(about, "model"),
        tier=tier if tier in _TIERS else None,
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_5m_tokens=write_5m, cache_write_1h_tokens=write_1h,
        reasoning_tokens=usage.reasoning_tokens,
        web_searches=_count(tools, "web_search_requests") if isinstance(tools, dict) else 0,
    )  # fmt: skip


def _name(about: Mapping[str, Any], name: str) -> str | None:
    value = about.get(name)
    return value[:200] if isinstance(value, str) and value else None


def _count(value: Mapping[str, Any], *names: str) -> int:
    for name in names:
        count = value.get(name)
        if type(count) is int and 0 < count < MAX_COUNT:
            return count
    return 0
