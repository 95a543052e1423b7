"""Sessions that opencode itself wrote, and samples of others, where they are at hand: nothing
raises, everything is accounted for, and a second count agrees.

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

CORPUS = corpus.CORPUS / "opencode"
ADAPTER = get("opencode")

pytestmark = corpus.needs(CORPUS)

Plain = dict[str, list[tuple[dict[str, Any], list[dict[str, Any]]]]]
"""For each session, its messages with their parts."""


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.aged_copy(CORPUS, tmp_path_factory.mktemp("aged") / "opencode")


@pytest.fixture(scope="module")
def everything(aged: Path) -> Everything:
    return corpus.read_all(ADAPTER, aged)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    found: Plain = {}
    for path in sorted(CORPUS.rglob("message/*/*.json")):
        message = json.loads(path.read_text())
        storage = path.parents[2]
        parts = [
            json.loads(part.read_text())
            for part in sorted(storage.glob(f"part/{message['id']}/*.json"))
        ]
        parts += [
            part
            for file in sorted(storage.glob("part/*.json"))
            if (part := json.loads(file.read_text()))["messageID"] == message["id"]
        ]
        found.setdefault(message["sessionID"], []).append((message, parts))
    for db in databases(tmp_path_factory.mktemp("copies")):
        for id_, session, data in db.execute("select id, session_id, data from message"):
            parts = [
                json.loads(text)
                for (text,) in db.execute(
                    "select data from part where message_id = ? order by id", (id_,)
                )
            ]
            found.setdefault(session, []).append((json.loads(data), parts))
    return found


@pytest.fixture(scope="module")
def plain_sessions(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What is said of each session, in the words of the tree."""
    found = [json.loads(path.read_text()) for path in sorted(CORPUS.rglob("session/*/*.json"))]
    for db in databases(tmp_path_factory.mktemp("copies")):
        rows = db.execute("select id, parent_id, revert, time_created from session")
        found += [
            {"id": row[0], "parentID": row[1], "revert": row[2], "time": {"created": row[3]}}
            for row in rows
        ]
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
    found = Counter(
        facts.native_session_id for _, _, found in everything for facts in found.facts.values()
    )
    assert found == Counter(plain.keys())


def test_every_message_is_accounted_for(everything: Everything, plain: Plain) -> None:
    for source, records, found in everything:
        (facts,) = found.facts.values()
        lines = [json.loads(record.data) for record in records if record.sidecar is None]
        assert sum("removed" not in line for line in lines) == len(
            plain[facts.native_session_id]
        ), source.path
        told = {
            event.record
            for event in found.events
            if event.record is not None and event.record < len(lines)
        }
        assert len(told) + found.merged.get("empty", 0) >= len(lines)
        assert not found.skips
        assert len(found.events) == len(found.bodies) == len(found.parents) == len(found.originals)


def test_a_second_count_agrees(everything: Everything, plain: Plain) -> None:
    for source, records, found in everything:
        (facts,) = found.facts.values()
        removed = {
            n
            for n, line in enumerate(r for r in records if r.sidecar is None)
            if "removed" in json.loads(line.data)
        }
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
                is_typed = (
                    message["role"] == "user"
                    and part["type"] == "text"
                    and not part.get("synthetic")
                )
                theirs["prompts"] += is_typed
                theirs["thoughts"] += part["type"] == "reasoning"
                theirs["calls"] += part["type"] == "tool"
                theirs["answers"] += part["type"] == "tool" and part["state"]["status"] in (
                    "completed",
                    "error",
                    "success",
                )
                theirs["failed commands"] += (
                    bool(part.get("state", {}).get("metadata", {}).get("exit"))
                    if part["type"] == "tool"
                    else 0
                )
        assert +ours == +theirs, source.path


