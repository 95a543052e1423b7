"""Situations that every team meets: each becomes a lesson once three tasks hold it.

The sessions are made up, but go through the real digest; each has its own names, and other steps
between the failure and the success.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runlore.lessons import Lesson
from tests.lessons.test_curate import proposed
from tests.lessons.test_drafts import with_sessions
from tests.mine.fleet import Script, fleet

Plant = Callable[[Script], None]


def learned(plant: Plant, numbers: tuple[int, ...] = (3, 9, 20)) -> list[Lesson]:
    return proposed(with_sessions(fleet(1, 30, {}), plant, list(numbers)))


def fine(script: Script, command: str, output: str = "ok") -> None:
    script.call(command, output, exit_code=0)


def quotes_url(script: Script) -> None:
    url = f"https://example.com/{script.word()}?page={script.number}"
    script.fail(f"curl -s {url} | head -5", f"(eval):1: no matches found: {url}")
    fine(script, f"curl -s '{url}' | head -5", "<html> a page")


def quotes_separator(script: Script) -> None:
    one, other = f"{script.word()}.py", f"{script.word()}.py"
    script.fail(f"sed -n 1,9p {one}; echo ===; sed -n 1,9p {other}", "(eval):1: == not found")
    fine(script, f"sed -n 1,9p {one}; echo '==='; sed -n 1,9p {other}", "import os\n===\nimport re")


def leaves_out_timeout(script: Script) -> None:
    name = script.word()
    script.fail(f"timeout 60 go test ./{name}", "(eval):1: command not found: timeout")
    fine(script, f"go test ./{name}", f"ok  \t{name}\t0.3s")


def sets_pythonpath(script: Script) -> None:
    module = script.word()
    missing = f"ModuleNotFoundError: No module named '{module}'"
    script.test(failed=1, command="pytest -q", said=f"E   {missing}\n1 error in 0.2s")
    fine(script, f"cat {module}/__init__.py", "x = 1")
    script.test(command="PYTHONPATH=. pytest -q", said="7 passed in 0.3s")


def runs_with_uv(script: Script) -> None:
    name = script.word()
    script.fail(
        f"python scripts/{name}.py",
        f"Traceback (most recent call last):\nModuleNotFoundError: No module named '{name}'",
    )
    fine(script, "cat pyproject.toml", "[tool.uv]")
    fine(script, f"uv run python scripts/{name}.py", "written")


def installs_and_builds(script: Script) -> None:
    """The same repository in a fresh worktree: another program is missing each time."""
    tool, task = (("biome", "lint"), ("tsc", "typecheck"), ("vite", "dev"))[script.number % 3]
    script.fail(f"bun run {task}", f"bash: line 1: {tool}: command not found")
    fine(script, "cat package.json", "{}")
    fine(script, "bun install", "1712 packages installed")
    fine(script, "bun run build", "Build success")
    fine(script, f"bun run {task}", "no errors")


def builds_for_export(script: Script) -> None:
    """Other words behind the file each time, and a pipe that hides the status."""
    name = script.word()
    script.fail(
        f"bun src/cli.ts {name} --help",
        f"SyntaxError: Export named '{name}' not found in module '/w/{name}/dist/index.js'.",
    )
    fine(script, f"grep -rn {name} src", "src/index.ts:1")
    for _ in range(2):
        fine(script, "bun run build", "Build success")
    fine(script, f"bun src/cli.ts {name} run | head -20", f"usage: {name}")


SAID = (
    "Nein, bitte keine Docstrings in Testdateien schreiben",
    "Falsch: in Testdateien stehen keine Docstrings, bitte nicht schreiben",
    "Nein, Testdateien haben keine Docstrings, das hatte ich gesagt",
)


def is_corrected(script: Script) -> None:
    script.edit(f"/w/tests/{script.word()}.py")
    script.add("assistant_msg", f"{script.word()} hat jetzt Tests.")
    script.add("user_msg", SAID[script.number % 3])
    script.edit(f"/w/tests/{script.word()}.py")


@pytest.mark.parametrize(
    ("plant", "kind", "when", "do", "avoid"),
    [
        (quotes_url, "quoted", "an address with a query", "in single quotes", "without quotes"),
        (quotes_separator, "quoted", "begins with `=`", "Quote it", "Bare lines of `=`"),
        (leaves_out_timeout, "left_out", "`timeout` on a Mac", "without `timeout`", "`timeout`"),
        (sets_pythonpath, "added_prefix", "`pytest` fails with `ModuleNotFoundError",
         "`PYTHONPATH=. pytest …`", "imports"),
        (runs_with_uv, "added_prefix", "a project that is run through `uv run",
         "Run it as `uv run python …`", "Installing"),
        (installs_and_builds, "setup_first", "in a fresh checkout or worktree",
         "Run `bun install`, then `bun run build`", "imports, exports or versions"),
        (builds_for_export, "setup_first", "Export named <*> not found", "Run `bun run build`",
         "imports, exports or versions"),
        (is_corrected, "correction", "people had to say this in 3 tasks", "Docstrings", ""),
    ],
)  # fmt: skip
def test_what_three_tasks_show_is_proposed_with_when_do_and_avoid(
    plant: Plant, kind: str, when: str, do: str, avoid: str
) -> None:
    [lesson] = learned(plant)
    assert (lesson.kind, lesson.sessions, lesson.helped) == (kind, 3, 3)
    assert when in lesson.when
    assert do in lesson.do
    assert avoid in lesson.avoid
    assert learned(plant, (3, 9)) == [], "two tasks are too few"


def test_any_word_that_had_to_be_quoted_is_told_with_its_character() -> None:
    def quotes_caret(script: Script) -> None:
        file = f"{script.word()}.py"
        script.fail(f"git show HEAD^:{file} | cat", f"zsh: no matches found: HEAD^:{file}")
        fine(script, f"git show 'HEAD^:{file}' | cat", "import os")

    [lesson] = learned(quotes_caret)
    assert (lesson.kind, lesson.helped) == ("quoted", 3)
    assert "bare `^`" in lesson.when
    assert "single quotes" in lesson.do


def test_what_one_task_did_ten_times_is_not_what_most_tasks_did() -> None:
    def busy(script: Script) -> None:
        builds = script.number != 9
        for _ in range(1 if builds else 8):
            name = script.word()
            script.fail(f"bun {name}.ts", f"error: Cannot find module '{name}'")
            fine(script, "bun run build" if builds else "bun run generate")
            fine(script, f"bun {name}.ts", "started")

    [lesson] = learned(busy, (3, 9, 20, 25))
    assert lesson.do.startswith("Run `bun run build` at the root")
