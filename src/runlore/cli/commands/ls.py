"""List sessions, newest first.
ERR, TOKENS and USD are those of a session with its subagents. WITHOUT SUBAGENTS, where there is
room, has cost and errors without them, and their number: 0.12, 0 err (3).
With --json an array (docs/json.md).
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from ... import query
from ...config import Config
from ...errors import NotFound
from ...model import describe_evidence
from ...query import names as naming
from ...store import Filter, SessionLine, Store
from ...text.words import (
    PARTLY_PRICED,
    ago,
    brief,
    count,
    is_cost_known,
    short,
    usd_cell,
    without_price,
)
from ..options import (
    as_json,
    filter_labels,
    filters,
    is_paged,
    limit_option,
    no_pager,
    open_store,
    skipped,
)
from ..output import (
    LEAVES_FIRST,
    LEAVES_LAST,
    Column,
    cells,
    note,
    one_line,
    page,
    paint,
    screen,
    table,
    title_of,
    warn,
    write_json,
)

SORTS = ("ended", "started", "events", "errors", "tokens", "duration", "cost")


@click.command(help=__doc__)
@filters
@click.option(
    "--sort", type=click.Choice(SORTS), default="ended", metavar="KEY", help=f"{', '.join(SORTS)}."
)
@limit_option("sessions", 50)
@click.option("--all", "is_all", is_flag=True, help="All of them, however many.")
@no_pager
@as_json(list[SessionLine], items="")
@click.pass_context
def command(
    ctx: click.Context, chosen: Filter, sort: str, limit: int, is_all: bool, is_json: bool
) -> None:
    with open_store() as (store, config):
        lines = store.sessions.select(
            chosen, sort=sort, limit=None if is_all else limit + skipped()
        )
        if is_json:
            write_json(lines)
        elif lines:
            is_whole = is_all and chosen == Filter(parents_only=False)
            page(as_table(store, lines, is_whole=is_whole), pager=is_paged(ctx))
            note_marks(lines)
            if (
                len(lines) == limit
                and not is_all
                and (total := store.sessions.count(chosen)) > limit
            ):
                others = count_subagents(store, chosen, total)
                line = f"{limit} of {count(total, 'session')}{others}; --all shows them all"
                note(paint(line, "dim", sys.stderr))
        if not lines:
            explain_nothing(store, chosen, is_json)
        warn_of_risks(store, config)


def warn_of_risks(store: Store, config: Config) -> None:
    for agent, error in query.failed_hook_syncs(config).items():
        warn(
            f"the last sync by the hook of {agent} failed: {one_line(error)}; run `runlore sync` to"
            " read what it missed"
        )
    for risk in query.sources_at_risk(store, config, datetime.now(UTC)):
        warn(
            f"{count(risk.sources, 'transcript')} of {risk.label} will soon be deleted by it (after"
            f" {risk.keeps_days} days) and {'is' if risk.sources == 1 else 'are'} not stored;"
            " `runlore sync` does that, or says what is in the way"
        )


def count_subagents(store: Store, chosen: Filter, total: int) -> str:
    """The subagents that are not among these sessions, for a person who may want to know of them as
    well."""
    others = store.sessions.count(chosen._replace(parents_only=False)) - total
    return f" ({count(others, 'subagent')}: --all-subagents)" if others else ""


def explain_nothing(store: Store, chosen: Filter, is_json: bool) -> None:
    """No session is an answer, and no session at all is a store that nobody filled: whatever is
    asked of that fails."""
    total = store.sessions.count(Filter(parents_only=False))
    if not total:
        raise NotFound(query.EMPTY)
    if is_json:
        return
    lines = query.explain_exclusion(chosen, filter_labels(), store.sessions.count)
    others = count_subagents(store, chosen, 0)
    note(one_line("; ".join([f"no session matches{others}", *lines])))


def as_table(store: Store, lines: list[SessionLine], *, is_whole: bool = False) -> list[str]:
    """The table of these sessions. `is_whole` when the store holds no others."""
    now = datetime.now(UTC)
    repos = [one_line(line.repo).rpartition("/")[2] for line in lines]
    width = screen()[0]
    columns = [
        Column("ID", ids_within(max(12, width // 4 - 2), store, lines, is_whole=is_whole)),
        Column("AGENT", [line.agent for line in lines], leaves=7),
        Column(
            "WHEN",
            [
                ago(datetime.fromisoformat(line.ended_at), now) if line.ended_at else "?"
                for line in lines
            ],
        ),
        Column("OUTCOME", [one_line(line.outcome) for line in lines], leaves=LEAVES_LAST),
        *known_by(lines),
        Column("TIME", [brief(line.wall_clock_s) for line in lines], right=True, leaves=4),
        Column("TURNS", [str(line.turns) for line in lines], right=True, leaves=LEAVES_LAST),
        Column("EVENTS", [str(line.events) for line in lines], right=True, leaves=1),
        Column(
            "ERR",
            [str(line.errors_with_subagents or "") for line in lines],
            right=True,
            leaves=5,
        ),
        Column(
            "TOKENS", [short(line.tokens_with_subagents) for line in lines], right=True, leaves=2
        ),
        *money(lines),
        *without_subagents(lines),
        Column("REPO", repos, max_width=max(12, width // 6), leaves=6),
        Column("TITLE", [title_of(line) for line in lines]),
    ]
    head, *rows = table(columns, min_width=min(32, width // 4))
    return [paint(head, "dim"), *rows]


def known_by(lines: list[SessionLine]) -> list[Column]:
    """Return the column that says how outcomes are known, or none if all are unknown."""
    words = [one_line(describe_evidence(line)) for line in lines]
    return [Column("KNOWN BY", words, leaves=6)] if any(words) else []


def ids_within(width: int, store: Store, lines: list[SessionLine], *, is_whole: bool) -> list[str]:
    """Return the short ids, or handles where a short id is wider than `width`."""
    ids = naming.short_ids(store, lines, is_all=is_whole)
    return [
        short_id if cells(short_id) <= width else naming.handle(line.uid)
        for short_id, line in zip(ids, lines, strict=True)
    ]


def money(lines: list[SessionLine]) -> list[Column]:
    """Return the column with the costs of sessions with their subagents; none if no cost is
    known."""
    costs = [usd_cell(line.usd_with_subagents, line.unpriced_with_subagents) for line in lines]
    return [Column("USD", costs, right=True, leaves=LEAVES_LAST)] if any(costs) else []


def without_subagents(lines: list[SessionLine]) -> list[Column]:
    """Return the column with cost and errors of sessions without their subagents, and the number of
    these; none if that makes no difference in any line."""
    words = [_alone(line) for line in lines]
    return (
        [Column("WITHOUT SUBAGENTS", words, right=True, leaves=LEAVES_FIRST)] if any(words) else []
    )


def _alone(line: SessionLine) -> str:
    whole = usd_cell(line.usd_with_subagents, line.unpriced_with_subagents)
    alone = usd_cell(line.usd, line.unpriced)
    figures = [alone or "0.00"] if whole != alone else []
    if line.errors_with_subagents != line.errors:
        figures.append(f"{line.errors} err")
    return f"{', '.join(figures)} ({line.subagents})" if figures else ""


def note_marks(lines: list[SessionLine]) -> None:
    """Explain the mark of costs, if any of these has it."""
    unpriced = sum(
        line.unpriced_with_subagents
        for line in lines
        if is_cost_known(line.usd_with_subagents, line.unpriced_with_subagents)
    )
    if unpriced:
        note(paint(f"{PARTLY_PRICED} {without_price(unpriced)}", "dim", sys.stderr))
