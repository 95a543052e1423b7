"""A test that fails and then passes, with nothing done in between but to run it again.

Sessions that attempt a skill are left out: there a pass is the result of the next attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...text.clean import one_line
from ..drafts import Draft, Group, hash_id, only_one
from ..ends import OTHER_KEY, RETRY_KEY, End, count_evidence, find_common_ends
from ..loci import FlakyTestLocus
from ..values import Case, Fleet, Signal

KIND = "flaky"


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


def find_ends(group: Group) -> list[End]:
    """Return how the failure ended in each session that met it."""
    fingerprint = group.pattern.locus.error
    return [
        end
        for case in group.all_cases.values()
        if (end := _find_end(fingerprint, case)) is not None
    ]


def _find_end(fingerprint: str, case: Case) -> End | None:
    met = [one for one in case.digest.errors if one.signature.fingerprint == fingerprint]
    if not met:
        return None
    fixes = [one for one in case.digest.fixes if one.fingerprint == fingerprint and one.fixed_seq]
    key = RETRY_KEY if any(one.how == "retry" for one in fixes) else OTHER_KEY if fixes else ""
    return End(case.evidence_key, case.at, f"{case.uid}#{met[0].last_seq}", key, bool(fixes))


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    """Propose to run it again first, if that was enough in most tasks."""
    common = find_common_ends(ends, group.min_sessions)
    if not common:
        return None
    pattern = group.pattern
    test = one_line(pattern.what.partition(": ")[2])
    return Draft(
        id=hash_id(pattern.locus.error, RETRY_KEY, pattern.repo or ""),
        kind=KIND,
        when=f"A run of the tests reports: {test}.",
        do="Run that test again by itself before changing anything: it has passed then.",
        avoid="Changing the code or the test because of one failure.",
        repo=pattern.repo or only_one(pattern.repos),
        fingerprint=pattern.locus.error,
        key=RETRY_KEY,
        error=pattern.what,
        signals=pattern.signals,
        last_at=pattern.last_at,
        **count_evidence(common, ends),
    )
