"""A real session of iFlow CLI, where it is at hand: a second count, with plain `json`, agrees."""

import json
import random
from collections.abc import Callable
from pathlib import Path

from runlore.adapters import get
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus

CORPUS = corpus.CORPUS / "iflow"
ADAPTER = get("iflow")

pytestmark = corpus.needs(CORPUS)


def test_every_file_is_a_session_and_a_second_count_agrees() -> None:
    everything = corpus.read_all(ADAPTER, CORPUS)
    assert corpus.unread(CORPUS, everything) == []
    for source, _, found in everything:
        lines = [
            json.loads(line) for line in Path(source.path).read_bytes().split(b"\n") if line.strip()
        ]
        (facts,) = found.facts.values()
        assert (facts.native_session_id, facts.cwd) == (lines[0]["sessionId"], lines[0]["cwd"])
        contents = [(line["type"], line["message"]["content"]) for line in lines]
        blocks = [
            block for _, content in contents if isinstance(content, list) for block in content
        ]
        kinds = [event.kind for event in found.events]
        assert kinds.count("user_msg") == sum(
            kind == "user" and isinstance(content, str) for kind, content in contents
        )
        assert kinds.count("assistant_msg") == sum(block["type"] == "text" for block in blocks)
        assert sum(event.is_call for event in found.events) == len(
            {block["id"] for block in blocks if block["type"] == "tool_use"}
        )
        assert kinds.count("tool_result") == sum(block["type"] == "tool_result" for block in blocks)
        assert not any(line["message"].get("usage", {}).get("input_tokens") for line in lines)
        assert not found.skips


def test_the_promises_hold(loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, CORPUS, cuts=loops(20))
    check_breakage(ADAPTER, CORPUS, random.Random(), loops(100))
    check_noise(ADAPTER, CORPUS, random.Random(), loops(100))
