"""Times and money as they are written down. Imports next to nothing: every list and report needs it."""

from __future__ import annotations

from datetime import UTC, datetime

from .errors import ModelError

USD = 10**12
"""Money is an integer of 1e-12 USD: a token of the cheapest model is still a whole number, and sums are exact."""


def parse_time(value: str | datetime) -> datetime:
    """An aware UTC time. Text without an offset is read as UTC; anything that is not a time raises ModelError."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        if moment.tzinfo is UTC:  # Nearly always, and every event that is read has one.
            return moment
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):  # the last: in UTC it would lie before year 1 or after 9999
        raise ModelError(f"{value!r} is not a time in ISO 8601") from None


def format_time(value: datetime) -> str:
    """ISO 8601 with Z, always to the microsecond: what stands on disk, and sorts as text."""
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
