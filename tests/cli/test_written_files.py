"""The files that `export`, `retro --html` and `backup` write: whole, for their owner alone, and
never over something else by accident."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from runlore.errors import StoreError
from runlore.files.private_file import write_private_file
from runlore.store import open_store
from tests.cli.conftest import Run

WRITERS = [
    ("export", "alpha", "-o", "out"),
    ("retro", "--days", "3650", "--html", "out"),
    ("backup", "out"),
]
posix = pytest.mark.skipif(os.name != "posix", reason="modes, devices and signals are of POSIX")


@pytest.fixture
def folder(stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is where commands run."""
    made = tmp_path / "written"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


@pytest.mark.parametrize("words", WRITERS, ids=lambda words: words[0])
def test_an_existing_file_is_replaced_only_when_asked_to(
    run: Run, folder: Path, words: tuple[str, ...]
) -> None:
    file = folder / "out"
    file.write_text("precious")
    refused = run(*words)
    assert (refused.exit_code, "--force" in refused.stderr) == (1, True)
    assert file.read_text() == "precious"
    assert run(*words, "--force").exit_code == 0
    assert file.read_bytes() != b"precious"
    assert [path.name for path in folder.iterdir()] == ["out"]


@posix
@pytest.mark.parametrize("words", WRITERS, ids=lambda words: words[0])
def test_what_is_written_is_for_its_owner_also_where_others_could_read(
    run: Run, folder: Path, words: tuple[str, ...]
) -> None:
    file = folder / "out"
    file.write_text("for all")
    file.chmod(0o644)
    assert run(*words, "--force").exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.unlink()
    assert run(*words).exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@posix
@pytest.mark.parametrize("words", WRITERS, ids=lambda words: words[0])
def test_a_pipe_or_a_device_is_not_replaced(run: Run, folder: Path, words: tuple[str, ...]) -> None:
    os.mkfifo(folder / "out")
    result = run(*words, "--force")
    assert (result.exit_code, "is not a file" in result.stderr) == (1, True)
    assert stat.S_ISFIFO(os.stat(folder / "out").st_mode)
    (folder / "out").unlink()
    (folder / "out").symlink_to("/dev/null")
    assert "is not a file" in run(*words, "--force").stderr
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@posix
def test_a_store_is_not_copied_over_a_pipe(stored: Path, home: Path, folder: Path) -> None:
    os.mkfifo(folder / "out")
    with (
        closing(open_store(str(home / ".runlore/runlore.db"), read_only=True)) as store,
        pytest.raises(StoreError, match="is not a file"),
    ):
        store.backup(folder / "out")
    assert stat.S_ISFIFO(os.stat(folder / "out").st_mode)


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "out.html"
    file.write_text("precious")

    def texts() -> Iterator[str]:
        yield "half of it"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_private_file(file, texts())
    assert file.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "out.html"]


@posix
@pytest.mark.parametrize(("answer", "text"), [("n", "precious"), ("y", "# Fix the build\n")])
def test_a_person_is_asked_before_a_file_is_replaced(folder: Path, answer: str, text: str) -> None:
    (folder / "out").write_text("precious")
    ours, theirs = os.openpty()  # type: ignore[attr-defined, unused-ignore] # Not on Windows.
    os.write(ours, f"{answer}\n".encode())
    words = [sys.executable, "-m", "runlore", *WRITERS[0]]
    process = subprocess.run(words, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "out is there already. Replace it?" in shown
    assert process.returncode == (answer != "y")
    assert (folder / "out").read_text().startswith(text)


@posix
def test_a_link_to_a_file_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to("real.html")
    write_private_file(tmp_path / "link.html", ["new"])
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "new"


@contextmanager
def unfinished_backup(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose backup into this folder does not go on."""
    script = (
        "import sys, time\n"
        "from runlore import config\n"
        "from runlore.cli.writing import tidy_end\n"
        "from runlore.store import open_store\n"
        "from pathlib import Path\n"
        "with tidy_end():\n"
        "    store = open_store(config.load().store, read_only=True)\n"
        "    store.backup(Path('copy.db'), lambda done, total: time.sleep(600))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], cwd=folder)
    try:
        while not list(folder.iterdir()):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_backup_that_is_told_to_end_leaves_nothing(folder: Path, number: int) -> None:
    with unfinished_backup(folder) as process:
        process.send_signal(number)
        assert process.wait(30) != 0
    assert list(folder.iterdir()) == []


@posix
def test_what_a_killed_backup_left_goes_with_the_next(run: Run, folder: Path) -> None:
    with unfinished_backup(folder):
        assert run("backup", "other.db").exit_code == 0
        assert len(list(folder.iterdir())) == 2, "a running backup keeps what it has"
    assert len(list(folder.iterdir())) == 2
    assert run("backup", "third.db").exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["other.db", "third.db"]


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_an_export_that_is_ended_leaves_the_old_file_and_no_half_one(
    tmp_path: Path, number: int
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "out.html"
    file.write_text("precious")
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from runlore.cli.writing import tidy_end\n"
        "from runlore.files.private_file import write_private_file\n"
        "def texts():\n"
        "    yield 'half of it' * 100_000\n"
        "    print(flush=True)\n"
        "    time.sleep(600)\n"
        "with tidy_end():\n"
        "    write_private_file(Path('out.html'), texts())\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(30) != 0
    assert file.read_text() == "precious"
    left = [path.name for path in folder.iterdir() if path != file]
    if number == signal.SIGKILL:  # Nothing can tidy up then: what is left is not named as a result.
        assert all(name.startswith(".runlore-") for name in left)
    else:
        assert left == []
