"""What may leave Tier 1, and in which order. Decides; a store lets go.

First what is older than the policy keeps. Then, while the store is over its soft budget, what is
oldest: native records before bodies, for they are only needed to derive a session again. A session
leaves whole, and only when its digest covers all that is stored of it; what is pinned stays, and so
does what another session still refers to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from .model import format_time
from .store.values import Bulk, Weight

PINNED, UNANALYZED, REFERRED = "pinned", "not analyzed yet", "referred to by another session"


KEPT = 10
"""One part in so many stays of a store when all text has left: digests, calls and numbers
(bench/evict.py)."""


class Plan(msgspec.Struct, kw_only=True):
    """What is to leave. Sizes are estimates: rows and words of a session share pages with
    others."""

    sessions: list[Weight] = []
    bulks: list[Bulk] = []
    used: int = 0
    freed: int = 0
    goal: int | None = None
    """What the store may take up; None where only age counts."""
    stays: dict[str, int] = {}
    """Of what would have had to leave, how many sessions stay, and why."""

    @property
    def is_short(self) -> bool:
        """Whether the store is over its budget also when all of this has left."""
        return self.goal is not None and self.used - self.freed > self.goal


class _Scale:
    """How many bytes of the store come with each byte of packed bodies: rows, words and the
    rest."""

    def __init__(
        self,
        weights: Sequence[Weight],
        bulks: Sequence[Bulk],
        used: int,
        factor: float | None = None,
    ) -> None:
        bodies = sum(weight.body_bytes for weight in weights)
        # What stays is in it as well, so it is too high, and the more so the less there is that may
        # leave.
        guess = max(1.0, (used - sum(bulk.size for bulk in bulks)) / bodies) if bodies else 1.0
        self.factor = guess if factor is None else min(guess, factor)
        self.records: dict[str, int] = {}
        for bulk in bulks:
            for uid in bulk.uids[:1]:
                self.records[uid] = self.records.get(uid, 0) + bulk.size

    def of(self, weight: Weight) -> int:
        return int(weight.body_bytes * self.factor)


def by_policy(
    weights: Sequence[Weight],
    bulks: Sequence[Bulk],
    *,
    used: int,
    now: datetime,
    soft: int | None = None,
    max_age_days: int | None = None,
    is_forced: bool = False,
    factor: float | None = None,
) -> Plan:
    """What leaves by age and by size. `is_forced` takes sessions that no digest covers as well;
    `factor` is how many bytes came with each byte of packed bodies when some left, where that was
    seen."""
    plan = Plan(used=used, goal=soft)
    scale = _Scale(weights, bulks, used, factor)
    pinned = _pinned(weights)
    why = {
        weight.uid: _why_not(weight, pinned, is_forced)
        for weight in weights
        if not weight.is_evicted
    }
    stays: Counter[str] = Counter()
    leaving: set[str] = set()

    def leave(weight: Weight) -> None:
        if (reason := why[weight.uid]) is not None:
            stays[reason] += 1
            return
        leaving.add(weight.uid)
        plan.sessions.append(weight)
        plan.freed += scale.of(weight)

    here = [weight for weight in weights if not weight.is_evicted]
    if max_age_days is not None:
        since = format_time(now - timedelta(days=max_age_days))
        for weight in here:
            if weight.ended_at is not None and weight.ended_at < since:
                leave(weight)
    if soft is not None:
        for bulk in bulks:
            if used - plan.freed <= soft:
                break
            if all(uid not in pinned and why.get(uid) in (None, REFERRED) for uid in bulk.uids):
                plan.bulks.append(bulk)
                plan.freed += bulk.size
        for weight in here:
            if used - plan.freed <= soft:
                break
            if weight.uid not in leaving:
                leave(weight)
    plan.stays = dict(stays)
    plan.freed = min(plan.freed, used - used // KEPT)
    return plan


def by_name(
    weights: Sequence[Weight],
    bulks: Sequence[Bulk],
    uids: Iterable[str],
    *,
    used: int,
    is_forced: bool = False,
) -> Plan:
    """What leaves when these sessions are to: those of them that may."""
    wanted = set(uids)
    scale = _Scale(weights, bulks, used)
    pinned = _pinned(weights)
    stays: Counter[str] = Counter()
    plan = Plan(used=used)
    for weight in weights:
        if weight.uid not in wanted or weight.is_evicted:
            continue
        if (reason := _why_not(weight, pinned, is_forced)) is not None:
            stays[reason] += 1
        else:
            plan.sessions.append(weight)
            plan.freed += scale.of(weight) + scale.records.get(weight.uid, 0)
    plan.stays = dict(stays)
    plan.freed = min(plan.freed, used - used // KEPT)
    return plan


def _pinned(weights: Iterable[Weight]) -> set[str]:
    return {weight.uid for weight in weights if weight.is_pinned}


def _why_not(weight: Weight, pinned: set[str], is_forced: bool) -> str | None:
    """Why a session may not leave; None when it may. What a pinned one started is pinned as
    well."""
    if weight.uid in pinned or weight.parent_uid in pinned:
        return PINNED
    if not weight.is_covered and not is_forced:
        return UNANALYZED
    return REFERRED if weight.is_shown_elsewhere else None
