"""A session and its events as a model reads them: a head for each, and its text, shortened unless
all of it is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from ...errors import StoreError
from ...model import Session, SessionEvent, describe_outcome, format_time
from ...store import SessionLine, Store
from ...store.values import Family
from ...text.words import errors_of, is_cost_known, usd, with_subagents
from ...timeline import ContextEvent, active, is_prompt
from .fencing import line
from .fitting import Entry

SHOWN = {
    "prompt": 1_500,
    "reply": 1_500,
    "error": 1_000,
    "call": 400,
    "result": 400,
    "thinking": 200,
}
"""Characters of a text that is shortened: most of what is asked for is in what people and the agent
said, and in what failed."""

CHUNK = 64
"""Events that are read at once: a page seldom has more."""

MARKED = 3_000
"""Maximum number of events of a session whose rewound events are marked: finding them is slow."""

CHILDREN = 8


# ── heads ─────────────────────────────────────────────────────────────────────────────────────────
def session_head(session: Session, family: Family, children: Iterable[SessionLine]) -> str:
    """Return the facts about a session, in a few lines."""
    cost, below = session.cost, list(children)
    where = [
        line(session.repo),
        f"on {line(session.git_branch, 80)}" if session.git_branch else "",
        line(session.model, 80),
    ]
    figures = [
        f"{cost.turns} turns",
        f"{session.events} events up to #{session.last_seq}",
        errors_of(family.errors, session.errors, family.subagents),
        with_subagents(
            str(family.tokens), str(cost.total_tokens), family.subagents, unit=" tokens"
        ),
        with_subagents(
            usd(family.usd, family.unpriced), usd(cost.usd, family.own_unpriced), family.subagents
        )
        if is_cost_known(family.usd, family.unpriced)
        else "",
        "" if session.outcome == "unknown" else describe_outcome(session),
    ]
    lines = [
        f"session {line(session.session_uid, 200)}",
        f"title: {line(session.called)}" if session.called else "",
        "  ".join(part for part in where if part),
        f"folder: {line(session.cwd, 200)}" if session.cwd else "",
        f"{_time(session.started_at)} to {_time(session.ended_at)}",
        ", ".join(part for part in figures if part),
        (
            f"{session.relation or 'child'} of {line(session.parent_uid, 200)}"
            if session.parent_uid
            else ""
        ),
        *(
            f"{child.relation or 'child'}: {line(child.uid, 200)}  {line(child.title, 80)}"
            for child in below[:CHILDREN]
        ),
        f"and {len(below) - CHILDREN} more that came out of it" if len(below) > CHILDREN else "",
        "its text is no longer stored" if session.evicted_at else "",
    ]
    return "\n".join(text for text in lines if text)


def event_facts(event: SessionEvent) -> str:
    """Return the facts about one event besides its text."""
    tests = event.tests
    known = {
        "event": f"{line(event.session_uid, 200)}#{event.seq}",
        "model": line(event.model, 80),
        "follows": "" if event.parent_seq is None else f"#{event.parent_seq}",
        "copied from": line(event.origin, 220),
        "took": "" if event.duration_ms is None else f"{event.duration_ms} ms",
        "tests": (
            f"{tests.passed} passed, {tests.failed} failed, {tests.skipped} skipped"
            if tests
            else ""
        ),
        "files": (
            ", ".join(line(file, 120) for file in event.files[:8])
            + (" and more" if len(event.files) > 8 else "")
        ),
        "folder": line(event.cwd, 200),
    }
    return "\n".join(f"{name}: {value}" for name, value in known.items() if value)


def event_head(event: SessionEvent, *notes: str) -> str:
    parts = [f"#{event.seq}", line(event.kind, 24), line(event.tool, 40), _time(event.ts)]
    if event.exit_code:
        parts.append(f"exit {event.exit_code}")
    elif event.is_error:
        parts.append("error")
    return " ".join(part for part in (*parts, *notes) if part)


def _time(moment: datetime | None) -> str:
    return "?" if moment is None else format_time(moment)[:16] + "Z"


# ── events ────────────────────────────────────────────────────────────────────────────────────────
def iter_range(
    store: Store,
    uid: str,
    first: int,
    last: int,
    offset: int,
    *,
    full: bool,
    active_seqs: set[int] | None,
) -> Iterator[Entry]:
    """The events of a range, read as they are wanted. `active_seqs` are those that no rewind left
    behind, when that is known."""
    while first <= last:
        events = _chunk(store, uid, first, last)
        if not events:
            return
        bodies = bodies_of(store, uid, events[0].seq, events[-1].seq)
        for event in events:
            notes = (
                ["rewound later"]
                if active_seqs is not None and event.seq not in active_seqs
                else []
            )
            yield from _entry(
                event, bodies.get(event.seq), offset if event.seq == first else 0, full, notes
            )
        first, offset = events[-1].seq + 1, 0


def iter_context(
    found: Iterable[ContextEvent], store: Store, uid: str, first: int, offset: int, *, full: bool
) -> Iterator[Entry]:
    """Yield what the model saw, from the item with number `first` on. An entry has the number of
    its item: a compaction may have put events in another order."""
    for n, one in enumerate(found):
        event = one.event
        if n < first:
            continue
        if one.is_cleared:
            yield Entry(at=n, head=event_head(event, "cleared: the model no longer saw this text"))
            continue
        body = bodies_of(store, uid, event.seq, event.seq).get(event.seq)
        notes = [line(event.role, 24)] if event.kind == "lifecycle" else []
        entries = _entry(event, body, offset if n == first else 0, full, notes, is_seen=True)
        yield from (msgspec.structs.replace(entry, at=n) for entry in entries)


def whole(event: SessionEvent, body: str | None, offset: int) -> Iterator[Entry]:
    """One event with all of its text."""
    return _entry(event, body, offset, True, [])


def _chunk(store: Store, uid: str, first: int, last: int) -> list[SessionEvent]:
    """The next events of a range. Numbers may have gaps as wide as a block, so what lies beyond is
    only looked for once."""
    return store.sessions.events(uid, first, min(last, first + CHUNK - 1)) or store.sessions.events(
        uid, first, last
    )


def bodies_of(store: Store, uid: str, first: int, last: int) -> dict[int, str | None]:
    """The texts of these events; of a damaged segment what the events' summaries have must do."""
    try:
        return {**store.sessions.bodies(uid, first, last)}
    except StoreError:
        return {}


