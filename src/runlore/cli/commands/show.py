"""Read a session: turns, tool calls, diffs, errors, subagents.

SESSION is the beginning of an id, latest, latest:AGENT, latest:REPO, or any of these with #EVENT.
With --json an object: session, events, branches, children; with --event that event, with --context
an array of events, with --digest what is kept of it (docs/json.md). --raw gives the agent's own
records, a line each. Of a session that was evicted the digest is all there is.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import click
import msgspec

from ... import query
from ...answers import Answer
from ...errors import NotFound
from ...model import Cost, Digest, Outcome, Session, SessionEvent
from ...query.digests import current_digest
from ...store import SessionLine, Store
from ...store.values import Family
from ...timeline import Branch
from ..digest_lines import render as render_digest
from ..hits import WHOLE_EVENT
from ..options import SessionName, as_json, is_paged, no_pager, open_store
from ..output import note, page, safe_json, write_bytes, write_json
from ..transcript import View, head, render, render_context, render_event

OPPOSITES = (
    ("--digest", "--event"), ("--digest", "--context"), ("--digest", "--raw"),
    ("#EVENT", "--event"), ("#EVENT", "--context"), ("--event", "--context"),
    ("--raw", "--context"), ("--raw", "--json"),
    *((how, what) for how in ("--branch", "--full", "--thinking")
      for what in ("#EVENT", "--event", "--context", "--raw", "--json", "--digest")),
)  # fmt: skip
"""Pairs of options that exclude each other. Options for reading a session do not apply to one
event, a context, records or data."""


class ShownSession(SessionLine, frozen=True, kw_only=True):
    """A session as a listing has it, with the same names and values, and all else that is stored
    of it. Fields that a newer version wrote are beside these."""

    PRESENTS: ClassVar = (SessionLine, Session, Cost)

    native_session_id: str
    outcome_evidence: str | None
    pinned: bool
    name: str | None
    """The name that a person gave it. Its title is this, then."""
    tags: tuple[str, ...]
    note: str | None
    marked_outcome: Outcome | None
    git_state: str | None
    git_note: str | None
    git_at: datetime | None
    reasoning_tokens: int
    last_seq: int
    content_hash: str
    discovered_at: datetime | None
    analyzed_at: datetime | None
    analyzed_seq: int | None
    analyzed_hash: str | None
    schema_version: int


class ShownEvent(SessionEvent, frozen=True, kw_only=True):
    """An event with its text. Fields that a newer version wrote are beside these."""

    body: str
    """The whole text."""


class ContextEvent(ShownEvent, frozen=True, kw_only=True):
    """An event that the model saw."""

    is_cleared: bool
    """True if its result had been emptied by then."""


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """A session with all that happened in it."""

    session: ShownSession
    events: list[ShownEvent]
    branches: list[Branch]
    children: list[SessionLine]
    """Sessions that came out of it."""


@click.command(help=__doc__)
@click.argument("session", type=SessionName(), default="latest")
@click.option(
    "--event", type=click.IntRange(0), metavar="N", help="Only event N, with its whole text."
)
@click.option(
    "--context",
    type=click.IntRange(0),
    metavar="N",
    help="Show what the model saw after event N.",
)
@click.option(
    "--digest",
    "is_digest",
    is_flag=True,
    help="Show what was requested, done and decided, and how it ended, on one screen.",
)
@click.option(
    "--branch", metavar="N|all", help="Show what a rewind left behind, by number; or everything."
)
@click.option(
    "--raw", is_flag=True, help="The agent's own records (with --event the one it came from)."
)
@click.option("--full", is_flag=True, help="Do not collapse tool output.")
@click.option("--thinking", is_flag=True, help="Show the thinking of the model.")
@no_pager
@as_json(
    Transcript,
    items="events",
    whole=WHOLE_EVENT,
    forms={
        "--event": Answer(ShownEvent, whole="without --max-tokens its text is whole"),
        "--context": Answer(list[ContextEvent], items="", whole=WHOLE_EVENT),
        "--digest": Answer(Digest),
    },
)
@click.pass_context
def command(
    ctx: click.Context,
    session: str,
    event: int | None,
    context: int | None,
    is_digest: bool,
    branch: str | None,
    raw: bool,
    full: bool,
    thinking: bool,
    is_json: bool,
) -> None:
    with open_store() as (store, config):
        uid, seq = named(store, session)
        flags = {
            "--raw": raw,
            "--digest": is_digest,
            "--json": is_json,
            "--full": full,
            "--thinking": thinking,
        }
        given = {
            "#EVENT": seq,
            "--event": event,
            "--context": context,
            "--branch": branch,
            **{name: True for name in flags if flags[name]},
        }
        refuse_opposites({name for name, value in given.items() if value is not None})
        event = seq if event is None else event
        if raw:
            write_records(store, uid, event)
        elif is_digest or (not is_json and has_only_digest(store, uid, event)):
            show_digest(ctx, store, uid, current_digest(store, uid, config.quality), event, is_json)
        elif is_json:
            form = "--context" if context is not None else "" if event is None else "--event"
            write_json(as_data(store, uid, event, context), form)
        else:
            note_quoted(store, uid, event)
            page(
                as_lines(store, uid, event, context, branch or "0", full, thinking),
                pager=is_paged(ctx),
            )


def has_only_digest(store: Store, uid: str, event: int | None) -> bool:
    """Return True if the session was evicted and no text of it, or of this event, is left."""
    return bool(query.get(store, uid).evicted_at) and not query.has_text(store, uid, event)


def write_records(store: Store, uid: str, event: int | None) -> None:
    for record in query.raw_records(store, uid, event):
        write_bytes(safe_json(record.strip(b"\r\n")) + b"\n")


def note_quoted(store: Store, uid: str, event: int | None) -> None:
    if event is not None and query.has_left(store, uid, event):
        note("its text has left the store; this is what its digest quotes")


def show_digest(
    ctx: click.Context,
    store: Store,
    uid: str,
    digest: Digest | None,
    seq: int | None,
    is_json: bool,
) -> None:
    if digest is None:
        raise NotFound(f"{uid} has no digest, and there is nothing to make one from")
    if is_json:
        write_json(digest.to_dict(), "--digest")
    elif seq is None:
        script = query.transcript(store, uid)
        page([*head(script), "", *render_digest(digest)], pager=is_paged(ctx))
    else:
        raise NotFound(f"{uid}#{seq} was evicted, and nothing is kept of it")


def named(store: Store, session: str) -> tuple[str, int | None]:
    """Return the uid of the named session, and its event if one is named."""
    name, seq = query.split_name(session)
    before, sign, after = name.rpartition("#")
    try:
        return query.resolve(store, name), seq
    except NotFound:
        if not (sign and before):
            raise
        query.resolve(store, before)  # Where there is no such session, that is what is wrong.
        raise click.BadParameter(
            f"{after!r} is not an event number", param_hint="SESSION"
        ) from None


def refuse_opposites(given: set[str]) -> None:
    """Raises UsageError when two of the options that are given ask for different things."""
    for one, other in OPPOSITES:
        if {one, other} <= given:
            raise click.UsageError(f"{one} and {other} do not go together")


def as_data(store: Store, uid: str, seq: int | None, context: int | None) -> Any:
    if context is not None:
        return [
            {**event_data(seen.event, body), "is_cleared": seen.is_cleared}
            for seen, body in query.context_at(store, uid, context)
        ]
    if seq is not None:
        return event_data(*query.event_at(store, uid, seq))
    script = query.transcript(store, uid)
    return {
        "session": session_data(script.session, script.family),
        "events": [event_data(event, script.bodies.get(event.seq, "")) for event in script.events],
        "branches": script.branches,
        "children": script.children,
    }


def session_data(session: Session, family: Family) -> dict[str, Any]:
    """Return the session with the names of a listing."""
    data = session.to_dict()
    cost = data.pop("cost")
    del cost["cache_tokens"]  # The sum of two others.
    return {
        "uid": data.pop("session_uid"),
        "agent": data.pop("flavor"),
        "branch": data.pop("git_branch"),
        **data,
        "title": session.called,
        **cost,
        "subagents": family.subagents,
        "errors_with_subagents": family.errors,
        "tokens_with_subagents": family.tokens,
        "usd_with_subagents": family.usd,
        "unpriced": family.own_unpriced,
        "unpriced_with_subagents": family.unpriced,
    }


def event_data(event: SessionEvent, body: str) -> dict[str, Any]:
    return {**event.to_dict(), "body": body}


def as_lines(
    store: Store,
    uid: str,
    seq: int | None,
    context: int | None,
    branch: str,
    full: bool,
    thinking: bool,
) -> Any:
    if context is not None:
        return render_context(
            (seen.event, seen.is_cleared, body)
            for seen, body in query.context_at(store, uid, context)
        )
    if seq is not None:
        return render_event(*query.event_at(store, uid, seq))
    script = query.transcript(store, uid)
    return render(
        script, View(branch=which(branch, len(script.branches)), full=full, thinking=thinking)
    )


def which(branch: str, known: int) -> int | None:
    if branch == "all":
        return None
    if not branch.isdecimal():
        raise click.BadParameter(f"{branch!r} is neither a number nor all", param_hint="--branch")
    if int(branch) >= max(1, known):
        raise NotFound(
            f"there is no branch {branch}:"
            f" {'nothing was rewound' if known < 2 else f'the last is {known - 1}'}"
        )
    return int(branch)
