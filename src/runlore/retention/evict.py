"""Eviction of the sessions that `policy` selects.

Facts that only their events have are written into their digest first, so no report changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from ..adapters import is_appended
from ..model import BLOCK, Digest, FileActivity, Session, SessionEvent
from ..query.leaks import UNLISTED, redactions_of
from ..search.trace import touched
from ..store import Store
from ..usage.waste import dead_ends_now

MAX_TOUCHED = 500
"""Files in a digest, those touched last: about ten kilobytes when packed."""

SESSIONS_PER_TRANSACTION = 100


def let_go(
    store: Store, uids: Sequence[str], step: Callable[[str, int, int], None] | None = None
) -> None:
    """Evict these sessions. After a kill, those that have not left yet are still whole.

    `step` is called with what is being done, how many sessions are done, and of how many.
    """
    for n, uid in enumerate(uids, 1):
        _complete_digest(store, uid)
        if step is not None:
            step("sessions digested", n, len(uids))
    for n in range(0, len(uids), SESSIONS_PER_TRANSACTION):
        part = uids[n : n + SESSIONS_PER_TRANSACTION]
        store.retention.evict(part, datetime.now(UTC), is_appended)
        if step is not None:
            step("sessions evicted", n + len(part), len(uids))


def _complete_digest(store: Store, uid: str) -> None:
    """Add to a session's digest what reports otherwise ask of its events."""
    digest, session = store.digests.get(uid), store.sessions.get(uid)
    if digest is None or session is None:
        return
    events = store.sessions.events(uid)
    last_of_block = {event.seq // BLOCK: event.seq for event in events}
    before = (digest.before or digest) if session.evicted_at is not None else None
    files, omitted = _touched_files(store, session, events, before)
    secrets = redactions_of(store, uid, is_evicted=session.evicted_at is not None)
    cut = {UNLISTED + kind: each.unlisted for kind, each in secrets.items()} | {"touched": omitted}
    complete = msgspec.structs.replace(
        digest,
        # The stored ones may be of older rules, or of fewer events.
        dead_ends=dead_ends_now(store, session),
        waste={},
        secrets={kind: tuple(each.hashes) for kind, each in secrets.items()},
        secrets_at={kind: each.first_events for kind, each in secrets.items()},
        touched=files,
        cut=digest.cut | {name: count for name, count in cut.items() if count},
        ends=tuple(last_of_block.values()),
        before=None,
    )
    if complete != digest:
        store.digests.put(complete, digest.made_at or datetime.now(UTC))


def _touched_files(
    store: Store, session: Session, events: Sequence[SessionEvent], before: Digest | None
) -> tuple[tuple[FileActivity, ...], int]:
    """Return the files that a session touched last, and the number of those left out."""
    new = [event for event in events if not (before and before.knows(event.seq))]
    files = [*(before.touched if before else ()), *touched(store, session, new)]
    latest = sorted(range(len(files)), key=lambda n: -files[n].last_seq)[:MAX_TOUCHED]
    omitted = len(files) - len(latest) + (before.cut.get("touched", 0) if before else 0)
    return tuple(files[n] for n in sorted(latest)), omitted
