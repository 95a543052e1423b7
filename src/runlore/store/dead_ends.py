"""Which calls of a session led nowhere, by what its digest says of its events. Pure; knows no
database.

An attempt is charged with the call in which the model made it. A call may be marked for several
reasons.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from ..model import Digest
from .filters import ABANDONED, FAILED, RETRIED, UNPLACED

_BITS = {"abandoned": ABANDONED, "retries": RETRIED, "failed": FAILED}


def dead_ends_of(digest: Digest) -> dict[str, tuple[int, ...]]:
    """Of one that was made before digests knew and whose events have left, these are the calls that
    were found when they did."""
    calls = {
        name: tuple(seq for seq in seqs for _ in range(3)) for name, seqs in digest.waste.items()
    }
    return digest.dead_ends or calls


def charge(dead_ends: Mapping[str, Sequence[int]], told: Iterable[int]) -> dict[int, int]:
    """By event of a call, the flags that say how it led nowhere; `told` are the events of all calls
    of the session, -1 for a call that has none: where something led nowhere, nobody knows whether
    that did."""
    every = sorted(set(told))
    flags: dict[int, int] = {}
    if every[:1] == [-1]:
        del every[0]
        if any(dead_ends.values()):
            flags[-1] = UNPLACED
    for name, bit in _BITS.items():
        numbers = iter(dead_ends.get(name, ()))
        for seq, first, last in zip(numbers, numbers, numbers, strict=True):
            begin, end = bisect_left(every, first), bisect_right(every, last)
            for call in every[begin:end] if bit == ABANDONED else _caller(every, seq, begin, end):
                flags[call] = flags.get(call, 0) | bit
    return flags


def _caller(told: Sequence[int], seq: int, begin: int, end: int) -> Sequence[int]:
    """Where the call is told in which an attempt was made. Agents tell it with the first or with
    the last block of an answer: of those in the same run of blocks the nearest before, else the
    nearest after, else the one before the run."""
    before = bisect_right(told, seq, begin, end)
    at = before - 1 if before > begin else begin if begin < end else begin - 1
    return told[at : at + 1] if at >= 0 else ()
