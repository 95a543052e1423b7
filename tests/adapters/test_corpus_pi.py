"""Sessions of pi, real ones and what the program wrote for us, where they are at hand: a second
count agrees.

The second count is written from the format's description alone, with plain `json`, and shares no
code with the adapter.
"""

import json
import random
import shutil
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

CORPUS = corpus.CORPUS / "pi"
ADAPTER = get("pi")

pytestmark = corpus.needs(CORPUS)


@pytest.fixture(scope="module")
def everything() -> Everything:
    return corpus.read_all(ADAPTER, CORPUS)


def plain(path: str) -> tuple[list[dict[str, Any]], int]:
    """The entries of a file, and how many of its lines are none."""
    entries, bad = [], 0
    for line in Path(path).read_bytes().split(b"\n"):
        try:
            entries.append(json.loads(line)) if line.strip() else None
        except ValueError:
            bad += 1
    return entries, bad


def test_every_file_is_a_session(everything: Everything) -> None:
    assert corpus.unread(CORPUS, everything) == []
    for source, _, found in everything:
        (facts,) = found.facts.values()
        header = plain(source.path)[0][0]
        assert (facts.native_session_id, facts.cwd) == (header["id"], header["cwd"])
        assert (facts.relation == "fork") == ("parentSession" in header or "branchedFrom" in header)


def test_a_second_count_agrees(everything: Everything) -> None:
    for source, _, found in everything:
        entries, bad = plain(source.path)
        assert len(found.skips) == bad
        messages = [entry["message"] for entry in entries if entry["type"] == "message"]
        spoken = [message for message in messages if message["role"] == "assistant"]
        blocks = [block for message in spoken for block in message["content"]]
        theirs = Counter(
            prompts=sum(message["role"] == "user" for message in messages),
            replies=sum(
                block["type"] == "text" and bool(block["text"].strip()) for block in blocks
            ),
            thoughts=sum(
                block["type"] == "thinking" and bool(block["thinking"].strip()) for block in blocks
            ),
            calls=sum(block["type"] == "toolCall" for block in blocks)
            + sum(message["role"] == "bashExecution" for message in messages),
            results=sum(message["role"] in ("toolResult", "bashExecution") for message in messages),
            errors=sum(message.get("isError") is True for message in messages),
            failures=sum(message.get("stopReason") == "error" for message in spoken),
            interrupts=sum(message.get("stopReason") == "aborted" for message in spoken),
            edits=sum(
                block["type"] == "toolCall" and block["name"] in ("edit", "write")
                for block in blocks
            ),
            compactions=sum(entry["type"] == "compaction" for entry in entries),
        )
        ours = Counter[str]()
        for event in found.events:
            ours["prompts"] += event.kind == "user_msg"
            ours["replies"] += event.kind == "assistant_msg"
            ours["thoughts"] += event.kind == "thinking"
            ours["calls"] += event.is_call
            ours["results"] += event.kind == "tool_result"
            ours["errors"] += event.kind == "tool_result" and event.is_error
            ours["failures"] += event.kind == "error"
            ours["interrupts"] += event.native == "assistant/aborted"
            ours["edits"] += event.kind == "edit"
            ours["compactions"] += event.view == "compact"
        assert +ours == +theirs, source.path


def test_usage_agrees_with_the_sums_of_the_messages(everything: Everything) -> None:
    for source, _, found in everything:
        used = [
            entry["message"]["usage"]
            for entry in plain(source.path)[0]
            if "usage" in entry.get("message", {})
        ]
        theirs = [
            sum(usage.get(word, 0) for usage in used)
            for word in ("input", "output", "cacheRead", "cacheWrite")
        ]
        calls = [entry.call for entry in merge(call for call, _ in found.calls)]
        ours = [
            sum(call.input_tokens for call in calls), sum(call.output_tokens for call in calls),
            sum(call.cache_read_tokens for call in calls),
            sum(call.cache_write_5m_tokens for call in calls),
        ]  # fmt: skip
        assert ours == theirs, source.path


def test_the_calls_of_a_fork_are_those_of_its_parent(everything: Everything) -> None:
    whole = [call for _, _, found in everything for call, _ in found.calls]
    entries = {
        (entry.get("id"), entry["timestamp"], json.dumps(entry["message"], sort_keys=True))
        for source, _, _ in everything
        for entry in plain(source.path)[0]
        if any(
            entry.get("message", {}).get("usage", {}).get(word, 0) for word in ("input", "output")
        )
    }
    assert len(merge(whole)) == len(entries) < len(whole)


def test_the_promises_hold(
    everything: Everything, tmp_path: Path, loops: Callable[[int], int]
) -> None:
    check_law(ADAPTER, CORPUS, cuts=loops(3))
    for source, _, _ in everything:
        if source.size < 300_000:
            shutil.copy(source.path, tmp_path)
    check_breakage(ADAPTER, tmp_path, random.Random(), loops(50))
    check_noise(ADAPTER, tmp_path, random.Random(), loops(50))
