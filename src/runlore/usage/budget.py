"""Today's spending against the budgets."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ..config import Budget
from ..store import CallFilter, Store
from .report import report, total
from .zone import Zone


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """The amount spent today of a budget, in USD."""

    name: str
    """`day`, or a pattern of projects."""
    limit: float
    usd: float
    """Spent today."""

    @property
    def is_over(self) -> bool:
        return self.usd > self.limit


def budgets(store: Store, budget: Budget, now: datetime, zone: Zone) -> list[Spent]:
    """Return today's spending for each budget, that of the day first."""
    if budget.day is None and not budget.projects:
        return []
    since = zone.midnight(zone.today(now))
    chosen = CallFilter(since=since, until=zone.end(since, None, now))
    rows = report(store, "repo", chosen, zone=zone).rows
    found = [] if budget.day is None else [Spent(name="day", limit=budget.day, usd=total(rows).usd)]
    for name, limit in budget.projects.items():
        own = total(row for row in rows if name in budget.patterns_of(row.key))
        found.append(Spent(name=name, limit=limit, usd=own.usd))
    return found