def test_usage_agrees_with_the_totals_of_the_sessions(
    everything: Everything, plain: Plain, tmp_path: Path
) -> None:
    """Those in the database, which leave out what was taken back; and those of the messages, of
    which a step repeats its own."""
    totals: dict[str, tuple[int, int, int]] = {}
    for db in databases(tmp_path):
        for id_, *tokens in db.execute(
            "select id, tokens_input, tokens_output + tokens_reasoning, tokens_cache_read from"
            " session"
        ):
            totals[id_] = (tokens[0], tokens[1], tokens[2])
    assert totals
    for id_, messages in plain.items():
        steps = [
            message["tokens"] for message, _ in messages if isinstance(message.get("tokens"), dict)
        ]
        summed = [
            (t["input"], t["output"] + t.get("reasoning", 0), t.get("cache", {}).get("read", 0))
            for t in steps
        ]
        wanted = (sum(t[0] for t in summed), sum(t[1] for t in summed), sum(t[2] for t in summed))
        assert totals.setdefault(id_, wanted) == wanted
    for source, records, found in everything:
        (facts,) = found.facts.values()
        removed = {
            n
            for n, line in enumerate(r for r in records if r.sidecar is None)
            if "removed" in json.loads(line.data)
        }
        used = [
            event.usage for event in found.events if event.usage and event.record not in removed
        ]
        ours = (
            sum(u.input_tokens for u in used),
            sum(u.output_tokens for u in used),
            sum(u.cache_read_tokens for u in used),
        )
        assert ours == totals[facts.native_session_id], source.path


def test_what_was_taken_back_is_in_the_log(
    everything: Everything, plain_sessions: list[dict[str, Any]], tmp_path: Path
) -> None:
    """The log of changes has the messages that are gone; a session says itself what is to go with
    the next prompt."""
    rows = [
        row
        for db in databases(tmp_path)
        for (row,) in db.execute("select data from event where type like 'message.removed%'")
    ]
    gone = {(session["sessionID"], session["messageID"]) for session in map(json.loads, rows)}
    removed, reverted = set(), set()
    for _, records, found in everything:
        (facts,) = found.facts.values()
        lines = [json.loads(record.data) for record in records if b'"removed"' in record.data]
        removed |= {
            (facts.native_session_id, line["info"]["id"]) for line in lines if line.get("removed")
        }
        reverted |= {facts.native_session_id for event in found.events if event.native == "revert"}
    assert removed == gone != set()
    assert reverted == {session for session, _ in gone} | {
        session["id"] for session in plain_sessions if session.get("revert")
    }


def test_forks_and_subagents_know_where_they_come_from(
    everything: Everything, plain: Plain, plain_sessions: list[dict[str, Any]]
) -> None:
    """A subagent names the session above it, whose call names the subagent. A fork has messages
    that are older than itself."""
    told = {session["id"]: session for session in plain_sessions}
    relations = set()
    for source, records, found in everything:
        (facts,) = found.facts.values()
        relations.add(facts.relation)
        session = told.get(facts.native_session_id, {"time": {"created": 0}})
        messages = [message["time"]["created"] for message, _ in plain[facts.native_session_id]]
        is_fork = min(messages) < session["time"]["created"]
        if above := session.get("parentID"):
            calls = [
                part["callID"]
                for _, parts in plain[above]
                for part in parts
                if is_call_of(part, session["id"])
            ]
            assert (facts.relation, facts.parent_uid, [facts.parent_call]) == (
                "subagent",
                f"opencode:{above}",
                calls,
            )
        else:
            assert (facts.relation == "fork") == is_fork, source.path
        if is_fork and facts.parent_uid:
            lines = [json.loads(record.data) for record in records if record.sidecar is None]
            copied = {
                n
                for n, line in enumerate(lines)
                if line["info"]["time"]["created"] < session["time"]["created"]
            }
            originals = {
                event.record
                for event, original in zip(found.events, found.originals, strict=True)
                if original
            }
            assert originals == copied
    assert relations == {None, "subagent", "fork"}


def is_call_of(part: dict[str, Any], session: str) -> bool:
    return part["type"] == "tool" and bool(
        part["state"].get("metadata", {}).get("sessionId") == session
    )


def test_the_promises_hold(aged: Path, loops: Callable[[int], int]) -> None:
    check_law(ADAPTER, aged, cuts=loops(20))
    check_breakage(ADAPTER, aged, random.Random(), loops(50))
    check_noise(ADAPTER, aged, random.Random(), loops(50))
