"""An error, and what made it go away."""

from __future__ import annotations

from collections.abc import Iterator

from . import Case, Fleet, Signal
from .recurring_error import WEAK


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    errors = {error.signature.fingerprint: error for error in case.digest.errors}
    for fix in case.digest.fixes:
        error = errors.get(fix.fingerprint)
        if error is None or not fix.is_shown or fix.how == "retry" or error.signature.kind in WEAK:
            continue
        first = fix.steps[0]
        yield Signal(
            type="recovery",
            polarity="success",
            uid=case.uid,
            locus=fix.fingerprint,
            what=f"{error.signature.template} → {first.summary}",
            seqs=(fix.failed_seq, first.seq, *([fix.fixed_seq] if fix.fixed_seq is not None else [])),
            magnitude=fix.confidence,
        )
