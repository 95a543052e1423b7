"""What only a server can do: many writers, authors, restarts, months. And that both databases
answer alike."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from psycopg import Copy, Cursor

from runlore import doctor
from runlore import search as engine
from runlore.config import Config
from runlore.errors import RunloreError, StoreError
from runlore.mine.known_errors import find_recurring
from runlore.model import Digest
from runlore.query.open_stores import Stores
from runlore.store import (
    CallFilter,
    Filter,
    Store,
    copying,
    open_store,
)
from runlore.store.natives import native_hash
from runlore.store.postgres import connection, index
from runlore.store.postgres.connection import PostgresConnection
from runlore.store.postgres.database import as_regex, without_password
from runlore.store.postgres.months import PARTITIONED, partition
from runlore.store.postgres.pool import MAX_CONNECTIONS, open_pools
from runlore.store.postgres.sending import Sending
from runlore.store.postgres.store import PostgresStore
from runlore.sync import ingest, pipeline
from runlore.sync.prepare import Job, Preparer, Setting
from runlore.sync.redaction import RedactSetting
from tests.postgres import Server
from tests.toy import Toy, line

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "adapters" / "fixtures"


@pytest.fixture
def address(server: Server) -> str:
    return server.make_schema()


@pytest.fixture
def store(address: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(address, machine="desk", author="ann")) as made:
        yield made


@pytest.fixture
def is_little_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is put is sent while more is made, however little it is."""
    monkeypatch.setattr(connection, "MIN_SEND_BYTES", 0)


@pytest.fixture
def config(home: Path) -> Config:
    home.chmod(0o700)
    return Config(home=home, store="")


