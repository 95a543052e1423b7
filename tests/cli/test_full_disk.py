"""What still works when nothing more can be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runlore import config
from tests.cli.conftest import Run

if sys.platform == "win32":
    pytest.skip("Windows has no limit for the size of files", allow_module_level=True)

import resource


def run_on_full_disk(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the program without the right to make any file longer."""

    def forbid_writing() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    return subprocess.run(
        [sys.executable, "-m", "runlore", *words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=forbid_writing,
    )


def leave_index_out(store: str) -> None:
    """Remove the index of the log, as the last reader of a store does."""
    Path(f"{store}-shm").unlink(missing_ok=True)


@pytest.mark.parametrize("words", [("ls",), ("show", "alpha"), ("search", "build"), ("usage",)])
def test_a_store_on_a_full_disk_is_read(run: Run, stored: Path, words: tuple[str, ...]) -> None:
    leave_index_out(config.load().store)
    result = run_on_full_disk(*words)
    with_room = run(*words)
    assert (result.returncode, result.stdout) == (0, with_room.stdout)
    assert result.stderr == with_room.stderr


def test_what_is_only_in_the_log_is_read_from_a_full_disk(run: Run, stored: Path) -> None:
    store = config.load().store
    script = (
        "import apsw, os, sys; db = apsw.Connection(sys.argv[1]);"
        " db.execute(\"update sessions set name = 'From the log' where uid = 'toy:alpha'\");"
        " os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, store], check=True)
    assert os.path.getsize(f"{store}-wal")
    leave_index_out(store)
    assert "From the log" in run_on_full_disk("ls").stdout


def test_the_doctor_calls_no_store_damaged_because_the_disk_is_full(run: Run, stored: Path) -> None:
    store = config.load().store
    assert run("doctor").exit_code == 0
    leave_index_out(store)
    result = run_on_full_disk("doctor")
    assert (result.returncode, "the disk is full" in result.stdout) == (0, True), result.stdout


def test_a_command_that_writes_says_that_the_disk_is_full(run: Run, stored: Path) -> None:
    leave_index_out(config.load().store)
    result = run_on_full_disk("mark", "alpha", "--pin")
    assert (result.returncode, result.stderr.splitlines()[1:]) == (1, [])
    assert "the disk is full" in result.stderr
