"""The beginnings of days in a person's time zone. Pure arithmetic over the rules of the system or
the zone; knows no calls.

A zone is a function from a moment to its distance from UTC. The store does the sums, and gets the
spans in which that distance does not change: so a day on which the clock was set has 23 or 25
hours, as it had.
"""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from ..errors import ModelError
from ..model import parse_time
from ..text import words

DAY = 86_400
STEP = 7 * DAY
"""Between two looks at the clock: no zone has changed its distance twice in a week and gone
back."""
FIRST, LAST = 0, 4_102_444_800
"""1970 and 2100: a strange transcript may name any year, and nobody knows the rules of the year
9999."""
ORDINAL = date(1970, 1, 1).toordinal()


class Zone:
    """A time zone by its name, or that of this machine. Raises ModelError for a name that nobody
    knows."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name or "local"
        self._info = _load(name) if name else None

    def offset(self, moment: float) -> int:
        """Seconds to add to UTC at a moment, which is in seconds since 1970."""
        moment = min(max(moment, FIRST), LAST)
        if self._info is None:
            return time.localtime(moment).tm_gmtoff
        delta = self._info.utcoffset(datetime.fromtimestamp(moment, self._info))
        return int(delta.total_seconds()) if delta else 0

    def spans(self, first: float, last: float) -> list[tuple[int, int]]:
        """(from when on, seconds to add) for all the time between the two."""
        at, end = int(min(max(first, FIRST), LAST)), int(min(max(last, FIRST), LAST))
        found = [(at, self.offset(at))]
        while at < end:
            following = min(at + STEP, end)
            if self.offset(following) != found[-1][1]:
                change = self._change(at, following)
                found.append((change, self.offset(change)))
                at = change
            else:
                at = following
        return found

    def _change(self, low: int, high: int) -> int:
        """The first second with another offset than `low`, at which it is not that of `high`."""
        before = self.offset(low)
        while high - low > 1:
            middle = (low + high) // 2
            if self.offset(middle) == before:
                low = middle
            else:
                high = middle
        return high

    def midnight(self, day: date) -> datetime:
        """Return the beginning of a day here, in UTC."""
        return self._when((day.toordinal() - ORDINAL) * DAY)

    def _when(self, local: float) -> datetime:
        """The first moment at which the clock here shows this time, in seconds since 1970 as if
        there were no zones; or a later one, where the clock was set past it: some do that at
        midnight."""
        before, after = int(local) - 2 * DAY, int(local) + 2 * DAY
        for moment in sorted(local - self.offset(near) for near in (before, after)):
            if abs(moment + self.offset(moment) - local) < 1:
                return _at(moment)
        return _at(self._change(before, after))

    def today(self, now: datetime) -> date:
        moment = now.timestamp()
        return date.fromordinal(ORDINAL + int(moment + self.offset(moment)) // DAY)

    def end(self, since: datetime | None, until: datetime | None, now: datetime) -> datetime | None:
        """Return the end of a period that begins at `since`: `until` if that is given, else the end
        of today. Later calls are those of a wrong clock, and in none of the last days."""
        if until is not None or since is None or since > now:
            return until
        return self.midnight(self.today(now) + timedelta(days=1))

    def moment(self, text: str, now: datetime) -> datetime:
        """A time in the words of people, as `text.words` has it, but meant in this zone. Raises
        ModelError."""
        try:
            if (days := words.period(text, self.today(now))) is not None:
                return self.midnight(days[0])
            naive = datetime.fromisoformat(text.strip())
        except ValueError:
            return words.moment(text, now)
        if naive.tzinfo is not None:
            return parse_time(naive)
        return self._when(naive.replace(tzinfo=UTC).timestamp())

    def span(self, text: str, now: datetime) -> tuple[datetime, datetime]:
        """Return the beginning and the end of the day, week, month or year that a text names, in
        this zone. Raises ModelError."""
        try:
            first, last = words.days_of(text, self.today(now))
            return self.midnight(first), self.midnight(last)
        except (ValueError, OverflowError):
            raise ModelError(f"{text!r} is not a day: {words.TRY_DAYS}") from None


def _at(moment: float) -> datetime:
    """Not `fromtimestamp`, which knows no time before 1970 on some systems. Raises ModelError for
    what is in no calendar."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=moment)
    except OverflowError:
        raise ModelError("no such time; the calendar has the years 1 to 9999") from None


def _load(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        # ZoneInfoNotFoundError is a KeyError; a name like "../x" is a ValueError.
        raise ModelError(f"there is no time zone {name!r}; try Europe/Berlin or UTC") from None
