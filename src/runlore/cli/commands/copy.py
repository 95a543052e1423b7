"""Copy everything from one store to another, file or server.

FROM and TO are files, or postgresql://… addresses. Sessions that TO already has are skipped, so an
interrupted copy can be continued and a repeated one adds only what is new. Other sessions in TO
stay, except those that were forgotten in FROM. Afterwards TO is checked as `runlore doctor` does.
With --json an object (docs/json.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import ClassVar

import click
import msgspec

from ... import config as settings
from ... import doctor
from ... import store as stores
from ...errors import StoreError, StoreLost
from ...store.copying import Copied, copy
from ...text.words import count, duration
from ..options import as_json
from ..output import note, one_line, write_json
from ..progress import Progress

GOES_ON = "what was copied stays, and the same command goes on from there"


class StoreCopy(msgspec.Struct, frozen=True, kw_only=True):
    """The result of copying one store to another."""

    PRESENTS: ClassVar = (Copied,)

    source: str
    target: str
    sessions: int
    events: int
    calls: int
    unchanged: int
    forgotten: int
    problems: list[str]
    """Problems that the doctor found in the copy."""
    seconds: float


@click.command(help=__doc__)
@click.argument("from_", metavar="FROM")
@click.argument("to")
@as_json(StoreCopy)
@click.pass_context
def command(ctx: click.Context, from_: str, to: str, is_json: bool) -> None:
    began = time.monotonic()
    if place(from_) == place(to):
        raise StoreError(f"{one_line(from_)} and {one_line(to)} are the same store")
    if "://" not in from_ and not os.path.exists(os.path.expanduser(from_)):
        raise StoreError(f"{from_}: there is no store")
    with (
        closing(stores.open_store(from_, read_only=True)) as source,
        closing(stores.open_store(to)) as target,
    ):
        with Progress() as progress:
            with explain_interruption():
                done = copy(source, target, lambda at, of: progress.show("sessions", at, of))
            report = doctor.examine(target, settings.load(), progress=progress.show)
        names = source.url, target.url
    problems = [problem for check in report.checks for problem in check.problems]
    seconds = time.monotonic() - began
    if is_json:
        write_json(
            StoreCopy(
                source=names[0],
                target=names[1],
                **msgspec.structs.asdict(done),
                problems=problems,
                seconds=round(seconds, 3),
            )
        )
    else:
        brought = f"{count(done.sessions, 'session')} with {count(done.events, 'event')}"
        said = f"; {done.forgotten:,} were forgotten there, and stay so" if done.forgotten else ""
        note(
            f"copied {brought} to {one_line(names[1])} in {duration(seconds)}; {done.unchanged:,}"
            f" were there already{said}"
        )
        for problem in problems:
            note(f"  {one_line(problem)}")
        note(
            "the copy is right"
            if not problems
            else "the copy is not right; `runlore doctor` says more"
        )
    ctx.exit(1 if problems else 0)


@contextmanager
def explain_interruption() -> Iterator[None]:
    """One that is interrupted, or whose server goes away, says what that means."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"stopped; {GOES_ON}")
        raise
    except StoreLost as error:
        raise StoreLost(f"{error}; {GOES_ON}") from None


def place(url: str) -> str:
    """Return a value that identifies a store, to compare two."""
    return (
        url
        if "://" in url and not url.startswith("sqlite://")
        else os.path.realpath(os.path.expanduser(url.removeprefix("sqlite://")))
    )
