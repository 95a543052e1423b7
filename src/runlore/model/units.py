"""Times and money as they are written down."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from .._units import USD as USD
from .._units import parse_time as parse_time


def format_time(value: datetime) -> str:
    """Return ISO 8601 with Z, always to the microsecond, so that times sort as text."""
    if value.tzinfo is not UTC:
        value = value.astimezone(UTC)
    text: str = msgspec.to_builtins(value)  # msgspec leaves out a fraction of zero.
    return text if value.microsecond else f"{text[:-1]}.000000Z"
