"""A command that takes minutes."""

from __future__ import annotations

from collections.abc import Iterator

from . import Case, Fleet, Signal
from ._words import head

FROM_S = 300.0
"""Seconds in one session: five minutes in which nothing else happens."""


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    spent: dict[str, list[tuple[float, int]]] = {}
    for took in case.digest.slow:
        spent.setdefault(head(took.command), []).append((took.seconds, took.seq))
    for about, times in spent.items():
        total = sum(seconds for seconds, _ in times)
        if total >= FROM_S:
            yield Signal(
                type="slow_step",
                polarity="problem",
                uid=case.uid,
                locus=about,
                what=f"`{about}` takes minutes",
                seqs=(max(times)[1],),
                magnitude=total,
                is_local=True,
            )
