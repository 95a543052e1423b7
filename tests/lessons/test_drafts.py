"""Which patterns come to a lesson, with what, and which do not."""

from __future__ import annotations

import msgspec
import pytest

from runlore.lessons.measure import recurred
from runlore.mine import change_lessons
from runlore.mine.signals import load_miners
from runlore.mine.values import Case, Skill
from tests.lessons.test_curate import about, proposed
from tests.mine.fleet import PLANTS, Script, fleet, session

replace = msgspec.structs.replace


def stormy(script: Script) -> None:
    """A command that fails in other words each time, until somebody logs in."""
    for _ in range(4):
        script.fail("make deploy", f"deploy: token {script.word()} not found at {script.word()}")
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
        "Run `make login` once, then `make deploy` again.",
    )
    assert (found.sessions, found.helped, found.repo) == (3, 3, "acme/shop")
    assert [recurred(found, cases[n]) for n in (3, 4)] == [True, False]
    assert proposed(with_sessions(fleet(1, 30, {}), stormy, [3])) == []
    assert proposed(fleet(1, 30, {"retry_storm": [3, 9, 20]})) == [], "nothing ended it"


def test_what_is_told_with_its_error_is_not_told_with_its_command_as_well() -> None:
    def same_words(script: Script) -> None:
        for _ in range(4):
            script.fail("make deploy", "Error: Cannot find module 'dist'")
        script.call("make install", "installed", exit_code=0)
        script.call("make deploy", "deployed", exit_code=0)

    assert [
        one.kind for one in proposed(with_sessions(fleet(1, 30, {}), same_words, [3, 9, 20]))
    ] == ["setup_first"]


def test_a_test_that_passes_when_it_is_run_again_is_told_as_such() -> None:
    found = about(proposed(fleet(1, 30, {"flaky_test": [3, 9, 20]})), "test_checkout")
    assert (found.kind, found.helped, found.repo) == ("flaky", 3, "acme/shop")
    assert found.do.startswith("Run that test again by itself")
    assert found.fingerprint


def test_an_error_that_went_away_by_itself_but_is_no_test_is_no_lesson() -> None:
    def transient(script: Script) -> None:
        script.fail("curl example.com", "curl: (7) Failed to connect to example.com port 443")
        script.call("curl example.com", "ok", exit_code=0)

    assert proposed(with_sessions(fleet(1, 30, {}), transient, [3, 9, 20])) == []


def test_a_step_that_takes_minutes_is_no_lesson_because_nothing_helped() -> None:
    assert proposed(fleet(1, 30, {"slow_step": [3, 9, 20, 25]})) == []


def test_a_skill_that_fails_is_told_with_the_model_that_passed_where_another_had_failed() -> None:
    cases = fleet(1, 30, {"failing_skill": [3, 9, 20]})
    assert proposed(cases) == []
    for n in (4, 11, 12):
        cases[n] = replace(cases[n], skills=(Skill("refactor", True, "strong"),))
    assert proposed(cases) == [], "it fails as often as it passes"
    for n in (13, 14, 15):
        cases[n] = replace(cases[n], skills=(Skill("refactor", True, "strong"),))
    found = about(proposed(cases), "refactor")
    assert (found.kind, found.about, found.sessions, found.helped) == ("skill", "refactor", 9, 6)
    assert found.do.startswith("Give it to strong:")
    assert [recurred(found, cases[n]) for n in (3, 4)] == [True, False]


def test_an_edit_is_no_lesson_however_often_it_helped() -> None:
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

    assert proposed(with_sessions(fleet(1, 30, {}), edited, [3, 9, 20])) == []


