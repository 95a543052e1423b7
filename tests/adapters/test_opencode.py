"""What the adapter of opencode promises beyond what its fixtures show: how sessions that change are
read, from a database or a tree.

The databases and trees of the fixtures are made from the `content.json` beside them: `REGENERATE=1
pytest tests/adapters/test_opencode.py`.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from runlore import config, doctor
from runlore.adapters import Normalized, Position, Source, get
from runlore.adapters.shared import sqlite
from runlore.model import Session
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline
from runlore.testing import derive
from runlore.timeline import abandoned, model_context

ADAPTER = get("opencode")
FIXTURES = Path(__file__).parent / "fixtures/opencode"
CASES = sorted(path.parent for path in FIXTURES.glob("*/content.json"))
NOW = int(time.time() * 1000)
SCHEMA = """
create table session (id text primary key, project_id text not null, parent_id text,
    slug text not null, directory text not null,
    title text not null, version text not null, revert text, agent text, model text,
    time_created integer not null,
    time_updated integer not null, time_archived integer);
create table message (id text primary key, session_id text not null, time_created integer not null,
    time_updated integer not null,
    data text not null);
create table part (id text primary key, message_id text not null, session_id text not null,
    time_created integer not null,
    time_updated integer not null, data text not null);
create table event (id text primary key, aggregate_id text not null, seq integer not null,
    type text not null, data text not null);
