"""List what keeps happening: errors, retries, corrections, cost.

Each occurred in at least two unrelated sessions. Sessions without real work do not count. Examples
can be read with `runlore show ID#SEQ`. With --json an array (docs/json.md).
"""

from __future__ import annotations

import click
from msgspec import convert

from ... import query
from ...errors import NotFound
from ...mine.cases import mine_store
from ...mine.signals import load_miners
from ...mine.values import Pattern, PatternFacts
from ...query import names as naming
from ...store import Filter
from ...text.words import count
from ..options import (
    as_json,
    few_filters,
    is_paged,
    least_option,
    limit_option,
    no_pager,
    open_store,
    skipped,
)
from ..output import Column, echo, note, one_line, page, paint, table, write_json

MIN_WIDTH = 40


@click.command(help=__doc__)
@few_filters
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="NAME",
    help="Only these; `all` alone lists their names.",
)
@least_option
@limit_option("patterns", 30)
@no_pager
@as_json(list[PatternFacts], items="")
@click.pass_context
def command(
    ctx: click.Context,
    chosen: Filter,
    types: tuple[str, ...],
    least: int,
    limit: int,
    is_json: bool,
) -> None:
    if types == ("all",) and not is_json:
        echo("\n".join(load_miners()))
        return
    if unknown := sorted(set(types) - load_miners().keys()):
        raise click.BadParameter(
            f"{', '.join(unknown)} is none of {', '.join(load_miners())}", param_hint="--type"
        )
    with open_store() as (store, setting):
        if query.is_empty(store):
            raise NotFound(query.EMPTY)
        found = mine_store(store, setting, chosen._replace(parents_only=False), min_sessions=least)
        found = [pattern for pattern in found if not types or pattern.type in types]
        shown = found[: limit + skipped()]
        names = (
            {}
            if is_json
            else naming.names(
                store,
                sorted(
                    {query.split_name(one)[0] for pattern in shown for one in examples(pattern)}
                ),
            )
        )
    if is_json:
        write_json([convert(pattern, PatternFacts, from_attributes=True) for pattern in shown])
        return
    if not found:
        note("nothing recurs in these sessions")
        return
    page(as_lines(shown, names), pager=is_paged(ctx))
    if len(found) > len(shown):
        note(f"{len(shown)} of {count(len(found), 'pattern')}; -n {len(found)} shows them all")


def examples(pattern: Pattern) -> tuple[str, ...]:
    return pattern.examples[:2]


def as_lines(found: list[Pattern], names: dict[str, str]) -> list[str]:
    columns = [
        Column("SESSIONS", [str(pattern.sessions) for pattern in found], right=True),
        Column("TYPE", [pattern.type.replace("_", " ") for pattern in found]),
        Column("TREND", [pattern.trend for pattern in found], leaves=5),
        Column("AGENTS", [str(len(pattern.agents)) for pattern in found], right=True, leaves=3),
        Column(
            "USD",
            [f"{pattern.usd:.2f}" if pattern.usd else "" for pattern in found],
            right=True,
            leaves=2,
        ),
        Column("LAST", [pattern.last_at[:10] for pattern in found], leaves=4),
        Column(
            "WHERE",
            [(pattern.repo or "").rpartition("/")[2] for pattern in found],
            max_width=16,
            leaves=6,
        ),
        Column("WHAT", [one_line(pattern.what) for pattern in found]),
    ]
    head, *rows = table(columns, min_width=MIN_WIDTH)
    lines = [paint(head, "dim")]
    for pattern, row in zip(found, rows, strict=True):
        places = map(query.split_name, examples(pattern))
        some = [names[uid] if seq is None else f"{names[uid]}#{seq}" for uid, seq in places]
        lines += [row, paint(f"          e.g. {' '.join(some)}", "dim")]
    return lines
