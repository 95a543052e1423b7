"""Usage: what was used and what it cost, by day, model, agent, repository or session; why; and what
was wasted. CSV of any of it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import query, usage
from ..config import Config
from ..errors import ModelError
from ..export.pages import usd
from ..model import format_time, parse_time
from ..store import CallFilter, Store
from ..text.words import short
from ..usage import Report, Zone
from ..usage.budget import Spent, budgets
from ..usage.explain import check, explain
from ..usage.report import BLOCK_HOURS
from ..usage.table import write_csv
from ..usage.waste import wasted
from .charts import WHOLE, bars, stacked
from .rendering import borrow_store, render
from .session import uid_of
from .sessions import agent_of, check_agent, facets_of

NARROWING = ("until", "on", "agent", "model", "repo", "branch", "machine", "author")
NAMES = ("by", "since", *NARROWING, "sort")
SPANS = {"today": "today", "7d": "7 days", "30d": "30 days", "90d": "90 days", "": "all"}
DAYS = 90
"""Maximum number of days in a chart."""
STEPS = {
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=31),
    "block": timedelta(hours=BLOCK_HOURS),
}
"""From the beginning of a row to that of the next; from a month's first day into the next month."""
ROWS = 200
"""Maximum number of rows in a table; CSV has all."""


class UsageQuestion(msgspec.Struct, frozen=True, kw_only=True):
    by: str
    chosen: CallFilter
    sort: str | None
    given: dict[str, str]

    @property
    def is_narrowed(self) -> bool:
        """True if it has more than a time up to now."""
        return not self.given.keys().isdisjoint(NARROWING)


class UsagePage(msgspec.Struct, frozen=True, kw_only=True):
    """A report, the sessions that its rows name, and today's budgets."""

    report: Report
    labels: dict[str, tuple[str, str | None, str | None]]
    """By uid the agent, the title and the repository."""
    budgets: list[Spent]


def parse_params(params: Mapping[str, str], now: datetime, zone: Zone) -> UsageQuestion:
    """Raises ModelError for what cannot be meant."""
    params = {usage.BY_ALIASES.get(name, name): value for name, value in params.items()}
    given = {name: value.strip() for name in NAMES if (value := params.get(name, "")).strip()}
    by = given.get("by", "day")
    by = usage.BY_ALIASES.get(by, by)
    if by not in usage.BY:
        raise ModelError(f"by={by!r} is not one of {', '.join(usage.BY)}")
    sort = given.get("sort")
    if sort is not None and sort not in usage.ORDERS:
        raise ModelError(f"sort={sort!r} is not one of {', '.join(usage.ORDERS)}")
    if "on" in given:
        given = _with_days(given, now, zone)
    since = given.get("since", "30d" if by in ("day", "block") else "")
    begin = _moment(since, now, zone) if since not in ("", "all") else None
    end = zone.moment(given["until"], now) if "until" in given else None
    return UsageQuestion(
        by=by,
        chosen=CallFilter(
            since=begin,
            until=zone.end(begin, end, now),
            agent=agent_of(given),
            model=given.get("model"),
            repo=given.get("repo"),
            branch=given.get("branch"),
            machine=given.get("machine"),
            author=given.get("author"),
        ),
        sort=sort,
        given={**given, "by": by, "since": since},
    )


def _with_days(given: dict[str, str], now: datetime, zone: Zone) -> dict[str, str]:
    """Return the parameters with the bounds of `on` in its place, which links can change."""
    rest = {name: value for name, value in given.items() if name != "on"}
    if rest.pop("since", "all") != "all" or "until" in rest:
        raise ModelError("on does not go together with since or until")
    first, last = map(zone.today, zone.span(given["on"], now))
    return {**rest, "since": first.isoformat(), "until": last.isoformat()}


def _moment(text: str, now: datetime, zone: Zone) -> datetime:
    """`30d` is the last thirty days with today, from midnight: a report has whole days."""
    if text[:-1].isdecimal() and text[-1] == "d" and len(text) < 6:
        today = zone.today(now)
        return zone.midnight(
            today - timedelta(days=min(int(text[:-1]) - 1, today.toordinal() - 719_163))
        )
    return zone.moment(text, now)


