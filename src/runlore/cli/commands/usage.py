"""Show tokens and cost, each API call counted once.

\b
  runlore usage --by model --days 7       the last week, today included
  runlore usage --explain latest          each call: figures, copies, price
  runlore usage --check                   what has no certain price, and why
  runlore usage --wasted                  abandoned lines, retries, failures

With --json an object: rows, total, budgets, … (docs/json.md).
"""

from __future__ import annotations

import json
import os
import select
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from ... import config, query, usage
from ...answers import Answer
from ...config import Config
from ...errors import ModelError, NotFound, StoreError
from ...pricing.fetched import ADDRESS
from ...pricing.prices import fetch, providers_of, table_of
from ...store import CallFilter, Filter, Store, open_for_reading
from ...store import open_store as open_for_writing
from ...sync import billing
from ...text.words import bounds, count
from ...usage.answers import SessionCalls, UsageDoubts, UsageReport, WasteTotals
from ...usage.budget import Spent, budgets
from ...usage.explain import check, explain
from ...usage.table import write_csv
from ...usage.waste import wasted
from .. import usage_lines
from ..options import (
    PART,
    AgentName,
    ModelName,
    RepoName,
    SessionName,
    _folder,
    as_json,
    check_days,
    is_paged,
    no_pager,
    open_store,
    skipped,
)
from ..output import echo, note, one_line, page, paint, warn, write_json

OVER_BUDGET = 3
SHOWN = {"day": 31, "week": 26, "month": 24, "block": 20}
"""Rows of a table, where nothing else is asked for; of all others 25."""
EXPLAINED = 100
"""Calls of a session, where nothing else is asked for."""
MODES = ("explain", "check", "wasted", "reprice", "refresh_prices", "statusline")