def _entry(
    event: SessionEvent,
    body: str | None,
    offset: int,
    full: bool,
    notes: list[str],
    *,
    is_seen: bool = False,
) -> Iterator[Entry]:
    if not (full or is_seen):
        if event.origin is not None:
            yield Entry(
                at=event.seq,
                head=event_head(event, *notes, f"copied from {line(event.origin, 220)}"),
            )
            return
        if event.kind == "lifecycle" and event.view is None:
            return
    text = body if body is not None else event.summary or ""
    text = text if full else shortened(text, SHOWN[_sort_of(event)], event.seq)
    yield Entry(
        at=event.seq,
        head=event_head(event, *notes, _continued(offset)),
        body=text,
        offset=min(offset, len(text)),
    )


def _sort_of(event: SessionEvent) -> str:
    if is_prompt(event):
        return "prompt"
    if event.kind == "thinking":
        return "thinking"
    if event.is_error or event.kind in ("error", "retry"):
        return "error"
    return (
        "call"
        if event.is_call
        else "result"
        if event.kind in ("tool_result", "lifecycle")
        else "reply"
    )


def shortened(text: str, length: int, seq: int) -> str:
    """Return the beginning and the end of a text: the reason of a failure is often at the end."""
    if len(text) <= length * 5 // 4:
        return text
    head, tail = length * 2 // 3, length // 3
    return (
        f"{text[:head]}\n[… {len(text) - head - tail} characters left out: uid#{seq} shows all"
        f" …]\n{text[-tail:]}"
    )


def _continued(offset: int) -> str:
    return f"(from character {offset} on)" if offset else ""


def active_seqs(store: Store, session: Session) -> set[int] | None:
    """The events that no rewind left behind; None when the session is too long to tell in time."""
    if session.events > MARKED:
        return None
    return {event.seq for event in active(store.sessions.events(session.session_uid))}