@pytest.mark.parametrize(
    ("failed", "worked", "error", "kind", "advice"),
    [
        ("python {}.py", "python3 {}.py", "zsh: command not found: python",
         "replaced_program", "Call `python3`: that worked"),
        ("timeout 9 make {}", "make {}", "zsh: command not found: timeout",
         "left_out", "without `timeout`"),
        ("gh api repos/{}?ref=x", "gh api 'repos/{}?ref=x'",
         "zsh: no matches found: repos/{}?ref=x", "quoted", "single quotes"),
        ("python -m pytest {}", "uv run python -m pytest {}",
         "ModuleNotFoundError: No module named 'yaml'", "added_prefix", "`uv run python …`"),
        ("pytest {}", "PYTHONPATH=. pytest {}", "ModuleNotFoundError: No module named 'app'",
         "added_prefix", "`PYTHONPATH=. pytest …`"),
        ("bun {}.ts", "bun install && bun run build && bun {}.ts",
         "SyntaxError: Export named 'a' not found in module '/w/dist/index.js'.",
         "setup_first", "Run `bun install`, then `bun run build`"),
    ],
)  # fmt: skip
def test_a_call_that_worked_in_another_form_is_told_by_the_class_of_its_change(
    failed: str, worked: str, error: str, kind: str, advice: str
) -> None:
    def mended(script: Script) -> None:
        name = script.word()
        script.fail(failed.format(name), error.format(name))
        script.call(worked.format(name), "ok", exit_code=0)

    [found] = proposed(with_sessions(fleet(1, 30, {}), mended, [3, 9, 20]))
    assert (found.kind, found.helped, found.sessions) == (kind, 3, 3)
    assert advice in found.do
    assert not any(f"{n}." in found.when + found.do for n in (3, 9, 20)), "nothing of a session"
    assert proposed(with_sessions(fleet(1, 30, {}), mended, [3, 9])) == [], "two are too few"


def test_what_helped_in_three_of_five_tasks_is_no_lesson() -> None:
    def mended(script: Script) -> None:
        script.fail("python a.py", "zsh: command not found: python")
        script.call("python3 a.py", "ok", exit_code=0)

    def otherwise(script: Script) -> None:
        script.fail("python a.py", "zsh: command not found: python")
        script.call("brew install python", "ok", exit_code=0)
        script.call("python a.py", "ok", exit_code=0)

    cases = with_sessions(fleet(1, 30, {}), mended, [3, 9, 20])
    assert len(proposed(cases)) == 1
    assert proposed(with_sessions(cases, otherwise, [4, 10])) == []


def test_sessions_of_one_task_count_once() -> None:
    def mended(script: Script) -> None:
        script.fail("python a.py", "zsh: command not found: python")
        script.call("python3 a.py", "ok", exit_code=0)

    cases = with_sessions(fleet(1, 30, {}), mended, [3, 9, 20])
    cases[9] = replace(cases[9], task=cases[3].uid)
    assert proposed(cases) == []


def test_an_edit_that_needed_a_read_is_told_for_that_agent() -> None:
    def refused(script: Script) -> None:
        script.call(
            "app.py",
            "File has not been read yet. Read it first before writing to it.",
            action="edit",
            tool="Edit",
            files=("/w/app.py",),
            is_error=True,
        )
        script.call("app.py", "text", action="read", files=("/w/app.py",))
        script.call("app.py", "ok", action="edit", tool="Edit", files=("/w/app.py",))

    cases = [
        replace(case, agent="one") for case in with_sessions(fleet(1, 30, {}), refused, [3, 9, 20])
    ]
    [found] = proposed(cases)
    assert (found.kind, found.agent, found.helped) == ("read_first", "one", 3)
    assert "read tool" in found.do


def test_what_tells_no_way_out_becomes_no_lesson() -> None:
    told = {"recovery", "correction", "flaky_test"} | {
        name for name, miner in load_miners().items() if miner.find_ends is change_lessons.find_ends
    }
    for name in sorted(set(PLANTS) - told):
        assert proposed(fleet(1, 40, {name: [3, 9, 20, 25]})) == [], name


def test_a_second_look_at_every_kind_changes_nothing() -> None:
    cases = with_sessions(
        fleet(1, 40, {"flaky_test": [2, 8, 15], "recovery": [4, 12, 16], "failing_skill": [5, 6]}),
        stormy,
        [3, 9, 21],
    )
    for n in (11, 13, 14, 17, 18):
        cases[n] = replace(cases[n], skills=(Skill("refactor", True, "strong"),))
    known = proposed(cases)
    assert sorted(one.kind for one in known) == ["flaky", "retries", "setup_first", "skill"]
    assert proposed(cases, known) == []
