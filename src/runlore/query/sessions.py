"""Sessions by name: the one that a person means, and those below it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from .. import adapters
from ..errors import Ambiguous, NotFound
from ..model import Session
from ..store import Filter, SessionLine, Store
from .names import HANDLE, handle, names

MAX_CHOICES, MAX_TITLE = 4, 40
"""For an ambiguous name: the number of sessions shown, and the characters of each title."""

EMPTY = "the store is empty; run `runlore sync`, or `runlore demo` for something to look at"
"""The answer to any question about a store without sessions."""
DEMO_SOURCES = f"{os.sep}runlore{os.sep}cli{os.sep}demo{os.sep}"
"""A part of the path of every source of the demo, in every installation."""


def resolve(store: Store, name: str) -> str:
    """Return the uid of the session that a person means.

    A name is a uid, a native id, a unique beginning of either, `latest`, or
    `latest:<agent or repo>`. If a session and its subagents begin alike, the session is meant.
    Raises NotFound, Ambiguous.
    """
    if (word := name.lower()) == "latest" or word.startswith("latest:"):
        return _latest(store, name.partition(":")[2])
    uids = _without_subagents(store, _matches(store, name))
    if not uids:
        raise NotFound(
            EMPTY if is_empty(store) else f"no session {name!r}; `runlore ls` lists them"
        )
    if len(uids) > 1:
        raise Ambiguous(f"{name!r} may be {_choices(store, uids)}; give more of the id")
    return uids[0]


def _matches(store: Store, name: str) -> list[str]:
    """Return the uids that a name may stand for."""
    if not name:
        return []
    lower = name.lower()
    # Agents write their ids in small letters, people as they like.
    if uids := store.sessions.find(name) or store.sessions.find(lower):
        return uids
    if lower.startswith(HANDLE) and len(lower) > 1:
        everyone = store.sessions.uids(Filter(parents_only=False))
        if uids := [uid for uid in everyone if handle(uid).startswith(lower)]:
            return uids
    # A subagent as a listing shows it: the short id of the session, which need not be stored, then
    # its own.
    above, slash, below = name.partition("/")
    if not (slash and above):
        return []
    alike = store.sessions.uids(Filter(name=above, parents_only=False))
    own = {uid: uid.partition("/")[2] for uid in alike}
    exact = [uid for uid in alike if own[uid] == below]
    return exact or [uid for uid in alike if own[uid].startswith(below)]


def _without_subagents(store: Store, uids: list[str]) -> list[str]:
    """Return the uids that are no subagents; all of them if there are only subagents."""
    if len(uids) <= 1:
        return uids
    sessions = [(uid, store.sessions.get(uid)) for uid in uids]
    own = [uid for uid, session in sessions if session is None or session.relation != "subagent"]
    return own or uids


def _latest(store: Store, of: str) -> str:
    agent = adapters.find_name(of) or of.lower()
    for chosen in [Filter(agent=agent), Filter(repo=of)] if of else [Filter()]:
        for line in store.sessions.select(chosen, limit=1):
            return line.uid
    raise NotFound(
        EMPTY
        if is_empty(store) or not of
        else f"no session of an agent or repository {of!r}; `runlore ls` lists them"
    )


def _choices(store: Store, uids: Sequence[str]) -> str:
    """Return a few sessions by the ids that tell them apart, with their titles."""
    titles = {uid: get(store, uid).called or "" for uid in uids[:MAX_CHOICES]}
    some = [
        f"{name} ({titles[uid][:MAX_TITLE]})" if titles[uid] else name
        for uid, name in names(store, list(titles)).items()
    ]
    return ", ".join(some) + (" or others" if len(uids) > MAX_CHOICES else "")


def is_demo(store: Store) -> bool:
    """Return True if the store has sessions, and all of them are those of the demo."""
    return store.sources.are_below(DEMO_SOURCES) and not is_empty(store)


def is_empty(store: Store) -> bool:
    """Return True if no session is stored."""
    return not store.sessions.count(Filter(parents_only=False))


def split_name(name: str) -> tuple[str, int | None]:
    """Split `uid#seq` into its parts. The number is None if the name has none."""
    session, _, seq = name.rpartition("#")
    return (session, int(seq)) if session and seq.isdecimal() else (name, None)


def get(store: Store, uid: str) -> Session:
    """Return a session. Raises NotFound."""
    session = store.sessions.get(uid)
    if session is None:
        raise NotFound(f"no session {uid!r}; `runlore ls` lists them")
    return session


def with_subagents(store: Store, uids: Iterable[str]) -> list[SessionLine]:
    """Return these sessions and every subagent below them, newest first."""
    chosen: set[str] = set()
    rest = list(uids)
    every = {line.uid: line for line in store.sessions.select(Filter(parents_only=False))}
    below: dict[str, list[str]] = {}
    for line in every.values():
        if line.relation == "subagent" and line.parent_uid:
            below.setdefault(line.parent_uid, []).append(line.uid)
    while rest:
        uid = rest.pop()
        if uid in every and uid not in chosen:
            chosen.add(uid)
            rest += below.get(uid, ())
    return [line for uid, line in every.items() if uid in chosen]
