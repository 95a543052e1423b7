"""An ordinary call is read without click, and means what it means to click."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runlore.cli import _click, _group, _plain, cli
from runlore.config import Config
from runlore.digesting import digest_stale
from tests.cli.conftest import Run
from tests.ledgers import call, keep, open_ledger

CLI = Path(_plain.FOLDER)


def declared() -> Iterator[tuple[tuple[str, ...], _click.Command]]:
    """Every command that is not a group, by its words."""
    for name in _plain.names():
        command = __import__(f"runlore.cli.{name}", fromlist=["command"]).command
        if isinstance(command, _click.Group):
            yield from (((name, below), one) for below, one in command.commands.items())
        else:
            yield (name,), command


COMMANDS = dict(declared())
VALUES = (
    "5", "0", "-1", "007", "1_0", "day", "model", "ended", "tokens", "only", "cost", "2026-08-01", "nonsense", "", ".", "x y", "-",
    "--", "-x", "--help", "*", "٣", "relevance", "on", "latest", "99999999999999999999",
)  # fmt: skip


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, ...]:
    """The words of a call: options of the command, whole and in part, with values that fit and others."""
    path = draw(st.sampled_from(sorted(COMMANDS)))
    names = [name for param in COMMANDS[path].params if param.is_option for name in param.names]
    word = st.one_of(
        st.sampled_from(VALUES),
        st.sampled_from(names or ["--json"]),
        st.builds("{}={}".format, st.sampled_from(names or ["--json"]), st.sampled_from(VALUES)),
    )
    return (*path, *draw(st.lists(word, max_size=6)))


def by_click(words: tuple[str, ...]) -> dict[str, Any] | None:
    """What click takes these for; None for a mistake, or when it answers itself."""
    path = next(path for path in COMMANDS if words[: len(path)] == path)
    try:
        return _group.made(COMMANDS[path]).make_context(path[-1], list(words[len(path) :]), parent=click.Context(cli)).params
    except (click.ClickException, click.exceptions.Exit):
        return None


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(calls())
def test_what_is_read_without_click_is_what_click_reads(words: tuple[str, ...]) -> None:
    call = _plain.read(words)
    if call is not None:
        assert call.steps[-1].values == by_click(words)


@pytest.mark.parametrize(
    "words",
    [
        "ls", "ls --all --json", "ls -n 5 --sort=tokens --repo api", "ls --since 2026-08-01 --no-pager", "usage",
        "usage --by model --days 7", "usage --statusline", "usage --csv --since 7d", "show latest --full", "search some words -not",
        "sync", "sync --json", "live ls", "--no-pager ls", "hooks status", "doctor", "agents", "forget one two", "file src/x.py",
        "ls --fields uid --offset 3",
    ],
)  # fmt: skip
def test_ordinary_calls_are_read_without_click(words: str) -> None:
    assert _plain.read(words.split()) is not None


@pytest.mark.parametrize(
    "words",
    [
        "", "--help", "ls --help", "help ls", "nonsense", "ls --nonsense", "ls --limit", "ls --limit none", "ls -n0", "ls --lim 5",
        "ls --all=1", "ls word", "usage --by nothing", "usage --days 0", "live", "live nonsense", "mcp", "resume", "ls --agent nobody",
        "--version ls",
    ],
)  # fmt: skip
def test_what_needs_an_answer_of_click_s_is_left_to_it(words: str) -> None:
    assert _plain.read(words.split()) is None


def test_a_completion_is_click_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_RUNLORE_COMPLETE", "bash_complete")
    assert _plain.read(["ls"]) is None


CALLS = [
    "ls", "ls --json", "ls --all", "ls --json --fields uid,title", "ls --fields nothing", "ls --max-tokens 300", "ls --offset 1",
    "ls --repo none", "ls --since soon", "--no-pager ls", "usage", "usage --json", "usage --csv", "usage --by session",
    "usage --csv --json", "usage --statusline --json", "usage --timezone Nowhere", "usage --timezone Nowhere --json",
    "usage --days 3 --since 1d", "usage --explain latest", "usage --check", "show alpha", "show alpha --event 99", "show nobody",
    "show nobody --json", "show --raw --full", "search rain", "search zebra", "search zebra --fields total,hits", "search -- -x",
    "search (", "agents", "file nowhere.py", "live ls", "live show", "live ls --json", "live rewind x", "live --dir . ls", "forget",
    "forget alpha beta", "hooks status", "hooks install nobody", "mcp status", "mcp snippet", "copy a b", "commit zzz", "doctor",
    "resume alpha", "skills --window x", "help ls", "ls --help", "live --help", "sync --watch --dry-run", "sync --root .", "nonsense",
    "--nonsense", "ls --nonsense", "usage --by", "autostart status",
]  # fmt: skip


@pytest.mark.parametrize("words", CALLS)
def test_both_ways_print_the_same_and_end_the_same(run: Run, stored: Path, words: str) -> None:
    one = run(*words.split())
    other = CliRunner().invoke(cli, words.split(), prog_name="runlore")
    assert (one.exit_code, one.stdout, one.stderr) == (other.exit_code, other.stdout, other.stderr)


@pytest.mark.parametrize("words", ["ls", "ls --json", "show alpha", "live ls"])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(28, "No space left"), ValueError("odd"), click.Abort(), click.UsageError("no")]
)
def test_an_error_is_told_in_the_same_way(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch, words: str, error: BaseException
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    Path(os.environ["RUNLORE_HOME"], "config.toml").touch()
    monkeypatch.setattr("runlore.config.load", fail)
    one = run(*words.split())
    other = CliRunner().invoke(cli, words.split(), prog_name="runlore")
    assert one.exit_code != 0
    assert (one.exit_code, one.stdout, one.stderr) == (other.exit_code, other.stdout, other.stderr)


def test_a_context_is_closed_when_its_command_fails(run: Run, stored: Path) -> None:
    assert run("show", "nobody").exit_code == 1
    assert _click.wanted() is None
    with pytest.raises(IndexError):
        _click.get_current_context()


# ── what is imported ─────────────────────────────────────────────────────────────────────────────────────────────────
HEAVY = {
    "_hashlib", "ast", "click", "dataclasses", "genai_prices", "importlib.metadata", "inspect", "multiprocessing", "pydantic", "re2",
    "rich", "runlore.redact", "shutil", "starlette", "subprocess", "tempfile", "tomllib", "typing_extensions", "watchfiles", "zoneinfo",
}  # fmt: skip
"""Each takes 2 ms or more, or brings what does. Instead of _hashlib there is `_hash.blake2b`; the rest can be imported where it is used."""

SHOW = (
    "import os, sys\n"
    "def told(_): print(*sys.modules, file=sys.stderr, flush=True)\n"
    "os._exit = sys.exit = told\n"
    "from runlore.cli import main\n"
    "main()"
)


@pytest.mark.parametrize(
    "words",
    ["ls", "ls --json", "ls --all", "usage", "usage --json", "usage --csv", "usage --by session", "usage --statusline", "usage --days 7"],
)
def test_a_list_and_a_report_import_nothing_heavy(stored: Path, words: str) -> None:
    assert sorted(imported(words) & {*HEAVY, "runlore.pipeline", "runlore.store.pieces", "runlore.store.sqlite", "zstandard"}) == []


SLOW = {"pathlib", "runlore.config", "runlore.model", "runlore.query", "runlore.store.contract"}
"""Together they take as long as the report itself."""


@pytest.mark.parametrize(
    "words",
    [
        "usage", "usage --json", "usage --by model", "usage --by session", "usage --by block --json", "usage --statusline",
        "usage --wasted", "usage --wasted --json",
    ],
)  # fmt: skip
def test_a_report_does_without_what_takes_longer_than_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    store = open_ledger(tmp_path)
    keep(store, [call("k1")])
    digest_stale(store, Config(home=tmp_path, store=store.url))
    store.close()
    monkeypatch.setenv("RUNLORE_HOME", str(tmp_path))
    assert sorted(imported(words) & {*SLOW, "json", "msgspec", "re", "typing"}) == []


@pytest.mark.parametrize("words", ["ls", "ls --json", "ls --all"])
def test_a_list_does_without_most_of_it(stored: Path, words: str) -> None:
    assert sorted(imported(words) & {*SLOW, "json"}) == []


def test_a_sync_with_nothing_new_imports_nothing_heavy(stored: Path) -> None:
    assert sorted(imported("sync") & {*HEAVY, "runlore.prepare", "runlore.prices"}) == []


def imported(words: str) -> set[str]:
    """The modules that a call has in the end."""
    program = [sys.executable, "-c", SHOW, *words.split()]
    result = subprocess.run(program, capture_output=True, text=True, check=True, env=os.environ, stdin=subprocess.DEVNULL)
    loaded = set(result.stderr.split())
    assert f"runlore.cli.{words.split()[0]}" in loaded
    return loaded


@pytest.mark.parametrize("file", sorted(CLI.glob("*.py")), ids=lambda file: file.name)
def test_only_the_group_imports_click(file: Path) -> None:
    """Everything else says `from . import _click as click`, and costs no time. Inside a function click may be imported."""
    found = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in found if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in found if isinstance(node, ast.ImportFrom) and not node.level}
    assert file.name == "_group.py" or not {name for name in names if name.partition(".")[0] == "click"}


# ── how it ends ──────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("thread", ["", "import threading, time; threading.Thread(target=lambda: time.sleep(0.05)).start()"])
def test_what_others_want_done_at_the_end_is_done(stored: Path, thread: str) -> None:
    program = f"import atexit\natexit.register(lambda: print('put away'))\n{thread}\nfrom runlore.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", program, "ls", "--all"], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("put away\n")
    assert "TITLE" in done.stdout