class Repricing(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that a new price sheet caused."""

    calls: int
    usd_before: float
    usd: float


class PriceRefresh(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that a new price list brought."""

    table: str
    """The version of the list."""
    models: int
    """Number of models that it knows."""
    is_new: bool
    calls: int
    usd_before: float
    usd: float


class Grouping(click.Choice[str]):
    """One of `usage.BY`, or another name of one."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(usage.BY_ALIASES.get(value, value), param, ctx)


@click.command(help=__doc__)
@click.option(
    "--by",
    type=Grouping(usage.BY),
    default="day",
    metavar="WHAT",
    help=(f"A row for each {', '.join(usage.BY[:-1])} or {usage.BY[-1]} (default day)."),
)
@click.option("--since", metavar="WHEN", help="From then on: 3d, tuesday, last week, 2026-07.")
@click.option("--until", metavar="WHEN", help="Before then.")
@click.option("--on", metavar="DAY", help="On this day, or in this week or month.")
@click.option(
    "--days",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Number of days, today included.",
)
@click.option("--agent", type=AgentName(), help="Of this agent.")
@click.option("--model", type=ModelName(), metavar="GLOB", help=f"With this model{PART}.")
@click.option(
    "--repo",
    "--project",
    "project",
    type=RepoName(),
    metavar="GLOB",
    help="In this repository, or folder; `.` is here.",
)
@click.option("--branch", metavar="GLOB", help=f"On this git branch{PART}.")
@click.option("--machine", metavar="NAME", help="From this machine.")
@click.option("--author", metavar="NAME", help="Of this person.")
@click.option("--session", type=SessionName(), help="Of this session and its subagents.")
@click.option(
    "--subagents",
    type=click.Choice(["only", "none"]),
    metavar="WHICH",
    help="Only calls of subagents, or none of them.",
)
@click.option("--timezone", metavar="ZONE", help="Time zone of days: Europe/Berlin (yours).")
@click.option(
    "--sort", type=click.Choice(usage.ORDERS), metavar="KEY", help=f"{', '.join(usage.ORDERS)}."
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help="Maximum number of rows or calls.",
)
@click.option(
    "--explain",
    type=SessionName(),
    metavar="SESSION",
    help="Show the calls of this session, and why they count.",
)
@click.option("--check", is_flag=True, help="Show what is not certain or not recorded.")
@click.option("--wasted", is_flag=True, help="Show the cost of calls that led nowhere.")
@click.option(
    "--reprice",
    is_flag=True,
    help="Price all calls without an invoice again.",
)
@click.option(
    "--refresh-prices",
    is_flag=True,
    help="Fetch the newest price list; prices that are not exact are set again.",
)
@click.option("--statusline", is_flag=True, help="One short line for a prompt.")
@click.option(
    "--fail-over-budget",
    is_flag=True,
    help=f"Exit with {OVER_BUDGET} when a budget of your config is spent.",
)
@click.option("--csv", "is_csv", is_flag=True, help="Print CSV.")
@no_pager
@as_json(
    UsageReport,
    items="rows",
    forms={
        "--explain": Answer(SessionCalls, items="calls"),
        "--check": Answer(UsageDoubts),
        "--wasted": Answer(WasteTotals),
        "--reprice": Answer(Repricing),
        "--refresh-prices": Answer(PriceRefresh),
    },
)
@click.pass_context
def command(
    ctx: click.Context, /, fail_over_budget: bool, is_csv: bool, is_json: bool, **options: Any
) -> None:
    given = _modes(options, is_csv, is_json)
    check_days(options["on"], options["since"], options["until"])
    now = datetime.now(UTC)
    zone = _zone(options["timezone"])
    if options["statusline"]:
        _statusline(now, zone)
        return
    if options["reprice"] or options["refresh_prices"]:
        _price_again(is_json, is_fetched=options["refresh_prices"])
        return
    with open_store() as (store, config):
        chosen = _chosen(store, options, now, zone)
        spent = budgets(store, config.budget, now, zone)
        if given:
            _tell(ctx, store, chosen, options, is_json)
        else:
            _report(ctx, store, chosen, zone, spent, options, is_csv, is_json)
    over = [one for one in spent if one.is_over]
    for one in over:
        name = "today" if one.name == "day" else f"{one_line(one.name)} today"
        warn(f"{name}: ${one.usd:,.2f} of a budget of ${one.limit:,.2f}")
    if over and fail_over_budget:
        ctx.exit(OVER_BUDGET)


def _modes(options: dict[str, Any], is_csv: bool, is_json: bool) -> list[str]:
    """Return the modes that were asked for. Raises UsageError for those that exclude each other."""
    given = [name for name in MODES if options[name]]
    if len(given) > 1 or (is_csv and (is_json or given)):
        raise click.UsageError(
            "these do not go together: "
            + ", ".join(f"--{name.replace('_', '-')}" for name in [*given, "csv"])
        )
    if options["statusline"] and is_json:
        raise click.UsageError(
            "--statusline is text for a prompt; programs take --by day --days 1 --json"
        )
    return given


def _zone(name: str | None) -> usage.Zone:
    try:
        return usage.Zone(name)
    except ModelError as error:
        raise click.BadParameter(str(error), param_hint="--timezone") from None


def _chosen(store: Store, options: dict[str, Any], now: datetime, zone: usage.Zone) -> CallFilter:
    try:
        since, until = bounds(
            options["since"], options["until"], options["on"], now, zone.moment, zone.span
        )
    except ModelError as error:
        raise click.BadParameter(str(error)) from None
    if options["days"]:
        if since is not None:
            raise click.UsageError("--days does not go together with --since or --on")
        today = zone.today(now)
        days = min(options["days"] - 1, today.toordinal() - 719_163)
        since = zone.midnight(today - timedelta(days=days))
    project = options["project"]
    is_folder = project is not None and project.startswith((".", "~", "/"))
    return CallFilter(
        since=since,
        until=zone.end(since, until, now),
        agent=options["agent"],
        model=options["model"],
        repo=None if is_folder else project,
        cwd=_folder(project) if is_folder else None,
        branch=options["branch"],
        machine=options["machine"],
        author=options["author"],
        session=query.resolve(store, options["session"]) if options["session"] else None,
        is_subagent=None if options["subagents"] is None else options["subagents"] == "only",
    )


def _report(
    ctx: click.Context,
    store: Store,
    chosen: CallFilter,
    zone: usage.Zone,
    spent: list[Spent],
    options: dict[str, Any],
    is_csv: bool,
    is_json: bool,
) -> None:
    by, limit = options["by"], options["limit"]
    made = usage.report(store, by, chosen, zone=zone, order=options["sort"])
    is_in_time = by in SHOWN and options["sort"] in (None, "key")
    most = limit or (len(made.rows) if is_csv or is_json else SHOWN.get(by, 25))
    rows = made.rows[-most:] if is_in_time else made.rows[: most + skipped()]
    if is_json:
        write_json(UsageReport.of(store, made, rows, chosen, spent))
    elif is_csv:
        write_csv(by, rows, sys.stdout)
    elif made.rows:
        page(usage_lines.as_table(store, made, rows, zone), pager=is_paged(ctx))
        if len(rows) < len(made.rows):
            plural = {"branch": "branches"}.get(by, f"{by}s")
            last = "the last " if is_in_time else ""
            note(
                paint(
                    f"{last}{len(rows)} of {len(made.rows):,} {plural}; -n shows more",
                    "dim",
                    sys.stderr,
                )
            )
        for line in usage_lines.marks(made.total):
            note(paint(line, "dim", sys.stderr))
    else:
        _explain_nothing(store)


def _explain_nothing(store: Store) -> None:
    """Note why there are no rows. Raises NotFound if the store is empty, as `ls` does."""
    if query.is_empty(store):
        raise NotFound(query.EMPTY)
    if store.ledger.times() is None:
        note("no call is stored; the sessions that are say nothing of tokens")
    else:
        note("no call matches; `runlore usage --by month` shows all that are stored")


def _tell(
    ctx: click.Context, store: Store, chosen: CallFilter, options: dict[str, Any], is_json: bool
) -> None:
    """Print the answers that are not a table of sums."""
    if options["explain"]:
        _explain(ctx, store, options["explain"], options["limit"], is_json)
    elif options["check"]:
        checked = check(store, chosen)
        (
            write_json(UsageDoubts.of(checked), "--check")
            if is_json
            else page(usage_lines.check_lines(checked), pager=is_paged(ctx))
        )
    else:
        found = wasted(store, chosen)
        (
            write_json(WasteTotals.from_wasted(found), "--wasted")
            if is_json
            else page(usage_lines.wasted_lines(found), pager=is_paged(ctx))
        )


def _explain(ctx: click.Context, store: Store, name: str, limit: int | None, is_json: bool) -> None:
    uid = query.resolve(store, name)
    made = explain(store, config.load(), uid, limit or EXPLAINED)
    if is_json:
        write_json(SessionCalls.of(uid, made), "--explain")
    else:
        page(usage_lines.explanation_lines(uid, made), pager=is_paged(ctx))
    if len(made.calls) < made.own.calls:
        note(
            paint(
                f"the last {len(made.calls)} of {count(made.own.calls, 'call')}; the sums are of"
                " all, -n shows more",
                "dim",
                sys.stderr,
            )
        )


def _price_again(is_json: bool, *, is_fetched: bool) -> None:
    """All that was not invoiced, or what a list that is fetched first may know better."""
    setting = config.load()
    # Says what to do when there is none; opening it for writing would make one.
    open_for_reading(setting.store).close()
    told: dict[str, Any] = _refresh(setting) if is_fetched else {}
    with closing(open_for_writing(setting.store)) as store, store.sync_lock():
        before = usage.report(store, "agent").total.usd
        calls = (
            billing.price_again(store, billing.Pricer(setting))
            if is_fetched
            else billing.reprice(store, setting)
        )
        after = usage.report(store, "agent").total.usd
    if is_json:
        figures: dict[str, Any] = {"calls": calls, "usd_before": before, "usd": after}
        if is_fetched:
            write_json(PriceRefresh(**told, **figures), "--refresh-prices")
        else:
            write_json(Repricing(**figures), "--reprice")
        return
    if told:
        echo(
            f"{'a newer list' if told['is_new'] else 'the list is as it was'}: {told['table']},"
            f" {count(told['models'], 'model')}"
        )
    echo(f"priced again: {count(calls, 'call')}; ${before:,.2f} before, ${after:,.2f} now")


def _refresh(setting: Config) -> dict[str, Any]:
    is_new = fetch(setting.home, os.environ.get(ADDRESS))
    table = table_of(setting.home)
    return {
        "table": table.version,
        "models": sum(len(provider.models) for provider in providers_of(table)),
        "is_new": is_new,
    }


# ── a line for prompts ────────────────────────────────────────────────────────────────────────────
def _statusline(now: datetime, zone: usage.Zone) -> None:
    told = read_status_input()
    cwd = told.get("cwd")
    folder = _folder(
        _project_folder(cwd if isinstance(cwd, str) and os.path.isabs(cwd) else _here())
    )
    try:
        with open_store() as (store, _):
            session = _session_here(
                store, told.get("session_id"), folder, zone.midnight(zone.today(now))
            )
            echo(
                usage_lines.status_line(
                    usage.status(store, now, zone, folder=folder, session=session), now
                )
            )
    except StoreError:
        # A prompt is no place for complaints; every other command says what is wrong.
        echo("no usage yet")


def read_status_input() -> dict[str, Any]:
    """Return the JSON that an agent passes to its status line, with `session_id` and `cwd`. Never
    blocks: the stdin of a prompt may stay open for ever."""
    try:
        if (
            sys.stdin is None
            or sys.stdin.isatty()
            or not select.select([sys.stdin], [], [], 0.01)[0]
        ):
            return {}
        data = os.read(sys.stdin.fileno(), 1 << 20)
        if not data:
            return {}
        told = json.loads(data)
    except (OSError, ValueError, TypeError, RecursionError):
        # Windows selects sockets alone; an agent may say anything.
        return {}
    return told if isinstance(told, dict) else {}


def _here() -> str:
    try:
        return os.getcwd()
    except OSError:  # Somebody removed it under the shell.
        return os.path.expanduser("~")


def _project_folder(cwd: str) -> str:
    """The repository around a folder, or the folder."""
    folder = cwd
    while not os.path.exists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return cwd
        folder = above
    return folder


def _session_here(store: Store, told: Any, folder: str, since: datetime) -> str | None:
    """The session that an agent names, else the newest of today in this project."""
    if isinstance(told, str) and told:
        found = store.sessions.find(told, limit=2)
        return found[0] if len(found) == 1 else None
    newest = store.sessions.uids(Filter(cwd=folder, since=since), limit=1)
    return newest[0] if newest else None
