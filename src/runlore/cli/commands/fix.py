"""Look up an error: whether it has been seen, and what fixed it.

ERROR is its text, a part of it (two words or more), or a whole log; - reads it from a pipe. In the
output of tests each failed test is an error. Errors are recognized across agents, tools and
repositories; for an unknown one the nearest are shown. A fix is shown if the same call is proven to
have succeeded after it: what differs, the cause as the agent put it, and where. With --json an
object: asked, errors (docs/json.md).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import click
import msgspec
from msgspec import convert

from ... import query
from ...errors import NotFound
from ...files.git import git_remote
from ...mine import known_errors
from ...model import Signature
from ...store import Filter, Store
from ...text.words import count
from ..error_lines import KnownError, fix_lines, head, names_of
from ..options import as_json, few_filters, is_paged, limit_option, no_pager, open_store, skipped
from ..output import note, one_line, page, paint, write_json

MAX_CHARS = 4 << 20
"""Number of characters that are read from a pipe; of a longer log the end."""


class ErrorIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The error that a text was taken for."""

    PRESENTS: ClassVar = (Signature,)

    fingerprint: str
    kind: str
    name: str
    template: str


class ErrorFixes(msgspec.Struct, frozen=True, kw_only=True):
    """The known errors that occur in a text, or else the nearest ones, with their fixes."""

    asked: ErrorIdentity | None
    total: int
    errors: list[KnownError]


@click.command(help=__doc__)
@click.argument("error")
@few_filters
@limit_option("errors", 5)
@no_pager
@as_json(ErrorFixes, items="errors")
@click.pass_context
def command(ctx: click.Context, error: str, chosen: Filter, limit: int, is_json: bool) -> None:
    text = read_pipe() if error == "-" else error
    if not text.strip():
        raise click.BadParameter("there is no text in it", param_hint="ERROR")
    with open_store() as (store, _):
        answer = known_errors.find_fixes(
            store,
            text,
            chosen,
            datetime.now(UTC),
            limit=limit + skipped(),
            here=git_remote(Path.cwd()),
        )
        if is_json:
            write_json(as_answer(answer))
        elif answer.found:
            page(as_lines(store, answer), pager=is_paged(ctx))
        else:
            explain_nothing(store, answer)
    if not answer.found:
        ctx.exit(1)


def read_pipe() -> str:
    data = sys.stdin.buffer.read()
    return data[-MAX_CHARS:].decode("utf-8", "replace")


def as_answer(answer: known_errors.Answer) -> ErrorFixes:
    asked = answer.asked
    identity = None if asked is None else convert(asked, ErrorIdentity, from_attributes=True)
    errors = [KnownError.of(error) for error in answer.found]
    return ErrorFixes(asked=identity, total=answer.total, errors=errors)


def as_lines(store: Store, answer: known_errors.Answer) -> Iterator[str]:
    names = names_of(store, answer.found)
    if answer.found[0].likeness < 1:
        yield paint("not seen before; the nearest that were:", "yellow")
    for n, error in enumerate(answer.found):
        if n:
            yield ""
        yield paint(one_line(error.template), "bold")
        yield paint(f"  {head(error)}", "dim")
        if not error.fixes:
            last = f"{names[error.last_uid]}#{error.last_seq}"
            is_open = error.stayed == error.sessions
            state = "not seen again" if is_open else "gone, but what fixed it is not sure"
            yield f"  {paint(last, 'cyan')}  {state}"
        for fix in error.fixes:
            yield from fix_lines(fix, names[fix.uid], with_change=True)


def explain_nothing(store: Store, answer: known_errors.Answer) -> None:
    if query.is_empty(store):
        raise NotFound(query.EMPTY)
    if answer.asked is None:
        note("there is no error in this text")
        return
    note(f"not seen before: {one_line(answer.asked.template)}")
    known = count(len(store.digests.templates()), "error")
    note(
        f"`runlore errors` lists what came back of {known}; `runlore search` looks through all that"
        " was said"
    )