def put(store: Store, toy: Toy, file: Path, *lines: bytes) -> None:
    """Appends to a file, and puts what is new in it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("ab") as out:
        out.writelines(lines)
    source = next(s for s in toy.discover(file.parent) if s.path == str(file))
    state = store.sources.by_path().get(str(file))
    job = Job(source=source)
    if state is not None and state.position.offset:
        job = Job(source=source, since=state.position, resume=store.sources.resume(state.number))
    batch = (
        Preparer(Setting(redact=RedactSetting(key_path=str(file.parent / "key"))))
        .prepare(job)
        .batch
    )
    assert batch is not None
    store.ingest.put(batch)


def content(store: Store, *, names: bool = True) -> dict[str, Any]:
    """All that is stored, but for when, and for the numbers of segments."""
    found: dict[str, Any] = {}
    for shown in store.sessions.select(Filter(parents_only=False)):
        session = store.sessions.get(shown.uid)
        assert session is not None
        apart = dict(ingested_at=None, discovered_at=None, analyzed_at=None) | (
            {} if names else dict(machine=None, author=None)
        )
        events = [
            msgspec.structs.replace(event, payload_ref=None)
            for event in store.sessions.events(shown.uid)
        ]
        found[shown.uid] = (
            msgspec.structs.replace(session, **apart),
            events,
            store.sessions.bodies(shown.uid),
        )
    return found


def is_right(store: Store, config: Config) -> list[str]:
    report = doctor.examine(store, config, full=True)
    return [problem for check in report.checks for problem in check.problems]


# ── both databases answer alike ───────────────────────────────────────────────────────────────────
@pytest.fixture(scope="module")
def pair(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Store]]:
    """The fixtures of every adapter, in a file and in a server."""
    folder = tmp_path_factory.mktemp("pair")
    stores = open_store(str(folder / "runlore.db")), open_store(server.make_schema())
    for made in stores:
        for case in sorted(FIXTURES.glob("*/*/root")):
            pipeline.sync(
                made,
                Config(home=folder, store=made.url),
                agents=[case.parts[-3]],
                roots=[str(case)],
                workers=0,
            )
    yield stores
    for made in stores:
        made.close()


def queries(store: Store) -> list[str]:
    """Words of all kinds, phrases and prefixes out of the text, and every filter."""
    chosen = random.Random(1)
    texts = [
        text
        for shown in store.sessions.select(Filter(parents_only=False))
        for text in store.sessions.bodies(shown.uid).values()
    ]
    made = [
        "error",
        "the",
        "test*",
        "main.py",
        '"not found"',
        "is:error",
        "kind:tool_call file:main.py",
        "-error test",
        "é",
        "日本",
        "_",
    ]
    for text in chosen.sample(texts, 120):
        words = text.split()
        if not words:
            continue
        at = chosen.randrange(len(words))
        made += [
            words[at],
            " ".join(words[at : at + 2]),
            " ".join(words[at : at + 8]),
            f'"{" ".join(words[at : at + 3])}"',
            words[at][:3] + "*",
        ]
    return made


def test_both_databases_give_the_same_answers_in_the_same_order(pair: tuple[Store, Store]) -> None:
    asked = queries(pair[0])
    answered = 0
    for text in asked:
        answers: list[Any] = []
        for store in pair:
            try:
                found = engine.search(store, text, limit=50)
                answers.append(
                    [(hit.session.uid, hit.score, hit.events, hit.missing) for hit in found.hits]
                )
            except RunloreError as error:
                answers.append(str(error))
        assert answers[0] == answers[1], text
        answered += bool(answers[0])
    assert answered > len(asked) // 2


def test_both_databases_keep_the_same(pair: tuple[Store, Store]) -> None:
    assert content(pair[0], names=False) == content(pair[1], names=False)


def test_both_databases_keep_the_same_digests(pair: tuple[Store, Store]) -> None:
    every = Filter(parents_only=False)
    one, two = (
        [msgspec.structs.replace(made, made_at=None) for made in store.digests.iter(every)]
        for store in pair
    )
    assert len(one) > 100
    assert one == two
    assert sorted(pair[0].digests.errors(every), key=str) == sorted(
        pair[1].digests.errors(every), key=str
    )
    now = datetime.now(UTC)
    assert find_recurring(pair[0], every, now, min_sessions=1, limit=None) == find_recurring(
        pair[1], every, now, min_sessions=1, limit=None
    )


@pytest.mark.parametrize(
    "by",
    [
        "agent",
        "branch",
        "day",
        "hour",
        "model",
        "repo",
        "session",
        "subagent",
        "price_match",
        "price_name",
    ],
)
def test_both_databases_add_up_to_the_same(pair: tuple[Store, Store], by: str) -> None:
    for chosen in (
        CallFilter(),
        CallFilter(model="*opus*"),
        CallFilter(since=datetime(2025, 6, 1, tzinfo=UTC)),
        CallFilter(is_subagent=True),
    ):
        one, two = ({sums.keys: sums for sums in store.ledger.sum([by], chosen)} for store in pair)
        assert one == two
    assert pair[0].ledger.sum([], CallFilter())


def test_both_databases_choose_and_sort_alike(pair: tuple[Store, Store]) -> None:
    chosen = [
        Filter(),
        Filter(cwd="*"),
        Filter(model="[a-g]*"),
        Filter(text="fix"),
        Filter(errors=True),
        Filter(agent="nobody"),
        Filter(repo="*a*"),
    ]
    for one in chosen:
        for sort in ("ended", "started", "events", "errors", "tokens", "duration"):
            lines = [
                [shown.uid for shown in store.sessions.select(one, sort=sort)] for store in pair
            ]
            assert lines[0] == lines[1]


def test_the_doctor_finds_both_right(pair: tuple[Store, Store], config: Config) -> None:
    problems = is_right(pair[1], config)
    assert problems == is_right(pair[0], config)
    assert all("was read up to" in problem for problem in problems), (
        "but for what is packed, and longer when it is not"
    )


@pytest.mark.parametrize(
    ("pattern", "text", "is_found"),
    [
        ("a*c", "abbc", True),
        ("a?c", "abc", True),
        ("a[b-d]c", "acc", True),
        ("a[^b]c", "abc", False),
        ("a.c", "abc", False),
        ("a[", "a[", False),
    ],
)
def test_globs_mean_what_they_mean_in_sqlite(
    store: PostgresStore, tmp_path: Path, pattern: str, text: str, is_found: bool
) -> None:
    with closing(open_store(str(tmp_path / "runlore.db"))) as file:
        assert bool(file.maintenance.rows("select ? glob ?", (text, pattern))[0][0]) is is_found
    assert store.maintenance.rows("select ? ~ ?", (text, as_regex(pattern)))[0][0] is is_found


def test_both_databases_have_the_same_tables_and_columns(pair: tuple[Store, Store]) -> None:
    """A table that only one has would be lost in a copy, and a column that only one has in an
    answer."""
    file, server = pair
    in_file = (
        "select m.name, c.name from sqlite_schema m join pragma_table_info(m.name) c where m.type ="
        " 'table'"
    )
    in_server = (
        "select c.relname::text, a.attname::text from pg_class c join pg_attribute a on a.attrelid"
        " = c.oid and a.attnum > 0 where c.relkind in ('r', 'p') and not c.relispartition and"
        " c.relnamespace = current_schema()::regnamespace"
    )
    one = {row for row in file.maintenance.rows(in_file) if not row[0].startswith("search")}
    two = {row for row in server.maintenance.rows(in_server) if row[0] != "search"}
    assert one - two == set()
    own = {"claims", "runlore_migrations"}
    assert own < {table for table, _ in two}
    assert {row for row in two - one if row[0] not in own} == {
        ("sources", "reader"),
        ("sources", "author"),
        ("segments", "stream"),
    }


# ── what a text column does not take ──────────────────────────────────────────────────────────────
def test_nul_is_kept_in_bodies_and_shown_as_a_sign_elsewhere(
    store: PostgresStore, toy: Toy, tmp_path: Path, config: Config
) -> None:
    put(
        store,
        toy,
        tmp_path / "toy/s.jsonl",
        line(id="a\0b", text="one\0two", tool="x\0y"),
        line(id="c", up="a\0b", text="three"),
    )
    event, child = store.sessions.events("toy:s")
    assert store.sessions.bodies("toy:s")[0] == "one\0two"
    assert (event.summary, event.tool, child.parent_seq) == ("one␀two", "x␀y", 0)
    assert native_hash("toy", event.native_id or "") == native_hash("toy", "a\0b")
    put(
        store,
        toy,
        tmp_path / "toy/s.jsonl",
        line(id="a\0b", text="one\0two"),
        line(id="d", up="a\0b", text="four"),
    )
    assert [one.parent_seq for one in store.sessions.events("toy:s")] == [
        None,
        0,
        0,
    ], "the id is known, whatever it looks like"
    assert is_right(store, config) == []


def test_nul_reaches_no_text_column_of_what_is_put_together(
    store: PostgresStore, toy: Toy, tmp_path: Path, config: Config
) -> None:
    (tmp_path / "toy").mkdir()
    for n in range(3):
        rows = [
            line(id=f"{n}a\0", text="one\0two", tool="x\0y", call="c\0", error=True),
            line(id=f"{n}b", title="t\0"),
            b"no\0JSON\n",
        ]
        (tmp_path / f"toy/{n}.jsonl").write_bytes(b"".join(rows))
    pipeline.sync(store, config, roots=[str(tmp_path / "toy")], workers=0)
    for n in range(3):
        (event,) = store.sessions.events(f"toy:{n}")
        assert (event.summary, event.tool, event.call_id) == ("one␀two", "x␀y", "c␀")
        assert store.sessions.bodies(f"toy:{n}") == {0: "one\0two"}
    assert {shown.title for shown in store.sessions.select(Filter())} == {"t␀"}
    assert is_right(store, config) == []


def test_a_body_with_more_words_than_a_row_holds_is_found_by_each(
    store: PostgresStore, toy: Toy, tmp_path: Path, config: Config
) -> None:
    words = [f"word{n:07}" for n in range(120_000)]
    put(
        store,
        toy,
        tmp_path / "toy/s.jsonl",
        line(id="a", text=" ".join(words)),
        line(id="b", text="x" * 3000),
    )
    for word in (words[0], words[70_000], words[-1], f"{words[5]} {words[6]}", "x" * 3000):
        assert len(store.index.postings(word)) == 1, word
    assert not store.index.postings(f"{words[5]} {words[7]}")
    assert store.index.postings("word00", prefix=True)
    assert is_right(store, config) == []


def test_room_is_given_back_when_those_who_began_before_are_done(
    address: str, store: PostgresStore, toy: Toy, tmp_path: Path
) -> None:
    noise = random.Random(1)
    for n in range(10):
        put(
            store,
            toy,
            tmp_path / f"t{n}.jsonl",
            line(id=f"n{n}", text=" ".join(noise.randbytes(6).hex() for _ in range(4000))),
        )
    before = store.retention.used_bytes()
    with closing(PostgresConnection(address, "another")) as other:
        other.execute("begin isolation level repeatable read")
        other.execute("select count(*) from sessions")
        store.retention.evict([f"toy:t{n}" for n in range(10)], datetime.now(UTC))
        leaving = threading.Timer(0.5, other.execute, ("rollback",))
        leaving.start()
        store.retention.shrink()
        leaving.join()
    assert store.retention.used_bytes() < before / 2


def test_a_number_that_no_column_takes_costs_its_batch_and_no_other(
    store: PostgresStore, toy: Toy, tmp_path: Path
) -> None:
    with pytest.raises(OverflowError):
        put(store, toy, tmp_path / "toy/bad.jsonl", line(id="a", text="one", tokens=1 << 63))
    put(store, toy, tmp_path / "toy/good.jsonl", line(id="b", text="two"))
    assert list(content(store)) == ["toy:good"]


def test_a_number_that_no_column_takes_costs_its_source_also_among_many(
    store: PostgresStore, toy: Toy, tmp_path: Path, config: Config
) -> None:
    write_home(tmp_path / "homes", "one")
    (tmp_path / "homes/bad.jsonl").write_bytes(line(id="bad", text="one", tokens=1 << 63))
    report = pipeline.sync(store, config, roots=[str(tmp_path / "homes")], workers=0)
    assert [path for path, _ in report.problems] == [str(tmp_path / "homes/bad.jsonl")]
    assert sorted(content(store)) == sorted(f"toy:one-{n}" for n in range(12))
    assert is_right(store, config) == []


def test_many_new_sources_are_put_with_as_many_questions_as_a_few(
    server: Server, toy: Toy, tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    run = PostgresConnection._run

    def count(self: PostgresConnection, sql: str, bindings: Sequence[Any]) -> Any:
        asked.append(sql)
        return run(self, sql, bindings)

    monkeypatch.setattr(PostgresConnection, "_run", count)
    counts = []
    for name, sessions in (("few", 4), ("many", 40)):
        (tmp_path / name).mkdir()
        for n in range(sessions):
            (tmp_path / name / f"{n}.jsonl").write_bytes(line(id=f"{n}", text=f"apple {n}", at=n))
        with closing(PostgresStore(server.make_schema(), machine="desk", author="ann")) as store:
            asked.clear()
            # Too early for digests.
            pipeline.sync(store, config, roots=[str(tmp_path / name)], workers=0, quiet_s=1e9)
            counts.append(len(asked))
            assert len(store.index.postings("apple")) == sessions
    assert counts[0] == counts[1]


@pytest.mark.parametrize("enough", [0, 5_000, connection.MIN_SEND_BYTES])
def test_what_was_put_is_known_before_it_is_sent(
    store: PostgresStore,
    toy: Toy,
    tmp_path: Path,
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
    enough: int,
) -> None:
    monkeypatch.setattr(connection, "MIN_SEND_BYTES", enough)
    monkeypatch.setattr(ingest, "MAX_GROUP", 1)
    write_home(tmp_path / "homes/one", "one")
    write_home(tmp_path / "homes/two", "two")
    pipeline.sync(store, config, roots=[str(tmp_path / "homes")], workers=0)
    with closing(open_store(str(tmp_path / "alone.db"))) as alone:
        pipeline.sync(alone, config, roots=[str(tmp_path / "homes")], workers=0)
        assert content(store, names=False) == content(alone, names=False)
    assert is_right(store, config) == []


def test_a_transaction_lasts_for_a_time_whatever_it_holds(
    store: PostgresStore, toy: Toy, tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_home(tmp_path / "homes/one", "one")
    monkeypatch.setattr(ingest, "MAX_GROUP", 1)
    monkeypatch.setattr(ingest, "COMMIT_BYTES", 1)
    monkeypatch.setattr(ingest, "COMMIT_S", 600)
    commit, seen = PostgresConnection.commit, []

    def noted(db: PostgresConnection) -> None:
        seen.append(db)
        commit(db)

    monkeypatch.setattr(PostgresConnection, "commit", noted)
    pipeline.sync(store, config, roots=[str(tmp_path / "homes")], workers=0)
    assert seen.count(store.db.connection) < 6, (
        "one for all twelve, and a few for what comes behind"
    )


def test_of_what_several_sources_tell_a_digest_is_kept_once(
    store: PostgresStore, toy: Toy, tmp_path: Path, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n, name in enumerate(("s", "other", "s")):
        (tmp_path / f"homes/{n}").mkdir(parents=True)
        (tmp_path / f"homes/{n}/{name}.jsonl").write_bytes(line(id=f"{n}", text="fix it", at=n))
    put, kept = store.digests.put, []

    def noted(digest: Digest, when: datetime) -> None:
        kept.append(digest.session_uid)
        put(digest, when)

    monkeypatch.setattr(store.digests, "put", noted)
    report = pipeline.sync(store, config, roots=[str(tmp_path / "homes")], workers=0)
    assert (kept, report.digests) == (["toy:s"], 2), "that of the other came with its source"


def test_rows_that_a_table_refuses_are_told_by_the_next_statement(store: PostgresStore) -> None:
    store.db.connection.begin()
    store.db.connection.copy("tombstones", [("toy:s", "now"), ("toy:s", "later")])
    store.db.connection.send_behind()
    with pytest.raises(StoreError, match="tombstones"):
        store.db.execute("select 1")
    store.db.connection.rollback()
    assert store.sources.tombstones() == set()


def test_rows_wait_until_there_are_enough_of_them(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MIN_SEND_BYTES", 100_000)
    copied: list[str] = []
    copy = Cursor.copy

    def noted(cursor: Cursor[Any], sql: str) -> Any:
        copied.append(sql)
        return copy(cursor, sql)

    monkeypatch.setattr(Cursor, "copy", noted)
    store.db.connection.begin()
    for part in range(4):
        store.db.connection.copy(
            "tombstones", [(f"toy:{part}-{n}" + 30 * "x", "now") for n in range(1000)]
        )
        store.db.connection.send_behind()
        assert len(copied) <= part // 3 + 1
    store.db.connection.commit()
    assert (len(copied), len(store.sources.tombstones())) == (2, 4000)


@pytest.mark.usefixtures("is_little_enough")
def test_who_is_interrupted_while_rows_are_sent_can_go_on(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.db.connection.begin()
    store.db.connection.copy("tombstones", [(f"toy:{n}", "now") for n in range(1000)])
    store.db.connection.send_behind()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "join", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.db.execute("select 1")
    store.db.connection.rollback()
    assert store.sources.tombstones() == set()


def test_who_is_interrupted_in_the_middle_of_a_statement_can_go_on_and_so_can_others(
    store: PostgresStore, server: Server
) -> None:
    store.db.connection.begin()
    (pid,) = store.db.execute("select pg_backend_pid()").fetchone()
    store.db.execute("insert into tombstones values ('toy:s', 'now')")
    store.db.connection.flush()
    # As a signal leaves it: asked, and not answered.
    store.db.connection._line.pgconn.send_query(b"select pg_sleep(60)")
    store.db.connection.rollback()
    assert store.sources.tombstones() == set()
    until = time.monotonic() + 20
    while server.execute(f"select 1 from pg_stat_activity where pid = {pid} and state = 'active'"):
        assert time.monotonic() < until, "the server is still at what nobody waits for"
        time.sleep(0.05)


@pytest.mark.usefixtures("is_little_enough")
def test_what_is_taken_back_is_not_sent_to_its_end(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_on_its_way, is_unwanted = threading.Event(), threading.Event()
    write, wait, written = Copy.write_row, Sending.wait, []

    def write_slowly(copy: Copy, row: Sequence[Any]) -> None:
        written.append(row)
        is_on_its_way.set()
        assert is_unwanted.wait(60)
        write(copy, row)

    def wait_for_it(sending: Sending) -> None:
        is_unwanted.set()
        wait(sending)

    store.db.connection.begin()
    store.db.connection.copy("tombstones", [(f"toy:{n}" + "x" * 100_000, "now") for n in range(40)])
    monkeypatch.setattr(Copy, "write_row", write_slowly)
    monkeypatch.setattr(Sending, "wait", wait_for_it)
    store.db.connection.send_behind()
    assert is_on_its_way.wait(60)
    store.db.connection.rollback()
    assert len(written) == 1
    assert store.sources.tombstones() == set()


def test_rows_are_sent_also_where_no_thread_is_to_be_had(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    store.db.connection.begin()
    store.db.connection.copy("tombstones", [(f"toy:{n}", "now") for n in range(1000)])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        store.db.connection.send_behind()
    store.db.connection.commit()
    assert len(store.sources.tombstones()) == 1000


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_phrase_of_common_words_is_proved_in_the_newest_and_shown_only_where_it_is(
    store: PostgresStore, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n, text in enumerate(
        ("green pear", "pear green", "green pear", "pear green", "green pear")
    ):
        put(store, toy, tmp_path / f"toy/{n}.jsonl", line(id=f"{n}", text=text, at=n))
    exact = store.index.postings("green pear")
    assert len(exact) == 3
    monkeypatch.setattr(index, "MAX_PHRASE_SEGMENTS", 2)
    monkeypatch.setattr(store.index, "_phrases", ("", {}))
    possible = store.index.postings("green pear")
    assert len(possible) == 4, "the newest two are looked into, the older three are not"
    assert set(exact) < set(possible)
    assert possible == sorted(possible)
    found = engine.search(store, '"green pear"')
    assert sorted(hit.session.uid for hit in found.hits) == ["toy:0", "toy:2", "toy:4"]


# ── many machines ─────────────────────────────────────────────────────────────────────────────────
SYNC = """
import sys
from pathlib import Path
from runlore import adapters
from runlore.sync import pipeline
from runlore.config import Config
from runlore.store.postgres.store import PostgresStore
from tests.toy import Toy
toy = Toy()
adapters.names, adapters.get = lambda: ("toy",), lambda name: toy
url, machine, home, root = sys.argv[1:]
store = PostgresStore(url, machine=machine, author="ann")
pipeline.sync(store, Config(home=Path(home), store=url), roots=[root], workers=0)
store.close()
"""


def start_sync(
    address: str, machine: str, home: Path, root: Path, before: str = ""
) -> subprocess.Popen[bytes]:
    env = {
        **os.environ,
        "RUNLORE_HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    words = [sys.executable, "-c", before + SYNC, address, machine, str(home), str(root)]
    return subprocess.Popen(words, env=env, stderr=subprocess.PIPE if before else None)


def write_home(root: Path, name: str, sessions: int = 12, shared: int = 4) -> None:
    """Sessions that a home has alone, and the beginnings of some that all homes have copies of."""
    root.mkdir(parents=True)
    for n in range(sessions):
        rows = (
            [
                line(
                    id=f"shared{n}-{k}",
                    up=f"shared{n}-{k - 1}" if k else None,
                    text=f"apple {n} {k} " * 50,
                )
                for k in range(3)
            ]
            if n < shared
            else []
        )
        rows += [
            line(
                id=f"{name}{n}-{k}", text=f"{name} pear {n} {k} " * 200, tokens=k, at=n * 40_000 + k
            )
            for k in range(8)
        ]
        file = root / f"{name}-{n}.jsonl"
        file.write_bytes(b"".join(rows))
        os.utime(file, (1000 + n, 1000 + n))


def test_four_machines_at_once_store_what_one_does_alone(
    server: Server, toy: Toy, tmp_path: Path, config: Config
) -> None:
    machines = ["one", "two", "three", "four"]
    for name in machines:
        write_home(tmp_path / "homes" / name, name)
    together, alone = server.make_schema(), server.make_schema()
    running = [
        start_sync(together, name, tmp_path / f"of-{name}", tmp_path / "homes" / name)
        for name in machines
    ]
    assert [process.wait(120) for process in running] == [0, 0, 0, 0]
    with (
        closing(PostgresStore(together, machine="one", author="ann")) as many,
        closing(PostgresStore(alone, machine="one", author="ann")) as one,
    ):
        pipeline.sync(
            one, config, roots=[str(tmp_path / "homes" / name) for name in machines], workers=0
        )
        assert content(many, names=False) == content(one, names=False)
        assert len(content(many)) == 48
        assert {many.sessions.get(f"toy:{name}-0").machine for name in machines} == set(machines)  # type: ignore[union-attr]
        assert is_right(many, config) == []
        assert [len(many.index.postings(word)) for word in ("apple", "pear")] == [
            len(one.index.postings(word)) for word in ("apple", "pear")
        ]


def test_a_server_that_is_restarted_again_and_again_costs_nothing_but_time(
    address: str, server: Server, toy: Toy, tmp_path: Path, config: Config, loops: Any
) -> None:
    for name in ("one", "two", "three"):
        write_home(tmp_path / "homes" / name, name, sessions=60)
    root = tmp_path / "homes"
    restarts = 0
    with (
        closing(PostgresStore(address, machine="desk", author="ann")) as store,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(ingest, "COMMIT_S", 0.05)
        is_over = threading.Event()

        def restart() -> None:
            nonlocal restarts
            while restarts < loops(20) and not is_over.is_set():
                time.sleep(0.2)
                server.control("restart", "-m", "immediate" if restarts % 2 else "fast")
                restarts += 1

        thread = threading.Thread(target=restart)
        thread.start()
        while thread.is_alive():
            pipeline.sync(store, config, roots=[str(root)], workers=0)
            for file in root.rglob("*-1.jsonl"):
                with file.open("ab") as out:
                    out.write(line(id=os.urandom(4).hex(), text="more"))
        is_over.set()
        thread.join()
        pipeline.sync(store, config, roots=[str(root)], workers=0)
        assert restarts == loops(20)
        alone = open_store(str(tmp_path / "alone.db"))
        pipeline.sync(alone, config, roots=[str(root)], workers=0)
        assert content(store, names=False) == content(alone, names=False)
        assert is_right(store, config) == []
        alone.close()


def test_who_waits_for_a_server_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StoreError, match="refused"):
        PostgresConnection(
            "postgresql://127.0.0.1:1/nowhere", "postgresql://127.0.0.1:1/nowhere", max_away_s=0.3
        )
    (said,) = caplog.messages
    assert said.startswith("runlore: postgresql://127.0.0.1:1/nowhere: ")
    assert said.endswith("; trying again for 0 s")


@pytest.mark.usefixtures("is_little_enough")
def test_a_server_that_is_restarted_while_rows_are_sent_costs_nothing_but_time(
    store: PostgresStore,
    server: Server,
    toy: Toy,
    tmp_path: Path,
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_home(tmp_path / "homes/one", "one")
    # Without fsync, the tables that were just made could be lost with the server.
    server.execute("checkpoint")
    write, sent = Copy.write_row, []

    def write_and_restart(copy: Copy, row: Sequence[Any]) -> None:
        sent.append(threading.current_thread().name)
        if len(sent) == 2:
            server.control("restart", "-m", "immediate")
        write(copy, row)

    monkeypatch.setattr(Copy, "write_row", write_and_restart)
    monkeypatch.setattr(ingest, "MAX_GROUP", 4)
    report = pipeline.sync(store, config, roots=[str(tmp_path / "homes")], workers=0)
    assert (report.problems, report.sessions, sent[:2], len(sent) > 2) == (
        [],
        12,
        ["runlore-rows"] * 2,
        True,
    )
    assert is_as_alone(store, tmp_path, config)


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize("word", ["SIGKILL", "SIGINT"])
def test_who_is_stopped_while_rows_are_sent_leaves_nothing_half_done(
    store: PostgresStore, address: str, toy: Toy, tmp_path: Path, config: Config, word: str
) -> None:
    write_home(tmp_path / "homes/one", "one")
    stopped = start_sync(
        address, "desk", tmp_path / "of-one", tmp_path / "homes", before=STOPPED.format(word)
    )
    _, told = stopped.communicate(timeout=60)
    assert (stopped.returncode, b"StoreError" in told) == (-signal.Signals[word], False)
    assert store.sessions.count(Filter()) == 0, "it was all one transaction"
    pipeline.sync(store, config, roots=[str(tmp_path / "homes")], workers=0)
    assert is_as_alone(store, tmp_path, config)


STOPPED = """
import os, signal
from psycopg import Copy
from runlore.sync import ingest, pipeline
from runlore.store.postgres import connection
ingest.MAX_GROUP, connection.MIN_SEND_BYTES = 4, 0
write = Copy.write_row
def stop(copy, row):
    write(copy, row)
    os.kill(os.getpid(), signal.{})
