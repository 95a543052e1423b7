"""What hive's adapter promises beyond what its fixtures show."""

import json
import os
import shutil
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore import config
from runlore.adapters import get
from runlore.adapters.hive.documents import records
from runlore.model import SessionEvent
from runlore.pricing.ledger import merge
from runlore.store import Store
from runlore.sync import pipeline

ADAPTER = get("hive")
FIXTURES = Path(__file__).parent / "fixtures/hive"
GRAPH, QUEEN = "session_20260210_090000_0a1b2c3d", "session_20260818_140000_4e5f6a7b"


@pytest.fixture
def queen(tmp_path: Path) -> Path:
    """A queen's session in a home of its own."""
    shutil.copytree(FIXTURES / "queen/root", tmp_path / "hive")
    return tmp_path / "hive/queens/queen_garden/sessions" / QUEEN


def sync(store: Store, root: Path) -> list[SessionEvent]:
    report = pipeline.sync(store, config.load(), agents=["hive"], roots=[str(root)])
    assert not report.problems
    (listed,) = ADAPTER.discover(root)
    return store.sessions.events(f"hive:{Path(listed.path).name}")


def write(path: Path, value: dict[str, Any], age_s: float = 0) -> None:
    path.write_text(json.dumps(value))
    os.utime(path, (time.time() - age_s,) * 2)


def test_messages_that_are_compacted_away_stay_and_their_calls_are_not_told_again(
    store: Store, queen: Path, tmp_path: Path
) -> None:
    before = sync(store, tmp_path / "hive")
    calls = [event.call_id for event in before if event.is_call]
    for n in range(3):
        (queen / f"conversations/parts/{n:010}.json").unlink()
    after = sync(store, tmp_path / "hive")
    assert [event.call_id for event in after if event.is_call] == calls
    assert "I look first." in {event.summary for event in after}


def test_calls_that_only_the_log_of_tools_tells_of_are_told() -> None:
    (source,) = ADAPTER.discover(FIXTURES / "graph/root")
    found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    told = {
        (event.call_id, event.kind, event.native)
        for event in found.events
        if event.call_id == "call_1"
    }
    assert told == {("call_1", "tool_call", "tool_logs"), ("call_1", "tool_result", "tool_logs")}


def test_names_are_given_once_though_ids_and_steps_are_counted_anew() -> None:
    (source,) = ADAPTER.discover(FIXTURES / "graph/root")
    found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    names = [event.native_id for event in found.events]
    assert len(set(names)) == len(names)
    assert sum(event.call_id == "call_0" for event in found.events) == 4


def test_a_message_that_is_added_is_read(store: Store, queen: Path, tmp_path: Path) -> None:
    before = sync(store, tmp_path / "hive")
    write(
        queen / "conversations/parts/0000000008.json",
        {"seq": 8, "role": "user", "content": "Good", "is_client_input": True},
    )
    after = sync(store, tmp_path / "hive")
    assert [
        event.summary
        for event in after
        if event.native_id not in {event.native_id for event in before}
    ] == ["Good"]


def test_while_a_session_goes_on_only_what_is_new_is_read(
    store: Store, queen: Path, tmp_path: Path
) -> None:
    """Whichever comes first: a message with a call, or the event of the call."""
    write(
        queen / "conversations/parts/0000000008.json",
        {"seq": 8, "role": "user", "content": "Good", "is_client_input": True},
    )
    with (queen / "events.jsonl").open("a") as file:
        file.write("\n")  # Its last line was cut off.
    before = sync(store, tmp_path / "hive")

    def happened(word: str, **data: Any) -> None:
        with (queen / "events.jsonl").open("a") as file:
            file.write(
                json.dumps({"type": word, "timestamp": datetime.now().isoformat(), "data": data})  # noqa: DTZ005
                + "\n"
            )  # as it does

    def called(n: int) -> dict[str, Any]:
        call = {
            "id": f"late_{n}",
            "function": {"name": "read_file", "arguments": json.dumps({"path": f"{n}.md"})},
        }
        return {"seq": 8 + n, "role": "assistant", "content": f"I read {n}.", "tool_calls": [call]}

    for n in (1, 2):
        if n == 1:
            happened(
                "tool_call_started",
                tool_use_id="late_1",
                tool_name="read_file",
                tool_input={"path": "1.md"},
            )
        write(queen / f"conversations/parts/{8 + n:010}.json", called(n))
        if n == 2:
            happened(
                "tool_call_started",
                tool_use_id="late_2",
                tool_name="read_file",
                tool_input={"path": "2.md"},
            )
        happened("tool_call_completed", tool_use_id=f"late_{n}", result=f"page {n}")
        report = pipeline.sync(
            store, config.load(), agents=["hive"], roots=[str(tmp_path / "hive")]
        )
        assert (report.found, report.copies) == ({"grown": 1}, 0)
        assert report.events == 3, "what was said, the call and its result, each once"
    after = sync(store, tmp_path / "hive")
    assert len(after) == len(before) + 6
    for path in queen.rglob("*.json*"):
        os.utime(path, (1_780_000_000, 1_780_000_000))
    later = sync(store, tmp_path / "hive")
    known = {event.native_id for event in after}
    assert [event.native for event in later if event.native_id not in known] == [
        "assistant/partial"
    ], "all else was told"


