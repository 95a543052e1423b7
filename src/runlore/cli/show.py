"""Read a session: turns, tool calls, diffs, errors, subagents.

SESSION is the beginning of an id, latest, latest:AGENT, latest:REPO, or any of these with #EVENT. With --json an object:
session, events (each with its body), branches, children; with --event or --context only these events.
"""

from __future__ import annotations

from typing import Any

import click

from .. import query
from ..errors import NotFound
from ..model import SessionEvent
from ..store import Store
from ._options import SessionName, as_json, open_store
from ._out import page, safe_json, write_bytes, write_json


@click.command(help=__doc__)
@click.argument("session", type=SessionName(), default="latest")
@click.option("--event", type=click.IntRange(0), metavar="N", help="Only event N, with its whole text.")
@click.option("--context", type=click.IntRange(0), metavar="N", help="What the model saw when event N had happened.")
@click.option("--branch", metavar="N|all", default="0", help="What a rewind left behind, by number; or everything.")
@click.option("--raw", is_flag=True, help="The agent's own records (with --event the one it came from).")
@click.option("--full", is_flag=True, help="Fold nothing.")
@click.option("--thinking", is_flag=True, help="Show what the model thought.")
@click.option("--no-pager", is_flag=True, help="Print it all at once.")
@as_json
@click.pass_context
def command(
    ctx: click.Context,
    session: str,
    event: int | None,
    context: int | None,
    branch: str,
    raw: bool,
    full: bool,
    thinking: bool,
    no_pager: bool,
    is_json: bool,
) -> None:
    with open_store() as (store, _):
        name, seq = query.split_name(session)
        uid = query.resolve(store, name)
        event = seq if event is None else event
        if raw:
            for record in query.raw_records(store, uid, event):
                write_bytes(safe_json(record.strip(b"\r\n")) + b"\n")
        elif is_json:
            write_json(as_data(store, uid, event, context))
        else:
            page(as_lines(store, uid, event, context, branch, full, thinking), pager=not (no_pager or ctx.find_root().params["no_pager"]))


def as_data(store: Store, uid: str, seq: int | None, context: int | None) -> Any:
    if context is not None:
        return [{**event_data(seen.event, body), "is_cleared": seen.is_cleared} for seen, body in query.context_at(store, uid, context)]
    if seq is not None:
        return event_data(*query.event_at(store, uid, seq))
    script = query.transcript(store, uid)
    return {
        "session": script.session.to_dict(),
        "events": [event_data(event, script.bodies.get(event.seq, "")) for event in script.events],
        "branches": script.branches,
        "children": script.children,
    }


def event_data(event: SessionEvent, body: str) -> dict[str, Any]:
    return {**event.to_dict(), "body": body}


def as_lines(store: Store, uid: str, seq: int | None, context: int | None, branch: str, full: bool, thinking: bool) -> Any:
    from ._transcript import View, render, render_context, render_event

    if context is not None:
        return render_context((seen.event, seen.is_cleared, body) for seen, body in query.context_at(store, uid, context))
    if seq is not None:
        return render_event(*query.event_at(store, uid, seq))
    script = query.transcript(store, uid)
    return render(script, View(branch=which(branch, len(script.branches)), full=full, thinking=thinking))


def which(branch: str, known: int) -> int | None:
    if branch == "all":
        return None
    if not branch.isdecimal():
        raise click.BadParameter(f"{branch!r} is neither a number nor all", param_hint="--branch")
    if int(branch) >= max(1, known):
        raise NotFound(f"there is no line {branch}: {'nothing was rewound' if known < 2 else f'the last is {known - 1}'}")
    return int(branch)
