"""Sessions that cost several times what a session usually costs there."""

from __future__ import annotations

from collections.abc import Iterator

from . import Case, Fleet, Signal

FEWEST = 8
"""Sessions from which on it can be said what is usual."""
TIMES = 5.0
"""Costs are spread widely: twice the usual is nothing. Five times is what people ask about."""
LEAST = 1.0
"""USD. Of what costs less nobody asks."""


def mine(case: Case, fleet: Fleet) -> Iterator[Signal]:
    costs = fleet.costs(case.repo)
    if case.is_subagent or len(costs) < FEWEST or case.usd < LEAST:
        return
    usual = costs[len(costs) // 2]
    if case.usd >= TIMES * usual:
        yield Signal(
            type="budget_overrun",
            polarity="problem",
            uid=case.uid,
            locus="cost",
            what="sessions cost several times what is usual there",
            magnitude=case.usd / usual,
            usd=case.usd,
            is_local=True,
        )
