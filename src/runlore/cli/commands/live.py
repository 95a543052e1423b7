"""Look at the sessions that agents write to the live log.

SESSION is the beginning of an id, or latest. A record is named by its number, as `show` and `tail`
print it, or by its id. The log only grows: rewind and fork take nothing away.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from msgspec import convert
from msgspec.structs import replace

from ... import config
from ...answers import Answer
from ...errors import LogError
from ...live import liveness
from ...live.attention import attention
from ...live.liveness import Mark, judge
from ...live.log import LiveSession, SessionInfo, SessionStore
from ...live.state import Checkpoint
from ...text.words import count, local
from ..live_answers import (
    CheckpointDifference,
    Fork,
    LiveSessionLine,
    LogDamage,
    OpenCall,
    Rewind,
    ShownConversation,
    ShownMessage,
    ShownRecord,
    ShownState,
    StaleRun,
    StatusChange,
)
from ..live_changes import CHANGES
from ..live_choice import opened, record_name, tell
from ..live_lines import (
    branch_lines,
    call_lines,
    checkpoint_lines,
    conversation_lines,
    difference_lines,
    head_lines,
    record_line,
    session_lines,
    stale_line,
    state_lines,
)
from ..options import as_json, is_bounded, limit_option, skipped
from ..output import echo, note, one_line, page, paint, warn, write_json

SECOND = "%Y-%m-%d %H:%M:%S"
MARKS: tuple[Mark, ...] = ("failed", "paused", "cancelled")
WHOLE_RECORD = "without --max-tokens every text is whole"
"""Advice for getting a text that was cut."""
STATUSES = ("new", "active", "paused", "completed", "failed", "cancelled")


class LiveGroup(click.Group):
    """A group that takes its own `--dir` behind the command as well."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, dir_first(args))


def dir_first(args: list[str]) -> list[str]:
    """Return the arguments with `--dir` before the command."""
    end = args.index("--") if "--" in args else len(args)
    for place, word in enumerate(args[:end]):
        if word == "--dir" or word.startswith("--dir="):
            size = 1 if "=" in word else 2
            return [*args[place : place + size], *args[:place], *args[place + size :]]
    return args


@click.group(cls=LiveGroup, help=__doc__)
@click.option(
    "--dir",
    "address",
    metavar="DIR",
    help="Folder of the sessions (~/.runlore/live), or postgresql://….",
)
@click.pass_context
def command(ctx: click.Context, address: str | None) -> None:
    store = SessionStore(address if address is not None else config.load().home / "live")
    ctx.obj = store
    ctx.call_on_close(store.close)


@command.command("ls")
@click.option("--status", type=click.Choice(STATUSES), help="In this status.")
@click.option("--agent", metavar="NAME", help="Of this agent.")
@click.option("--cwd", type=click.Path(path_type=Path), metavar="DIR", help="In this folder.")
@limit_option("sessions", 50)
@as_json(list[LiveSessionLine], items="")
@click.pass_obj
def list_sessions(
    store: SessionStore,
    status: str | None,
    agent: str | None,
    cwd: Path | None,
    limit: int,
    is_json: bool,
) -> None:
    """List live sessions, newest first.

    With --json an array of live sessions (docs/json.md).
    """
    infos = store.list(status=status, agent=agent, cwd=cwd, limit=limit + skipped())
    rows = [live_line(store, info) for info in infos]
    if is_json:
        write_json(rows)
    elif not infos:
        is_any = status is None and agent is None and cwd is None
        note(
            f"{'there are no live sessions' if is_any else 'no live session is like that'} in"
            f" {one_line(str(store.name))}"
        )
    else:
        notes = {
            row.id: [
                *([f"owner {row.owner}"] if row.owner in ("dead", "silent") else []),
                *row.attention,
            ]
            for row in rows
        }
        page(session_lines(infos, notes), pager=is_paged())


