"""Sessions that cost several times what a session usually costs in their repository."""

from __future__ import annotations

from collections.abc import Iterator

from ..loci import SessionLocus
from ..values import Case, Fleet, Signal

MIN_SESSIONS = 8
"""Sessions that it takes to say what is usual."""
MIN_FACTOR = 5.0
"""Costs are spread widely: twice the usual is common. Five times is what people ask about."""
MIN_USD = 1.0
"""Nobody asks about a session that costs less."""


def mine(case: Case, fleet: Fleet) -> Iterator[Signal]:
    costs = fleet.costs(case.repo)
    if case.is_subagent or len(costs) < MIN_SESSIONS or case.usd < MIN_USD:
        return
    usual = costs[len(costs) // 2]
    if case.usd >= MIN_FACTOR * usual:
        yield Signal(
            type="budget_overrun",
            polarity="problem",
            uid=case.uid,
            locus=SessionLocus("cost"),
            what="sessions cost several times what is usual there",
            magnitude=case.usd / usual,
            usd=case.usd,
            is_local=True,
        )