Copy.write_row = stop
"""


def is_as_alone(store: PostgresStore, folder: Path, config: Config) -> bool:
    """Whether the store is right, and has what one in a file has that nothing happened to."""
    with closing(open_store(str(folder / "alone.db"))) as alone:
        pipeline.sync(alone, config, roots=[str(folder / "homes")], workers=0)
        return is_right(store, config) == [] and content(store, names=False) == content(
            alone, names=False
        )


def test_a_server_that_is_away_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"^postgresql://me@/x\?host=") as told:
        open_store(f"postgresql://me:secret@/x?host={tmp_path}")
    assert "secret" not in str(told.value)
    assert "\n" not in str(told.value)


def test_a_store_in_a_file_needs_no_psycopg_and_one_in_a_server_says_so(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["psycopg"] = None
from runlore.store import open_store
open_store(sys.argv[1]).close()
try:
    open_store("postgresql://nowhere/x")
except Exception as error:
    print(error)
"""
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.db")],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "src")},
    )
    assert told.stdout == (
        "a store in PostgreSQL needs psycopg, which is not installed: install runlore again, in the"
        " way you did, with its extra `postgres` (in a checkout '.[postgres]' instead of '.')\n"
    )


def test_a_password_is_not_shown() -> None:
    assert (
        without_password("postgresql://me:secret@db.example:5432/runlore")
        == "postgresql://me@db.example:5432/runlore"
    )


