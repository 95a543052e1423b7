"""One small store of each format that was ever released, made by the version of that time. They still open."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from runlore import doctor, pipeline
from runlore.config import Config
from runlore.store import open_store
from runlore.store._sql import migrations
from runlore.store.postgres import PostgresStore, partition
from runlore.store.sqlite import MIGRATIONS
from tests import postgres
from tests.toy import Toy, line

OLD = sorted((Path(__file__).parent / "old").glob("*.db"))


def test_there_is_one_for_every_format() -> None:
    assert [int(file.stem) for file in OLD] == [number for number, _ in migrations(Path(MIGRATIONS))]


@pytest.mark.parametrize("file", OLD, ids=lambda file: file.stem)
def test_an_old_store_opens_and_says_what_it_held(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "runlore.db"
    shutil.copy(file, copy)
    store = open_store(str(copy))
    session = store.session("toy:s1")
    assert session is not None
    assert (session.title, session.events, session.cost.output_tokens) == ("A bug hunt", 2, 7)
    assert store.bodies("toy:s1") == {0: "find the bug", 1: "found it in parseHttpUrl"}
    assert len(store.postings("http")) == 1
    assert len(list(store.records(session.source_path or ""))) == 3
    digest = store.digest("toy:s1")
    assert (digest.goal if digest else None) == ("find the bug" if int(file.stem) >= 4 else None)
    store.close()


NAMES = (
    "hash", "key", "session", "seq", "ts", "provider", "model", "tier", "region", "flags", "input_tokens", "output_tokens",
    "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "reasoning_tokens", "web_searches", "invoiced", "request_id",
    "superseded", "usd", "basis", "price_source", "price_since", "price_match", "price_name", "price_above", "price_notes", "old_usd",
)  # fmt: skip
USED = (0, 5, 6, 7, 0, 0, 1, 0)
CALLS: list[tuple[Any, ...]] = [
    (1, "a", 1, 0, "2026-01-01T00:00:01Z", "p", "m", None, "us", *USED, 9, "r", b"\x90", 9, "invoiced", None, None, "none", *[None] * 4),
    (2, "b", 1, 1, None, "p", "m", None, "us", *USED, None, None, None, 12, "listed", "list 1", "2025-01-01", "exact", "m", 200, "n", 7),
    (3, "c", 1, 2, None, None, None, "fast", None, *USED, None, None, None, 12, "listed", "list 1", None, "fuzzy", "m", None, None, None),
    (4, "d", 1, 3, None, "p", "m", None, None, *USED, None, None, None, 0, "none", "list 1", None, "none", None, None, None, None),
    (5, "e", 1, 4, None, "p", "m", None, None, *USED, None, None, None, None, None, None, None, None, None, None, None, None),
]  # fmt: skip
SESSION = "insert into sessions (number, uid, flavor, native_session_id, schema_version) values (1, 'toy:s1', 'toy', 's1', 3)"
INSERT = f"insert into calls ({', '.join(NAMES)}) values"


def of_before_terms(url: str, server: postgres.Server | None) -> None:
    """A store of the last format in which every call had all words of its model and its price."""
    if server is None:
        with apsw.Connection(url) as db:
            for number, sql in migrations(Path(MIGRATIONS))[:5]:
                db.execute(sql)
                db.pragma("user_version", number)
            db.execute(SESSION)
            db.executemany(f"{INSERT} (?{', ?' * (len(NAMES) - 1)})", CALLS)
        return
    with psycopg.connect(url) as connection:
        for number, sql in migrations(Path(MIGRATIONS) / "postgres")[:4]:
            connection.execute(sql)
            connection.execute("insert into migrations values (%s, now())", (number,))
        connection.execute(SESSION)
        with connection.cursor() as cursor:
            cursor.executemany(f"{INSERT} (%s{', %s' * (len(NAMES) - 1)})", CALLS)


def test_calls_that_had_all_their_words_are_told_in_the_same_ones(url: str, request: pytest.FixtureRequest) -> None:
    of_before_terms(url, request.getfixturevalue("server") if url.startswith("postgres") else None)
    store = open_store(url)
    assert [tuple(row) for row in store.rows(f"select {', '.join(NAMES)} from ledger order by hash")] == CALLS
    assert store.rows("select (select count(*) from models), (select count(*) from tariffs)")[0][:] == (3, 4)
    assert [hash_ for hash_, _ in store.unpriced()] == [5]
    assert store.unprice(["list 1"]) == 0
    assert store.unprice(["list 2"]) == 2
    assert sorted(hash_ for hash_, _ in store.unpriced()) == [3, 4, 5]
    store.close()


# ── a server with an index of its own, before runlore had one ────────────────────────────────────────────────────────
TABLES = "sessions sources streams natives aliases records skips calls sums models tariffs digests errors events".split()
LONG = "x" * 700


def of_before_volumes(now: PostgresStore, there: str) -> None:
    """Makes the store of the last format before volumes that has what another has. The server kept words by vectors, which are not looked
    at any more, and all of them in their order, in the first row of each segment."""
    here, old = (url.rpartition("%3D")[2] for url in (now._private_url, there))
    months = {number >> 31 for (number,) in now.rows("select number from sessions")}
    with psycopg.connect(there) as connection:
        for number, sql in migrations(Path(MIGRATIONS) / "postgres")[:6]:
            connection.execute(sql)
            connection.execute("insert into migrations values (%s, now())", (number,))
        for month in months:
            for table in ("events", "segments", "search"):
                bounds = f"from ({month << 31}) to ({(month + 1) << 31})"
                connection.execute(f"create table {partition(table, month)} partition of {table} for values {bounds}")
        for table in TABLES:
            connection.execute(f"insert into {old}.{table} select * from {here}.{table}")
        columns = "id, session, first_seq, last_seq, length, hash, body"
        connection.execute(f"insert into {old}.segments ({columns}) select {columns} from {here}.segments")
        connection.execute(f"insert into {old}.search (session, id, part, stream) select session, id, 0, stream from {here}.segments")
        connection.execute("insert into search (session, id, part, tool) select session, id, 1, 'more' from search")
        connection.execute("select setval('session_numbers', 1000), setval('source_numbers', 1000)")


@pytest.fixture
def now(server: postgres.Server, toy: Toy, tmp_path: Path, home: Path) -> Iterator[PostgresStore]:
    """A store of the present format with sessions of two months."""
    root = tmp_path / "toy"
    root.mkdir()
    for n in range(6):
        rows = [line(id=f"{n}-0", text=f"green apple w{n}", at=n * 10 * 86_400), line(id=f"{n}-1", text=f"pear {n} " * 9000, at=n)]
        rows += [line(id=f"{n}-2", kind="assistant_msg", text="a red Äpfel 日本"), line(id=f"{n}-3", kind="tool_result", text=f"{LONG}{n}")]
        (root / f"s{n}.jsonl").write_bytes(b"".join(rows))
    with closing(PostgresStore(server.make_schema(), machine="desk", author="ann")) as made:
        pipeline.sync(made, Config(home=home, store=""), roots=[str(root)], workers=0)
        yield made


def words_found(store: PostgresStore) -> dict[tuple[str, bool, str | None], list[int]]:
    words, phrases = "apple w3 pear p apfel 日本 more".split(), ("green apple", "apple green", "red apfel", "pear 3")
    asked = (*words, *phrases, f"{LONG}2", LONG)
    return {
        (term, prefix, column): store.postings(term, prefix=prefix, column=column)
        for term in asked
        for prefix in (False, True)
        for column in (None, "said", "prompt", "reply", "tool")
    }


def problems(store: PostgresStore, home: Path) -> list[str]:
    home.chmod(0o700)
    report = doctor.examine(store, Config(home=home, store=""), full=True)
    return [problem for check in report.checks for problem in check.problems]


def test_a_server_that_kept_the_words_finds_the_same_when_runlore_keeps_them(
    server: postgres.Server, now: PostgresStore, toy: Toy, tmp_path: Path, home: Path
) -> None:
    url = server.make_schema()
    of_before_volumes(now, url)
    with closing(PostgresStore(url, machine="desk", author="ann")) as store:
        assert store.rows("select max(number) from migrations") == [(7,)]
        found = words_found(store)
        assert found == words_found(now)
        assert sum(map(bool, found.values())) > 40
        assert (len(found["apple", False, "prompt"]), found["more", False, None]) == (6, [])
        assert problems(store, home) == []
        assert not store._is_there("search")
        (tmp_path / "toy/new.jsonl").write_bytes(line(id="n", text="green apple", at=90 * 86_400))
        with (tmp_path / "toy/s1.jsonl").open("ab") as file:
            file.write(line(id="more", text="plum"))
        pipeline.sync(store, Config(home=home, store=""), roots=[str(tmp_path / "toy")], workers=0)
        assert [len(store.postings(term)) for term in ("apple", "plum", "green apple")] == [7, 1, 7]
        assert problems(store, home) == []


def test_an_old_store_whose_words_are_damaged_opens_and_is_mended(server: postgres.Server, now: PostgresStore, home: Path) -> None:
    url = server.make_schema()
    of_before_volumes(now, url)
    (damaged, missing) = now.postings("apple")[:2]
    with psycopg.connect(url) as connection:
        connection.execute("update search set stream = %s where id = %s and part = 0", (b"\0", damaged))
        connection.execute("delete from search where id = %s", (missing,))
    with closing(PostgresStore(url, machine="desk", author="ann")) as store:
        assert store.postings("apple") == now.postings("apple")[2:]
        doctor.examine(store, Config(home=home, store=""), full=True, repair=True)
        assert problems(store, home) == []
        assert words_found(store) == words_found(now)
