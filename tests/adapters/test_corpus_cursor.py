"""Samples of Cursor's stores, where they are at hand: nothing raises, everything is accounted for,
and a second count agrees.

The second count is written from the format's description alone, with plain `json` and `sqlite3`,
and shares no code with the adapter.
"""

import json
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import get
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus
from tests.adapters.corpus import Everything

CORPUS = corpus.CORPUS / "cursor"
ADAPTER = get("cursor")
OTHER = {
    "Dicklesworthstone__coding_agent_session_search": "what a test expects, with rows in it",
    "slevin48__cursor-history/workspaceStorage": "an answer of another program to a query",
    "cursor-tool-1.txt": "what a tool said",
    "cursor-tool-2.txt": "what a tool said",
    "test-store.db": "it has no message",
    "meta.json": "what is said about a session whose messages are not there",
}
"""Files that are no store of a session, and why."""

pytestmark = corpus.needs(CORPUS)


@pytest.fixture(scope="module")
def everything() -> Everything:
    return corpus.read_all(ADAPTER, CORPUS)


def rows(path: Path, table: str, folder: Path) -> dict[str, Any]:
    """The values of a table, from a copy: opening a database may write to it."""
    db = sqlite3.connect(shutil.copyfile(path, folder / "copy.db"))
    found = {
        key: json.loads(value)
        for key, value in db.execute(f"select key, value from {table}")
        if value and value[0] in "[{"
    }
    db.close()
    return found


def test_every_file_is_read_or_known_to_be_none(everything: Everything) -> None:
    read = {
        path
        for source, _, _ in everything
        for path in (Path(source.path), Path(source.path).parent)
    }
    left = [
        path
        for path in CORPUS.rglob("*")
        if path.is_file() and path not in read and path.name not in ("PROVENANCE.md", "INDEX.tsv")
    ]
    assert [path for path in left if not any(word in str(path) for word in OTHER)] == []
    assert not ADAPTER.refused


def test_every_record_is_accounted_for(everything: Everything) -> None:
    for source, records, found in everything:
        count = sum(record.sidecar is None for record in records)
        assert count == len({event.record for event in found.events}) + found.merged.get(
            "empty", 0
        ), source.path
        assert len({event.native_id for event in found.events}) == len(found.events)
        assert [skip.reason for skip in found.skips] == (
            ["not json: expecting value"] if "edge-cases" in source.path else []
        )


def test_a_second_count_of_databases_agrees(everything: Everything, tmp_path: Path) -> None:
    databases = sorted(CORPUS.rglob("*.vscdb"))
    assert databases
    for path in databases:
        theirs = Counter[str]()
        if "slevin48" in str(path):
            values = rows(path, "ItemTable", tmp_path)
            talks = [
                tab["bubbles"]
                for tab in values["workbench.panel.aichat.view.aichat.chatdata"]["tabs"]
            ]
            talks += [
                talk["conversation"] for talk in values["composer.composerData"]["allComposers"]
            ]
        else:
            values = rows(path, "cursorDiskKV", tmp_path)
            talks = [[value for key, value in values.items() if key.startswith("bubbleId:")]]
        theirs["sessions"] = sum(bool(talk) for talk in talks)
        for bubble in (bubble for talk in talks for bubble in talk):
            text = bool(bubble.get("text") or bubble.get("rawText"))
            theirs["prompts"] += bubble["type"] in (1, "user") and text
            theirs["replies"] += bubble["type"] in (2, "ai") and text
            theirs["calls"] += "toolFormerData" in bubble
        ours = Counter[str]()
        for source, _, found in everything:
            if str(path) in source.path:
                ours["sessions"] += len(found.facts)
                ours["prompts"] += sum(event.kind == "user_msg" for event in found.events)
                ours["replies"] += sum(event.kind == "assistant_msg" for event in found.events)
                ours["calls"] += sum(event.is_call for event in found.events)
        assert +ours == +theirs, path


def test_a_second_count_of_transcripts_agrees(everything: Everything) -> None:
    transcripts = [
        (source, found) for source, _, found in everything if source.path.endswith(".jsonl")
    ]
    assert transcripts
    for source, found in transcripts:
        theirs = Counter[str]()
        for line in Path(source.path).read_text().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            theirs["ends"] += record.get("type") == "turn_ended"
            theirs["errors"] += record.get("type") == "error"
            for block in record.get("message", {}).get("content", []):
                said = (
                    block.get("text", "")
                    .replace("<user_query>", "")
                    .replace("</user_query>", "")
                    .strip()
                )
                is_text = (
                    "tool" not in block["type"]
                    and "thinking" not in block
                    and said not in ("", "[REDACTED]")
                )
                theirs["prompts"] += record["role"] == "user" and is_text
                theirs["replies"] += record["role"] == "assistant" and is_text
                theirs["thoughts"] += block["type"] == "thinking"
                theirs["calls"] += block["type"] in ("tool_use", "tool_call")
                theirs["results"] += block["type"] in ("tool_result", "tool-result")
        ours = Counter[str]()
        for event in found.events:
            ours["ends"] += event.kind == "completion"
            ours["errors"] += event.kind == "error"
            ours["prompts"] += event.kind == "user_msg"
            ours["replies"] += event.kind == "assistant_msg"
            ours["thoughts"] += event.kind == "thinking"
            ours["calls"] += event.is_call
            ours["results"] += event.role == "tool"
        assert +ours == +theirs, source.path


def test_the_promises_hold(loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, CORPUS, cuts=loops(20))
    check_breakage(ADAPTER, CORPUS, random.Random(), loops(100))
    check_noise(ADAPTER, CORPUS, random.Random(), loops(50))
