"""Whether a lesson helps, on fleets where that is known; and how the fleet goes."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import pytest

from runlore.lessons import Lesson
from runlore.lessons.deliver import Event
from runlore.lessons.exposures import Decision, Exposure
from runlore.lessons.measure import Effect, build_snapshots, measure_effects, quantile
from runlore.mine.values import Case
from runlore.model import (
    CommandRun,
    Covers,
    Digest,
    Moment,
    Outcome,
    format_time,
)
from tests.lessons.fleets import ERROR, LESSON, OVER, START, WAYS, Fleet, Way

replace = msgspec.structs.replace


def case(n: int, *, met: bool = False, outcome: Outcome = "success", **fields: object) -> Case:
    digest = Digest(
        session_uid=f"toy:{n}", version=1, covers=Covers(0, "h"), errors=(ERROR,) if met else (),
        outcome=outcome, quality="real",
        retries=int(met), corrections=(Moment(1, "No, use pnpm for packages"),
        ) if fields.pop("corrected", False) else (),
    )  # fmt: skip
    given = {
        "uid": f"toy:{n}",
        "agent": "toy",
        "repo": "acme/shop",
        "root": f"toy:{n}",
        "began": hour(n),
        "at": hour(n + 0.9),
        "usd": 1.0,
        **fields,
    }
    return Case(digest=digest, **given)  # type: ignore[arg-type]


def hour(n: float) -> str:
    return format_time(time(n))


def time(n: float) -> datetime:
    return START + timedelta(hours=n)


def decision(n: int, *, is_withheld: bool, event: Event = "start", **fields: object) -> Decision:
    given = {"lesson": "abc", "uid": f"toy:{n}", "at": time(n + 0.1), "share": 0.2, **fields}
    return Decision(is_withheld=is_withheld, event=event, **given)  # type: ignore[arg-type]


def judge(
    cases: list[Case],
    decisions: list[Decision],
    exposures: list[Exposure] | None = None,
    lesson: Lesson = LESSON,
) -> Effect:
    [effect] = measure_effects([lesson], decisions, exposures or [], cases)
    return effect


def halves(number: int, *, shown: int, withheld: int) -> tuple[list[Case], list[Decision]]:
    """Return sessions of which every fifth is withheld from; in each group every `shown`-th or
    `withheld`-th meets the error."""
    cases, decisions, counts = [], [], [0, 0]
    for n in range(number):
        is_withheld = n % 5 == 0
        every = withheld if is_withheld else shown
        counts[is_withheld] += 1
        cases.append(case(n, met=counts[is_withheld] % every == 0))
        decisions.append(decision(n, is_withheld=is_withheld))
    return cases, decisions


# ── verdicts ──────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("way", WAYS)
def test_by_whatever_way_it_is_shown_an_effect_is_found_where_there_is_one(way: Way) -> None:
    with_effect = [Fleet(way, seed, rate=0.6, left=0.2).judge().verdict for seed in range(20)]
    assert with_effect.count("helps") >= 17
    with_harm = [Fleet(way, seed, rate=0.3, left=3, share=0.4).judge() for seed in range(20)]
    assert "helps" not in {one.verdict for one in with_harm}
    without = [Fleet(way, seed, rate=0.4).judge().verdict for seed in range(25)]
    assert without.count("no effect shown") >= 23


def test_a_lesson_that_doubles_its_problem_harms_and_is_to_be_retired() -> None:
    effects = [Fleet("start", seed, rate=0.3, left=2).judge() for seed in range(10)]
    assert [one.verdict for one in effects].count("harms") >= 8
    assert all(one.is_retiring_proposed for one in effects if one.verdict == "harms")


@pytest.mark.parametrize("change", ["drifts", "moves"])
def test_what_changes_for_both_groups_is_no_effect(change: str) -> None:
    verdicts = [
        Fleet("start", seed, rate=0.6, **{change: True}).judge().verdict for seed in range(30)
    ]
    assert verdicts.count("no effect shown") >= 28
    fleet = Fleet("start", 1, rate=0.6, **{change: True})
    early, late = fleet.cases[:60], fleet.cases[-60:]
    assert sum(bool(one.digest.errors) for one in early) > 2 * sum(
        bool(one.digest.errors) for one in late
    )


def test_looking_after_each_session_shows_nothing_that_the_looks_do_not() -> None:
    for seed, left in ((1, 1.0), (2, 0.4), (3, 2.0)):
        fleet = Fleet("start", seed, rate=0.4, left=left, number=230)
        verdicts = [fleet.judge(number).verdict for number in range(1, 231)]
        for first, last in ((0, 49), (49, 99), (99, 199), (199, 230)):
            assert len(set(verdicts[first:last])) == 1
        assert fleet.judge_often(10) == set(verdicts)


def test_the_figures_are_those_of_the_last_look_and_the_next_is_named() -> None:
    cases, decisions = halves(130, shown=5, withheld=3)
    effect = judge(cases, decisions)
    assert (effect.in_trial, effect.compared, effect.next_look, effect.level) == (
        130, 100, 200, 0.996,
    )  # fmt: skip
    assert (effect.recurs.shown, effect.recurs.shown_of) == (16, 80)
    assert (effect.recurs.withheld, effect.recurs.withheld_of) == (6, 20)
    assert effect.verdict == "too early"
    assert "200 sessions" in effect.why
    first = judge(cases[:49], decisions[:49])
    assert (first.compared, first.level, first.recurs.low, first.usd.low) == (49, None, None, None)
    assert (first.recurs.shown_of, first.recurs.withheld_of) == (39, 10)


def test_one_session_and_none_are_too_early() -> None:
    one = judge([case(1)], [decision(1, is_withheld=False)])
    assert (one.verdict, one.in_trial, one.usd.shown, one.usd.withheld) == ("too early", 1, 1, None)
    none = judge([case(1)], [decision(77, is_withheld=True)])  # It is not stored yet.
    assert (none.verdict, none.in_trial, none.next_look) == ("too early", 0, 50)
    assert measure_effects([LESSON], [decision(1, is_withheld=True, lesson="other")], [], []) == []


def test_a_verdict_stands_until_a_later_look_says_the_opposite() -> None:
    decisions = [decision(n, is_withheld=n % 5 == 0) for n in range(800)]
    helped = [case(n, met=n % 5 == 0) for n in range(50)]
    assert judge(helped, decisions[:50]).verdict == "helps"
    undecided = helped + [case(n, met=n % 5 in (1, 2)) for n in range(50, 100)]
    effect = judge(undecided, decisions[:100])
    assert (effect.verdict, effect.compared, effect.in_trial) == ("helps", 50, 100)
    assert effect.recurs == judge(helped, decisions[:50]).recurs
    harmed = helped + [case(n, met=n % 5 != 0) for n in range(50, 800)]
    effect = judge(harmed, decisions)
    assert (effect.verdict, effect.compared) == ("harms", 800)


def test_what_does_not_halve_its_problem_or_has_none_left_is_to_be_retired() -> None:
    same = judge(*halves(800, shown=2, withheld=2))
    assert (same.verdict, same.is_retiring_proposed) == ("no effect shown", True)
    assert "halves" in same.why
    rare = judge(*halves(200, shown=20, withheld=20))
    assert (rare.verdict, rare.is_retiring_proposed) == ("no effect shown", False)
    gone = judge(*halves(200, shown=10_000, withheld=10_000))
    assert (gone.verdict, gone.is_retiring_proposed) == ("no effect shown", True)
    assert "did not occur" in gone.why
    only_shown = judge(*halves(200, shown=20, withheld=10_000))
    assert (only_shown.verdict, only_shown.is_retiring_proposed) == ("no effect shown", False)


# ── who is in the trial ───────────────────────────────────────────────────────────────────────────
def test_a_session_counts_for_the_group_it_was_first_put_into() -> None:
    """Whatever was shown to it later, and by whatever way."""
    cases = [case(1, met=True)]
    first = decision(1, is_withheld=True)
    later = decision(1, is_withheld=False, event="request", at=time(1.5))
    shown = Exposure(lesson="abc", uid="toy:1", way="request", at=time(1.5), tokens=9)
    effect = judge(cases, [later, first], [shown])
    assert (effect.recurs.withheld, effect.recurs.withheld_of, effect.recurs.shown_of) == (1, 1, 0)
    assert (effect.ways, effect.tokens, effect.outside) == ({"request": 1}, 9, 0)


def test_a_family_is_one_session_and_counts_from_the_decision_on() -> None:
    before = case(0, met=True, root="toy:0")
    deciding = case(3, root="toy:0", usd=2.0)
    subagent = case(4, met=True, root="toy:0", is_subagent=True, usd=0.5)
    fork = case(9, root="toy:0", usd=4.0)
    decisions = [decision(3, is_withheld=False), decision(9, is_withheld=True)]
    effect = judge([before, deciding, subagent, fork], decisions)
    assert (effect.in_trial, effect.recurs.shown, effect.recurs.withheld_of) == (1, 1, 0)
    assert (effect.usd.shown, effect.retries.shown) == (6.5, 1)


def test_a_session_that_reads_the_lesson_in_a_file_is_in_no_group() -> None:
    cases = [case(1), case(2), case(3)]
    decisions = [decision(n, is_withheld=n == 1) for n in (1, 2)]
    in_file = [
        Exposure(lesson="abc", uid=f"toy:{n}", way="file", at=time(n), tokens=5) for n in (1, 3)
    ]
    effect = judge(cases, decisions, in_file)
    assert (effect.in_trial, effect.outside, effect.recurs.withheld_of) == (1, 2, 0)
    alone = judge(cases, [], in_file)
    assert (alone.verdict, alone.in_trial, alone.outside) == ("not measurable", 0, 2)
    assert "outside the trial" in alone.why


def test_sessions_that_were_decided_with_another_share_are_left_out() -> None:
    """While the error goes by itself, groups of other sizes at other times would differ."""
    cases = [case(n, met=n < 50) for n in range(100)]
    decisions = [
        decision(n, is_withheld=n % 2 == 0, share=0.5)
        if n < 50
        else decision(n, is_withheld=n % 10 == 0, share=0.1)
        for n in range(100)
    ]
    effect = judge(cases, decisions)
    assert (effect.in_trial, effect.share, effect.recurs.shown) == (50, 0.1, 0)


# ── the problem ───────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("event", "kind", "expected"),
    [("start", "error", 2), ("fail", "error", 1), ("request", "error", 1), ("start", "flaky", 1)],
)
def test_a_session_that_has_met_the_problem_can_still_get_over_it(
    event: Event, kind: str, expected: int
) -> None:
    over = case(1, met=True)
    cases = [replace(over, digest=replace(over.digest, fixes=(OVER,))), case(2, met=True), case(3)]
    decisions = [decision(n, is_withheld=False, event=event) for n in (1, 2, 3)]
    effect = judge(cases, decisions, lesson=replace(LESSON, kind=kind))
    assert (effect.recurs.shown, effect.recurs.shown_of) == (expected, 3)


def test_a_correction_is_measured_by_whether_it_is_said_again_and_a_note_is_not() -> None:
    lesson = Lesson(
        id="abc",
        kind="correction",
        when="p",
        do="please use pnpm for packages",
        evidence=("toy:1#1",),
    )
    cases = [case(n, corrected=n % 4 == 0) for n in range(100)]
    decisions = [decision(n, is_withheld=n % 4 == 0) for n in range(100)]
    effect = judge(cases, decisions, lesson=lesson)
    assert (effect.verdict, effect.recurs.withheld, effect.recurs.shown) == ("helps", 25, 0)
    note = judge(cases, decisions, lesson=replace(lesson, kind="note"))
    assert note.verdict == "not measurable"


def test_a_command_that_keeps_failing_is_judged_by_whether_it_does() -> None:
    lesson = replace(LESSON, kind="retries", fingerprint="", about="npm test")

    def failing(n: int, times: int) -> Case:
        one = case(n)
        runs = (CommandRun(seq=3, command="npm test", failed=times),)
        return replace(one, digest=replace(one.digest, commands=runs))

    cases = [failing(n, 5 if n % 4 == 0 else 1) for n in range(100)]
    decisions = [decision(n, is_withheld=n % 4 == 0, event="fail") for n in range(100)]
    assert judge(cases, decisions, lesson=lesson).verdict == "helps"


def test_success_is_a_share_of_all_with_the_unknown_beside_it() -> None:
    outcomes: list[Outcome] = ["success", "fail", "unknown", "unknown", "abandoned"]
    cases = [case(n, outcome=outcomes[n % 5]) for n in range(10)]
    decisions = [decision(n, is_withheld=n >= 5) for n in range(10)]
    success = judge(cases, decisions).success
    assert (success.shown, success.shown_of, success.shown_unknown) == (1, 5, 2)
    assert (success.withheld, success.withheld_of, success.withheld_unknown) == (1, 5, 2)


def test_before_and_since_are_counted_where_the_lesson_applies_and_judge_nothing() -> None:
    cases = [case(n, met=n < 300) for n in range(600)]
    elsewhere = [replace(case(1000 + n, met=True), repo="other/x", at=hour(n)) for n in range(40)]
    idle = replace(cases[0].digest, quality="trivial")
    trivial = [replace(one, uid=f"toy:t{n}", digest=idle) for n, one in enumerate(cases[:5])]
    shown = [Exposure(lesson="abc", uid="toy:300", way="start", at=time(300))]
    scoped = replace(LESSON, repo="acme/shop", made_at=hour(299.95))
    effect = judge([*cases, *elsewhere, *trivial], [], shown, scoped)
    times = effect.before_and_since
    assert (times.before, times.before_of, times.since, times.since_of) == (150, 150, 0, 150)
    assert (effect.verdict, effect.is_retiring_proposed) == ("not measurable", False)
    # No session was shown it before it was made: an earlier time comes from a wrong clock.
    wrong = [Exposure(lesson="abc", uid="toy:300", way="start", at=time(-9_000))]
    assert judge(cases, [], wrong, scoped).before_and_since == times


def test_the_fleet_is_shown_by_month_and_week() -> None:
    cases = [
        case(n, met=n % 2 == 0, outcome="fail" if n % 4 == 0 else "success", tokens=n * 10)
        for n in range(40)
    ]
    storm = msgspec.structs.replace(
        cases[1].digest,
        commands=(CommandRun(seq=1, command="x", count=3, failed=3),),
        actions={"plan": 1, "read": 3},
    )
    cases[1] = msgspec.structs.replace(cases[1], digest=storm)
    late = msgspec.structs.replace(case(99, outcome="unknown"), at="2026-02-03T00:00:00.000000Z")
    january, february = build_snapshots([*cases, late], "month")
    assert (january.period, january.sessions) == ("2026-01", 40)
    assert (january.success, january.fail, january.unknown) == (30, 10, 0)
    assert (january.failing, january.errors, january.thrash) == (0.5, 0.5, 0.025)
    assert (january.tokens_p50, january.tokens_p90) == (195, 351)
    assert (february.sessions, february.success, february.unknown) == (1, 0, 1)
    assert [one.period for one in build_snapshots([*cases, late], "week")] == [
        "2026-W01",
        "2026-W06",
    ]
    assert quantile([7], 0.9) == 7
