"""Where the rules of an older store lose or spoil something: each scene fails on them, and passes
on ours.

What they lose to kills, torn lines, damage and paths is shown by the conformance suite in the same
way: `test_conformance.py`.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runlore.errors import LogError
from runlore.live import SessionStore
from tests.live.system1 import OldStore, open_old


class NewStore:
    """Our log with the old store's words: a rewind names a place by its index in what is
    visible."""

    def __init__(self, folder: Path, id: str) -> None:
        self.store = SessionStore(folder)
        self.session = self.store.ensure(id)

    @property
    def title(self) -> str:
        return self.session.meta.title

    @property
    def log(self) -> Path:
        return self.session.path / "log.jsonl"

    def create(self, title: str) -> None:
        self.store.create(title, id=self.session.id).close()

    def append(self, message: dict[str, Any]) -> None:
        self.session.append(message)

    def messages(self) -> list[dict[str, Any]]:
        return self.session.messages()

    def compact(self, summary: str) -> None:
        self.session.compact(summary)

    def clear(self) -> None:
        self.session.clear()

    def should_compact(self, usage: dict[str, int], window: int) -> bool:
        return self.session.should_compact(window, usage)

    def read_newer(self) -> None:
        first, _, rest = self.log.read_bytes().partition(b"\n")
        line = first.replace(b'"version":1', b'"version":99').rpartition(b',"c":')[0] + b"}\n"
        self.log.write_bytes(line + rest)
        self.store.open(self.session.id)

    def rewind(self, index: Any) -> None:
        if not isinstance(index, int):  # As another program may have written it.
            self.session.record("rewind", {"seq": index})
            return
        records = [record for record in self.session.records() if record.type == "message"]
        if not 0 <= index <= len(records):
            raise LogError("no such message")
        self.session.rewind(before=records[index]) if index < len(records) else None


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def call(*ids: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": id, "name": "run", "input": {}} for id in ids],
    }


def result(*ids: str) -> dict[str, Any]:
    return user([{"type": "tool_result", "tool_use_id": id, "content": "done"} for id in ids])


def is_sendable(messages: list[dict[str, Any]]) -> bool:
    """Whether each call has its result in the very next message, as providers ask."""
    for place, message in enumerate(messages):
        blocks = message["content"] if isinstance(message["content"], list) else []
        calls = {block["id"] for block in blocks if block.get("type") == "tool_use"}
        following = messages[place + 1]["content"] if place + 1 < len(messages) else []
        results = {
            block["tool_use_id"]
            for block in following
            if isinstance(block, dict) and block.get("type") == "tool_result"
        }
        if calls != results & calls or len(calls) != len(calls & results):
            return False
    return True


def a_call_is_closed_beside_it(store: Any) -> bool:
    for message in (call("t1"), user("something else")):
        store.append(message)
    return is_sendable(store.messages())


def every_loop_is_closed(store: Any) -> bool:
    for message in (call("t1"), user("again"), call("t2"), result("t2"), user("thanks")):
        store.append(message)
    return is_sendable(store.messages())


def the_real_result_is_the_only_one(store: Any) -> bool:
    store.append(call("t1"))
    store.messages()  # someone has a look while the tool runs
    store.append(result("t1"))
    blocks = [
        block
        for message in store.messages()
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    return [block.get("content") for block in blocks if block["type"] == "tool_result"] == ["done"]


def a_rewind_crosses_a_compaction(store: Any) -> bool:
    for text in ("a", "b"):
        store.append(user(text))
    store.compact("a and b")
    store.append(user("c"))
    store.rewind(1)
    return [message["content"] for message in store.messages()] == ["a"]


def a_rewind_to_nowhere_is_refused(store: Any) -> bool:
    for text in ("a", "b"):
        store.append(user(text))
    with suppress(LogError):
        store.rewind(-1)
    return [message["content"] for message in store.messages()] == ["a", "b"]


def a_rewind_of_a_stranger_does_no_harm(store: Any) -> bool:
    for text in ("a", "b"):
        store.append(user(text))
    store.rewind("1")
    try:
        return [message["content"] for message in store.messages()] == ["a", "b"]
    except TypeError:
        return False


def an_id_is_not_given_twice(store: Any) -> bool:
    store.create("first")
    store.append(user("a"))
    with suppress(LogError):
        store.create("second")
    return bool(store.title == "first")


def cached_tokens_fill_the_window(store: Any) -> bool:
    store.append(user("a"))
    return bool(
        store.should_compact({"input_tokens": 10, "cache_read_input_tokens": 190_000}, 200_000)
    )


def a_newer_format_is_not_written(store: Any) -> bool:
    store.append(user("a"))
    with suppress(LogError):
        store.read_newer()
    return [message["content"] for message in store.messages()] == ["a"]


def a_title_of_two_plain_words_is_a_title(store: Any) -> bool:
    store.create("New chat")
    store.append(user("hello"))
    return bool(store.title == "New chat")


def what_was_cleared_is_kept(store: Any) -> bool:
    store.append(user("remember me"))
    store.clear()
    return store.messages() == [] and b"remember me" in store.log.read_bytes()


def a_message_has_a_number_an_id_and_a_time(store: Any) -> bool:
    for _ in range(2):
        store.append(user("the same"))
    first, second = store.log.read_bytes().splitlines()[-2:]
    return first != second and b'"n":1,"i":' in first and b'"n":2,"i":' in second


SCENES = [
    a_call_is_closed_beside_it,
    every_loop_is_closed,
    the_real_result_is_the_only_one,
    a_rewind_crosses_a_compaction,
    a_rewind_to_nowhere_is_refused,
    a_rewind_of_a_stranger_does_no_harm,
    an_id_is_not_given_twice,
    cached_tokens_fill_the_window,
    a_newer_format_is_not_written,
    a_title_of_two_plain_words_is_a_title,
    what_was_cleared_is_kept,
    a_message_has_a_number_an_id_and_a_time,
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_the_old_rules_fail_and_ours_hold(
    scene: Callable[[OldStore | NewStore], bool], tmp_path: Path
) -> None:
    assert not scene(open_old(tmp_path / "old", "one"))
    assert scene(NewStore(tmp_path / "new", "one"))