def test_a_run_that_goes_on_is_told_when_it_ends(store: Store, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "graph/root", tmp_path / "hive")
    path = tmp_path / "hive/agents/price_watch/sessions" / GRAPH / "state.json"
    state = json.loads(path.read_text())
    write(path, {**state, "status": "active"})
    assert "completion" not in {event.kind for event in sync(store, tmp_path / "hive")}
    write(path, state)
    ends = [
        event
        for event in sync(store, tmp_path / "hive")
        if (event.native or "").startswith(("state/", "result/"))
    ]
    assert [event.native for event in ends] == [
        "state/started",
        "state/completed",
        "result/completed",
    ]


def test_a_reply_that_was_cut_off_is_told_when_it_will_not_grow(
    queen: Path, tmp_path: Path
) -> None:
    assert not [
        item for item in records(str(queen), is_stale=False) if "is_partial" in item.get("part", {})
    ]
    assert [
        item["part"]["content"]
        for item in records(str(queen), is_stale=True)
        if "is_partial" in item.get("part", {})
    ] == ["As you wi"]


@pytest.mark.parametrize("seq", [{"n": 8}, [8], None, True, "8"])
def test_a_message_whose_number_is_none_is_told_while_the_session_goes_on(
    queen: Path, seq: Any
) -> None:
    write(
        queen / "conversations/parts/0000000008.json",
        {"seq": seq, "role": "user", "content": "Good", "is_client_input": True},
    )
    assert [
        item["part"]["seq"]
        for item in records(str(queen), is_stale=False)
        if item.get("part", {}).get("content") == "Good"
    ] == [seq]


@pytest.mark.parametrize("case", ["graph", "queen"])
def test_a_session_is_told_by_the_same_names_while_it_goes_on_and_later(case: str) -> None:
    (source,) = ADAPTER.discover(FIXTURES / case / "root")
    names = []
    for mtime_ns in (time.time_ns(), 10**18):
        found = msgspec.structs.replace(source, mtime_ns=mtime_ns)
        events = ADAPTER.normalize(found, ADAPTER.read(found, None), None).events
        names.append({event.native_id for event in events if event.native != "assistant/partial"})
    assert names[0] == names[1]


def test_tokens_that_events_tell_are_not_counted_again_by_the_log_of_tools(
    queen: Path, tmp_path: Path
) -> None:
    (source,) = ADAPTER.discover(tmp_path / "hive")
    before = merge(
        call for call, _ in ADAPTER.normalize(source, ADAPTER.read(source, None), None).calls
    )
    step = {
        "node_id": "queen",
        "step_index": 0,
        "llm_text": "I look first.",
        "input_tokens": 1000,
        "output_tokens": 50,
    }
    (queen / "logs").mkdir()
    call = {
        "tool_use_id": "t1",
        "tool_name": "read_file",
        "tool_input": {"path": "plan.md"},
        "result": "roses, beans",
        "is_error": False,
    }
    (queen / "logs/tool_logs.jsonl").write_text(json.dumps({**step, "tool_calls": [call]}) + "\n")
    (source,) = ADAPTER.discover(tmp_path / "hive")
    found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    assert merge(call for call, _ in found.calls) == before
    assert sum(event.call_id == "t1" for event in found.events) == 2


def test_a_link_out_of_a_session_is_not_followed(queen: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"seq": 9, "role": "user", "content": "secret"}))
    (queen / "conversations/parts/0000000009.json").symlink_to(secret)
    assert "secret" not in json.dumps(records(str(queen), is_stale=True))


def test_what_is_no_session_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "credentials/sessions/one").mkdir(parents=True)
    (tmp_path / "credentials/sessions/one/state.json").write_text("{}")
    (tmp_path / "agents/a/config").mkdir(parents=True)
    (tmp_path / "agents/a/config/state.json").write_text("{}")
    assert list(ADAPTER.discover(tmp_path)) == []