@command.command("show")
@click.argument("session", default="latest")
@click.option("--at", metavar="RECORD", help="As it was right after this record.")
@click.option("--full", is_flag=True, help="Do not collapse tool output.")
@click.option("--branches", is_flag=True, help="The lines that rewinds left, by their last record.")
@as_json(ShownConversation, items="messages", whole=WHOLE_RECORD)
@click.pass_obj
def show(
    store: SessionStore, session: str, at: str | None, full: bool, branches: bool, is_json: bool
) -> None:
    """Show what the model sees now, or saw at a record.

    With --json an object: session, messages, open_calls, branches, problems (docs/json.md).
    """
    with opened(store, session) as live:
        view = live.conversation(at=record_name(at), whole=full)
        lines = live.branches()
        if is_json:
            write_json(
                ShownConversation(
                    session=live_line(store, live.meta),
                    messages=[ShownMessage.of(entry) for entry in view.entries],
                    open_calls=[
                        convert(call, OpenCall, from_attributes=True) for call in view.open_calls
                    ],
                    branches=lines,
                    problems=[
                        convert(one, LogDamage, from_attributes=True) for one in live.problems
                    ],
                )
            )
        elif branches:
            page(branch_lines(lines), pager=is_paged())
        else:
            page(
                [*head_lines(live.meta), "", *conversation_lines(view, full=full)], pager=is_paged()
            )
            if not view.entries:
                note(
                    f"nothing was said; `runlore live tail {one_line(live.id)}` prints its records"
                )
            for line in call_lines(view.open_calls):
                note(line)
            if len(lines) > 1:
                note(paint(f"{count(len(lines) - 1, 'other line')} (--branches)", "dim"))
        complain(live)


@command.command("tail")
@click.argument("session", default="latest")
@click.option(
    "-n",
    "--lines",
    "number",
    type=click.IntRange(0),
    default=20,
    metavar="N",
    help="Number of records (default 20).",
)
@click.option("-f", "--follow", is_flag=True, help="And those to come, until interrupted.")
@as_json(ShownRecord, items="", is_stream=True, whole=WHOLE_RECORD)
@click.pass_obj
def tail(store: SessionStore, session: str, number: int, follow: bool, is_json: bool) -> None:
    """Print the last records, of every kind.

    With --json one record on each line (docs/json.md).
    """
    with opened(store, session) as live:
        found = list(live.tail(max(number, 1)))
        shown = found if number else []
        if is_json and is_bounded() and not follow:
            write_json([ShownRecord.of(record) for record in shown])
            return
        for record in shown[skipped() :]:
            tell_record(record, is_json)
        for record in live.follow(found[-1].seq if found else -1) if follow else ():
            tell_record(record, is_json)
            flush()


@command.command("state")
@click.argument("session", default="latest")
@click.option("--at", type=click.IntRange(0), metavar="N", help="As it was after record N.")
@click.option("--history", is_flag=True, help="Every change of status.")
@as_json(ShownState, forms={"--history": Answer(list[StatusChange], items="")})
@click.pass_obj
def state(store: SessionStore, session: str, at: int | None, history: bool, is_json: bool) -> None:
    """Show the state of the run: status, progress, result, owner.

    With --json an object; with --history an array of changes (docs/json.md).
    """
    with opened(store, session) as live:
        if history:
            tell_history(live, is_json)
            return
        view = live.state.view() if at is None else live.state.view_at(at)
        verdict = judge(view.state.owner) if view.state.owner else None
        flags = attention(view.state, config.load().attention)
        if is_json:
            write_json(
                {
                    **view.state.to_dict(),
                    "attention": flags,
                    "owner_verdict": verdict,
                    "refused": view.refused,
                }
            )
        else:
            page(state_lines(view, verdict, flags), pager=is_paged())


@command.command("checkpoints")
@click.argument("session", default="latest")
@click.option("--compare", nargs=2, metavar="ID ID", help="Show the differences at the second.")
@click.option(
    "--prune",
    type=click.IntRange(0),
    metavar="N",
    help="Remove all but the newest N, but never one in use.",
)
@as_json(
    list[Checkpoint],
    items="",
    forms={
        "--compare": Answer(CheckpointDifference),
        "--prune": Answer(list[str], items=""),
    },
)
@click.pass_obj
def checkpoints(
    store: SessionStore,
    session: str,
    compare: tuple[str, str] | None,
    prune: int | None,
    is_json: bool,
) -> None:
    """List the points that a run can go back to, oldest first.

    With --json an array; with --compare an object, with --prune the ids that are gone
    (docs/json.md).
    """
    with opened(store, session, for_writing=prune is not None) as live:
        points = live.state.checkpoints
        if compare:
            difference = points.compare(*compare)
            tell(
                convert(difference, CheckpointDifference, from_attributes=True),
                difference_lines(difference),
                is_json,
                "--compare",
            )
        elif prune is not None:
            gone = [point.id for point in points.prune(keep=prune)]
            tell(gone, gone, is_json, "--prune")
        elif is_json:
            write_json(list(points))
        elif not len(points):
            note("it has no checkpoints")
        else:
            page(checkpoint_lines(points, live.state.current), pager=is_paged())


