"""What the README shows can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from runlore.cli import cli
from tests.cli.conftest import Run

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
TYPED = re.findall(r"^\$ runlore (.+?)(?: +#.*)?$", README, re.MULTILINE)
SHOWN = [
    (words, text)
    for block in re.findall(r"^```\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    for words, text in re.findall(r"^\$ runlore (.+)\n((?:(?!\$ ).*\n)+)", block, re.MULTILINE)
]
"""The examples with what they print."""


def test_the_examples_work_on_the_demo(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert TYPED[0] == "demo"
    assert "\n$ export RUNLORE_HOME=~/.runlore/demo " in README
    for words in TYPED:
        if "--exec" in words:
            continue
        result = run(*shlex.split(words))
        assert (result.exit_code, bool(result.stdout)) == (0, True), words
        monkeypatch.setenv("RUNLORE_HOME", str(home / ".runlore/demo"))


def test_the_examples_print_what_the_readme_shows(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`…` alone on a line stands for any number of lines that are left out."""
    monkeypatch.setenv("COLUMNS", "96")
    run("demo")
    monkeypatch.setenv("RUNLORE_HOME", str(home / ".runlore/demo"))
    assert len(SHOWN) == 6
    for words, text in SHOWN:
        printed = run(*shlex.split(words)).output
        assert text.startswith(printed.partition("\n")[0]), words
        at = 0
        for part in re.split(r"^…\n", text, flags=re.MULTILINE):
            assert part in printed[at:], (words, part, printed[at:])
            at = printed.index(part, at) + len(part)


def test_every_command_is_mentioned() -> None:
    assert not [
        name
        for name in cli.list_commands(click.Context(cli))
        if not re.search(rf"`?(?:runlore |`){name}\b", README)
    ]
