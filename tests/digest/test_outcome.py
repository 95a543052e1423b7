"""How a session ended: what is evidence, what outweighs what, and what is none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.digest import Outcome
from runlore.digest.outcome import outcome
from runlore.model import SessionEvent, Tests
from tests.digest.sessions import UID, session

Turn = tuple[str, str, dict[str, Any]]


def run_of_tests(passed: int = 0, failed: int = 0) -> Turn:
    code = 1 if failed else 0
    return (
        "pytest -q",
        f"{passed} passed, {failed} failed",
        {"kind": "test_run", "exit_code": code, "tests": Tests(passed=passed, failed=failed)},
    )


EDIT: Turn = (
    "calc.py\n+return a",
    "done",
    {"action": "edit", "kind": "edit", "files": ["calc.py"]},
)
COMMIT: Turn = ("git commit -m fix", "[main 1a2b3c4] fix", {"exit_code": 0})
GO = (("user_msg", "fix it"),)
BROKEN: Turn = (
    "python run.py",
    'Traceback (most recent call last):\n  File "run.py", line 1\nValueError: no',
    {"exit_code": 1},
)


def judge(
    *turns: Turn, then: tuple[tuple[str, str], ...] = (), before: tuple[tuple[str, str], ...] = ()
) -> Outcome:
    """The outcome of calls, with messages (kind, text) before and after them."""
    events, bodies = session(*turns)
    shift = len(before)
    moved = [SessionEvent(**{**_fields(event), "seq": event.seq + shift}) for event in events]
    texts = {seq + shift: body for seq, body in bodies.items()}
    for n, (kind, text) in enumerate((*before, *then)):
        seq = n if n < shift else n - shift + shift + len(events)
        role = "assistant" if kind == "assistant_msg" else "user"
        moved.append(
            SessionEvent(
                session_uid=UID,
                seq=seq,
                kind=kind,
                role=role,
                summary=text,
                is_error=kind == "error",
            )
        )
        texts[seq] = text
    return outcome(moved, texts)


def _fields(event: SessionEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def test_many_tests_that_pass_after_the_last_edit_and_a_commit_are_a_success() -> None:
    found = judge(EDIT, run_of_tests(passed=80), COMMIT)
    assert (found.verdict, found.by, found.level, found.evidence) == (
        "success",
        "test",
        "observed",
        (3,),
    )


@pytest.mark.parametrize(
    "turns",
    [(EDIT, run_of_tests(passed=80)), (EDIT, run_of_tests(passed=2), COMMIT)],
    ids=["not committed", "few tests"],
)
def test_tests_that_pass_without_more_prove_nothing(turns: tuple[Turn, ...]) -> None:
    found = judge(*turns)
    assert (found.verdict, found.by, found.level) == ("unknown", "test", "unknown")
    assert found.reason.startswith("tests passed, but")


def test_tests_that_pass_where_nothing_was_changed_prove_nothing() -> None:
    assert judge(run_of_tests(passed=80), COMMIT).verdict == "unknown"


def test_a_run_that_only_its_output_shows_to_be_one_of_tests_counts() -> None:
    own: Turn = ("python tests/runtests.py", "Ran 40 tests in 0.1s\n\nOK", {"exit_code": 0})
    assert judge(EDIT, own, COMMIT).by == "test"
    printed: Turn = ("cat log.txt", "Ran 40 tests in 0.1s\n\nOK", {"exit_code": 0})
    assert judge(EDIT, printed, COMMIT).by == "shipped"


def test_tests_that_fail_after_the_last_edit_are_a_failure() -> None:
    found = judge(EDIT, run_of_tests(failed=3))
    assert (found.verdict, found.by, found.evidence) == ("fail", "test", (3,))


def test_tests_before_the_last_edit_prove_nothing() -> None:
    assert judge(run_of_tests(passed=3), EDIT).verdict == "unknown"
    assert judge(run_of_tests(failed=3), EDIT).verdict == "unknown"


def test_nothing_is_a_success_after_a_failing_test() -> None:
    thanks = (("user_msg", "fix it"),)
    assert judge(run_of_tests(failed=1), EDIT, COMMIT).verdict == "unknown"
    assert (
        judge(
            run_of_tests(failed=1), EDIT, before=thanks, then=(("user_msg", "thanks, perfect"),)
        ).verdict
        != "success"
    )


def test_tests_that_could_not_run_say_nothing() -> None:
    missing: Turn = (
        "python -m pytest",
        "/usr/bin/python: No module named pytest",
        {"kind": "test_run", "exit_code": 1},
    )
    assert (
        judge(EDIT, missing, before=GO, then=(("assistant_msg", "There is no pytest."),)).verdict
        == "unknown"
    )
    assert judge(EDIT, missing, COMMIT).verdict == "unknown"  # and nothing is a success after them


def test_a_run_of_tests_that_fails_without_a_word_is_no_success_either() -> None:
    silent: Turn = ("pytest > out.txt", "", {"kind": "test_run", "exit_code": 1})
    assert judge(EDIT, silent, COMMIT).verdict == "unknown"


def test_a_change_by_the_shell_is_one() -> None:
    assert (
        judge(EDIT, run_of_tests(passed=3), ("sed -i s/a/b/ calc.py", "", {"exit_code": 0})).verdict
        == "unknown"
    )


def test_failures_that_were_there_before_say_nothing() -> None:
    before = judge(run_of_tests(passed=9, failed=2), EDIT, run_of_tests(passed=9, failed=2))
    assert (before.verdict, before.by, before.evidence) == ("unknown", "test", (5,))
    assert (
        judge(run_of_tests(passed=9, failed=1), EDIT, run_of_tests(passed=8, failed=2)).verdict
        == "fail"
    )


def test_a_run_without_the_changes_tells_how_things_were_before() -> None:
    aside: Turn = (
        "git stash && pytest -q",
        "2 failed",
        {"kind": "test_run", "exit_code": 1, "tests": Tests(passed=0, failed=2)},
    )
    assert judge(EDIT, run_of_tests(failed=2), aside).verdict == "unknown"
    assert judge(EDIT, run_of_tests(failed=3), aside).verdict == "fail"
    assert judge(EDIT, run_of_tests(passed=3), aside).verdict == "unknown"


def test_what_is_committed_with_failing_tests_is_unknown() -> None:
    found = judge(EDIT, run_of_tests(failed=1), COMMIT)
    assert (found.verdict, found.by) == ("unknown", "test")


def test_a_rejection_outweighs_tests_that_passed() -> None:
    found = judge(
        EDIT,
        run_of_tests(passed=80),
        COMMIT,
        before=GO,
        then=(("assistant_msg", "Done."), ("user_msg", "it still fails")),
    )
    assert (found.verdict, found.evidence) == ("unknown", (4, 8))


def test_calls_that_fail_one_after_another_at_the_end_are_a_failure() -> None:
    found = judge(BROKEN, BROKEN, BROKEN, before=GO, then=(("assistant_msg", "Well."),))
    assert (found.verdict, found.by) == ("fail", "exit")


def test_a_run_that_says_what_it_said_before_the_change_is_a_failure() -> None:
    shows: Turn = ("python show.py", "Error: still too hot", {"exit_code": None})
    other: Turn = ("python show.py", "cold", {"exit_code": None})
    script: Turn = (
        "show.py\n+print()",
        "done",
        {"action": "edit", "kind": "edit", "files": ["show.py"]},
    )
    found = judge(shows, EDIT, shows)
    assert (found.verdict, found.by, found.evidence) == ("fail", "exit", (1, 5))
    assert judge(shows, EDIT, other).verdict == "unknown"
    assert judge(shows, script, shows).verdict == "unknown"  # Only the script itself was changed.
    assert judge(EDIT, shows, shows).verdict == "unknown"


def test_questions_whose_answer_is_no_are_no_failures() -> None:
    probe: Turn = ("test -w /memory && mkdir -p /memory/x", "", {"exit_code": 1})
    tests = run_of_tests(passed=80)
    assert judge(EDIT, tests, COMMIT, probe, probe, probe).verdict == "success"


def test_an_error_at_the_last_thing_tried_that_never_went_away_is_a_failure() -> None:
    found = judge(EDIT, BROKEN, before=GO)
    assert (found.verdict, found.by, found.evidence) == ("fail", "errors", (4,))
    assert (
        judge(EDIT, BROKEN, ("python run.py", "fine", {"exit_code": 0}), before=GO).verdict
        == "unknown"
    )
    assert (
        judge(EDIT, BROKEN, before=GO, then=(("assistant_msg", "It needs a key."),)).verdict
        == "unknown"
    )


@pytest.mark.parametrize(
    "said",
    [
        " ! [rejected] main -> main",
        "fatal: repository not found",
        "nothing to commit, working tree clean",
    ],
)
def test_what_git_denies_was_not_shipped(said: str) -> None:
    refused: Turn = ("git commit -m x; git push | cat", said, {"exit_code": 0})
    pushed: Turn = ("git push", "To host:repo\n  1..2 main -> main", {"exit_code": 0})
    assert judge(EDIT, refused, before=GO).by != "shipped"
    assert judge(EDIT, pushed, before=GO).by == "shipped"


def test_a_commit_alone_does_not_show_that_it_works() -> None:
    found = judge(EDIT, COMMIT)
    assert (found.verdict, found.by) == ("unknown", "shipped")
    assert judge(COMMIT, EDIT).by == ""


def test_a_commit_that_was_refused_is_none() -> None:
    refused: Turn = ("git commit -m fix", "error: pathspec", {"exit_code": 1})
    assert judge(EDIT, refused).verdict != "success"


@pytest.mark.parametrize("text", ["Thanks!", "perfect, that fixed it", "LGTM", "great, it works"])
def test_words_of_thanks_are_a_success(text: str) -> None:
    found = judge(
        EDIT,
        before=(("user_msg", "fix it"),),
        then=(("assistant_msg", "Done."), ("user_msg", text)),
    )
    assert (found.verdict, found.by) == ("success", "said")


@pytest.mark.parametrize(
    "text", ["that's wrong", "still failing", "It doesn’t work", "please revert that"]
)
def test_words_of_rejection_are_a_failure(text: str) -> None:
    found = judge(
        EDIT,
        before=(("user_msg", "fix it"),),
        then=(("assistant_msg", "Done."), ("user_msg", text)),
    )
    assert (found.verdict, found.by) == ("fail", "said")


@pytest.mark.parametrize(
    "text",
    [
        "lookup the token",
        "greatest common divisor",
        "does that work?",
        "not perfect",
        "add networking",
        "great, now add a test",
        "what is wrong with it?",
        "don't stop",
    ],
)
def test_parts_of_words_questions_and_negations_say_nothing(text: str) -> None:
    found = judge(
        EDIT,
        before=(("user_msg", "fix it"),),
        then=(("assistant_msg", "Done."), ("user_msg", text), ("assistant_msg", "Well.")),
    )
    assert found.verdict == "unknown"


def test_words_that_were_acted_upon_say_nothing_about_the_end() -> None:
    found = judge(EDIT, before=(("user_msg", "fix it"), ("user_msg", "that's wrong")))
    assert found.verdict == "unknown"


def test_a_prompt_without_a_reply_is_abandoned() -> None:
    found = judge(then=(("user_msg", "fix it"),))
    assert (found.verdict, found.by, found.evidence) == ("abandoned", "silent", (0,))


def test_an_interruption_at_the_end_is_abandoned() -> None:
    found = judge(
        EDIT,
        before=(("user_msg", "fix it"),),
        then=(("human_intervention", "[Request interrupted by user]"),),
    )
    assert (found.verdict, found.by) == ("abandoned", "interrupted")


def test_a_switch_of_modes_is_no_interruption() -> None:
    assert (
        judge(EDIT, then=(("human_intervention", "permission mode plan → default"),)).verdict
        == "unknown"
    )


def test_an_error_at_the_end_is_a_failure() -> None:
    found = judge(EDIT, before=GO, then=(("error", "API Error: 529 overloaded"),))
    assert (found.verdict, found.by) == ("fail", "end")


def test_an_error_after_the_agents_last_word_is_about_something_else() -> None:
    assert (
        judge(
            EDIT, before=GO, then=(("assistant_msg", "Done."), ("error", "a hook failed"))
        ).verdict
        == "unknown"
    )


def test_what_the_agent_says_of_itself_is_no_evidence() -> None:
    assert (
        judge(
            EDIT, then=(("assistant_msg", "All tests pass, everything works perfectly!"),)
        ).verdict
        == "unknown"
    )


def test_what_was_rewound_does_not_count() -> None:
    events = [
        SessionEvent(session_uid=UID, seq=0, kind="lifecycle"),
        SessionEvent(session_uid=UID, seq=1, kind="user_msg", parent_seq=0),
        SessionEvent(
            session_uid=UID, seq=2, kind="test_run", call_id="a", action="shell", parent_seq=1
        ),
        SessionEvent(
            session_uid=UID,
            seq=3,
            kind="tool_result",
            call_id="a",
            tests=Tests(passed=0, failed=2),
            parent_seq=2,
        ),
        SessionEvent(session_uid=UID, seq=4, kind="user_msg", parent_seq=0),
        SessionEvent(session_uid=UID, seq=5, kind="assistant_msg", parent_seq=4),
    ]
    assert outcome(events, {}).verdict == "unknown"


def test_copies_of_another_session_do_not_count() -> None:
    events, bodies = session(EDIT, run_of_tests(failed=2))
    copies = [
        SessionEvent(**{**_fields(event), "origin": f"toy:0#{event.seq}"}) for event in events
    ]
    assert outcome(copies, bodies) == Outcome(verdict="unknown")


def test_a_session_without_events_is_unknown() -> None:
    assert outcome([], {}) == Outcome(verdict="unknown")


TURNS = st.sampled_from(
    [
        EDIT,
        COMMIT,
        BROKEN,
        run_of_tests(passed=2),
        run_of_tests(failed=2),
        run_of_tests(passed=5, failed=1),
        ("ls", "", {"exit_code": 0}),
    ]
)
WORDS = st.sampled_from(
    [
        ("user_msg", "thanks, perfect"),
        ("user_msg", "still broken"),
        ("assistant_msg", "done"),
        ("error", "boom"),
    ]
)


@given(st.lists(TURNS, max_size=8), st.lists(WORDS, max_size=3))
def test_never_a_success_when_the_last_test_failed(
    turns: list[Turn], said: list[tuple[str, str]]
) -> None:
    found = judge(*turns, then=tuple(said), before=(("user_msg", "go on"),))
    tests = [turn[2]["tests"] for turn in turns if "tests" in turn[2]]
    if tests and tests[-1].failed:
        assert found.verdict != "success"
    assert found.evidence or found.verdict == "unknown"
    assert (found.level == "unknown") == (found.verdict == "unknown")


def test_a_look_at_the_status_after_a_commit_takes_nothing_back() -> None:
    said = (
        "[main 1a2b3c4] fix\n 1 file changed\nOn branch main\nnothing to commit, working tree clean"
    )
    both: Turn = ("git commit -m fix && git status", said, {"exit_code": 0})
    assert judge(EDIT, both).by == "shipped"
    assert judge(EDIT, run_of_tests(passed=2, failed=1), both).verdict == "unknown"
    assert (
        judge(
            EDIT, ("git commit -m fix", "nothing to commit, working tree clean", {"exit_code": 0})
        ).verdict
        == "unknown"
    )


def test_tests_that_failed_and_were_spoken_about_prove_nothing() -> None:
    found = judge(
        EDIT,
        run_of_tests(passed=20, failed=1),
        then=(("assistant_msg", "Done. The one that fails did so before."),),
    )
    assert (found.verdict, found.by, found.evidence) == ("unknown", "test", (3,))


def test_a_plan_that_is_not_taken_up_here_is_not_abandoned() -> None:
    events = [
        SessionEvent(session_uid=UID, seq=0, kind="user_msg", role="user", summary="fix it"),
        SessionEvent(
            session_uid=UID,
            seq=1,
            kind="tool_call",
            role="assistant",
            tool="Plan",
            action="plan",
            call_id="p",
        ),
        SessionEvent(
            session_uid=UID, seq=2, kind="human_intervention", call_id="p", native="rejected"
        ),
        SessionEvent(
            session_uid=UID,
            seq=3,
            kind="human_intervention",
            native="interrupt",
            summary="[interrupted]",
        ),
    ]
    assert outcome(events, {}).verdict == "unknown"
    events[1] = SessionEvent(
        session_uid=UID,
        seq=1,
        kind="tool_call",
        role="assistant",
        tool="Sh",
        action="shell",
        call_id="p",
    )
    assert outcome(events, {}).verdict == "abandoned"


def test_a_command_of_the_users_own_waits_for_no_reply() -> None:
    assert (
        judge(EDIT, before=GO, then=(("assistant_msg", "done"), ("user_msg", "!pytest -q"))).verdict
        == "unknown"
    )
    assert (
        judge(EDIT, before=GO, then=(("assistant_msg", "done"), ("user_msg", "and the docs"))).by
        == "silent"
    )


PUSH: Turn = ("git push", "To host:repo\n  1..2 fix -> fix", {"exit_code": 0})
OPEN: Turn = ("gh pr create --fill", "https://github.com/ada/shop/pull/12", {"exit_code": 0})
TESTED = (EDIT, run_of_tests(passed=80), COMMIT)


def test_a_goal_that_asks_for_green_checks_is_not_met_by_tests() -> None:
    asked = (("user_msg", "Fix it, open a PR and wait until all checks pass."),)
    found = judge(*TESTED, OPEN, before=asked)
    assert (found.verdict, found.by) == ("unknown", "test")
    assert found.reason.endswith("but what was asked for is missing: green checks")
    checks: Turn = ("gh pr checks 12", "build\tpass\t9s\thttps://x\t\n", {"exit_code": 0})
    found = judge(*TESTED, OPEN, checks, before=asked)
    assert (found.verdict, found.by, found.level) == ("success", "ci", "verified")


def test_a_goal_that_asks_for_a_pull_request_needs_one() -> None:
    asked = (("user_msg", "Fix it and open a pull request."),)
    assert judge(*TESTED, before=asked).verdict == "unknown"
    assert judge(*TESTED, OPEN, before=asked).verdict == "success"
    denied = (("user_msg", "Fix it. Please do not open a pull request."),)
    assert judge(*TESTED, before=denied).verdict == "success"


def test_a_failing_build_that_the_user_pastes_takes_a_success_back() -> None:
    pasted = "npm run build\n\nsrc/a.ts(3,1): error TS2304: Cannot find name 'foo'."
    for text in (pasted, "the build is failing now, have a look"):
        then = (("assistant_msg", "Done."), ("user_msg", text), ("assistant_msg", "I see."))
        found = judge(*TESTED, before=GO, then=then)
        assert (found.verdict, found.by) == ("unknown", "test")


def test_work_for_a_later_request_is_not_proven_by_earlier_tests() -> None:
    events, bodies = session(*TESTED)
    n = len(events)
    asked = SessionEvent(session_uid=UID, seq=n, kind="user_msg", role="user", summary="now deploy")
    run, _ = session(("make deploy", "done", {"exit_code": 0}))
    later = [SessionEvent(**{**_fields(event), "seq": n + 1 + event.seq}) for event in run]
    bodies |= {n: "now deploy", n + 1: "make deploy", n + 2: "done"}
    assert outcome([*events, asked], bodies).verdict == "success"
    assert outcome([*events, asked, *later], bodies).verdict == "unknown"


def test_checks_that_fail_after_the_push_are_a_failure() -> None:
    table = "lint\tfail\t17s\thttps://x\t\nbuild\tpass\t9s\thttps://x\t\n"
    red: Turn = ("gh pr checks 12 | cat", table, {"exit_code": 0})
    found = judge(*TESTED, PUSH, red)
    assert (found.verdict, found.by, found.level) == ("fail", "ci", "verified")
    assert judge(*TESTED, PUSH, red, EDIT, PUSH).by != "ci"  # Pushed again: they are old.


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("gh pr checks 12", "build\tpending\t0\thttps://x\t\n", 8),
        ("gh pr checks 12 | head -1", "build\tpass\t9s\thttps://x\t\n", 0),
        ("gh pr checks 12", "no checks reported on the 'fix' branch", 0),
        ("gh run watch 5", "Refreshing run status every 3 seconds.", None),
    ],
    ids=["pending", "cut", "none", "running"],
)
def test_checks_that_are_not_over_or_cut_say_nothing(
    command: str, output: str, code: int | None
) -> None:
    assert judge(EDIT, PUSH, (command, output, {"exit_code": code})).by == "shipped"


def test_checks_of_what_was_not_pushed_here_say_nothing() -> None:
    checks: Turn = ("gh pr checks 12", "build\tpass\t9s\thttps://x\t\n", {"exit_code": 0})
    assert judge(EDIT, checks).by == ""
    other: Turn = ("gh pr checks 9", "build\tfail\t9s\thttps://x\t\n", {"exit_code": 1})
    assert judge(EDIT, PUSH, OPEN, other).by == "shipped"


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("gh pr merge 12 --squash", "✓ Squashed and merged pull request #12 (Fix it)", None),
        ("gh pr merge 12 --squash", "", 0),
        ("gh pr view 12 --json state", '{"state":"MERGED"}', 0),
        ("gh pr merge 12; true", "Merged PR #12", 0),
        ("gh api -X PUT repos/ada/shop/pulls/12/merge", '{"sha":"1a2b3c4","merged":true}', 0),
    ],
)
def test_a_merged_pull_request_is_a_verified_success(
    command: str, output: str, code: int | None
) -> None:
    found = judge(EDIT, OPEN, (command, output, {"exit_code": code}))
    assert (found.verdict, found.by, found.level) == ("success", "merged", "verified")


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("gh pr merge 12 --auto", "", 0),
        ("gh pr view 9 --json state", '{"state":"MERGED"}', 0),
        ("gh pr merge 12 | cat", "X Pull request is not mergeable", 0),
    ],
    ids=["later", "somebody else's", "refused"],
)
def test_what_was_not_merged_here_is_no_success(
    command: str, output: str, code: int | None
) -> None:
    found = judge(EDIT, OPEN, (command, output, {"exit_code": code}))
    assert found.verdict != "success"


@pytest.mark.parametrize(
    ("status", "verdict", "level"),
    [
        ("run:complete", "success", "verified"),
        ("run:fail", "fail", "verified"),
        ("run:cancel", "abandoned", "verified"),
        ("run:pause", "unknown", "unknown"),
    ],
)
def test_the_status_of_a_run_decides(status: str, verdict: str, level: str) -> None:
    events, bodies = session(EDIT, run_of_tests(failed=3))
    event = SessionEvent(session_uid=UID, seq=9, kind="lifecycle", action=status)
    found = outcome([*events, event], bodies)
    assert (found.verdict, found.level, found.by) == (verdict, level, "run")


def test_a_run_that_was_resumed_has_no_status_yet() -> None:
    events, bodies = session(EDIT, run_of_tests(failed=3))
    states = [
        SessionEvent(session_uid=UID, seq=9 + n, kind="lifecycle", action=status)
        for n, status in enumerate(("run:fail", "run:resume"))
    ]
    assert outcome([*events, *states], bodies).by == "test"
