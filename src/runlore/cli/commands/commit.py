"""Find the sessions that made a git commit, or mention it.

SHA is 4 or more characters of its name. A session made the commit if a shell ran `git commit` and
the output shows the name. With --json an object with sessions as `ls` gives them, each with the
evidence (docs/json.md).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click
import msgspec

from ... import query
from ...errors import NotFound
from ...query import names as naming
from ...search import QueryError, trace
from ...store import Store
from ...text.words import count
from ..hits import WHOLE_EVENT, SessionWithEvents, event_lines, heads, session_fields
from ..options import as_json, is_paged, limit_option, no_pager, open_store, skipped
from ..output import note, one_line, page, paint, write_json


class CommitSession(SessionWithEvents, frozen=True, kw_only=True):
    """A session that has a commit."""

    made: bool
    """True if it ran `git commit` and the output shows the name; otherwise it mentions it."""


class CommitSessions(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that made a commit, then those that mention it."""

    sha: str
    total: int
    partial: bool
    """True if not everything was looked at."""
    sessions: list[CommitSession]


@click.command(help=__doc__)
@click.argument("sha")
@limit_option("sessions", 20)
@no_pager
@as_json(CommitSessions, items="sessions", whole=WHOLE_EVENT)
@click.pass_context
def command(ctx: click.Context, sha: str, limit: int, is_json: bool) -> None:
    with open_store() as (store, _):
        try:
            answer = trace.commit(store, sha, limit=limit + skipped())
        except QueryError as error:
            raise click.BadParameter(one_line(str(error)), param_hint="SHA") from None
        if is_json:
            write_json(as_answer(sha, answer))
        elif answer.found:
            page(as_lines(store, answer), pager=is_paged(ctx))
            if answer.is_partial:
                note(
                    paint(
                        "not everything was looked at; more of the name finds the rest",
                        "dim",
                        sys.stderr,
                    )
                )
            elif answer.total > len(answer.found):
                note(
                    paint(
                        f"{len(answer.found)} of {count(answer.total, 'session')}; -n"
                        f" {answer.total} shows them all",
                        "dim",
                        sys.stderr,
                    )
                )
        elif query.is_empty(store):
            raise NotFound(query.EMPTY)
        else:
            note(
                f"no session has the commit {sha}; `runlore sync` reads what is new, `runlore"
                " search` finds its message"
            )
    if not answer.found:
        ctx.exit(1)


def as_answer(sha: str, answer: trace.CommitAnswer) -> CommitSessions:
    sessions = [
        CommitSession(**session_fields(found.session, found.events), made=found.is_made)
        for found in answer.found
    ]
    return CommitSessions(sha=sha, total=answer.total, partial=answer.is_partial, sessions=sessions)


def as_lines(store: Store, answer: trace.CommitAnswer) -> Iterator[str]:
    sessions = [found.session for found in answer.found]
    names = naming.short_ids(store, sessions)
    before: bool | None = None
    for found, name, head in zip(answer.found, names, heads(sessions, names), strict=True):
        if found.is_made != before:
            if before is not None:
                yield ""
            yield paint("made in", "green") if found.is_made else paint("mentioned in", "dim")
            before = found.is_made
        yield head
        yield from event_lines([f"{name}#{event.seq}" for event in found.events], found.events)
