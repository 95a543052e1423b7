"""The first page: running sessions, the activity of a year, the cost of a month, the budgets."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import query, usage
from ..config import Config
from ..export.pages import usd
from ..model import format_time
from ..query import names as naming
from ..store import CallFilter, Filter, SessionLine, Store
from ..text.words import count, short
from ..usage import Row, Zone
from ..usage.budget import Spent, budgets
from .charts import Stack, bars, heatmap, stacked
from .events import state
from .failures import recurring_errors
from .live import LiveLine, running_runs
from .rendering import borrow_store, render
from .session import RUNNING

RECENT = timedelta(hours=24)
SHOWN = 6
"""Sessions under what runs now."""
DAYS = 30
ERRORS = 5
WEEKS = 53
STALE = timedelta(hours=1)
"""A session without new events for so long whose process still exists waits for someone."""


class Active(msgspec.Struct, frozen=True, kw_only=True):
    """A session that is running or ended lately. `state`: running, quiet (it may wait for
    someone), over."""

    session: SessionLine
    state: str


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the first page. Days are in the local time zone; `daily` has a value for each
    name on each day, in USD and in tokens."""

    active: list[Active]
    runs: list[LiveLine]
    sessions: int
    subagents: int
    events: int
    today: Row
    week: Row
    month: Row
    by: str
    daily_usd: Stack
    daily_tokens: Stack
    days: dict[date, query.Day]
    budgets: list[Spent]
    last_sync: datetime | None


def home(store: Store, config: Config, by: str, now: datetime, zone: Zone) -> Home:
    today = zone.today(now)
    last = last_used(store, zone, today)
    first = last - timedelta(days=DAYS - 1)
    found = usage.daily(
        store,
        by,
        CallFilter(since=zone.midnight(first), until=zone.midnight(today + timedelta(days=1))),
        zone=zone,
    )
    days = [(first + timedelta(days=n)).isoformat() for n in range(DAYS)]
    named = {day: {row.key or "unknown": row for row in rows} for day, rows in found.items()}

    def since(number: int) -> Row:
        some = [(today - timedelta(days=n)).isoformat() for n in range(number)]
        return usage.total(row for day in some for row in found.get(day, ()))

    return Home(
        active=active(store, now),
        runs=running_runs(config),
        sessions=store.sessions.count(Filter()),
        subagents=store.sessions.count(Filter(parents_only=False)) - store.sessions.count(Filter()),
        events=state(store, None).events,
        today=since(1),
        week=since(7),
        month=since(DAYS),
        by=by,
        daily_usd=stacked(
            days,
            {day: {name: row.usd for name, row in rows.items()} for day, rows in named.items()},
        ),
        daily_tokens=stacked(
            days,
            {
                day: {name: float(row.total_tokens) for name, row in rows.items()}
                for day, rows in named.items()
            },
        ),
        days=_past_days(
            query.activity(store, zone.midnight(today - timedelta(days=7 * WEEKS)), zone.today),
            today,
        ),
        budgets=budgets(store, config.budget, now, zone),
        last_sync=query.last_sync(config),
    )


def _past_days(days: dict[date, query.Day], today: date) -> dict[date, query.Day]:
    """Return the days up to today. Later ones come from a wrong clock."""
    return {day: one for day, one in days.items() if day <= today}


def last_used(store: Store, zone: Zone, today: date) -> date:
    """Return the last day of the chart: today, or the last day with usage if that is too long ago
    to be in the chart. Calls in the future come from a wrong clock and are ignored."""
    tomorrow = zone.midnight(today + timedelta(days=1))
    last = store.overview.last_call(tomorrow)
    if last is None or (day := zone.today(last)) > today - timedelta(days=DAYS):
        return today
    return day


def active(store: Store, now: datetime) -> list[Active]:
    """Return the sessions of the last day; if there are none, the latest ones."""
    # Further in the future no clock is right: what it wrote would stand here for years.
    until = now + RECENT

    def latest(since: datetime | None) -> list[SessionLine]:
        # There are few of these, if any.
        some = store.sessions.select(Filter(since=since, until=until), limit=4 * SHOWN)
        return [line for line in some if (line.ended_at or "") <= format_time(until)][:SHOWN]

    lines = latest(now - RECENT) or latest(None)
    found = []
    for line in lines:
        age = now - datetime.fromisoformat(line.ended_at) if line.ended_at else RECENT
        may_wait = abs(age) < STALE and line.outcome not in ("success", "fail")
        found.append(
            Active(
                session=line,
                state="running" if abs(age) < RUNNING else "quiet" if may_wait else "over",
            )
        )
    return found


def page(request: Request) -> Response:
    by = "agent" if request.query_params.get("by") == "agent" else "model"
    is_tokens = request.query_params.get("show") == "tokens"
    with borrow_store(request) as (store, config):
        zone, now = Zone(), datetime.now(UTC)
        found = home(store, config, by, now, zone)
        errors = recurring_errors(request, store, now)
        chart, say = (found.daily_tokens, short) if is_tokens else (found.daily_usd, usd)
        what = "Tokens" if is_tokens else "Cost"
        last = zone.today(now)
        begun = {day: one.sessions for day, one in found.days.items()}
        return render(
            request,
            "home.html",
            home=found,
            errors=[error for error in errors if error.trend != "stopped"][:ERRORS]
            or errors[:ERRORS],
            names=naming.names(store, [one.session.uid for one in found.active]),
            has_price=bool(found.month.units),
            is_tokens=is_tokens,
            chart=chart,
            chart_calls=bool(found.daily_tokens.names),
            say=say,
            bars=bars(chart, say, f"{what} on each of the last {DAYS} days by {by}"),
            heat=heatmap(
                last - timedelta(days=7 * WEEKS - 1),
                last,
                begun,
                lambda number: count(number, "session"),
            ),
            heat_days=sorted(found.days.items(), reverse=True),
            one_day=timedelta(days=1),
            is_past=chart.days[-1] != last.isoformat(),
            is_empty=not found.sessions,
        )


routes = [Route("/", page)]
