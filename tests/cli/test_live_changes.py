"""`runlore live`: what changes a session, and records that come in through a pipe."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runlore.live.log import SessionStore
from tests.cli.conftest import Run


@pytest.fixture
def store(home: Path) -> Iterator[SessionStore]:
    made = SessionStore(home / ".runlore/live")
    yield made
    made.close()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def talk(store: SessionStore) -> str:
    with store.create(id="talk-1") as session:
        session.append(user("one"))
        session.append(user("two"))
    return "talk-1"


def texts(store: SessionStore, id: str) -> list[str]:
    with store.open(id) as session:
        return [message["content"] for message in session.messages()]


def test_a_session_is_retitled_compacted_cleared_and_deleted(
    run: Run, store: SessionStore, talk: str
) -> None:
    assert run("live", "retitle", "latest", "A \x1b[2Jtitle").stdout.startswith(
        "talk-1: its title is"
    )
    assert store.open(talk).meta.title == "A \x1b[2Jtitle"
    done = json.loads(run("live", "compact", talk, "so far", "--upto", "1", "--json").stdout)
    assert done == {"session": talk, "seq": 4}
    assert "so far" in str(texts(store, talk)[0])
    assert texts(store, talk)[-1] == "two"
    assert "nothing is in view" in run("live", "clear", talk).stdout
    assert texts(store, talk) == []
    assert "trash" in run("live", "delete", talk).stdout
    assert store.trash() == [talk]
    assert run("live", "delete", talk).exit_code != 0


def test_old_logs_are_imported_once(run: Run, store: SessionStore, tmp_path: Path) -> None:
    old = tmp_path / "old"
    (old / "chat").mkdir(parents=True)
    (old / "chat/meta.json").write_text(json.dumps({"id": "chat", "title": "Old"}))
    (old / "chat/messages.jsonl").write_text(json.dumps(user("hello")) + "\n{ damaged\n")
    (imported,) = json.loads(run("live", "import", str(old), "--json").stdout)
    assert imported["session"] == "chat"
    assert imported["added"] == 1
    assert imported["problems"]
    assert "0 records added" in run("live", "import", str(old / "chat")).stdout
    assert texts(store, "chat") == ["hello"]


class Pipe:
    """`runlore live append --stdin`, as another program uses it."""

    def __init__(self, store: SessionStore, *words: str) -> None:
        address = ["--dir", str(store.path)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "runlore", "live", *address, "append", *words, "--stdin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate(timeout=30)
        assert self.process.returncode == 0


def test_each_line_of_a_pipe_is_answered_when_it_is_in_the_log(store: SessionStore) -> None:
    pipe = Pipe(store, "new-1")
    first = pipe.ask({"type": "message", "payload": user("one"), "key": "k"})
    assert (first["seq"], first["type"], first["key"]) == (1, "message", "k")
    assert texts(store, "new-1") == ["one"]  # While the pipe is open.
    assert pipe.ask({"type": "message", "payload": user("one"), "key": "k"}) == first
    batch = pipe.ask([{"type": "note", "payload": {"n": n}} for n in range(2)])
    assert [record["seq"] for record in batch] == [2, 3]
    with store.open("new-1") as session:
        session.append(user("by someone else"))
    assert pipe.ask({"type": "note", "payload": {}})["seq"] == 5
    pipe.end()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{ no json", "log"),
        ({"type": "message", "payload": {"role": "user"}}, "log"),
        ({"type": "note"}, "log"),
        ({"type": "note", "payload": {}, "colour": "red"}, "log"),
        ({"type": "lease", "payload": {"epoch": 9}}, "log"),
        ({"type": "note", "payload": {}, "key": 3}, "log"),
        ({"type": "note", "payload": {"n": 2}, "key": "k"}, "conflict"),
        ("[" * 100_000, "log"),
        ([], None),
    ],
)
def test_a_line_that_is_refused_says_why_and_the_next_one_counts(
    store: SessionStore, line: Any, code: str | None
) -> None:
    pipe = Pipe(store, "new-1")
    pipe.ask({"type": "note", "payload": {"n": 1}, "key": "k"})
    answer = pipe.ask(line)
    assert answer == [] if code is None else answer["error"]["code"] == code
    assert pipe.ask({"type": "note", "payload": {}})["seq"] == 2
    pipe.end()


def test_an_exclusive_pipe_keeps_others_out(store: SessionStore) -> None:
    pipe = Pipe(store, "new-1", "--exclusive")
    assert pipe.ask({"type": "note", "payload": {}})["seq"] == 2
    other = Pipe(store, "new-1")
    assert other.ask({"type": "note", "payload": {}})["error"]["code"] == "session_busy"
    pipe.end()
    assert other.ask({"type": "note", "payload": {}})["seq"] == 4
    other.end()
