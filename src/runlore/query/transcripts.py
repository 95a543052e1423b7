"""One session: its events, the model's view of them and its native records."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..errors import NotFound
from ..model import BLOCK, Session, SessionEvent
from ..store import Filter, SessionLine, Store
from ..store.values import Family
from ..timeline import Branch, ContextEvent, ToolCall, branches, model_context, pairs
from .names import names
from .sessions import get, split_name
from .subagents import by_call, find_pairs


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """A session with all that happened in it."""

    session: Session
    events: list[SessionEvent]
    bodies: dict[int, str]
    branches: list[Branch]
    calls: list[ToolCall]
    children: list[SessionLine]
    """Sessions that came out of this one: subagents, forks, continuations."""
    started: dict[int, tuple[str, ...]]
    """The subagents that each call started, by the seq of the call, where that is proven."""
    family: Family
    """Its figures with its subagents."""
    names: dict[str, str]
    """The short ids, by uid, of this session, its children, and the session it came out of."""


def transcript(store: Store, uid: str) -> Transcript:
    """Return a session with its events. Raises NotFound."""
    session = get(store, uid)
    events = store.sessions.events(uid)
    children = store.sessions.select(Filter(parent_uid=uid, parents_only=False), sort="started")[
        ::-1
    ]
    calls = pairs(events)
    return Transcript(
        session=session,
        events=events,
        bodies=store.sessions.bodies(uid),
        branches=branches(events),
        calls=calls,
        children=children,
        started=by_call(find_pairs(store, uid, calls, children), children),
        family=store.overview.family(uid),
        names=names(
            store, [uid, *filter(None, [session.parent_uid]), *(child.uid for child in children)]
        ),
    )


def event_at(store: Store, uid: str, seq: int) -> tuple[SessionEvent, str]:
    """Return one event and its body. Raises NotFound."""
    for event in store.sessions.events(uid, seq, seq):
        return event, store.sessions.bodies(uid, seq, seq).get(seq, "")
    raise NotFound(f"{uid} has no event {seq}; its last is {get(store, uid).last_seq}")


def has_text(store: Store, uid: str, seq: int | None) -> bool:
    """Return True if text of this event is stored.

    For an evicted event that is the text that its digest quotes.
    """
    return seq is not None and bool(store.sessions.bodies(uid, seq, seq).get(seq))


def has_left(store: Store, uid: str, seq: int) -> bool:
    """Return True if the text of an event was evicted, except what its digest quotes."""
    digest = store.digests.get(uid) if get(store, uid).evicted_at else None
    return digest is not None and (digest.before or digest).knows(seq)


def context_at(store: Store, uid: str, seq: int) -> list[tuple[ContextEvent, str]]:
    """Return the model's context after event `seq`: events and their bodies. Raises NotFound."""
    event_at(store, uid, seq)
    bodies = store.sessions.bodies(uid, 0, seq)
    return [
        (item, bodies.get(item.event.seq, ""))
        for item in model_context(store.sessions.events(uid, 0, seq), seq)
    ]


# ── native records ────────────────────────────────────────────────────────────────────────────────
def raw_records(store: Store, uid: str, seq: int | None = None) -> Iterator[bytes]:
    """Yield the native records of a session, or the one that an event came from.

    Raises NotFound if none are stored.
    """
    session = get(store, uid)
    path = session.source_path
    if seq is None:
        records = _all_records(store, session)
    else:
        event, _ = event_at(store, uid, seq)
        if event.origin is not None:
            origin, at = split_name(event.origin)
            yield from raw_records(store, origin, at)
            return
        records = iter(())
        if location := store.sessions.record_of(uid, seq):
            path, number = location
            records = (data for _, _, data in store.sources.native_records(path, number, number))
    first = next(records, None)
    if first is None:
        raise NotFound(
            f"no native records of {uid} are kept; its source was {path or 'not a file'}"
        )
    yield first
    yield from records


def _all_records(store: Store, session: Session) -> Iterator[bytes]:
    """Yield the records of every file that a session has a part in.

    Of a file that a subagent shares with its parent, only the subagent's own records are given.
    """
    blocks: dict[int, list[SessionEvent]] = {}
    for event in store.sessions.events(session.session_uid):
        if event.record is not None:
            blocks.setdefault(event.seq // BLOCK, []).append(event)
    files: dict[str, set[int | None]] = {session.source_path or "": set()}
    for events in blocks.values():
        if location := store.sessions.record_of(session.session_uid, events[0].seq):
            files.setdefault(location[0], set()).update(event.record for event in events)
    shared = _parent_source(store, session)
    for path, own in files.items():
        yield from (
            data
            for number, _, data in store.sources.native_records(path)
            if path != shared or number in own
        )


def _parent_source(store: Store, session: Session) -> str | None:
    """Return the path of the source of a subagent's parent."""
    if session.relation != "subagent" or not session.parent_uid:
        return None
    parent = store.sessions.get(session.parent_uid)
    return parent.source_path if parent else None
