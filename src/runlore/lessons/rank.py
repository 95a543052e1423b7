"""Which lesson comes first: the share of sessions that it helped in, at the cautious end, and less the longer nothing was seen of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from math import sqrt

from . import Lesson

Z = 1.959964
"""Of 95 %: the bounds leave out 2.5 % at either end."""
UNCOUNTED = 0.2
"""Of a lesson that somebody wrote: as one that helped the one time that it was tried."""


def wilson(hits: float, of: float, z: float = Z) -> tuple[float, float]:
    """The share that so many hits out of so many tell of, from and to. A 2 of 2 begins below a 40 of 50. Nothing tells nothing."""
    if of <= 0:
        return 0.0, 1.0
    share = hits / of
    middle = share + z * z / (2 * of)
    spread = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, (middle - spread) / (1 + z * z / of)), min(1.0, (middle + spread) / (1 + z * z / of))


def score(lesson: Lesson, now: datetime, half_life_days: float) -> float:
    """Between 0 and 1. Half of it is gone after each half-life in which nothing was seen of the problem."""
    trust = lesson.confidence if lesson.by == "mined" else max(UNCOUNTED, lesson.confidence)
    if lesson.kept or lesson.broken:
        trust = wilson(lesson.helped + lesson.kept, lesson.sessions + lesson.kept + lesson.broken)[0]
    return float(trust * 0.5 ** (age_days(lesson, now) / half_life_days))


def age_days(lesson: Lesson, now: datetime) -> float:
    """Since it was last seen, or made. What has no time that can be read is as old as can be."""
    for text in (lesson.last_at, lesson.made_at):
        try:
            then = datetime.fromisoformat(text)
            return max(0.0, (now - then).total_seconds() / 86_400)
        except (ValueError, TypeError):  # Empty, no time, or one without an offset: files may be written by people.
            continue
    return 3_650.0


def ranked(lessons: Iterable[Lesson], now: datetime, half_life_days: float) -> list[Lesson]:
    """The best first; of equals always in the same order."""
    return sorted(lessons, key=lambda lesson: (-score(lesson, now, half_life_days), lesson.id))
