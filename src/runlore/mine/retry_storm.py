"""A command that fails again and again."""

from __future__ import annotations

from collections.abc import Iterator

from . import Case, Fleet, Signal
from ._words import head

FROM = 3
"""Failures in the same words. Two may be a look at the error and a try; the third is hope."""


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    seen: dict[str, Signal] = {}
    for ran in case.digest.commands:
        if ran.failed < FROM:
            continue
        about = head(ran.command)
        known = seen.get(about)
        if known is None or ran.failed > known.magnitude:
            seen[about] = Signal(
                type="retry_storm",
                polarity="problem",
                uid=case.uid,
                locus=about,
                what=f"`{about}` is run again and again while it fails",
                seqs=(ran.seq,),
                magnitude=ran.failed,
            )
    yield from seen.values()
