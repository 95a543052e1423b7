"""What the adapter of superagent's grok promises beyond what its fixtures show; above all, how a
database is read that is in use.

The databases of the fixtures are made from the `rows.sql` beside them: `REGENERATE=1 pytest
tests/adapters/test_grok_cli.py`.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from runlore import config
from runlore.adapters import Normalized, Source, get, grok_cli
from runlore.adapters.grok_cli import reader
from runlore.adapters.shared import sqlite
from runlore.errors import ReadError, Rejected
from runlore.model import Session
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline
from runlore.testing import check_law
from runlore.timeline import model_context

ADAPTER = get("grok_cli")
FIXTURES = Path(__file__).parent / "fixtures/grok_cli"
CASES = sorted(path.parent for path in FIXTURES.glob("*/rows.sql"))
SCHEMA = (FIXTURES / "schema.sql").read_text()
TABLES = ("sessions", "messages", "tool_calls", "tool_results", "usage_events", "compactions")


def make(path: Path, sql: str = "", journal: str = "wal") -> apsw.Connection:
    """A database like the agent's own, as it has it open."""
    path.parent.mkdir(parents=True, exist_ok=True)
    db = apsw.Connection(str(path))
    db.pragma("page_size", 1024)  # small enough to be kept as a fixture
    db.pragma("journal_mode", journal)
    db.execute(SCHEMA + sql)
    return db


def say(db: apsw.Connection, session: str, seq: int, role: str, content: Any, at: int = 0) -> None:
    moment = f"2026-06-01T10:{at // 60:02d}:{at % 60:02d}.000Z"
    message = json.dumps({"role": role, "content": content})
    db.execute("insert into messages values (?, ?, ?, ?, ?)", (session, seq, role, message, moment))
    db.execute("update sessions set updated_at = ? where id = ?", (moment, session))


