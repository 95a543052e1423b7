"""Sessions that outgrow the model's context more than once."""

from __future__ import annotations

from collections.abc import Iterator

from ..loci import SessionLocus
from ..values import Case, Fleet, Signal

MIN_COMPACTIONS = 2
"""One compaction is a long session. After the second, the beginning is a summary of a summary."""


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    if case.digest.compactions >= MIN_COMPACTIONS:
        yield Signal(
            type="context_pressure",
            polarity="problem",
            uid=case.uid,
            locus=SessionLocus("context"),
            what="the context is compacted more than once in a session",
            magnitude=case.digest.compactions,
            usd=case.usd,
            is_local=True,
        )