def find_usage(
    store: Store, config: Config, wanted: UsageQuestion, now: datetime, zone: Zone
) -> UsagePage:
    made = usage.report(store, wanted.by, wanted.chosen, zone=zone, order=wanted.sort)
    if not made.rows:
        check_agent(wanted.chosen.agent)
    is_named = wanted.by in ("session", "subagent")
    labels = (
        store.sessions.labels([row.key for row in made.rows[:ROWS] if row.key]) if is_named else {}
    )
    return UsagePage(report=made, labels=labels, budgets=budgets(store, config.budget, now, zone))


def behind(by: str, key: str | None) -> dict[str, str] | None:
    """Return the parameters that select the calls of a row; None if no parameter does.

    They lead from a row to its sessions, and from these to the calls.
    """
    if key is None or (by not in STEPS and by not in NAMES):
        return None
    if by not in STEPS:
        return {by: key}
    since = f"{key}-01" if by == "month" else key
    try:
        if by == "block":
            return {"since": since, "until": format_time(parse_time(since) + STEPS[by])}
        after = date.fromisoformat(since) + STEPS[by]
    except OverflowError:  # The calendar ends before.
        return {"since": since}
    return {"since": since, "until": f"{after.replace(day=1) if by == 'month' else after}"}


def without_gaps(by: str, keys: list[str]) -> list[str]:
    """The last days up to the last, with those on which nothing was used; other times as they
    are."""
    if by != "day" or not keys:
        return keys
    last = date.fromisoformat(keys[-1])
    first = max(date.fromisoformat(keys[0]), last - timedelta(days=DAYS - 1))
    return [(first + timedelta(days=n)).isoformat() for n in range((last - first).days + 1)]


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────
def page(request: Request) -> Response:
    zone, now = Zone(), datetime.now(UTC)
    with borrow_store(request) as (store, config):
        wanted = parse_params(request.query_params, now, zone)
        found = find_usage(store, config, wanted, now, zone)
        rows = found.report.rows
        is_in_time = wanted.by in STEPS
        return render(
            request,
            "usage.html",
            wanted=wanted,
            found=found,
            rows=(rows[::-1] if is_in_time and wanted.sort is None else rows)[:ROWS],
            facets=facets_of(request, store),
            kinds=usage.BY,
            spans=SPANS,
            bars=cost_chart(wanted.by, rows, zone.today(now)) if is_in_time else None,
            most=max((row.units for row in rows), default=0) or 1,
            short=short,
            behind=behind,
            waste=wasted(store, wanted.chosen),
        )


def cost_chart(by: str, rows: Sequence[usage.Row], today: date) -> Markup | None:
    """Return the bars of the last days, weeks, months or blocks, or None for less than two."""
    # Calls in the future come from a wrong clock. They would leave the chart empty until then.
    past = [row for row in rows if by != "day" or (row.key or "") <= today.isoformat()]
    shown = [row for row in past[-DAYS:] if row.key]
    if len(shown) < 2:
        return None
    chart = stacked(
        without_gaps(by, [row.key or "" for row in shown]),
        {row.key or "": {"USD": row.usd} for row in shown},
    )
    return bars(chart, usd, f"Cost by {by}", WHOLE)


def as_csv(request: Request) -> Response:
    zone, now = Zone(), datetime.now(UTC)
    with borrow_store(request) as (store, _):
        wanted = parse_params(request.query_params, now, zone)
        made = usage.report(store, wanted.by, wanted.chosen, zone=zone, order=wanted.sort)
    if not made.rows:
        check_agent(wanted.chosen.agent)
    file = io.StringIO()
    write_csv(wanted.by, made.rows, file)
    name = f'attachment; filename="usage-by-{wanted.by}.csv"'
    return Response(file.getvalue(), media_type="text/csv", headers={"content-disposition": name})


def explained(request: Request) -> Response:
    """Every call of a session, and why it counts as it does."""
    with borrow_store(request) as (store, config):
        uid = uid_of(request, store)
        return render(
            request, "explain.html", session=query.get(store, uid), made=explain(store, config, uid)
        )


def doubts(request: Request) -> Response:
    """Show calls without a certain price, and usage that no transcript records."""
    zone, now = Zone(), datetime.now(UTC)
    with borrow_store(request) as (store, _):
        wanted = parse_params({"since": "all", **request.query_params}, now, zone)
        return render(request, "doubts.html", made=check(store, wanted.chosen))


routes = [
    Route("/usage", page),
    Route("/usage.csv", as_csv),
    Route("/usage/doubts", doubts),
    Route("/usage/explain/{uid:path}", explained),
]
