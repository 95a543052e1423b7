"""Measure whether lessons help, and how the fleet develops over time. Pure.

A lesson is withheld from a random share of the sessions that it fits (`trial`). Whatever else
changes, changes for both groups alike, so what differs between them is the lesson's effect. A
session counts for the group that it was put into, whatever happened afterwards. How things were
before the lesson is shown as well, but gives no verdict (design/2026-11-18-trials.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, TypeVar

import msgspec

from ..mine.signals import find_miner_of_kind
from ..mine.signals.infrastructure import OVERHEAD_ACTIONS
from ..mine.values import Case
from ..model import format_time, parse_time
from . import Lesson
from .compare import (
    MAIN_LOOK,
    Look,
    Mean,
    Share,
    compare_means,
    compare_shares,
    find_looks,
    next_look,
)
from .exposures import Decision, Exposure, Way

Verdict = Literal["helps", "harms", "no effect shown", "too early", "not measurable"]

T = TypeVar("T", Decision, Exposure)

MAX_NEAREST = 150
"""Sessions before and since the lesson that are counted: the nearest, because things change."""


class Outcomes(Share, frozen=True, kw_only=True):
    """The sessions that succeeded, of all; how many of the others have no known outcome."""

    shown_unknown: int
    """Number of sessions that were shown the lesson and whose outcome is unknown."""
    withheld_unknown: int
    """Number of sessions from which it was withheld and whose outcome is unknown."""


class BeforeAndSince(msgspec.Struct, frozen=True, kw_only=True):
    """In how many sessions the problem occurred before the lesson and since, whoever was shown it.

    Weaker evidence than the trial, and without a verdict: anything else may have changed.
    """

    before: int
    """Number of sessions with the problem before the lesson."""
    before_of: int
    """Number of sessions before the lesson where it applies, the nearest 150."""
    since: int
    """Number of sessions with the problem since then."""
    since_of: int
    """Number of sessions since then where it applies, the nearest 150."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a lesson that fitted a session since it was approved."""

    id: str
    when: str
    verdict: Verdict
    why: str
    """The reason for the verdict, in a sentence."""
    is_retiring_proposed: bool
    """True if the lesson should be retired: it harms, or its problem does not occur any more, or it
    is ruled out that it halves its problem. A person decides (`runlore lessons retire`)."""
    in_trial: int
    """Number of sessions in the trial so far. A session counts once with its subagents and
    forks."""
    compared: int
    """Number of these sessions that the figures are about: the first, up to the look that gave the
    verdict."""
    next_look: int
    """Number of sessions in the trial at which the verdict is looked at again."""
    level: float | None
    """The confidence level of the intervals; null before the first look."""
    share: float
    """The share of sessions from which the lesson is withheld."""
    recurs: Share
    """Sessions in which the problem occurred, or was not got over if the lesson came after it."""
    success: Outcomes
    """Sessions that succeeded."""
    retries: Mean
    """Retries in a session."""
    usd: Mean
    """The cost of a session in USD."""
    ways: dict[Way, int]
    """Number of sessions that were shown the lesson, by the way; some count in several ways."""
    outside: int
    """Number of sessions that were shown the lesson outside the trial: in a file, or without a
    recorded decision."""
    tokens: int
    """Tokens of all texts in which it was shown, other lessons included."""
    before_and_since: BeforeAndSince


class _Judgement(msgspec.Struct, frozen=True):
    verdict: Verdict
    why: str
    is_retiring_proposed: bool = False


class _Unit(msgspec.Struct, frozen=True):
    """A session in the trial, with its family since the decision."""

    decision: Decision
    case: Case
    """The session for which it was decided."""
    cases: list[Case]


def measure_effects(
    lessons: Iterable[Lesson],
    decisions: Iterable[Decision],
    exposures: Iterable[Exposure],
    cases: Sequence[Case],
) -> list[Effect]:
    """Return the effect of every lesson that fitted a session, those with most sessions first."""
    decided, shown = _by_lesson(decisions), _by_lesson(exposures)
    families = _Families(cases)
    effects = [
        _measure_effect(lesson, decided.get(lesson.id, []), shown.get(lesson.id, []), families)
        for lesson in lessons
        if lesson.id in decided or lesson.id in shown
    ]
    return sorted(effects, key=lambda effect: (-effect.in_trial, -effect.outside, effect.id))