@command.command("rewind")
@click.argument("session")
@click.argument("to", metavar="RECORD", required=False)
@click.option("--redo", is_flag=True, help="Take the last rewind back instead.")
@as_json(Rewind)
@click.pass_obj
def rewind(store: SessionStore, session: str, to: str | None, redo: bool, is_json: bool) -> None:
    """Go back to a record: it is the last that the model sees.

    What came after stays in the log. Going to the end of another line (`show --branches`) switches
    to it. With --json an object (docs/json.md).
    """
    if (to is None) != redo:
        raise click.UsageError("name the record to go back to, or say --redo")
    with opened(store, session, for_writing=True) as live:
        record = live.redo() if redo else live.rewind(to=record_name(to))
        left = len(live.messages())
        done = Rewind(session=live.id, seq=record.seq, messages=left)
        undo = "" if redo else f"; `runlore live rewind {one_line(live.id)} --redo` undoes it"
        tell(done, [f"{one_line(live.id)}: {count(left, 'message')} in view{undo}"], is_json)


@command.command("fork")
@click.argument("session")
@click.option("--at", metavar="RECORD", help="With the conversation up to this record (all of it).")
@click.option("--id", "new_id", metavar="ID", help="The id of the new session.")
@click.option("--title", help="Its title.")
@as_json(Fork)
@click.pass_obj
def fork(
    store: SessionStore,
    session: str,
    at: str | None,
    new_id: str | None,
    title: str | None,
    is_json: bool,
) -> None:
    """Start a new session with the conversation of this one.

    It has the conversation up to a record; the old one stays as it is. With --json an object:
    session (the new id), origin (docs/json.md).
    """
    with (
        opened(store, session) as live,
        live.fork(at=record_name(at), id=new_id, title=title) as made,
    ):
        tell(Fork(session=made.id, origin=made.meta.origin), [one_line(made.id)], is_json)


@command.command("recover")
@click.option(
    "--mark",
    type=click.Choice(MARKS),
    default="failed",
    help="Their new state (failed); only paused resumes where it was.",
)
@click.option("--dry-run", is_flag=True, help="Only list them.")
@as_json(list[StaleRun], items="")
@click.pass_obj
def recover(store: SessionStore, mark: Mark, dry_run: bool, is_json: bool) -> None:
    """Mark the sessions whose process died.

    A session on another machine is listed after minutes without a new record, and marked after a
    day without one. With --json an array (docs/json.md).
    """
    found = liveness.stale(store) if dry_run else liveness.recover(store, mark=mark)
    if is_json:
        write_json([convert(one, StaleRun, from_attributes=True) for one in found])
        return
    for one in found:
        echo(stale_line(one))
    if not found:
        note("no session has lost its process")


# ── what they share ───────────────────────────────────────────────────────────────────────────────
def live_line(store: SessionStore, info: SessionInfo) -> LiveSessionLine:
    """Return what a list says of a session, with a look at its run if it has one."""
    line = convert(info, LiveSessionLine, from_attributes=True)
    # A session that was deleted in between is still listed.
    if info.status is not None:
        with suppress(LogError), store.open(info.id, readonly=True) as live:
            now = live.state.current
            return replace(
                line,
                status=now.status,
                attention=attention(now, config.load().attention),
                owner=judge(now.owner) if now.owner else None,
            )
    return line


def complain(live: LiveSession) -> None:
    if live.problems:
        first = live.problems[0]
        warn(
            f"{count(len(live.problems), 'place')} of the log could not be read; the first at byte"
            f" {first.offset}: {one_line(first.reason)}"
        )


def tell_history(live: LiveSession, is_json: bool) -> None:
    steps = list(live.state.history())
    lines = (
        f"{step.seq:>7} {local(step.ts, SECOND)} {step.before} → {step.after} "
        f" {one_line(step.reason)}".rstrip()
        for step in steps
    )
    tell(
        [convert(step, StatusChange, from_attributes=True) for step in steps],
        lines,
        is_json,
        "--history",
    )


def tell_record(record: Any, is_json: bool) -> None:
    if is_json:
        write_json(ShownRecord.of(record), in_a_line=True)
    else:
        echo(record_line(record))


def is_paged() -> bool:
    return not click.get_current_context().find_root().params["no_pager"]


def flush() -> None:
    sys.stdout.flush()


for change in CHANGES:
    command.add_command(change)