def start(db: apsw.Connection, session: str, title: str | None = None) -> None:
    moment = "2026-06-01T10:00:00.000Z"
    values = (
        session,
        "w",
        title,
        None,
        None,
        None,
        "grok-4",
        "agent",
        "/home/dev",
        "/home/dev",
        "active",
        moment,
        moment,
    )
    db.execute("insert into sessions values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


def use(db: apsw.Connection, session: str, tokens: int, at: int) -> None:
    moment = f"2026-06-01T10:{at // 60:02d}:{at % 60:02d}.000Z"
    row = (session, None, "message", "grok-4", tokens, 1, tokens + 1, 0, moment)
    names = (
        "session_id, message_seq, source, model, input_tokens, output_tokens, total_tokens,"
        " cost_micros, created_at"
    )
    db.execute(f"insert into usage_events ({names}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def the_source(root: Path) -> Source:
    (source,) = ADAPTER.discover(root)
    return source


def normalized(root: Path) -> Normalized:
    source = the_source(root)
    return ADAPTER.normalize(source, ADAPTER.read(source, None), None)


def listing(root: Path) -> dict[str, tuple[int, int]]:
    return {
        name: ((root / name).stat().st_size, (root / name).stat().st_mtime_ns)
        for name in sorted(os.listdir(root))
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / ".grok"


@pytest.fixture
def live(root: Path) -> Iterator[apsw.Connection]:
    """The agent at work: its connection stays open, and what it writes stays in the log."""
    db = make(root / "grok.db")
    db.pragma("wal_autocheckpoint", 0)
    yield db
    db.close()


def sync(store: Store, root: Path) -> pipeline.Report:
    report = pipeline.sync(store, config.load(), agents=["grok_cli"], roots=[str(root)])
    assert not report.problems
    return report


# The fixtures.


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_database_of_a_fixture_holds_what_its_sql_says(case: Path, tmp_path: Path) -> None:
    wanted = make(tmp_path / "wanted.db", (case / "rows.sql").read_text(), "delete")
    kept = case / "root/grok.db"
    if os.environ.get("REGENERATE") == "1":
        shutil.rmtree(case / "root", ignore_errors=True)
        db = make(kept, journal="delete" if case.name == "errors" else "wal")
        db.pragma("wal_autocheckpoint", 0)
        db.pragma("wal_checkpoint", "truncate")
        db.execute((case / "rows.sql").read_text())
        # As after a crash: the log has not been taken over, and its index is gone.
        if case.name == "log":
            shutil.copytree(
                case / "root", tmp_path / "crashed", ignore=shutil.ignore_patterns("*-shm")
            )
        db.close()
        if case.name == "log":
            shutil.copytree(tmp_path / "crashed", case / "root", dirs_exist_ok=True)
    with sqlite.reading(str(kept)) as found:
        for table in TABLES:
            assert list(sqlite.rows(found, table)) == list(sqlite.rows(wanted, table))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_row_is_told_or_repeats_one_that_is(case: Path) -> None:
    found = normalized(case / "root")
    with sqlite.reading(str(case / "root/grok.db")) as db:
        table = {name: list(sqlite.rows(db, name)) for name in TABLES}
    told = {event.record for event in found.events}
    assert len(told | {None}) - 1 + sum(found.merged.values()) >= len(table["messages"])
    assert sum(event.usage is not None for event in found.events) == len(table["usage_events"])
    assert sum(event.view == "compact" for event in found.events) == len(table["compactions"])
    calls = {(event.session_uid, event.call_id) for event in found.events if event.is_call}
    assert calls >= {
        (f"grok_cli:{row['session_id']}", row["tool_call_id"]) for row in table["tool_calls"]
    }
    assert sum(
        event.kind in ("tool_result", "decision", "human_intervention") for event in found.events
    ) >= len(table["tool_results"])


def test_a_compaction_keeps_what_it_says(store: Store) -> None:
    sync(store, FIXTURES / "compaction/root")
    events = list(store.sessions.events("grok_cli:bbbb00000001"))
    bodies = store.sessions.bodies("grok_cli:bbbb00000001")
    at = next(event.seq for event in events if event.summary == "go on")
    assert [bodies[seen.event.seq] for seen in model_context(events, at)] == [
        "and then", "Then nothing.", "## Goal\nread all",
        "[Context checkpoint summary]\nGoal: read all", "go on",
    ]  # fmt: skip


# Reading leaves no trace.


def test_a_live_database_is_read_with_its_log_and_nothing_changes(
    root: Path, live: apsw.Connection
) -> None:
    start(live, "s1")
    live.pragma("wal_checkpoint", "truncate")
    say(live, "s1", 1, "user", "only in the log")
    before = listing(root)
    assert normalized(root).bodies == ["only in the log"]
    assert listing(root) == before


def test_a_log_whose_index_is_gone_is_read_from_a_copy(
    root: Path, live: apsw.Connection, tmp_path: Path
) -> None:
    start(live, "s1")
    say(live, "s1", 1, "user", "only in the log")
    crashed = tmp_path / "crashed"
    shutil.copytree(root, crashed, ignore=shutil.ignore_patterns("*-shm"))
    before = listing(crashed)
    assert list(before) == ["grok.db", "grok.db-wal"]
    assert normalized(crashed).bodies == ["only in the log"]
    assert listing(crashed) == before


def test_a_database_at_rest_gets_no_log_and_no_index(root: Path) -> None:
    db = make(root / "grok.db")
    start(db, "s1")
    say(db, "s1", 1, "user", "hello")
    db.close()
    before = listing(root)
    assert list(before) == ["grok.db"]
    assert normalized(root).bodies == ["hello"]
    assert listing(root) == before


def test_a_folder_that_cannot_be_written_to_is_read(root: Path, live: apsw.Connection) -> None:
    start(live, "s1")
    say(live, "s1", 1, "user", "hello")
    root.chmod(0o500)
    try:
        assert normalized(root).bodies == ["hello"]
    finally:
        root.chmod(0o700)


def test_a_transaction_that_is_open_is_not_seen(root: Path, live: apsw.Connection) -> None:
    start(live, "s1")
    say(live, "s1", 1, "user", "done")
    live.execute("begin immediate")
    say(live, "s1", 2, "assistant", "not yet")
    assert normalized(root).bodies == ["done"]
    live.execute("commit")
    assert normalized(root).bodies == ["done", "not yet"]


def test_a_locked_database_is_named_and_read_the_next_time(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_MS", 20)
    db = make(root / "grok.db", journal="delete")
    start(db, "s1")
    say(db, "s1", 1, "user", "hello")
    db.execute("begin exclusive")
    with pytest.raises(ReadError, match="locked by another program"):
        normalized(root)
    db.execute("commit")
    assert normalized(root).bodies == ["hello"]
    source, since = the_source(root), ADAPTER.position(the_source(root), 1, 1)
    db.execute("begin exclusive")
    assert ADAPTER.follows(source, since), "a lock makes no other database of it"
    db.execute("delete from messages")
    db.execute("commit")
    assert not ADAPTER.follows(source, since)


def test_a_file_that_is_no_database_is_a_problem_of_this_source_alone(
    root: Path, store: Store
) -> None:
    root.mkdir()
    (root / "grok.db").write_bytes(b"this is no database, but it is long enough to look at" * 10)
    report = pipeline.sync(store, config.load(), agents=["grok_cli"], roots=[str(root)])
    assert [reason for _, reason in report.problems] == ["NotADBError: file is not a database"]


def test_a_file_that_changes_while_it_is_read_as_one_that_does_not_is_read_again(
    root: Path,
) -> None:
    db = make(root / "grok.db")
    start(db, "s1")
    say(db, "s1", 1, "user", "hello")
    db.close()
    records = ADAPTER.read(the_source(root), None)
    next(iter(records))
    os.utime(root / "grok.db", ns=(1, 1))
    with pytest.raises(ReadError, match="written to while it was read"):
        list(records)


def test_an_older_database_has_fewer_tables_and_columns(root: Path) -> None:
    root.mkdir()
    db = apsw.Connection(str(root / "grok.db"))
    db.execute("create table messages (session_id text, seq integer, role text, message_json text)")
    db.execute(
        """insert into messages values ('s1', 1, 'user', '{"role":"user","content":"hello"}')"""
    )
    db.close()
    assert normalized(root).bodies == ["hello"]


# What is new.


def test_what_was_added_is_read_alone(root: Path, live: apsw.Connection) -> None:
    for n in range(1, 4):
        start(live, f"s{n}")
        say(live, f"s{n}", 1, "user", f"hello {n}", at=n)
    source = the_source(root)
    since = ADAPTER.position(source, 3, 3)
    assert ADAPTER.follows(source, since)
    assert [record for record in ADAPTER.read(source, since) if record.sidecar is None] == []
    say(live, "s2", 2, "assistant", "hi", at=9)
    assert ADAPTER.follows(source, since)
    (record,) = [record for record in ADAPTER.read(source, since) if record.sidecar is None]
    assert (record.offset, record.end) == (3, 4)


def test_a_sync_of_a_growing_database_stores_what_one_sync_at_the_end_does(
    root: Path, live: apsw.Connection, tmp_path: Path
) -> None:
    pieces, at_once = open_store(str(tmp_path / "pieces.db")), open_store(str(tmp_path / "once.db"))
    start(live, "s1")
    start(live, "s2")
    for n in range(1, 13):
        say(live, f"s{n % 2 + 1}", n, "user" if n % 3 else "assistant", f"message {n}", at=10 * n)
        if n % 4 == 1:
            sync(pieces, root)
        use(live, f"s{n % 2 + 1}", n, at=10 * n + 1)
        if n % 4 == 2:
            sync(pieces, root)
        if n == 7:
            live.execute(
                "insert into compactions values (1, 's1', 4, 'so far', 9,"
                " '2026-06-01T10:01:12.000Z')"
            )
            sync(pieces, root)
        if n == 8:
            live.pragma("wal_checkpoint", "truncate")
            sync(pieces, root)
    live.execute(
        "update sessions set title = 'Named at last', updated_at = '2026-06-01T11:00:00.000Z' where"
        " id = 's1'"
    )
    sync(pieces, root)
    sync(at_once, root)
    for uid in ("grok_cli:s1", "grok_cli:s2"):
        one, other = (list(store.sessions.events(uid)) for store in (pieces, at_once))
        assert [event.to_dict() | {"payload_ref": None} for event in one] == [
            event.to_dict() | {"payload_ref": None} for event in other
        ]
        assert pieces.sessions.bodies(uid) == at_once.sessions.bodies(uid)
        first, second = pieces.sessions.get(uid), at_once.sessions.get(uid)
        assert first
        assert second
        assert (first.cost, first.title, first.content_hash) == (
            second.cost,
            second.title,
            second.content_hash,
        )
    named = pieces.sessions.get("grok_cli:s1")
    assert named
    assert named.title == "Named at last"
    pieces.close()
    at_once.close()


def test_a_sync_with_nothing_new_opens_nothing(
    root: Path, live: apsw.Connection, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(live, "s1")
    say(live, "s1", 1, "user", "hello")
    assert sync(store, root).events == 1
    monkeypatch.setattr(sqlite, "_connect", lambda *_: pytest.fail("the database was opened"))
    assert sync(store, root).found == {"unchanged": 1}


def test_a_checkpoint_alone_brings_nothing_new(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    start(live, "s1")
    say(live, "s1", 1, "user", "hello")
    use(live, "s1", 5, at=1)
    assert sync(store, root).events == 2
    live.pragma("wal_checkpoint", "truncate")
    report = sync(store, root)
    assert (report.found, report.events) == ({"grown": 1}, 0)


def test_a_title_that_changes_is_told_again(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    start(live, "s1", "First")
    say(live, "s1", 1, "user", "hello")
    sync(store, root)
    live.execute(
        "update sessions set title = 'Second', updated_at = '2026-06-01T12:00:00.000Z' where id ="
        " 's1'"
    )
    sync(store, root)
    session = store.sessions.get("grok_cli:s1")
    assert session
    assert session.title == "Second"


def test_usage_that_comes_after_the_last_message_is_counted_once(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    start(live, "s1")
    say(live, "s1", 1, "user", "hello", at=1)
    sync(store, root)
    use(live, "s1", 100, at=2)
    sync(store, root)
    say(live, "s1", 2, "assistant", "hi", at=3)
    sync(store, root)
    session = store.sessions.get("grok_cli:s1")
    assert session
    assert (session.cost.input_tokens, session.events) == (100, 3)


def test_messages_that_were_taken_back_and_said_otherwise_are_both_kept(
    root: Path, live: apsw.Connection, store: Store
) -> None:
    start(live, "s1")
    say(live, "s1", 1, "user", "hello", at=1)
    say(live, "s1", 2, "assistant", "first answer", at=2)
    sync(store, root)
    live.execute("delete from messages where seq = 2")
    say(live, "s1", 2, "assistant", "second answer", at=3)
    report = sync(store, root)
    assert report.found == {"rewritten": 1}
    events = {event.summary: event.is_gone for event in store.sessions.events("grok_cli:s1")}
    assert events == {"hello": False, "first answer": True, "second answer": False}


def test_more_sessions_than_are_remembered_never_share_a_number(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "SESSIONS", 3)
    db = make(root / "grok.db")
    for turn in range(1, 4):
        for n in range(6):
            say(db, f"s{n}", turn, "user", f"{n} {turn}", at=10 * turn + n)
    db.close()
    found = normalized(root)
    numbers = [(event.session_uid, event.seq) for event in found.events]
    assert len(numbers) == len(set(numbers)) == 18
    check_law(ADAPTER, root)


def test_a_row_beyond_all_bounds_is_named_and_not_kept(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_RECORD_BYTES", 2000)
    db = make(root / "grok.db")
    say(db, "s1", 1, "user", "x" * 3000, at=1)
    say(db, "s1", 2, "user", "short", at=2)
    db.close()
    found = normalized(root)
    assert [event.summary for event in found.events] == ["too long (0 MB)", "short"]
    assert len(found.bodies[0]) < 2000
    assert [skip.reason for skip in found.skips] == ["too long (0 MB)"]


def test_text_in_a_message_is_seen_by_redaction_as_it_is(root: Path) -> None:
    db = make(root / "grok.db")
    say(db, "s1", 1, "user", 'say "hello"', at=1)
    db.close()
    (record,) = ADAPTER.read(the_source(root), None)
    assert b'"content":"say \\"hello\\""' in record.data


def test_a_database_elsewhere_is_found_by_its_name_alone(tmp_path: Path) -> None:
    assert list(ADAPTER.discover(tmp_path / "nothing")) == []
    (tmp_path / "grok.db").mkdir()
    assert list(ADAPTER.discover(tmp_path)) == []


def test_the_command_to_go_on() -> None:
    session = Session(session_uid="grok_cli:s1", flavor="grok_cli", native_session_id="s1")
    assert ADAPTER.resume(session) == ["grok", "--session", "s1"]


def test_all_sessions_of_a_store_are_listed(store: Store) -> None:
    sync(store, FIXTURES / "basic/root")
    assert {line.uid for line in store.sessions.select(Filter())} == {
        "grok_cli:aaaa00000001",
        "grok_cli:aaaa00000002",
    }


def test_a_writer_that_died_in_the_middle_is_taken_back_in_a_copy(root: Path) -> None:
    db = make(root / "grok.db", journal="delete")
    start(db, "s1")
    say(db, "s1", 1, "user", "hello")
    db.pragma("cache_size", 1)
    db.execute("begin")
    for n in range(2, 400):
        say(db, "s1", n, "assistant", "never finished " * 50)
    left = root.with_name("left")  # As it is on disk now, without the lock of who wrote it.
    shutil.copytree(root, left)
    db.close()
    assert (left / "grok.db-journal").stat().st_size
    before = listing(left)
    assert normalized(left).bodies == ["hello"]
    assert listing(left) == before


def test_databases_below_a_folder_are_found_where_it_has_none_itself(tmp_path: Path) -> None:
    for place in ("laptop/.grok", "desk/.grok", "old", "old/older", "a/b/c/d"):
        make(tmp_path / place / "grok.db").close()
    found = [source.path for source in ADAPTER.discover(tmp_path)]
    assert found == [
        str(tmp_path / place / "grok.db") for place in ("old", "desk/.grok", "laptop/.grok")
    ]
    assert [source.path for source in ADAPTER.discover(tmp_path / "desk/.grok/grok.db")] == found[
        1:2
    ], "or a file itself"
    make(tmp_path / "grok.db").close()
    assert [source.path for source in ADAPTER.discover(tmp_path)] == [str(tmp_path / "grok.db")]


@pytest.mark.parametrize("has_times", [True, False])
def test_rows_without_a_time_are_not_read_again_with_each_part_of_the_messages(
    root: Path, live: apsw.Connection, monkeypatch: pytest.MonkeyPatch, has_times: bool
) -> None:
    monkeypatch.setattr(grok_cli, "MAX_AGAIN", 5)
    start(live, "a")
    for n in range(20):
        say(live, "a", n, "user", "hello", at=n)
        use(live, "a", 1, at=n)
    if not has_times:
        live.execute("update messages set created_at = ''; update usage_events set created_at = ''")
    else:
        live.execute("update usage_events set created_at = '2026-05-01T00:00:00.000Z'")
    source = the_source(root)
    assert len(list(ADAPTER.read(source, None))) == 41, "the first read has no limit"
    since = ADAPTER.position(source, 10, 10)
    if has_times:
        assert sum(record.sidecar is None for record in ADAPTER.read(source, since)) == 10
    else:
        with pytest.raises(Rejected, match="more than 5 rows would be read again"):
            list(ADAPTER.read(source, since))
