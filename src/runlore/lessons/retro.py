"""A look back at some days: what was done, what it cost, what went wrong most, what to change, what got better. Pure, over cases.

Every suggestion names its evidence, and what is suggested is a lesson where there is one. Nothing here calls a model, prints or
knows a clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from .._text import one_line
from ..mine import Case
from ..mine._cluster import Pattern
from ..mine.patterns import FEWEST_SESSIONS, find
from ..model import Trend, describe_how
from . import Lesson
from .drafts import ERRORS
from .measure import Snapshot, snapshot
from .rank import wilson

SUGGESTIONS = 3
"""For each repository: more are not read."""
MOST = 10
"""Things that got better."""
LONGEST = 200
"""Characters of what ended an error."""
DONE = 20
"""Sessions that are listed, those with the most calls."""
STRONG, WEAK = 0.9, 0.7
"""Pass rates from which on a model can be trusted with a skill, and below which it cannot: at the cautious end of what was seen."""
RESULTS = 5
"""Below which nothing is said of a model at a skill."""
ADVICE = {
    "retry_storm": "read the error before the second try; find out what the command needs, and write it down where agents look",
    "tool_thrash": "tell the agent how this tool wants to be called",
    "edit_churn": "ask for a plan before changing this file, or split it",
    "context_pressure": "split the task, or begin a new session for each part",
    "budget_overrun": "look at what these sessions have in common, and set a budget",
    "infrastructure": "leave out servers and plans that the task does not need",
    "abandoned": "ask for smaller steps, or say earlier what is wanted",
    "correction": "write this down where agents look: `runlore lessons` proposes it",
    "flaky_test": "make this test reliable, or leave it out until it is",
    "slow_step": "run a part of it, cache it, or let it run in the background",
    "failing_skill": "repair this skill, or give it to another model",
    "recurring_error": "find out what ends it, and write it down: `runlore lessons add`",
}
"""By type of pattern, what helps in general. A lesson says it better."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """A session that was worked in."""

    uid: str
    repo: str | None
    what: str
    outcome: str
    usd: float


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong, what to do about it, and where that can be seen."""

    repo: str
    type: str
    what: str
    advice: str
    lesson: str
    """The id of the lesson that it is from, if one is."""
    sessions: int
    usd: float
    trend: Trend
    evidence: tuple[str, ...]