def test_a_database_of_something_else_is_left_alone(address: str, server: Server) -> None:
    server.execute(f"create table {address.rpartition('%3D')[2]}.sessions (id int)")
    with pytest.raises(StoreError, match="is a database of something else"):
        open_store(address)


def test_reading_makes_no_store(address: str) -> None:
    with pytest.raises(StoreError, match="there is no store yet"):
        open_store(address, read_only=True)


def test_a_store_for_reading_refuses_to_write(address: str, store: PostgresStore) -> None:
    with (
        closing(open_store(address, read_only=True)) as reader,
        pytest.raises(StoreError, match="opened for reading"),
    ):
        reader.ingest.set_places({"toy:s": ("a", None)})


# ── many readers ──────────────────────────────────────────────────────────────────────────────────
def connections(server: Server) -> int:
    (found,) = server.execute(
        "select count(*) from pg_stat_activity where application_name = 'runlore'"
    )
    return int(found[0])


@pytest.fixture
def stores(address: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stores]:
    monkeypatch.setenv("RUNLORE_STORE", address)
    with closing(Stores()) as made:
        yield made


def test_many_readers_of_a_process_share_a_few_connections(
    store: PostgresStore, server: Server, stores: Stores, toy: Toy, tmp_path: Path
) -> None:
    put(store, toy, tmp_path / "toy/s.jsonl", line(id="a", text="apple"))
    before = connections(server)
    most, answers = 0, []

    def ask() -> None:
        nonlocal most
        with stores.lend() as (reader, _):
            answers.append(len(reader.index.postings("apple")))
            most = max(most, connections(server) - before)

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 12
    assert 0 < most <= MAX_CONNECTIONS
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(stores.lend())
        assert connections(server) - before == MAX_CONNECTIONS, "and while they wait they have none"


