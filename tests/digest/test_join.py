"""What was known of a session and what happened since, as one digest."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from runlore.digest.join import join
from runlore.digest.session import MAX_ERRORS, MAX_TESTS, make
from runlore.model import Digest, Session, Tests
from tests.digest.test_session import START, UID, Timeline

SESSION = Session(
    session_uid=UID, flavor="toy", native_session_id="1", last_seq=99, content_hash="99",
    started_at=START, ended_at=START + timedelta(minutes=99),
)  # fmt: skip
CUT = 50
"""The first event of what came since."""


def parts(before: Timeline, after: Timeline) -> tuple[Digest, Digest]:
    later = [msgspec.structs.replace(event, seq=CUT + event.seq) for event in after.events]
    bodies = {CUT + seq: body for seq, body in after.bodies.items()}
    return make(SESSION, before.events, before.bodies), make(SESSION, later, bodies)


def ran_tests(line: Timeline, *, failed: int, passed: int = 3) -> Timeline:
    counts = Tests(passed=passed, failed=failed)
    return line.call(
        "pytest -q",
        f"{failed} failed, {passed} passed",
        kind="test_run",
        tests=counts,
        is_error=bool(failed),
    )


def test_all_that_was_known_is_in_it_and_what_is_new_is_added() -> None:
    one = ran_tests(
        Timeline()
        .say("build the engine")
        .call("make", "make: gcc: No such file or directory", is_error=True),
        failed=1,
    )
    two = ran_tests(
        Timeline().say("go on").call("make", "make: gcc: No such file or directory", is_error=True),
        failed=0,
    )
    before, after = parts(one, two)
    both = join(before, after, SESSION)
    assert (both.goal, both.goal_seq) == ("build the engine", 0)
    [error] = [error for error in both.errors if "gcc" in error.signature.sample]
    assert (error.count, error.seqs) == (2, (2, CUT + 2))
    assert [run.seq for run in both.tests] == [run.seq for run in (*before.tests, *after.tests)]
    assert {run.command: (run.count, run.failed) for run in both.commands}["make"] == (2, 2)
    assert both.kinds == {name: before.kinds[name] + after.kinds[name] for name in before.kinds}
    assert both.wall_s == 99 * 60
    assert {moment.seq for moment in both.excerpts} >= {2, CUT + 2}
    assert both.before == before


def test_requests_follow_each_other_and_the_last_result_counts() -> None:
    before, after = parts(
        Timeline().say("build the engine").reply("Built."), Timeline().say("paint it").reply("Red.")
    )
    both = join(before, after, SESSION)
    assert [request.text for request in both.requests] == ["build the engine", "paint it"]
    assert both.result == after.result
    assert join(before, parts(Timeline(), Timeline())[1], SESSION).result == before.result


def test_a_lesson_that_was_told_on_both_sides_was_told_first_before() -> None:
    answer = "ab1 (approved): the build fails"
    one, two = (
        Timeline().say("go").call("{}", answer, action="mcp", tool="mcp__runlore__lessons")
        for _ in range(2)
    )
    before, after = parts(
        one, two.call("{}", "cd2 (approved): x", action="mcp", tool="mcp__runlore__lessons")
    )
    first, second = join(before, after, SESSION).requested_lessons
    assert (first.lesson, first.seq, first.tokens) == (
        "ab1",
        2,
        2 * before.requested_lessons[0].tokens,
    )
    assert (second.lesson, second.seq) == ("cd2", CUT + 4)


def test_tests_that_failed_and_were_not_run_again_are_no_success() -> None:
    before, after = parts(
        ran_tests(Timeline().say("build it"), failed=2),
        Timeline().say("thanks, perfect, that works").reply(),
    )
    assert before.outcome == "fail"
    assert join(before, after, SESSION).outcome == "fail"


def test_later_evidence_of_the_same_strength_decides() -> None:
    before, after = parts(
        ran_tests(Timeline().say("build it"), failed=2),
        ran_tests(Timeline().say("again").edit("a.py", "a.py\n+1"), failed=0, passed=90).call(
            "git commit -m fix", "[main 1a2b3c4] fix", exit_code=0
        ),
    )
    assert (join(before, after, SESSION).outcome, before.outcome) == ("success", "fail")
    assert join(after, before, SESSION).outcome == "fail"


def test_later_tests_that_prove_nothing_take_a_failure_back() -> None:
    before, after = parts(
        ran_tests(Timeline().say("build it"), failed=2),
        ran_tests(Timeline().say("again"), failed=0),
    )
    both = join(before, after, SESSION)
    assert (before.outcome, both.outcome, both.outcome_by) == ("fail", "unknown", "test")


def test_a_part_that_tells_nothing_changes_no_verdict() -> None:
    before, after = parts(ran_tests(Timeline().say("build it"), failed=0), Timeline().reply("hm"))
    both = join(before, after, SESSION)
    assert (both.outcome, both.outcome_evidence, both.quality) == (
        before.outcome,
        before.outcome_evidence,
        before.quality,
    )


def test_the_surest_fix_counts() -> None:
    error = "ModuleNotFoundError: No module named 'yaml'"
    fixed = (
        Timeline()
        .say("go")
        .call("python app.py", error, is_error=True, exit_code=1)
        .call("pip install pyyaml", "ok", exit_code=0)
    )
    fixed = fixed.call("python app.py", "started", exit_code=0)
    before, after = parts(
        fixed, Timeline().say("again").call("python app.py", error, is_error=True, exit_code=1)
    )
    [known] = before.fixes
    assert known.is_shown
    assert join(before, after, SESSION).fixes == (known,)


def test_it_is_bounded_as_every_digest_and_counts_what_it_leaves_out() -> None:
    many = Timeline().say("go")
    for n in range(MAX_ERRORS):
        word = "".join(chr(ord("a") + int(digit)) for digit in f"{n:03}")
        many = ran_tests(
            many.call(f"run {word}", f"Error: the {word}x is broken", is_error=True), failed=0
        )
    before, after = parts(
        many, Timeline().say("more").call("run last", "Error: the brake is broken", is_error=True)
    )
    both = join(before, after, SESSION)
    assert (len(both.errors), both.cut["errors"]) == (MAX_ERRORS, before.cut.get("errors", 0) + 1)
    assert len(both.tests) == MAX_TESTS
    assert both.cut["tests"] == before.cut["tests"]
