"""Sessions that goose itself wrote, where they are at hand: a second count agrees.

The second count is written from the format's description alone, with plain `json` and `sqlite3`,
and shares no code with the adapter.
"""

import json
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from runlore.adapters import Normalized, get
from runlore.pricing.ledger import merge
from runlore.testing import check_breakage, check_law, check_noise
from tests.adapters import corpus

CORPUS = corpus.CORPUS / "goose"
ADAPTER = get("goose")

pytestmark = corpus.needs(CORPUS)


@pytest.fixture(scope="module")
def everything() -> dict[str, Normalized]:
    return {
        facts.native_session_id: found
        for _, _, found in corpus.read_all(ADAPTER, CORPUS)
        for facts in found.facts.values()
    }


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> sqlite3.Connection:
    """A copy: opening one with its log would write to it."""
    (path,) = CORPUS.rglob("sessions.db")
    copy = tmp_path_factory.mktemp("copy") / "sessions.db"
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
    return sqlite3.connect(copy)


def test_every_file_is_accounted_for(
    everything: dict[str, Normalized], db: sqlite3.Connection
) -> None:
    """What a person exported is a copy of a session in the database, and lies where the agent keeps
    none."""
    others = {
        path.name
        for path in CORPUS.rglob("*")
        if path.is_file() and not path.name.startswith("sessions.db")
    }
    assert others <= {"goose-session-export.json"}
    assert all(
        json.loads(path.read_text())["id"] in everything
        for path in CORPUS.rglob("goose-session-export.json")
    )
    assert set(everything) == {
        id_ for (id_,) in db.execute("select distinct session_id from messages")
    }


def blocks(
    db: sqlite3.Connection, session: str
) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    rows = db.execute(
        "select role, content_json, metadata_json from messages where session_id = ? order by id",
        (session,),
    )
    return [
        (role, json.loads(about), block)
        for role, content, about in rows
        for block in json.loads(content)
    ]


def test_a_second_count_agrees(everything: dict[str, Normalized], db: sqlite3.Connection) -> None:
    for session, found in everything.items():
        assert not found.skips
        theirs, ours = Counter[str](), Counter[str]()
        for role, about, block in blocks(db, session):
            kind = block["type"]
            is_typed = role == "user" and kind == "text" and about["userVisible"]
            theirs["prompts"] += is_typed and not block["text"].startswith("/")
            theirs["commands"] += is_typed and block["text"].startswith("/")
            theirs["thoughts"] += kind == "thinking"
            theirs["calls"] += kind == "toolRequest"
            theirs["results"] += kind == "toolResponse"
            value = block.get("toolResult", {}).get("value", {})
            theirs["errors"] += (
                block.get("toolResult", {}).get("status") == "error" or value.get("isError") is True
            )
            theirs["failed commands"] += bool(value.get("structuredContent", {}).get("exit_code"))
            theirs["context"] += about.get("turnContext") is True
        for event in found.events:
            ours["prompts"] += event.kind == "user_msg"
            ours["commands"] += event.native == "text/command"
            ours["thoughts"] += event.kind == "thinking"
            ours["calls"] += event.is_call
            ours["results"] += event.kind == "tool_result"
            ours["errors"] += event.kind == "tool_result" and event.is_error
            ours["failed commands"] += bool(event.exit_code)
            ours["context"] += (event.summary or "").startswith("<turn-context>")
        assert +ours == +theirs, session


def test_usage_agrees_with_the_sums_of_the_sessions(
    everything: dict[str, Normalized], db: sqlite3.Connection
) -> None:
    sums = "accumulated_input_tokens, accumulated_output_tokens, accumulated_cache_read_tokens"
    for session, *wanted in db.execute(f"select id, {sums} from sessions"):
        calls = [entry.call for entry in merge(call for call, _ in everything[session].calls)]
        ours = [
            sum(call.prompt_tokens for call in calls),
            sum(call.output_tokens for call in calls),
        ]
        assert [*ours, sum(call.cache_read_tokens for call in calls)] == wanted


def test_subagents_and_compactions_are_known(
    everything: dict[str, Normalized], db: sqlite3.Connection
) -> None:
    for session, above in db.execute("select id, parent_session_id from sessions"):
        (facts,) = everything[session].facts.values()
        assert facts.parent_uid == (f"goose:{above}" if above else None)
        asked = (
            [block["id"] for _, _, block in blocks(db, above) if block["type"] == "toolRequest"]
            if above
            else [None]
        )
        assert facts.parent_call in asked
        (compactions,) = db.execute(
            "select sum(is_compaction) from usage_ledger where session_id = ?", (session,)
        ).fetchone()
        assert sum(event.view == "compact" for event in everything[session].events) == compactions


def test_the_promises_hold(loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, CORPUS, cuts=loops(20))
    check_breakage(ADAPTER, CORPUS, random.Random(), loops(50))
    check_noise(ADAPTER, CORPUS, random.Random(), loops(50))
