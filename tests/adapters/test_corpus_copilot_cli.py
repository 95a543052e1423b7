"""Real and made-up logs of Copilot CLI, where they are at hand: nothing raises, every record is
accounted for, and a second count agrees.

The second count is written from the format's description alone, with plain `json`, and shares no
code with the adapter.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import get
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus
from tests.adapters.corpus import Everything

CORPUS = corpus.CORPUS / "copilot-cli"
NEWER = corpus.NEWER / "copilot-cli"
ADAPTER = get("copilot_cli")
OTHER = (".expected.json", "legacy_history_human.json")
"""What somebody expects of a log, and a document in a form that no version has written."""

pytestmark = corpus.needs(CORPUS)


@pytest.fixture(scope="module")
def everything() -> Everything:
    return [
        entry
        for root in (CORPUS, NEWER)
        if root.is_dir()
        for entry in corpus.read_all(ADAPTER, root)
    ]


def lines(path: str) -> Iterator[dict[str, Any]]:
    for line in Path(path).read_bytes().split(b"\n"):
        try:
            yield json.loads(line)
        except ValueError:
            continue


def test_every_file_is_read_or_known_to_be_none(everything: Everything) -> None:
    left = [path for root in (CORPUS, NEWER) for path in corpus.unread(root, everything)]
    assert [path for path in left if not path.name.endswith(OTHER)] == []


def test_every_record_is_accounted_for(everything: Everything) -> None:
    for source, records, found in everything:
        count = sum(record.sidecar is None for record in records)
        told = {event.record for event in found.events}
        assert count <= len(told) + sum(found.merged.values()), source.path
        assert [skip.reason for skip in found.skips] == (
            ["not json: expecting ',' delimiter"] if "truncated" in source.path else []
        )
        assert len({event.native_id for event in found.events}) == len(found.events)


def test_a_second_count_agrees(everything: Everything) -> None:
    for source, _, found in everything:
        theirs = Counter[str]()
        calls: set[str] = set()
        for record in lines(source.path):
            data = record.get("data") or {}
            if "data" not in record or not isinstance(data, dict):
                continue
            theirs["prompts"] += record["type"] == "user.message"
            theirs["replies"] += record["type"] == "assistant.message" and bool(data["content"])
            theirs["thoughts"] += (
                bool(data.get("reasoningText")) and data["reasoningText"] != "[trimmed for fixture]"
            )
            theirs["results"] += record["type"] == "tool.execution_complete"
            theirs["failed"] += (
                record["type"] == "tool.execution_complete" and data.get("success") is False
            )
            theirs["interrupts"] += record["type"] == "abort"
            calls |= {request["toolCallId"] for request in data.get("toolRequests") or []}
            calls |= {data["toolCallId"]} if record["type"] == "tool.execution_start" else set()
        theirs["calls"] = len(calls)
        ours = Counter[str]()
        for event in found.events:
            ours["prompts"] += event.kind == "user_msg"
            ours["replies"] += event.kind == "assistant_msg"
            ours["thoughts"] += (
                event.kind == "thinking" and event.summary != "[trimmed for fixture]"
            )
            ours["results"] += event.role == "tool"
            ours["failed"] += event.role == "tool" and event.is_error and not event.exit_code
            ours["interrupts"] += event.native == "abort"
            ours["calls"] += event.is_call
        assert +ours == +theirs, source.path


def test_usage_agrees_with_the_totals_at_the_end_of_each_run(everything: Everything) -> None:
    runs = 0
    for source, _, found in everything:
        records = list(lines(source.path))
        ends = [record["data"] for record in records if record.get("type") == "session.shutdown"]
        usages = [
            item["usage"]
            for end in ends
            for item in end.get("modelMetrics", {}).values()
            if isinstance(item, dict) and "usage" in item
        ]
        told = [
            record["data"].get("outputTokens") or 0
            for record in records
            if record.get("type") == "assistant.message" and "data" in record
        ]
        if not usages:
            assert sum(
                call.output_tokens for call, _ in found.calls if not call.input_tokens
            ) == sum(told)
            continue
        runs += 1
        calls = [call for call, _ in found.calls]
        assert sum(call.prompt_tokens for call in calls) == sum(
            usage["inputTokens"] for usage in usages
        ), source.path
        assert sum(call.output_tokens for call in calls) == sum(
            usage["outputTokens"] for usage in usages
        )
        assert sum(call.cache_read_tokens for call in calls) == sum(
            usage["cacheReadTokens"] for usage in usages
        )
        assert sum(event.usage.total for event in found.events if event.usage) <= sum(
            call.total for call in calls
        )
        # Where the agent also tells them in buckets that do not overlap, they are ours.
        for end in ends:
            if details := end.get("tokenDetails"):
                assert sum(call.input_tokens for call in calls) == details["input"]["tokenCount"]
                assert (
                    sum(call.cache_write_5m_tokens for call in calls)
                    == details["cache_write"]["tokenCount"]
                )
    assert runs


def test_the_promises_hold(loops: Callable[[int], int]) -> None:
    for root in (CORPUS, NEWER):
        if root.is_dir():
            check_law(ADAPTER, root, cuts=loops(20))
            check_breakage(ADAPTER, root, random.Random(), loops(100))
            check_noise(ADAPTER, root, random.Random(), loops(50))
