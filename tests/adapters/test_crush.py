"""What the adapter of Crush promises beyond what its fixtures show: how a database is read whose
messages change in place.

The databases of the fixtures are made from the `content.json` beside them: `REGENERATE=1 pytest
tests/adapters/test_crush.py`.
"""

import json
import os
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from runlore import config, doctor
from runlore.adapters import Normalized, Source, get
from runlore.model import Session
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline
from runlore.testing import derive
from runlore.timeline import model_context
from tests.adapters import corpus

ADAPTER = get("crush")
FIXTURES = Path(__file__).parent / "fixtures/crush"
CASES = sorted(path.parent for path in FIXTURES.glob("*/content.json"))
SAMPLES = corpus.CORPUS / "crush"
NOW = int(time.time())
MAIN = "5e550000-0000-4000-8000-000000000001"
SCHEMA = """
create table sessions (id text primary key, parent_session_id text, title text not null,
    message_count integer not null default 0,
    prompt_tokens integer not null default 0, completion_tokens integer not null default 0, cost
    real not null default 0,
    updated_at integer not null, created_at integer not null, summary_message_id text, todos text);
create table messages (id text primary key, session_id text not null, role text not null, parts
    text not null default '[]', model text,
    created_at integer not null, updated_at integer not null, finished_at integer, provider text,
    is_summary_message integer default 0 not null);
create index idx_messages_session_id on messages (session_id);
"""

Content = dict[str, Any]


def make(path: Path, content: Content | None = None) -> apsw.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = apsw.Connection(str(path))
    db.pragma("page_size", 1024)  # small enough to be kept as a fixture
    db.pragma("journal_mode", "wal")
    db.execute(SCHEMA)
    for session in content["sessions"] if content else []:
        put(db, "sessions", session)
    for message in content["messages"] if content else []:
        put(db, "messages", message)
    return db


def put(db: apsw.Connection, table: str, row: Content) -> None:
    values = [json.dumps(value) if isinstance(value, list) else value for value in row.values()]
    marks = ", ".join("?" * len(values))
    upsert = ", ".join(f"{name} = excluded.{name}" for name in row)
    db.execute(
        f"insert into {table} ({', '.join(row)}) values ({marks}) on conflict (id) do update set"
        f" {upsert}",
        values,
    )


def content_of(case: str) -> Content:
    found: Content = json.loads((FIXTURES / case / "content.json").read_text(encoding="utf-8"))
    return found


def sources(root: Path) -> list[Source]:
    found = list(ADAPTER.discover(root))
    assert not ADAPTER.refused
    return found


def main_source(root: Path) -> Source:
    return next(source for source in sources(root) if source.path.endswith(MAIN))


def normalized(source: Source) -> Normalized:
    return ADAPTER.normalize(source, ADAPTER.read(source, None), None)


