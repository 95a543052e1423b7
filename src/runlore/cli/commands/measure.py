"""Say whether lessons help, and how sessions go over time.

An approved lesson is withheld from a random share of the sessions that it fits ([lessons]
withhold). For each lesson: in how many sessions its problem occurred with the lesson and
without, the interval of the difference, and a verdict, which is looked at when 50, 100,
200, 400 … sessions are in the trial. With --json an object: lessons, fleet (docs/json.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import click
import msgspec

from ... import query
from ...errors import NotFound
from ...lessons import actions
from ...lessons.compare import Mean, Share
from ...lessons.measure import Effect, Snapshot, build_snapshots
from ...mine.cases import read_cases
from ...store import Filter
from ...text.words import short
from ..options import as_json, few_filters, is_paged, no_pager, open_store
from ..output import Column, note, one_line, page, paint, table, write_json

MIN_WIDTH = 20
MEANINGS = {
    "WITHHELD": "SHOWN, WITHHELD: sessions with the problem, of those with and without the lesson",
    "DIFFERENCE": "DIFFERENCE: of these two shares, in percentage points (an interval)",
    "NEXT LOOK": "NEXT LOOK: sessions in the trial so far, and at the next look at the verdict",
    "RETRIES": "SUCCESS, RETRIES, USD: with the lesson, and without it",
    "BEFORE": "BEFORE → SINCE: the problem over time; weaker evidence, which gives no verdict",
}
"""What is said about a column if it is shown."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of lessons, and the trend of sessions over time."""

    lessons: list[Effect]
    fleet: list[Snapshot]


@click.command(help=__doc__)
@few_filters
@click.option(
    "--by",
    type=click.Choice(("week", "month")),
    default="month",
    help="Periods of the development over time (default month).",
)
@no_pager
@as_json(Measurement, items="fleet")
@click.pass_context
def command(
    ctx: click.Context, chosen: Filter, by: Literal["week", "month"], is_json: bool
) -> None:
    with open_store() as (store, setting):
        if query.is_empty(store):
            raise NotFound(query.EMPTY)
        cases = read_cases(store, setting, chosen._replace(parents_only=False))
        effects = actions.measure_effects(setting, cases)
    fleet = build_snapshots(cases, by)
    if is_json:
        write_json(Measurement(lessons=effects, fleet=fleet))
        return
    if not effects:
        note(
            "no lesson was shown to a session yet; `runlore lessons list` and"
            " `runlore hooks status` say why"
        )
    page(
        [*effect_lines(effects), *([""] if effects and fleet else []), *fleet_lines(fleet)],
        pager=is_paged(ctx),
    )


def effect_lines(effects: list[Effect]) -> list[str]:
    if not effects:
        return []
    recurs = [one.recurs for one in effects]
    columns = [
        Column("LESSON", [one.id for one in effects]),
        Column("VERDICT", [one.verdict for one in effects]),
        Column("SHOWN", [format_part(one.shown, one.shown_of) for one in recurs]),
        Column("WITHHELD", [format_part(one.withheld, one.withheld_of) for one in recurs]),
        Column("DIFFERENCE", [format_bounds(one) for one in recurs]),
        Column("NEXT LOOK", [f"{one.in_trial}/{one.next_look}" for one in effects], leaves=6),
        Column("SUCCESS", [format_shares(one.success) for one in effects], leaves=4),
        Column("RETRIES", [format_means(one.retries, 1) for one in effects], leaves=3),
        Column("USD", [format_means(one.usd, 2) for one in effects], leaves=2),
        Column("BEFORE → SINCE", [format_times(one) for one in effects], leaves=5),
        Column("WHEN", [one_line(one.when) for one in effects]),
    ]
    head, *rows = table(columns, min_width=MIN_WIDTH)
    return [paint(head, "dim"), *rows, "", *explain(effects, head)]


def explain(effects: list[Effect], head: str) -> Iterator[str]:
    """Yield what to do, and what the columns mean that are shown."""
    for one in effects:
        if one.is_retiring_proposed:
            yield f"{one.id}: {one.why}; to retire it: `runlore lessons retire {one.id}`"
    for column, meaning in MEANINGS.items():
        if column in head:
            yield paint(meaning, "dim")


def format_part(number: int, total: int) -> str:
    return f"{number} of {total}"


def format_shares(share: Share) -> str:
    shown, withheld = (
        f"{number / total:.0%}" if total else "-"
        for number, total in ((share.shown, share.shown_of), (share.withheld, share.withheld_of))
    )
    return f"{shown} : {withheld}"


def format_bounds(share: Share) -> str:
    """Return the interval of the difference, in percentage points."""
    if share.low is None or share.high is None:
        return "-"
    return f"{100 * share.low:+.0f} to {100 * share.high:+.0f}"


def format_means(mean: Mean, digits: int) -> str:
    shown, withheld = (
        "-" if value is None else f"{value:.{digits}f}" for value in (mean.shown, mean.withheld)
    )
    return f"{shown} : {withheld}"


def format_times(effect: Effect) -> str:
    times = effect.before_and_since
    before = format_part(times.before, times.before_of)
    return f"{before} → {format_part(times.since, times.since_of)}"


def fleet_lines(fleet: list[Snapshot]) -> list[str]:
    if not fleet:
        return []
    columns = [
        Column("PERIOD", [one.period for one in fleet]),
        Column("SESSIONS", [str(one.sessions) for one in fleet], right=True),
        Column(
            "SUCCESS",
            [f"{one.success:,} of {one.sessions:,}" for one in fleet],
            right=True,
        ),
        Column("UNKNOWN", [f"{one.unknown:,}" for one in fleet], right=True),
        Column("FAILING", [f"{one.failing:.0%}" for one in fleet], right=True),
        Column("ERRORS", [f"{one.errors:.1f}" for one in fleet], right=True),
        Column("TOKENS P50", [short(one.tokens_p50) for one in fleet], right=True),
        Column("P90", [short(one.tokens_p90) for one in fleet], right=True),
        Column("OVERHEAD", [f"{one.overhead:.0%}" for one in fleet], right=True, leaves=2),
        Column("THRASH", [f"{one.thrash:.0%}" for one in fleet], right=True, leaves=3),
    ]
    head, *rows = table(columns)
    return [paint(head, "dim"), *rows]
