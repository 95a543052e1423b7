"""Traces of Visual Studio's Copilot, where they are at hand: a second count, with plain `json` and
no code of the adapter's, agrees."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from runlore import config
from runlore.adapters import get
from runlore.store import open_store
from runlore.sync import pipeline
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus

CORPUS = corpus.CORPUS / "visualstudio-copilot"
FIXTURE = Path(__file__).parent / "fixtures/visualstudio_copilot/basic/root"
ADAPTER = get("visualstudio_copilot")

needs_corpus = corpus.needs(CORPUS)


def spans(path: str | Path) -> Iterator[dict[str, str]]:
    """What each span of a file says of itself."""
    for line in Path(path).read_text().splitlines():
        (resource,) = json.loads(line)["resourceSpans"]
        for span in resource["scopeSpans"][0]["spans"]:
            yield {item["key"]: item["value"]["stringValue"] for item in span["attributes"]}


@needs_corpus
def test_every_file_is_read_and_a_second_count_agrees() -> None:
    everything = corpus.read_all(ADAPTER, CORPUS)
    assert corpus.unread(CORPUS, everything) == []
    for source, _, found in everything:
        theirs = Counter(given["gen_ai.operation.name"] for given in spans(source.path))
        theirs["results"] = sum("gen_ai.tool.call.result" in given for given in spans(source.path))
        ours = Counter[str]()
        ours["invoke_agent"] = sum(event.native == "invoke_agent" for event in found.events)
        ours["execute_tool"] = sum(event.is_call for event in found.events)
        ours["results"] = sum(event.role == "tool" for event in found.events)
        assert +ours == +theirs, source.path
        sessions = {facts.native_session_id for facts in found.facts.values()}
        assert sessions == {given["gen_ai.conversation.id"] for given in spans(source.path)}
        assert not found.skips


@needs_corpus
def test_a_conversation_in_several_files_is_one_session(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store.db"))
    report = pipeline.sync(
        store, config.load(), agents=["visualstudio_copilot"], roots=[str(CORPUS)]
    )
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    given = [each for path in files for each in spans(path)]
    turns = Counter(
        each["gen_ai.conversation.id"]
        for each in given
        if each["gen_ai.operation.name"] == "invoke_agent"
    )
    assert max(turns.values()) > 1
    assert (report.found, report.new_sessions, report.problems) == (
        {"new": len(files)},
        len(turns),
        [],
    )
    for session, count in turns.items():
        events = store.sessions.events(f"visualstudio_copilot:{session}")
        assert sum(event.native == "invoke_agent" for event in events) == count
    store.close()


@needs_corpus
def test_the_promises_hold(loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, CORPUS, cuts=loops(20))
    check_breakage(ADAPTER, CORPUS, random.Random(), loops(100))
    check_noise(ADAPTER, CORPUS, random.Random(), loops(50))


def test_what_was_added_is_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "1_VSGitHubCopilot_traces.jsonl"
    lines = (
        (FIXTURE / "20260612_1_VSGitHubCopilot_traces.jsonl").read_bytes().splitlines(keepends=True)
    )
    path.write_bytes(b"".join(lines[:2]))
    (source,) = ADAPTER.discover(tmp_path)
    records = list(ADAPTER.read(source, None))
    since = ADAPTER.position(source, records[-1].end, len(records))
    path.write_bytes(b"".join(lines))
    assert ADAPTER.follows(source, since)
    assert [record.data + b"\n" for record in ADAPTER.read(source, since)] == lines[2:]
