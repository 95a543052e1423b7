"""Whether a lesson helps: the sessions that were told it, beside those before; and how the fleet goes over time. Pure.

What a lesson is about recurs by chance, too, and lessons are made of what recurred: so the session that completed the evidence is left
out, a verdict needs enough sessions on both sides, and its interval is wide (99 %), because people look at it again and again. Who asks
for a lesson has a reason to, most often the very error: so where sessions were told because they asked, all that could ask are compared,
whether they did or not (design/2026-11-16-effect.md).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from ..mine import Case
from ..mine._cluster import SIMILAR, alike
from ..mine._words import head
from ..mine.correction import words_of
from ..mine.infrastructure import OVERHEAD
from ..mine.retry_storm import FROM as STORM
from ..model import CommandRun, format_time, parse_time
from . import Lesson
from .compare import Mean, Share, Values, mean, share
from .tellings import Telling, Way

Verdict = Literal["effective", "harmful", "no effect seen", "too early", "not measurable"]
Compared = Literal["told at start", "told on failure", "could ask"]
"""Which sessions stand beside those before: told at their start, by a hook or a file; told when a tool failed, beside those that met the
same; or, of agents whose sessions asked, all since the first did."""

FEWEST_TOLD, FEWEST_BEFORE = 20, 20
"""Sessions below which it is too early: with fewer even an error that vanished may be luck."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a lesson that was told."""

    id: str
    problem: str
    verdict: Verdict
    told: int
    """Sessions."""
    ways: dict[Way, int]
    """The same by how they were told; some in several ways."""
    compared: Compared
    first_at: str
    tokens: int
    """What telling it cost, together with what was told beside it."""
    recurs: Share
    """Of sessions told at their start, or that could ask: those that met what it is about."""
    stays: Share
    """Of sessions that met what it is about: those that did not get over it. Judged where it was told to sessions that had met it."""
    success: Share
    """Of the sessions whose end is known."""
    retries: Mean
    usd: Mean


def effects(lessons: Iterable[Lesson], tellings: Iterable[Telling], cases: Sequence[Case]) -> list[Effect]:
    """Of every lesson that some session was told, those told most often first."""
    told: dict[str, list[Telling]] = {}
    for telling in tellings:
        told.setdefault(telling.lesson, []).append(telling)
    work = sorted((case for case in cases if case.is_work and not case.is_subagent and case.at), key=lambda case: case.at)
    found = [_effect(lesson, told[lesson.id], work) for lesson in lessons if lesson.id in told]
    return sorted(found, key=lambda effect: (-effect.told, effect.id))


def _effect(lesson: Lesson, tellings: Sequence[Telling], work: Sequence[Case]) -> Effect:
    places = {(case.agent, case.repo) for case in work}
    there = {(agent, repo) for agent, repo in places if lesson.fits(agent=agent, repo=repo or "")}
    fitting = [case for case in work if (case.agent, case.repo) in there]
    # Nobody was told it before it was made: then a clock is wrong, and would make all that happened since later.
    times = {telling: max(format_time(telling.at), lesson.made_at) for telling in tellings}
    told = _Told(times, fitting)
    before = [case for case in _before(times, fitting) if case.uid not in told]
    came = {case.uid for case in fitting if recurred(lesson, case)}
    had_to = came if lesson.fingerprint else {case.uid for case in fitting if has_failed(lesson, case)}
    met_before, met_after = ([case for case in cases if case.uid in had_to] for cases in (before, told.any_way))
    # Who was told on a failure has met it: beside these stand sessions that have as well.
    like = met_before if told.compared == "told on failure" else before
    recurs = share(*([(case, case.uid in came) for case in cases] for cases in (_without_trigger(lesson, before, came), told.from_start)))
    stays = share(*([(case, stayed(lesson, case)) for case in cases] for cases in (met_before, met_after)))
    return Effect(
        id=lesson.id,
        problem=lesson.problem,
        verdict=_verdict(lesson, told, recurs if _is_to_prevent(lesson, told) else stays),
        told=len({telling.uid for telling in tellings}),
        ways={way: len(uids) for way, uids in told.uids.items() if uids},
        compared=told.compared,
        first_at=format_time(min(telling.at for telling in tellings)),
        tokens=sum(telling.tokens for telling in tellings),
        recurs=recurs,
        stays=stays,
        success=share(_ends(like), _ends(told.chosen)),
        retries=mean([(case, float(case.digest.retries)) for case in like], [(case, float(case.digest.retries)) for case in told.chosen]),
        usd=mean([(case, case.usd) for case in like], [(case, case.usd) for case in told.chosen]),
    )


def _before(times: Mapping[Telling, str], fitting: Iterable[Case]) -> list[Case]:
    """Sessions that were over when one of their repository was first told it; where none was, when any was."""
    firsts: dict[str, str] = {}
    for telling, at in times.items():  # As text, as cases have it: there are many, and each is compared for each lesson.
        firsts[telling.repo] = min(at, firsts.get(telling.repo, at))
    first = min(firsts.values())
    return [case for case in fitting if case.at < firsts.get(case.repo or "", first)]


