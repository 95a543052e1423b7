"""Sessions that mycode itself wrote, where they are at hand: a second count, with plain `json`,
agrees."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import get
from runlore.testing import check_breakage, check_law, check_noise
from runlore.timeline import active
from tests.adapters import corpus
from tests.adapters.corpus import Everything

CORPUS = corpus.CORPUS / "mycode"
ADAPTER = get("mycode")
KINDS = {"edit": "edit", "write": "edit"}

pytestmark = corpus.needs(CORPUS)


@pytest.fixture(scope="module")
def everything() -> Everything:
    return corpus.read_all(ADAPTER, CORPUS)


def test_every_file_is_a_session_or_belongs_to_one(everything: Everything) -> None:
    assert {path.name for path in corpus.unread(CORPUS, everything)} <= {"meta.json", "lock"}


def test_a_second_count_agrees(everything: Everything) -> None:
    for source, _, found in everything:
        lines = [json.loads(line) for line in Path(source.path).read_text().splitlines()]
        meta = Path(source.path).with_name("meta.json")
        (facts,) = found.facts.values()
        assert facts.native_session_id == Path(source.path).parent.name
        assert facts.cwd == (json.loads(meta.read_text())["cwd"] if meta.is_file() else None)
        assert not found.skips
        theirs, ours = Counter[str](), Counter(event.kind for event in found.events)
        for line in lines:
            theirs.update(kinds(line))
        assert ours == theirs
        texts = [
            block["text"] for line in lines for block in line.get("content", []) if "text" in block
        ]
        assert [body for body in found.bodies if body in texts] == texts
        times = [
            line["meta"]["created_at"] for line in lines if "created_at" in line.get("meta", {})
        ]
        assert not times or {event.ts.isoformat() for event in found.events if event.ts} == set(
            times
        )
        used = [line["meta"]["usage"] for line in lines if "usage" in line.get("meta", {})]
        assert sum(call.input_tokens + call.cache_read_tokens for call, _ in found.calls) == sum(
            usage.get("input_tokens", usage.get("prompt_tokens")) for usage in used
        )
        assert sum(call.output_tokens for call, _ in found.calls) == sum(
            usage["total_tokens"] for usage in used
        ) - sum(usage.get("input_tokens", usage.get("prompt_tokens")) for usage in used)


def kinds(line: dict[str, Any]) -> list[str]:
    if line["role"] == "rewind":
        return ["human_intervention"]
    if line["role"] == "compact":
        return ["lifecycle", "lifecycle"]
    return [kind(line["role"], block) for block in line["content"]]


def kind(role: str, block: dict[str, Any]) -> str:
    if block["type"] == "tool_use":
        return (
            "test_run"
            if "pytest" in block["input"].get("command", "")
            else KINDS.get(block["name"], "tool_call")
        )
    if block["type"] == "tool_result":
        return (
            "human_intervention"
            if block.get("output") in ("error: cancelled", "error: permission denied")
            else "tool_result"
        )
    return "thinking" if block["type"] == "thinking" else f"{role}_msg"


def test_what_was_rewound_is_on_a_line_of_its_own(everything: Everything) -> None:
    (found,) = [found for source, _, found in everything if "f00dfeed" in source.path]
    seq_of = {event.native_id: event.seq for event in found.events}
    linked = [
        type(event).from_dict(
            {**event.to_dict(), "parent_seq": None if parent is None else seq_of[parent]}
        )
        for event, parent in zip(found.events, found.parents, strict=True)
    ]
    bodies = [found.bodies[event.seq] for event in active(linked)]
    assert "Question two, reworded" in bodies
    assert "Question two" not in bodies
    assert "Question one" in bodies


def test_the_promises_hold(loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, CORPUS, cuts=loops(20))
    check_breakage(ADAPTER, CORPUS, random.Random(), loops(50))
    check_noise(ADAPTER, CORPUS, random.Random(), loops(50))
