"""Which patterns come to a lesson, with what, and which do not."""

from __future__ import annotations

import msgspec
import pytest

from runlore.lessons.measure import recurred
from runlore.mine.advice import find_swapped_word
from runlore.mine.error_lessons import RUN_AGAIN
from runlore.mine.values import Case, Skill
from tests.lessons.test_curate import about, proposed
from tests.mine.fleet import PLANTS, Script, fleet, session

replace = msgspec.structs.replace


def stormy(script: Script) -> None:
    """A command that fails in other words each time, until somebody logs in."""
    for _ in range(4):
        script.fail(
            "make deploy", f"deploy: connection to host-{script.word()} refused at {script.word()}"
        )
    script.call("make login", "logged in", exit_code=0)
    script.call("make deploy", "deployed", exit_code=0)


def with_sessions(cases: list[Case], plant: object, numbers: list[int]) -> list[Case]:
    """The fleet, with this planted in some of its sessions."""
    import random

    planted = {n: session(n, random.Random(n), plant) for n in numbers}  # type: ignore[arg-type]
    return [
        replace(planted[n], repo="acme/shop") if n in planted else case
        for n, case in enumerate(cases)
    ]


def test_a_command_that_fails_again_and_again_is_told_with_what_ended_that() -> None:
    cases = with_sessions(fleet(1, 30, {}), stormy, [3, 9, 20])
    found = about(proposed(cases), "make deploy")
    assert (found.kind, found.about, found.do) == (
        "retries",
        "make deploy",
        "Run `make login`, then try again.",
    )
    assert (found.sessions, found.helped, found.repo) == (3, 3, "acme/shop")
    assert [recurred(found, cases[n]) for n in (3, 4)] == [True, False]
    assert proposed(with_sessions(fleet(1, 30, {}), stormy, [3])) == []
    assert proposed(fleet(1, 30, {"retry_storm": [3, 9, 20]})) == [], "nothing ended it"


def test_what_is_told_with_its_error_is_not_told_with_its_command_as_well() -> None:
    def same_words(script: Script) -> None:
        for _ in range(4):
            script.fail("make deploy", "Error: not logged in")
        script.call("make login", "logged in", exit_code=0)
        script.call("make deploy", "deployed", exit_code=0)

    assert [
        one.kind for one in proposed(with_sessions(fleet(1, 30, {}), same_words, [3, 9, 20]))
    ] == ["error"]


def test_a_test_that_passes_when_it_is_run_again_is_told_as_such() -> None:
    found = about(proposed(fleet(1, 30, {"flaky_test": [3, 9, 20]})), "test_checkout")
    assert (found.kind, found.do, found.helped) == ("flaky", RUN_AGAIN, 3)
    assert found.fingerprint


def test_an_error_that_went_away_by_itself_but_is_no_test_is_no_lesson() -> None:
    def transient(script: Script) -> None:
        script.fail("curl example.com", "curl: (7) Failed to connect to example.com port 443")
        script.call("curl example.com", "ok", exit_code=0)

    assert proposed(with_sessions(fleet(1, 30, {}), transient, [3, 9, 20])) == []


def test_a_step_that_takes_minutes_is_told_with_how_many_and_never_approved_by_itself() -> None:
    cases = fleet(1, 30, {"slow_step": [3, 9, 20, 25]})
    found = about(proposed(cases), "docker build")
    assert (found.kind, found.sessions, found.helped, found.repo) == ("slow", 4, 0, "acme/shop")
    assert "about 7 min" in found.do or "about 8 min" in found.do


def test_a_skill_that_fails_is_told_with_the_model_that_passed_where_another_had_failed() -> None:
    cases = fleet(1, 30, {"failing_skill": [3, 9, 20]})
    assert proposed(cases) == []
    for n in (4, 11):
        cases[n] = replace(cases[n], skills=(Skill("refactor", True, "strong"),))
    found = about(proposed(cases), "refactor")
    assert (found.kind, found.about, found.sessions, found.helped) == ("skill", "refactor", 5, 2)
    assert found.do.startswith("Give it to strong:")
    assert [recurred(found, cases[n]) for n in (3, 4)] == [True, False]


