"""A test that fails and then passes, with nothing done in between but to run it again.

Where skills are attempted, a pass after a failure is the work of a new attempt.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import error_lessons
from ..loci import FlakyTestLocus
from ..values import Case, Fleet, Signal

ADVICE = "make this test reliable, or leave it out until it is"

draft = error_lessons.draft
find_ends = error_lessons.find_ends


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    if case.skills:
        return
    errors = {error.signature.fingerprint: error for error in case.digest.errors}
    for fix in case.digest.fixes:
        error = errors.get(fix.fingerprint)
        if error is None or fix.fixed_seq is None or fix.how != "retry":
            continue
        runs = [test for test in case.digest.tests if test.seq in (fix.failed_seq, fix.fixed_seq)]
        if error.signature.kind == "test" or runs:
            yield Signal(
                type="flaky_test",
                polarity="problem",
                uid=case.uid,
                locus=FlakyTestLocus(fix.fingerprint),
                what=f"passes when it is run again: {error.signature.template}",
                seqs=(fix.failed_seq, fix.fixed_seq),
                is_local=True,
            )
