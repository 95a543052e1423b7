"""Real and official samples of Cline and Roo Code, where they are at hand: nothing raises, every
record is accounted for, and a second count agrees.

The second count is written from the formats' description alone, with plain `json`, and shares no
code with the adapters.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import Adapter, get
from runlore.model import make_uid
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus
from tests.adapters.corpus import Everything

SAMPLES = {
    "cline": ("cline", corpus.CORPUS / "cline"),
    "roo": ("roo", corpus.CORPUS / "roo"),
    "newer roo": ("roo", corpus.NEWER / "roo/vshulcz__deja-vu"),
}
"""Agents, and where their samples are."""
READ = (
    "ui_messages.json",
    "claude_messages.json",
    "api_conversation_history.json",
    ".messages.json",
    ".compaction.json",
)
BESIDE = ("task_metadata.json", "history_item.json", "taskHistory.json", "_index.json")
"""Files that say something of a session; a manifest has the name of its session. The database is an
index of manifests."""


@pytest.fixture(scope="module", params=SAMPLES)
def sample(request: pytest.FixtureRequest) -> tuple[Adapter, Path]:
    agent, root = SAMPLES[request.param]
    return get(agent), corpus.skip_unless_there(root)


@pytest.fixture(scope="module")
def everything(sample: tuple[Adapter, Path]) -> Everything:
    return corpus.read_all(*sample)


def test_every_file_is_read_or_belongs_to_one_that_is(
    sample: tuple[Adapter, Path], everything: Everything
) -> None:
    read = {Path(source.path) for source, _, _ in everything}
    folders = {path.parent for path in read}
    for path in sample[1].rglob("*.json"):
        is_manifest = path.with_name(f"{path.stem}.messages.json") in read
        assert (
            path in read
            or (path.name.endswith(READ) and path.parent in folders)
            or path.name in BESIDE
            or is_manifest
        ), path


def test_every_record_is_accounted_for(everything: Everything) -> None:
    for source, records, found in everything:
        lines = sum(record.sidecar is None for record in records)
        told = {event.record for event in found.events}
        assert lines == len(told) + sum(found.merged.values()), source.path
        assert not found.skips
        assert len(found.events) == len(found.bodies) == len(found.parents) == len(found.originals)


def test_sessions_are_named_and_numbered(everything: Everything) -> None:
    for source, _, found in everything:
        ((uid, facts),) = found.facts.items()
        assert uid == make_uid(source.agent, facts.native_session_id)
        assert [event.seq for event in found.events] == list(range(len(found.events)))
        assert len({event.native_id for event in found.events}) == len(found.events)
        assert facts.title, source.path


def test_any_cut_gives_the_same(sample: tuple[Adapter, Path]) -> None:
    check_law(*sample)


def test_broken_values_and_damaged_bytes_cost_little(
    sample: tuple[Adapter, Path], loops: Callable[[int], int]
) -> None:
    check_breakage(*sample, random.Random(), loops(300))
    check_noise(*sample, random.Random(), loops(300))


def test_a_second_count_agrees(everything: Everything) -> None:
    for source, _, found in everything:
        mine = Counter(
            "tool_call" if event.kind in ("test_run", "edit") else event.kind
            for event in found.events
            if event.kind in COUNTED
        )
        second = Counter(
            messages_of(source.path)
            if source.path.endswith(".messages.json")
            else task_of(source.path)
        )
        assert mine == second, source.path


def test_tokens_are_what_the_files_say(everything: Everything) -> None:
    for source, _, found in everything:
        calls = [call for call, _ in found.calls]
        sums = (
            sum(call.prompt_tokens for call in calls),
            sum(call.output_tokens for call in calls),
        )
        assert sums == tokens_of(source.path), source.path
        assert sums == (
            sum(e.usage.total - e.usage.output_tokens for e in found.events if e.usage),
            sums[1],
        )
        manifest = Path(source.path.replace(".messages.json", ".json"))
        own = (
            load(manifest).get("metadata", {}).get("usage")
            if manifest.is_file() and ".messages." in source.path
            else None
        )
        if own:
            cached = sum(call.cache_read_tokens for call in calls)
            assert (*sums, cached) == (
                own["inputTokens"],
                own["outputTokens"],
                own["cacheReadTokens"],
            )


# The second count.

COUNTED = {
    "user_msg",
    "assistant_msg",
    "thinking",
    "tool_call",
    "tool_result",
    "test_run",
    "edit",
    "completion",
    "error",
    "retry",
}


def load(path: str | Path) -> Any:
    return json.loads(Path(path).read_text())


def messages_of(path: str) -> Iterator[str]:
    kinds = {"thinking": "thinking", "tool_use": "tool_call", "tool_result": "tool_result"}
    for message in load(path)["messages"]:
        for block in message["content"]:
            said = "assistant_msg" if message["role"] == "assistant" else "user_msg"
            if block["type"] != "file":
                yield kinds.get(block["type"], said)


def task_of(path: str) -> Iterator[str]:
    """What the timeline says; of the history the results, but for those that a person denied or
    that end the task."""
    folder, rows = Path(path).parent, load(path)
    if path.endswith("api_conversation_history.json") or "role" in rows[0]:
        yield from (f"{row['role']}_msg" for row in rows)
        return
    words = {
        "reasoning": "thinking",
        "user_feedback": "user_msg",
        "api_req_retry_delayed": "retry",
        "diff_error": "error",
    }
    words |= {"tool": "tool_call", "command": "tool_call", "completion_result": "completion"}
    history = load(folder / "api_conversation_history.json")
    blocks = [
        block
        for message in history
        if message["role"] == "user"
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    for n, row in enumerate(rows):
        word = row.get("say") or row.get("ask")
        if word == "text":
            yield "assistant_msg" if n else "user_msg"
        elif word == "command_output":
            yield from ["tool_result"] * all(
                row["text"] not in block["content"] for block in blocks
            )
        elif word in words and row["text"]:
            yield words[word]
    yield from ("tool_result" for block in blocks if "denied" not in block["content"])


def tokens_of(path: str) -> tuple[int, int]:
    if path.endswith(".messages.json"):
        metrics = [message["metrics"] for message in load(path)["messages"] if "metrics" in message]
        return sum(each["inputTokens"] for each in metrics), sum(
            each["outputTokens"] for each in metrics
        )
    infos = [json.loads(row["text"]) for row in load(path) if row.get("say") == "api_req_started"]
    return sum(info["tokensIn"] for info in infos), sum(info["tokensOut"] for info in infos)