def test_a_reader_goes_on_after_the_server_was_restarted(
    store: PostgresStore, server: Server, stores: Stores, toy: Toy, tmp_path: Path
) -> None:
    put(store, toy, tmp_path / "toy/s.jsonl", line(id="a", text="apple"))
    for _ in range(2):
        with stores.lend() as (reader, _):
            assert len(reader.index.postings("apple")) == 1
        server.control("restart", "-m", "fast")


def test_the_last_reader_to_leave_closes_the_connections(
    store: PostgresStore, server: Server, stores: Stores
) -> None:
    with stores.lend() as (reader, _):
        reader.sessions.count(Filter())
    assert open_pools
    stores.close()
    assert not open_pools


def test_a_question_that_takes_too_long_is_ended(store: PostgresStore, address: str) -> None:
    with closing(open_store(address, read_only=True)) as reader:
        assert reader.maintenance.rows("select current_setting('statement_timeout')") == [("2min",)]
        reader.maintenance.rows("select set_config('statement_timeout', '1s', false)")
        with pytest.raises(StoreError, match="statement timeout"):
            reader.maintenance.rows("select pg_sleep(60)")
        assert reader.sessions.count(Filter()) == 0, "and the next one is answered"


# ── whose a session is ────────────────────────────────────────────────────────────────────────────
@pytest.fixture
def bob(address: str, store: PostgresStore) -> Iterator[PostgresStore]:
    with closing(PostgresStore(address, machine="lap", author="bob")) as made:
        yield made


