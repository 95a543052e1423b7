"""Sessions with the events that answer a question: a head for each, and below it what was said, the
words marked.

From values to text; nothing here asks the store or prints. All text of the transcript passes
`clean` or `one_line`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import msgspec

from ..search import EventHit
from ..store import SessionLine
from ..text.words import ago
from .output import cells, clean, fit, one_line, paint, screen, title_of, wrap

OPEN, CLOSE = "\ufff9", "\ufffb"
"""They stand around a word while its line is cut: they take no room, and `clean` leaves none in a
text."""

LINES = 2
"""Number of lines that are shown of a snippet."""
WIDE = 80
"""Columns that a screen needs for the repository to be named."""
MIN_SNIPPET_WIDTH = 48
"""Columns that a snippet needs to stand beside the name of its event, and not below it."""


WHOLE_EVENT = "`runlore show UID#SEQ --json` has an event with its whole text"
"""Advice for getting the whole text of an event that was cut."""


class ReferencedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that answers a question."""

    PRESENTS: ClassVar = (EventHit,)

    ref: str
    """`uid#seq`; `runlore show` takes it."""
    seq: int
    kind: str
    ts: str | None
    tool: str | None
    is_error: bool
    snippet: str
    marks: list[tuple[int, int]]
    is_injected: bool

    @classmethod
    def of(cls, uid: str, event: EventHit) -> ReferencedEvent:
        return cls(ref=f"{uid}#{event.seq}", **msgspec.structs.asdict(event))


class SessionWithEvents(SessionLine, frozen=True):
    """A session with the events that answer a question, in place of their number."""

    events: list[ReferencedEvent]  # type: ignore[assignment]


def heads(lines: Sequence[SessionLine], names: Sequence[str]) -> list[str]:
    """Return a line for each session: its name, agent, time, title, and its repository if there is
    room."""
    width = screen()[0]
    found = []
    for line, name in zip(lines, names, strict=True):
        parts = [
            name,
            line.agent,
            when(line.ended_at),
            fit(repo(line), width // 6) if width >= WIDE else "",
            title_of(line),
        ]
        found.append(paint(fit("  ".join(part for part in parts if part), width), "bold"))
    return found


def event_lines(refs: Sequence[str], events: Sequence[EventHit]) -> Iterator[str]:
    """Yield the lines of each event: its name for `runlore show`, its label and its text."""
    labels = [label(event) for event in events]
    width = max(map(len, refs), default=0)
    label_width = max(map(cells, labels), default=0)
    indent = 2 + width + 2 + label_width + 2
    is_beside = screen()[0] - indent >= MIN_SNIPPET_WIDTH
    indent = indent if is_beside else 4
    for ref, kind, event in zip(refs, labels, events, strict=True):
        lines = snippet_lines(event, indent)
        head = (
            f"  {paint(ref, 'cyan')}{' ' * (width - len(ref))} "
            f" {paint(kind, 'red' if event.is_error else 'dim')}"
        )
        if is_beside:
            yield f"{head}{' ' * (label_width - cells(kind))}  {lines.pop(0)}"
        else:
            yield head
        yield from (" " * indent + line for line in lines)


def snippet_lines(event: EventHit, indent: int) -> list[str]:
    """The snippet in at most two lines, its words marked on a terminal."""
    width = max(20, screen()[0] - indent)
    lines = list(wrap(with_marks(event.snippet, event.marks).strip(), width))
    if len(lines) > LINES:
        lines[LINES - 1] = fit(f"{lines[LINES - 1]} {lines[LINES]}", width)
    return list(paint_marks(lines[:LINES]))


def with_marks(snippet: str, marks: Sequence[tuple[int, int]]) -> str:
    """The clean snippet on one line, with its marked words between OPEN and CLOSE."""
    parts: list[str] = []
    at = 0
    for first, last in marks:
        parts += [flat(snippet[at:first]), OPEN, flat(snippet[first:last]), CLOSE]
        at = last
    return "".join([*parts, flat(snippet[at:])])


def flat(text: str) -> str:
    """Clean and on one line, with the spaces at its ends."""
    return clean(text).replace("\n", " ").replace("\t", " ")


def paint_marks(lines: Sequence[str]) -> Iterator[str]:
    """The lines with what is marked in colour. A mark may begin on one and end on the next, or be
    cut off."""
    is_open = False
    for line in lines:
        parts: list[str] = []
        for piece in (OPEN * is_open + line).split(OPEN):
            marked, closed, plain = piece.partition(CLOSE)
            parts.append(paint(marked, "bold yellow") + plain if parts else piece)
            is_open = len(parts) > 1 and not closed
        yield "".join(parts).replace(CLOSE, "")


def label(event: EventHit) -> str:
    """Return what an event is, and its tool."""
    kind = "injected" if event.is_injected else event.kind
    return kind + (f"/{one_line(event.tool)[:24]}" if event.tool else "")


def when(moment: str | None) -> str:
    return ago(datetime.fromisoformat(moment), datetime.now(UTC)) if moment else "?"


def repo(line: SessionLine) -> str:
    return one_line(line.repo).rpartition("/")[2]


def session_fields(line: SessionLine, events: Sequence[EventHit]) -> dict[str, Any]:
    """Return the fields of a `SessionWithEvents`, by name."""
    return {
        **msgspec.structs.asdict(line),
        "events": [ReferencedEvent.of(line.uid, event) for event in events],
    }
