"""What led nowhere in a session: lines that were abandoned, attempts that failed, attempts that repeat one that failed.

Pure. Told by events and not by API calls, because which calls count for a session depends on what is read later: `store.charging` finds
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    ordered = sorted(events, key=attrgetter("seq"))
    attempts = {"retries": timeline.repeats(ordered) if retries else [], "failed": _failed(ordered)}
    runs = dict(_runs_of({seq for seqs in attempts.values() for seq in seqs}, ordered))
    found = {"abandoned": _stretches(ordered)}
    found |= {name: [number for seq in seqs if seq in runs for number in (seq, *runs[seq])] for name, seqs in attempts.items()}
    return {name: tuple(numbers[: 3 * MOST]) for name, numbers in found.items() if numbers}


def joined(before: Mapping[str, tuple[int, ...]], after: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Of events that have left, and of those that came since."""
    return {name: (before.get(name, ()) + after.get(name, ()))[: 3 * MOST] for name in {**before, **after}}


def _failed(ordered: Sequence[SessionEvent]) -> list[int]:
    """The calls whose result is a failure. Only what has a call id in common with one can be such a call: one event in a hundred."""
    wrong = {event.call_id for event in ordered if event.is_error} - {None}
    if not wrong:
        return []
    found = timeline.pairs(event for event in ordered if event.call_id in wrong)
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


def _runs_of(seqs: set[int], ordered: Sequence[SessionEvent]) -> Iterator[tuple[int, tuple[int, int]]]:
    """For each of these the first and the last of the blocks that a model made without hearing anything in between."""
    first = last = -1
    inside: list[int] = []
    for event in ordered if seqs else ():
        seq = event.seq
        if event.kind in _SAID:
            if first < 0 or seq - last >= _GAP:
                yield from ((one, (first, last)) for one in inside)
                first, inside = seq, []
            last = seq
            if seq in seqs:
                inside.append(seq)
        else:
            if inside:
                yield from ((one, (first, last)) for one in inside)
                inside = []
            first = -1
    yield from ((one, (first, last)) for one in inside)
