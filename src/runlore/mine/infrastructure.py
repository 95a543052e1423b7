"""Sessions in which most calls are not about the work: plans, lists, servers that are asked how they are to be asked."""

from __future__ import annotations

from collections.abc import Iterator

from . import Case, Fleet, Signal

FEWEST = 20
"""Calls, below which a share says nothing."""
SHARE = 0.6
OVERHEAD = frozenset({"plan", "mcp", "other"})
WORK = frozenset({"shell", "read", "edit", "search", "web", "agent"})


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    actions = case.digest.actions
    total = sum(actions.values())
    spent = sum(count for action, count in actions.items() if action in OVERHEAD)
    # A session that is all about one server (a browser, a design) does its work there.
    if total < FEWEST or spent < SHARE * total or not any(action in WORK for action in actions):
        return
    most = max(OVERHEAD & actions.keys(), key=lambda action: (actions[action], action))
    yield Signal(
        type="infrastructure",
        polarity="problem",
        uid=case.uid,
        locus=most,
        what=f"most calls are overhead ({most})",
        magnitude=spent / total,
        usd=case.usd * spent / total,
    )
