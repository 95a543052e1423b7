"""What the tests of commands share: a made-up agent with a few sessions, and a way to run a
command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from runlore.cli import cli
from tests import postgres
from tests.toy import Toy, line

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `runlore` with these words, in this process."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "40")

    def run_program(*words: str) -> Result:
        result = CliRunner().invoke(cli, list(words), prog_name="runlore")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run_program


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    yield from postgres.start()


@pytest.fixture
def root(home: Path, toy: Toy) -> Path:
    """Where the agent keeps its sessions: a first one with an error, and a newer one that was
    rewound."""
    made = home / ".toy"
    made.mkdir()
    (made / "alpha.jsonl").write_bytes(
        line(s="alpha", id="a1", text="please fix the build", at=0)
        + line(s="alpha", id="a2", up="a1", kind="tool_call", text="make all", call="c1", at=1)
        + line(
            s="alpha",
            id="a3",
            up="a2",
            kind="tool_result",
            text="line 1\nmake: *** No rule",
            call="c1",
            error=True,
            at=3,
        )
        + line(
            s="alpha",
            id="a4",
            up="a3",
            kind="edit",
            text="src/a.c\n@@\n-int a;\n+long a;",
            call="c2",
            at=4,
        )
        + line(s="alpha", id="a5", up="a4", kind="tool_result", text="done", call="c2", at=5)
        + line(
            s="alpha",
            id="a6",
            up="a5",
            kind="assistant_msg",
            text="It builds now.",
            tokens=1500,
            at=6,
        )
        + line(s="alpha", title="Fix the build")
    )
    (made / "beta.jsonl").write_bytes(
        line(s="beta", id="b1", text="write a poem", at=100)
        + line(s="beta", id="b2", up="b1", kind="assistant_msg", text="About what?", at=101)
        + line(s="beta", id="b3", up="b2", text="about rain", at=102)
        + line(s="beta", id="b4", up="b3", kind="assistant_msg", text="Drip, drop.", at=103)
        + line(s="beta", id="b5", up="b2", text="about snow", at=104)
        + line(s="beta", id="b6", up="b5", kind="assistant_msg", text="White, light.", at=105)
    )
    return made


@pytest.fixture
def stored(root: Path, run: Run) -> Path:
    """The same, synced."""
    assert run("sync").exit_code == 0
    return root
