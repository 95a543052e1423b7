"""Numbers, sizes and times in the words of people. Pure; nothing here prints."""

from __future__ import annotations

import re
from calendar import isleap
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Literal

from ..errors import ModelError
from ..model import parse_time

_BACK = {
    "min": "minutes", "m": "minutes", "h": "hours", "d": "days", "w": "weeks",
    "minute": "minutes", "hour": "hours", "day": "days", "week": "weeks",
    "minutes": "minutes", "hours": "hours", "days": "days", "weeks": "weeks",
}  # fmt: skip
TRY_TIMES = "try 3d, 24h, tuesday, last week, 2026-07 or 2026-03-14"
TRY_DAYS = "try yesterday, tuesday, last week, 2026-07 or 2026-03-14"


def count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def short(number: float) -> str:
    """Return a number as 999, 1.2k, 34k, 1.2M."""
    for unit in ("", "k", "M", "G"):
        if number < 999.5 or unit == "G":
            break
        number /= 1000
    return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"


def usd(value: float | None, unpriced: int = 0) -> str:
    """Return a cost with the digits that matter: $0.0042, $0.37, $12.40, $1,234. It is marked if
    the price of some calls is not known: $0.37*; if of all, it is a dash."""
    if not is_cost_known(value, unpriced):
        return "–"
    assert value is not None
    if 0 < value < 0.01:
        amount = f"${value:.4f}"
    else:
        amount = f"${value:,.2f}" if value < 1000 else f"${value:,.0f}"
    return amount + PARTLY_PRICED * bool(unpriced)


def usd_cell(value: float | None, unpriced: int = 0) -> str:
    """Return a cost for a table whose head says USD, with the mark of `usd`; empty if unknown."""
    if not is_cost_known(value, unpriced):
        return ""
    assert value is not None
    amount = f"{value:,.2f}" if value >= 0.005 or not value else "<0.01"
    return amount + PARTLY_PRICED * bool(unpriced)


PARTLY_PRICED = "*"
"""Marks a cost without some calls, see `without_price`."""


def is_cost_known(value: float | None, unpriced: int) -> bool:
    """Return False if no call has a price, or those that have one were free."""
    return value is not None and not (unpriced and not value)


def without_price(unpriced: int) -> str:
    """Return what the mark of a cost means."""
    return f"excludes {count(unpriced, 'call')} without a known price"


def with_subagents(whole: str, alone: str, subagents: int, unit: str = "") -> str:
    """Return a figure of a session with and without its subagents, if these make a difference."""
    suffix = describe_subagents(whole, alone, subagents)
    return f"{whole}{unit} {suffix}" if suffix else f"{alone}{unit}"


def describe_subagents(whole: str, alone: str, subagents: int) -> str:
    """Return the words after the figure of a session with its subagents, if these make a
    difference."""
    return "" if whole == alone else f"with {count(subagents, 'subagent')}, {alone} without"


def errors_of(whole: int, alone: int, subagents: int) -> str:
    """Return the errors of a session with and without its subagents."""
    unit = " error" if whole == 1 else " errors"
    return with_subagents(f"{whole:,}", f"{alone:,}", subagents, unit)


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
    """Return the time that people write as `3d`, `24h`, `tuesday`, `last week`, `july`, `2026-07`,
    a date or ISO 8601: of a day, week or month its beginning.

    A time without an offset is local. Raises ModelError.
    """
    word = " ".join(text.lower().split())
    if word == "now":
        return now
    if (back := _time_back(word)) is not None:
        return now - back
    try:
        if (days := period(text, now.astimezone().date())) is not None:
            return _midnight(days[0])
        time = datetime.fromisoformat(text.strip())
        return parse_time(time if time.tzinfo else time.astimezone())
    except (ValueError, OverflowError):
        # OverflowError, and sometimes ValueError: the local time is beyond the calendar.
        raise ModelError(f"{text!r} is not a time: {TRY_TIMES}") from None


