"""What the adapter of Cursor promises beyond what its fixtures show: three stores and one session,
and reading what changed.

The databases of the fixtures are made from the `content.json` beside them: `REGENERATE=1 pytest
tests/adapters/test_cursor.py`.
"""

import hashlib
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
from runlore.adapters import Source, get
from runlore.model import Session
from runlore.store import Store, open_store
from runlore.sync import pipeline
from runlore.testing import derive

ADAPTER = get("cursor")
FIXTURES = Path(__file__).parent / "fixtures/cursor"
CASES = sorted(path.parent for path in FIXTURES.glob("*/content.json"))
MAIN, SHELL = "c0550000-0000-4000-8000-000000000001", "c0550000-0000-4000-8000-000000000012"
GLOBAL = "User/globalStorage/state.vscdb"
NOW_MS = int(time.time() * 1000)


def make(root: Path, content: dict[str, Any]) -> None:
    for name, tables in content.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        db = apsw.Connection(str(path))
        db.pragma("page_size", 1024)  # small enough to be kept as a fixture
        db.pragma("journal_mode", "wal")
        if "messages" in tables:
            make_store(db, tables)
        else:
            for table, rows in tables.items():
                db.execute(
                    f"create table {table} (key text unique on conflict replace, value blob)"
                )
                for key, value in rows.items():
                    put(db, key, value, table)
        db.close()


def put(db: apsw.Connection, key: str, value: Any, table: str = "cursorDiskKV") -> None:
    db.execute(
        f"insert into {table} values (?, ?)",
        (key, value if isinstance(value, str | None) else json.dumps(value)),
    )


def make_store(db: apsw.Connection, content: dict[str, Any]) -> None:
    """Messages, the last ones in a tree of their own, and a root that names them."""
    db.execute(
        "create table blobs (id text primary key, data blob); create table meta (key text primary"
        " key, value text)"
    )
    names = [add(db, json.dumps(message).encode()) for message in content["messages"]]
    for message in content["left"]:
        add(db, json.dumps(message).encode())
    tree = add(db, b"".join(b"\x0a\x20" + name for name in names[-2:]))
    nodes = [
        *(b"\x0a\x20" + name for name in names[:-2]),
        b"\x12\x20" + tree,
        b"\x18\x07",
        b"\x22\x03abc",
    ]
    meta = (
        content["meta"]
        if not names
        else {"latestRootBlobId": add(db, b"".join(nodes)).hex(), **content["meta"]}
    )
    if not names:
        db.execute("delete from blobs")
    db.execute("insert into meta values ('0', ?)", (json.dumps(meta).encode().hex(),))


def add(db: apsw.Connection, data: bytes) -> bytes:
    name = hashlib.sha256(data).digest()
    db.execute("insert or ignore into blobs values (?, ?)", (name.hex(), data))
    return name


def content_of(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (FIXTURES / case / "content.json").read_text(encoding="utf-8")
    )
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "gathered"


@pytest.fixture
def live(root: Path) -> Iterator[apsw.Connection]:
    """The editor at work: its connection stays open, and what it writes stays in the log."""
    shutil.copytree(FIXTURES / "editor/root", root)
    make(root, content_of("editor"))
    db = apsw.Connection(str(root / GLOBAL))
    db.pragma("wal_autocheckpoint", 0)
    yield db
    db.close()


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=["cursor"], roots=[str(root)])
    assert not report.problems
    return report


def source_of(root: Path, name: str) -> Source:
    return next(source for source in ADAPTER.discover(root) if source.path.endswith(name))


def say(db: apsw.Connection, session: str, **changes: Any) -> dict[str, Any]:
    """Changes what is told of a session."""
    row = db.execute(
        "select value from cursorDiskKV where key = ?", (f"composerData:{session}",)
    ).fetchone()
    assert row is not None
    about: dict[str, Any] = {**json.loads(row[0]), **changes}
    put(db, f"composerData:{session}", about)
    return about


