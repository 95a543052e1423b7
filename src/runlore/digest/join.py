"""Two digests of one session as one: what was known of events that have left for good, and what happened since.

Pure. Nothing of the first is lost but to the bounds that every digest has. What no rule can see any more is a fix that lies on both sides:
an error of before that went away since is one that stayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar, get_args

import msgspec

from ..model import CommandRun, Digest, ErrorSummary, Fix, RequestedLesson, Session, SlowCommand
from ..store.charging import dead_ends_of
from . import Level, Quality
from .dead_ends import joined
from .requested_lessons import MOST_TOLD
from .session import (
    MOST_COMMANDS,
    MOST_ERRORS,
    MOST_FILES,
    MOST_MOMENTS,
    MOST_NAMES,
    MOST_SLOW,
    MOST_TESTS,
    by_use,
    cited,
    cited_besides,
    most_notable,
    weight,
)

_LEVELS: tuple[str, ...] = get_args(Level)
_QUALITIES: tuple[Quality, ...] = ("subagent", "real", "automated", "one_shot", "trivial")
"""What a session is of which one part is this and another that: the first."""

T = TypeVar("T")


def join(before: Digest, after: Digest, session: Session) -> Digest:
    """The digest of a session: `before` is what was known of it, `after` that of the events that it did not know."""
    cut = Counter(before.cut) + Counter(after.cut)

    def most(name: str, items: Iterable[T], limit: int) -> tuple[T, ...]:
        kept = tuple(items)
        if len(kept) > limit:
            cut[name] += len(kept) - limit
        return kept[:limit]

    def both(name: str, limit: int) -> tuple[T, ...]:
        """Of a list, without what is in both."""
        return most(name, dict.fromkeys((*getattr(before, name), *getattr(after, name))), limit)

    def counted(name: str, limit: int = MOST_NAMES) -> dict[str, int]:
        counts = Counter(getattr(before, name)) + Counter(getattr(after, name))
        return dict(most(name, by_use(counts), limit))

    answers = _merged(before.fixes, after.fixes, lambda fix: fix.fingerprint, _surest)
    every = {fix.fingerprint: fix for fix in answers}
    errors = _merged(before.errors, after.errors, lambda error: error.signature.fingerprint, _again)
    if len(errors) > MOST_ERRORS:
        cut["errors"] += len(errors) - MOST_ERRORS
        errors = sorted(errors, key=lambda error: weight(error, every), reverse=True)[:MOST_ERRORS]
    errors.sort(key=lambda error: error.first_seq)
    fixes = tuple(fix for error in errors if (fix := every.get(error.signature.fingerprint)) is not None)
    tests = (*before.tests, *after.tests)
    if len(tests) > MOST_TESTS:
        cut["tests"] += len(tests) - MOST_TESTS
        tests = (tests[0], *tests[1 - MOST_TESTS :])
    ran = _merged(before.commands, after.commands, lambda run: run.command, _run_again)
    took = _merged(before.slow, after.slow, lambda took: took.command, _took_again)
    commands = most("commands", most_notable(ran), MOST_COMMANDS)
    slow = most("slow", sorted(took, key=lambda one: -one.seconds), MOST_SLOW)
    ended = _surer(before, after)
    if ended.outcome == "success" and tests and (tests[-1].failed or tests[-1].is_error):
        ended = msgspec.structs.replace(ended, outcome="unknown", outcome_confidence=0.0)
    kept = cited(errors, fixes, cited_besides(commands, slow, ended.outcome_evidence))
    start, end = session.started_at, session.ended_at
    return Digest(
        session_uid=after.session_uid,
        version=after.version,
        covers=after.covers,
        goal=before.goal or after.goal,
        goal_seq=before.goal_seq if before.goal else after.goal_seq,
        title=after.title or before.title,
        files_read=both("files_read", MOST_FILES),
        files_edited=both("files_edited", MOST_FILES),
        files_created=both("files_created", MOST_FILES),
        commands=commands,
        tests=tests,
        commits=both("commits", MOST_MOMENTS),
        pull_requests=both("pull_requests", MOST_MOMENTS),
        edits=counted("edits", MOST_FILES),
        slow=slow,
        tools=counted("tools"),
        actions=counted("actions"),
        kinds=counted("kinds"),
        subagents=both("subagents", MOST_MOMENTS),
        wall_s=round((end - start).total_seconds(), 3) if start and end else 0.0,
        active_s=after.active_s,
        interventions=both("interventions", MOST_MOMENTS),
        corrections=both("corrections", MOST_MOMENTS),
        told=most("told", _merged(before.told, after.told, lambda told: told.lesson, _told_again), MOST_TOLD),
        decisions=both("decisions", MOST_MOMENTS),
        retries=after.retries,
        compactions=before.compactions + after.compactions,
        errors=tuple(errors),
        fixes=fixes,
        outcome=ended.outcome,
        outcome_level=ended.outcome_level,
        outcome_confidence=ended.outcome_confidence,
        outcome_evidence=ended.outcome_evidence,
        outcome_reason=ended.outcome_reason,
        quality=next((word for word in _QUALITIES if word in (before.quality, after.quality)), after.quality or before.quality),
        excerpts=tuple(moment for moment in (*before.excerpts, *after.excerpts) if moment.seq in kept),
        cut={name: count for name, count in cut.items() if count},
        dead_ends=joined(dead_ends_of(before), after.dead_ends),
        secrets=before.secrets,
        secrets_at=before.secrets_at,
        touched=before.touched,
        before=msgspec.structs.replace(before, before=None, made_at=None),
    )


def _merged(before: Iterable[T], after: Iterable[T], name: Callable[[T], str], add: Callable[[T, T], T]) -> list[T]:
    """All of both; what has the same name in both is added up."""
    found = {name(one): one for one in before}
    for one in after:
        known = found.get(name(one))
        found[name(one)] = one if known is None else add(known, one)
    return list(found.values())


def _again(known: ErrorSummary, error: ErrorSummary) -> ErrorSummary:
    """An error that came again is told as it was the first time."""
    seqs, last_at = (known.first_seq, error.last_seq), error.last_at or known.last_at
    return msgspec.structs.replace(known, count=known.count + error.count, seqs=seqs, last_at=last_at)


def _surest(known: Fix, fix: Fix) -> Fix:
    """As within a session: the surest answer counts, and of these the latest."""
    return fix if fix.confidence >= known.confidence else known


def _run_again(known: CommandRun, run: CommandRun) -> CommandRun:
    return msgspec.structs.replace(run, count=known.count + run.count, failed=known.failed + run.failed)


def _took_again(known: SlowCommand, took: SlowCommand) -> SlowCommand:
    longest = max(known, took, key=lambda one: one.seconds / one.count)
    return msgspec.structs.replace(longest, seconds=known.seconds + took.seconds, count=known.count + took.count)


def _told_again(known: RequestedLesson, told: RequestedLesson) -> RequestedLesson:
    return msgspec.structs.replace(known, tokens=known.tokens + told.tokens)


def _surer(before: Digest, after: Digest) -> Digest:
    """Which of them knows how it ended: the one with the stronger evidence, and with the same the later. So nothing is a success after
    tests that failed before and were never run again."""
    if "unknown" in (before.outcome, after.outcome):
        is_later_silent = after.outcome == "unknown" and before.outcome != "unknown"
        return before if is_later_silent else after
    return before if _level(before) < _level(after) else after


def _level(digest: Digest) -> int:
    level = digest.outcome_level
    return _LEVELS.index(level) if level in _LEVELS else len(_LEVELS)
