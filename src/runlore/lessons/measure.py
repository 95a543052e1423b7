"""Whether a lesson helps: the sessions that were told it, beside those before; and how the fleet goes over time. Pure.

What a lesson is about recurs by chance, too, and lessons are made of what recurred: so the session that completed the evidence is left
out, a verdict needs enough sessions on both sides, and its interval is wide (99 %), because people look at it again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from typing import Literal

import msgspec

from ..mine import Case
from ..mine._cluster import SIMILAR, alike
from ..mine._words import head
from ..mine.correction import words_of
from ..mine.infrastructure import OVERHEAD
from ..mine.retry_storm import FROM as STORM
from ..model import parse_time
from . import Lesson
from .deliver import Delivered
from .rank import wilson

Verdict = Literal["effective", "harmful", "no effect seen", "too early", "not measurable"]

Z = 2.575829
"""Of 99 %."""
FEWEST_TOLD, FEWEST_BEFORE = 20, 20
"""Sessions below which it is too early: with fewer even an error that vanished may be luck."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """In how many of so many sessions, before and after; and between which bounds the difference of the shares is."""

    before: int
    before_of: int
    after: int
    after_of: int
    low: float
    high: float


class Mean(msgspec.Struct, frozen=True, kw_only=True):
    """The same of a figure that every session has."""

    before: float
    before_of: int
    after: float
    after_of: int
    low: float
    high: float


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a lesson that was told."""

    id: str
    problem: str
    verdict: Verdict
    told: int
    """Sessions."""
    first_at: str
    tokens: int
    """What telling it cost, together with what was told beside it."""
    recurs: Share
    """Of sessions told at their start: those that met what it is about."""
    stays: Share
    """Of sessions that met its error: those that did not get over it. Judged when it was told only to sessions that had met it."""
    success: Share
    """Of the sessions whose end is known."""
    retries: Mean
    usd: Mean


def effects(lessons: Iterable[Lesson], notes: Iterable[Delivered], cases: Sequence[Case]) -> list[Effect]:
    """Of every lesson that some session was told, those told most often first."""
    told: dict[str, list[Delivered]] = {}
    for note in notes:
        for name in note.lessons:
            told.setdefault(name, []).append(note)
    by_uid = {case.uid: case for case in cases}
    found = [_effect(lesson, told[lesson.id], by_uid) for lesson in lessons if lesson.id in told]
    return sorted(found, key=lambda effect: (-effect.told, effect.id))


def _effect(lesson: Lesson, notes: Sequence[Delivered], cases: Mapping[str, Case]) -> Effect:
    first = min(parse_time(note.at) for note in notes)
    after = [case for uid in sorted({note.uid for note in notes}) if (case := cases.get(uid)) and case.is_work]
    starts = {note.uid for note in notes if note.event == "start"}
    earlier = [case for case in cases.values() if case.is_work and not case.is_subagent and case.at and parse_time(case.at) < first]
    before = [case for case in earlier if lesson.fits(agent=case.agent, repo=case.repo or "")]
    recurs = _share(
        [recurred(lesson, case) for case in _without_trigger(lesson, before)],
        [recurred(lesson, case) for case in after if case.uid in starts],
    )
    stays = _share(_stayed(lesson, before), _stayed(lesson, after))
    return Effect(
        id=lesson.id,
        problem=lesson.problem,
        # A test that is flaky stays so; what its lesson is to change is how sessions get over it.
        verdict=_verdict(lesson, recurs if starts and lesson.kind != "flaky" else stays),
        told=len({note.uid for note in notes}),
        first_at=min(note.at for note in notes),
        tokens=sum(note.tokens for note in notes),
        recurs=recurs,
        stays=stays,
        success=_share(_ends(before), _ends(after)),
        retries=_mean([float(case.digest.retries) for case in before], [float(case.digest.retries) for case in after]),
        usd=_mean([case.usd for case in before], [case.usd for case in after]),
    )


def _stayed(lesson: Lesson, cases: Iterable[Case]) -> list[bool]:
    """For each session that met the error whether it stayed."""
    met = [case for case in cases if lesson.fingerprint and recurred(lesson, case)]
    return [not any(fix.fingerprint == lesson.fingerprint and fix.fixed_seq is not None for fix in case.digest.fixes) for case in met]


def recurred(lesson: Lesson, case: Case) -> bool:
    """Whether what the lesson is about was met in a session."""
    if lesson.fingerprint:
        return any(error.signature.fingerprint == lesson.fingerprint for error in case.digest.errors)
    if lesson.kind == "retries":
        return any(ran.failed >= STORM and head(ran.command) == lesson.about for ran in case.digest.commands)
    if lesson.kind == "skill":
        return any(skill.name == lesson.about and skill.passed is False for skill in case.skills)
    if lesson.kind != "correction":
        return False
    mine = words_of(lesson.resolution)
    said = (words_of(moment.text) for moment in case.digest.corrections)
    return any(bool(mine) and alike(mine, words) >= SIMILAR for words in said)


