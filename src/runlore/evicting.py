"""Lets sessions leave as `retain` decides. What only their events know is written down first: every report stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from .adapters import is_appended
from .leaks import secrets_of
from .model import BLOCK
from .store import Store
from .usage.waste import dead_ends_now


def let_go(store: Store, uids: Sequence[str]) -> None:
    """Evicts these. Killed in between, those that have not left yet are still whole."""
    for uid in uids:
        _remember(store, uid)
    store.evict(uids, datetime.now(UTC), is_appended)


def _remember(store: Store, uid: str) -> None:
    digest, session = store.digest(uid), store.session(uid)
    if digest is None or session is None:
        return
    ends: dict[int, int] = {}
    for event in store.events(uid):
        ends[event.seq // BLOCK] = event.seq
    known = msgspec.structs.replace(
        digest,
        dead_ends=dead_ends_now(store, session),  # It may be one of older rules, or of fewer events.
        waste={},
        secrets=secrets_of(store, uid, is_evicted=session.evicted_at is not None),
        ends=tuple(ends.values()),
        before=None,
    )
    if known != digest:
        store.put_digest(known, digest.made_at or datetime.now(UTC))
