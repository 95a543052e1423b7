"""List recurring errors, and what fixed them.

Errors are recognized across agents, tools and repositories; those that differ in a quoted word are
one. A fix is shown if the same call is proven to have succeeded after it. The cost of an error is
the amount spent from its first occurrence until it was gone. With --json an object: errors, each
with its fixes (docs/json.md).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from ... import query
from ...errors import NotFound
from ...files.git import git_remote
from ...mine import known_errors
from ...store import Filter, Store
from ...text.words import count
from ..error_lines import KnownError, fix_lines, names_of, when
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
from ..output import Column, note, one_line, page, paint, table, write_json

MIN_WIDTH = 56
"""Columns of an error. What it says matters more than when and where: these leave a narrow screen
before it is cut."""


class RecurringErrors(msgspec.Struct, frozen=True, kw_only=True):
    """The errors that keep coming back, those of most sessions first."""

    total: int
    errors: list[KnownError]


@click.command(help=__doc__)
@few_filters
@limit_option("errors", 20)
@least_option
@no_pager
@as_json(RecurringErrors, items="errors")
@click.pass_context
def command(ctx: click.Context, chosen: Filter, limit: int, least: int, is_json: bool) -> None:
    with open_store() as (store, _):
        answer = known_errors.find_recurring(
            store,
            chosen,
            datetime.now(UTC),
            min_sessions=least,
            limit=limit + skipped(),
            here=git_remote(Path.cwd()),
        )
        if is_json:
            errors = [KnownError.of(error) for error in answer.found]
            write_json(RecurringErrors(total=answer.total, errors=errors))
        elif answer.found:
            page(as_lines(store, answer), pager=is_paged(ctx))
            if answer.total > len(answer.found):
                note(
                    paint(
                        f"{len(answer.found)} of {count(answer.total, 'error')}; -n {answer.total}"
                        " shows them all",
                        "dim",
                        sys.stderr,
                    )
                )
        else:
            explain_nothing(store, least)


def as_lines(store: Store, answer: known_errors.Answer) -> Iterator[str]:
    """A row for each, and below it the surest fix."""
    errors, names = answer.found, names_of(store, answer.found)
    columns = [
        Column("SESSIONS", [str(error.sessions) for error in errors], right=True),
        Column("TIMES", [str(error.count) for error in errors], right=True),
        Column("REPOS", [str(len(error.repos) or "") for error in errors], right=True, leaves=4),
        Column("AGENTS", [str(len(error.agents)) for error in errors], right=True, leaves=3),
        Column(
            "USD",
            ["" if error.usd is None else f"{error.usd:.2f}" for error in errors],
            right=True,
            leaves=2,
        ),
        Column("TREND", [error.trend for error in errors], leaves=5),
        Column("LAST", [when(error.last_at) for error in errors], leaves=6),
        Column("FIXED", [f"{error.fixed}/{error.sessions}" for error in errors], right=True),
        Column("ERROR", [one_line(error.template) for error in errors]),
    ]
    title, *rows = table(columns, min_width=MIN_WIDTH)
    yield paint(title, "dim")
    for error, row in zip(errors, rows, strict=True):
        yield row
        if error.fixes:
            yield from fix_lines(error.fixes[0], names[error.fixes[0].uid], with_change=False)


def explain_nothing(store: Store, least: int) -> None:
    if query.is_empty(store):
        raise NotFound(query.EMPTY)
    note(
        f"no error was met in {count(least, 'session')}{' or more' if least > 1 else ''} of these;"
        " --least 1 shows what was met once"
    )
