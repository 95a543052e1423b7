"""What the adapter of goose promises beyond what its fixtures show: how a database is read whose
sessions are written again.

The databases of the fixtures are made from the `content.json` beside them: `REGENERATE=1 pytest
tests/adapters/test_goose.py`.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from runlore import config
from runlore.adapters import Source, get
from runlore.model import Session
from runlore.store import Store
from runlore.sync import pipeline
from runlore.testing import derive
from runlore.timeline import model_context

ADAPTER = get("goose")
FIXTURES = Path(__file__).parent / "fixtures/goose"
CASES = sorted(path.parent for path in FIXTURES.glob("*/content.json"))
MAIN, BELOW = "goose:20261114_1", "goose:20261114_2"
OLD = """
create table sessions (id text primary key, description text not null default '',
    working_dir text not null, created_at timestamp,
    updated_at timestamp, extension_data text default '{}', total_tokens integer,
    input_tokens integer, output_tokens integer,
    accumulated_total_tokens integer, accumulated_input_tokens integer,
    accumulated_output_tokens integer, schedule_id text,
    recipe_json text);
create table messages (id integer primary key autoincrement, session_id text not null,
    role text not null, content_json text not null,
    created_timestamp integer not null, timestamp timestamp, tokens integer);
"""
SCHEMAS = {
    1: OLD,
    16: OLD
    + """
alter table sessions add name text; alter table sessions add user_set_name boolean;
alter table sessions add session_type text;
alter table sessions add provider_name text; alter table sessions add model_config_json text;
alter table sessions add goose_mode text;
alter table sessions add accumulated_cache_read_tokens integer;
alter table sessions add accumulated_cache_write_tokens integer;
alter table sessions add parent_session_id text; alter table messages add message_id text;
alter table messages add metadata_json text;
create table usage_ledger (id integer primary key autoincrement, session_id text not null,
    created_timestamp integer not null, model text,
    input_tokens integer, output_tokens integer, total_tokens integer, cache_read_tokens integer,
    cache_write_tokens integer, cost real,
    cost_source text, is_compaction integer default 0);
