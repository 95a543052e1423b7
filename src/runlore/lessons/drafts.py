"""Draft lessons from patterns: each miner drafts what it knows a way out of. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ..config import Lessons as Thresholds
from ..mine.drafts import Group
from ..mine.ends import End
from ..mine.signals import load_miners
from ..mine.values import Case, Pattern
from . import Lesson


class Drafted(msgspec.Struct, frozen=True):
    """The result of drafting a lesson from one group of patterns."""

    lesson: Lesson | None
    """None if nothing is known to help."""
    subject: str = ""
    """The subject of the patterns, as in `Lesson.subject`, if it is known how that ends."""
    ends: Sequence[End] = ()
    """The end of the problem in each session."""


def draft_lessons(
    patterns: Iterable[Pattern], cases: Mapping[str, Case], thresholds: Thresholds
) -> Iterator[Drafted]:
    """Yield what the patterns come to, errors first."""
    groups = [group for group in _group_patterns(patterns) if _passes(group, thresholds)]
    evidence_of_errors: set[str] = set()
    for group in sorted(groups, key=lambda group: not group[0].locus.error):
        drafted = _draft_lesson(group, cases, thresholds)
        if group[0].locus.error:
            evidence_of_errors.update(drafted.lesson.evidence if drafted.lesson else ())
        elif _is_covered(drafted, evidence_of_errors):
            continue
        yield drafted


def _group_patterns(patterns: Iterable[Pattern]) -> list[list[Pattern]]:
    """Group the patterns that become one lesson: those about the same error whose miners share a
    `draft` function. Every other pattern is a group of its own."""
    groups: dict[Any, list[Pattern]] = {}
    for pattern in patterns:
        miner = load_miners()[pattern.type]
        if miner.draft is not None:
            key = (miner.draft, pattern.locus.error) if pattern.locus.error else pattern.id
            groups.setdefault(key, []).append(pattern)
    return list(groups.values())


def _passes(patterns: Iterable[Pattern], thresholds: Thresholds) -> bool:
    return any(
        pattern.signals >= thresholds.propose and pattern.sessions >= thresholds.propose
        for pattern in patterns
    )


def _draft_lesson(
    patterns: Sequence[Pattern], cases: Mapping[str, Case], thresholds: Thresholds
) -> Drafted:
    miner = load_miners()[patterns[0].type]
    assert miner.draft is not None
    group = Group(tuple(patterns), cases, thresholds.propose)
    ends = miner.find_ends(group) if miner.find_ends else []
    draft = miner.draft(group, ends)
    lesson = Lesson(**msgspec.structs.asdict(draft)) if draft else None
    return Drafted(lesson, miner.subject_of(patterns[0]) if miner.find_ends else "", ends)


def _is_covered(drafted: Drafted, evidence_of_errors: set[str]) -> bool:
    """Return True if a lesson on an error already has most of this evidence: it is the same fix."""
    if drafted.lesson is None or not drafted.ends:
        return False
    evidence = drafted.lesson.evidence
    return 2 * len(evidence_of_errors.intersection(evidence)) >= len(evidence)
