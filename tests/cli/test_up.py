"""`runlore up` and `runlore serve`, as processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="there is no Ctrl-C to send to another process"
)


@contextmanager
def started(*words: str, **env: str) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """The process, the address that it told, and what it said until then."""
    command = [sys.executable, "-m", "runlore", *words]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    assert process.stderr is not None
    said: list[str] = []
    try:
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"runlore is at (\S+);", line):
                yield process, found[1], said
                break
        else:
            raise AssertionError("".join(said))
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def session(home: Path, name: str, *texts: str) -> None:
    folder = home / ".claude/projects/-home-x"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.jsonl", "a") as file:
        for n, text in enumerate(texts):
            record = {
                "type": "user", "uuid": f"{name}-{text[:9]}-{n}", "parentUuid": None,
                "sessionId": name, "cwd": "/home/x",
                "timestamp": "2026-03-01T10:00:00.000Z",
                "message": {"role": "user", "content": text},
            }  # fmt: skip
            file.write(json.dumps(record) + "\n")


def test_up_shows_the_demo_where_nothing_is_found_and_ends_when_interrupted(home: Path) -> None:
    with started("up", "--port", "0") as (process, url, said):
        assert "this is the demo" in "".join(said)
        assert "Fix the flaky checkout test" in get(f"{url}/sessions")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_an_end_is_quiet_also_while_a_page_listens(home: Path) -> None:
    with started("up", "--port", "0") as (process, url, _):
        with urllib.request.urlopen(f"{url}/events", timeout=20) as told:
            assert told.readline() == b"retry: 3000\n"
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=20)
        assert (process.returncode, "Traceback" in rest, "ERROR" in rest) == (0, False, False)


def wait_for(text: str, url: str) -> str:
    """Return the page as soon as it has the text."""
    for _ in range(60):
        if text in (page := get(url)):
            return page
        time.sleep(0.5)
    raise AssertionError(f"{text!r} was not shown")


def test_up_reads_what_is_there_and_what_is_written_meanwhile(home: Path) -> None:
    session(home, "11111111-aaaa", "find the lost sock")
    with started("up", "--port", "0") as (_, url, said):
        assert "demo" not in "".join(said)
        wait_for("find the lost sock", f"{url}/sessions")
        wait_for("Everything is read", f"{url}/x/reading")
        session(home, "22222222-bbbb", "and now the other one")
        wait_for("and now the other one", f"{url}/sessions")


def test_the_demo_is_shown_when_nothing_of_what_agents_left_is_stored(home: Path) -> None:
    session(home, "11111111-aaaa", "find the lost sock")
    (home / ".runlore").mkdir(exist_ok=True)
    (home / ".runlore/config.toml").write_text('[exclude]\npaths = ["/home/x"]\n')
    with started("up", "--port", "0") as (_, url, said):
        assert "demo" not in "".join(said), "it is not known yet"
        wait_for("Fix the flaky checkout test", f"{url}/sessions")


def test_an_end_in_the_middle_of_reading_is_quiet_and_the_next_sync_goes_on(home: Path) -> None:
    for number in range(400):
        texts = [f"sock {number} {n} " * 40 for n in range(20)]
        session(home, f"{number:08}-aaaa", *texts)
    with started("up", "--port", "0") as (process, url, _):
        wait_for("newest first", f"{url}/x/reading")
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=30)
    assert (process.returncode, "Traceback" in rest, "ERROR" in rest) == (0, False, False)
    words = [sys.executable, "-m", "runlore", "sync", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(done.stdout)["found"]
    assert (sum(found.values()), found.keys() - {"new", "grown", "unchanged"}) == (400, set())


def test_the_demo_is_left_for_the_first_session_of_ones_own_and_stays_as_it_was(home: Path) -> None:
    with started("up", "--port", "0") as (_, url, _said):
        time.sleep(1.5)  # Until it watches.
        session(home, "11111111-aaaa", "find the lost sock")
        page = wait_for("find the lost sock", f"{url}/sessions")
        assert "Fix the flaky checkout test" not in page
    again = subprocess.run(
        [sys.executable, "-m", "runlore", "demo"], capture_output=True, text=True, timeout=60
    )
    # It refuses a store with sessions that are not invented.
    assert again.returncode == 0, again.stderr


def test_once_says_where_it_would_be_and_ends(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runlore", "up", "--once", "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "runlore would be at http://localhost:" in done.stderr


def test_another_address_needs_a_token_that_is_printed_once(home: Path) -> None:
    with started("serve", "--host", "0.0.0.0", "--port", "0") as (process, url, _):
        assert process.stderr is not None
        token = process.stderr.readline().split()[-1]
        port = url.rpartition(":")[2]
        assert len(token) >= 32
        assert "asks for the token" in get(f"http://127.0.0.1:{port}/")
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/live", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(asked, timeout=20) as answer:
            assert token not in answer.read().decode()


def test_a_token_of_ones_own_is_not_printed(home: Path) -> None:
    with started(
        "serve", "--host", "0.0.0.0", "--port", "0", RUNLORE_TOKEN="my-own-long-token-of-mine"
    ) as (process, _, said):
        process.send_signal(signal.SIGINT)
        out, rest = process.communicate(timeout=20)
    assert "my-own-long-token" not in "".join(said) + out + rest


def test_a_port_that_is_taken_is_told() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = [sys.executable, "-m", "runlore", "serve", "--port", str(taken.getsockname()[1])]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "--port chooses another" in done.stderr) == (1, True)
