"""Pin a session, tag it, name it, say how it ended, add a note.

A pinned session is never evicted. The name is shown instead of the title. The outcome counts
before all other evidence. `--text '#TAG'` and `--text '#pinned'` choose by it, in `ls` and
elsewhere. Without options, the marks of the session are shown. With --json an object
(docs/json.md).
"""

from __future__ import annotations

from contextlib import closing
from typing import ClassVar

import click
import msgspec

from ... import query
from ... import store as stores
from ...model import Outcome, Session, shorten
from ...store.values import Marks
from ..options import SessionName, as_json, open_store
from ..output import echo, one_line, write_json

MAX_CHARS = 2000
MAX_TAGS = 32
_BY_WORD: dict[str, Outcome | None] = {
    "success": "success",
    "fail": "fail",
    "abandoned": "abandoned",
    "none": None,
}
OUTCOMES = tuple(_BY_WORD)


class MarkedSession(msgspec.Struct, frozen=True, kw_only=True):
    """The marks that people gave a session."""

    PRESENTS: ClassVar = (Session,)

    uid: str
    pinned: bool
    name: str | None
    tags: tuple[str, ...]
    note: str | None
    outcome: Outcome | None
    """How it ended, as a person said; null if nobody did."""


@click.command(help=__doc__)
@click.argument("session", type=SessionName())
@click.option("--pin", is_flag=True, help="Never evict it.")
@click.option("--unpin", is_flag=True, help="Remove the pin.")
@click.option(
    "--tag", "tags", multiple=True, metavar="WORD", help="Add a tag; several times for several."
)
@click.option("--untag", "untags", multiple=True, metavar="WORD", help="Remove a tag.")
@click.option("--name", metavar="TEXT", help="Show this name; '' restores its own title.")
@click.option("--note", metavar="TEXT", help="Set the note; '' removes it.")
@click.option(
    "--outcome",
    type=click.Choice(OUTCOMES),
    metavar="HOW",
    help=f"Say how it ended: {', '.join(OUTCOMES[:-1])}; none leaves it to the evidence.",
)
@as_json(MarkedSession)
def command(
    session: str,
    pin: bool,
    unpin: bool,
    tags: tuple[str, ...],
    untags: tuple[str, ...],
    name: str | None,
    note: str | None,
    outcome: str | None,
    is_json: bool,
) -> None:
    if pin and unpin:
        raise click.UsageError("--pin or --unpin, not both")
    with open_store() as (store, setting):
        found = query.get(store, query.resolve(store, session))
    old = Marks(
        pinned=found.pinned,
        name=found.name,
        tags=found.tags,
        note=found.note,
        outcome=found.marked_outcome,
    )
    new = Marks(
        pinned=(old.pinned or pin) and not unpin,
        name=changed_name(old.name, name),
        tags=changed_tags(old.tags, tags, untags),
        note=old.note if note is None else cleaned(note, MAX_CHARS) or None,
        outcome=changed_outcome(old.outcome, outcome),
    )
    if new != old:
        with closing(stores.open_store(setting.store)) as store:
            store.sessions.mark(found.session_uid, new)
    if is_json:
        write_json(MarkedSession(uid=found.session_uid, **msgspec.structs.asdict(new)))
    else:
        show_marks(found, new)


def show_marks(session: Session, marks: Marks) -> None:
    echo(f"{session.session_uid}  {one_line(marks.name or session.title or '')}")
    if marks.pinned or marks.tags:
        echo("  " + " ".join(["pinned"] * marks.pinned + [f"#{tag}" for tag in marks.tags]))
    if marks.outcome:
        echo(f"  {marks.outcome}")
    if marks.note:
        echo(f"  {one_line(marks.note)}")


def changed_name(old: str | None, name: str | None) -> str | None:
    """Return the name after the change: None keeps it, "" removes it."""
    return old if name is None else shorten(cleaned(name, MAX_CHARS)) or None


def changed_outcome(old: Outcome | None, outcome: str | None) -> Outcome | None:
    """Return the outcome after the change: None keeps it, "none" removes it."""
    return old if outcome is None else _BY_WORD[outcome]


def changed_tags(
    old: tuple[str, ...], added: tuple[str, ...], removed: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the tags after the change, each once. Raises UsageError for too many."""
    tags = dict.fromkeys(
        [*(tag for tag in old if tag not in removed), *(cleaned(tag, 64) for tag in added)]
    )
    if len(tags) > MAX_TAGS:
        raise click.UsageError(f"a session has at most {MAX_TAGS} tags")
    return tuple(tag for tag in tags if tag)


def cleaned(text: str, max_chars: int) -> str:
    """Return the text in one line, cut to this length."""
    return " ".join(text.split())[:max_chars]
