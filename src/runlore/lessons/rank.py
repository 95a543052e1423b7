"""Rank lessons by the lower bound of the share of sessions they helped in, and by age."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from ..mine.intervals import wilson_interval
from . import Lesson

HANDWRITTEN_SCORE = 0.2
"""The score of a lesson that somebody wrote: that of one that helped the one time it was tried."""
UNKNOWN_AGE_DAYS = 3_650.0


def rank_lessons(lessons: Iterable[Lesson], now: datetime, half_life_days: float) -> list[Lesson]:
    """Return the lessons, best first; those with equal scores by id."""
    return sorted(lessons, key=lambda lesson: (-score(lesson, now, half_life_days), lesson.id))


def score(lesson: Lesson, now: datetime, half_life_days: float) -> float:
    """Return a score from 0 to 1.

    It halves with each half-life in which the problem did not occur.
    """
    trust = lesson.confidence if lesson.by == "mined" else max(HANDWRITTEN_SCORE, lesson.confidence)
    if lesson.kept or lesson.broken:
        trust = wilson_interval(
            lesson.helped + lesson.kept, lesson.sessions + lesson.kept + lesson.broken
        )[0]
    return float(trust * 0.5 ** (age_days(lesson, now) / half_life_days))


def age_days(lesson: Lesson, now: datetime) -> float:
    """Return the days since the problem last occurred, or else since the lesson was made."""
    for text in (lesson.last_at, lesson.made_at):
        try:
            then = datetime.fromisoformat(text)
            return max(0.0, (now - then).total_seconds() / 86_400)
        # Empty, no time, or one without an offset: people may write these files.
        except (ValueError, TypeError):
            continue
    return UNKNOWN_AGE_DAYS