create index message_session on message (session_id, time_created, id);
create index part_message on part (message_id, id);
create index part_session on part (session_id);
create table account (id text primary key, access_token text not null);
insert into account values ('me', 'a token that nobody may read');
"""

Content = dict[str, Any]


# What the agent would have written.


def make(path: Path, journal: str = "wal") -> apsw.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    db = apsw.Connection(str(path))
    db.pragma("page_size", 1024)  # small enough to be kept as a fixture
    db.pragma("journal_mode", journal)
    db.execute(SCHEMA)
    return db


def plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value)


def put_session(db: apsw.Connection, session: Content) -> None:
    names = (
        "id",
        "projectID",
        "parentID",
        "slug",
        "directory",
        "title",
        "version",
        "revert",
        "agent",
        "model",
    )
    times = session["time"]
    values = [plain(session.get(name)) for name in names]
    db.execute(
        "insert or replace into session values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, times["created"], times["updated"], times.get("archived")),
    )


def put_message(db: apsw.Connection, session: str, message: Content, at: int | None = None) -> None:
    info, parts = message["info"], message["parts"]
    created = info["time"]["created"]
    updated = at or info["time"].get("completed", created)
    data = info.get("raw") or json.dumps(
        {name: value for name, value in info.items() if name != "id"}
    )
    upsert = (
        "on conflict (id) do update set time_updated = excluded.time_updated, data = excluded.data"
    )
    db.execute(
        f"insert into message values (?, ?, ?, ?, ?) {upsert}",
        (info["id"], session, created, updated, data),
    )
    for part in parts:
        data = part.get("raw") or json.dumps(
            {name: value for name, value in part.items() if name != "id"}
        )
        db.execute(
            f"insert into part values (?, ?, ?, ?, ?, ?) {upsert}",
            (part["id"], info["id"], session, created, updated, data),
        )


def put_events(db: apsw.Connection, events: list[Content]) -> None:
    for n, event in enumerate(events):
        db.execute(
            "insert into event values (?, ?, ?, ?, ?)",
            (f"evt_{n}", event["session"], n, event["type"], json.dumps(event["data"])),
        )


def fill(db: apsw.Connection, content: Content) -> None:
    for item in content["sessions"]:
        put_session(db, item["session"])
        for message in item["messages"]:
            put_message(db, item["session"]["id"], message)
    put_events(db, content["events"])


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")


def plant(
    storage: Path, content: Content, most: int | None = None, *, is_old: bool = False
) -> None:
    """A tree, with so many messages of each session."""
    base = storage / "session" if is_old else storage
    for item in content["sessions"]:
        session = item["session"]
        id_ = session["id"]
        write(
            storage / "session" / ("info" if is_old else session["projectID"]) / f"{id_}.json",
            session,
        )
        for message in item["messages"][:most]:
            info, parts = message["info"], message["parts"]
            write(base / "message" / id_ / f"{info['id']}.json", {**info, "sessionID": id_})
            folder = base / "part" / (f"{id_}/{info['id']}" if is_old else info["id"])
            for part in parts:
                write(
                    folder / f"{part['id']}.json",
                    {**part, "sessionID": id_, "messageID": info["id"]},
                )


def build(root: Path, content: Content) -> None:
    for kind in content["kept"]:
        word, _, most = kind.partition(":")
        if word == "database":
            db = make(root / "opencode.db")
            fill(db, content)
            db.close()
        elif word == "old":
            plant(root / "project/home-dev-shop/storage", content, is_old=True)
        else:
            plant(root / "storage", content, int(most) if most else None)


def content_of(case: str) -> Content:
    found: Content = json.loads((FIXTURES / case / "content.json").read_text(encoding="utf-8"))
    return found


def only(content: Content, number: int) -> Content:
    return {**content, "sessions": content["sessions"][number : number + 1], "events": []}


# What is made of it.


def sources(root: Path) -> list[Source]:
    found = list(ADAPTER.discover(root))
    assert not ADAPTER.refused
    return found


def normalized(source: Source) -> Normalized:
    return ADAPTER.normalize(source, ADAPTER.read(source, None), None)


def listing(root: Path) -> dict[str, tuple[int, int]]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "share/opencode"


@pytest.fixture
def live(root: Path) -> Iterator[apsw.Connection]:
    """The agent at work: its connection stays open, and what it writes stays in the log."""
    db = make(root / "opencode.db")
    db.pragma("wal_autocheckpoint", 0)
    yield db
    db.close()


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=["opencode"], roots=[str(root)])
    assert not report.problems
    return report


def texts(store: Store, uid: str) -> list[str]:
    bodies = store.sessions.bodies(uid)
    return [
        bodies.get(event.seq) or event.summary or ""
        for event in store.sessions.events(uid)
        if event.kind in ("user_msg", "assistant_msg")
    ]


def uid_of(content: Content, number: int = 0) -> str:
    return f"opencode:{content['sessions'][number]['session']['id']}"


# The fixtures.


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_fixture_holds_what_its_content_says(case: Path, tmp_path: Path) -> None:
    content = content_of(case.name)
    if os.environ.get("REGENERATE") == "1":
        shutil.rmtree(case / "root", ignore_errors=True)
        build(case / "root", content)
    build(tmp_path / "wanted", content)
    assert derive(ADAPTER, case / "root") == derive(ADAPTER, tmp_path / "wanted")


def test_a_database_and_a_tree_say_the_same(tmp_path: Path) -> None:
    content = content_of("database")
    build(tmp_path / "one", content)
    build(tmp_path / "other", {**content, "kept": ["tree"]})
    one, other = (
        {next(iter(found["facts"])): found for found in derive(ADAPTER, tmp_path / name)}
        for name in ("one", "other")
    )
    assert one.keys() == other.keys()
    assert [(one[uid]["events"], one[uid]["merged"]) for uid in one] == [
        (other[uid]["events"], other[uid]["merged"]) for uid in one
    ]


def test_every_part_is_told_or_counted() -> None:
    for case in CASES:
        content = content_of(case.name)
        parts = {
            f"{item['session']['id']}": [p for m in item["messages"] for p in m["parts"]]
            for item in content["sessions"]
        }
        for source in sources(case / "root"):
            found = normalized(source)
            (facts,) = found.facts.values()
            own = parts[facts.native_session_id]
            told = {
                str(event.native_id).partition("#")[0].rpartition("/")[2] for event in found.events
            }
            silent = [part for part in own if part["id"] not in told]
            assert len(silent) <= sum(found.merged.values()), case.name


def test_a_call_has_the_cost_that_the_agent_recorded() -> None:
    """0 is what it writes for a model without a price, so it is none."""
    calls = [call for call, _ in normalized(sources(FIXTURES / "database/root")[0]).calls]
    assert {call.recorded for call in calls} == {1_200_000_000, None}


def test_usage_is_the_sum_of_the_messages_of_a_session() -> None:
    content = content_of("database")
    wanted = {"input": 0, "read": 0, "write": 0}
    for message in content["sessions"][0]["messages"]:
        tokens = message["info"].get("tokens") or {"input": 0, "cache": {"read": 0, "write": 0}}
        wanted["input"] += tokens["input"]
        wanted["read"] += tokens["cache"]["read"]
        wanted["write"] += tokens["cache"]["write"]
    calls = [call for call, _ in normalized(sources(FIXTURES / "database/root")[0]).calls]
    assert {
        "input": sum(call.input_tokens for call in calls),
        "read": sum(call.cache_read_tokens for call in calls),
        "write": sum(call.cache_write_5m_tokens for call in calls),
    } == wanted
    outputs = [(call.output_tokens, call.reasoning_tokens) for call in calls]
    assert outputs[0] == (60, 20), "with a total, reasoning stands beside the output"
    assert (30, 10) in outputs, "without one it is a part of it"


# Where it is read, and that nothing is left there.


def test_a_live_database_is_read_with_its_log_and_nothing_changes(
    root: Path, live: apsw.Connection
) -> None:
    fill(live, content_of("database"))
    before = listing(root)
    assert len(sources(root)) == 2
    assert len(normalized(sources(root)[0]).events) > 20
    assert listing(root) == before


def test_only_tables_of_sessions_are_read(
    root: Path, live: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(live, content_of("branches"))
    read: set[str] = set()

    def note(action: int, one: str | None, *_: object) -> int:
        if action == apsw.SQLITE_READ and one:
            read.add(one)
        return apsw.SQLITE_OK

    connect = sqlite._connect

    def watched(*given: Any) -> apsw.Connection:
        db = connect(*given)
        db.authorizer = note
        return db

    monkeypatch.setattr(sqlite, "_connect", watched)
    for source in sources(root):
        normalized(source)
        ADAPTER.position(source, source.size, 1)
    assert read <= {"session", "message", "part", "event", "sqlite_master", "sqlite_schema"}
    assert {"session", "message", "part", "event"} <= read


def test_a_database_that_is_locked_loses_no_session(
    root: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_MS", 20)
    db = make(root / "opencode.db", "delete")
    fill(db, content_of("database"))
    sync(store, root)
    db.execute("begin exclusive")
    report = pipeline.sync(store, config.load(), agents=["opencode"], roots=[str(root)])
    assert [reason for _, reason in report.problems] == [
        "it is locked by another program; it is read again the next time"
    ]
    assert "missing" not in report.found
    db.execute("commit")
    assert sync(store, root).found == {"unchanged": 2}


def test_homes_below_a_folder_are_found(tmp_path: Path) -> None:
    build(tmp_path / "laptop/.local/share/opencode", content_of("database"))
    build(tmp_path / "old/.local/share/opencode", content_of("old_tree"))
    make(tmp_path / "x/node_modules/y/opencode.db").close()
    assert len(sources(tmp_path)) == 4
    assert len(sources(tmp_path / "laptop/.local/share/opencode/opencode.db")) == 2, (
        "or a database itself"
    )
    assert sources(tmp_path / "nothing") == []


def test_a_database_that_a_variable_names_is_looked_at_too(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere/mine.db"
    db = make(path)
    fill(db, content_of("database"))
    db.close()
    assert ADAPTER.find_roots({"XDG_DATA_HOME": str(tmp_path), "OPENCODE_DB": str(path)}) == [
        tmp_path / "opencode",
        path,
    ]
    assert ADAPTER.find_roots({"XDG_DATA_HOME": str(tmp_path), "OPENCODE_DB": "other.db"}) == [
        tmp_path / "opencode"
    ]
    assert len(sources(path)) == 2


def test_messages_without_a_session_are_one(root: Path) -> None:
    plant(root / "storage", only(content_of("tree"), 1))
    shutil.rmtree(root / "storage/session")
    (source,) = sources(root)
    (facts,) = normalized(source).facts.values()
    assert facts.native_session_id == content_of("tree")["sessions"][1]["session"]["id"]


# What is new.


def test_what_was_added_is_read_alone(root: Path, live: apsw.Connection) -> None:
    content = only(content_of("database"), 0)
    item = content["sessions"][0]
    fill(live, {**content, "sessions": [{**item, "messages": item["messages"][:5]}]})
    (source,) = sources(root)
    records = [record for record in ADAPTER.read(source, None) if record.sidecar is None]
    since = ADAPTER.position(source, records[-1].end, len(records))
    put_message(live, item["session"]["id"], item["messages"][5])
    assert ADAPTER.follows(source, since)
    (record,) = [record for record in ADAPTER.read(source, since) if record.sidecar is None]
    assert record.offset == records[-1].end
    assert json.loads(record.data)["info"]["id"] == item["messages"][5]["info"]["id"]


@pytest.mark.parametrize("kind", ["database", "tree"])
def test_a_growing_session_is_stored_as_it_is_at_the_end(
    root: Path, tmp_path: Path, kind: str
) -> None:
    pieces, at_once = open_store(str(tmp_path / "pieces.db")), open_store(str(tmp_path / "once.db"))
    content = only(content_of("database"), 0)
    item = content["sessions"][0]
    db = make(root / "opencode.db") if kind == "database" else None
    for n in range(1, len(item["messages"]) + 1):
        session, message = (
            {**item["session"], "time": {"created": 1, "updated": n}},
            item["messages"][n - 1],
        )
        if db:
            put_session(db, session)
            put_message(db, session["id"], message)
        else:
            plant(root / "storage", {"sessions": [{"session": session, "messages": [message]}]})
        if n % 3:
            assert "rewritten" not in sync(pieces, root).found
    sync(pieces, root)
    sync(at_once, root)
    uid = uid_of(content)
    one, other = (
        [event.to_dict() | {"payload_ref": None} for event in store.sessions.events(uid)]
        for store in (pieces, at_once)
    )
    assert one == other
    assert pieces.sessions.bodies(uid) == at_once.sessions.bodies(uid)
    for opened in (pieces, at_once, db):
        if opened:
            opened.close()


def test_a_step_is_told_when_it_is_finished(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    content = only(content_of("database"), 1)
    session, (prompt, step, _) = (
        content["sessions"][0]["session"],
        content["sessions"][0]["messages"],
    )
    put_session(live, session)
    put_message(live, session["id"], prompt, NOW)
    running = json.loads(json.dumps(step))
    del running["info"]["time"]["completed"]
    running["parts"] = running["parts"][:2]
    running["parts"][1]["state"] = {"status": "running", "input": {"pattern": "**"}}
    put_message(live, session["id"], running, NOW)
    assert sync(store, root).events == 2
    put_message(live, session["id"], step, NOW + 1)
    assert sync(store, root).found == {"grown": 1}
    assert [event.kind for event in store.sessions.events(uid_of(content))] == [
        "lifecycle",
        "user_msg",
        "tool_call",
        "tool_result",
        "lifecycle",
    ]


@pytest.mark.parametrize("kind", ["database", "tree"])
def test_a_step_whose_process_died_is_told_after_a_while(
    root: Path, store: Store, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = only(content_of("branches"), 2)
    item = content["sessions"][0]
    if kind == "database":
        db = make(root / "opencode.db")
        put_session(db, item["session"])
        for message in item["messages"]:
            put_message(db, item["session"]["id"], message, NOW)
        db.close()
    else:
        plant(root / "storage", content)
    assert sync(store, root).events == 2
    assert sync(store, root).found == {"unchanged": 1}
    monkeypatch.setattr("runlore.adapters.opencode.sessions.time", lambda: time.time() + 4000)
    sync(store, root)
    assert [event.tool for event in store.sessions.events(uid_of(content)) if event.is_call] == [
        "question",
        "bash",
    ]


def test_an_answer_after_hours_is_added(root: Path, live: apsw.Connection, store: Store) -> None:
    content = only(content_of("branches"), 2)
    item = content["sessions"][0]
    fill(live, content)
    sync(store, root)
    step = item["messages"][1]
    step["parts"][2]["state"] = {
        "status": "completed",
        "input": {"questions": []},
        "output": "yes",
        "metadata": {},
    }
    step["info"]["time"]["completed"] = NOW
    put_message(live, item["session"]["id"], step)
    assert sync(store, root).found == {"rewritten": 1}
    assert [
        event.summary
        for event in store.sessions.events(uid_of(content))
        if event.kind == "decision"
    ] == ["yes"]


def test_a_title_that_changes_is_told_again(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    content = only(content_of("branches"), 2)
    fill(live, content)
    sync(store, root)
    live.execute("update session set title = 'Named at last', time_updated = ?", (NOW,))
    sync(store, root)
    session = store.sessions.get(uid_of(content))
    assert session
    assert session.title == "Named at last"


def test_a_session_that_was_deleted_stays(root: Path, live: apsw.Connection, store: Store) -> None:
    content = content_of("database")
    fill(live, content)
    sync(store, root)
    for table, column in (("session", "id"), ("message", "session_id"), ("part", "session_id")):
        live.execute(
            f"delete from {table} where {column} = ?", (content["sessions"][1]["session"]["id"],)
        )
    assert sync(store, root).found == {"unchanged": 1, "missing": 1}
    assert texts(store, uid_of(content, 1)) == ["List who calls total()", "Only test_cart.py."]


# One session in several places.


def test_a_session_that_moved_from_the_tree_to_the_database_is_one(
    root: Path, store: Store
) -> None:
    content = content_of("both")
    plant(root / "storage", content, 2)
    sync(store, root)
    build(root, {**content, "kept": ["database"]})
    sync(store, root)
    uid = uid_of(content)
    assert texts(store, uid) == ["Name the shop", "Corner Shop.", "Make it shorter", "Shop."]
    assert len(list(store.sessions.select(Filter(parents_only=False)))) == 1
    ids = [event.native_id for event in store.sessions.events(uid)]
    assert len(ids) == len(set(ids))


def test_a_fork_refers_to_what_it_copied_and_costs_nothing_for_it(store: Store) -> None:
    sync(store, FIXTURES / "branches/root")
    content = content_of("branches")
    original, fork = uid_of(content, 0), uid_of(content, 1)
    session = store.sessions.get(fork)
    assert session
    assert (session.parent_uid, session.relation) == (original, "fork")
    copied = [event.origin for event in store.sessions.events(fork) if event.origin]
    assert len(copied) == 3  # a prompt, an answer, its usage
    assert all(origin.startswith(f"{original}#") for origin in copied)
    keys = {
        call.key
        for source in sources(FIXTURES / "branches/root")
        for call, _ in normalized(source).calls
    }
    assert len(keys) == 4  # three answers there, one of which was taken back, and one here


def test_a_subagent_knows_the_call_that_started_it() -> None:
    for case in ("database", "tree"):
        content = content_of(case)
        child = next(
            source
            for source in sources(FIXTURES / case / "root")
            if uid_of(content, 1)[9:] in source.path
        )
        (facts,) = normalized(child).facts.values()
        assert (facts.parent_uid, facts.relation, facts.parent_call) == (
            uid_of(content, 0),
            "subagent",
            "call_5",
        )


def test_a_subagent_that_went_back_is_read_whole(root: Path, live: apsw.Connection) -> None:
    content = content_of("database")
    fill(live, content)
    child, messages = content["sessions"][1]["session"]["id"], content["sessions"][1]["messages"]
    last = messages[-1]
    put_events(
        live,
        [
            {"session": child, "type": "message.updated.1", "data": {"info": last["info"]}},
            {
                "session": child,
                "type": "message.removed.1",
                "data": {"messageID": last["info"]["id"]},
            },
        ],
    )
    live.execute("delete from message where id = ?", (last["info"]["id"],))
    found = normalized(next(source for source in sources(root) if child in source.path))
    assert str(found.events[-1].native).startswith("step-finish/")
    assert len({event.record for event in found.events}) == 3


@pytest.mark.parametrize("name", ["../../secret", "..", "", "a/b", "nul\0"])
def test_a_name_that_leads_elsewhere_leads_nowhere(root: Path, name: str) -> None:
    content = only(content_of("tree"), 1)
    plant(root / "storage", content)
    write(
        root / "secret/x.json",
        {"id": "x", "sessionID": "x", "role": "user", "time": {"created": 1}},
    )
    (file,) = (root / "storage/session").rglob("*.json")
    write(file, {**json.loads(file.read_text()), "id": name, "parentID": name})
    message, *_ = sorted((root / "storage/message").rglob("*.json"))
    write(message, {**json.loads(message.read_text()), "id": name})
    (source,) = sources(root)
    assert "secret" not in str(normalized(source).bodies)
    assert len([record for record in ADAPTER.read(source, None) if record.sidecar is None]) == 3


# Going back.


def revert_and_go_on(
    db: apsw.Connection, root: Path, store: Store, *, has_log: bool
) -> tuple[str, list[str]]:
    content = content_of("branches")
    item = content["sessions"][0]
    id_ = item["session"]["id"]
    gone = {
        event["data"]["messageID"]
        for event in content["events"]
        if event["type"] == "message.removed.1"
    }
    infos = {
        e["data"]["info"]["id"]: e["data"]["info"]
        for e in content["events"]
        if e["type"] == "message.updated.1" and e["session"] == id_
    }
    parts: dict[str, dict[str, Any]] = {}
    for event in content["events"]:
        if event["type"] == "message.part.updated.1":
            parts.setdefault(event["data"]["part"]["messageID"], {})[
                event["data"]["part"]["id"]
            ] = event["data"]["part"]
    taken = [{"info": infos[key], "parts": list(parts[key].values())} for key in sorted(gone)]
    put_session(db, item["session"])
    for message in [*item["messages"][:2], *taken]:
        put_message(db, id_, message)
    sync(store, root)
    db.execute(
        "update session set revert = ?, time_updated = ?",
        (json.dumps({"messageID": taken[0]["info"]["id"]}), NOW),
    )
    sync(store, root)
    at = max(event.seq for event in store.sessions.events(f"opencode:{id_}"))
    seen = [
        store.sessions.bodies(f"opencode:{id_}").get(found.event.seq) or ""
        for found in model_context(store.sessions.events(f"opencode:{id_}"), at)
    ]
    if has_log:
        put_events(db, [event for event in content["events"] if event["session"] == id_])
    for table, column in (("message", "id"), ("part", "message_id")):
        db.execute(f"delete from {table} where {column} in (?, ?)", tuple(gone))
    db.execute("update session set revert = null, time_updated = ?", (NOW + 1,))
    for message in item["messages"][2:]:
        put_message(db, id_, message)
    assert sync(store, root).found == {"rewritten": 1}
    return f"opencode:{id_}", seen


@pytest.mark.parametrize("has_log", [True, False])
def test_what_was_taken_back_lies_on_a_line_of_its_own(
    root: Path, live: apsw.Connection, store: Store, has_log: bool
) -> None:
    uid, seen = revert_and_go_on(live, root, store, has_log=has_log)
    assert seen == [
        "Name the shop",
        "Corner Shop.",
    ], "while it is only hidden, the model does not see it"
    (left,) = abandoned(store.sessions.events(uid))
    bodies = store.sessions.bodies(uid)
    assert [
        bodies.get(event.seq) for event in left if event.kind in ("user_msg", "assistant_msg")
    ] == [
        "Make it longer",
        "A very long name.",
    ]
    assert {event.is_gone for event in left} == {not has_log}
    assert texts(store, uid)[-2:] == ["Make it shorter", "Shop."]


def test_what_was_taken_back_before_the_first_sync_is_found_in_the_log(store: Store) -> None:
    sync(store, FIXTURES / "branches/root")
    uid = uid_of(content_of("branches"))
    (left,) = abandoned(store.sessions.events(uid))
    assert [event.summary for event in left if event.kind == "user_msg"] == ["Make it longer"]
    at = max(event.seq for event in store.sessions.events(uid))
    seen = [found.event.summary for found in model_context(store.sessions.events(uid), at)]
    assert seen == ["Name the shop", "Corner Shop.", "Make it shorter", "Shop."]


def test_what_was_taken_back_and_comes_back_is_seen_again(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    content = only(content_of("branches"), 1)
    fill(live, content)
    sync(store, root)
    live.execute("update session set revert = null, time_updated = ?", (NOW,))
    sync(store, root)
    events = list(store.sessions.events(uid_of(content)))
    assert [event.native for event in events if event.kind == "human_intervention"] == [
        "revert",
        "unrevert",
    ]
    seen = [found.event.summary for found in model_context(events, events[-1].seq)]
    assert seen[-2:] == ["Another language?", "Boutique."]


# The rest.


def test_a_compaction_keeps_the_messages_it_names() -> None:
    found = normalized(sources(FIXTURES / "database/root")[0])
    (at,) = [n for n, event in enumerate(found.events) if event.view == "compact"]
    first, mark, last = found.events[at].refs
    names = [event.native_id for event in found.events]
    assert mark == ".."
    assert found.bodies[names.index(first)] == "Then write a note"
    assert names.index(last) == at - 1
    assert [event.view for event in found.events[at : at + 2]] == ["compact", "summary"]


def test_the_doctor_knows_where_a_session_is(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    fill(live, content_of("database"))
    sync(store, root)
    report = doctor.examine(store, config.load())
    assert report.ok, report
    assert not [
        note
        for check in report.checks
        for note in check.notes
        if "not there" in note or "rewritten" in note or "grown" in note
    ]
    source = sources(root)[0]
    assert ADAPTER.refresh(source) == source
    live.execute("delete from message")
    assert ADAPTER.refresh(source) is None


def test_a_message_beyond_all_bounds_is_named_and_not_kept(
    root: Path, live: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runlore.adapters.opencode.sessions.MAX_RECORD_BYTES", 2000)
    content = only(content_of("branches"), 2)
    content["sessions"][0]["messages"][0]["parts"][0]["text"] = "x" * 3000
    fill(live, content)
    found = normalized(sources(root)[0])
    assert [skip.reason for skip in found.skips] == ["too long (0 MB)"]
    assert [event.tool for event in found.events if event.is_call] == ["question", "bash"]


def test_a_message_of_another_layout_is_kept_and_counted(root: Path) -> None:
    content = only(content_of("tree"), 1)
    content["sessions"][0]["messages"][0]["info"]["parts"] = [{"type": "text", "text": "inside"}]
    content["sessions"][0]["messages"][0]["parts"] = []
    plant(root / "storage", content)
    (source,) = sources(root)
    found = normalized(source)
    assert [skip.reason for skip in found.skips] == ["a message of another layout"]
    assert any("inside" in body for body in found.bodies)


def test_parts_may_lie_side_by_side(root: Path) -> None:
    content = only(content_of("tree"), 1)
    plant(root / "storage", content)
    (source,) = sources(root)
    before = normalized(source)
    for path in sorted((root / "storage/part").rglob("*.json")):
        path.rename(root / "storage/part" / path.name)
    for folder in sorted((root / "storage/part").glob("*/")):
        folder.rmdir()
    after = normalized(source)
    assert (after.events, after.bodies) == (before.events, before.bodies)


def test_pictures_are_not_kept() -> None:
    line = json.dumps(
        {"parts": [{"url": "data:image/png;base64," + "iVBORw0KGgo" + "A" * 401}]}
    ).encode()
    assert len(ADAPTER.slim(line)) < 200
    assert b"[image image/png" in ADAPTER.slim(line)
    assert ADAPTER.slim(ADAPTER.slim(line)) == ADAPTER.slim(line)


def test_the_command_to_go_on() -> None:
    session = Session(session_uid="opencode:ses_1", flavor="opencode", native_session_id="ses_1")
    assert ADAPTER.resume(session) == ["opencode", "--session", "ses_1"]


def test_a_position_of_other_messages_is_not_followed(root: Path, live: apsw.Connection) -> None:
    fill(live, content_of("database"))
    source = sources(root)[0]
    assert not ADAPTER.follows(source, Position(offset=8192, head=b"x", tail=b"x", records=1))
    assert not ADAPTER.follows(source, Position(offset=8192, records=1000))


@pytest.mark.parametrize("case", ["kilo/few-columns", "kilo/new-core", "opencode/new-core"])
def test_a_database_holds_what_its_statements_say(case: str, tmp_path: Path) -> None:
    folder, agent = FIXTURES.parent / case, case.split("/")[0]
    db = apsw.Connection(str(tmp_path / f"{agent}.db"))
    db.execute((folder / "content.sql").read_text(encoding="utf-8"))
    db.close()
    assert derive(get(agent), folder / "root") == derive(get(agent), tmp_path)


def test_a_database_without_times_of_parts_is_read() -> None:
    adapter = get("kilo")
    (source,) = adapter.discover(FIXTURES.parent / "kilo/few-columns/root")
    found = adapter.normalize(source, adapter.read(source, None), None)
    assert not adapter.refused
    assert [body for event, body in zip(found.events, found.bodies, strict=True) if event.role] == [
        "why does the lamp flicker?",
        "its timer is reset twice",
    ]
    assert [str(event.ts)[11:19] for event in found.events] == [
        "08:00:00", "08:00:01", "08:00:06", "08:00:06",
    ]  # fmt: skip
    assert [(call.input_tokens, call.output_tokens) for call, _ in found.calls] == [(7, 3)]


def test_messages_of_the_new_core_are_read() -> None:
    """A session that has switches alone is none; what is not understood is kept and counted."""
    (source,) = sources(FIXTURES / "new-core/root")
    found = normalized(source)
    told = [
        (event.kind, body)
        for event, body in zip(found.events, found.bodies, strict=True)
        if event.kind != "lifecycle"
    ]
    assert told == [
        ("user_msg", "why does the kiln cool?"),
        ("thinking", "look at the log"),
        ("assistant_msg", "I run the tests."),
        ("test_run", "pytest -q"),
        ("tool_result", "1 failed, 2 passed in 0.1s"),
        ("tool_call", "filePath: /srv/kiln/old.txt"),
        ("tool_result", "no such file"),
        ("tool_call", "ls"),
        ("tool_result", "log.txt"),
        ("assistant_msg", "The door is open."),
        ("edit", told[-2][1]),
        ("error", "try again later"),
    ]
    assert [event.role for event in found.events if event.kind == "tool_call"] == [
        "assistant",
        "user",
    ]
    (call,) = (call for call, _ in found.calls)
    assert (call.model, call.input_tokens, call.output_tokens) == ("m-2", 40, 12)
    assert [skip.reason for skip in found.skips] == [
        "a message of another layout",
        "the message is not JSON",
    ]
    assert any("grey" in body for body in found.bodies)
    assert any("cube" in body for body in found.bodies)


def test_a_reply_of_the_new_core_is_read_when_it_is_finished(root: Path, store: Store) -> None:
    root.mkdir(parents=True)
    db = apsw.Connection(str(root / "opencode.db"))
    db.execute((FIXTURES / "new-core/content.sql").read_text(encoding="utf-8"))
    sql = "insert or replace into session_message values ('n1', 'ses_kiln', ?, ?, ?, ?, ?)"
    reply = {"time": {"created": NOW}, "content": [{"type": "text", "text": "It is"}]}
    db.execute(sql, ("assistant", 10, NOW, NOW, json.dumps(reply)))
    sync(store, root)
    assert texts(store, "opencode:ses_kiln")[-1] == "The door is open."
    reply = {
        "time": {"created": NOW, "completed": NOW + 9},
        "content": [{"type": "text", "text": "It is shut"}],
    }
    db.execute(sql, ("assistant", 10, NOW, NOW + 9, json.dumps(reply)))
    db.close()
    sync(store, root)
    assert texts(store, "opencode:ses_kiln")[-1] == "It is shut"


# What is hostile or damaged.


def test_an_id_that_is_not_utf8_costs_its_row_alone(root: Path, store: Store) -> None:
    db = make(root / "opencode.db", "delete")
    content = content_of("database")
    fill(db, content)
    session = content["sessions"][0]["session"]["id"]
    count = len(content["sessions"][0]["messages"])
    db.execute(
        "insert into session select cast(x'ff' as text), project_id, parent_id, slug, directory,"
        " title, version, revert, agent, model, time_created, time_updated, time_archived"
        " from session limit 1"
    )
    db.execute(
        "insert into message select cast(x'fe' as text), cast(x'ff' as text), time_created,"
        " time_updated, data from message limit 1"
    )
    db.execute(
        "insert into message select cast(x'fd' as text), session_id, time_created, time_updated,"
        " data from message where session_id = ? limit 1",
        (session,),
    )
    db.execute(
        "insert into part select cast(x'fc' as text), message_id, session_id, time_created,"
        " time_updated, data from part where session_id = ? limit 1",
        (session,),
    )
    db.close()
    report = pipeline.sync(store, config.load(), agents=["opencode"], roots=[str(root)])
    [(path, reason)] = report.problems
    assert path == str(root / "opencode.db")
    assert reason == "an id that is not UTF-8 costs 1 of its sessions"
    assert sorted(store.sessions.uids(Filter(parents_only=False))) == sorted(
        uid_of(content, n) for n in range(len(content["sessions"]))
    )
    assert report.skipped["an id that is not UTF-8"] == 1
    events = store.sessions.events(f"opencode:{session}")
    assert sum(event.native == "malformed" for event in events) == 1
    assert len({event.record for event in events}) == count + 1
