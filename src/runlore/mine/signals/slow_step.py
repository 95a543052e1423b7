"""A command that takes minutes. It is no lesson: nothing shows what helps against it."""

from __future__ import annotations

from collections.abc import Iterator

from ..commands import command_head
from ..loci import CommandLocus
from ..values import Case, Fleet, Signal

MIN_TOTAL_S = 300.0
"""Five minutes of one session in which nothing else happens."""


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    by_head: dict[str, list[tuple[float, int]]] = {}
    for slow in case.digest.slow:
        by_head.setdefault(command_head(slow.command), []).append((slow.seconds, slow.seq))
    for head, times in by_head.items():
        total = sum(seconds for seconds, _ in times)
        if total >= MIN_TOTAL_S:
            yield Signal(
                type="slow_step",
                polarity="problem",
                uid=case.uid,
                locus=CommandLocus(head),
                what=f"`{head}` takes minutes",
                seqs=(max(times)[1],),
                magnitude=total,
                is_local=True,
            )
