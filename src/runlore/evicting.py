"""Lets sessions leave as `retain` decides. What only their events know is written down first: every
report stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from .adapters import is_appended
from .leaks import CUT, secrets_of
from .model import BLOCK
from .store import Store
from .trace import touched
from .usage.waste import dead_ends_now

MOST_TOUCHED = 500
"""Files, those last touched: packed about ten kilobytes."""


EVICTED_AT_ONCE = 100
"""Sessions that leave in one transaction."""


def let_go(
    store: Store, uids: Sequence[str], step: Callable[[str, int, int], None] | None = None
) -> None:
    """Evict these sessions. After a kill, those that have not left yet are still whole.

    `step` is called with what is being done, how many sessions are done, and of how many.
    """
    for n, uid in enumerate(uids, 1):
        _remember(store, uid)
        if step is not None:
            step("sessions digested", n, len(uids))
    for n in range(0, len(uids), EVICTED_AT_ONCE):
        part = uids[n : n + EVICTED_AT_ONCE]
        store.retention.evict(part, datetime.now(UTC), is_appended)
        if step is not None:
            step("sessions evicted", n + len(part), len(uids))


def _remember(store: Store, uid: str) -> None:
    digest, session = store.digests.get(uid), store.sessions.get(uid)
    if digest is None or session is None:
        return
    events = store.sessions.events(uid)
    ends: dict[int, int] = {}
    for event in events:
        ends[event.seq // BLOCK] = event.seq
    before = (digest.before or digest) if session.evicted_at is not None else None
    new = [event for event in events if not (before and before.knows(event.seq))]
    files = [*(before.touched if before else ()), *touched(store, new, session.cwd)]
    latest = sorted(range(len(files)), key=lambda n: -files[n].last_seq)[:MOST_TOUCHED]
    secrets = secrets_of(store, uid, is_evicted=session.evicted_at is not None)
    missing = len(files) - len(latest) + (before.cut.get("touched", 0) if before else 0)
    cut = {CUT + kind: seen.cut for kind, seen in secrets.items()} | {"touched": missing}
    known = msgspec.structs.replace(
        digest,
        # It may be one of older rules, or of fewer events.
        dead_ends=dead_ends_now(store, session),
        waste={},
        secrets={kind: tuple(seen.hashes) for kind, seen in secrets.items()},
        secrets_at={kind: seen.first for kind, seen in secrets.items()},
        touched=tuple(files[n] for n in sorted(latest)),
        cut=digest.cut | {name: count for name, count in cut.items() if count},
        ends=tuple(ends.values()),
        before=None,
    )
    if known != digest:
        store.digests.put(known, digest.made_at or datetime.now(UTC))
