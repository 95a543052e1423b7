"""A repository for Strands, compared call by call with the one of Strands in files."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

import pytest

from tests.live.frameworks import load

bridge, files, types, exceptions = load(
    "runlore.live.bridges.strands",
    "strands.session.file_session_manager",
    "strands.types.session",
    "strands.types.exceptions",
    extra="strands-agents",
)
pytestmark = pytest.mark.filterwarnings("default")


def make_message(number: int, text: str) -> Any:
    image = {"image": {"format": "png", "source": {"bytes": b"\0\1"}}}
    return types.SessionMessage.from_message(
        {"role": "user", "content": [{"text": text}, image]}, number
    )


def make_agent(name: str, step: int) -> Any:
    return types.SessionAgent(agent_id=name, state={"k": step}, conversation_manager_state={})


def test_every_call_answers_as_the_repository_in_files(address: str, tmp_path: Path) -> None:
    ours = bridge.RunloreRepository(address)
    theirs = files.FileSessionManager("other", storage_dir=str(tmp_path / "theirs"))

    def same(method: str, *args: Any) -> Any:
        answers = []
        for one in (ours, theirs):
            try:
                answers.append(getattr(one, method)(*copy.deepcopy(args)))
            except exceptions.SessionException:
                answers.append("refused")
        assert answers[0] == answers[1], method
        return answers[0]

    chance, counts = random.Random(2), dict[Any, int]()
    for step in range(250):
        id, name = chance.choice(["s1", "s2"]), chance.choice("ab")
        what = chance.choice("smmmmurxl")
        if what == "s":
            same("create_session", types.Session(session_id=id, session_type="AGENT"))
        elif same("read_session", id) is None:
            continue
        elif (id, name) not in counts:
            counts[id, name] = 0
            same("update_agent", id, make_agent(name, step))
            same("create_agent", id, make_agent(name, step))
        elif what == "m":
            same("create_message", id, name, make_message(counts[id, name], f"{step}"))
            counts[id, name] += 1
        elif what == "u":
            changed = make_message(chance.randrange(counts[id, name] + 1), "new")
            changed.redact_message = {"role": "user", "content": [{"text": "removed"}]}
            same("update_message", id, name, changed)
        elif what == "r":
            same("read_message", id, name, 1)
        elif what == "x":
            same("update_agent", id, make_agent(name, step))
            same("read_agent", id, name)
        else:
            for limit, offset in ((None, 0), (2, 0), (3, 2), (None, 4), (0, 0)):
                same("list_messages", id, name, limit, offset)
    ours.close()


def test_a_second_writer_is_refused_and_overwrites_nothing(address: str) -> None:
    one, other = bridge.RunloreRepository(address), bridge.RunloreRepository(address)
    one.create_session(types.Session(session_id="s", session_type="AGENT"))
    one.create_agent("s", make_agent("a", 0))
    one.create_message("s", "a", make_message(0, "first"))
    with pytest.raises(exceptions.SessionException, match="another process"):
        other.create_message("s", "a", make_message(0, "second"))
    (message,) = other.list_messages("s", "a")
    assert message.message["content"][0] == {"text": "first"}
    one.close()
    other.close()


def test_a_message_of_a_session_that_was_deleted_elsewhere_is_refused(address: str) -> None:
    one, other = bridge.RunloreRepository(address), bridge.RunloreRepository(address)
    one.create_session(types.Session(session_id="s", session_type="AGENT"))
    one.create_agent("s", make_agent("a", 0))
    other.delete_session("s")
    with pytest.raises(exceptions.SessionException, match="does not exist"):
        one.create_message("s", "a", make_message(0, "first"))
    assert one.read_session("s") is None
    one.close()
    other.close()