def span(text: str, now: datetime) -> tuple[datetime, datetime]:
    """Return the beginning and the end of the local day, week, month or year that a text names.

    Raises ModelError.
    """
    try:
        first, last = days_of(text, now.astimezone().date())
        return _midnight(first), _midnight(last)
    except (ValueError, OverflowError):
        raise ModelError(f"{text!r} is not a day: {TRY_DAYS}") from None


Bounds = tuple[datetime | None, datetime | None]


def bounds(
    since: str | None,
    until: str | None,
    on: str | None,
    now: datetime,
    moment: Callable[[str, datetime], datetime] = moment,
    span: Callable[[str, datetime], tuple[datetime, datetime]] = span,
) -> Bounds:
    """Return the start and the end of a time filter, parsed from text; None or "" means no limit.

    Raises ModelError, also if `on` is given with one of the others.
    """
    if on and (since or until):
        raise ModelError("on does not go together with since or until")
    if on:
        return span(on, now)
    return moment(since, now) if since else None, moment(until, now) if until else None


Unit = Literal["day", "week", "month", "year"]


def days_of(text: str, today: date) -> tuple[date, date]:
    """Return the first day of the period that a text names, and the first day after it.

    Raises ModelError, and OverflowError at the end of the calendar.
    """
    named = period(text, today)
    if named is None:
        raise ModelError(f"{text!r} is not a day: {TRY_DAYS}")
    first, unit = named
    return first, _following(first, unit)


def period(text: str, today: date) -> tuple[date, Unit] | None:
    """Return the first day of the day, week, month or year that a text names, and which of them it
    is; None if it names none.

    A weekday and a month are the last ones there were, today included; `last tuesday` is before
    today. Raises ValueError for a month or day that no calendar has.
    """
    word = " ".join(text.lower().split())
    if word in ("today", "yesterday"):
        return today - timedelta(days=word == "yesterday"), "day"
    which, _, name = word.rpartition(" ")
    if which in ("", "last") and name in _WEEKDAYS:
        back = (today.weekday() - _WEEKDAYS[name]) % 7
        return today - timedelta(days=back or 7 * (which == "last")), "day"
    if which in ("this", "last") and name in _UNITS:
        unit = _UNITS[name]
        first = _beginning(today, unit)
        return first if which == "this" else _beginning(first - timedelta(days=1), unit), unit
    if match := _DATE.fullmatch(word):
        year, month, day = match.groups()
        unit = "day" if day else "month" if month else "year"
        return date(int(year), int(month or 1), int(day or 1)), unit
    if match := _MONTH.fullmatch(word):
        number = _MONTHS.index(match[1][:3]) + 1
        in_year = int(match[2]) if match[2] else today.year - (number > today.month)
        return date(in_year, number, 1), "month"
    return None


def _beginning(day: date, unit: Unit) -> date:
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if unit == "month" else day.replace(month=1, day=1)


def _following(first: date, unit: Unit) -> date:
    """Return the first day after a period."""
    if unit == "month":
        return _beginning(first + timedelta(days=31), unit)
    return first + timedelta(days={"day": 1, "week": 7, "year": 365 + isleap(first.year)}[unit])


def _time_back(word: str) -> timedelta | None:
    """Return the time that `3d`, `90 min` or `2 weeks ago` is before now."""
    match = _AGO.fullmatch(word)
    unit = _BACK.get(match[2]) if match else None
    return timedelta(**{unit: int(match[1])}) if match and unit else None


def _midnight(day: date) -> datetime:
    # The offset at that midnight may differ from the offset now.
    return parse_time(datetime(day.year, day.month, day.day).astimezone())


_WEEKDAYS = {
    name: number for number, names in enumerate((
        ("monday", "mon"), ("tuesday", "tue", "tues"), ("wednesday", "wed"),
        ("thursday", "thu", "thur", "thurs"), ("friday", "fri"), ("saturday", "sat"),
        ("sunday", "sun"),
    )) for name in names
}  # fmt: skip
_UNITS: dict[str, Unit] = {"week": "week", "month": "month", "year": "year"}
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = re.compile(
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)(?: (\d{4}))?",
    re.ASCII,
)
_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)
_AGO = re.compile(r"(?:(?:last|past) )?(\d{1,5}) ?([a-z]+?)(?: ago)?", re.ASCII)
