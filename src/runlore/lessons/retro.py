"""A retrospective of some days: what was done, what went wrong, what to change, what improved.

Pure, over cases. Every problem names its evidence. Advice comes from approved lessons alone:
nothing that one session did is told to another. Nothing here calls a model, prints or looks at a
clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from ..mine.intervals import wilson_interval
from ..mine.loci import WordsLocus
from ..mine.patterns import MIN_SESSIONS, find_patterns
from ..mine.signals import load_miners
from ..mine.values import Case, Pattern
from ..model import Trend
from ..text.clean import one_line
from . import Lesson, describe_advice
from .curate import uid_of
from .measure import Snapshot, build_snapshot

MAX_SUGGESTIONS = 3
"""For each repository: nobody reads more."""
MAX_PROBLEMS = 5
MAX_IMPROVEMENTS = 10
MAX_TITLE_CHARS = 160
MAX_SESSIONS = 20
"""Sessions that are listed, those with the most calls."""
MIN_GOOD_RATE, MAX_BAD_RATE = 0.9, 0.7
"""A model is recommended for a skill if the lower bound of its pass rate is at least the first, and
discouraged if the upper bound is below the second."""
MIN_SKILL_RESULTS = 5
"""With fewer results there is no hint on a model."""


class RetroSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session of these days."""

    uid: str
    repo: str | None
    what: str
    outcome: str
    outcome_level: str
    """How the outcome is known: verified, observed, said, unknown."""
    outcome_by: str
    """The kind of evidence."""
    usd: float
    """The cost with its subagents."""
    unpriced: int
    """The number of calls whose price is not known: the cost is without them."""


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """A problem, the evidence, and the advice of an approved lesson on it."""

    repo: str
    type: str
    what: str
    advice: str
    """What an approved lesson says about it; empty if there is none."""
    lesson: str
    """The id of that lesson."""
    sessions: int
    usd: float
    trend: Trend
    evidence: tuple[str, ...]
    """As uid#seq."""


