"""Work that was left where it was."""

from __future__ import annotations

from collections.abc import Iterator

from . import Case, Fleet, Signal


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    digest = case.digest
    if digest.outcome == "abandoned" and digest.quality == "real":
        yield Signal(
            type="abandoned",
            polarity="problem",
            uid=case.uid,
            locus="abandoned",
            what="work is abandoned",
            seqs=digest.outcome_evidence,
            usd=case.usd,
            is_local=True,
        )
