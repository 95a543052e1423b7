"""Real and official samples of both agents called grok, where they are at hand: nothing raises,
every line or row is accounted for, and a second count agrees.

The second count is written from the formats' description alone, with plain `json` and `sqlite3`,
and shares no code with the adapters.
"""

import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import get
from runlore.model import make_uid
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus
from tests.adapters.corpus import Everything

FOLDERS = {"grok": corpus.CORPUS / "grok", "grok_cli": corpus.CORPUS / "grok-superagent"}
OTHER = {"summary.json", "signals.json", "source-v1.jsonl", "README.md"}
"""What is said about a session, and a description of the samples."""

pytestmark = corpus.needs(*FOLDERS.values())


@pytest.fixture(scope="module", params=sorted(FOLDERS))
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def everything(agent: str) -> Everything:
    return corpus.read_all(get(agent), FOLDERS[agent])


def test_every_file_is_read_or_known_to_be_none(agent: str, everything: Everything) -> None:
    assert {path.name for path in corpus.unread(FOLDERS[agent], everything)} <= OTHER


def test_every_record_is_accounted_for(everything: Everything) -> None:
    for source, records, found in everything:
        lines = sum(record.sidecar is None for record in records)
        told = {
            event.record
            for event in found.events
            if event.record is not None and event.record < lines
        }
        assert lines == len(told) + sum(found.merged.values()), source.path
        assert not found.skips
        assert len(found.events) == len(found.bodies) == len(found.parents) == len(found.originals)


def test_sessions_are_named_and_numbered(agent: str, everything: Everything) -> None:
    for source, _, found in everything:
        seqs: dict[str, list[int]] = {}
        for event in found.events:
            seqs.setdefault(event.session_uid, []).append(event.seq)
        assert seqs.keys() <= found.facts.keys(), source.path
        for uid, numbers in seqs.items():
            facts = found.facts[uid]
            assert uid == make_uid(agent, facts.native_session_id)
            assert numbers == list(range(len(numbers)))
            assert facts.title, source.path
            assert facts.cwd
            assert facts.model


def test_any_cut_gives_the_same(agent: str) -> None:
    check_law(get(agent), FOLDERS[agent])


def test_broken_values_and_damaged_bytes_cost_little(
    agent: str, loops: Callable[[int], int]
) -> None:
    check_breakage(get(agent), FOLDERS[agent], random.Random(), loops(300))
    check_noise(get(agent), FOLDERS[agent], random.Random(), loops(300))


def test_a_second_count_agrees(agent: str, everything: Everything) -> None:
    for source, _, found in everything:
        mine: Counter[str] = Counter()
        for event in found.events:
            mine["tool_call" if event.kind == "test_run" else event.kind] += 1
        second = (
            rows_of(source.path)
            if agent == "grok_cli"
            else updates_of(source.path)
            if "updates" in source.path
            else chat_of(source.path)
        )
        assert mine == Counter(second), source.path


def test_a_second_sum_of_tokens_and_ticks_agrees(agent: str, everything: Everything) -> None:
    for source, _, found in everything:
        used = sum(event.usage.total for event in found.events if event.usage)
        ticks = sum(event.extra.get("cost_usd_ticks", 0) for event in found.events)
        if agent == "grok_cli":
            with sqlite3.connect(f"file:{source.path}?mode=ro", uri=True) as db:
                assert (
                    used
                    == db.execute(
                        "select sum(input_tokens + output_tokens) from usage_events"
                    ).fetchone()[0]
                )
            db.close()
            continue
        usages = [update["usage"] for update in lines_of(source.path) if "usage" in update]
        assert used == sum(usage["inputTokens"] + usage["outputTokens"] for usage in usages)
        assert ticks == sum(usage["costUsdTicks"] for usage in usages)


# The second count.

EDITS = {"search_replace", "write", "apply_patch", "hashline_edit"}


def lines_of(path: str) -> Iterator[dict[str, Any]]:
    for line in Path(path).read_text().splitlines():
        value = json.loads(line)
        yield value["params"]["update"] if "params" in value else value


def updates_of(path: str) -> Iterator[str]:
    open_prompt = None
    for update in lines_of(path):
        tag = update["sessionUpdate"]
        if tag == "user_message_chunk":
            index = update["_meta"]["promptIndex"]
            yield "lifecycle" if index == open_prompt else "user_msg"
            open_prompt = index
        elif tag == "agent_thought_chunk":
            if "content" in update:
                yield "thinking"
        elif tag == "tool_call_update":
            if update.get("status") in ("completed", "failed"):
                yield "tool_result"
        elif tag == "tool_call":
            yield (
                "edit" if update.get("kind") == "edit" or update["title"] in EDITS else "tool_call"
            )
        elif tag == "retry_state":
            yield "retry" if update["type"] == "retrying" else "error"
        else:
            kinds = {
                "agent_message_chunk": "assistant_msg",
                "plan": "decision",
                "turn_completed": "completion",
            }
            yield kinds.get(tag, "lifecycle")


def chat_of(path: str) -> Iterator[str]:
    for line in lines_of(path):
        kind = line.get("type") or {"tool": "tool_result"}.get(line["role"], line["role"])
        if kind == "user":
            if line.get("prior_turn_interrupt"):
                yield "human_intervention"
            for block in (
                line["content"] if isinstance(line["content"], list) else [{"type": "text"}]
            ):
                is_human = line.get("synthetic_reason") in (None, "interjection")
                yield "user_msg" if is_human and block["type"] == "text" else "lifecycle"
        elif kind == "assistant":
            if line.get("reasoning_content"):
                yield "thinking"
            if line["content"]:
                yield "assistant_msg"
            for call in line.get("tool_calls", []):
                name = call.get("name") or call["function"]["name"]
                yield "edit" if name in EDITS else "tool_call"
        else:
            kinds = {
                "system": "lifecycle",
                "reasoning": "thinking",
                "backend_tool_call": "tool_call",
            }
            yield kinds.get(kind, kind)


def rows_of(path: str) -> Iterator[str]:
    kinds = {
        "text": "assistant_msg",
        "reasoning": "thinking",
        "tool-call": "tool_call",
        "tool-result": "tool_result",
    }
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    for role, text in db.execute("select role, message_json from messages"):
        content = json.loads(text)["content"]
        if role == "user":
            yield "user_msg"
        else:
            yield from (kinds[part["type"]] for part in content)
    for _ in db.execute("select 1 from usage_events"):
        yield "lifecycle"
    db.close()
