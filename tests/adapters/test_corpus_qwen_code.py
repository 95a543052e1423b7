"""Sessions of Qwen Code, where they are at hand: every file is one, and a second count agrees.

The second count is written from the format's description alone, with plain `json`, and shares no code with the adapter.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import Normalized, Source, get
from runlore.ledger import merge
from runlore.testing import check_law

CORPUS = Path(__file__).parents[3] / "shared/corpus/qwen-code"
ADAPTER = get("qwen_code")
HOME = ".qwen"
"""Below such a folder sessions are as the program left them; the others were made by hand, some with lines that it never wrote."""

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")

Everything = list[tuple[Source, Normalized]]


@pytest.fixture(scope="module")
def everything() -> Everything:
    return [(source, ADAPTER.normalize(source, ADAPTER.read(source, None), None)) for source in ADAPTER.discover(CORPUS)]


def records(path: str) -> Iterator[dict[str, Any]]:
    seen = set()
    for line in Path(path).read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and (name := value.get("uuid", id(value))) not in seen:
            seen.add(name)
            yield value


def test_every_transcript_gives_a_session(everything: Everything) -> None:
    assert {source.path for source, _ in everything} >= {str(path) for path in CORPUS.rglob("*.jsonl")}
    for source, found in everything:
        assert found.events, source.path
        assert len(found.facts) == 1, source.path


def test_a_second_count_agrees(everything: Everything) -> None:
    for source, found in everything:
        if HOME not in Path(source.path).parts:
            continue
        theirs, ours = Counter[str](), Counter[str]()
        for record in records(source.path):
            message = record.get("message")
            for part in message.get("parts", []) if isinstance(message, dict) else []:
                theirs["calls"] += "functionCall" in part
                theirs["results"] += "functionResponse" in part
                theirs["thoughts"] += bool(part.get("thought")) and bool(part.get("text", "").strip())
                is_said = not part.get("thought") and bool(part.get("text", "").strip())
                theirs["replies"] += record.get("type") == "assistant" and is_said
        for event in found.events:
            ours["calls"] += event.is_call
            ours["results"] += event.role == "tool"
            ours["thoughts"] += event.kind == "thinking"
            ours["replies"] += event.kind == "assistant_msg"
        assert +ours == +theirs, source.path


def test_tokens_are_those_that_telemetry_tells(everything: Everything) -> None:
    """It tells of every call; messages repeat what it told of theirs."""
    for source, found in everything:
        told: dict[str, tuple[int, int, int]] = {}
        for record in records(source.path):
            event = (record.get("systemPayload") or {}).get("uiEvent") or {} if record.get("type") == "system" else {}
            if str(event.get("event.name")).endswith("api_response"):
                counts = (event.get(f"{name}_token_count") or 0 for name in ("input", "output", "cached_content"))
                told[str(event.get("response_id"))] = tuple(counts)  # type: ignore[assignment] # of three
        if not told or HOME not in Path(source.path).parts:
            continue
        calls = [kept.call for kept in merge(call for call, _ in found.calls)]
        ours = sum(call.prompt_tokens for call in calls), sum(call.output_tokens for call in calls)
        theirs = sum(given for given, _, _ in told.values()), sum(out for _, out, _ in told.values())
        assert ours == theirs, source.path
        assert sum(call.cache_read_tokens for call in calls) == sum(cached for _, _, cached in told.values()), source.path


def test_any_cut_gives_the_same(everything: Everything, loops: Callable[[int], int], tmp_path: Path) -> None:
    for n, (source, _) in enumerate(everything):
        if source.size < 100_000:
            (tmp_path / str(n)).mkdir()
            (tmp_path / str(n) / Path(source.path).name).write_bytes(Path(source.path).read_bytes())
    check_law(ADAPTER, tmp_path, cuts=loops(3))