def listing(root: Path) -> dict[str, tuple[int, int]]:
    return {
        path.name: (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "shop"


@pytest.fixture
def live(root: Path) -> Iterator[apsw.Connection]:
    """The agent at work: its connection stays open, and what it writes stays in the log."""
    db = make(root / ".crush/crush.db")
    db.pragma("wal_autocheckpoint", 0)
    yield db
    db.close()


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=["crush"], roots=[str(root)])
    assert not report.problems
    return report


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_database_of_a_fixture_holds_what_its_content_says(case: Path, tmp_path: Path) -> None:
    content = content_of(case.name)
    if os.environ.get("REGENERATE") == "1":
        shutil.rmtree(case / "root", ignore_errors=True)
        # Not below `.crush`: then it would tell where this repository lies.
        make(case / "root/crush.db", content).close()
    make(tmp_path / "wanted/crush.db", content).close()
    assert derive(ADAPTER, case / "root") == derive(ADAPTER, tmp_path / "wanted")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_second_count_agrees(case: Path, tmp_path: Path) -> None:
    db = sqlite3.connect(shutil.copyfile(case / "root/crush.db", tmp_path / "copy.db"))
    theirs = Counter[str]()
    for role, text in db.execute(
        "select role, parts from messages where session_id not like 'title-%'"
    ):
        try:
            parts = [part for part in json.loads(text) if isinstance(part, dict) and "data" in part]
        except ValueError:
            continue
        theirs["calls"] += sum(part["type"] in ("tool_call", "shell_command") for part in parts)
        theirs["results"] += sum(part["type"] in ("tool_result", "shell_command") for part in parts)
        theirs["prompts"] += sum(part["type"] == "text" for part in parts) if role == "user" else 0
        theirs["thoughts"] += sum(part["type"] == "reasoning" for part in parts)
    ours = Counter[str]()
    for source in sources(case / "root"):
        for event in normalized(source).events:
            ours["calls"] += event.is_call
            ours["results"] += event.role == "tool"
            ours["prompts"] += event.kind == "user_msg"
            ours["thoughts"] += event.kind == "thinking"
    assert +ours == +theirs


@corpus.needs(SAMPLES)
def test_samples_have_the_sessions_that_have_messages(tmp_path: Path) -> None:
    paths = list(SAMPLES.rglob("crush.db"))
    assert paths
    for n, path in enumerate(paths):
        for end in ("", "-wal"):
            if Path(f"{path}{end}").exists():
                shutil.copyfile(f"{path}{end}", tmp_path / f"{n}.db{end}")
        db = sqlite3.connect(tmp_path / f"{n}.db")
        theirs = {session for (session,) in db.execute("select distinct session_id from messages")}
        db.close()
        ours = [
            facts.native_session_id
            for source in sources(path.parent)
            for facts in normalized(source).facts.values()
        ]
        assert sorted(ours) == sorted(theirs), path


def test_a_session_is_recorded_with_what_it_cost_without_its_subagents(
    root: Path, tmp_path: Path
) -> None:
    """The agent adds the cost of a subagent to that of the session it works for."""
    content = content_of("basic")
    db = make(root / ".crush/crush.db", content)
    store = open_store(str(tmp_path / "runlore.db"))
    sync(store, root)
    child = f"crush:{content['sessions'][1]['id']}"
    assert costs(store) == {f"crush:{MAIN}": 0.02, child: 0.01}
    assert store.overview.family(f"crush:{MAIN}").usd == 0.03
    put(db, "sessions", content["sessions"][0] | {"cost": 0.05, "updated_at": NOW})
    put(db, "messages", content["messages"][0] | {"id": "later", "created_at": NOW})
    sync(store, root)
    assert costs(store) == {f"crush:{MAIN}": 0.04, child: 0.01}
    assert [one.price.basis for one in store.ledger.billed(child) if one.price] == ["recorded"]
    store.close()
    db.close()


def costs(store: Store) -> dict[str, float | None]:
    lines = store.sessions.select(Filter(parents_only=False))
    return {line.uid: line.usd for line in lines}


def test_projects_are_found_by_the_list_of_the_user(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make(tmp_path / name / ".crush/crush.db", content_of("basic")).close()
    projects = [
        {"path": str(tmp_path / "one"), "data_dir": ".crush"},
        {"path": 7, "data_dir": str(tmp_path / "two/.crush")},
        "x",
        {},
    ]
    (tmp_path / "data").mkdir()
    (tmp_path / "data/projects.json").write_text(json.dumps({"projects": projects}))
    found = sources(tmp_path / "data")
    assert {str(Path(source.path).parents[2]) for source in found} == {
        str(tmp_path / "one"),
        str(tmp_path / "two"),
    }
    assert {next(iter(normalized(source).facts.values())).cwd for source in found} == {
        str(tmp_path / "one"),
        str(tmp_path / "two"),
    }
    (tmp_path / "data/projects.json").write_text("[no JSON")
    assert sources(tmp_path / "data") == []


def test_a_live_database_is_read_with_its_log_and_nothing_changes(
    root: Path, live: apsw.Connection
) -> None:
    for table in ("sessions", "messages"):
        for row in content_of("basic")[table]:
            put(live, table, row)
    before = listing(root)
    assert len(normalized(main_source(root)).events) > 20
    assert listing(root) == before


def test_what_was_added_is_read_alone(root: Path, live: apsw.Connection) -> None:
    content = content_of("basic")
    own = [message for message in content["messages"] if message["session_id"] == MAIN]
    put(live, "sessions", content["sessions"][0])
    for message in own[:4]:
        put(live, "messages", message)
    (source,) = sources(root)
    records = [record for record in ADAPTER.read(source, None) if record.sidecar is None]
    since = ADAPTER.position(source, records[-1].end, len(records))
    put(live, "messages", own[4])
    assert ADAPTER.follows(source, since)
    (record,) = [record for record in ADAPTER.read(source, since) if record.sidecar is None]
    assert (record.offset, json.loads(record.data)["id"]) == (records[-1].end, own[4]["id"])


def test_a_growing_session_is_stored_as_it_is_at_the_end(
    root: Path, live: apsw.Connection, tmp_path: Path
) -> None:
    pieces, at_once = open_store(str(tmp_path / "pieces.db")), open_store(str(tmp_path / "once.db"))
    content = content_of("basic")
    put(live, "sessions", content["sessions"][0])
    for n, message in enumerate(
        message for message in content["messages"] if message["session_id"] == MAIN
    ):
        if message["role"] == "assistant":
            put(
                live,
                "messages",
                {**message, "parts": message["parts"][:1], "finished_at": None, "updated_at": NOW},
            )
            assert "rewritten" not in sync(pieces, root).found
        put(live, "messages", message)
        if n % 2:
            assert "rewritten" not in sync(pieces, root).found
    sync(pieces, root)
    sync(at_once, root)
    uid = f"crush:{MAIN}"
    one, other = (
        [event.to_dict() | {"payload_ref": None} for event in store.sessions.events(uid)]
        for store in (pieces, at_once)
    )
    assert one == other
    assert pieces.sessions.bodies(uid) == at_once.sessions.bodies(uid)
    pieces.close()
    at_once.close()


def test_a_message_that_is_being_written_is_told_when_it_is_finished_or_given_up(
    root: Path, live: apsw.Connection, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = content_of("strange")
    put(live, "sessions", content["sessions"][0])
    put(live, "messages", content["messages"][0])
    put(live, "messages", {**content["messages"][-1], "updated_at": NOW})
    assert sync(store, root).events == 2
    assert sync(store, root).found == {"unchanged": 1}
    monkeypatch.setattr("runlore.adapters.crush.time", lambda: NOW + 4000)
    assert sync(store, root).events == 2


def test_messages_that_were_deleted_stay_and_say_so(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    content = content_of("strange")
    for table in ("sessions", "messages"):
        for row in content[table]:
            put(live, table, row)
    sync(store, root)
    live.execute("delete from messages where id = ?", (content["messages"][2]["id"],))
    live.execute("update sessions set updated_at = ?", (NOW,))
    assert sync(store, root).found == {"rewritten": 1}
    uid = f"crush:{content['sessions'][0]['id']}"
    assert [event.summary for event in store.sessions.events(uid) if event.is_gone][:1] == ["kept"]


def test_a_summary_stands_for_what_came_before_it(store: Store) -> None:
    sync(store, FIXTURES / "basic/root")
    events = list(store.sessions.events(f"crush:{MAIN}"))
    seen = [found.event.summary for found in model_context(events, events[-1].seq)]
    assert seen == [
        "The cart was half repaired.",
        "And now?",
        "[https://example.com/a.png]",
        "All done",
    ]


def test_a_subagent_knows_the_call_that_started_it(store: Store) -> None:
    sync(store, FIXTURES / "basic/root")
    child = next(source for source in sources(FIXTURES / "basic/root") if "$$" in source.path)
    (facts,) = normalized(child).facts.values()
    assert (facts.parent_uid, facts.relation, facts.parent_call) == (
        f"crush:{MAIN}",
        "subagent",
        "call_2",
    )


def test_a_result_without_a_name_has_that_of_its_call() -> None:
    found = normalized(main_source(FIXTURES / "basic/root"))
    assert [event.tool for event in found.events if event.call_id == "call_1"] == ["view", "view"]
    (result,) = [event for event in found.events if event.call_id == "call_4" and not event.is_call]
    assert (result.exit_code, result.is_error, result.duration_ms) == (1, True, 750)


def test_arguments_are_seen_by_redaction_as_they_are() -> None:
    records = [record.data for record in ADAPTER.read(main_source(FIXTURES / "basic/root"), None)]
    assert any(b'"input":{"file_path":"/home/dev/shop/cart.py"' in data for data in records)


def test_pictures_are_not_kept() -> None:
    line = json.dumps({"content": [{"data": {"Data": "iVBORw0KGgo" + "A" * 401}}]}).encode()
    assert b"[image image/png" in ADAPTER.slim(line)
    assert ADAPTER.slim(ADAPTER.slim(line)) == ADAPTER.slim(line)


def test_the_doctor_knows_where_a_session_is(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    for table in ("sessions", "messages"):
        for row in content_of("basic")[table]:
            put(live, table, row)
    sync(store, root)
    report = doctor.examine(store, config.load())
    assert report.ok, report
    assert not [
        note
        for check in report.checks
        for note in check.notes
        if "not there" in note or "rewritten" in note
    ]
    source = main_source(root)
    live.execute("delete from messages")
    assert ADAPTER.refresh(source) is None


def test_there_is_no_command_to_go_on_that_we_know() -> None:
    assert (
        ADAPTER.resume(Session(session_uid="crush:s1", flavor="crush", native_session_id="s1"))
        is None
    )
