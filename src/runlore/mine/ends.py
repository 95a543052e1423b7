"""The end of a problem in each session, and what most of those ends have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ..model import ErrorSummary, Fix
from .advice import describe_fix, fix_key
from .drafts import MAX_EVIDENCE
from .intervals import wilson_interval
from .values import Case

RETRY_KEY = "retry"
"""The key of an end after which nothing was done but to try again."""


class End(msgspec.Struct, frozen=True):
    """The end of a problem in one session."""

    root: str
    at: str
    ref: str
    """The event that shows it, as uid#seq."""
    key: str = ""
    """The reason for the end: the same advice has the same key. Empty if it did not end or the
    reason is unknown."""
    fix: Fix | None = None
    is_over: bool = False
    failed_command: str = ""

    @property
    def confidence(self) -> float:
        return self.fix.confidence if self.fix else 0.0


def find_error_ends(fingerprint: str, cases: Iterable[Case]) -> list[End]:
    """Return how an error ended in each of the sessions that met it."""
    ends = []
    for case in cases:
        error = next(
            (one for one in case.digest.errors if one.signature.fingerprint == fingerprint), None
        )
        if error is not None:
            ends.append(_find_error_end(error, case))
    return ends


def _find_error_end(error: ErrorSummary, case: Case) -> End:
    fixes = [fix for fix in case.digest.fixes if fix.fingerprint == error.signature.fingerprint]
    fix = next((fix for fix in fixes if is_instructive(fix, error)), None)
    ended = [fix for fix in fixes if fix.fixed_seq is not None]
    seq = fix.steps[0].seq if fix else error.last_seq
    key = (
        fix_key(fix, error)
        if fix
        else RETRY_KEY
        if any(one.how == "retry" for one in ended)
        else ""
    )
    return End(case.root, case.at, f"{case.uid}#{seq}", key, fix, bool(ended), error.command or "")


def is_instructive(fix: Fix, error: ErrorSummary) -> bool:
    """Return True if a fix says what to do.

    Trying again does not, nor does another call of a tool whose arguments are not in the digest.
    """
    return fix.is_shown and fix.how != "retry" and (fix.how != "changed" or error.action == "shell")


def find_common_ends(ends: Iterable[End], min_sessions: int) -> list[End]:
    """Return the ends with the key that helped in most sessions, the most certain first.

    Returns nothing if it helped in fewer than `min_sessions`.
    """
    by_key: dict[str, list[End]] = {}
    for end in ends:
        if end.key:
            by_key.setdefault(end.key, []).append(end)
    ordered = {
        key: sorted(same, key=lambda end: (end.confidence, end.at, end.ref), reverse=True)
        for key, same in by_key.items()
    }
    best = max(
        ordered,
        key=lambda key: (_count_sessions(ordered[key]), ordered[key][0].confidence, key),
        default=None,
    )
    return (
        ordered[best] if best is not None and _count_sessions(ordered[best]) >= min_sessions else []
    )


def count_evidence(common: Sequence[End], ends: Iterable[End]) -> dict[str, Any]:
    """Return the evidence for what `common` ended with, among all `ends`, as fields of a draft."""
    sessions, helped = _count_sessions(ends), _count_sessions(common)
    newest = sorted(common, key=lambda end: end.at, reverse=True)
    return {
        "evidence": tuple(dict.fromkeys(end.ref for end in newest))[:MAX_EVIDENCE],
        "sessions": sessions,
        "helped": helped,
        "confidence": round(wilson_interval(helped, sessions)[0], 3),
    }


def describe_common_fix(common: Sequence[End]) -> str:
    """Return in words what these ends have in common. Each has a fix with the same key."""
    best = common[0]
    assert best.fix is not None
    summaries = {end.fix.steps[0].summary for end in common if end.fix}
    return describe_fix(best.fix, best.failed_command, summaries)


def _count_sessions(ends: Iterable[End]) -> int:
    """Count independent sessions."""
    return len({end.root for end in ends})
