"""Sessions that opencode itself wrote, and samples of others, where they are at hand: nothing raises, everything is accounted for,
and a second count agrees.

The second count is written from the format's description alone, with plain `json` and `sqlite3`, and shares no code with the adapter.
"""

import json
import os
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runlore.adapters import Normalized, Record, Source, get
from runlore.testing import check_breakage, check_law, check_noise

CORPUS = Path(__file__).parents[3] / "shared/corpus/opencode"
ADAPTER = get("opencode")

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")

Everything = list[tuple[Source, list[Record], Normalized]]
Plain = dict[str, list[tuple[dict[str, Any], list[dict[str, Any]]]]]
"""For each session, its messages with their parts."""


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy from long ago: a message that is not finished and was written within the hour is not read yet, and a checkout is new."""
    root = tmp_path_factory.mktemp("aged") / "opencode"
    shutil.copytree(CORPUS, root, copy_function=shutil.copyfile)
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (1_700_000_000, 1_700_000_000))
    return root


@pytest.fixture(scope="module")
def everything(aged: Path) -> Everything:
    sources = [(source, list(ADAPTER.read(source, None))) for source in ADAPTER.discover(aged)]
    return [(source, records, ADAPTER.normalize(source, records, None)) for source, records in sources]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    found: Plain = {}
    for path in sorted(CORPUS.rglob("message/*/*.json")):
        message = json.loads(path.read_text())
        storage = path.parents[2]
        parts = [json.loads(part.read_text()) for part in sorted(storage.glob(f"part/{message['id']}/*.json"))]
        parts += [
            part for file in sorted(storage.glob("part/*.json")) if (part := json.loads(file.read_text()))["messageID"] == message["id"]
        ]
        found.setdefault(message["sessionID"], []).append((message, parts))
    for db in databases(tmp_path_factory.mktemp("copies")):
        for id_, session, data in db.execute("select id, session_id, data from message"):
            parts = [json.loads(text) for (text,) in db.execute("select data from part where message_id = ? order by id", (id_,))]
            found.setdefault(session, []).append((json.loads(data), parts))
    return found


def databases(folder: Path) -> list[sqlite3.Connection]:
    """Copies: opening one with its log would write to it."""
    found = []
    for n, path in enumerate(sorted(CORPUS.rglob("opencode*.db"))):
        for suffix in ("", "-wal"):
            if (file := path.with_name(path.name + suffix)).exists():
                shutil.copyfile(file, folder / f"{n}.db{suffix}")
        found.append(sqlite3.connect(folder / f"{n}.db"))
    return found


def test_every_session_is_found_once(everything: Everything, plain: Plain) -> None:
    found = Counter(facts.native_session_id for _, _, found in everything for facts in found.facts.values())
    assert found == Counter(plain.keys())
    assert len(found) == 13


def test_every_message_is_accounted_for(everything: Everything, plain: Plain) -> None:
    for source, records, found in everything:
        (facts,) = found.facts.values()
        lines = [json.loads(record.data) for record in records if record.aside is None]
        assert sum("removed" not in line for line in lines) == len(plain[facts.native_session_id]), source.path
        told = {event.record for event in found.events if event.record is not None and event.record < len(lines)}
        assert len(told) + found.merged.get("empty", 0) >= len(lines)
        assert not found.skips
        assert len(found.events) == len(found.bodies) == len(found.parents) == len(found.originals)


def test_a_second_count_agrees(everything: Everything, plain: Plain) -> None:
    for source, records, found in everything:
        (facts,) = found.facts.values()
        removed = {n for n, line in enumerate(r for r in records if r.aside is None) if "removed" in json.loads(line.data)}
        ours = Counter[str]()
        for event in found.events:
            if event.record not in removed:
                ours["prompts"] += event.kind == "user_msg"
                ours["thoughts"] += event.kind == "thinking"
                ours["calls"] += event.is_call
                ours["answers"] += event.role == "tool"
                ours["interrupts"] += event.native == "MessageAbortedError"
                ours["failures"] += event.kind == "error"
                ours["failed commands"] += bool(event.exit_code)
        theirs = Counter[str]()
        for message, parts in plain[facts.native_session_id]:
            name = (message.get("error") or {}).get("name")
            theirs["interrupts"] += name == "MessageAbortedError"
            theirs["failures"] += name not in (None, "MessageAbortedError")
            for part in parts:
                is_typed = message["role"] == "user" and part["type"] == "text" and not part.get("synthetic")
                theirs["prompts"] += is_typed
                theirs["thoughts"] += part["type"] == "reasoning"
                theirs["calls"] += part["type"] == "tool"
                theirs["answers"] += part["type"] == "tool" and part["state"]["status"] in ("completed", "error", "success")
                theirs["failed commands"] += bool(part.get("state", {}).get("metadata", {}).get("exit")) if part["type"] == "tool" else 0
        assert +ours == +theirs, source.path


def test_usage_agrees_with_the_totals_of_the_sessions(everything: Everything, plain: Plain, tmp_path: Path) -> None:
    """Those in the database, which leave out what was taken back; and those of the messages, of which a step repeats its own."""
    totals: dict[str, tuple[int, int, int]] = {}
    for db in databases(tmp_path):
        for id_, *tokens in db.execute("select id, tokens_input, tokens_output + tokens_reasoning, tokens_cache_read from session"):
            totals[id_] = (tokens[0], tokens[1], tokens[2])
    assert len(totals) == 3
    for id_, messages in plain.items():
        steps = [message["tokens"] for message, _ in messages if isinstance(message.get("tokens"), dict)]
        summed = [(t["input"], t["output"] + t.get("reasoning", 0), t.get("cache", {}).get("read", 0)) for t in steps]
        wanted = (sum(t[0] for t in summed), sum(t[1] for t in summed), sum(t[2] for t in summed))
        assert totals.setdefault(id_, wanted) == wanted
    for source, records, found in everything:
        (facts,) = found.facts.values()
        removed = {n for n, line in enumerate(r for r in records if r.aside is None) if "removed" in json.loads(line.data)}
        used = [event.usage for event in found.events if event.usage and event.record not in removed]
        ours = (sum(u.input_tokens for u in used), sum(u.output_tokens for u in used), sum(u.cache_read_tokens for u in used))
        assert ours == totals[facts.native_session_id], source.path


def test_what_was_taken_back_is_in_the_log(everything: Everything) -> None:
    removed = [
        line for _, records, _ in everything for record in records if b'"removed"' in record.data and (line := json.loads(record.data))
    ]
    assert len([line for line in removed if line.get("removed")]) == 3
    gone = [event.native for _, _, found in everything for event in found.events if event.native == "revert"]
    assert len(gone) == 3  # one of them is done, two are not yet


def test_forks_and_subagents_know_where_they_come_from(everything: Everything) -> None:
    relations = Counter((facts.relation, facts.parent_call) for _, _, found in everything for facts in found.facts.values())
    assert relations[("subagent", "call_t1")] == 3
    assert relations[("fork", None)] == 2
    for _, _, found in everything:
        (facts,) = found.facts.values()
        if facts.relation == "fork":
            assert sum(original is not None for original in found.originals) == 27


def test_the_promises_hold(aged: Path, loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, aged, cuts=loops(20))
    check_breakage(ADAPTER, aged, random.Random(), loops(50))
    check_noise(ADAPTER, aged, random.Random(), loops(50))