def test_a_session_says_where_it_is_from_and_whose_it_is(
    store: PostgresStore, toy: Toy, tmp_path: Path
) -> None:
    put(store, toy, tmp_path / "toy/s.jsonl", line(id="a", text="one"))
    session = store.sessions.get("toy:s")
    assert session is not None
    assert (session.machine, session.author) == ("desk", "ann")


def test_domains_are_those_of_who_read_the_session(
    store: PostgresStore, bob: PostgresStore, toy: Toy, tmp_path: Path
) -> None:
    put(store, toy, tmp_path / "ann/s.jsonl", line(id="a", text="one"))
    put(
        bob,
        toy,
        tmp_path / "bob/s.jsonl",
        line(id="a", text="one"),
        line(s="t", id="b", text="two"),
    )
    store.ingest.set_places({"toy:s": ("acme/api", None), "toy:t": ("acme/api", None)})
    store.ingest.set_domains(lambda _: "hers")
    bob.ingest.set_domains(lambda _: "his")
    assert store.maintenance.rows("select uid, author, domain from sessions order by uid") == [
        ("toy:s", "ann", "hers"),
        ("toy:t", "bob", "his"),
    ]


def test_the_same_path_on_two_machines_is_two_sources(
    store: PostgresStore, bob: PostgresStore, toy: Toy, tmp_path: Path
) -> None:
    put(store, toy, tmp_path / "toy/s.jsonl", line(s="x", id="a", text="one"))
    put(bob, toy, tmp_path / "toy/s.jsonl", line(s="x", id="b", up="a", text="two"))
    assert (len(store.sources.by_path()), len(bob.sources.by_path())) == (1, 1)
    assert store.maintenance.rows("select count(*) from sources") == [(2,)]


def test_a_session_that_two_people_have_is_one_when_its_records_agree(
    store: PostgresStore, bob: PostgresStore, toy: Toy, tmp_path: Path, config: Config
) -> None:
    rows = [line(id="a", text="one"), line(id="b", up="a", text="two")]
    put(store, toy, tmp_path / "ann/s.jsonl", *rows)
    put(bob, toy, tmp_path / "bob/s.jsonl", *rows, line(id="c", up="b", text="three"))
    assert list(content(store)) == ["toy:s"]
    assert list(store.sessions.bodies("toy:s").values()) == ["one", "two", "three"]
    put(
        store,
        toy,
        tmp_path / "ann/s.jsonl",
        line(id="c", up="b", text="three"),
        line(id="d", up="c", text="four"),
    )
    assert sorted(store.sessions.bodies("toy:s").values()) == ["four", "one", "three", "two"]
    session = store.sessions.get("toy:s")
    assert session is not None
    assert session.author == "ann"
    assert is_right(store, config) == []


