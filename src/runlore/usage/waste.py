"""Calls that were paid for and thrown away: abandoned lines, repeated attempts, attempts that
failed.

An attempt is charged with the call in which the model made it. The figures overlap: an attempt that
failed may lie on an abandoned line. Calls are marked when the digest of their session is put, so
this is a sum like any other. For a session that is active, or was since its digest was made, the
events are read.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

from ..digest.dead_ends import dead_ends, join_dead_ends
from ..model import Call, Session
from ..store import CallFilter, Store
from ..store.dead_ends import charge, dead_ends_of
from ..store.filters import ABANDONED, FAILED, RETRIED, UNPLACED, WASTED
from .report import Row, row_of, row_of_call, total

_KINDS = {
    "abandoned": ABANDONED,
    "retries": RETRIED,
    "failed": FAILED,
    "any": WASTED,
    "unplaced": UNPLACED,
}


class Wasted(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of calls that led nowhere."""

    abandoned: Row
    """Calls on abandoned lines."""
    retries: Row
    """Calls that repeated an attempt that failed."""
    failed: Row
    """Calls with an attempt that failed."""
    any: Row
    """Each call of the first three once."""
    unplaced: Row
    """Calls without an event, of which nobody knows."""
    of: Row
    """Every call in question, without those that are unplaced."""
    sessions: int


def wasted(store: Store, chosen: CallFilter | None = None) -> Wasted:
    """The cost of what led nowhere."""
    chosen = chosen or CallFilter()
    found = [(one.keys[0], row_of(None, one)) for one in store.ledger.sum(["waste"], chosen)]
    every = total(row for _, row in found)
    marked = [(flags, row) for flags, row in found if flags is not None]
    count, unmarked = store.ledger.wasteful(chosen)
    for uid in unmarked:
        rows = _by_events(store, uid, chosen)
        marked += rows
        count += any(flags & WASTED for flags, _ in rows)
    kinds = {
        name: total(row for flags, row in marked if flags & kind) for name, kind in _KINDS.items()
    }
    return Wasted(of=every, sessions=count, **kinds)


# ── of a session whose calls are not marked ───────────────────────────────────────────────────────
def _by_events(store: Store, uid: str, chosen: CallFilter) -> list[tuple[int, Row]]:
    """Flags and figures of those of its calls in question that led nowhere."""
    session = store.sessions.get(uid)
    if session is None:
        return []
    marks = charge(dead_ends_now(store, session), [seq for seq, _, _ in store.ledger.spent(uid)])
    found = store.ledger.billed(uid, at=list(marks))
    return [
        (marks[one.kept.call.seq], row_of_call(one))
        for one in found
        if _is_chosen(one.kept.call, session, chosen)
    ]


def dead_ends_now(store: Store, session: Session) -> dict[str, tuple[int, ...]]:
    """Return the dead ends that a digest made now would have. For events that were evicted they
    come from the stored digest."""
    uid, retries = session.session_uid, session.cost.retries
    kept = store.digests.get(uid) if session.evicted_at else None
    if kept is None:
        return dead_ends(store.sessions.outline(uid), retries)
    before = kept.before or kept
    return join_dead_ends(
        dead_ends_of(before),
        dead_ends(
            (event for event in store.digests.timeline(uid)[0] if not before.knows(event.seq)),
            retries,
        ),
    )


def _is_chosen(call: Call, session: Session, chosen: CallFilter) -> bool:
    """Return True if a call matches the filter; that its session does is known."""
    if not _is_in_time(call, chosen):
        return False
    if (
        chosen.is_subagent is not None
        and (call.is_sidechain or session.relation == "subagent") != chosen.is_subagent
    ):
        return False
    if chosen.model is None:
        return True
    pattern = chosen.model.lower()
    return fnmatchcase(
        (call.model or "").lower(),
        pattern if any(char in pattern for char in "*?[") else f"*{pattern}*",
    )


def _is_in_time(call: Call, chosen: CallFilter) -> bool:
    if call.ts is None:
        return not (chosen.since or chosen.until)
    return not (
        (chosen.since and call.ts < chosen.since) or (chosen.until and call.ts >= chosen.until)
    )
