"""The group of commands: help, start-up, and what becomes of errors."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import click
import msgspec
import pytest

from runlore import config as settings
from runlore.cli import cli, group
from runlore.errors import RunloreError
from tests.cli.conftest import Run

CONTEXT = click.Context(cli, info_name="runlore")
NAMES = cli.list_commands(CONTEXT)


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_a_command_fits_a_screen(
    name: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(name, "--help").stdout.splitlines()
    # The filters of a listing alone take half of a screen, and a report has more to choose.
    assert len(lines) <= (46 if name == "usage" else 34)
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.endswith("...") and not line.startswith("Usage:")], (
        "what is cut says too little"
    )


def test_the_help_of_the_group_fits_a_screen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("--help").stdout.splitlines()
    assert len(lines) <= len(NAMES) + 18
    assert all(any(line.startswith(f"  {name} ") for line in lines) for name in NAMES)


def test_a_command_that_no_group_names_is_listed_with_the_last(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {name for group in group.GROUPS.values() for name in group} <= set(NAMES)
    before = run("--help").stdout.partition(f"{group.REST}:")
    monkeypatch.setattr(group, "GROUPS", {"First": ("ls",), group.REST: ("demo",)})
    first, _, rest = run("--help").stdout.partition(f"{group.REST}:")
    assert ("\n  ls " in first, "\n  show " in first, "\n  show " in rest) == (True, False, True)
    assert "\n  show " in before[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_short_help_is_how_the_help_begins(name: str) -> None:
    command = cli.get_command(CONTEXT, name)
    assert command is not None
    assert command.help is not None
    assert f"{group.short_help(name)}." == command.help.partition("\n")[0]
    assert len(group.short_help(name)) <= 64, "longer ones wrap"


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"completion"}))
def test_every_command_with_data_gives_json_and_documents_its_shape(name: str) -> None:
    command = cli.get_command(CONTEXT, name)
    assert command is not None
    commands = command.commands if isinstance(command, click.Group) else {name: command}
    # That prints a text, as `completion` does.
    for each in (one for key, one in commands.items() if key != "snippet"):
        assert "is_json" in {param.name for param in each.params}
        assert "--json" in (each.help or "")


def test_the_version_is_told_before_click_is_imported() -> None:
    code = (
        "import runpy, sys; sys.argv = ['runlore', '--version'];"
        " runpy.run_module('runlore', run_name='__main__')"
    )
    result = python(f"{code}; print(*sys.modules, file=sys.stderr)")
    assert result.stdout.startswith("runlore 0.")
    assert not {"click", "msgspec", "apsw"} & set(result.stderr.split())


def test_the_version_is_the_same_where_click_tells_it(run: Run) -> None:
    assert (
        run("--version").stdout
        == python("import runlore; print('runlore', runlore.__version__)").stdout
    )


def test_help_imports_no_command() -> None:
    code = (
        "import sys; from runlore.cli import cli\ntry: cli.main(['--help'],"
        " prog_name='runlore')\nexcept SystemExit: print(*(name for name in sys.modules if"
        " name.startswith('runlore.')), file=sys.stderr)"
    )
    loaded = set(python(code).stderr.split())
    assert "runlore.cli.group" in loaded
    assert not {f"runlore.cli.commands.{name}" for name in NAMES} & loaded


HEAVY = {
    "genai_prices",
    "jinja2",
    "nh3",
    "psycopg",
    "pydantic",
    "pygments",
    "rich",
    "starlette",
    "watchfiles",
}


def modules_after(words: str) -> set[str]:
    """Return the modules that a call has imported in the end."""
    code = (
        "import sys; from runlore.cli import cli\n"
        f"try: cli.main({words.split()!r})\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    loaded = set(python(code).stderr.split())
    assert f"runlore.cli.commands.{words.split()[0]}" in loaded
    return loaded


@pytest.mark.parametrize(
    "words",
    ["ls", "ls --json", "usage", "usage --json", "usage --by session", "usage --statusline"],
)
def test_a_list_and_a_report_import_nothing_that_they_do_not_need(stored: Path, words: str) -> None:
    loaded = modules_after(words)
    assert (
        sorted(
            loaded
            & {*HEAVY, "multiprocessing", "re2", "runlore.sync.pipeline", "runlore.redact.engine"}
        )
        == []
    )


def test_a_sync_with_nothing_new_imports_nothing_heavy(stored: Path) -> None:
    assert sorted(modules_after("sync") & HEAVY) == []


def test_an_error_of_ours_is_one_line_and_exit_1(run: Run, home: Path) -> None:
    result = run("ls")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert (
        result.stderr
        == f"runlore: there is no store yet at {settings.load().store}; run `runlore sync`, or"
        " `runlore demo` for one to look at\n"
    )


def test_wrong_usage_is_exit_2(run: Run) -> None:
    assert run("ls", "--nonsense").exit_code == 2
    assert run("nonsense").exit_code == 2
    assert run("help", "nonsense").exit_code == 2
    assert run("ls", "--since", "soon").exit_code == 2
    assert run("ls", "--agent", "nobody").exit_code == 2


@pytest.mark.parametrize(
    ("typed", "meant"), [("sho", "show"), ("srch", "search"), ("sync", ""), ("xyzzy", "")]
)
def test_a_name_that_is_nearly_a_command_is_answered_with_it(
    run: Run, typed: str, meant: str
) -> None:
    text = run(typed, "--help").stderr
    assert (f"no such command '{typed}'; did you mean {meant}? " in text) == bool(meant)
    assert ("no such command" in text) == (typed != "sync")


def test_help_is_a_command_too(run: Run) -> None:
    assert run("help").stdout == run("--help").stdout
    assert run("help", "ls").stdout == run("ls", "--help").stdout
    approve = run("help", "lessons", "approve")
    assert approve.exit_code == 0
    assert approve.stdout == run("lessons", "approve", "--help").stdout
    assert run("help", "lessons", "nonsense").exit_code == 2
    assert "0 done, 1 failed" in run("help").stdout


@pytest.mark.parametrize("name", ["show", "ls"])
def test_what_pages_can_be_told_not_to_behind_the_command(
    run: Run, stored: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    paged: list[bool] = []
    monkeypatch.setattr(
        f"runlore.cli.commands.{name}.page", lambda lines, pager: paged.append(pager)
    )
    run(name)
    run(name, "--no-pager")
    run("--no-pager", name)
    assert paged == [True, False, False]


def test_a_bug_is_one_line_that_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("runlore.cli.commands.ls.open_store", broken)
    result = run("ls")
    assert result.exit_code == 1
    assert result.stderr.startswith("runlore: this is a bug")
    assert result.stderr.count("\n") == 1
    monkeypatch.setenv("RUNLORE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run("ls")


def test_a_key_that_is_a_folder_is_told_by_its_path(run: Run, root: Path, home: Path) -> None:
    (home / ".runlore/redact.key").mkdir(parents=True)
    result = run("sync")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"runlore: {home / '.runlore/redact.key'}: ")
    assert result.stderr.count("\n") == 1
    assert "bug" not in result.stderr


def test_a_damaged_store_is_sent_to_the_doctor(run: Run, stored: Path, home: Path) -> None:
    file = home / ".runlore/runlore.db"
    with closing(apsw.Connection(str(file))) as connection:
        schema = {
            page
            for (page,) in connection.execute(
                "select pageno from dbstat where name = 'sqlite_schema'"
            )
        }
    data = bytearray(file.read_bytes())
    for page in range(1, len(data) // 8192 + 1):
        if page not in schema:  # The store can be opened.
            data[(page - 1) * 8192 : (page - 1) * 8192 + 8] = b"\xff" * 8
    file.write_bytes(data)
    result = run("ls")
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        result.stderr
        == "runlore: the store is damaged: database disk image is malformed; run `runlore doctor`\n"
    )


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            apsw.BusyError("database is locked"),
            "the store is in use by another program; try again in a moment",
        ),
        (
            apsw.FullError("database or disk is full"),
            "the disk is full; what was stored before is safe",
        ),
        (apsw.IOError("disk I/O error"), "the store cannot be used: disk I/O error"),
        (
            apsw.ReadOnlyError("attempt to write a readonly database"),
            "the store cannot be used: attempt to write a readonly database",
        ),
        (
            msgspec.ValidationError("Expected `str`"),
            "the store is damaged: Expected `str`; run `runlore doctor`",
        ),
        (PermissionError(13, "Permission denied", "/x/y"), "/x/y: Permission denied"),
        (OSError("odd"), "odd"),
    ],
)
def test_an_error_of_the_machine_is_not_called_a_bug(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def fail_so() -> None:
        raise error

    monkeypatch.setattr("runlore.cli.commands.ls.open_store", fail_so)
    assert run("ls").stderr == f"runlore: {told}\n"


@pytest.mark.parametrize("words", ["--version", "--help", "sync", "ls"])
def test_without_a_console_there_is_no_output_and_no_error(stored: Path, words: str) -> None:
    code = (
        "import sys; sys.argv = ['runlore', {!r}]; sys.stdout = sys.stderr = None; from"
        " runlore.__main__ import main; main()"
    )
    result = python(code.format(words))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_escapes_in_an_error_do_not_reach_the_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RunloreError("bad \x1b[31mpath\x07\nsecond line")

    monkeypatch.setattr("runlore.cli.commands.ls.open_store", fail)
    assert run("ls").stderr == "runlore: bad path second line\n"


def test_an_interrupt_ends_quietly_with_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("runlore.cli.commands.ls.open_store", interrupt)
    result = run("ls")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "")


def test_an_interrupt_before_the_command_begins_ends_quietly_as_well(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("click.Group.parse_args", interrupt)
    result = run("ls")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "")


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="not every system has a disk that is always full"
)
@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["ls"],
        ["ls", "--help"],
        ["ls", "--json"],
        ["show", "alpha", "--raw"],
        ["agents"],
    ],
)
def test_a_full_disk_behind_the_output_is_told_once(stored: Path, words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        program = [sys.executable, "-m", "runlore", *words]
        result = subprocess.run(
            program, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    told = "No space left on device"
    if "--json" in words:
        assert (result.returncode, json.loads(result.stderr)["error"]) == (
            1,
            {"code": "system", "message": told, "hint": None},
        )
    else:
        assert (result.returncode, result.stderr) == (1, f"runlore: {told}\n")


@pytest.mark.skipif(
    os.name != "posix", reason="pipes that close early are a matter of signals elsewhere"
)
@pytest.mark.parametrize(
    "words", [["show", "alpha", "--json"], ["ls"], ["ls", "-n", "1"], ["--help"]]
)
def test_a_reader_that_has_had_enough_is_no_error(stored: Path, words: list[str]) -> None:
    words = [sys.executable, "-m", "runlore", *words]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.skipif(os.name != "posix", reason="as above")
def test_so_it_is_when_it_reads_what_is_told_as_well(stored: Path) -> None:
    words = [sys.executable, "-m", "runlore", "ls", "-n", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 0


def test_every_command_is_a_module_with_a_command() -> None:
    for name in NAMES:
        assert isinstance(
            importlib.import_module(f"runlore.cli.commands.{name}").command, click.Command
        )