def test_other_records_under_the_same_name_are_a_second_session(
    store: PostgresStore, bob: PostgresStore, toy: Toy, tmp_path: Path, config: Config
) -> None:
    put(
        store,
        toy,
        tmp_path / "ann/s.jsonl",
        line(id="a", text="one"),
        line(id="b", up="a", text="two"),
    )
    before = content(store)["toy:s"]
    put(
        bob,
        toy,
        tmp_path / "bob/s.jsonl",
        line(id="a", text="one"),
        line(id="b", up="a", text="forged"),
    )
    put(bob, toy, tmp_path / "bob/s.jsonl", line(id="c", up="b", text="goes on"))
    assert content(store)["toy:s"] == before
    assert store.sessions.bodies("toy:s~bob") == {0: "one", 1: "forged", 2: "goes on"}
    put(store, toy, tmp_path / "ann/s.jsonl", line(id="c", up="b", text="my own"))
    assert list(store.sessions.bodies("toy:s").values()) == ["one", "two", "my own"]
    assert is_right(store, config) == []


def test_records_that_differ_later_part_the_sessions_again(
    store: PostgresStore, bob: PostgresStore, toy: Toy, tmp_path: Path, config: Config
) -> None:
    """Bob is ahead of Ann, in a session that is hers, and what she says then is something else."""
    put(store, toy, tmp_path / "ann/s.jsonl", line(id="a", text="one"))
    put(
        bob,
        toy,
        tmp_path / "bob/s.jsonl",
        line(id="a", text="one"),
        line(id="b", up="a", text="forged"),
    )
    put(store, toy, tmp_path / "ann/s.jsonl", line(id="b", up="a", text="two"))
    assert list(store.sessions.bodies("toy:s").values()) == ["one", "two"]
    pipeline.sync(bob, config, roots=[str(tmp_path / "bob")], workers=0)
    assert store.sessions.bodies("toy:s~bob") == {0: "one", 1: "forged"}
    assert list(store.sessions.bodies("toy:s").values()) == ["one", "two"]
    assert is_right(store, config) == []


def test_nobody_elses_copy_takes_the_place_of_an_original(
    store: PostgresStore, bob: PostgresStore, toy: Toy, tmp_path: Path
) -> None:
    """Of two sessions of one author with the same record, the one with the smaller uid has it."""
    put(store, toy, tmp_path / "ann/s.jsonl", line(id="a", text="one"))
    put(bob, toy, tmp_path / "bob/aaa.jsonl", line(id="a", text="forged"))
    assert [event.origin for event in store.sessions.events("toy:s")] == [None]
    assert store.sessions.bodies("toy:s") == {0: "one"}
    assert store.sessions.bodies("toy:aaa") == {0: "forged"}


def test_everybody_makes_the_digests_of_their_own_sessions(
    store: PostgresStore, bob: PostgresStore, toy: Toy, tmp_path: Path
) -> None:
    put(store, toy, tmp_path / "ann/s.jsonl", line(id="a", text="one"))
    put(bob, toy, tmp_path / "bob/t.jsonl", line(id="b", text="two"))
    assert store.digests.stale(1, datetime.now(UTC)) == ["toy:s"]
    assert bob.digests.stale(1, datetime.now(UTC)) == ["toy:t"]


def test_what_someone_means_by_a_session_is_copied_with_it(
    store: PostgresStore,
    bob: PostgresStore,
    server: Server,
    toy: Toy,
    tmp_path: Path,
    config: Config,
) -> None:
    put(
        store,
        toy,
        tmp_path / "ann/s.jsonl",
        line(id="a", text="one"),
        line(id="b", up="a", text="two"),
    )
    put(bob, toy, tmp_path / "bob/s.jsonl", line(id="a", text="one"))
    with closing(PostgresStore(server.make_schema(), machine="lap", author="bob")) as there:
        copying.copy(store, there)
        put(there, toy, tmp_path / "bob/s.jsonl", line(id="c", up="a", text="three"))
        assert sorted(there.sessions.bodies("toy:s").values()) == ["one", "three", "two"]
        assert list(content(there)) == ["toy:s"]
        assert is_right(there, config) == []


# ── months ────────────────────────────────────────────────────────────────────────────────────────
def parts(store: PostgresStore) -> set[str]:
    sql = (
        "select relname from pg_class where relnamespace = current_schema()::regnamespace and"
        " relispartition and relkind = 'r'"
    )
    return {name for (name,) in store.maintenance.rows(sql)}


def test_sessions_lie_in_the_month_they_began_and_an_empty_month_goes(
    store: PostgresStore, toy: Toy, tmp_path: Path
) -> None:
    put(store, toy, tmp_path / "toy/a.jsonl", line(id="a", text="january", at=0))
    put(store, toy, tmp_path / "toy/b.jsonl", line(id="b", text="march", at=70 * 86_400))
    assert parts(store) == {
        f"{table}_2026_{month}" for table in PARTITIONED for month in ("01", "03")
    }
    assert partition("events", (2026 - 1970) * 12 + 2) == "events_2026_03"
    store.retention.forget(["toy:b"], datetime.now(UTC))
    assert parts(store) == {f"{table}_2026_01" for table in PARTITIONED}
    put(store, toy, tmp_path / "toy/c.jsonl", line(id="c", text="march again", at=71 * 86_400))
    assert len(parts(store)) == 6
    assert store.sessions.bodies("toy:c") == {0: "march again"}


# ── copies into a store of several people ─────────────────────────────────────────────────────────
@pytest.fixture
def file_of_bob(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(str(tmp_path / "bob.db"))) as made:
        yield made


def uids_in(store: Store) -> set[str]:
    return {shown.uid for shown in store.sessions.select(Filter(parents_only=False))}


def test_a_copy_of_what_someone_else_has_is_theirs_as_well(
    store: PostgresStore,
    bob: PostgresStore,
    file_of_bob: Store,
    toy: Toy,
    tmp_path: Path,
    config: Config,
) -> None:
    for made in (store, file_of_bob):
        put(
            made,
            toy,
            tmp_path / f"{id(made)}/s.jsonl",
            line(id="a", text="one"),
            line(id="b", text="two"),
        )
    copying.copy(file_of_bob, bob)
    assert uids_in(store) == {"toy:s"}
    assert store.maintenance.rows("select author, uid from claims") == [("bob", "toy:s")]
    assert is_right(store, config) == []
    assert copying.copy(file_of_bob, bob).unchanged == 1
    put(
        bob,
        toy,
        tmp_path / "bob/s.jsonl",
        line(id="a", text="one"),
        line(id="b", text="two"),
        line(id="c", text="three"),
    )
    assert uids_in(store) == {"toy:s"}
    store.backup(tmp_path / "backup.db")