class _Told:
    """The sessions that were told a lesson, and which of them are compared."""

    def __init__(self, times: Mapping[Telling, str], fitting: Sequence[Case]) -> None:
        self.uids: dict[Way, set[str]] = {"start": set(), "file": set(), "fail": set(), "asked": set()}
        self.asked_seq: dict[str, int] = {}
        self._asked_at: dict[str, str] = {}
        for telling, at in times.items():
            self.uids[telling.way].add(telling.uid)
            if telling.way == "asked":
                self.asked_seq[telling.uid], self._asked_at[telling.uid] = telling.seq, at
        at_start, on_failure = self.uids["start"] | self.uids["file"], self.uids["fail"]
        told: dict[Compared, set[str]] = {"told at start": at_start, "told on failure": on_failure, "could ask": self.uids["asked"]}
        groups = {name: [case for case in fitting if case.uid in uids] for name, uids in told.items()}
        # The first comparison that enough sessions were told for; else the one that most were.
        self.compared = max(told, key=lambda name: (min(FEWEST_TOLD, len(groups[name])), bool(told[name])))
        self.asked = groups["could ask"]
        is_open = self.compared == "could ask"
        self.chosen = self._could_ask(fitting) if is_open else groups[self.compared]
        self.from_start = self.chosen if is_open else groups["told at start"]
        """Of which it can be said in how many of them something came."""
        either = at_start | on_failure
        self.any_way = self.chosen if is_open else [case for case in fitting if case.uid in either]
        """Of which those that met it are like any others that met it."""
        self._after = set.union(*self.uids.values(), (case.uid for case in self.chosen))

    def __contains__(self, uid: str) -> bool:
        """Whether a session is one of after. By its time it may be of before: hooks have another clock, and repositories another first."""
        return uid in self._after

    def _could_ask(self, fitting: Iterable[Case]) -> list[Case]:
        """Those that began since the first asked. Without that: it is looked at because it did."""
        since: dict[str, str] = {}
        for case in self.asked:
            at = self._asked_at[case.uid]
            since[case.agent] = min(at, since.get(case.agent, at))
        return [case for case in fitting if case.agent in since and case.began > since[case.agent]]


def _ends(cases: Iterable[Case]) -> Values:
    return [(case, case.digest.outcome == "success") for case in cases if case.digest.outcome in ("success", "fail")]


def _is_to_prevent(lesson: Lesson, told: _Told) -> bool:
    """Whether it is judged by what comes at all, and not by what stays. A test that is flaky stays so: what its lesson is to change is how
    sessions get over it. And where most ask only when they have met it, that is too late to prevent it."""
    if lesson.kind == "flaky" or told.compared == "told on failure":
        return False
    late = sum(
        error.signature.fingerprint == lesson.fingerprint and error.first_seq < told.asked_seq[case.uid]
        for case in told.asked
        for error in case.digest.errors
    )
    return told.compared == "told at start" or 2 * late <= len(told.asked)


def _verdict(lesson: Lesson, told: _Told, seen: Share) -> Verdict:
    if not lesson.fingerprint and lesson.kind not in ("correction", "retries", "skill"):
        return "not measurable"
    few = min(seen.after_of, len(told.asked)) if told.compared == "could ask" else seen.after_of
    if few < FEWEST_TOLD or seen.before_of < FEWEST_BEFORE:
        return "too early"
    return "effective" if seen.high < 0 else "harmful" if seen.low > 0 else "no effect seen"


# ── what a lesson is about, in a session ─────────────────────────────────────────────────────────────────────────────
def recurred(lesson: Lesson, case: Case) -> bool:
    """Whether what the lesson is about was met in a session."""
    if lesson.fingerprint:
        return any(error.signature.fingerprint == lesson.fingerprint for error in case.digest.errors)
    if lesson.kind == "retries":
        return any(ran.failed >= STORM for ran in _failing(lesson, case))
    if lesson.kind == "skill":
        return any(skill.name == lesson.about and skill.passed is False for skill in case.skills)
    if lesson.kind != "correction":
        return False
    mine = words_of(lesson.resolution)
    said = (words_of(moment.text) for moment in case.digest.corrections)
    return any(bool(mine) and alike(mine, words) >= SIMILAR for words in said)


def has_failed(lesson: Lesson, case: Case) -> bool:
    """Whether a session had a first failure to get over of the command that the lesson is about."""
    return lesson.kind == "retries" and bool(_failing(lesson, case))


def stayed(lesson: Lesson, case: Case) -> bool:
    """Whether a session that met it did not get over it; of a command, not before it had failed again and again."""
    if not lesson.fingerprint:
        return recurred(lesson, case)
    return not any(fix.fingerprint == lesson.fingerprint and fix.fixed_seq is not None for fix in case.digest.fixes)


def _failing(lesson: Lesson, case: Case) -> list[CommandRun]:
    return [ran for ran in case.digest.commands if ran.failed and head(ran.command) == lesson.about]


def _without_trigger(lesson: Lesson, before: list[Case], came: Container[str]) -> list[Case]:
    """Without the last session that showed it before it was proposed: looking stopped there because it did."""
    seen = [case for case in before if case.uid in came and (not lesson.made_at or case.at <= lesson.made_at)]
    last = max(seen, key=lambda case: case.at, default=None)
    return [case for case in before if case is not last]


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
        success=round(sum(value for _, value in ends) / len(ends), 4) if ends else None,
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
