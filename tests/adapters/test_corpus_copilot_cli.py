"""Real and made-up logs of Copilot CLI, where they are at hand: nothing raises, every record is accounted for, and a second count agrees.

The second count is written from the format's description alone, with plain `json`, and shares no code with the adapter.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import Normalized, Record, Source, get
from runlore.testing import check_breakage, check_law, check_noise

CORPUS = Path(__file__).parents[3] / "shared/corpus/copilot-cli"
ADAPTER = get("copilot_cli")
OTHER = {".expected.json": 3, "legacy_history_human.json": 1}
"""What somebody expects of a log, and a document in a form that no version has written."""

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")

Everything = list[tuple[Source, list[Record], Normalized]]


@pytest.fixture(scope="module")
def everything() -> Everything:
    sources = [(source, list(ADAPTER.read(source, None))) for source in ADAPTER.discover(CORPUS)]
    return [(source, records, ADAPTER.normalize(source, records, None)) for source, records in sources]


def lines(path: str) -> Iterator[dict[str, Any]]:
    for line in Path(path).read_bytes().split(b"\n"):
        try:
            yield json.loads(line)
        except ValueError:
            continue


def test_every_file_is_read_or_known_to_be_none(everything: Everything) -> None:
    read = {Path(source.path) for source, _, _ in everything}
    left = Counter(
        next((end for end in OTHER if path.name.endswith(end)), path.name) for path in CORPUS.rglob("*.json*") if path not in read
    )
    assert left == OTHER
    assert len(read) == 23


def test_every_record_is_accounted_for(everything: Everything) -> None:
    for source, records, found in everything:
        count = sum(record.aside is None for record in records)
        told = {event.record for event in found.events}
        assert count <= len(told) + sum(found.merged.values()), source.path
        assert [skip.reason for skip in found.skips] == (["not json: expecting ',' delimiter"] if "truncated" in source.path else [])
        assert len({event.native_id for event in found.events}) == len(found.events)


def test_a_second_count_agrees(everything: Everything) -> None:
    total = Counter[str]()
    for source, _, found in everything:
        theirs = Counter[str]()
        calls: set[str] = set()
        for record in lines(source.path):
            data = record.get("data") or {}
            if "data" not in record or not isinstance(data, dict):
                continue
            theirs["prompts"] += record["type"] == "user.message"
            theirs["replies"] += record["type"] == "assistant.message" and bool(data["content"])
            theirs["thoughts"] += bool(data.get("reasoningText")) and data["reasoningText"] != "[trimmed for fixture]"
            theirs["results"] += record["type"] == "tool.execution_complete"
            theirs["failed"] += record["type"] == "tool.execution_complete" and not data["success"]
            theirs["interrupts"] += record["type"] == "abort"
            calls |= {request["toolCallId"] for request in data.get("toolRequests") or []}
            calls |= {data["toolCallId"]} if record["type"] == "tool.execution_start" else set()
        theirs["calls"] = len(calls)
        ours = Counter[str]()
        for event in found.events:
            ours["prompts"] += event.kind == "user_msg"
            ours["replies"] += event.kind == "assistant_msg"
            ours["thoughts"] += event.kind == "thinking" and event.summary != "[trimmed for fixture]"
            ours["results"] += event.role == "tool"
            ours["failed"] += event.role == "tool" and event.is_error and not event.exit_code
            ours["interrupts"] += event.native == "abort"
            ours["calls"] += event.is_call
        assert +ours == +theirs, source.path
        total += ours
    assert total == {"prompts": 24, "replies": 64, "thoughts": 45, "results": 149, "failed": 6, "interrupts": 2, "calls": 149}


def test_usage_agrees_with_the_totals_at_the_end_of_each_run(everything: Everything) -> None:
    runs = 0
    for source, _, found in everything:
        records = list(lines(source.path))
        ends = [record["data"] for record in records if record.get("type") == "session.shutdown"]
        usages = [
            item["usage"] for end in ends for item in end.get("modelMetrics", {}).values() if isinstance(item, dict) and "usage" in item
        ]
        told = [
            record["data"].get("outputTokens") or 0 for record in records if record.get("type") == "assistant.message" and "data" in record
        ]
        if not usages:
            assert sum(call.output_tokens for call, _ in found.calls if not call.input_tokens) == sum(told)
            continue
        runs += 1
        calls = [call for call, _ in found.calls]
        assert sum(call.prompt_tokens for call in calls) == sum(usage["inputTokens"] for usage in usages), source.path
        assert sum(call.output_tokens for call in calls) == sum(usage["outputTokens"] for usage in usages)
        assert sum(call.cache_read_tokens for call in calls) == sum(usage["cacheReadTokens"] for usage in usages)
        assert sum(event.usage.total for event in found.events if event.usage) <= sum(call.total for call in calls)
        for end in ends:  # Where the agent also tells them in buckets that do not overlap, they are ours.
            if details := end.get("tokenDetails"):
                assert sum(call.input_tokens for call in calls) == details["input"]["tokenCount"]
                assert sum(call.cache_write_5m_tokens for call in calls) == details["cache_write"]["tokenCount"]
    assert runs == 13


def test_the_promises_hold(loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, CORPUS, cuts=loops(20))
    check_breakage(ADAPTER, CORPUS, random.Random(), loops(100))
    check_noise(ADAPTER, CORPUS, random.Random(), loops(50))
