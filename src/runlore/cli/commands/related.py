"""Find the sessions that are about the same as a session.

The same task, errors, files or words; what few sessions share counts most. Its
forks and subagents are left out. UID is short or whole, or `latest`. With --json
an object (docs/json.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import click
import msgspec

from ... import query
from ...query import names as naming
from ...search import Related, related
from ...store import SessionLine, Store
from ..hits import heads
from ..options import as_json, is_paged, no_pager, open_store, skipped
from ..output import fit, note, one_line, page, paint, screen, write_json


class RelatedSession(SessionLine, frozen=True, kw_only=True):
    """A session that is about the same, and why."""

    PRESENTS: ClassVar = (Related,)

    score: float
    why: list[str]


class RelatedSessions(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that are about the same as one, best first."""

    uid: str
    sessions: list[RelatedSession]


@click.command(help=__doc__)
@click.argument("uid")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=10,
    metavar="N",
    help="Maximum number of sessions (default 10).",
)
@no_pager
@as_json(RelatedSessions, items="sessions")
@click.pass_context
def command(ctx: click.Context, uid: str, limit: int, is_json: bool) -> None:
    with open_store() as (store, _):
        uid = query.resolve(store, uid)
        found = related(store, uid, limit=limit + skipped())
        if is_json:
            write_json(RelatedSessions(uid=uid, sessions=[as_answer(one) for one in found]))
        elif found:
            page(as_lines(store, found), pager=is_paged(ctx))
        else:
            note(f"no session is about the same as {uid}")
    if not found:
        ctx.exit(1)


def as_answer(one: Related) -> RelatedSession:
    return RelatedSession(**msgspec.structs.asdict(one.session), score=one.score, why=one.why)


def as_lines(store: Store, found: Sequence[Related]) -> Iterator[str]:
    sessions = [one.session for one in found]
    names = naming.short_ids(store, sessions)
    for one, head in zip(found, heads(sessions, names), strict=True):
        yield head
        for reason in one.why:
            yield paint(fit(f"  {one_line(reason)}", screen()[0]), "dim")
