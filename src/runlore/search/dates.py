"""The time that a question names: "in May", "last week", "on 2026-03-14".

It is a hint: sessions of that time are preferred, others are still found. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

from ..errors import RunloreError
from ..text.words import moment, span

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            ("january", "jan"), ("february", "feb"), ("march", "mar"), ("april", "apr"), ("may",),
            ("june", "jun"), ("july", "jul"), ("august", "aug"),
            ("september", "sep", "sept"), ("october", "oct"), ("november", "nov"),
            ("december", "dec"),
        ),
        1,
    )
    for name in names
}  # fmt: skip
_BEFORE_MONTH = frozenset({"in", "of", "since", "during", "last", "this", "early", "late", "mid"})
"""Words before `may` and `march` that say that a month is meant."""
_AMBIGUOUS = frozenset({"may", "march", "mar", "jan", "sep", "dec"})
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)$")
_DAY, _YEAR = re.compile("[1-9]|[12][0-9]|3[01]"), re.compile("[12][0-9]{3}")
_UNITS = frozenset({"day", "days", "week", "weeks", "month", "months", "year", "years"})


class Period(NamedTuple):
    """A time, and the words of the question that name it."""

    first: datetime
    last: datetime
    words: frozenset[str]


def find_period(words: Sequence[str], now: datetime | None = None) -> Period | None:
    """Return the first time that the words of a question name."""
    now = now or datetime.now(UTC)
    bare = [word.strip(".,;:!?()\"'").lower() for word in words]
    for at in range(len(bare)):
        for name, used in _readings(bare, at, now):
            try:
                first, last = _span(name, now)
            except (RunloreError, ValueError, OverflowError, OSError):
                continue
            return Period(first, last, frozenset(used))
    return None


def _readings(words: Sequence[str], at: int, now: datetime) -> Iterator[tuple[str, list[str]]]:
    """Yield how the words from here on may name a time, the longest reading first."""
    three, two = list(words[at : at + 3]), list(words[at : at + 2])
    if len(three) == 3 and three[0].isdigit() and three[1] in _UNITS and three[2] == "ago":
        yield " ".join(three), three
    if two[0] in ("last", "this") and len(two) == 2:
        yield " ".join(two), two
    yield from _months(words, at, now)
    if two[0] in ("today", "yesterday") or two[0].count("-") in (1, 2):
        yield two[0], two[:1]
    is_named = at > 0 and words[at - 1] in ("on", "in", "since", "during", "of")
    if is_named and two[0].isalnum() and (not two[0].isdigit() or len(two[0]) == 4):
        yield two[0], two[:1]


def _months(words: Sequence[str], at: int, now: datetime) -> Iterator[tuple[str, list[str]]]:
    """Yield the month that is named here: in its year if that follows, else the last one."""
    name, before = words[at], words[at - 1] if at else ""
    if name not in _MONTHS:
        return
    after = [_ORDINAL.sub("", word) for word in words[at + 1 : at + 3]]
    day = next((word for word in (*after[:1], before) if _DAY.fullmatch(word)), "")
    year = next((word for word in after if _YEAR.fullmatch(word)), "")
    if name in _AMBIGUOUS and not (day or year or before in _BEFORE_MONTH):
        return
    month, today = _MONTHS[name], now.astimezone().date()
    number = int(year or today.year - (date(today.year, month, 1) > today))
    text = f"{number}-{month:02}" + (f"-{int(day):02}" if day else "")
    yield text, [name, day, year, before if before in _BEFORE_MONTH else ""]


def _span(name: str, now: datetime) -> tuple[datetime, datetime]:
    if name.endswith(" ago"):
        # People round: "two weeks ago" is some day about then.
        then = moment(name, now)
        margin = (now - then) / 4
        return then - margin, then + margin
    return span(name, now)