""",
}
Content = dict[str, Any]


def make(path: Path, content: Content) -> apsw.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = apsw.Connection(str(path))
    db.pragma("page_size", 1024)  # small enough to be kept as a fixture
    db.pragma("journal_mode", "wal")
    db.execute(SCHEMAS[content["schema"]])
    for table in ("sessions", "messages", "usage_ledger"):
        for row in content.get(table, []):
            put(db, table, row)
    return db


def put(db: apsw.Connection, table: str, row: Content) -> None:
    values = [
        json.dumps(value) if isinstance(value, list | dict) else value for value in row.values()
    ]
    db.execute(
        f"insert into {table} ({', '.join(row)}) values ({', '.join('?' * len(values))})", values
    )


def content_of(case: str) -> Content:
    content: Content = json.loads((FIXTURES / case / "content.json").read_text(encoding="utf-8"))
    return content


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=[ADAPTER.name], roots=[str(root)])
    assert not report.problems
    return report


def sources(root: Path) -> dict[str, Source]:
    return {os.path.basename(source.path): source for source in ADAPTER.discover(root)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_databases_of_fixtures_are_made_from_their_content(case: Path, tmp_path: Path) -> None:
    make(tmp_path / "root/sessions.db", content_of(case.name)).close()
    if os.environ.get("REGENERATE") == "1":
        shutil.copyfile(tmp_path / "root/sessions.db", case / "root/sessions.db")
    assert derive(ADAPTER, tmp_path / "root") == derive(ADAPTER, case / "root")


def test_nothing_is_left_beside_a_database_that_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    db = make(folder / "sessions.db", content_of("session"))  # open, so its log and index are there
    before = {path.name: path.stat().st_size for path in folder.iterdir()}
    texts = [(folder / name).read_bytes() for name in ("sessions.db", "sessions.db-wal")]
    assert len(derive(ADAPTER, folder)) == 2
    assert {path.name: path.stat().st_size for path in folder.iterdir()} == before
    assert [(folder / name).read_bytes() for name in ("sessions.db", "sessions.db-wal")] == texts
    db.close()


def test_only_what_is_new_is_read_and_only_of_the_session_that_changed(tmp_path: Path) -> None:
    content = content_of("session")
    rest = [row for row in content["messages"] if row["id"] == 25]
    content["messages"] = [row for row in content["messages"] if row["id"] != 25]
    db = make(tmp_path / "sessions.db", content)
    before = sources(tmp_path)
    main = before["20261114_1"]
    records = [record for record in ADAPTER.read(main, None) if record.sidecar is None]
    position = ADAPTER.position(main, records[-1].end, len(records))
    put(db, "messages", rest[0])
    after = sources(tmp_path)
    assert [name for name in after if after[name] != before[name]] == ["20261114_1"]
    assert ADAPTER.follows(after["20261114_1"], position)
    new = [
        record for record in ADAPTER.read(after["20261114_1"], position) if record.sidecar is None
    ]
    assert [json.loads(record.data)["id"] for record in new] == [25]
    db.close()


def test_a_session_that_a_compaction_wrote_again_keeps_its_events(
    store: Store, tmp_path: Path
) -> None:
    """Before: the messages up to the command, all visible. After: the same with new rowids, hidden,
    and what came of it."""
    content = content_of("session")
    own = [row for row in content["messages"] if row["session_id"] == "20261114_1"]
    last = next(
        n
        for n, row in enumerate(own)
        if row["content_json"] == [{"type": "text", "text": "/compact"}]
    )
    early = [
        {**row, "metadata_json": {**row["metadata_json"], "agentVisible": True}}
        for row in own[: last + 1]
    ]
    db = make(tmp_path / "home/sessions.db", {**content, "messages": early})
    sync(store, tmp_path / "home")
    before = {event.native_id: event.seq for event in store.sessions.events(MAIN)}
    db.execute("delete from messages")
    for row in own:
        put(db, "messages", {**row, "id": row["id"] + 100})
    db.execute("update sessions set updated_at = '2026-11-15 00:00:00'")
    sync(store, tmp_path / "home")
    events = list(store.sessions.events(MAIN))
    assert before.items() <= {event.native_id: event.seq for event in events}.items()
    assert not any(event.is_gone for event in events)
    at = next(event.seq for event in events if event.summary == "Go on")
    seen = [entry.event.summary for entry in model_context(events, at)]
    assert seen == ["Summary: prices are rounded, one test fails.", "Go on"]
    db.close()


def test_usage_agrees_with_the_sums_of_the_sessions(store: Store, tmp_path: Path) -> None:
    for case in ("session", "older"):
        sync(store, FIXTURES / case / "root")
    for session in content_of("session")["sessions"] + content_of("older")["sessions"]:
        (row,) = store.maintenance.rows(
            "select sum(input_tokens + cache_read_tokens + cache_write_5m_tokens),"
            " sum(output_tokens) from calls where session = (select number from sessions where uid"
            f" = 'goose:{session['id']}')"
        )
        assert tuple(row) == (
            session["accumulated_input_tokens"],
            session["accumulated_output_tokens"],
        )


def test_a_request_is_told_where_it_was_made(store: Store) -> None:
    sync(store, FIXTURES / "session/root")
    linked: dict[str, int] = dict(store.maintenance.rows("select key, seq from calls"))
    assert [key for key, seq in linked.items() if seq < 0] == ["20261114_1/9"]  # the compaction
    used = {event.seq: event.usage.total for event in store.sessions.events(MAIN) if event.usage}
    assert used == dict(
        store.maintenance.rows(
            "select seq, sum(input_tokens + output_tokens + cache_read_tokens"
            " + cache_write_5m_tokens) from calls"
            " where key like '20261114_1/%' and seq >= 0 group by seq"
        )
    )


def test_a_message_that_comes_before_its_request_is_linked_all_the_same(tmp_path: Path) -> None:
    content = content_of("session")
    db = make(tmp_path / "sessions.db", {**content, "usage_ledger": []})
    source = sources(tmp_path)["20261114_2"]
    first = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    assert not first.calls
    for row in content["usage_ledger"]:
        put(db, "usage_ledger", row)
    second = ADAPTER.normalize(
        source, [r for r in ADAPTER.read(source, None) if r.sidecar], first.carry
    )
    assert [event for _, event in second.calls] == [
        "20261114_2/chatcmpl-0",
        "20261114_2/chatcmpl-1",
    ]
    db.close()


def test_a_subagent_knows_the_call_that_started_it(store: Store) -> None:
    sync(store, FIXTURES / "session/root")
    below = store.sessions.get(BELOW)
    assert below is not None
    assert (below.parent_uid, below.relation) == (MAIN, "subagent")
    (source,) = [
        source
        for name, source in sources(FIXTURES / "session/root").items()
        if name == "20261114_2"
    ]
    found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
    assert found.facts[BELOW].parent_call == "call_5"
    assert ADAPTER.resume(below) is None


def test_a_file_whose_session_is_in_the_database_is_not_read(tmp_path: Path) -> None:
    old = tmp_path / "20250601_101500.jsonl"
    shutil.copyfile(FIXTURES / "lines/root/20250601_101500.jsonl", old)
    (tmp_path / "notes.jsonl").write_text("{}\n")
    assert list(sources(tmp_path)) == [old.name]
    content = content_of("older")
    content["sessions"][0]["id"] = old.stem
    for row in content["messages"]:
        row["session_id"] = old.stem
    make(tmp_path / "sessions.db", content).close()
    assert list(sources(tmp_path)) == [old.stem]


def test_an_older_file_is_read_from_where_it_was_left_off(tmp_path: Path) -> None:
    path = tmp_path / "20250601_101500.jsonl"
    lines = (FIXTURES / "lines/root" / path.name).read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))
    (source,) = ADAPTER.discover(tmp_path)
    records = list(ADAPTER.read(source, None))
    position = ADAPTER.position(source, records[-1].end, len(records))
    path.write_bytes(b"".join(lines))
    assert ADAPTER.follows(source, position)
    assert next(record.offset for record in ADAPTER.read(source, position)) == position.offset
    refreshed = ADAPTER.refresh(source)
    assert refreshed is not None
    assert refreshed.size == path.stat().st_size


def test_nothing_that_was_said_is_carried_over() -> None:
    for source in ADAPTER.discover(FIXTURES):
        found = ADAPTER.normalize(source, ADAPTER.read(source, None), None)
        carry = repr(msgspec.msgpack.decode(found.carry))
        assert not [body for body in found.bodies if len(body) > 12 and body in carry]


def test_a_session_is_taken_up_by_its_id() -> None:
    session = Session(
        session_uid="goose:20261114_1", flavor="goose", native_session_id="20261114_1"
    )
    assert ADAPTER.resume(session) == ["goose", "session", "--resume", "--session-id", "20261114_1"]


def test_a_subagent_is_called_what_it_was_asked(store: Store) -> None:
    sync(store, FIXTURES / "session/root")
    session = store.sessions.get(BELOW)
    assert session is not None
    assert session.title == "List the tests", "not `Delegated task`, nor its id"
