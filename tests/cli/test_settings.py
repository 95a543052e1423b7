"""A configuration that cannot be used: the file, the key, and what could stand there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('raw = "no"', "raw = 'no' must be one of 'keep', 'drop'"),
        ("nope = 1", "nope is no setting; at the top there are: store, raw, sources, "),
        ('[exclude]\npath = ["x"]', "exclude.path is no setting; there are: paths, repos"),
        ('[exclude]\npaths = "x"', "exclude.paths = 'x' must be a list"),
        ("[exclude]\npaths = [1]", "exclude.paths[0] = 1 must be a text"),
        ('[sources.claude]\nroots = "x"', "sources.claude.roots = 'x' must be a list"),
        (
            "[sources.claude]\nalso = [{ path = 1 }]",
            "sources.claude.also[0].path = 1 must be a text",
        ),
        ("[sources.claude]\nenabled = 2", "sources.claude.enabled = 2 must be true or false"),
        ("sources = 3", "sources = 3 must be a table"),
        ('[domains]\n"a" = 1', "domains.a = 1 must be a text"),
        ("raw =", "Invalid value (at "),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_its_file(
    run: Run, home: Path, text: str, told: str
) -> None:
    file = home / ".runlore/config.toml"
    file.parent.mkdir()
    file.write_text(text)
    result = run("ls")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"runlore: {file}: {told}")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["ls", "usage"])
def test_a_home_that_is_a_file_is_told_as_such(run: Run, home: Path, command: str) -> None:
    (home / ".runlore").touch()
    assert (
        run(command).stderr
        == f"runlore: {home / '.runlore'} is not a folder; set RUNLORE_HOME to one\n"
    )