def _without_trigger(lesson: Lesson, before: list[Case]) -> list[Case]:
    """Without the last session that showed it before it was proposed: looking stopped there because it did."""
    seen = [case for case in before if recurred(lesson, case) and (not lesson.made_at or case.at <= lesson.made_at)]
    last = max(seen, key=lambda case: case.at, default=None)
    return [case for case in before if case is not last]


def _ends(cases: Iterable[Case]) -> list[bool]:
    return [case.digest.outcome == "success" for case in cases if case.digest.outcome in ("success", "fail")]


def _verdict(lesson: Lesson, seen: Share) -> Verdict:
    if not lesson.fingerprint and lesson.kind not in ("correction", "retries", "skill"):
        return "not measurable"
    if seen.after_of < FEWEST_TOLD or seen.before_of < FEWEST_BEFORE:
        return "too early"
    return "effective" if seen.high < 0 else "harmful" if seen.low > 0 else "no effect seen"


def _share(before: Sequence[bool], after: Sequence[bool]) -> Share:
    low, high = difference(sum(before), len(before), sum(after), len(after))
    return Share(before=sum(before), before_of=len(before), after=sum(after), after_of=len(after), low=round(low, 4), high=round(high, 4))


def difference(before: int, before_of: int, after: int, after_of: int, z: float = Z) -> tuple[float, float]:
    """The bounds of how much the share has changed (Newcombe, from two Wilson intervals). Where nothing is known, anything."""
    if not before_of or not after_of:
        return -1.0, 1.0
    old, new = before / before_of, after / after_of
    old_low, old_high = wilson(before, before_of, z)
    new_low, new_high = wilson(after, after_of, z)
    change = new - old
    return change - sqrt((new - new_low) ** 2 + (old_high - old) ** 2), change + sqrt((new_high - new) ** 2 + (old - old_low) ** 2)


def _mean(before: Sequence[float], after: Sequence[float]) -> Mean:
    old, new = _average(before), _average(after)
    spread = Z * sqrt(_variance(before) / max(1, len(before)) + _variance(after) / max(1, len(after)))
    return Mean(
        before=round(old, 4),
        before_of=len(before),
        after=round(new, 4),
        after_of=len(after),
        low=round(new - old - spread, 4),
        high=round(new - old + spread, 4),
    )


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _variance(values: Sequence[float]) -> float:
    middle = _average(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1) if len(values) > 1 else 0.0


# ── the fleet ────────────────────────────────────────────────────────────────────────────────────────────────────────
class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions of a stretch of time that count."""

    period: str
    sessions: int
    success: float | None
    """Of those whose end is known."""
    ended: int
    """How many that are."""
    failing: float
    """Sessions with an error."""
    errors: float
    """A session, on average, the same error counted once."""
    tokens_p50: int
    tokens_p90: int
    overhead: float
    """Of the calls: plans, servers, and what else is not the work itself; in the middle session."""
    thrash: float
    """Sessions in which the same call failed three times or more."""


def snapshots(cases: Iterable[Case], period: Literal["week", "month"]) -> list[Snapshot]:
    """How the sessions went, the oldest first. Subagents count with who started them."""
    by_period: dict[str, list[Case]] = {}
    for case in cases:
        if case.is_work and not case.is_subagent and case.at:
            by_period.setdefault(_period(case.at, period), []).append(case)
    return [snapshot(name, by_period[name]) for name in sorted(by_period)]


def _period(at: str, period: str) -> str:
    if period == "month":
        return at[:7]
    year, week, _ = parse_time(at).isocalendar()
    return f"{year}-W{week:02}"


def snapshot(period: str, cases: Sequence[Case]) -> Snapshot:
    """Of at least one case."""
    ends, sizes = _ends(cases), sorted(case.tokens for case in cases)
    shares = sorted(_overhead(case) for case in cases)
    return Snapshot(
        period=period,
        sessions=len(cases),
        success=round(sum(ends) / len(ends), 4) if ends else None,
        ended=len(ends),
        failing=round(sum(bool(case.digest.errors) for case in cases) / len(cases), 4),
        errors=round(sum(len(case.digest.errors) for case in cases) / len(cases), 4),
        tokens_p50=round(quantile(sizes, 0.5)),
        tokens_p90=round(quantile(sizes, 0.9)),
        overhead=round(quantile(shares, 0.5), 4),
        thrash=round(sum(_thrashes(case) for case in cases) / len(cases), 4),
    )


def quantile(values: Sequence[float], share: float) -> float:
    """Between the two values that it lies between."""
    at = share * (len(values) - 1)
    low = int(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def _overhead(case: Case) -> float:
    total = sum(case.digest.actions.values())
    return sum(count for action, count in case.digest.actions.items() if action in OVERHEAD) / total if total else 0.0


def _thrashes(case: Case) -> bool:
    return any(error.count >= 3 for error in case.digest.errors) or any(ran.failed >= 3 for ran in case.digest.commands)