class Better(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was seen in the days before, and is seen in at most half as many of the sessions now."""

    what: str
    before: int
    now: int
    before_of: int
    """Sessions in all."""
    now_of: int


class SkillSeen(msgspec.Struct, frozen=True, kw_only=True):
    """How a model does at a skill."""

    skill: str
    model: str
    passed: int
    failed: int
    escalated: int
    """Invocations that went on to another model."""
    unverified: int
    """Passed, with no check to show for it."""
    low: float
    """The lower bound of the share that passed."""
    high: float
    hint: str
    """keep, try another, more evidence. Of this model's own attempts alone: what another one passed with says nothing about it."""


class Retro(msgspec.Struct, frozen=True, kw_only=True):
    since: str
    until: str
    sessions: int
    repos: dict[str, int]
    outcomes: dict[str, int]
    usd: float
    tokens: int
    now: Snapshot | None
    before: Snapshot | None
    """As many days, just before."""
    done: list[Done]
    wrong: list[Suggestion]
    """What went wrong most, wherever."""
    suggestions: list[Suggestion]
    """The three of each repository that matter most."""
    better: list[Better]
    skills: list[SkillSeen]


def look_back(
    cases: Sequence[Case], earlier: Sequence[Case], lessons: Sequence[Lesson], skills: list[SkillSeen], *, since: str, until: str
) -> Retro:
    """Of the cases of some days, beside those of as many days before."""
    work = [case for case in cases if case.is_work]
    main = [case for case in work if not case.is_subagent]
    by_uid = {case.uid: case for case in work}
    problems = [pattern for pattern in find(cases) if pattern.polarity == "problem"]
    # What was approved last, so that it takes the place of what is only proposed.
    known = [lesson for status in ("proposed", "approved") for lesson in lessons if lesson.status == status and lesson.resolution]
    old = [case for case in earlier if case.is_work and not case.is_subagent]
    # What a subagent took counts with the session it belongs to, so not where that one is no work.
    idle = {case.root for case in cases if not case.is_subagent} - {case.root for case in main}
    paid = [case for case in work if not (case.is_subagent and case.root in idle)]
    return Retro(
        since=since,
        until=until,
        sessions=len(main),
        repos=dict(Counter(case.repo or "(none)" for case in main).most_common()),
        outcomes=dict(Counter(case.digest.outcome for case in main).most_common()),
        usd=round(sum(case.usd for case in paid), 4),
        tokens=sum(case.tokens for case in paid),
        now=snapshot("now", main) if main else None,
        before=snapshot("before", old) if old else None,
        done=_done(main),
        wrong=[_suggestion(pattern, "", known, by_uid) for pattern in sorted(problems, key=_weight)[:5]],
        suggestions=_suggestions(problems, known, by_uid),
        better=_better(cases, earlier, len(main), len(old)),
        skills=skills,
    )


def _weight(pattern: Pattern) -> tuple[bool, float, str]:
    """What several agents meet first, then what is frequent and dear."""
    return not pattern.is_wide, -pattern.sessions * (1.0 + pattern.usd), pattern.id


def _done(main: Iterable[Case]) -> list[Done]:
    most = sorted(main, key=lambda case: (-sum(case.digest.actions.values()), case.uid))[:DONE]
    return [
        Done(
            uid=case.uid,
            repo=case.repo,
            what=one_line(case.title or case.digest.title or case.digest.goal or "")[:160],
            outcome=case.digest.outcome,
            usd=round(case.usd, 4),
        )
        for case in most
    ]


def _suggestions(problems: Iterable[Pattern], known: Sequence[Lesson], by_uid: Mapping[str, Case]) -> list[Suggestion]:
    """By repository, with what of a pattern was seen there."""
    by_repo: dict[str, list[tuple[int, Pattern, list[str]]]] = {}
    for pattern in problems:
        for repo in pattern.repos:
            here = [uid for uid in pattern.uids if by_uid[uid].repo == repo]
            by_repo.setdefault(repo, []).append((len({by_uid[uid].root for uid in here}), pattern, here))
    found = []
    for repo in sorted(by_repo):
        most = sorted(by_repo[repo], key=lambda one: (-one[0], _weight(one[1])))
        for sessions, pattern, here in most[:SUGGESTIONS]:
            seen = tuple(ref for ref in pattern.examples if ref.partition("#")[0] in here) or tuple(here[:3])
            found.append(msgspec.structs.replace(_suggestion(pattern, repo, known, by_uid), sessions=sessions, evidence=seen))
    return found


def _suggestion(pattern: Pattern, repo: str, known: Sequence[Lesson], by_uid: Mapping[str, Case]) -> Suggestion:
    lesson = next((one for one in reversed(known) if _is_about(one, pattern)), None)
    return Suggestion(
        repo=repo,
        type=pattern.type,
        what=one_line(pattern.what).rstrip("."),
        advice=one_line(lesson.resolution.replace("\n", " ")) if lesson else _ended(pattern, repo, by_uid) or ADVICE[pattern.type],
        lesson=lesson.id if lesson else "",
        sessions=pattern.sessions,
        usd=pattern.usd,
        trend=pattern.trend,
        evidence=pattern.examples,
    )


def _ended(pattern: Pattern, repo: str, by_uid: Mapping[str, Case]) -> str:
    """What an error was over after, in one of these sessions: the surest that is known, and rather in this repository than in another."""
    if pattern.type not in ERRORS:
        return ""
    fingerprint = pattern.locus.rpartition("\0")[2]
    fixes = [
        ((case.repo == repo, fix.confidence, case.at, f"{case.uid}#{fix.steps[0].seq}"), fix)
        for uid in pattern.uids
        if (case := by_uid.get(uid))
        for fix in case.digest.fixes
        if fix.fingerprint == fingerprint and fix.is_shown and fix.how != "retry"
    ]
    if not fixes:
        return ""
    (_, _, _, ref), fix = max(fixes, key=lambda one: one[0])
    return f"in {ref} it was over after this {describe_how(fix.steps[0].how)}: {one_line(fix.steps[0].summary)[:LONGEST]}"


def _is_about(lesson: Lesson, pattern: Pattern) -> bool:
    """A correction of these days is in other words than that of all days: it is the same when they rest on the same session."""
    if pattern.type == "correction":
        return lesson.kind == "correction" and any(ref.partition("#")[0] in pattern.uids for ref in lesson.evidence)
    return lesson.id == pattern.id or lesson.subject in (pattern.locus.rpartition("\0")[2], f"{pattern.type} {pattern.locus}")


def _better(cases: Sequence[Case], earlier: Sequence[Case], now_of: int, before_of: int) -> list[Better]:
    """By the share of sessions: nothing is better for less, or nothing, having been worked."""
    roots, old = {case.uid: case.root for case in cases}, {case.uid: case.root for case in earlier}
    found = []
    for one in find([*earlier, *cases]) if now_of and before_of else ():
        before, now = (len({some[uid] for uid in one.uids if uid in some}) for some in (old, roots))
        if one.polarity == "problem" and before >= FEWEST_SESSIONS and 2 * now * before_of <= before * now_of:
            found.append(Better(what=one_line(one.what), before=before, now=now, before_of=before_of, now_of=now_of))
    return sorted(found, key=lambda one: (one.now - one.before, one.what))[:MOST]


def judge_skill(skill: str, model: str | None, *, passed: int, failed: int, verified: int, escalated: int) -> SkillSeen:
    low, high = wilson(passed, passed + failed)
    return SkillSeen(
        skill=skill,
        model=model or "",
        passed=passed,
        failed=failed,
        escalated=escalated,
        unverified=passed - verified,
        low=round(low, 3),
        high=round(high, 3),
        hint="more evidence"
        if passed + failed < RESULTS
        else "keep"
        if low >= STRONG
        else "try another"
        if high < WEAK
        else "more evidence",
    )
