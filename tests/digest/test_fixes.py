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
        )
    )
    assert (first.how, first.steps[0].seq, second.fixed_seq) == ("edit", 2, None)


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
    assert 2000 < len(fix.diff.encode()) <= 2048
