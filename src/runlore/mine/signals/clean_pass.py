"""Sessions that passed without an error, a correction or a retry, as tests or a commit show."""

from __future__ import annotations

from collections.abc import Iterator

from ..loci import SessionLocus
from ..values import Case, Fleet, Signal


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    digest = case.digest
    is_clean = not (digest.errors or digest.corrections or digest.interventions or digest.retries)
    if (
        digest.outcome == "success"
        and digest.quality == "real"
        and is_clean
        and (digest.tests or digest.commits)
    ):
        yield Signal(
            type="clean_pass",
            polarity="success",
            uid=case.uid,
            locus=SessionLocus("clean"),
            what="sessions pass without an error or a correction",
            seqs=digest.outcome_evidence,
            usd=case.usd,
            is_local=True,
        )
