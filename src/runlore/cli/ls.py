"""List sessions, newest first.
With --json an array of objects: uid, agent, title, repo, domain, cwd, branch, model, started_at, ended_at, outcome, task_ref,
machine, parent_uid, relation, events, errors, turns, retries, wall_clock_s, …_tokens, usd, source_….
"""

from __future__ import annotations

from datetime import UTC, datetime

import click

from .. import query
from ..store import Filter, SessionLine, Store
from ._options import as_json, filters, open_store
from ._out import Column, note, one_line, page, paint, screen, table, warn, write_json
from ._words import ago, brief, count, short

SORTS = ("ended", "started", "events", "errors", "tokens", "duration")


@click.command(help=__doc__)
@filters
@click.option("--sort", type=click.Choice(SORTS), default="ended", metavar="KEY", help=f"{', '.join(SORTS)}.")
@click.option("-n", "--limit", type=click.IntRange(1), default=50, metavar="N", help="At most so many (50); --all shows all.")
@click.option("--all", "is_all", is_flag=True, hidden=True)
@as_json
@click.pass_context
def command(ctx: click.Context, chosen: Filter, sort: str, limit: int, is_all: bool, is_json: bool) -> None:
    with open_store() as (store, config):
        lines = store.sessions(chosen, sort=sort, limit=None if is_all else limit)
        if is_json:
            write_json(lines)
        elif not lines:
            explain_nothing(store)
        else:
            page(as_table(store, lines, is_whole=is_all and chosen == Filter()), pager=not ctx.find_root().params["no_pager"])
            if len(lines) == limit and not is_all and (total := store.count(chosen)) > limit:
                note(paint(f"{limit} of {count(total, 'session')}; --all shows them all", "dim"))
        for risk in query.sources_at_risk(store, config, datetime.now(UTC)):
            warn(
                f"{count(risk.sources, 'transcript')} of {risk.label} will soon be deleted by it (after {risk.keeps_days} days) and "
                f"{'is' if risk.sources == 1 else 'are'} not stored; `runlore sync` does that, or says what is in the way"
            )


def explain_nothing(store: Store) -> None:
    total = store.count(Filter(parents_only=False))
    if total:
        note(f"no session is like that; {count(total, 'session')} are stored, `runlore ls` shows the latest")
    else:
        note("the store is empty; run `runlore sync`, or `runlore demo` for something to look at")


def as_table(store: Store, lines: list[SessionLine], *, is_whole: bool = False) -> list[str]:
    """The table of these sessions. `is_whole` when the store holds no others."""
    now = datetime.now(UTC)
    repos = [one_line(line.repo).rpartition("/")[2] for line in lines]
    columns = [
        Column("ID", query.short_ids(store, lines, is_all=is_whole)),
        Column("AGENT", [line.agent for line in lines]),
        Column("WHEN", [ago(datetime.fromisoformat(line.ended_at), now) if line.ended_at else "?" for line in lines]),
        Column("TIME", [brief(line.wall_clock_s) for line in lines], right=True, leaves=4),
        Column("TURNS", [str(line.turns) for line in lines], right=True, leaves=3),
        Column("EVENTS", [str(line.events) for line in lines], right=True, leaves=1),
        Column("ERR", [str(line.errors or "") for line in lines], right=True, leaves=5),
        Column("TOKENS", [short(tokens(line)) for line in lines], right=True, leaves=2),
        Column("REPO", repos, most=max(12, screen()[0] // 6), leaves=6),
        Column("TITLE", [one_line(line.title) or "-" for line in lines]),
    ]
    head, *rows = table(columns)
    return [paint(head, "dim"), *rows]


def tokens(line: SessionLine) -> int:
    return line.input_tokens + line.output_tokens + line.cache_read_tokens + line.cache_write_tokens
