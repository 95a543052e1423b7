"""Real and official transcripts of Gemini CLI and Qwen Code, where they are at hand: every file
gives a session, every record is accounted for, a second count agrees, and tokens are those that the
files themselves add up to.

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

from runlore.adapters import get
from runlore.model import make_uid
from runlore.pricing.ledger import merge
from runlore.testing import check_breakage, check_law, check_noise
from runlore.text.titles import title_of
from tests.adapters import corpus
from tests.adapters.corpus import Everything

FOLDERS = {"gemini_cli": corpus.CORPUS / "gemini-cli", "qwen_code": corpus.CORPUS / "qwen-code"}

pytestmark = corpus.needs(*FOLDERS.values())


@pytest.fixture(scope="module", params=sorted(FOLDERS))
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def everything(agent: str) -> Everything:
    return corpus.read_all(get(agent), FOLDERS[agent])


def test_every_file_is_found_and_gives_a_session(agent: str, everything: Everything) -> None:
    endings = {".json", ".jsonl"} if agent == "gemini_cli" else {".jsonl"}
    assert [
        path for path in corpus.unread(FOLDERS[agent], everything) if path.suffix in endings
    ] == []
    assert all(len(found.facts) == 1 and found.events for _, _, found in everything)


def test_every_record_is_accounted_for(everything: Everything) -> None:
    for source, records, found in everything:
        told = {event.record for event in found.events}
        silent = sum(record.sidecar is None for record in records) - len(told)
        assert silent == sum(found.merged.values()), source.path
        assert not found.skips


def test_sessions_are_named_and_numbered(agent: str, everything: Everything) -> None:
    for source, _, found in everything:
        ((uid, facts),) = found.facts.items()
        assert uid == make_uid(agent, facts.native_session_id)
        assert [event.seq for event in found.events] == list(range(len(found.events))), source.path
        assert len({event.native_id for event in found.events}) == len(found.events)
        assert facts.title or not any(
            event.kind == "user_msg" and title_of(body)
            for event, body in zip(found.events, found.bodies, strict=True)
        )


def test_any_cut_gives_the_same(agent: str) -> None:
    check_law(get(agent), FOLDERS[agent], cuts=2)


def test_broken_values_and_damaged_bytes_cost_little(
    agent: str, loops: Callable[[int], int]
) -> None:
    # A file of 3 MB is normalized again for every broken value.
    check_breakage(
        get(agent),
        FOLDERS[agent],
        random.Random(),
        max(1, loops(30) // (10 if agent == "qwen_code" else 1)),
    )
    check_noise(
        get(agent),
        FOLDERS[agent],
        random.Random(),
        max(1, loops(30) // (10 if agent == "qwen_code" else 1)),
    )


def test_a_second_count_agrees(agent: str, everything: Everything) -> None:
    for source, _, found in everything:
        mine: Counter[str] = Counter()
        for event in found.events:
            if event.kind in COUNTED and event.native not in (
                "slash_command",
                "rewind",
                "ui_telemetry/user_feedback",
                "interrupt",
            ):
                mine[COUNTED[event.kind]] += 1
        second = Counter(
            messages_of(source.path) if agent == "gemini_cli" else lines_of(source.path)
        )
        assert mine == second, source.path


def test_a_second_sum_of_tokens_agrees(agent: str, everything: Everything) -> None:
    """What the files say, summed: the total of each message, and for Qwen Code that of each
    response which telemetry tells of."""
    checked = 0
    for source, _, found in everything:
        mine = sum(entry.call.total for entry in merge(call for call, _ in found.calls))
        theirs = totals_of(source.path) if agent == "gemini_cli" else responses_of(source.path)
        # Made by hand, and its totals count what was cached twice.
        if source.path.endswith("standard_session.json"):
            theirs -= 150
        assert mine == theirs, source.path
        checked += theirs
    assert checked


def test_tokens_of_events_are_those_of_the_messages(everything: Everything, agent: str) -> None:
    for source, _, found in everything:
        if agent == "qwen_code":
            mine = sum(event.usage.total for event in found.events if event.usage)
            assert mine == sum(used_by(value) for value in values_of(source.path)), source.path


# The second count.

COUNTED = {
    "user_msg": "prompt", "assistant_msg": "reply", "thinking": "thought", "tool_call": "call",
    "edit": "call", "test_run": "call",
    "tool_result": "result", "decision": "result", "human_intervention": "result",
}  # fmt: skip


def values_of(path: str) -> Iterator[dict[str, Any]]:
    """Every object of a file, also where two stand on one line."""
    for text in Path(path).read_text(encoding="utf-8").splitlines():
        rest = text.strip()
        while rest:
            value, end = json.JSONDecoder().raw_decode(rest)
            rest = rest[end:].strip()
            yield value


def document_of(path: str) -> list[dict[str, Any]]:
    if path.endswith(".jsonl"):
        return [value for value in values_of(path) if "id" in value]
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    return list(document.get("messages") or document["history"])


def messages_of(path: str) -> Iterator[str]:
    for message in document_of(path):
        kind = message.get("type", message.get("role"))
        content = message.get("content", message.get("parts"))
        words = (
            content
            if isinstance(content, str)
            else "".join(part.get("text", "") for part in content or [])
        )
        if kind == "user" and words.strip():
            yield "prompt"
        if kind in ("gemini", "model"):
            yield from ["reply"] if words.strip() else []
            yield from ["thought"] * len(message.get("thoughts") or [])
            for call in message.get("toolCalls") or []:
                yield "call"
                if call["status"] in ("success", "error", "cancelled"):
                    yield "result"


def totals_of(path: str) -> int:
    return sum((message.get("tokens") or {}).get("total", 0) for message in document_of(path))


def lines_of(path: str) -> Iterator[str]:
    seen = set()
    for value in values_of(path):
        text = json.dumps(value)
        if value.get("type") not in ("user", "assistant", "tool_result") or (
            value.get("uuid") and text in seen
        ):
            continue
        seen.add(text)
        parts = value["message"]["parts"]
        if value["type"] == "user" and value.get("subtype") != "notification":
            yield "prompt"
        for part in parts if value["type"] != "user" else ():
            if "functionCall" in part:
                yield "call"
            elif "functionResponse" in part:
                yield "result"
            elif part["text"].strip():
                yield "thought" if part.get("thought") else "reply"


def used_by(value: dict[str, Any]) -> int:
    used = value.get("usageMetadata") or {}
    return int(used.get("promptTokenCount", 0) + used.get("candidatesTokenCount", 0))


def responses_of(path: str) -> int:
    """Every response of telemetry, and every message that none of them comes before."""
    total = 0
    told: list[int] = []
    for value in values_of(path):
        event = (value.get("systemPayload") or {}).get("uiEvent") or {}
        if str(event.get("event.name")).endswith(".api_response"):
            total += event["total_token_count"]
            told.append(event["total_token_count"])
        used = used_by(value)
        if used in told:
            told.remove(used)
        else:
            total += used
    return total
