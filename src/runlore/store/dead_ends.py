"""Marks the API calls of a session that led nowhere, from its digest. Pure; knows no database.

An attempt is charged to the call in which the model made it. A call may be marked for several
reasons.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from ..model import Digest
from .filters import ABANDONED, FAILED, RETRIED, UNPLACED

_BITS = {"abandoned": ABANDONED, "retries": RETRIED, "failed": FAILED}


def dead_ends_of(digest: Digest) -> dict[str, tuple[int, ...]]:
    """Return the dead ends of a digest by reason, as triples of events.

    A digest from before version 9 has none. If its session was evicted, it has the events of the
    calls that led nowhere (`waste`) instead.
    """
    from_waste = {
        name: tuple(seq for seq in seqs for _ in range(3)) for name, seqs in digest.waste.items()
    }
    return digest.dead_ends or from_waste


def charge(dead_ends: Mapping[str, Sequence[int]], call_seqs: Iterable[int]) -> dict[int, int]:
    """Return by seq of a call's event the flags that say why the call led nowhere.

    `call_seqs` are the events of all calls of the session; -1 is a call without an event. If
    something in the session led nowhere, such a call is flagged as unplaced.
    """
    seqs = sorted(set(call_seqs))
    flags: dict[int, int] = {}
    if seqs[:1] == [-1]:
        del seqs[0]
        if any(dead_ends.values()):
            flags[-1] = UNPLACED
    for name, bit in _BITS.items():
        numbers = iter(dead_ends.get(name, ()))
        for seq, first, last in zip(numbers, numbers, numbers, strict=True):
            begin, end = bisect_left(seqs, first), bisect_right(seqs, last)
            is_stretch = bit == ABANDONED
            for call in seqs[begin:end] if is_stretch else _find_caller(seqs, seq, begin, end):
                flags[call] = flags.get(call, 0) | bit
    return flags


def _find_caller(call_seqs: list[int], seq: int, begin: int, end: int) -> list[int]:
    """Return the event of the call in which an attempt was made, or nothing.

    Agents record a call with the first or with the last block of an answer. Among the events
    between `begin` and `end`, which are those of the same answer, it is the nearest one before the
    attempt, or else the nearest one after it. If there is none, it is the last one before the
    answer.
    """
    after = bisect_right(call_seqs, seq, begin, end)
    if after > begin:
        return [call_seqs[after - 1]]
    if begin < end:
        return [call_seqs[begin]]
    return [call_seqs[begin - 1]] if begin else []
