"""What made an error go away."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.digest import Fix
from runlore.digest.errors import errors
from runlore.digest.fixes import fixes
from runlore.model import SessionEvent, Tests
from tests.digest.sessions import UID, session

FAILED = {"exit_code": 1, "is_error": True}
FINE = {"exit_code": 0}
Turn = tuple[str, str, dict[str, Any]]


def edit(path: str, body: str = "-a\n+b", **fields: Any) -> Turn:
    return (
        f"{path}\n@@\n{body}",
        "done",
        {"action": "edit", "kind": "edit", "files": (path,), **fields},
    )


def only(*turns: Turn) -> Fix:
    (fix,) = fixes(*session(*turns))
    return fix


def test_the_edit_of_the_file_that_the_error_names() -> None:
    fix = only(
        ("go build ./...", "# pkg\nsrc/a.go:3:1: undefined: foo", FAILED),
        edit("/w/README.md"),
        edit("/w/src/a.go", "+import foo"),
        edit("/w/docs/b.md"),
        ("go build ./...", "", FINE),
    )
    assert (fix.how, fix.failed_seq, fix.fixed_seq) == ("edit", 1, 9)
    assert [step.seq for step in fix.steps] == [4, 6, 2]
    assert fix.diff == "/w/src/a.go\n@@\n+import foo"
    assert fix.is_shown


def test_a_command_in_between() -> None:
    fix = only(
        ("bun run lint", "bash: line 1: biome: command not found", FAILED | {"exit_code": 127}),
        ("ls", "a", FINE),
        ("bun install", "ok", FINE),
        ("bun run lint", "fine", FINE),
    )
    assert (fix.how, fix.steps[0].seq, fix.steps[0].summary) == ("command", 4, "bun install")


def test_the_call_made_differently() -> None:
    fix = only(
        (
            "python -m py_compile a.py",
            "zsh: command not found: python",
            FAILED | {"exit_code": 127},
        ),
        ("python3 -m py_compile a.py", "", FINE),
    )
    assert (fix.how, fix.steps[0].seq) == ("changed", 2)


@pytest.mark.parametrize(
    ("failed", "error", "worked"),
    [
        (
            "printf a | timeout 5 git fetch origin 2>&1 | head",
            "zsh: command not found: timeout",
            "printf a | git fetch origin 2>&1 | head",
        ),
        (
            "cd app; timeout 5 git fetch origin | head; echo all of it; git log -3 | cat",
            "zsh: command not found: timeout",
            "cd app; GIT_TERMINAL_PROMPT=0 git fetch origin | head; git log -3 | cat; echo nothing",
        ),
        (
            "gh api repos/a/b?ref=x --jq .c | base64 -d",
            "zsh: no matches found: repos/a/b?ref=x",
            "gh api 'repos/a/b?ref=x' --jq .c | base64 -d",
        ),
        (
            "grep -rn name --include=*.go src | head",
            "zsh: no matches found: --include=*.go",
            "grep -rn name --include='*.go' src | head",
        ),
    ],
)
def test_an_error_of_the_shell_is_over_when_the_program_starts(
    failed: str, error: str, worked: str
) -> None:
    fix = only((failed, error, FAILED), (worked, "some output", FINE))
    assert (fix.how, fix.proof, fix.after) == ("changed", "output", worked)
    assert fix.confidence >= 0.8
    for output in ("", "zsh: command not found: git", "zsh: parse error near `|'"):
        first, *_ = fixes(*session((failed, error, FAILED), (worked, output, FINE)))
        assert not first.is_shown, output


@pytest.mark.parametrize(
    ("failed", "worked"),
    [
        ("pytest tests", "PYTHONPATH=. pytest tests"),
        ("python -m pytest tests", "uv run python -m pytest tests"),
        ("bun cli.ts get", "bun run build && bun cli.ts get"),
        ("bun cli.ts get", "bun install && bun run build && bun cli.ts get"),
    ],
)
def test_a_call_with_something_in_front_is_another_call(failed: str, worked: str) -> None:
    error = "SyntaxError: Export named 'a' not found in module '/w/index.js'."
    fix = only((failed, error, FAILED), (worked, "ok", FINE))
    assert (fix.how, fix.before, fix.after, fix.is_shown) == ("changed", failed, worked, True)


def test_a_file_that_had_to_be_read_first() -> None:
    refused = (
        "File has not been read yet. Read it first before writing to it.",
        {"is_error": True},
    )
    path = "/w/a.py"
    call = f"{path}\n@@\n-a\n+b"
    fix = only(
        (call, refused[0], {"action": "edit", "kind": "edit", "files": (path,), **refused[1]}),
        ("a.py", "text", {"action": "read", "files": (path,)}),
        edit(path),
    )
    assert (fix.how, fix.steps[0].seq) == ("read", 2)


def test_trying_again() -> None:
    fix = only(
        ("git push", "fatal: unable to access 'https://x/': timed out", FAILED),
        ("git push", "done", FINE),
    )
    assert (fix.how, fix.steps[0].seq) == ("retry", 2)


def test_a_test_that_passes_again() -> None:
    bad, good = Tests(passed=3, failed=1), Tests(passed=4, failed=0)
    fix = only(
        (
            "go test ./sem -run TestA",
            "--- FAIL: TestA (0.1s)\nFAIL",
            FAILED | {"kind": "test_run", "tests": bad},
        ),
        ("go test ./sem -run TestB", "ok", FINE | {"kind": "test_run", "tests": good}),
        edit("/w/sem/a.go"),
        ("go test ./...", "ok", FINE | {"kind": "test_run", "tests": good}),
    )
    assert (fix.how, fix.steps[0].seq, fix.fixed_seq) == ("edit", 4, 7)


def test_the_next_error_of_the_same_run_shows_that_the_first_is_gone() -> None:
    first, second = fixes(
        *session(
            (
                "make",
                'Traceback (most recent call last):\n  File "/w/a.py", line 1, in b\nKeyError: 1',
                FAILED,
            ),
            edit("/w/a.py"),
            (
                "make",
                'Traceback (most recent call last):\n  File "/w/a.py", line 9, in b\nTypeError: no',
                FAILED,
            ),
            edit("/w/a.py", "-c\n+d"),
            ("make", "built", FINE),
        )
    )
    assert (first.how, first.steps[0].seq, first.fixed_seq) == ("edit", 2, 9)
    assert (second.how, second.steps[0].seq, second.fixed_seq) == ("edit", 6, 9)


@pytest.mark.parametrize(
    "later",
    [
        (),
        (("npm run deploy", "ok", FINE),),
        (("npm test", "error: it broke", FAILED),),
        (("npm test --help", "usage", FINE),),
        (edit("/w/a.js"),),
    ],
)
def test_an_error_that_never_went_away(later: tuple[Turn, ...]) -> None:
    found = fixes(*session(("npm test", "error: it broke", FAILED), *later))
    assert [(fix.fixed_seq, fix.is_shown) for fix in found] == [(None, False)]


def test_a_call_that_was_made_before_the_error_was_known_fixes_nothing() -> None:
    events, bodies = session(
        ("git push", "fatal: no route to host", FAILED), ("git push", "done", FINE)
    )
    order = {0: 0, 2: 1, 1: 2, 3: 3}
    events = [msgspec.structs.replace(event, seq=order[event.seq]) for event in events]
    (fix,) = fixes(events, {order[seq]: body for seq, body in bodies.items()})
    assert fix.fixed_seq is None


def test_trouble_with_a_service_is_over_when_the_agent_works_again() -> None:
    trouble = SessionEvent(session_uid=UID, seq=0, kind="retry", is_error=True)
    call = SessionEvent(session_uid=UID, seq=1, kind="tool_call", action="shell", call_id="a")
    result = SessionEvent(
        session_uid=UID, seq=2, kind="tool_result", action="shell", call_id="a", exit_code=0
    )
    (fix,) = fixes([trouble, call, result], {0: "529 Overloaded", 1: "ls", 2: "a"})
    assert (fix.how, fix.fixed_seq) == ("retry", 2)


NO_CODE = {"is_error": True}
"""The result of an agent that reports failures, and no exit codes."""


@pytest.mark.parametrize(
    ("command", "output", "fields", "proof"),
    [
        ("make", "", {"exit_code": 0}, "exit"),
        ("make && echo ok", "ok", {"exit_code": 0}, "exit"),
        ("set -eo pipefail; make | tail -3", "done", {"exit_code": 0}, "exit"),
        ("make | tail -3", "BUILD SUCCESSFUL in 3s", {"exit_code": 0}, "output"),
        ("make | tail -3", "3 passed in 0.1s", {"exit_code": 0}, "tests"),
        ("make", "BUILD SUCCESSFUL in 3s", {}, "output"),
        ("make | tail -3", "", {"exit_code": 0}, None),
        ("make; true", "", {"exit_code": 0}, None),
        ("make || true", "", {"exit_code": 0}, None),
        ("make &", "", {"exit_code": 0}, None),
        ("make", "", {}, None),
        ("make", "Error: it is different now", {}, None),
        ("make", "EXECUTION TIMED OUT", {}, None),
        ("make", "a.c:1: syntax error, Build succeeded", {}, None),
        ("make", "Process running with session ID 3", {"exit_code": 0}, None),
    ],
)
def test_a_fix_needs_the_proof_that_the_same_command_succeeded(
    command: str, output: str, fields: dict[str, Any], proof: str | None
) -> None:
    # Without exit codes a failure is not reported either.
    failure = FAILED if fields else {}
    fix = only(
        ("make", "a.c:1:2: error: no type named x", failure),
        edit("/w/a.c"),
        (command, output, fields),
    )
    assert (fix.proof, fix.is_shown) == (proof, proof is not None)


def test_an_agent_that_reports_failures_without_codes_reports_success_the_same_way() -> None:
    fix = only(
        ("npm run build", "a.ts(3,1): error TS2304: Cannot find name 'foo'.", NO_CODE),
        edit("/w/a.ts", "-foo()\n+bar()"),
        ("npm run build", "> build", {"tool": "Shell"}),
    )
    assert fix.fixed_seq is None  # The tool of the first result is not known.
    fix = only(
        (
            "npm run build",
            "a.ts(3,1): error TS2304: Cannot find name 'foo'.",
            {**NO_CODE, "tool": "Shell"},
        ),
        edit("/w/a.ts", "-foo()\n+bar()"),
        ("npm run build", "> build", {"tool": "Shell"}),
    )
    assert (fix.how, fix.proof) == ("edit", "exit")


@pytest.mark.parametrize(
    "later",
    [
        ("cd /other && make", "", FINE),
        ("make --help", "usage", FINE),
        ("make clean", "", FINE),
        ("git stash && make", "", FINE),
    ],
)
def test_other_work_with_the_same_program_fixes_nothing(later: Turn) -> None:
    fix = only(("make", "a.c:1:2: error: no type named x", FAILED), edit("/w/a.c"), later)
    assert not fix.is_shown


def test_a_success_far_away_or_for_another_request_fixes_nothing() -> None:
    looks = [("ls", "a", FINE)] * 60
    broken: Turn = ("make", "a.c:1:2: error: no type named x", FAILED)
    assert only(broken, edit("/w/a.c"), *looks, ("make", "", FINE)).fixed_seq is None
    turns = (broken, edit("/w/a.c"), *looks[:14], ("make", "", FINE))
    assert only(*turns).is_shown
    events, bodies = session(*turns)
    prompt = SessionEvent(session_uid=UID, seq=2 * len(turns) + 5, kind="user_msg", role="user")
    events = [
        msgspec.structs.replace(event, seq=event.seq + (20 if event.seq > 20 else 0))
        for event in events
    ]
    bodies = {seq + (20 if seq > 20 else 0): body for seq, body in bodies.items()}
    prompt = msgspec.structs.replace(prompt, seq=25)
    (fix,) = fixes([*events, prompt], {**bodies, 25: "now something else"})
    assert fix.fixed_seq is None


def test_the_words_that_differ_between_two_calls() -> None:
    fix = only(
        ("bd status --short --all", "Error: unknown flag: --short", FAILED),
        ("bd status --all", "fine", FINE),
    )
    assert (fix.how, fix.before, fix.after) == (
        "changed",
        "bd status --short --all",
        "bd status --all",
    )
    assert fix.change == "- bd status --short --all\n+ bd status --all"
    assert fix.confidence >= 0.8


def test_a_command_that_the_shell_rejected_at_first() -> None:
    fix = only(
        ("gh api repos/a/b?x=1 | sed -n 1p", "zsh:1: no matches found: repos/a/b?x=1", FINE),
        ("gh api 'repos/a/b?x=1' | sed -n 1p", "README.md", FINE),
    )
    assert (fix.how, fix.proof) == ("changed", "output")
    assert fix.change == "- gh api repos/a/b?x=1\n+ gh api 'repos/a/b?x=1'"
    fix = only(
        ("timeout 9 go run . | tail", "zsh: command not found: timeout", FINE),
        ("go run . | tail", "all is well", FINE),
    )
    assert fix.change == "- timeout 9 go run\n+ go run"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pytest tests/test_a.py", "PYTHONPATH=. pytest tests/test_a.py"),
        ("python app.py", "uv run python app.py"),
        ("timeout 9 make all", "make all"),
    ],
)
def test_the_same_command_started_differently(before: str, after: str) -> None:
    fix = only((before, "ModuleNotFoundError: No module named 'shop'", FAILED), (after, "ok", FINE))
    assert (fix.how, fix.before, fix.after, fix.is_shown) == ("changed", before, after, True)


def test_the_only_command_in_between() -> None:
    fix = only(
        ("make deploy", "Error: not logged in", FAILED),
        ("make login", "logged in", FINE),
        ("make deploy", "deployed", FINE),
    )
    assert (fix.how, fix.after, fix.is_shown) == ("command", "make login", True)
    fix = only(
        ("make deploy", "Error: not logged in", FAILED),
        ("make login | tail -1", "logged in", FINE),
        ("make deploy", "deployed", FINE),
    )
    assert not fix.is_shown


def test_the_part_of_an_edit_that_touches_what_the_error_names() -> None:
    unrelated = "\n".join(f"+line {n}" for n in range(60))
    fix = only(
        ("tsc", "a.ts(90,1): error TS2304: Cannot find name 'makeCart'.", FAILED),
        edit("/w/a.ts", f"{unrelated}\n@@\n-makeCart()\n+newCart()"),
        ("tsc", "", FINE),
    )
    assert fix.change == "-makeCart()\n+newCart()"


def test_a_test_that_passes_after_nothing_was_changed_is_no_fix() -> None:
    bad, good = Tests(passed=3, failed=1), Tests(passed=4, failed=0)
    fix = only(
        (
            "go test ./a",
            "--- FAIL: TestA (0.1s)\nFAIL",
            FAILED | {"kind": "test_run", "tests": bad},
        ),
        ("go test ./a", "ok", FINE | {"kind": "test_run", "tests": good}),
    )
    assert (fix.how, fix.is_shown) == ("retry", False)


def test_of_two_failing_tests_each_has_the_edit_after_which_it_passed() -> None:
    bad = {"kind": "test_run", "exit_code": 1, "is_error": True}
    first, second = fixes(
        *session(
            ("pytest -v", "FAILED tests/test_x.py::test_a\nFAILED tests/test_x.py::test_b", bad),
            edit("/w/tests/test_x.py", "-a = 1\n+a = 2"),
            ("pytest -v", "test_x.py::test_a PASSED\nFAILED tests/test_x.py::test_b", bad),
            edit("/w/tests/test_x.py", "-b = 1\n+b = 2"),
            ("pytest -v", "2 passed in 0.1s", FINE | {"kind": "test_run"}),
        )
    )
    steps = {fix.steps[0].seq: fix.fixed_seq for fix in (first, second)}
    assert steps == {2: 9, 6: 9}


def test_a_passing_test_of_another_package_proves_nothing() -> None:
    bad, good = Tests(passed=3, failed=1), Tests(passed=4, failed=0)
    fix = only(
        (
            "go test ./a",
            "--- FAIL: TestA (0.1s)\nFAIL",
            FAILED | {"kind": "test_run", "tests": bad},
        ),
        edit("/w/a/a.go"),
        ("go test ./b -run TestA", "ok", FINE | {"kind": "test_run", "tests": good}),
    )
    assert fix.fixed_seq is None


def spoken(text: str) -> Fix:
    """The fix of an error after which the agent wrote something, and edited a file."""
    events, bodies = session(
        ("tsc", "a.ts(9,1): error TS2304: Cannot find name 'makeCart'.", FAILED),
        edit("/w/a.ts", "-makeCart()\n+newCart()"),
        ("tsc", "", FINE),
    )
    events = [msgspec.structs.replace(event, seq=event.seq + (event.seq > 1)) for event in events]
    bodies = {seq + (seq > 1): body for seq, body in bodies.items()}
    words = SessionEvent(session_uid=UID, seq=2, kind="assistant_msg", role="assistant")
    (fix,) = fixes([*events, words], {**bodies, 2: text})
    return fix


def test_the_agents_own_sentence_about_the_cause() -> None:
    fix = spoken("Let me look. **The issue** is that `makeCart` was renamed. I will change it.")
    assert (fix.cause, fix.cause_seq) == ("The issue is that `makeCart` was renamed.", 2)
    assert spoken("I'll run it again now, just to be sure.").cause == ""


@pytest.mark.parametrize(
    "words",
    [
        "This error is pre-existing.",
        "It is not related to my change.",
        "An unrelated failure, so I leave it.",
        "This one is flaky.",
    ],
)
def test_an_error_that_the_agent_calls_none_of_its_own_is_not_shown(words: str) -> None:
    assert spoken("So it goes.").is_shown
    assert not spoken(words).is_shown


TURNS: list[Turn] = [
    ("go test ./...", "--- FAIL: TestA (0.1s)\nFAIL", FAILED | {"kind": "test_run"}),
    ("go test ./...", "ok", FINE | {"kind": "test_run"}),
    ("git push", "fatal: no route", FAILED),
    ("git push", "done", FINE),
    ("rg x", "", FAILED),
    edit("/w/a.go"),
    edit("/w/a.go", is_error=True),
    ("", "error: rest of it", FAILED),
    ("/w/a.go", "no such file", {"action": "read", "files": ("/w/a.go",), "is_error": True}),
]


@given(st.lists(st.sampled_from(TURNS), max_size=12))
def test_every_error_has_one_answer_whose_evidence_lies_after_it(turns: list[Turn]) -> None:
    events, bodies = session(*turns)
    answers = fixes(events, bodies)
    assert {fix.fingerprint for fix in answers} == {
        error.signature.fingerprint for error in errors(events, bodies)
    }
    assert len({fix.fingerprint for fix in answers}) == len(answers)
    places = {error.signature.fingerprint: error.seqs for error in errors(events, bodies)}
    for fix in answers:
        assert fix.failed_seq in places[fix.fingerprint]
        assert 0 <= fix.confidence <= 1
        assert (fix.fixed_seq is None) == (not fix.steps)
        for step in fix.steps:
            assert fix.fixed_seq is not None
            assert fix.failed_seq < step.seq <= fix.fixed_seq


@given(st.lists(st.sampled_from(TURNS), max_size=10), st.randoms(use_true_random=False))
def test_the_order_in_which_events_come_makes_no_difference(turns: list[Turn], chance: Any) -> None:
    events, bodies = session(*turns)
    mixed = list(events)
    chance.shuffle(mixed)
    assert fixes(mixed, bodies) == fixes(events, bodies)


def test_the_diff_of_a_fix_is_at_most_two_kilobytes() -> None:
    change = f"a.py\n@@\n-x\n+{'é' * 3000}"
    [fix] = fixes(
        *session(
            (
                "python a.py",
                "NameError: name 'x' is not defined",
                {"is_error": True, "exit_code": 1},
            ),
            (change, "", {"action": "edit", "kind": "edit", "files": ("a.py",)}),
            ("python a.py", "fine", {"exit_code": 0}),
        )
    )
    assert 300 < len(fix.diff.encode()) <= 2048
