"""A cache of outlines of sessions, because pages load in parts. A session that grew is outlined
again."""

from __future__ import annotations

import threading
from collections import OrderedDict

from .. import query
from ..export.outline import Outline, outline
from ..store import Store

MAX_EVENTS = 200_000
"""Maximum number of events in all cached outlines: at most about 250 MB, usually far less."""


class Outlines:
    def __init__(self) -> None:
        self._outlines: OrderedDict[tuple[str, int | None], tuple[object, Outline]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, store: Store, uid: str, branch: int | None) -> Outline:
        """Raises NotFound."""
        now = _state(store, uid)
        with self._lock:
            state, found = self._outlines.get((uid, branch), (None, None))
            if found is not None and state == now:
                self._outlines.move_to_end((uid, branch))
                return found
        made = outline(store, uid, branch)
        with self._lock:
            self._outlines[uid, branch] = now, made
            while (
                len(self._outlines) > 1
                and sum(len(one.events) for _, one in self._outlines.values()) > MAX_EVENTS
            ):
                self._outlines.popitem(last=False)
        return made


def _state(store: Store, uid: str) -> object:
    """Return a value that changes with the session, its subagents, prices and marks."""
    return store.url, query.get(store, uid), store.overview.below(uid)
