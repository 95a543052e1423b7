"""What led nowhere in a session: lines that were abandoned, attempts that failed, attempts that repeat one that failed.

Pure. Told by events and not by API calls, because which calls count for a session depends on what is read later: `store.charging` finds
them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from .. import timeline
from ..model import CALL_KINDS, SessionEvent

MOST = 10_000
"""Of each kind. A session of a month has some hundreds; without a bound a strange transcript could make a digest as long as itself."""
_SAID = CALL_KINDS | {"thinking", "assistant_msg"}
"""What a model makes in one call, one block after the other."""
_GAP = 1000
"""Numbers between two blocks of one answer are fewer: what lies further apart is from another source."""


def dead_ends(events: Iterable[SessionEvent], retries: int) -> dict[str, tuple[int, ...]]:
    """By why, as `Digest.dead_ends` has them; `retries` are as many as the session counts."""
    ordered = timeline.in_order(events)
    attempts = {"retries": timeline.repeats(ordered) if retries else [], "failed": _failed(ordered)}
    runs = _runs_of(sorted({seq for seqs in attempts.values() for seq in seqs}), ordered)
    found = {"abandoned": _stretches(ordered)}
    found |= {name: [number for seq in seqs if seq in runs for number in (seq, *runs[seq])] for name, seqs in attempts.items()}
    return {name: tuple(numbers[: 3 * MOST]) for name, numbers in found.items() if numbers}


def joined(before: Mapping[str, tuple[int, ...]], after: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Of events that have left, and of those that came since."""
    return {name: (before.get(name, ()) + after.get(name, ()))[: 3 * MOST] for name in {**before, **after}}


def _failed(ordered: timeline.OrderedEvents) -> list[int]:
    """The calls whose result is a failure. Only what has a call id in common with one can be such a call: one event in a hundred."""
    wrong = {event.call_id for event in ordered.failures} - {None}
    if not wrong:
        return []
    found = timeline.pairs(timeline.OrderedEvents([event for event in ordered if event.call_id in wrong]))
    return [pair.call.seq for pair in found if pair.failed and pair.call is not None]


def _stretches(ordered: Sequence[SessionEvent]) -> list[int]:
    """Events in a row that no line that went on has: (first, first, last) of each."""
    left = {event.seq for line in timeline.abandoned(ordered) for event in line}
    found: list[int] = []
    was_left = False
    for event in ordered if left else ():
        is_left = event.seq in left
        if is_left and was_left:
            found[-1] = event.seq
        elif is_left:
            found += [event.seq] * 3
        was_left = is_left
    return found


def _runs_of(seqs: Iterable[int], ordered: Sequence[SessionEvent]) -> dict[int, tuple[int, int]]:
    """For each of these, in their order, the first and the last of the blocks that a model made without hearing anything in between.
    Few are asked for, so the way goes from each of them to both sides, and over no block twice."""
    runs: dict[int, tuple[int, int]] = {}
    end, run = -1, (-1, -1)
    for seq in seqs:
        at = bisect_left(ordered, seq, key=_seq)
        if at > end and ordered[at].kind in _SAID:
            start = end = at
            while start and _follows(ordered[start - 1], ordered[start]):
                start -= 1
            while end + 1 < len(ordered) and _follows(ordered[end], ordered[end + 1]):
                end += 1
            run = ordered[start].seq, ordered[end].seq
        if at <= end:
            runs[seq] = run
    return runs


def _follows(one: SessionEvent, other: SessionEvent) -> bool:
    """Whether two events, of which one is said by a model, are of one answer."""
    return one.kind in _SAID and other.kind in _SAID and other.seq - one.seq < _GAP


_seq = attrgetter("seq")
