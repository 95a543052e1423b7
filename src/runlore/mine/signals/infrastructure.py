"""Sessions in which most calls are overhead: plans, lists, servers asked how to be used."""

from __future__ import annotations

from collections.abc import Iterator

from ..loci import SessionLocus
from ..values import Case, Fleet, Signal

MIN_CALLS = 20
"""With fewer calls a share says nothing."""
MIN_SHARE = 0.6
OVERHEAD_ACTIONS = frozenset({"plan", "mcp", "other"})
WORK_ACTIONS = frozenset({"shell", "read", "edit", "search", "web", "agent"})


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    actions = case.digest.actions
    total = sum(actions.values())
    overhead = sum(count for action, count in actions.items() if action in OVERHEAD_ACTIONS)
    # A session that is all about one server (a browser, a design tool) does its work there.
    if (
        total < MIN_CALLS
        or overhead < MIN_SHARE * total
        or not any(action in WORK_ACTIONS for action in actions)
    ):
        return
    main = max(OVERHEAD_ACTIONS & actions.keys(), key=lambda action: (actions[action], action))
    yield Signal(
        type="infrastructure",
        polarity="problem",
        uid=case.uid,
        locus=SessionLocus(main),
        what=f"most calls are overhead ({main})",
        magnitude=overhead / total,
        usd=case.usd * overhead / total,
    )
