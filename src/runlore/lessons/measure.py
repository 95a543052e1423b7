"""Measure whether lessons help, and how the fleet develops over time. Pure.

The sessions that a lesson was shown to are compared with earlier ones. A problem also recurs by
chance, and lessons come from what recurred. So the session that completed the evidence is left out,
a verdict needs enough sessions on both sides, and its interval is wide (99 %), because people look
at it repeatedly.

A session that asks for a lesson usually has a reason to, most often the very error. So where
sessions asked, all that could have asked are compared, whether they did or not
(design/2026-11-16-effect.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from ..mine.signals import find_miner_of_kind
from ..mine.signals.infrastructure import OVERHEAD_ACTIONS
from ..mine.values import Case
from ..model import format_time, parse_time
from . import Lesson
from .compare import Mean, Share, Values, compare_means, compare_shares
from .exposures import Exposure, Way

Verdict = Literal["effective", "harmful", "no effect seen", "too early", "not measurable"]
Compared = Literal["told at start", "told on failure", "could ask"]
"""The sessions that are compared with earlier ones: those that were shown the lesson at their
start, by a hook or a file; those that were shown it when a tool failed, with earlier ones that met
the same; or, of agents whose sessions asked, all since the first did."""

MIN_EXPOSED, MIN_BEFORE = 20, 20
"""Sessions that a verdict needs: with fewer, even an error that vanished may be luck."""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a lesson that was shown to sessions."""

    id: str
    problem: str
    verdict: Verdict
    told: int
    """Number of sessions it was shown to."""
    ways: dict[Way, int]
    """The same number by the way it was shown; some sessions count in several ways."""
    compared: Compared
    """The sessions that are compared with those before."""
    first_at: str
    tokens: int
    """Tokens of all texts in which it was shown, other lessons included."""
    recurs: Share
    """Sessions that met the problem, of those that were shown it at their start or could ask."""
    stays: Share
    """Sessions that did not get over the problem, of those that met it. The verdict uses this if
    sessions were shown the lesson after they met it."""
    success: Share
    """Share of successes among the sessions whose outcome is known."""
    retries: Mean
    usd: Mean


def measure_effects(
    lessons: Iterable[Lesson], exposures: Iterable[Exposure], cases: Sequence[Case]
) -> list[Effect]:
    """Return the effect of every lesson that was shown to a session, the most frequent first."""
    by_lesson: dict[str, list[Exposure]] = {}
    for exposure in exposures:
        by_lesson.setdefault(exposure.lesson, []).append(exposure)
    work = sorted(
        (case for case in cases if case.is_work and not case.is_subagent and case.at),
        key=lambda case: case.at,
    )
    effects = [
        _measure_effect(lesson, by_lesson[lesson.id], work)
        for lesson in lessons
        if lesson.id in by_lesson
    ]
    return sorted(effects, key=lambda effect: (-effect.told, effect.id))


def _measure_effect(lesson: Lesson, exposures: Sequence[Exposure], work: Sequence[Case]) -> Effect:
    fitting = _find_fitting(lesson, work)
    # No session saw it before it was made: an earlier time comes from a wrong clock, and would move
    # sessions from before to after.
    times = {exposure: max(format_time(exposure.at), lesson.made_at) for exposure in exposures}
    exposed = _ExposedSessions(times, fitting)
    before = [case for case in _find_before(times, fitting) if case.uid not in exposed]
    recurring = {case.uid for case in fitting if recurred(lesson, case)}
    met = recurring if lesson.fingerprint else _find_met(lesson, fitting)
    met_before, met_after = _only(met, before), _only(met, exposed.any_way)
    # Sessions that were shown it on a failure have met the problem, so they are compared with such
    # sessions.
    like = met_before if exposed.compared == "told on failure" else before
    recurs = compare_shares(
        _recurrences(recurring, _without_trigger(lesson, before, recurring)),
        _recurrences(recurring, exposed.from_start),
    )
    stays = compare_shares(_stays(lesson, met_before), _stays(lesson, met_after))
    return Effect(
        id=lesson.id,
        problem=lesson.when,
        verdict=_find_verdict(lesson, exposed, recurs if _prevents(lesson, exposed) else stays),
        told=len({exposure.uid for exposure in exposures}),
        ways={way: len(uids) for way, uids in exposed.uids.items() if uids},
        compared=exposed.compared,
        first_at=format_time(min(exposure.at for exposure in exposures)),
        tokens=sum(exposure.tokens for exposure in exposures),
        recurs=recurs,
        stays=stays,
        success=compare_shares(_known_outcomes(like), _known_outcomes(exposed.chosen)),
        retries=compare_means(_retries(like), _retries(exposed.chosen)),
        usd=compare_means(_costs(like), _costs(exposed.chosen)),
    )


def _find_fitting(lesson: Lesson, work: Sequence[Case]) -> list[Case]:
    """Return the sessions of the agents and repositories that the lesson is for."""
    places = {(case.agent, case.repo) for case in work}
    fitting = {(agent, repo) for agent, repo in places if lesson.fits(agent=agent, repo=repo or "")}
    return [case for case in work if (case.agent, case.repo) in fitting]


def _find_met(lesson: Lesson, cases: Iterable[Case]) -> set[str]:
    return {case.uid for case in cases if was_met(lesson, case)}


def _only(uids: set[str], cases: Iterable[Case]) -> list[Case]:
    return [case for case in cases if case.uid in uids]