def test_a_copy_of_something_else_stands_beside_what_someone_has(
    store: PostgresStore,
    bob: PostgresStore,
    file_of_bob: Store,
    toy: Toy,
    tmp_path: Path,
    config: Config,
) -> None:
    put(store, toy, tmp_path / "ann/s.jsonl", line(id="a", text="one"))
    put(file_of_bob, toy, tmp_path / "bob/s.jsonl", line(id="a", text="another"))
    pipeline.sync(file_of_bob, config, roots=[str(tmp_path / "bob")], workers=0, quiet_s=0)
    assert file_of_bob.digests.get("toy:s") is not None
    copying.copy(file_of_bob, bob)
    assert uids_in(store) == {"toy:s", "toy:s~bob"}
    second = store.sessions.get("toy:s~bob")
    assert second is not None
    assert (second.author, second.machine, second.analyzed_at) == ("bob", "lap", None)
    assert store.sessions.bodies("toy:s") == {0: "one"}
    assert is_right(store, config) == []
    again = copying.copy(file_of_bob, bob)
    assert (again.sessions, again.unchanged) == (0, 1)


def test_a_copy_leaves_what_others_added_to_a_session(
    store: PostgresStore, bob: PostgresStore, tmp_path: Path, toy: Toy, config: Config
) -> None:
    put(store, toy, tmp_path / "ann/s.jsonl", line(id="a", text="one"))
    put(bob, toy, tmp_path / "bob/s.jsonl", line(id="a", text="one"), line(id="b", text="two"))
    with closing(open_store(str(tmp_path / "ann.db"))) as file:
        put(
            file,
            toy,
            tmp_path / "more/s.jsonl",
            line(id="a", text="one"),
            line(id="c", text="three"),
        )
        before = sorted(store.sessions.bodies("toy:s").values())
        copying.copy(file, store)
    assert sorted(store.sessions.bodies("toy:s").values()) == before == ["one", "two"]
    assert {session for _, _, session in store.transfer.claims()} <= {
        number for (number,) in store.maintenance.rows("select number from sessions")
    }
    assert is_right(store, config) == []
    store.backup(tmp_path / "backup.db")
    pipeline.sync(store, config, roots=[str(tmp_path / "ann")], workers=0)
    assert sorted(store.sessions.bodies("toy:s").values()) == [
        "one",
        "three",
        "two",
    ], "what it adds is not lost"
    assert is_right(store, config) == []


def test_a_claim_stays_with_a_session_that_is_taken_over_again(
    store: PostgresStore, bob: PostgresStore, tmp_path: Path, toy: Toy, config: Config
) -> None:
    with (
        closing(open_store(str(tmp_path / "ann.db"))) as file,
        closing(open_store(str(tmp_path / "bob.db"))) as other,
    ):
        put(file, toy, tmp_path / "ann/s.jsonl", line(id="a", text="one"))
        put(other, toy, tmp_path / "bob/s.jsonl", line(id="a", text="one"))
        copying.copy(file, store)
        copying.copy(other, bob)  # It has no part of its own in it.
        put(file, toy, tmp_path / "ann/s.jsonl", line(id="b", text="two"))
        copying.copy(file, store)
    assert store.sessions.bodies("toy:s") == {0: "one", 1: "two"}
    assert [session for _, _, session in store.transfer.claims()] == [
        number for (number,) in store.maintenance.rows("select number from sessions")
    ]
    store.backup(tmp_path / "backup.db")


def test_what_was_forgotten_in_either_store_is_forgotten_by_a_copy(
    store: PostgresStore,
    bob: PostgresStore,
    file_of_bob: Store,
    toy: Toy,
    tmp_path: Path,
    config: Config,
) -> None:
    for name in ("here", "there", "both"):
        put(file_of_bob, toy, tmp_path / f"bob/{name}.jsonl", line(id=name, text=name))
    put(store, toy, tmp_path / "ann/ann.jsonl", line(id="ann", text="ann"))
    copying.copy(file_of_bob, bob)
    bob.retention.forget(["toy:there"], datetime.now(UTC))
    file_of_bob.retention.forget(["toy:here", "toy:ann"], datetime.now(UTC))
    done = copying.copy(file_of_bob, bob)
    assert (done.sessions, done.unchanged, done.forgotten) == (0, 1, 1)
    assert uids_in(bob) == {"toy:both", "toy:ann"}, "hers is not his to forget"
    assert is_right(store, config) == []
    copying.copy(bob, file_of_bob)
    assert uids_in(file_of_bob) == {"toy:both"}


def test_who_brings_back_what_someone_else_evicted_makes_no_second_one(
    store: PostgresStore, bob: PostgresStore, toy: Toy, tmp_path: Path, config: Config
) -> None:
    lines = [
        line(
            id=f"{n}",
            text=f"ModuleNotFoundError: No module named 'w{n}' {'x' * 3000}",
            kind="error",
        )
        for n in range(4)
    ]
    for made, name in ((store, "ann"), (bob, "bob")):
        put(made, toy, tmp_path / f"{name}/s.jsonl", *lines)
    pipeline.sync(store, config, roots=[str(tmp_path / "ann")], workers=0, quiet_s=0)
    store.retention.evict(["toy:s"], datetime.now(UTC))
    put(bob, toy, tmp_path / "again/s.jsonl", *lines)
    assert uids_in(store) == {"toy:s"}


def test_a_session_beside_someone_elses_says_which_machine_it_is_from(
    store: PostgresStore, bob: PostgresStore, toy: Toy, tmp_path: Path
) -> None:
    put(store, toy, tmp_path / "ann/s.jsonl", line(id="a", text="one"))
    put(bob, toy, tmp_path / "bob/s.jsonl", line(id="a", text="another"))
    second = store.sessions.get("toy:s~bob")
    assert second is not None
    assert (second.author, second.machine) == ("bob", "lap")


def test_a_password_is_not_shown_wherever_it_stands() -> None:
    assert (
        without_password("postgresql://h/d?user=u&password=s3cret&options=-cx%3Dy")
        == "postgresql://h/d?user=u&options=-cx%3Dy"
    )
    assert without_password("postgresql://u:s3cret@h/d") == "postgresql://u@h/d"