def _by_lesson(values: Iterable[T]) -> dict[str, list[T]]:
    by_lesson: dict[str, list[T]] = {}
    for value in values:
        by_lesson.setdefault(value.lesson, []).append(value)
    return by_lesson


class _Families:
    """The stored sessions, each with its family."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._work = sorted(
            (case for case in cases if case.is_work and not case.is_subagent and case.at),
            key=lambda case: case.at,
        )
        self._places = {(case.agent, case.repo) for case in self._work}
        self.by_uid = {case.uid: case for case in cases}
        self._by_root: dict[str, list[Case]] = {}
        for case in cases:
            self._by_root.setdefault(case.root or case.uid, []).append(case)

    def root(self, uid: str) -> str:
        case = self.by_uid.get(uid)
        return (case.root or case.uid) if case else uid

    def find_work(self, lesson: Lesson) -> list[Case]:
        """Return the sessions that count where the lesson applies, in the order of time."""
        places = {one for one in self._places if lesson.fits(agent=one[0], repo=one[1] or "")}
        return [case for case in self._work if (case.agent, case.repo) in places]

    def since(self, uid: str, time: datetime) -> list[Case]:
        """Return a session, and those of its family that had not ended at that time."""
        family = self._by_root[self.root(uid)]
        if len(family) == 1:
            return family
        at = format_time(time)
        return [case for case in family if case.uid == uid or case.at >= at]


def _measure_effect(
    lesson: Lesson,
    decisions: Sequence[Decision],
    exposures: Sequence[Exposure],
    families: _Families,
) -> Effect:
    units = _find_units(decisions, exposures, families)
    look, recurs = _find_look(lesson, units)
    compared = units[: look.sessions] if look else units
    shown = [unit for unit in compared if not unit.decision.is_withheld]
    withheld = [unit for unit in compared if unit.decision.is_withheld]
    judgement = _judge(lesson, len(units) if decisions else None, look, recurs)
    in_trial = {families.root(unit.case.uid) for unit in units}
    times = [one.at for one in decisions] + [one.at for one in exposures]
    return Effect(
        id=lesson.id,
        when=lesson.when,
        verdict=judgement.verdict,
        why=judgement.why,
        is_retiring_proposed=judgement.is_retiring_proposed,
        in_trial=len(units),
        compared=len(compared),
        next_look=next_look(len(units)),
        level=round(1 - look.error, 6) if look else None,
        share=units[-1].decision.share if units else 0.0,
        recurs=recurs,
        success=_compare_outcomes(shown, withheld, look),
        retries=compare_means(_retries(shown), _retries(withheld), look),
        usd=compare_means(_costs(shown), _costs(withheld), look),
        ways=_count_ways(exposures),
        outside=len({families.root(one.uid) for one in exposures} - in_trial),
        tokens=sum(exposure.tokens for exposure in exposures),
        before_and_since=_compare_times(
            lesson, max(format_time(min(times)), lesson.made_at), families
        ),
    )


def _find_units(
    decisions: Sequence[Decision], exposures: Sequence[Exposure], families: _Families
) -> list[_Unit]:
    """Return the sessions in the trial, in the order of their first decisions.

    Left out are sessions that are not stored, those that read the lesson in a file whatever was
    decided, and those that were decided with another share than the last: their number in each
    group depends on the time, on which the problem may depend as well.
    """
    in_files = {families.root(one.uid) for one in exposures if one.way == "file"}
    ordered = sorted(decisions, key=lambda one: one.at)
    share = ordered[-1].share if ordered else 0.0
    first: dict[str, Decision] = {}
    for decision in ordered:
        if decision.uid in families.by_uid:
            first.setdefault(families.root(decision.uid), decision)
    return [
        _Unit(
            decision,
            families.by_uid[decision.uid],
            families.since(decision.uid, decision.at),
        )
        for root, decision in first.items()
        if decision.share == share and root not in in_files
    ]


def _find_look(lesson: Lesson, units: Sequence[_Unit]) -> tuple[Look | None, Share]:
    """Return the last look that shows a difference, or else the last of all, and what it shows.

    A verdict stands until a later look says the opposite: the error of all looks together is
    bounded, whichever of them is believed.
    """
    problems = [(unit.decision.is_withheld, _has_problem(lesson, unit)) for unit in units]

    def compare(look: Look | None) -> Share:
        some = problems[: look.sessions] if look else problems
        return compare_shares(
            [problem for is_withheld, problem in some if not is_withheld],
            [problem for is_withheld, problem in some if is_withheld],
            look,
        )

    looks = [(look, compare(look)) for look in find_looks(len(units))]
    if not looks:
        return None, compare(None)
    showing = [one for one in looks if _shows_difference(one[1])]
    return (showing or looks)[-1]


def _shows_difference(share: Share) -> bool:
    return share.high is not None and share.low is not None and (share.high < 0 or share.low > 0)


def _judge(lesson: Lesson, in_trial: int | None, look: Look | None, recurs: Share) -> _Judgement:
    if not is_measurable(lesson):
        return _Judgement("not measurable", "sessions do not show whether they met its problem")
    if in_trial is None:
        return _Judgement("not measurable", "it was shown outside the trial only")
    if recurs.high is not None and recurs.high < 0:
        return _Judgement("helps", "its problem is rarer where it was shown")
    if recurs.low is not None and recurs.low > 0:
        return _Judgement("harms", "its problem is more frequent where it was shown", True)
    if look is None or look.sessions < MAIN_LOOK or recurs.low is None:
        return _Judgement(
            "too early", f"the next look is at {next_look(in_trial)} sessions in the trial"
        )
    if not recurs.withheld and not recurs.shown:
        return _Judgement("no effect shown", "its problem did not occur any more", True)
    if recurs.withheld and recurs.low > -0.5 * recurs.withheld / recurs.withheld_of:
        return _Judgement("no effect shown", "it is ruled out that it halves its problem", True)
    return _Judgement("no effect shown", "the difference may be chance")


def _has_problem(lesson: Lesson, unit: _Unit) -> bool:
    """Return True if the problem was there in a session after the decision.

    A session that met it before it was decided, as when a tool failed, can only get over it. So
    does one that met a flaky test, which stays flaky.
    """
    is_early = unit.decision.event == "start" and lesson.kind != "flaky"
    return any(recurred(lesson, case) and (is_early or stayed(lesson, case)) for case in unit.cases)


def _compare_outcomes(
    shown: Sequence[_Unit], withheld: Sequence[_Unit], look: Look | None
) -> Outcomes:
    share = compare_shares(_successes(shown), _successes(withheld), look)
    return Outcomes(
        **msgspec.structs.asdict(share),
        shown_unknown=sum(unit.case.digest.outcome == "unknown" for unit in shown),
        withheld_unknown=sum(unit.case.digest.outcome == "unknown" for unit in withheld),
    )


def _successes(units: Iterable[_Unit]) -> list[bool]:
    return [unit.case.digest.outcome == "success" for unit in units]


def _retries(units: Iterable[_Unit]) -> list[float]:
    return [float(sum(case.digest.retries for case in unit.cases)) for unit in units]


def _costs(units: Iterable[_Unit]) -> list[float]:
    return [sum(case.usd for case in unit.cases) for unit in units]


def _count_ways(exposures: Iterable[Exposure]) -> dict[Way, int]:
    uids: dict[Way, set[str]] = {"start": set(), "fail": set(), "request": set(), "file": set()}
    for exposure in exposures:
        uids[exposure.way].add(exposure.uid)
    return {way: len(some) for way, some in uids.items() if some}


def _compare_times(lesson: Lesson, first: str, families: _Families) -> BeforeAndSince:
    """Count the problem before the lesson was first shown or withheld, and since."""
    fitting = families.find_work(lesson)
    before = [case for case in fitting if case.at < first][-MAX_NEAREST:]
    since = [case for case in fitting if case.began >= first][:MAX_NEAREST]
    return BeforeAndSince(
        before=sum(recurred(lesson, case) for case in before),
        before_of=len(before),
        since=sum(recurred(lesson, case) for case in since),
        since_of=len(since),
    )


# ── the problem of a lesson in a session ─────────────────────────────────────────────────────────
def is_measurable(lesson: Lesson) -> bool:
    """Return True if sessions show whether they met what the lesson is about."""
    miner = find_miner_of_kind(lesson.kind)
    return bool(lesson.fingerprint) or (miner is not None and miner.recurred is not None)


def recurred(lesson: Lesson, case: Case) -> bool:
    """Return True if a session met what the lesson is about."""
    if lesson.fingerprint:
        return any(
            error.signature.fingerprint in lesson.fingerprints for error in case.digest.errors
        )
    miner = find_miner_of_kind(lesson.kind)
    return miner is not None and miner.recurred is not None and miner.recurred(_topic(lesson), case)


def stayed(lesson: Lesson, case: Case) -> bool:
    """Return True if a session that met the problem did not get over it."""
    if not lesson.fingerprint:
        return recurred(lesson, case)
    return not any(
        fix.fingerprint in lesson.fingerprints and fix.fixed_seq is not None
        for fix in case.digest.fixes
    )


def _topic(lesson: Lesson) -> str:
    """Return what the miner of a lesson looks for: a command or skill, else the advice itself."""
    return lesson.about or lesson.do


# ── the fleet ────────────────────────────────────────────────────────────────────────────────────
class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The sessions of a period that count."""

    period: str
    sessions: int
    success: int
    """Sessions that are known to be successful."""
    fail: int
    abandoned: int
    unknown: int
    """Sessions whose outcome is not known. They count in every share."""
    verified: int
    """Sessions whose outcome a person, the run itself, CI or git says."""
    failing: float
    """Share of sessions with an error."""
    errors: float
    """Different errors in a session, on average."""
    tokens_p50: int
    tokens_p90: int
    overhead: float
    """Median share of calls that are plans, servers and other overhead."""
    thrash: float
    """Share of sessions in which the same call failed three times or more."""


