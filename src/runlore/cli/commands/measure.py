"""Say whether lessons help, and how sessions go over time.

For each lesson that was told, by hooks, in a file (`lessons render`) or because a
session asked for it: in how many sessions its problem came before and after, with the
bounds of the difference (99 %), and a verdict; `too early` until 20 sessions were
told. With --json an object: lessons, fleet (docs/json.md).
"""

from __future__ import annotations

from typing import Literal

import click
import msgspec

from ... import query
from ...errors import NotFound
from ...lessons import actions
from ...lessons.compare import Share
from ...lessons.measure import Effect, Snapshot, build_snapshots
from ...mine.cases import read_cases
from ...store import Filter
from ...text.words import short
from ..options import as_json, few_filters, is_paged, no_pager, open_store
from ..output import Column, note, one_line, page, paint, table, write_json

MIN_WIDTH = 40


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
    help="The stretches of time of the fleet (month).",
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
        found = actions.measure_effects(setting, cases)
    fleet = build_snapshots(cases, by)
    if is_json:
        write_json(Measurement(lessons=found, fleet=fleet))
        return
    if not found:
        note(
            "no lesson was told to a session yet; `runlore lessons list` and `runlore hooks status`"
            " say why"
        )
    page(
        [*effect_lines(found), *([""] if found and fleet else []), *fleet_lines(fleet)],
        pager=is_paged(ctx),
    )


def effect_lines(found: list[Effect]) -> list[str]:
    if not found:
        return []
    columns = [
        Column("LESSON", [one.id for one in found]),
        Column("VERDICT", [one.verdict for one in found]),
        Column(
            "TOLD",
            [", ".join(f"{way} {number}" for way, number in one.ways.items()) for one in found],
        ),
        Column("COMPARED", [one.compared for one in found], leaves=7),
        Column(
            "BEFORE", [of(one.recurs.before, one.recurs.before_of) for one in found], right=True
        ),
        Column("AFTER", [of(one.recurs.after, one.recurs.after_of) for one in found], right=True),
        Column("CHANGE", [bounds(one.recurs) for one in found], right=True, leaves=6),
        Column(
            "STAYS",
            [
                f"{of(one.stays.before, one.stays.before_of)} →"
                f" {of(one.stays.after, one.stays.after_of)}"
                for one in found
            ],
            leaves=4,
        ),
        Column("SUCCESS", [both(one.success) for one in found], leaves=5),
        Column(
            "RETRIES",
            [f"{one.retries.before:.1f} → {one.retries.after:.1f}" for one in found],
            leaves=3,
        ),
        Column("USD", [f"{one.usd.before:.2f} → {one.usd.after:.2f}" for one in found], leaves=2),
        Column("PROBLEM", [one_line(one.problem) for one in found]),
    ]
    head, *rows = table(columns, min_width=MIN_WIDTH)
    return [paint(head, "dim"), *rows]


def of(number: int, total: int) -> str:
    return f"{number}/{total}"


def share(number: float, total: int) -> str:
    return f"{number / total:.0%}" if total else "-"


def both(change: Share) -> str:
    return f"{share(change.before, change.before_of)} → {share(change.after, change.after_of)}"


def bounds(change: Share) -> str:
    return (
        f"{change.low:+.0%} to {change.high:+.0%}" if change.before_of and change.after_of else "-"
    )


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
