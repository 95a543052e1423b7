"""Numbers, sizes and times in the words of people. Pure; nothing here prints."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from ..errors import ModelError
from ..model import parse_time

_BACK = {"min": "minutes", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def short(number: float) -> str:
    """Return a number as 999, 1.2k, 34k, 1.2M."""
    for unit in ("", "k", "M", "G"):
        if number < 999.5 or unit == "G":
            break
        number /= 1000
    return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"


def usd(value: float | None) -> str:
    """Return an amount with the digits that matter: $0.0042, $0.37, $12.40, $1,234."""
    if value is None:
        return "–"
    if 0 < value < 0.01:
        return f"${value:.4f}"
    return f"${value:,.2f}" if value < 1000 else f"${value:,.0f}"


def with_subagents(whole: str, alone: str, subagents: int, unit: str = "") -> str:
    """Return a figure of a session with and without its subagents, if these make a difference."""
    if whole == alone:
        return f"{alone}{unit}"
    return f"{whole}{unit} with {count(subagents, 'subagent')}, {alone} without"


def size(number: float) -> str:
    """Return a number of bytes as 812 B, 3.4 kB, 120 MB."""
    text = short(number)
    return f"{text[:-1]} {text[-1]}B" if text[-1].isalpha() else f"{text} B"


def duration(seconds: float) -> str:
    """Return a duration as 0.3 s, 42 s, 12 min, 1 h 08."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02}"


def brief(seconds: float) -> str:
    """Return a duration as 42s, 12m, 1h08, for a narrow column."""
    minutes = round(seconds / 60)
    if seconds < 99.5:
        return f"{seconds:.0f}s"
    return f"{minutes}m" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}"


def ago(moment: datetime, now: datetime) -> str:
    """Return a time as 4 min ago, 3 h ago, 2 d ago, or the local date."""
    gone = now - moment
    days, seconds = gone.days, gone.seconds
    if not 0 <= days < 7:
        return date.fromtimestamp(moment.timestamp()).isoformat()  # noqa: DTZ012 (the local day)
    if days:
        return f"{days} d ago"
    if seconds < 60:
        return "now"
    return f"{seconds // 60} min ago" if seconds < 3600 else f"{seconds // 3600} h ago"


def local(moment: datetime | None, pattern: str = "%Y-%m-%d %H:%M") -> str:
    return moment.astimezone().strftime(pattern) if moment else "?"


def moment(text: str, now: datetime) -> datetime:
    """Return the time that people write as `7d`, `24h`, `yesterday`, `today`, a date or ISO 8601.

    A time without an offset is local. Raises ModelError.
    """
    word = text.strip().lower()
    unit = word.lstrip("0123456789")
    if unit.strip() in _BACK and 0 < len(number := word.removesuffix(unit)) <= 5:
        return now - timedelta(**{_BACK[unit.strip()]: int(number)})
    if word in ("today", "yesterday", "now"):
        if word == "now":
            return now
        day = now.astimezone() - timedelta(days=word == "yesterday")
        # Without its offset, which at midnight may have been another one.
        return day.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None).astimezone(UTC)
    try:
        time = datetime.fromisoformat(text.strip())
        return parse_time(time if time.tzinfo else time.astimezone())
    except (ValueError, OverflowError):
        # OverflowError, and sometimes ValueError: the local time is beyond the calendar.
        raise ModelError(f"{text!r} is not a time: try 7d, 24h, yesterday or 2026-03-14") from None
