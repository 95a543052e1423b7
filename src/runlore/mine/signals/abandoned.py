"""Work that was abandoned."""

from __future__ import annotations

from collections.abc import Iterator

from ..loci import SessionLocus
from ..values import Case, Fleet, Signal


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    digest = case.digest
    if digest.outcome == "abandoned" and digest.quality == "real":
        yield Signal(
            type="abandoned",
            polarity="problem",
            uid=case.uid,
            locus=SessionLocus("abandoned"),
            what="work is abandoned",
            seqs=digest.outcome_evidence,
            usd=case.usd,
            is_local=True,
        )
