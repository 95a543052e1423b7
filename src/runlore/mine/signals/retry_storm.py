"""A command that is run again and again while it fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model import CommandRun
from ...text.clean import one_line
from ..change_lessons import iter_changes
from ..commands import command_head
from ..drafts import Draft, Group, hash_id, only_one
from ..ends import OTHER_KEY, End, count_evidence, find_common_ends
from ..loci import CommandLocus
from ..values import Case, Fleet, Signal

KIND = "retries"
IS_FALLBACK = True

MIN_FAILURES = 3
"""Failures of the same command line. Two may be a look at the error and another try."""


def mine(case: Case, _: Fleet) -> Iterator[Signal]:
    by_head: dict[str, Signal] = {}
    for run in case.digest.commands:
        if run.failed < MIN_FAILURES:
            continue
        head = command_head(run.command)
        known = by_head.get(head)
        if known is None or run.failed > known.magnitude:
            by_head[head] = Signal(
                type="retry_storm",
                polarity="problem",
                uid=case.uid,
                locus=CommandLocus(head),
                what=f"`{head}` is run again and again while it fails",
                seqs=(run.seq,),
                magnitude=run.failed,
            )
    yield from by_head.values()


def find_ends(group: Group) -> list[End]:
    """Return how the retries ended in each session, whatever the command printed each time."""
    return [_find_end(group.pattern.locus.key, case) for case in group.cases]


def _find_end(head: str, case: Case) -> End:
    """Return the end by the most certain fix of the command's errors."""
    fingerprints = {
        error.signature.fingerprint
        for error in case.digest.errors
        if error.command and command_head(error.command) == head
    }
    fixes = [fix for fix in case.digest.fixes if fix.fingerprint in fingerprints]
    is_over = any(fix.fixed_seq is not None for fix in fixes)
    changes = [
        (fix, change) for fix, _, change in iter_changes(case)
        if fix.fingerprint in fingerprints and change.kind in ("setup_first", "prepared_first")
    ]  # fmt: skip
    if changes:
        fix, change = max(changes, key=lambda one: one[0].confidence)
        ref = f"{case.uid}#{fix.steps[0].seq}"
        return End(case.evidence_key, case.at, ref, change.added, True, fix.confidence)
    is_known = any(fix.is_shown and fix.how != "retry" for fix in fixes)
    return End(
        case.evidence_key, case.at, case.uid, OTHER_KEY if is_known else "", is_over or is_known
    )


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    """Propose what was run before the command succeeded in most tasks."""
    common = find_common_ends(ends, group.min_sessions)
    if not common:
        return None
    pattern, key = group.pattern, common[0].key
    head, first = (
        one_line(pattern.locus.key),
        ", then ".join(f"`{one}`" for one in key.split(" && ")),
    )
    return Draft(
        id=hash_id("retry_storm", pattern.locus.key, key),
        kind=KIND,
        about=pattern.locus.key,
        key=key,
        when=f"`{head}` has failed, whatever it printed.",
        do=f"Run {first} once, then `{head}` again.",
        avoid=f"Repeating `{head}` unchanged: it was run again and again without success.",
        repo=only_one(pattern.repos),
        signals=pattern.signals,
        last_at=pattern.last_at,
        **count_evidence(common, ends),
    )


def recurred(about: str, case: Case) -> bool:
    """Return True if the command failed again and again in this session."""
    return any(run.failed >= MIN_FAILURES for run in _find_failing(about, case))


def _find_failing(head: str, case: Case) -> list[CommandRun]:
    return [run for run in case.digest.commands if run.failed and command_head(run.command) == head]
