"""Draft lessons from patterns, by the `draft()` of the miner that found each pattern. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ..config import Lessons as Thresholds
from ..mine.drafts import Draft, Group
from ..mine.ends import End
from ..mine.signals import Miner, load_miners
from ..mine.values import Case, Pattern, find_families
from . import Lesson, gates


class Drafted(msgspec.Struct, frozen=True):
    """The result of drafting a lesson from one pattern."""

    lesson: Lesson | None
    """None if nothing is known to help, or if a gate refused it."""
    subject: str = ""
    """The subject of the pattern, as in `Lesson.subject`, if it is known how that ends."""
    ends: Sequence[End] = ()
    """The end of the problem in each session."""


def draft_lessons(
    patterns: Iterable[Pattern], cases: Mapping[str, Case], thresholds: Thresholds
) -> Iterator[Drafted]:
    """Yield the result for each pattern, those about a single change first."""
    drafting = [
        (pattern, miner)
        for pattern in patterns
        if (miner := load_miners()[pattern.type]).draft is not None
    ]
    family_of = find_families(cases.values()) if drafting else {}
    cited: set[str] = set()
    for pattern, miner in sorted(drafting, key=lambda one: one[1].is_fallback):
        group = Group(pattern, cases, thresholds.propose, family_of)
        drafted = _draft_lesson(group, miner)
        if _is_covered(drafted, cited, miner):
            continue
        cited.update(drafted.lesson.evidence if drafted.lesson else ())
        yield drafted


def _draft_lesson(group: Group, miner: Miner) -> Drafted:
    assert miner.draft is not None
    ends = miner.find_ends(group) if miner.find_ends else []
    draft = miner.draft(group, ends)
    lesson = build_lesson(draft) if draft and not gates.find_refusal(draft) else None
    return Drafted(lesson, miner.subject_of(group.pattern) if miner.find_ends else "", ends)


def build_lesson(draft: Draft) -> Lesson:
    """Return the lesson of a draft, not yet decided on."""
    fields = msgspec.structs.asdict(draft)
    del fields["error"]
    return Lesson(**fields)


def _is_covered(drafted: Drafted, cited: set[str], miner: Miner) -> bool:
    """Return True if another lesson already has most of the evidence of a fallback: it is the same
    fix."""
    if drafted.lesson is None or not miner.is_fallback:
        return False
    evidence = drafted.lesson.evidence
    return 2 * len(cited.intersection(evidence)) >= len(evidence)
