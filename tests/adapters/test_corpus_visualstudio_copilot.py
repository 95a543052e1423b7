"""Traces of Visual Studio's Copilot, where they are at hand: a second count, with plain `json` and no code of the adapter's, agrees."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from runlore import config, pipeline
from runlore.adapters import get
from runlore.store import open_store
from runlore.testing import check_breakage, check_law, check_noise

CORPUS = Path(__file__).parents[3] / "shared/corpus/visualstudio-copilot"
FIXTURE = Path(__file__).parent / "fixtures/visualstudio_copilot/basic/root"
ADAPTER = get("visualstudio_copilot")

needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")


@needs_corpus
def test_a_second_count_agrees() -> None:
    theirs, sessions = Counter[str](), set[str]()
    for path in CORPUS.rglob("*.jsonl"):
        for line in path.read_text().splitlines():
            (resource,) = json.loads(line)["resourceSpans"]
            for span in resource["scopeSpans"][0]["spans"]:
                given = {item["key"]: item["value"]["stringValue"] for item in span["attributes"]}
                sessions.add(given["gen_ai.conversation.id"])
                theirs[given["gen_ai.operation.name"]] += 1
                theirs["results"] += "gen_ai.tool.call.result" in given
    ours, found = Counter[str](), set[str]()
    for source in ADAPTER.discover(CORPUS):
        made = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
        found |= {facts.native_session_id for facts in made.facts.values()}
        ours["invoke_agent"] += sum(event.native == "invoke_agent" for event in made.events)
        ours["execute_tool"] += sum(event.is_call for event in made.events)
        ours["results"] += sum(event.role == "tool" for event in made.events)
        assert not made.skips
    assert (ours, found) == (theirs, sessions)
    assert ours == {"invoke_agent": 5, "execute_tool": 11, "results": 11}


@needs_corpus
def test_a_conversation_in_several_files_is_one_session(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store.db"))
    report = pipeline.sync(store, config.load(), agents=["visualstudio_copilot"], roots=[str(CORPUS)])
    assert (report.found, report.new_sessions, report.problems) == ({"new": 4}, 2, [])
    events = list(store.events("visualstudio_copilot:4a8f63f6-7626-4416-a874-fc7bd2c3f005"))
    assert sum(event.native == "invoke_agent" for event in events) == 4
    store.close()


@needs_corpus
def test_the_promises_hold(loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, CORPUS, cuts=loops(20))
    check_breakage(ADAPTER, CORPUS, random.Random(), loops(100))
    check_noise(ADAPTER, CORPUS, random.Random(), loops(50))


def test_what_was_added_is_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "1_VSGitHubCopilot_traces.jsonl"
    lines = (FIXTURE / "20260612_1_VSGitHubCopilot_traces.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    (source,) = ADAPTER.discover(tmp_path)
    records = list(ADAPTER.read(source, None))
    since = ADAPTER.position(source, records[-1].end, len(records))
    path.write_bytes(b"".join(lines))
    assert ADAPTER.follows(source, since)
    assert [record.data + b"\n" for record in ADAPTER.read(source, since)] == lines[2:]
