"""One digest from two: of events that have left for good, and of the events since.

Pure. Nothing of the first is lost except to the bounds that every digest has. A fix across both
cannot be found any more: an error of the first digest that went away later counts as one that
stayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from ..model import (
    OUTCOME_BY,
    CommandRun,
    Digest,
    ErrorSummary,
    Fix,
    Moment,
    RequestedLesson,
    Session,
    SlowCommand,
    TestRun,
)
from ..store.dead_ends import dead_ends_of
from . import Quality
from .dead_ends import join_dead_ends
from .requested_lessons import MAX_LESSONS
from .session import (
    MAX_FILES,
    MAX_MOMENTS,
    MAX_NAMES,
    MAX_REQUESTS,
    MAX_SLOW,
    MAX_TESTS,
    Bounded,
    choose_commands,
    cited_lines,
    keep_weightiest,
    other_citations,
)

_QUALITIES: tuple[Quality, ...] = ("subagent", "real", "automated", "one_shot", "trivial")
"""The quality of the whole is the first of the two in this order."""

T = TypeVar("T")


def join(before: Digest, after: Digest, session: Session) -> Digest:
    """Return the digest of a session from two: `before` of events that left, `after` of the
    rest."""
    lists = _Lists(before, after)
    errors, fixes = lists.errors_and_fixes()
    tests = lists.tests()
    commands, slow = lists.commands(), lists.slow()
    outcome = _join_outcomes(before, after, tests)
    cited = cited_lines(errors, fixes, other_citations(commands, slow, outcome.outcome_evidence))
    start, end = session.started_at, session.ended_at
    # Long, because each field of a digest is named here once.
    return Digest(
        session_uid=after.session_uid,
        version=after.version,
        covers=after.covers,
        goal=before.goal or after.goal,
        goal_seq=before.goal_seq if before.goal else after.goal_seq,
        requests=lists.requests(),
        result=after.result or before.result,
        task_ref=after.task_ref or before.task_ref,
        title=after.title or before.title,
        files_read=lists.union("files_read", MAX_FILES),
        files_edited=lists.union("files_edited", MAX_FILES),
        files_created=lists.union("files_created", MAX_FILES),
        commands=commands,
        tests=tests,
        commits=lists.union("commits", MAX_MOMENTS),
        pull_requests=lists.union("pull_requests", MAX_MOMENTS),
        edits=lists.counts("edits", MAX_FILES),
        slow=slow,
        tools=lists.counts("tools"),
        actions=lists.counts("actions"),
        kinds=lists.counts("kinds"),
        subagents=lists.union("subagents", MAX_MOMENTS),
        wall_s=round((end - start).total_seconds(), 3) if start and end else 0.0,
        active_s=after.active_s,
        interventions=lists.union("interventions", MAX_MOMENTS),
        corrections=lists.union("corrections", MAX_MOMENTS),
        requested_lessons=lists.requested_lessons(),
        decisions=lists.union("decisions", MAX_MOMENTS),
        retries=after.retries,
        compactions=before.compactions + after.compactions,
        errors=tuple(errors),
        fixes=fixes,
        outcome=outcome.outcome,
        outcome_level=outcome.outcome_level,
        outcome_by=outcome.outcome_by,
        outcome_evidence=outcome.outcome_evidence,
        outcome_reason=outcome.outcome_reason,
        quality=_join_qualities(before, after),
        excerpts=tuple(
            moment for moment in (*before.excerpts, *after.excerpts) if moment.seq in cited
        ),
        cut=lists.bounded.cut,
        dead_ends=join_dead_ends(dead_ends_of(before), after.dead_ends),
        secrets=before.secrets,
        secrets_at=before.secrets_at,
        touched=before.touched,
        before=msgspec.structs.replace(before, before=None, made_at=None),
    )


class _Lists:
    """The lists of two digests, joined and cut to their limits."""

    def __init__(self, before: Digest, after: Digest) -> None:
        self.before, self.after = before, after
        self.bounded = Bounded(Counter(before.cut) + Counter(after.cut))

    def union(self, name: str, limit: int) -> tuple[Any, ...]:
        """Return the entries of both lists, each once."""
        return self.bounded.first(
            name, dict.fromkeys((*getattr(self.before, name), *getattr(self.after, name))), limit
        )

    def counts(self, name: str, limit: int = MAX_NAMES) -> dict[str, int]:
        return self.bounded.counts(
            name, Counter(getattr(self.before, name)) + Counter(getattr(self.after, name)), limit
        )

    def errors_and_fixes(self) -> tuple[Sequence[ErrorSummary], tuple[Fix, ...]]:
        """Return the errors by first occurrence, and their fixes."""
        fixes = {
            fix.fingerprint: fix
            for fix in _merge(
                self.before.fixes, self.after.fixes, lambda fix: fix.fingerprint, _surer_fix
            )
        }
        merged = _merge(
            self.before.errors,
            self.after.errors,
            lambda error: error.signature.fingerprint,
            _add_occurrences,
        )
        errors = sorted(
            keep_weightiest(merged, fixes, self.bounded), key=lambda error: error.first_seq
        )
        return errors, tuple(
            fix for error in errors if (fix := fixes.get(error.signature.fingerprint)) is not None
        )

    def requests(self) -> tuple[Moment, ...]:
        return self.bounded.first_and_last(
            "requests", (*self.before.requests, *self.after.requests), MAX_REQUESTS
        )

    def tests(self) -> tuple[TestRun, ...]:
        return self.bounded.first_and_last(
            "tests", (*self.before.tests, *self.after.tests), MAX_TESTS
        )

    def commands(self) -> tuple[CommandRun, ...]:
        merged = _merge(
            self.before.commands, self.after.commands, lambda run: run.command, _add_runs
        )
        return choose_commands(merged, self.bounded)

    def slow(self) -> tuple[SlowCommand, ...]:
        merged = _merge(
            self.before.slow, self.after.slow, lambda command: command.command, _add_slow_runs
        )
        return self.bounded.first(
            "slow", sorted(merged, key=lambda command: -command.seconds), MAX_SLOW
        )

    def requested_lessons(self) -> tuple[RequestedLesson, ...]:
        merged = _merge(
            self.before.requested_lessons,
            self.after.requested_lessons,
            lambda lesson: lesson.lesson,
            _add_tokens,
        )
        return self.bounded.first("requested_lessons", merged, MAX_LESSONS)


def _merge(
    before: Iterable[T], after: Iterable[T], name: Callable[[T], str], add: Callable[[T, T], T]
) -> list[T]:
    """Return the entries of both. Two with the same name are added up."""
    by_name = {name(entry): entry for entry in before}
    for entry in after:
        known = by_name.get(name(entry))
        by_name[name(entry)] = entry if known is None else add(known, entry)
    return list(by_name.values())


def _add_occurrences(known: ErrorSummary, error: ErrorSummary) -> ErrorSummary:
    """Return an error with later occurrences. Command and tool stay those of the first one."""
    seqs, last_at = (known.first_seq, error.last_seq), error.last_at or known.last_at
    return msgspec.structs.replace(
        known, count=known.count + error.count, seqs=seqs, last_at=last_at
    )


def _surer_fix(known: Fix, fix: Fix) -> Fix:
    """Return the surer fix, and of two equally sure ones the later, as within a session."""
    return fix if fix.confidence >= known.confidence else known


def _add_runs(known: CommandRun, run: CommandRun) -> CommandRun:
    return msgspec.structs.replace(
        run, count=known.count + run.count, failed=known.failed + run.failed
    )


def _add_slow_runs(known: SlowCommand, command: SlowCommand) -> SlowCommand:
    slowest = max(known, command, key=lambda one: one.seconds / one.count)
    return msgspec.structs.replace(
        slowest, seconds=known.seconds + command.seconds, count=known.count + command.count
    )


def _add_tokens(known: RequestedLesson, lesson: RequestedLesson) -> RequestedLesson:
    return msgspec.structs.replace(known, tokens=known.tokens + lesson.tokens)


def _join_outcomes(before: Digest, after: Digest, tests: Sequence[TestRun]) -> Digest:
    """Return the digest whose outcome counts.

    Nothing is a success while the last test run is a failed one.
    """
    surer = _surer_outcome(before, after)
    if surer.outcome == "success" and tests and (tests[-1].failed or tests[-1].is_error):
        return msgspec.structs.replace(surer, outcome="unknown", outcome_level="unknown")
    return surer


def _surer_outcome(before: Digest, after: Digest) -> Digest:
    """Return the digest with the stronger evidence for its outcome. If equal, the later.

    Evidence that did not suffice before is worth nothing if there is some that does. Later evidence
    that does not suffice takes back an outcome of the same kind.
    """
    if before.outcome == "unknown" and after.outcome != "unknown":
        return after
    return before if _strength(before) < _strength(after) else after


def _strength(digest: Digest) -> int:
    """Return the place of the evidence in the list of kinds, the strongest first."""
    by = digest.outcome_by
    return OUTCOME_BY.index(by) if by in OUTCOME_BY else len(OUTCOME_BY)


def _join_qualities(before: Digest, after: Digest) -> str | None:
    known = (before.quality, after.quality)
    return next(
        (quality for quality in _QUALITIES if quality in known), after.quality or before.quality
    )
