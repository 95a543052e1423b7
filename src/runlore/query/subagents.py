"""The subagents of a session, with the calls that started them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from ..model import SessionEvent, parse_time
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
            if (prompt := store.sessions.first_prompt(child))
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
    chosen = list(islice(candidates, MAX_COMPARED))
    texts = _bodies(store, uid, [call for call, _ in chosen])
    return [
        AgentCall(
            seq=call.seq,
            begun=call.ts,
            ended=result.ts if result is not None else None,
            text=texts.get(call.seq, ""),
        )
        for call, result in chosen
    ]


def _bodies(store: Store, uid: str, events: Sequence[SessionEvent]) -> dict[int, str]:
    """Return the bodies of a few events of a session by seq. Each segment is unpacked once."""
    texts: dict[int, str] = {}
    by_segment: dict[int, list[int]] = {}
    for event in events:
        if event.payload_ref:
            by_segment.setdefault(int(event.payload_ref.partition(":")[0]), []).append(event.seq)
        else:  # A copy, whose body is in another session.
            texts |= store.sessions.bodies(uid, event.seq, event.seq)
    for segment, seqs in by_segment.items():
        data, places = store.index.segment(segment, files=False) or (b"", [])
        bodies = {at.seq: data[at.offset : at.offset + at.length] for at in places}
        texts |= {seq: bodies.get(seq, b"").decode("utf-8", "replace") for seq in seqs}
    return texts
