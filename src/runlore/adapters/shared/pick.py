"""Values out of foreign data, when they are what they should be: texts, counts, times, names.

Pure, and about no agent in particular.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, TypeVar

from ...errors import ModelError
from ...model import parse_time

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


def pick(value: Any, *path: str, of: type[T]) -> T | None:
    """Return the value at a path of keys if it is of this type, else None. A truth value is not a
    number."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    # Nearly always, and asked for every field of every record.
    if value is None or value.__class__ is of:
        return value
    return value if isinstance(value, of) and (of is bool or not isinstance(value, bool)) else None


def number(value: Any, most: int = 1 << 40) -> int | None:
    """Return a count as a database column can hold it, else None. The sum of a million larger ones
    would not fit."""
    return (
        int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < most
        else None
    )


def moment(seconds: float | None) -> datetime | None:
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):  # Not in the calendar.
        return None


def clean(name: str) -> str:
    """Return a name as a session's id may hold it."""
    name = name[:200].strip()
    return (
        name
        if name.isprintable()
        else "".join(c if c.isprintable() else "\ufffd" for c in name).strip()
    )


def time_of(text: Any) -> datetime | None:
    """Return a time that is written as ISO 8601, else None."""
    try:
        return parse_time(text) if isinstance(text, str) and text else None
    except ModelError:
        return None


def milliseconds(text: Any) -> int | None:
    """Return a time that is written as ISO 8601 in milliseconds since 1970."""
    found = time_of(text)
    return int(found.timestamp() * 1000) if found else None


def identifier(value: Any) -> str | None:
    """Return an id as it is written; one that is longer than any agent makes is replaced by its
    hash."""
    if not isinstance(value, str) or not value.strip():
        return None
    return (
        value
        if len(value) <= 200 and value.isprintable()
        else blake2b(value.encode("utf-8", "replace"), digest_size=16).hexdigest()
    )
