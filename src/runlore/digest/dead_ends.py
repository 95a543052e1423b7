"""Dead ends of a session: abandoned lines, failed attempts, and repeated failures.

Pure. The result names events and not API calls, because the calls that count for a session depend
on what is read later. `store.dead_ends` finds the calls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from .. import timeline
from ..model import CALL_KINDS, SessionEvent

MAX_PER_KIND = 10_000
"""Without a bound a strange transcript could make a digest as long as itself."""
_MODEL_BLOCKS = CALL_KINDS | {"thinking", "assistant_msg"}
"""The kinds of blocks that a model makes in one API call."""
_MAX_GAP = 1000
"""Two blocks of one answer are closer in seq; blocks further apart come from different sources."""


def dead_ends(events: Iterable[SessionEvent], retries: int) -> dict[str, tuple[int, ...]]:
    """Return the dead ends by reason, as in `Digest.dead_ends`.

    `retries` is the session's own count.
    """
    ordered = timeline.in_order(events)
    attempts = {
        "retries": timeline.repeats(ordered) if retries else [],
        "failed": _failed_calls(ordered),
    }
    runs = _find_runs(sorted({seq for seqs in attempts.values() for seq in seqs}), ordered)
    triples = {"abandoned": _abandoned_stretches(ordered)}
    triples |= {
        name: [number for seq in seqs if seq in runs for number in (seq, *runs[seq])]
        for name, seqs in attempts.items()
    }
    return {
        name: tuple(numbers[: 3 * MAX_PER_KIND]) for name, numbers in triples.items() if numbers
    }


def join_dead_ends(
    before: Mapping[str, tuple[int, ...]], after: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Return the dead ends of events that have left together with those of later events."""
    return {
        name: (before.get(name, ()) + after.get(name, ()))[: 3 * MAX_PER_KIND]
        for name in {**before, **after}
    }


def _failed_calls(ordered: timeline.OrderedEvents) -> list[int]:
    """Return the calls whose result is a failure."""
    call_ids = {event.call_id for event in ordered.failures} - {None}
    if not call_ids:
        return []
    # Only these few events need to be paired.
    pairs = timeline.pairs(
        timeline.OrderedEvents([event for event in ordered if event.call_id in call_ids])
    )
    return [pair.call.seq for pair in pairs if pair.failed and pair.call is not None]


def _abandoned_stretches(ordered: Sequence[SessionEvent]) -> list[int]:
    """Return (first, first, last) of each run of consecutive events that were all abandoned."""
    abandoned = {event.seq for line in timeline.abandoned(ordered) for event in line}
    stretches: list[int] = []
    was_abandoned = False
    for event in ordered if abandoned else ():
        is_abandoned = event.seq in abandoned
        if is_abandoned and was_abandoned:
            stretches[-1] = event.seq
        elif is_abandoned:
            stretches += [event.seq] * 3
        was_abandoned = is_abandoned
    return stretches


def _find_runs(seqs: Iterable[int], ordered: Sequence[SessionEvent]) -> dict[int, tuple[int, int]]:
    """Return for each of these events the first and the last block of the same answer.

    `seqs` must be sorted. The search goes from each event to both sides, and over no block twice.
    """
    runs: dict[int, tuple[int, int]] = {}
    end, run = -1, (-1, -1)
    for seq in seqs:
        at = bisect_left(ordered, seq, key=_seq)
        if at > end and ordered[at].kind in _MODEL_BLOCKS:
            start = end = at
            while start and _is_same_answer(ordered[start - 1], ordered[start]):
                start -= 1
            while end + 1 < len(ordered) and _is_same_answer(ordered[end], ordered[end + 1]):
                end += 1
            run = ordered[start].seq, ordered[end].seq
        if at <= end:
            runs[seq] = run
    return runs


def _is_same_answer(one: SessionEvent, other: SessionEvent) -> bool:
    """Return True if two neighbouring events are blocks of one answer of the model."""
    return (
        one.kind in _MODEL_BLOCKS and other.kind in _MODEL_BLOCKS and other.seq - one.seq < _MAX_GAP
    )


_seq = attrgetter("seq")