def build_snapshots(cases: Iterable[Case], period: Literal["week", "month"]) -> list[Snapshot]:
    """Return how the sessions of each period went, oldest first.

    Subagents belong to their parents.
    """
    by_period: dict[str, list[Case]] = {}
    for case in cases:
        if case.is_work and not case.is_subagent and case.at:
            by_period.setdefault(_format_period(case.at, period), []).append(case)
    return [build_snapshot(name, by_period[name]) for name in sorted(by_period)]


def _format_period(at: str, period: str) -> str:
    if period == "month":
        return at[:7]
    year, week, _ = parse_time(at).isocalendar()
    return f"{year}-W{week:02}"


def build_snapshot(period: str, cases: Sequence[Case]) -> Snapshot:
    """Return how at least one session went."""
    outcomes = Counter(case.digest.outcome for case in cases)
    sizes = sorted(case.tokens for case in cases)
    shares = sorted(_overhead_share(case) for case in cases)
    return Snapshot(
        period=period,
        sessions=len(cases),
        success=outcomes["success"],
        fail=outcomes["fail"],
        abandoned=outcomes["abandoned"],
        unknown=outcomes["unknown"],
        verified=sum(case.digest.outcome_level == "verified" for case in cases),
        failing=round(sum(bool(case.digest.errors) for case in cases) / len(cases), 4),
        errors=round(sum(len(case.digest.errors) for case in cases) / len(cases), 4),
        tokens_p50=round(quantile(sizes, 0.5)),
        tokens_p90=round(quantile(sizes, 0.9)),
        overhead=round(quantile(shares, 0.5), 4),
        thrash=round(sum(_thrashes(case) for case in cases) / len(cases), 4),
    )


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, interpolated."""
    at = share * (len(values) - 1)
    low = int(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def _overhead_share(case: Case) -> float:
    total = sum(case.digest.actions.values())
    return (
        sum(count for action, count in case.digest.actions.items() if action in OVERHEAD_ACTIONS)
        / total
        if total
        else 0.0
    )


def _thrashes(case: Case) -> bool:
    return any(error.count >= 3 for error in case.digest.errors) or any(
        run.failed >= 3 for run in case.digest.commands
    )
