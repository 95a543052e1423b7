"""What was paid for and thrown away: abandoned lines, repeated attempts, attempts that failed. Asks the events of sessions.

An attempt is charged with the call in which the model made it. The figures overlap: an attempt that failed may lie on an abandoned line.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from .. import timeline
from ..model import CALL_KINDS, Call, SessionEvent
from ..store import Billed, CallFilter, Filter, SessionLine, Store
from .report import Row, row_of, row_of_call, total

_SAID = CALL_KINDS | {"thinking", "assistant_msg"}
"""What a model makes in one call, one block after the other."""


class Wasted(msgspec.Struct, frozen=True, kw_only=True):
    """Calls on abandoned lines, calls that repeated an attempt that failed, calls with an attempt that failed; and each of these
    calls once. `unplaced` have no event, so nobody knows. All but that are in `of`: every call in question."""

    abandoned: Row
    retries: Row
    failed: Row
    any: Row
    unplaced: Row
    of: Row
    sessions: int


def wasted(store: Store, chosen: CallFilter | None = None) -> Wasted:
    """The cost of what led nowhere. Reads the events of all sessions in question in which something did."""
    chosen = chosen or CallFilter()
    kinds: dict[str, list[Row]] = {"abandoned": [], "retries": [], "failed": [], "any": [], "unplaced": []}
    count = 0
    evicted = store.evicted()
    for line in _suspects(store, chosen, evicted):
        calls = [one for one in store.billed(line.uid) if _is_chosen(one.kept.call, line, chosen)]
        found = _waste_of(calls, marks_of(store, line.uid, calls, is_evicted=line.uid in evicted)) if calls else {}
        for name, rows in found.items():
            kinds[name] += rows
        count += bool(found.get("any"))
    every = total(row_of(None, one) for one in store.sum_calls([], chosen))
    return Wasted(sessions=count, of=every, **{name: total(rows) for name, rows in kinds.items()})


def marks_of(store: Store, uid: str, billed: Sequence[Billed], *, is_evicted: bool) -> dict[str, tuple[int, ...]]:
    """The events of a session's calls that led nowhere, by why. Of those that have left its digest remembers it."""
    told = {one.kept.call.seq for one in billed}
    if not is_evicted:
        return _marks(store.events(uid), told)
    digest = store.digest(uid)
    known = digest.waste if digest else {}
    return {name: tuple(sorted({*seqs, *known.get(name, ())})) for name, seqs in _marks(store.timeline(uid)[0], told).items()}


def _suspects(store: Store, chosen: CallFilter, evicted: set[str]) -> Iterator[SessionLine]:
    names = ("agent", "repo", "cwd", "branch", "machine")
    lines = store.sessions(Filter(parents_only=False, **{name: getattr(chosen, name) for name in names}))
    rewound = store.rewound()
    below = {one.keys[0] for one in store.sum_calls(["subagent"], CallFilter(session=chosen.session))} if chosen.session else None
    for line in lines:
        if below is not None and line.uid != chosen.session and line.uid not in below:
            continue
        if line.errors or line.retries or line.uid in rewound or (line.uid in evicted and _was_wasteful(store, line.uid)):
            yield line


def _was_wasteful(store: Store, uid: str) -> bool:
    """Whether a session whose events have left was one to look at: its digest then has the word for it, be there a call or none."""
    digest = store.digest(uid)
    return digest is not None and bool(digest.waste)


def _is_chosen(call: Call, line: SessionLine, chosen: CallFilter) -> bool:
    """Of what the filter asks of a call; what it asks of sessions is done."""
    from fnmatch import fnmatchcase

    if call.ts is None and (chosen.since or chosen.until):
        return False
    if call.ts is not None and ((chosen.since and call.ts < chosen.since) or (chosen.until and call.ts >= chosen.until)):
        return False
    if chosen.is_subagent is not None and (call.is_sidechain or line.relation == "subagent") != chosen.is_subagent:
        return False
    pattern = (chosen.model or "*").lower()
    return fnmatchcase((call.model or "").lower(), pattern if any(char in pattern for char in "*?[") else f"*{pattern}*")


def _waste_of(billed: Sequence[Billed], marks: dict[str, tuple[int, ...]]) -> dict[str, list[Row]]:
    by_seq: dict[int, list[Row]] = {}
    for one in billed:
        by_seq.setdefault(one.kept.call.seq, []).append(row_of_call(one))
    every = {**marks, "any": sorted({seq for seqs in marks.values() for seq in seqs}), "unplaced": [-1]}
    return {name: [row for seq in seqs for row in by_seq.get(seq, ())] for name, seqs in every.items()}


def _marks(events: list[SessionEvent], told: set[int]) -> dict[str, tuple[int, ...]]:
    """`told` are the events of calls."""
    caller = _callers(events, [seq for seq in told if seq >= 0])
    left = {event.seq for line in timeline.abandoned(events) for event in line}
    failed = {caller[pair.call.seq] for pair in timeline.pairs(events) if pair.failed and pair.call and pair.call.seq in caller}
    found = {"abandoned": told & left, "retries": {caller[seq] for seq in _repeats(events) if seq in caller}, "failed": failed}
    return {name: tuple(sorted(seqs)) for name, seqs in found.items()}


def _callers(events: Iterable[SessionEvent], seqs: Sequence[int]) -> dict[int, int]:
    """For each thing that a model said or did, where the call is told that it came from. Agents tell it with the first or with the
    last block of an answer: of those in the same run of blocks the nearest before, else the nearest after, else the one before it."""
    told = sorted(seqs)
    found: dict[int, int] = {}
    for first, last in _runs(events):
        inside = told[bisect_left(told, first) : bisect_right(told, last)]
        for seq in range(first, last + 1):
            before = bisect_right(inside, seq)
            if inside:
                found[seq] = inside[before - 1] if before else inside[0]
            elif at := bisect_right(told, seq):
                found[seq] = told[at - 1]
    return found


def _runs(events: Iterable[SessionEvent]) -> Iterator[tuple[int, int]]:
    """First and last seq of blocks that a model made without hearing anything in between."""
    first = last = None
    for event in sorted(events, key=lambda event: event.seq):
        if event.kind in _SAID and (last is None or event.seq - last < 1000):
            first, last = event.seq if first is None else first, event.seq
        elif first is not None and last is not None:
            yield first, last
            first = last = event.seq if event.kind in _SAID else None
    if first is not None and last is not None:
        yield first, last


def _repeats(events: Iterable[SessionEvent]) -> Iterator[int]:
    """The attempts that repeat one that failed: where the session's count of retries goes up."""
    tally = timeline.Tally()
    for event in sorted(events, key=lambda event: event.seq):
        before = tally.retries
        tally = tally.add([event])
        if tally.retries > before:
            yield event.seq