class Improvement(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of the days before that occurs in at most half the share of sessions now."""

    what: str
    before: int
    now: int
    before_of: int
    """Number of all sessions."""
    now_of: int


class SkillResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a model at a skill."""

    skill: str
    model: str
    passed: int
    failed: int
    unknown: int
    """Invocations without a result."""
    escalated: int
    """Invocations that were passed on to another model."""
    unverified: int
    """Number of passes without a check."""
    low: float
    """The lower bound of the pass rate, of those with a result."""
    high: float
    hint: str
    """keep, try another, more evidence. From this model's own attempts alone."""


class Retro(msgspec.Struct, frozen=True, kw_only=True):
    since: str
    until: str
    sessions: int
    repos: dict[str, int]
    """Sessions by repository."""
    outcomes: dict[str, int]
    usd: float
    unpriced: int
    """The number of calls whose price is not known: the cost is without them."""
    tokens: int
    now: Snapshot | None
    before: Snapshot | None
    """The same for the period of equal length before."""
    done: list[RetroSession]
    wrong: list[Suggestion]
    """The most frequent problems, in any repository."""
    suggestions: list[Suggestion]
    """The most important ones of each repository."""
    better: list[Improvement]
    skills: list[SkillResult]
    waiting: int
    """Proposed lessons that wait for a person to decide. What they say is not part of it."""


def look_back(
    cases: Sequence[Case],
    earlier: Sequence[Case],
    lessons: Sequence[Lesson],
    skills: list[SkillResult],
    *,
    since: str,
    until: str,
) -> Retro:
    """Return the retrospective of some cases, compared with those of as many days before."""
    work = [case for case in cases if case.is_work]
    main = _without_subagents(work)
    by_uid = {case.uid: case for case in work}
    problems = [pattern for pattern in find_patterns(cases) if pattern.polarity == "problem"]
    known = _approved_lessons(lessons)
    old = _without_subagents(case for case in earlier if case.is_work)
    paid = _find_paid(cases, work, main)
    return Retro(
        since=since,
        until=until,
        sessions=len(main),
        repos=dict(Counter(case.repo or "(none)" for case in main).most_common()),
        outcomes=dict(Counter(case.digest.outcome for case in main).most_common()),
        usd=round(sum(case.usd for case in paid), 4),
        unpriced=sum(case.unpriced for case in paid),
        tokens=sum(case.tokens for case in paid),
        now=build_snapshot("now", main) if main else None,
        before=build_snapshot("before", old) if old else None,
        done=_list_sessions(main),
        wrong=_find_worst(problems, known),
        suggestions=_find_suggestions(problems, known, by_uid),
        better=_find_improvements(cases, earlier, len(main), len(old)),
        skills=skills,
        waiting=sum(lesson.status == "proposed" for lesson in lessons),
    )


def _without_subagents(cases: Iterable[Case]) -> list[Case]:
    return [case for case in cases if not case.is_subagent]


def _find_worst(problems: Iterable[Pattern], known: list[Lesson]) -> list[Suggestion]:
    """Return the most frequent problems of all repositories."""
    worst = sorted(problems, key=_sort_key)[:MAX_PROBLEMS]
    return [_build_suggestion(pattern, "", known) for pattern in worst]


def _approved_lessons(lessons: Sequence[Lesson]) -> list[Lesson]:
    """Return the lessons that a person approved and that later sessions do not contradict."""
    return [
        lesson
        for lesson in lessons
        if lesson.status == "approved" and lesson.do and not lesson.is_doubted
    ]


def _find_paid(cases: Iterable[Case], work: Iterable[Case], main: Iterable[Case]) -> list[Case]:
    """Return the sessions whose cost counts.

    The cost of a subagent belongs to its parent, so it does not count if that one does not.
    """
    idle = {case.root for case in cases if not case.is_subagent} - {case.root for case in main}
    return [case for case in work if not (case.is_subagent and case.root in idle)]


def _sort_key(pattern: Pattern) -> tuple[bool, float, str]:
    """Sort problems of several agents first, then the frequent and expensive ones."""
    return not pattern.is_wide, -pattern.sessions * (1.0 + pattern.usd), pattern.id


def _list_sessions(main: Iterable[Case]) -> list[RetroSession]:
    busiest = sorted(main, key=lambda case: (-sum(case.digest.actions.values()), case.uid))[
        :MAX_SESSIONS
    ]
    return [
        RetroSession(
            uid=case.uid,
            repo=case.repo,
            what=one_line(case.title or case.digest.title or case.digest.goal or "")[
                :MAX_TITLE_CHARS
            ],
            outcome=case.digest.outcome,
            outcome_level=case.digest.outcome_level,
            outcome_by=case.digest.outcome_by,
            usd=round(case.usd_with_subagents, 4),
            unpriced=case.unpriced_with_subagents,
        )
        for case in busiest
    ]


def _find_suggestions(
    problems: Iterable[Pattern], known: Sequence[Lesson], by_uid: Mapping[str, Case]
) -> list[Suggestion]:
    """Return the suggestions of each repository, with the evidence from there."""
    by_repo: dict[str, list[tuple[int, Pattern, list[str]]]] = {}
    for pattern in problems:
        for repo in pattern.repos:
            here = [uid for uid in pattern.uids if by_uid[uid].repo == repo]
            by_repo.setdefault(repo, []).append(
                (len({by_uid[uid].root for uid in here}), pattern, here)
            )
    suggestions = []
    for repo in sorted(by_repo):
        ordered = sorted(by_repo[repo], key=lambda one: (-one[0], _sort_key(one[1])))
        for sessions, pattern, here in ordered[:MAX_SUGGESTIONS]:
            evidence = tuple(ref for ref in pattern.examples if uid_of(ref) in here) or tuple(
                here[:3]
            )
            suggestion = _build_suggestion(pattern, repo, known)
            suggestions.append(
                msgspec.structs.replace(suggestion, sessions=sessions, evidence=evidence)
            )
    return suggestions


def _build_suggestion(pattern: Pattern, repo: str, known: Sequence[Lesson]) -> Suggestion:
    fitting = (one for one in reversed(known) if not repo or one.fits(repo=repo))
    lesson = next((one for one in fitting if _is_about(one, pattern)), None)
    return Suggestion(
        repo=repo,
        type=pattern.type,
        what=one_line(pattern.what).rstrip("."),
        advice=one_line(describe_advice(lesson).replace("\n", " ")) if lesson else "",
        lesson=lesson.id if lesson else "",
        sessions=pattern.sessions,
        usd=pattern.usd,
        trend=pattern.trend,
        evidence=pattern.examples,
    )


def _is_about(lesson: Lesson, pattern: Pattern) -> bool:
    """Return True if a lesson is about a pattern.

    The corrections of a few days have other words than those of all sessions: they are the same if
    they rest on the same session.
    """
    if isinstance(pattern.locus, WordsLocus):
        return lesson.kind == load_miners()[pattern.type].kind and any(
            uid_of(ref) in pattern.uids for ref in lesson.evidence
        )
    if pattern.locus.error:
        return pattern.locus.error in lesson.fingerprints
    return lesson.subject == load_miners()[pattern.type].subject_of(pattern)


def _find_improvements(
    cases: Sequence[Case], earlier: Sequence[Case], now_of: int, before_of: int
) -> list[Improvement]:
    """Compare shares of sessions: it is no improvement if less was worked."""
    roots, old = {case.uid: case.root for case in cases}, {case.uid: case.root for case in earlier}
    improvements = []
    for one in find_patterns([*earlier, *cases]) if now_of and before_of else ():
        before, now = (len({some[uid] for uid in one.uids if uid in some}) for some in (old, roots))
        if (
            one.polarity == "problem"
            and before >= MIN_SESSIONS
            and 2 * now * before_of <= before * now_of
        ):
            improvements.append(
                Improvement(
                    what=one_line(one.what),
                    before=before,
                    now=now,
                    before_of=before_of,
                    now_of=now_of,
                )
            )
    return sorted(improvements, key=lambda one: (one.now - one.before, one.what))[:MAX_IMPROVEMENTS]


def judge_skill(
    skill: str,
    model: str | None,
    *,
    passed: int,
    failed: int,
    unknown: int,
    verified: int,
    escalated: int,
) -> SkillResult:
    """Return how a model does at a skill, with a hint."""
    low, high = wilson_interval(passed, passed + failed)
    return SkillResult(
        skill=skill,
        model=model or "",
        passed=passed,
        failed=failed,
        unknown=unknown,
        escalated=escalated,
        unverified=passed - verified,
        low=round(low, 3),
        high=round(high, 3),
        hint=_find_hint(passed + failed, low, high),
    )


def _find_hint(results: int, low: float, high: float) -> str:
    if results >= MIN_SKILL_RESULTS and low >= MIN_GOOD_RATE:
        return "keep"
    if results >= MIN_SKILL_RESULTS and high < MAX_BAD_RATE:
        return "try another"
    return "more evidence"
