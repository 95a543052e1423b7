"""Progress bars: drawn on a terminal, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runlore.cli.progress import Progress

DRAW = """
import threading
import time
from runlore.cli.progress import Progress

with Progress() as progress:
    progress.start(10, 100_000_000)
    time.sleep(0.2)
    progress.advance(4, 50_000_000)
    progress.show("sessions", 1, 7)
    time.sleep(0.2)
    progress.show("sessions", 3, 7)
    progress.start(2, 0, "digests")
    time.sleep(0.2)
    progress.advance(1, 0)
    threads = threading.active_count()
print("done", threads)
"""


def test_nothing_is_drawn_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.start(10, 100)
        progress.advance(4, 50)
        progress.show("sessions", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_nothing_is_drawn_of_nothing_and_rich_is_not_imported() -> None:
    code = (
        "import sys; from runlore.cli.progress import Progress; Progress().start(0, 0);"
        " print('rich' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "False\n"
    )


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_a_terminal_shows_items_bytes_and_steps_and_is_left_clean() -> None:
    import pty

    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"}
    env.pop("NO_COLOR", None)
    with subprocess.Popen(
        [sys.executable, "-c", DRAW], stderr=follower, stdout=subprocess.PIPE, env=env, text=True
    ) as process:
        os.close(follower)
        drawn = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # The other end is closed.
                break
            if not part:
                break
            drawn += part
        assert process.stdout is not None
        assert process.stdout.read() == "done 1\n"  # No thread: workers are forked.
    os.close(leader)
    text = drawn.decode()
    assert "4/10 files" in text
    assert "50.0/100.0 MB" in text
    assert "3/7 sessions" in text
    assert "1/2 digests" in text
    assert text.rstrip().endswith("\x1b[2K")  # The last line is erased.
