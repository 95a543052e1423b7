"""The same error in several sessions."""

from __future__ import annotations

from collections.abc import Iterator

from ..loci import ErrorLocus
from ..values import Case, Fleet, Signal

WEAK_KINDS = frozenset({"exit", "text"})
"""Kinds of errors that are only an exit code or a line without an error word: two with the same
fingerprint are hardly the same error."""
MAX_EXAMPLES = 3


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    for error in case.digest.errors:
        signature = error.signature
        if signature.kind not in WEAK_KINDS:
            yield Signal(
                type="recurring_error",
                polarity="problem",
                uid=case.uid,
                locus=ErrorLocus(signature.fingerprint, signature.template),
                what=signature.template,
                seqs=error.seqs[:MAX_EXAMPLES],
                magnitude=error.count,
            )
