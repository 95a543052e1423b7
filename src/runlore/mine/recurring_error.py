"""The same error, in session after session."""

from __future__ import annotations

from collections.abc import Iterator

from . import Case, Fleet, Signal

WEAK = frozenset({"exit", "text"})
"""Kinds of errors that are no more than a number, or a line without a word of error in it: two of them are hardly the same."""
EXAMPLES = 3


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    for error in case.digest.errors:
        signature = error.signature
        if signature.kind not in WEAK:
            yield Signal(
                type="recurring_error",
                polarity="problem",
                uid=case.uid,
                locus=signature.fingerprint,
                what=signature.template,
                seqs=error.seqs[:EXAMPLES],
                magnitude=error.count,
            )