def test_a_change_is_told_without_where_somebody_keeps_his_files() -> None:
    path = "/home/ada/checkout/app/views/cart.py"

    def edited(script: Script) -> None:
        script.fail("python -m app", "KeyError: 'cart'")
        script.call(
            f"{path}\n@@\n-cart['x']\n+cart.get('x')",
            "ok",
            kind="edit",
            action="edit",
            files=(path,),
        )
        script.call("python -m app", "ok", exit_code=0)

    found = about(proposed(with_sessions(fleet(1, 30, {}), edited, [3, 9, 20])), "KeyError")
    assert found.do.startswith("Change app/views/cart.py:\n@@")
    assert "ada" not in found.do


@pytest.mark.parametrize(
    ("failed", "worked", "told"),
    [
        (
            "python {}.py",
            "python3 {}.py",
            "Use `python3` instead of `python`, for instance `python3 ",
        ),
        ("timeout make {}", "make {}", "Leave out `timeout`, for instance `make "),
        (
            "npm install {}",
            "npm install {} --legacy-peer-deps",
            "Call it with `--legacy-peer-deps`, for instance `npm install ",
        ),
    ],
)
def test_a_call_that_worked_with_another_word_is_told_by_the_word(
    failed: str, worked: str, told: str
) -> None:
    def mended(script: Script) -> None:
        name = script.word()
        script.fail(failed.format(name), "sh: 1: it: command not found")
        script.call(worked.format(name), "ok", exit_code=0)

    [found] = proposed(with_sessions(fleet(1, 30, {}), mended, [3, 9, 20]))
    assert (found.kind, found.helped) == ("error", 3)
    assert found.do.startswith(told)


def test_a_tool_is_named_whole_and_so_is_its_error() -> None:
    """Names and texts come from typed values: a colon or an arrow in them changes nothing."""

    def refused(script: Script) -> None:
        error = "Error: read a.py → b.py first"
        for _ in range(3):
            script.call(
                "app.py",
                error,
                action="edit",
                tool="mcp:files:edit",
                files=("/w/app.py",),
                is_error=True,
            )
        script.call("app.py", "text", action="read", files=("/w/app.py",))
        script.call("app.py", "ok", action="edit", tool="mcp:files:edit", files=("/w/app.py",))

    [found] = proposed(with_sessions(fleet(1, 30, {}), refused, [3, 9, 20]))
    assert (found.kind, found.tool) == ("error", "mcp:files:edit")
    assert "→" in found.when


def test_what_is_different_is_a_word_or_nothing() -> None:
    assert find_swapped_word("python a.py", "python3 a.py") == ("python", "python3")
    assert find_swapped_word("a b c", "a x y") is None
    assert find_swapped_word("a b", "a b c") is None, "no flag: that is another thing done"
    assert find_swapped_word("a", "b") is None, "nothing is the same"
    assert find_swapped_word("a b", "a b") is None
    assert find_swapped_word("a bcd…", "a bce…") is None, "what was cut is not known"


def test_what_tells_no_way_out_becomes_no_lesson() -> None:
    silent = set(PLANTS) - {"recovery", "correction", "flaky_test", "slow_step"}
    for name in sorted(silent):
        assert proposed(fleet(1, 40, {name: [3, 9, 20, 25]})) == [], name


def test_a_second_look_at_every_kind_changes_nothing() -> None:
    cases = with_sessions(
        fleet(1, 40, {"flaky_test": [2, 8], "slow_step": [4, 12], "failing_skill": [5, 6]}),
        stormy,
        [3, 9],
    )
    cases[11] = replace(cases[11], skills=(Skill("refactor", True, "strong"),))
    cases[13] = replace(cases[13], skills=(Skill("refactor", True, "strong"),))
    known = proposed(cases)
    assert sorted(one.kind for one in known) == ["flaky", "retries", "skill", "slow"]
    assert proposed(cases, known) == []
