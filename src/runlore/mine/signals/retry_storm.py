"""A command that is run again and again while it fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model import CommandRun
from ...text.clean import one_line
from ..advice import fix_key
from ..commands import command_head
from ..drafts import Draft, Group, hash_id, only_one
from ..ends import End, count_evidence, describe_common_fix, find_common_ends, is_instructive
from ..loci import CommandLocus
from ..values import Case, Fleet, Signal

ADVICE = (
    "read the error before the second try; find out what the command needs, and write it down where"
    " agents look"
)
KIND = "retries"

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
    errors = {
        error.signature.fingerprint: error
        for error in case.digest.errors
        if error.command and command_head(error.command) == head
    }
    fixes = [fix for fix in case.digest.fixes if fix.fingerprint in errors]
    is_over = any(fix.fixed_seq is not None for fix in fixes)
    instructive = [fix for fix in fixes if is_instructive(fix, errors[fix.fingerprint])]
    if not instructive:
        last_seq = max((error.last_seq for error in errors.values()), default=0)
        return End(case.root, case.at, f"{case.uid}#{last_seq}", is_over=is_over)
    fix = max(instructive, key=lambda fix: fix.confidence)
    error = errors[fix.fingerprint]
    return End(
        case.root,
        case.at,
        f"{case.uid}#{fix.steps[0].seq}",
        fix_key(fix, error),
        fix,
        is_over,
        error.command or "",
    )


def draft(group: Group, ends: Sequence[End]) -> Draft | None:
    """Propose what ended the retries in most sessions."""
    common = find_common_ends(ends, group.min_sessions)
    if not common:
        return None
    pattern, key = group.pattern, common[0].key
    return Draft(
        id=hash_id("retry_storm", pattern.locus.key, key),
        kind=KIND,
        about=pattern.locus.key,
        key=key,
        problem=one_line(pattern.what),
        resolution=describe_common_fix(common),
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