def _recurrences(recurring: set[str], cases: Iterable[Case]) -> Values:
    return [(case, case.uid in recurring) for case in cases]


def _stays(lesson: Lesson, cases: Iterable[Case]) -> Values:
    return [(case, stayed(lesson, case)) for case in cases]


def _find_before(times: Mapping[Exposure, str], fitting: Iterable[Case]) -> list[Case]:
    """Return the sessions that ended before the first exposure.

    The first in their repository counts, or else the first of all.
    """
    first_by_repo: dict[str, str] = {}
    # Times stay texts, as cases have them: every lesson compares them all.
    for exposure, at in times.items():
        first_by_repo[exposure.repo] = min(at, first_by_repo.get(exposure.repo, at))
    first = min(first_by_repo.values())
    return [case for case in fitting if case.at < first_by_repo.get(case.repo or "", first)]


class _ExposedSessions:
    """The sessions that a lesson was shown to, and which of them are compared."""

    def __init__(self, times: Mapping[Exposure, str], fitting: Sequence[Case]) -> None:
        self.uids: dict[Way, set[str]] = {
            "start": set(),
            "file": set(),
            "fail": set(),
            "asked": set(),
        }
        self.request_seq: dict[str, int] = {}
        self._requested_at: dict[str, str] = {}
        for exposure, at in times.items():
            self.uids[exposure.way].add(exposure.uid)
            if exposure.way == "asked":
                self.request_seq[exposure.uid], self._requested_at[exposure.uid] = exposure.seq, at
        at_start, on_failure = self.uids["start"] | self.uids["file"], self.uids["fail"]
        uids: dict[Compared, set[str]] = {
            "told at start": at_start,
            "told on failure": on_failure,
            "could ask": self.uids["asked"],
        }
        groups = {
            name: [case for case in fitting if case.uid in some] for name, some in uids.items()
        }
        # The first comparison with enough sessions, else the one with most.
        self.compared = max(
            uids, key=lambda name: (min(MIN_EXPOSED, len(groups[name])), bool(uids[name]))
        )
        self.requesting = groups["could ask"]
        is_open = self.compared == "could ask"
        self.chosen = self._could_ask(fitting) if is_open else groups[self.compared]
        self.from_start = self.chosen if is_open else groups["told at start"]
        """Sessions that were not chosen because the problem occurred."""
        either = at_start | on_failure
        self.any_way = self.chosen if is_open else [case for case in fitting if case.uid in either]
        """Sessions of which those that met the problem are like any others that met it."""
        self._after = set.union(*self.uids.values(), (case.uid for case in self.chosen))

    def __contains__(self, uid: str) -> bool:
        """Return True for a session after the lesson. Its time alone does not tell: hooks have
        another clock, and each repository has its own first exposure."""
        return uid in self._after

    def _could_ask(self, fitting: Iterable[Case]) -> list[Case]:
        """Return the sessions that began after the first request.

        The one with that request is left out: it is the reason to look.
        """
        since: dict[str, str] = {}
        for case in self.requesting:
            at = self._requested_at[case.uid]
            since[case.agent] = min(at, since.get(case.agent, at))
        return [case for case in fitting if case.agent in since and case.began > since[case.agent]]


def _known_outcomes(cases: Iterable[Case]) -> Values:
    return [
        (case, case.digest.outcome == "success")
        for case in cases
        if case.digest.outcome in ("success", "fail")
    ]


def _retries(cases: Iterable[Case]) -> Values:
    return [(case, float(case.digest.retries)) for case in cases]


def _costs(cases: Iterable[Case]) -> Values:
    return [(case, case.usd) for case in cases]


def _prevents(lesson: Lesson, exposed: _ExposedSessions) -> bool:
    """Return True if a lesson is judged by whether the problem occurs, and not by whether it stays.

    A flaky test stays flaky: its lesson changes how sessions get over it. A lesson that most
    sessions ask for after they met the problem comes too late to prevent it.
    """
    if lesson.kind == "flaky" or exposed.compared == "told on failure":
        return False
    late = sum(
        error.signature.fingerprint == lesson.fingerprint
        and error.first_seq < exposed.request_seq[case.uid]
        for case in exposed.requesting
        for error in case.digest.errors
    )
    return exposed.compared == "told at start" or 2 * late <= len(exposed.requesting)


def _find_verdict(lesson: Lesson, exposed: _ExposedSessions, share: Share) -> Verdict:
    if not is_measurable(lesson):
        return "not measurable"
    exposed_number = (
        min(share.after_of, len(exposed.requesting))
        if exposed.compared == "could ask"
        else share.after_of
    )
    if exposed_number < MIN_EXPOSED or share.before_of < MIN_BEFORE:
        return "too early"
    return "effective" if share.high < 0 else "harmful" if share.low > 0 else "no effect seen"


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


def was_met(lesson: Lesson, case: Case) -> bool:
    """Return True if the problem at least began in a session, which could then get over it."""
    miner = find_miner_of_kind(lesson.kind)
    return miner is not None and miner.was_met is not None and miner.was_met(_topic(lesson), case)


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


def _without_trigger(lesson: Lesson, before: list[Case], recurring: Container[str]) -> list[Case]:
    """Leave out the last session with the problem before the proposal: it ended the search."""
    shown = [
        case
        for case in before
        if case.uid in recurring and (not lesson.made_at or case.at <= lesson.made_at)
    ]
    last = max(shown, key=lambda case: case.at, default=None)
    return [case for case in before if case is not last]


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
