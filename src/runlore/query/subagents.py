"""The subagents of a session, with the calls that started them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from ..model import parse_time
from ..store import SessionLine, Store
from ..timeline import AgentCall, Pair, Subagent, ToolCall, match_ids, match_prompts

MAX_COMPARED = 200
"""Maximum number of subagents, and of calls, whose prompts are compared in one session."""


def find_pairs(
    store: Store, uid: str, calls: Sequence[ToolCall], children: Iterable[SessionLine]
) -> list[Pair]:
    """Return the subagents of a session whose call is proven, each with that call.

    `calls` are all calls of the session, on every branch. `children` may also be forks and
    continuations, which no call started.
    """
    lines = {child.uid: child for child in children if child.relation == "subagent"}
    if not lines:
        return []
    recorded = store.overview.parent_calls(uid)
    pairs, open_ = match_ids(calls, {child: recorded.get(child) for child in lines})
    if open_:
        paired = {pair.call for pair in pairs}
        subagents = [
            Subagent(
                uid=child,
                began=parse_time(began) if (began := lines[child].started_at) else None,
                prompt=prompt,
                calls=seqs,
            )
            for child, seqs in islice(open_.items(), MAX_COMPARED)
            if (prompt := _first_prompt(store, child))
        ]
        if subagents:
            pairs += match_prompts(_agent_calls(store, uid, calls, paired), subagents)
    return pairs


def by_call(pairs: Iterable[Pair], children: Iterable[SessionLine]) -> dict[int, tuple[str, ...]]:
    """Return the subagents that each call started, by the seq of the call, as `children` are
    ordered."""
    call_of = {pair.uid: pair.call for pair in pairs}
    started: dict[int, tuple[str, ...]] = {}
    for child in children:
        if (seq := call_of.get(child.uid)) is not None:
            started[seq] = (*started.get(seq, ()), child.uid)
    return started


def _agent_calls(
    store: Store, uid: str, calls: Sequence[ToolCall], paired: set[int]
) -> list[AgentCall]:
    """Return the calls that may have started a subagent which no id names."""
    candidates = (
        (pair.call, pair.result)
        for pair in calls
        if pair.call is not None and pair.call.action == "agent" and pair.call.seq not in paired
    )
    return [
        AgentCall(
            seq=call.seq,
            begun=call.ts,
            ended=result.ts if result is not None else None,
            text=store.sessions.bodies(uid, call.seq, call.seq).get(call.seq, ""),
        )
        for call, result in islice(candidates, MAX_COMPARED)
    ]


def _first_prompt(store: Store, uid: str) -> str | None:
    """Return the first prompt of a subagent that is not a copy of what its parent was told."""
    for event in store.sessions.outline(uid):
        if event.kind == "user_msg" and event.origin is None:
            return store.sessions.bodies(uid, event.seq, event.seq).get(event.seq)
    return None