def append(db: apsw.Connection, session: str, bubble: dict[str, Any], **changes: Any) -> None:
    put(db, f"bubbleId:{session}:{bubble['bubbleId']}", bubble)
    headers = say(db, session)["fullConversationHeadersOnly"]
    say(
        db,
        session,
        fullConversationHeadersOnly=[
            *headers,
            {"bubbleId": bubble["bubbleId"], "type": bubble["type"]},
        ],
        **changes,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_databases_of_a_fixture_hold_what_its_content_says(case: Path, tmp_path: Path) -> None:
    if os.environ.get("REGENERATE") == "1":
        make(case / "root", content_of(case.name))
    shutil.copytree(case / "root", tmp_path / "wanted")
    make(tmp_path / "wanted", content_of(case.name))
    assert derive(ADAPTER, case / "root") == derive(ADAPTER, tmp_path / "wanted")


def test_a_session_in_three_stores_is_one(root: Path) -> None:
    shutil.copytree(FIXTURES / "stores/root", root)
    found = {"/".join(Path(source.path).parts[-2:]) for source in ADAPTER.discover(root)}
    name = "c0550000-0000-4000-8000-0000000000{}".format
    assert {path for path in found if not path.startswith("state.vscdb")} == {
        f"{name(12)}/store.db", f"{name(15)}/store.db", f"{name(13)}/{name(13)}.jsonl",
        f"subagents/{name(16)}.jsonl",
        f"agent-transcripts/{name(14)}.txt",
    }  # fmt: skip


def test_what_the_editor_holds_is_not_taken_from_another_root(root: Path) -> None:
    shutil.copytree(FIXTURES / "stores/root", root)
    fresh = type(ADAPTER)()
    assert len(list(fresh.discover(root / "User"))) == 2
    paths = [source.path for source in fresh.discover(root / ".cursor")]
    assert not [path for path in paths if "000000000011" in path]
    assert len(paths) == 5
    alone = type(ADAPTER)()
    assert [
        source.path for source in alone.discover(root / ".cursor") if "000000000011" in source.path
    ]


def test_a_live_database_is_read_with_its_log_and_nothing_changes(
    root: Path, live: apsw.Connection
) -> None:
    append(live, MAIN, {"type": 1, "bubbleId": "new", "text": "just now"})
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    source = source_of(root, MAIN)
    assert "just now" in ADAPTER.normalize(source, ADAPTER.read(source, None), None).bodies
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_only_the_sessions_that_changed_are_read(
    root: Path, live: apsw.Connection, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sync(store, root)
    assert first.found == {"new": 5}
    assert sync(store, root).found == {"unchanged": 5}
    append(live, MAIN, {"type": 1, "bubbleId": "new", "text": "and the tax?"}, status="completed")
    read: list[str] = []
    whole = type(ADAPTER).read

    def watched(self: Any, source: Source, since: Any) -> Any:
        read.append(source.path)
        return whole(self, source, since)

    monkeypatch.setattr(type(ADAPTER), "read", watched)
    report = sync(store, root)
    assert (report.found, report.events) == ({"grown": 1, "unchanged": 4}, 1)
    assert read == [str(root / GLOBAL / MAIN)]


def test_what_was_added_is_read_alone(root: Path, live: apsw.Connection) -> None:
    source = source_of(root, MAIN)
    records = [record for record in ADAPTER.read(source, None) if record.sidecar is None]
    since = ADAPTER.position(source, records[-1].end, len(records))
    append(live, MAIN, {"type": 1, "bubbleId": "new", "text": "more"})
    assert ADAPTER.follows(source, since)
    (record,) = [record for record in ADAPTER.read(source, since) if record.sidecar is None]
    assert (record.offset, json.loads(record.data)["id"]) == (records[-1].end, "new")


def test_a_bubble_that_is_being_written_is_told_when_it_is_done(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    sync(store, root)
    call: dict[str, Any] = {
        "name": "run_terminal_cmd",
        "toolCallId": "n1",
        "rawArgs": '{"command": "ls"}',
        "status": "loading",
    }
    append(
        live,
        MAIN,
        {"type": 2, "bubbleId": "n1", "toolFormerData": call},
        status="generating",
        lastUpdatedAt=NOW_MS,
    )
    append(
        live,
        MAIN,
        {"type": 2, "bubbleId": "n2", "text": "Loo"},
        status="generating",
        lastUpdatedAt=NOW_MS,
    )
    assert sync(store, root).events == 0
    put(
        live,
        f"bubbleId:{MAIN}:n1",
        {
            "type": 2,
            "bubbleId": "n1",
            "toolFormerData": {**call, "status": "completed", "result": '"a.py"'},
        },
    )
    say(live, MAIN, lastUpdatedAt=NOW_MS + 1)
    assert sync(store, root).events == 2
    put(live, f"bubbleId:{MAIN}:n2", {"type": 2, "bubbleId": "n2", "text": "Looked."})
    say(live, MAIN, status="completed", lastUpdatedAt=NOW_MS + 2)
    report = sync(store, root)
    assert (report.found["grown"], report.events) == (1, 1)


def test_a_session_that_was_left_while_it_was_generating_is_told_after_an_hour(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    append(
        live,
        MAIN,
        {"type": 2, "bubbleId": "n1", "text": "Half a"},
        status="generating",
        lastUpdatedAt=NOW_MS - 4_000_000,
    )
    sync(store, root)
    assert "Half a" in [event.summary for event in store.sessions.events(f"cursor:{MAIN}")]


def test_a_session_that_is_given_up_is_told_when_it_is_old(
    root: Path, live: apsw.Connection, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(
        live,
        MAIN,
        {"type": 2, "bubbleId": "n1", "text": "Half a"},
        status="generating",
        lastUpdatedAt=NOW_MS,
    )
    sync(store, root)
    assert sync(store, root).found == {"unchanged": 5}
    monkeypatch.setattr("runlore.adapters.cursor.composers.time", lambda: NOW_MS / 1000 + 4000)
    report = sync(store, root)
    assert (report.found, report.events) == ({"grown": 1, "unchanged": 4}, 1)
    assert sync(store, root).found == {"unchanged": 5}


def test_what_was_taken_back_is_kept_and_nothing_follows_it(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    sync(store, root)
    events = {event.summary: event for event in store.sessions.events(f"cursor:{MAIN}")}
    left = {events["fix the totla"].seq, events["What is a totla?"].seq}
    assert events["fix the total"].parent_seq is None
    assert not [event for event in events.values() if event.parent_seq in left]
    assert store.sessions.get(f"cursor:{MAIN}").title == "Wrong total"  # type: ignore[union-attr] # it is there
    headers = say(live, MAIN)["fullConversationHeadersOnly"]
    say(live, MAIN, fullConversationHeadersOnly=headers[:3])
    assert sync(store, root).found["rewritten"] == 1
    assert {event.native_id for event in store.sessions.events(f"cursor:{MAIN}")} >= {
        event.native_id for event in events.values()
    }


def test_secrets_beside_the_sessions_are_never_read(root: Path, live: apsw.Connection) -> None:
    found = b"".join(
        record.data for source in ADAPTER.discover(root) for record in ADAPTER.read(source, None)
    )
    assert b"not for us" not in found
    sources = (Path(__file__).parents[2] / "src/runlore/adapters/cursor").glob("*.py")
    tables = [
        line
        for path in sources
        for line in path.read_text().splitlines()
        if "ItemTable where" in line
    ]
    assert tables
    assert all("key = " in line for line in tables)


def test_a_folder_is_found_by_the_workspace_that_names_the_session(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    sync(store, root)
    for number in (1, 2, 3):
        session = store.sessions.get(f"cursor:c0550000-0000-4000-8000-{number:012x}")
        assert session is not None
        assert session.cwd == "/home/ada/shop"


def test_a_growing_session_of_the_command_line_is_read_on(root: Path, store: Store) -> None:
    content = content_of("stores")
    name = next(name for name in content if SHELL in name)
    whole = content[name]
    make(root, {name: {**whole, "messages": whole["messages"][:5]}})
    sync(store, root)
    make(root, {name: whole})
    report = sync(store, root)
    assert report.found == {"grown": 1}
    at_once = open_store(str(root.parent / "once.db"))
    sync(at_once, root)
    uid = f"cursor:{SHELL}"
    one, other = (
        [event.to_dict() | {"payload_ref": None} for event in found.sessions.events(uid)]
        for found in (store, at_once)
    )
    assert one == other
    at_once.close()


def test_a_live_database_of_the_command_line_is_read_as_it_grows(root: Path, store: Store) -> None:
    """What was written last is in the log beside the file, which itself does not change."""
    content = content_of("stores")
    name = next(name for name in content if SHELL in name)
    make(root, {name: {**content[name], "messages": content[name]["messages"][:5]}})
    db = apsw.Connection(str(root / name))
    db.pragma("wal_autocheckpoint", 0)
    db.execute("begin; delete from meta; commit")  # The log is there from the beginning.
    db.execute("delete from blobs; drop table blobs; drop table meta")
    make_store(db, {**content[name], "messages": content[name]["messages"][:5]})
    first = sync(store, root).events
    with db:
        db.execute("drop table blobs; drop table meta")
        make_store(db, content[name])
    report = sync(store, root)
    assert first
    assert (report.found, report.events) == ({"grown": 1}, 14 - first)
    db.close()


def test_in_a_home_only_transcripts_are_opened(tmp_path: Path) -> None:
    home = tmp_path / ".cursor"
    for name in (
        "projects/p/agent-transcripts/a.jsonl",
        "projects/p/other.jsonl",
        "mcp.jsonl",
        "projects/p/terminals/1.txt",
        "chats/x.txt",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("{}\n")
    assert [Path(source.path).name for source in ADAPTER.discover(home)] == ["a.jsonl"]


def test_the_doctor_knows_where_a_session_is(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    sync(store, root)
    report = doctor.examine(store, config.load())
    assert report.ok, report
    assert not [
        note
        for check in report.checks
        for note in check.notes
        if "not there" in note or "rewritten" in note
    ]
    source = source_of(root, MAIN)
    live.execute("delete from cursorDiskKV where key = ?", (f"composerData:{MAIN}",))
    assert ADAPTER.refresh(source) is None


def test_a_session_of_the_command_line_is_taken_up_again_by_its_name() -> None:
    def resume(path: str) -> list[str] | None:
        return ADAPTER.resume(
            Session(
                session_uid="cursor:s1", flavor="cursor", native_session_id="s1", source_path=path
            )
        )

    assert resume("/x/s1/store.db") == ["cursor-agent", "--resume", "s1"]
    assert resume("/x/state.vscdb/s1") is None


def test_a_session_whose_status_is_no_word_costs_no_other(tmp_path: Path) -> None:
    make(tmp_path, content_of("editor"))
    before = {source.path for source in ADAPTER.discover(tmp_path / "User")}
    db = apsw.Connection(str(tmp_path / GLOBAL))
    put(db, f"composerData:{MAIN}", {"composerId": MAIN, "status": {}, "lastUpdatedAt": NOW_MS})
    db.close()
    found = list(ADAPTER.discover(tmp_path / "User"))
    assert {source.path for source in found} == before
    assert sum(1 for source in found for _ in ADAPTER.read(source, None)) > len(found)


def test_a_damaged_database_does_not_hide_the_transcript_of_its_session(tmp_path: Path) -> None:
    root = Path(shutil.copytree(FIXTURES / "stores/root", tmp_path / "root"))
    session = "c0550000-0000-4000-8000-000000000013"
    [store] = root.glob(f".cursor/chats/*/{session}/store.db")
    store.write_bytes(store.read_bytes()[:100])
    paths = {Path(source.path).name for source in ADAPTER.discover(root)}
    assert f"{session}.jsonl" in paths
    assert str(store) in {source.path for source in ADAPTER.discover(root)}, "it is named, too"
