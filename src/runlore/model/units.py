"""Times and money as they are written down."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from ..errors import ModelError

USD = 10**12
"""Money is an integer of 1e-12 USD, so sums are exact."""


def parse_time(value: str | datetime) -> datetime:
    """Return an aware UTC time; without an offset it is meant as UTC. Raises ModelError."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):  # the last: before year 1 or after 9999 in UTC
        raise ModelError(f"{value!r} is not a time in ISO 8601") from None


def format_time(value: datetime) -> str:
    """Return ISO 8601 with Z, always to the microsecond, so that times sort as text."""
    if value.tzinfo is not UTC:
        value = value.astimezone(UTC)
    text: str = msgspec.to_builtins(value)  # msgspec leaves out a fraction of zero.
    return text if value.microsecond else f"{text[:-1]}.000000Z"
