"""Sessions of Kimi CLI and Kimi Code, real ones and what the program wrote for us, where they are
at hand: a second count agrees.

The second count is written from the format's description alone, with plain `json`, and shares no
code with the adapter.
"""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import get
from runlore.pricing.ledger import merge
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus
from tests.adapters.corpus import Everything

CORPUS = corpus.CORPUS / "kimi"
ADAPTER = get("kimi")

pytestmark = corpus.needs(CORPUS)


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.aged_copy(CORPUS, tmp_path_factory.mktemp("aged") / "kimi")


@pytest.fixture(scope="module")
def everything(aged: Path) -> Everything:
    return corpus.read_all(ADAPTER, aged)


def plain(path: str) -> tuple[list[dict[str, Any]], int]:
    """The records of a file, and how many of its lines are none."""
    records, bad = [], 0
    for line in Path(path).read_bytes().split(b"\n"):
        try:
            records.append(json.loads(line, strict=False)) if line.strip() else None
        except ValueError:
            bad += 1
    return records, bad


def test_every_file_is_a_session_or_belongs_to_one(everything: Everything, aged: Path) -> None:
    """What the model saw is read where there is no log, or an empty one; the rest tells about a
    session, or is of a test."""
    read = {source.path for source, _, _ in everything}
    names = {
        "state.json",
        "kimi.json",
        "meta.json",
        "prompt.txt",
        "output",
        "assistant_tools.state.json",
        "test",
    }
    for path in corpus.unread(aged, everything):
        if path.name == "context.jsonl":
            assert str(path.with_name("wire.jsonl")) in read
        elif path.name == "wire.jsonl":
            assert str(path.with_name("context.jsonl")) in read
            assert len(plain(str(path))[0]) <= 1
        else:
            assert path.name in names


def told(records: list[dict[str, Any]]) -> Counter[str]:
    """What a log, or what the model saw, says by itself."""
    count = Counter[str]()
    prompts = Counter[str]()
    for record in records:
        message = record.get("message", {})
        if "timestamp" in record:
            count.update(shown(message["type"], message["payload"]))
        elif "role" in record:
            count.update(context(record))
        elif record["type"] in ("turn.prompt", "turn.steer"):
            count["prompts"] += record["origin"]["kind"] == "user"
            prompts[text_of(record["input"])] += 1
        elif (
            record["type"] == "context.append_message"
            and message["role"] == "user"
            and message["origin"]["kind"] == "user"
        ):
            count["prompts"] += prompts[text_of(message["content"])] == 0
            prompts[text_of(message["content"])] -= 1
        elif record["type"] == "context.append_loop_event":
            event = record["event"]
            count["thoughts"] += (
                event["type"] == "content.part" and event["part"]["type"] == "think"
            )
            count["replies"] += event["type"] == "content.part" and event["part"]["type"] == "text"
            count["calls"] += event["type"] == "tool.call"
            count["results"] += event["type"] == "tool.result"
            count["failures"] += (
                event["type"] == "tool.result" and event["result"].get("isError") is True
            )
        elif record["type"] == "llm.request":
            count["retries"] += "attempt" in record
        elif record["type"] == "context.apply_compaction":
            count["compactions"] += 1
        elif record["type"] == "turn.cancel":
            count["interrupts"] += 1
    return +count


def shown(kind: str, payload: dict[str, Any]) -> Counter[str]:
    if kind == "SubagentEvent":
        return Counter()
    return +Counter(
        prompts=kind in ("TurnBegin", "SteerInput"),
        thoughts=kind == "ContentPart" and payload["type"] == "think",
        replies=kind == "ContentPart" and payload["type"] == "text",
        calls=kind == "ToolCall",
        results=kind == "ToolResult",
        failures=kind == "ToolResult" and payload["return_value"]["is_error"],
        interrupts=kind == "StepInterrupted",
        compactions=kind == "CompactionEnd",
    )


def context(record: dict[str, Any]) -> Counter[str]:
    content = record["content"] if record["role"] in ("user", "assistant", "tool") else ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [part for part in parts if part["type"] == "text"]
    role = record["role"]
    return +Counter(
        prompts=role == "user" and any(not part["text"].startswith("<system") for part in texts),
        thoughts=sum(role == "assistant" and part["type"] == "think" for part in parts),
        replies=len(texts) if role == "assistant" else 0,
        calls=len(record.get("tool_calls") or []),
        results=role == "tool",
        failures=role == "tool" and text_of(content).startswith("<system>ERROR"),
    )


def text_of(content: Any) -> str:
    return (
        content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
    )


def test_a_second_count_agrees(everything: Everything) -> None:
    for source, _, found in everything:
        records, bad = plain(source.path)
        assert len(found.skips) == bad
        ours = Counter[str]()
        for event in found.events:
            if not event.is_sidechain or found.facts[event.session_uid].relation == "subagent":
                ours["prompts"] += event.kind == "user_msg"
                ours["thoughts"] += event.kind == "thinking"
                ours["replies"] += event.kind == "assistant_msg"
                ours["calls"] += event.is_call
                ours["results"] += event.role == "tool"
                ours["failures"] += event.role == "tool" and (
                    event.is_error or "/rejected" in str(event.native)
                )
                ours["retries"] += event.kind == "retry"
                ours["interrupts"] += event.native in ("StepInterrupted", "turn.cancel")
                ours["compactions"] += event.view == "compact"
        assert +ours == told(records), source.path


def test_usage_agrees_with_the_sums_of_the_records(everything: Everything) -> None:
    """Of Kimi CLI what each step took; of Kimi Code what was recorded of all requests, of which the
    steps are a part."""
    total = 0
    for source, _, found in everything:
        records, _ = plain(source.path)
        used = [record["usage"] for record in records if record.get("type") == "usage.record"]
        used += [
            record["message"]["payload"]["token_usage"]
            for record in records
            if record.get("message", {}).get("type") == "StatusUpdate"
            and record["message"]["payload"].get("token_usage")
        ]
        calls = [entry.call for entry in merge(call for call, _ in found.calls)]
        assert sum(call.total for call in calls) == sum(sum(counts.values()) for counts in used), (
            source.path
        )
        total += sum(call.total for call in calls)
    assert total


def test_a_subagent_is_not_counted_in_its_session_as_well(everything: Everything) -> None:
    sessions = {uid: (source, found) for source, _, found in everything for uid in found.facts}
    agents = {
        uid: found.facts[uid]
        for uid, (_, found) in sessions.items()
        if found.facts[uid].relation == "subagent"
    }
    assert agents
    for uid, facts in agents.items():
        source, above = sessions[str(facts.parent_uid)]
        told = [
            record
            for record in plain(source.path)[0]
            if record.get("message", {}).get("type") == "SubagentEvent"
        ]
        assert above.merged["SubagentEvent"] == len(told)
        assert (uid,) in [event.refs for event in above.events]
        assert facts.cwd == above.facts[str(facts.parent_uid)].cwd is not None


def test_the_promises_hold(aged: Path, loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, aged, cuts=loops(10))
    check_breakage(ADAPTER, aged, random.Random(), loops(30))
    check_noise(ADAPTER, aged, random.Random(), loops(30))
