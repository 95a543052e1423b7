"""Remove sessions from the store for good.

Shows what would go; --yes does it, with subagents. No sync brings them back. The agents'
own files stay. With --json an object (docs/json.md).
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import click
import msgspec

from ... import config, query
from ... import store as stores
from ...errors import NotFound
from ...lessons import Lesson, actions
from ...lessons.shelf import Broken
from ...store import Filter, SessionLine, Store
from ...text.words import count, size
from ..options import SessionName, as_json, exact_filters, open_store
from ..output import echo, note, one_line, warn, write_json
from . import ls


class ForgottenSessions(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions that were removed, or would be, and everything that goes with them."""

    dry_run: bool
    sessions: list[str]
    events: int
    source_bytes: int
    copies: list[str]
    """Other sessions that show parts of these."""
    lessons: list[str]
    """Ids of the lessons that rest on these, or quote them."""
    unread: list[str]
    """Files among the lessons that cannot be read, and stay as they are."""


@click.command(help=__doc__)
@click.argument("sessions", nargs=-1, type=SessionName())
@exact_filters
@click.option("--yes", is_flag=True, help="Do it. Without this it is only shown.")
@as_json(ForgottenSessions, items="sessions")
def command(sessions: tuple[str, ...], chosen: Filter, yes: bool, is_json: bool) -> None:
    is_filtered = chosen._replace(parents_only=True) != Filter()
    check_selection(sessions, is_filtered)
    with open_store() as (store, setting):
        lines = query.with_subagents(store, selected(store, sessions, chosen, is_filtered))
        copies = store.retention.copies_of(line.uid for line in lines)
        if not is_json and lines:
            echo("\n".join(ls.as_table(store, lines)))
            ls.note_marks(lines)
        uids = [line.uid for line in lines]
        changed, broken = (
            ([], [])
            if yes
            else actions.forget(store, setting, uids, datetime.now(UTC), dry_run=True)
        )
    if yes and lines:
        changed, broken = erase(setting, uids)
    if lines:
        warn_of_broken(broken)
    report(
        lines, copies, [lesson.id for lesson in changed], [one.file for one in broken], yes, is_json
    )


def check_selection(sessions: tuple[str, ...], is_filtered: bool) -> None:
    """Raise UsageError unless sessions are either named or selected by filters."""
    if sessions and is_filtered:
        raise click.UsageError("name sessions or choose them by filters, not both")
    if not sessions and not is_filtered:
        raise click.UsageError(
            "name sessions, or choose them by filters; nothing else is forgotten"
        )


def selected(
    store: Store, sessions: tuple[str, ...], chosen: Filter, is_filtered: bool
) -> list[str]:
    """Return the uids of the sessions that are named or match the filters."""
    if not is_filtered:
        return [query.resolve(store, name) for name in sessions]
    if query.is_empty(store):
        raise NotFound(query.EMPTY)
    return store.sessions.uids(chosen)


def warn_of_broken(broken: list[Broken]) -> None:
    for one in broken:
        warn(
            one_line(
                f"{one.file} is no lesson ({one.reason}): what it may have of these stays; look"
                " into it"
            )
        )


def erase(setting: config.Config, uids: list[str]) -> tuple[list[Lesson], list[Broken]]:
    """Return the lessons that lost something, and the files that are none. Lessons come first: if
    this is killed, the sessions are still there to be forgotten."""
    now = datetime.now(UTC)
    with closing(stores.open_store(setting.store)) as store:
        found = actions.forget(store, setting, uids, now)
        store.retention.forget(uids, now)
    return found


def report(
    lines: list[SessionLine],
    copies: list[str],
    lessons: list[str],
    unread: list[str],
    is_done: bool,
    is_json: bool,
) -> None:
    events = sum(line.events for line in lines)
    source_bytes = sum(line.source_bytes for line in lines)
    if is_json:
        write_json(
            ForgottenSessions(
                dry_run=not is_done,
                sessions=[line.uid for line in lines],
                events=events,
                source_bytes=source_bytes,
                copies=copies,
                lessons=lessons,
                unread=unread,
            )
        )
        return
    if not lines:
        note("no session matches; nothing to forget")
        return
    what = (
        f"{count(len(lines), 'session')} with {count(events, 'event')} from {size(source_bytes)} of"
        " transcripts"
    )
    if is_done:
        note(f"forgotten: {what}. No sync brings them back.")
    else:
        note(
            f"would forget {what}: text, index, native records and all that was derived. Nothing is"
            " gone yet; --yes does it."
        )
    note_losses(copies, lessons, is_done)
    note(
        "The agents' own files stay as they are. To keep a folder or repository out from the start:"
        " [exclude] in config.toml."
    )


def note_losses(copies: list[str], lessons: list[str], is_done: bool) -> None:
    """Name the other sessions and the lessons that lose parts."""
    if copies:
        others = (
            f"{count(len(copies), 'other session')} {'shows' if len(copies) == 1 else 'show'} parts"
            " of these as copies"
        )
        note(
            f"{others}; those parts {'went' if is_done else 'go'} as well:"
            f" {', '.join(map(one_line, copies))}"
        )
    if lessons:
        what = (
            f"{count(len(lessons), 'lesson')} {'has' if len(lessons) == 1 else 'have'} words or"
            " evidence of these"
        )
        note(
            f"{what}, which {'went' if is_done else 'go'} as well; what you decided stays:"
            f" {', '.join(lessons)}"
        )
        note(
            "A file that `runlore lessons render` wrote them into has them until it is rendered"
            " again."
        )
