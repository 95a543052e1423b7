"""Decide which sessions may leave Tier 1, and in which order. The store lets them go.

First leaves what is older than the policy allows. Then, while the store is over its soft budget,
the oldest leaves: native records before bodies, because they are only needed to derive a session
again. A session leaves whole, and only when its digest covers all that is stored of it. Pinned
sessions stay, and so do those that another session still refers to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from ..model import format_time
from ..store.values import Bulk, Weight

PINNED, UNANALYZED, REFERRED = "pinned", "not analyzed yet", "referred to by another session"

REMAINDER = 10
"""One part in this many stays of a store when all text has left: digests, calls and numbers
(bench/evict.py)."""


class Plan(msgspec.Struct, kw_only=True):
    """The sessions and native records that are to leave.

    Sizes are estimates, because rows and words of a session share pages with others.
    """

    sessions: list[Weight] = []
    bulks: list[Bulk] = []
    used: int = 0
    freed: int = 0
    goal: int | None = None
    """The bytes that the store may take up; None where only age counts."""
    stays: dict[str, int] = {}
    """The number of sessions that should have left but stay, by the reason."""

    @property
    def is_short(self) -> bool:
        """Return True if the store stays over its budget when all of this has left."""
        return self.goal is not None and self.used - self.freed > self.goal


class _Scale:
    """Estimates the bytes that a session takes up: its packed bodies, rows, words and the rest."""

    def __init__(
        self,
        weights: Sequence[Weight],
        bulks: Sequence[Bulk],
        used: int,
        factor: float | None = None,
    ) -> None:
        bodies = sum(weight.body_bytes for weight in weights)
        # This includes what stays, so it is too high, and more so when little may leave.
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
    """Plan what leaves by age and by size.

    `is_forced` includes sessions that no digest covers. `factor` is the number of bytes that were
    freed for each byte of packed bodies in an earlier eviction, if that is known.
    """
    eviction = _Eviction(weights, bulks, used, is_forced, factor)
    if max_age_days is not None:
        eviction.add_older_than(now - timedelta(days=max_age_days))
    if soft is not None:
        eviction.add_until_below(soft)
    return eviction.close(goal=soft)


def by_name(
    weights: Sequence[Weight],
    bulks: Sequence[Bulk],
    uids: Iterable[str],
    *,
    used: int,
    is_forced: bool = False,
) -> Plan:
    """Plan the eviction of these sessions, as far as they may leave."""
    wanted = set(uids)
    eviction = _Eviction(weights, bulks, used, is_forced)
    for weight in eviction.present:
        if weight.uid in wanted and eviction.add(weight):
            eviction.plan.freed += eviction.scale.records.get(weight.uid, 0)
    return eviction.close(goal=None)


class _Eviction:
    """A plan while it is made: what may leave, and what was chosen so far."""

    def __init__(
        self,
        weights: Sequence[Weight],
        bulks: Sequence[Bulk],
        used: int,
        is_forced: bool,
        factor: float | None = None,
    ) -> None:
        self.plan = Plan(used=used)
        self.scale = _Scale(weights, bulks, used, factor)
        self.present = [weight for weight in weights if not weight.is_evicted]
        self._bulks = bulks
        self._pinned = {weight.uid for weight in weights if weight.is_pinned}
        self._reasons = {
            weight.uid: _why_not(weight, self._pinned, is_forced) for weight in self.present
        }
        self._leaving: set[str] = set()
        self._stays: Counter[str] = Counter()

    def add(self, weight: Weight) -> bool:
        """Let a session leave, or count why it stays. Return True if it leaves."""
        if (reason := self._reasons[weight.uid]) is not None:
            self._stays[reason] += 1
            return False
        self._leaving.add(weight.uid)
        self.plan.sessions.append(weight)
        self.plan.freed += self.scale.of(weight)
        return True

    def add_older_than(self, moment: datetime) -> None:
        since = format_time(moment)
        for weight in self.present:
            if weight.ended_at is not None and weight.ended_at < since:
                self.add(weight)

    def add_until_below(self, soft: int) -> None:
        """Let native records leave, then sessions, until the store fits into its soft budget."""
        for bulk in self._bulks:
            if self.plan.used - self.plan.freed <= soft:
                return
            if all(map(self._may_lose_records, bulk.uids)):
                self.plan.bulks.append(bulk)
                self.plan.freed += bulk.size
        for weight in self.present:
            if self.plan.used - self.plan.freed <= soft:
                return
            if weight.uid not in self._leaving:
                self.add(weight)

    def _may_lose_records(self, uid: str) -> bool:
        return uid not in self._pinned and self._reasons.get(uid) in (None, REFERRED)

    def close(self, goal: int | None) -> Plan:
        """Return the plan. No estimate is higher than what a store without text frees."""
        used = self.plan.used
        self.plan.goal, self.plan.stays = goal, dict(self._stays)
        self.plan.freed = min(self.plan.freed, used - used // REMAINDER)
        return self.plan


def _why_not(weight: Weight, pinned: set[str], is_forced: bool) -> str | None:
    """Return the reason why a session may not leave; None if it may.

    Subagents of a pinned session are pinned as well.
    """
    if weight.uid in pinned or weight.parent_uid in pinned:
        return PINNED
    if not weight.is_covered and not is_forced:
        return UNANALYZED
    return REFERRED if weight.is_shown_elsewhere else None
