"""One small store of each format that was ever released, made by the version of that time. They still open."""

import shutil
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from runlore.store import open_store
from runlore.store._sql import migrations
from runlore.store.sqlite import MIGRATIONS
from tests import postgres

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
