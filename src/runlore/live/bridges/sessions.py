"""Open sessions of a store by id, a few at a time: what bridges share."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Collection
from contextlib import suppress
from threading import RLock
from typing import Any, TypeVar
from urllib.parse import quote
from weakref import WeakKeyDictionary

from ...errors import Conflict, InvalidId, SessionNotFound
from ...model import LogRecord
from ..folds import Fold, View
from ..log import LiveSession, SessionStore
from ..names import name_of
from ..shared import SharedValues

T = TypeVar("T")
V = TypeVar("V", bound=View)

MAX_OPEN = 64
"""Maximum number of sessions that stay open. The least recently used is closed."""


class OpenSessions:
    """Sessions by id. Callers hold `lock` while they use one.

    `store` is a store, its folder or address, or None for the default one.
    """

    def __init__(self, store: SessionStore | str | os.PathLike[str] | None, agent: str) -> None:
        self.store = store if isinstance(store, SessionStore) else SessionStore(store)
        self.agent = agent
        self._owns_store = self.store is not store
        self.lock = RLock()
        self._open: OrderedDict[str, LiveSession] = OrderedDict()
        self._folds: WeakKeyDictionary[LiveSession, Fold[Any]] = WeakKeyDictionary()
        self._shared: OrderedDict[str, SharedValues] = OrderedDict()

    def get(self, id: str) -> LiveSession | None:
        """Return the session, or None if there is none."""
        if id in self._open and _is_deleted(self._open[id]):
            self.forget(id)  # Another process did it. There may be a new one by now.
        if id not in self._open:
            try:
                self.keep(self.store.open(id))
            except SessionNotFound:
                return None
        self._open.move_to_end(id)
        return self._open[id]

    def ensure(self, id: str, **about: Any) -> LiveSession:
        """Return the session to write to; it begins with the first record if it is new.

        Writing raises SessionNotFound if another process has deleted it since it was opened.
        """
        if id not in self._open:
            self.keep(self.store.ensure(id, agent=self.agent, **about))
        self._open.move_to_end(id)
        return self._open[id]

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of work that is done in a thread, holding the lock."""

        def locked() -> T:
            with self.lock:
                return work()

        return await asyncio.to_thread(locked)

    def write(self, id: str, write: Callable[[LiveSession], T], **about: Any) -> T:
        """Return what `write` does with the session, which is made if it is not there."""
        with self.lock:
            try:
                return write(self.ensure(id, **about))
            except SessionNotFound:  # Another process has deleted it since it was opened.
                self.forget(id)
                return write(self.ensure(id, **about))

    def ids(self) -> list[str]:
        """Return the ids of all sessions of the framework, newest first."""
        return [info.id for info in self.store.list(agent=self.agent)]

    def delete(self, id: str) -> None:
        """Delete a session for good."""
        self.forget(id)
        with suppress(SessionNotFound):
            self.store.purge(id)

    def forget(self, id: str) -> None:
        """Close a session."""
        if session := self._open.pop(id, None):
            session.close()

    def fold(self, session: LiveSession, name: str, view: type[V], types: Collection[str]) -> V:
        """Return the value of a session's fold. `name` is ignored after a session's first call."""
        if session not in self._folds:
            self._folds[session] = session.fold(name, view, types=types)
        value: V = self._folds[session].value
        return value

    def shared(self, scope: str) -> SharedValues:
        """Return the values of a scope."""
        if scope not in self._shared:
            self._shared[scope] = self.store.shared(scope)
            _close_oldest(self._shared)
        self._shared.move_to_end(scope)
        return self._shared[scope]

    def keep(self, session: LiveSession) -> None:
        """Keep a session open."""
        self.forget(session.id)
        self._open[session.id] = session
        _close_oldest(self._open)

    def close(self) -> None:
        """Close all sessions, and connections to a server that were opened here.

        They are opened again when they are needed.
        """
        with self.lock:
            for opened in (self._open, self._shared):
                _close_oldest(opened, 0)
            if self._owns_store:
                self.store.close()


def _close_oldest(opened: OrderedDict[str, Any], count: int = MAX_OPEN) -> None:
    while len(opened) > count:
        opened.popitem(last=False)[1].close()


def record_after(
    session: LiveSession, type: str, payload: Callable[[], dict[str, Any] | None]
) -> None:
    """Append a record whose payload depends on what is in the log.

    The payload is made again if another process has appended meanwhile. None appends nothing.
    """
    while True:
        last = session.last_seq
        content = payload()
        if content is None:
            return
        try:
            session.record(type, content, expect=last)
        except Conflict:
            continue
        return


def _is_deleted(session: LiveSession) -> bool:
    """Return True if the session was deleted since it was opened. Its last record says so."""
    if session.is_draft:
        return False
    try:
        last = session.tail(1)
    except SessionNotFound:
        return True
    return not last or last[-1].type == "deleted"


def id_for(framework: str, *parts: str) -> str:
    """Return the id of a session that a framework names by several texts.

    Different parts never give the same id. Parts that are too long for an id are hashed.
    """
    readable = "/".join((framework, *(quote(part, safe="") for part in parts)))
    try:
        name_of(readable)
    except InvalidId:
        return f"{framework}/{hashlib.sha256(readable.encode()).hexdigest()}"
    return readable


def last_records(live: LiveSession, type: str, count: int) -> list[LogRecord]:
    """Return the last records of a type, oldest first, without reading the others."""
    size = count + 1
    while count > 0:
        records = live.tail(size)
        matches = [one for one in records if one.type == type]
        if len(matches) >= count or len(records) < size:
            return matches[-count:]
        size *= 4
    return []
