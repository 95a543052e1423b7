"""Find the sessions that changed or read a file.

Counts edits, reads, and shell commands whose text shows that they change it.
PATH is relative to this folder. If no session touched that file, PATH is taken
as the end of a path: main.py, src/main.py. A PATH that begins with */ is always
taken so. With --json an object with sessions as `ls` gives them, each with what
it did (docs/json.md).
"""

from __future__ import annotations

import os
import re
import sys
from typing import ClassVar

import click
import msgspec

from ... import query
from ...errors import NotFound
from ...query import names as naming
from ...search import QueryError, trace
from ...store import SessionLine, Store
from ...text.words import count
from ..hits import repo, when
from ..options import as_json, is_paged, limit_option, no_pager, open_store, skipped
from ..output import Column, fit, note, one_line, page, paint, screen, table, title_of, write_json

MIN_WIDTH = 12
"""Columns of a title. Which file it was, and where, says more: titles shrink before these leave a
narrow screen."""


class FileSession(SessionLine, frozen=True, kw_only=True):
    """A session that touched a file."""

    PRESENTS: ClassVar = (trace.FileTrace,)

    actions: dict[str, int]
    files: list[str]
    last_at: str | None
    last_ref: str
    """`uid#seq` of the last time."""


class FileSessions(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that touched a file, the last one first."""

    path: str | None
    """The full path; null if only the end of one is known."""
    total: int
    elsewhere: int
    """Number of sessions that touched other files whose path ends the same."""
    partial: bool
    """True if not everything was looked at."""
    sessions: list[FileSession]


@click.command(help=__doc__)
@click.argument("path")
@limit_option("sessions", 20)
@no_pager
@as_json(FileSessions, items="sessions")
@click.pass_context
def command(ctx: click.Context, path: str, limit: int, is_json: bool) -> None:
    with open_store() as (store, _):
        try:
            answer = trace.file(store, path, folder=os.getcwd(), limit=limit + skipped())
        except QueryError as error:
            raise click.BadParameter(one_line(str(error)), param_hint="PATH") from None
        if is_json:
            write_json(as_answer(answer))
        elif answer.found:
            page(as_table(store, answer), pager=is_paged(ctx))
            explain(answer, path)
        else:
            explain_nothing(store, path)
        if not is_json:
            explain_evicted(store)
    if not answer.found:
        ctx.exit(1)


def as_answer(answer: trace.FileAnswer) -> FileSessions:
    sessions = [
        FileSession(
            **msgspec.structs.asdict(found.session),
            actions=found.actions,
            files=found.files,
            last_at=found.last_at,
            last_ref=f"{found.session.uid}#{found.last_seq}",
        )
        for found in answer.found
    ]
    return FileSessions(
        path=answer.path,
        total=answer.total,
        elsewhere=answer.elsewhere,
        partial=answer.is_partial,
        sessions=sessions,
    )


def as_table(store: Store, answer: trace.FileAnswer) -> list[str]:
    sessions = [found.session for found in answer.found]
    names = naming.short_ids(store, sessions)
    columns = [
        Column(
            "LAST",
            [f"{name}#{found.last_seq}" for name, found in zip(names, answer.found, strict=True)],
        ),
        Column("AGENT", [session.agent for session in sessions], leaves=3),
        Column("WHEN", [when(found.last_at or found.session.ended_at) for found in answer.found]),
        *action_columns(answer.found),
        Column(
            "REPO",
            [repo(session) for session in sessions],
            max_width=max(12, screen()[0] // 6),
            leaves=2,
        ),
    ]
    if len({file for found in answer.found for file in found.files}) > 1:
        columns.append(Column("FILE", [place(found) for found in answer.found], leaves=4))
    head, *rows = table(
        [*columns, Column("TITLE", [title_of(session) for session in sessions])],
        min_width=MIN_WIDTH,
    )
    return [paint(head, "dim"), *rows]


def action_columns(traces: list[trace.FileTrace]) -> list[Column]:
    """Return the counts of edits and reads, and of commands that change the file and of other
    actions if there are any."""
    columns = [
        Column("EDITS", [times(found, "edit") for found in traces], right=True),
        Column("READS", [times(found, "read") for found in traces], right=True),
    ]
    commands = [times(found, trace.COMMAND) for found in traces]
    if any(commands):
        columns.append(Column("COMMANDS", commands, right=True))
    others = [times(found, "search", "other") for found in traces]
    if any(others):
        columns.append(Column("OTHER", others, right=True, leaves=1))
    return columns


def times(found: trace.FileTrace, *actions: str) -> str:
    return str(sum(found.actions.get(action, 0) for action in actions) or "")


def place(found: trace.FileTrace) -> str:
    """Return the file relative to the session's folder, and the number of others."""
    inside = f"{(found.session.cwd or '').replace(chr(92), '/').rstrip('/')}/"
    more = f" +{len(found.files) - 1}" if len(found.files) > 1 else ""
    return (
        fit_end(
            one_line(found.files[0].removeprefix(inside)), max(16, screen()[0] // 3) - len(more)
        )
        + more
    )


def fit_end(text: str, width: int) -> str:
    """Return the end of the text in at most so many columns. The end of a path says most."""
    return fit(text[::-1], width)[::-1]


def explain_nothing(store: Store, path: str) -> None:
    if query.is_empty(store):
        raise NotFound(query.EMPTY)
    folder, _, name = one_line(path).replace("\\", "/").rstrip("/").rpartition("/")
    note(f"no session touched {one_line(path)}")
    if folder not in ("", "*", "."):
        note(f"`runlore file '*/{name}'` finds any file of that name")
    note(f"`runlore search '\"{name}\"'` finds the name in any text, also of a shell")


def explain_evicted(store: Store) -> None:
    """Note how many sessions were evicted without a digest, which would list their files."""
    number = store.overview.lost_sessions()
    if number:
        left = (
            f"{count(number, 'session')} {'was' if number == 1 else 'were'} evicted without a"
            " digest, and may have touched it"
        )
        note(paint(f"{left}; `runlore evict --back ID` brings one back", "dim", sys.stderr))


def explain(answer: trace.FileAnswer, path: str) -> None:
    if answer.elsewhere:
        end = re.sub(r"^(\.\./)+", "", one_line(os.path.normpath(path)).replace("\\", "/"))
        note(
            paint(
                f"{count(answer.elsewhere, 'other session')} touched other files whose path ends"
                f" so: '*/{end}'",
                "dim",
                sys.stderr,
            )
        )
    if answer.is_partial:
        note(
            paint(
                "not everything was looked at; more of the path finds the rest", "dim", sys.stderr
            )
        )
    elif answer.total > len(answer.found):
        note(
            paint(
                f"{len(answer.found)} of {count(answer.total, 'session')}; -n {answer.total} shows"
                " them all",
                "dim",
                sys.stderr,
            )
        )
