"""The end of a problem in each session, and what most of those ends have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from .drafts import MAX_EVIDENCE
from .intervals import wilson_interval

RETRY_KEY = "retry"
"""The key of an end after which nothing was done but to try again."""
OTHER_KEY = "other"
"""The key of an end by something that has no class of its own, such as an edit."""


class End(msgspec.Struct, frozen=True):
    """The end of a problem in one session."""

    task: str
    at: str
    ref: str
    """The event that shows it, as uid#seq."""
    key: str = ""
    """The reason for the end: the same advice has the same key. Empty if it did not end or the
    reason is unknown."""
    is_over: bool = False
    confidence: float = 0.0


def find_common_ends(ends: Iterable[End], min_tasks: int) -> list[End]:
    """Return the ends with the key that helped in most tasks, the most certain first.

    Returns nothing if it helped in fewer than `min_tasks`.
    """
    by_key: dict[str, list[End]] = {}
    for end in ends:
        if end.key and end.key != OTHER_KEY:
            by_key.setdefault(end.key, []).append(end)
    ordered = {
        key: sorted(same, key=lambda end: (end.confidence, end.at, end.ref), reverse=True)
        for key, same in by_key.items()
    }
    best = max(
        ordered,
        key=lambda key: (count_tasks(ordered[key]), ordered[key][0].confidence, key),
        default=None,
    )
    return ordered[best] if best is not None and count_tasks(ordered[best]) >= min_tasks else []


def count_evidence(common: Sequence[End], ends: Iterable[End]) -> dict[str, Any]:
    """Return the evidence for what `common` ended with, among all `ends`, as fields of a draft.

    Only tasks in which the problem ended for a known reason count: where nobody tried again, or
    nobody knows what helped, nothing is said about the advice.
    """
    tried = count_tasks([*common, *(end for end in ends if end.key)])
    helped = count_tasks(common)
    newest = sorted(common, key=lambda end: end.at, reverse=True)
    return {
        "evidence": tuple(dict.fromkeys(end.ref for end in newest))[:MAX_EVIDENCE],
        "sessions": tried,
        "helped": helped,
        "confidence": round(wilson_interval(helped, tried)[0], 3),
    }


def count_tasks(ends: Iterable[End]) -> int:
    """Count the independent tasks."""
    return len({end.task for end in ends})
