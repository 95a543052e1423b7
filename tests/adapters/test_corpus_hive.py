"""Sessions that hive's own stores wrote, where they are at hand: a second count, with plain `json`,
agrees."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from runlore.adapters import Normalized, get
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus

CORPUS = corpus.CORPUS / "hive"
ADAPTER = get("hive")

pytestmark = corpus.needs(CORPUS)


@pytest.fixture(scope="module")
def everything() -> dict[Path, Normalized]:
    """As they are when nothing was written for long: on a fresh checkout all files are new."""
    sources = [
        msgspec.structs.replace(source, mtime_ns=10**18) for source in ADAPTER.discover(CORPUS)
    ]
    assert sources
    return {
        Path(source.path): ADAPTER.normalize(source, ADAPTER.read(source, None), None)
        for source in sources
    }


def test_every_file_belongs_to_a_session(everything: dict[Path, Normalized]) -> None:
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert files
    assert all(any(folder in file.parents for folder in everything) for file in files)
    for folder, found in everything.items():
        assert [facts.native_session_id for facts in found.facts.values()] == [folder.name]
        assert not found.skips


def test_messages_calls_and_results_are_told_once(everything: dict[Path, Normalized]) -> None:
    for folder, found in everything.items():
        parts = [json.loads(path.read_text()) for path in folder.rglob("parts/*.json")]
        theirs = Counter(
            part["content"] for part in parts if part["content"] and part["role"] != "tool"
        )
        spoken = ("user_msg", "assistant_msg", "lifecycle")
        ours = Counter(
            body for event, body in zip(found.events, found.bodies, strict=True)
            if event.kind in spoken and event.native not in ("step",
            "assistant/partial") and body in theirs
        )  # fmt: skip
        assert ours == theirs
        calls = [call["id"] for part in parts for call in part.get("tool_calls", [])]
        assert sorted(event.call_id or "" for event in found.events if event.is_call) == sorted(
            calls
        )
        results = {
            part["tool_use_id"]: (part["content"], part.get("is_error", False))
            for part in parts
            if part["role"] == "tool"
        }
        assert {
            event.call_id: (body, event.is_error)
            for event, body in zip(found.events, found.bodies,
            strict=True) if event.kind == "tool_result"
        } == results  # fmt: skip
        names = [event.native_id for event in found.events]
        assert len(set(names)) == len(names)


def test_the_run_its_checkpoints_and_decisions_are_told(everything: dict[Path, Normalized]) -> None:
    runs = {
        folder: found for folder, found in everything.items() if (folder / "state.json").is_file()
    }
    assert runs
    for folder, found in runs.items():
        check_run(folder, found)


def check_run(folder: Path, found: Normalized) -> None:
    state = json.loads((folder / "state.json").read_text())
    kinds = Counter(event.kind for event in found.events)
    assert kinds["decision"] == len(state["decisions"])
    made = [event for event in found.events if (event.native or "").startswith("checkpoint/")]
    assert len(made) == len(list(folder.glob("checkpoints/cp_*.json")))
    assert f"state/{state['status']}" in {event.native for event in found.events}
    assert state["result"]["error"] in found.bodies
    used = state["metrics"]
    assert sum(call.input_tokens for call, _ in found.calls) == used["total_input_tokens"]
    assert sum(call.output_tokens for call, _ in found.calls) == used["total_output_tokens"]
    steps = [
        json.loads(line) for line in (folder / "logs/tool_logs.jsonl").read_text().splitlines()
    ]
    assert kinds["retry"] == sum(step["verdict"] == "RETRY" for step in steps)


def test_events_are_told_or_counted(everything: dict[Path, Normalized]) -> None:
    logged = {
        folder: found for folder, found in everything.items() if (folder / "events.jsonl").is_file()
    }
    assert logged
    for folder, found in logged.items():
        check_events(folder, found)


def check_events(folder: Path, found: Normalized) -> None:
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    told_by_parts = {
        "client_input_received",
        "client_output_delta",
        "tool_call_started",
        "tool_call_completed",
    }
    own = [event for event in found.events if "/event/" in (event.native_id or "")]
    assert len(own) + sum(found.merged.values()) == sum(
        event["type"] not in told_by_parts for event in events
    )
    turns = [event["data"] for event in events if event["type"] == "llm_turn_complete"]
    assert sum(call.input_tokens + call.cache_read_tokens for call, _ in found.calls) == sum(
        turn["input_tokens"] for turn in turns
    )


def test_the_promises_hold(loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, CORPUS, cuts=loops(20))
    check_breakage(ADAPTER, CORPUS, random.Random(), loops(50))
    check_noise(ADAPTER, CORPUS, random.Random(), loops(50))
