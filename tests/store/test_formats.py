"""Which stores are opened: those of the present format, and of which others what is said."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

from runlore.errors import StoreError, StoreMissing, StoreTooNew, StoreTooOld
from runlore.store import Filter, Store, open_store
from runlore.store.postgres.database import MIGRATIONS as POSTGRES_MIGRATIONS
from runlore.store.sql.database import migrations
from runlore.store.sqlite.database import APPLICATION_ID, MIGRATIONS
from tests import postgres

ROOT = Path(__file__).parents[2]
FORMAT = migrations(MIGRATIONS)[-1][0]


def tables(store: Store) -> set[str]:
    return {
        name
        for (name,) in store.maintenance.rows("select name from sqlite_schema where type = 'table'")
    }


def test_migrations_are_numbered_from_one_in_both_databases() -> None:
    for folder in (MIGRATIONS, POSTGRES_MIGRATIONS):
        numbers = [number for number, _ in migrations(folder)]
        assert numbers == list(range(1, FORMAT + 1))


# ── files ────────────────────────────────────────────────────────────────────────────────────────
def test_a_new_file_says_whose_it_is_and_of_which_format(tmp_path: Path) -> None:
    path = tmp_path / "runlore.db"
    open_store(str(path)).close()
    with closing(apsw.Connection(str(path))) as db:
        assert (db.pragma("application_id"), db.pragma("user_version")) == (APPLICATION_ID, FORMAT)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_another_process_is_closing_is_waited_for(
    tmp_path: Path, read_only: bool
) -> None:
    path = tmp_path / "runlore.db"
    open_store(str(path)).close()
    # The last connection that is closed has the file for itself while it moves the log into it.
    closing_one = apsw.Connection(str(path))
    closing_one.pragma("locking_mode", "exclusive")
    closing_one.execute("begin immediate; commit")
    thread = threading.Timer(0.3, closing_one.close)
    thread.start()
    open_store(str(path), read_only=read_only).close()
    thread.join()


@pytest.mark.parametrize("version", range(1, 8))
@pytest.mark.parametrize("mark", [b"\0\0\0\0", b"rlor"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_a_development_version_is_left_alone_with_what_to_do(
    tmp_path: Path, version: int, mark: bytes, read_only: bool
) -> None:
    path = tmp_path / "runlore.db"
    with closing(apsw.Connection(str(path))) as db:
        for table in ("sessions", "streams", "segments", "events"):
            db.execute(f"create table {table} (number integer)")
        db.pragma("application_id", int.from_bytes(mark, "big"))
        db.pragma("user_version", version)
    before = path.read_bytes()
    with pytest.raises(
        StoreTooOld, match=r"development version of runlore.*move it away and run `runlore sync`"
    ):
        open_store(str(path), read_only=read_only)
    assert path.read_bytes() == before


def test_a_real_file_of_a_development_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runlore.db"
    shutil.copyfile(Path(__file__).parent / "old/0007.db", path)
    before = path.read_bytes()
    with pytest.raises(StoreTooOld, match=r"development version of runlore"):
        open_store(str(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, 3])
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, version: int) -> None:
    path = tmp_path / "other.db"
    with closing(apsw.Connection(str(path))) as db:
        db.execute("create table notes (text text)")
        db.pragma("user_version", version)
    with pytest.raises(StoreError, match="a database of something else"):
        open_store(str(path))


def test_a_file_of_a_newer_format_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "runlore.db"
    with closing(open_store(str(path))) as store:
        store.maintenance.rows("pragma user_version = 99")
    for read_only in (False, True):
        with pytest.raises(
            StoreTooNew,
            match=rf"newer runlore \(format 99, this one knows {FORMAT}\); update runlore",
        ):
            open_store(str(path), read_only=read_only)


def test_who_only_reads_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "runlore.db"
    with pytest.raises(StoreError, match="run `runlore sync` first"):
        open_store(str(path), read_only=True)
    assert not path.exists()
    path.touch()
    with pytest.raises(StoreError, match="run `runlore sync` first"):
        open_store(str(path), read_only=True)
    assert path.read_bytes() == b""


KILLED = """
import os, signal, sys
import apsw
from runlore.store import open_store
class Connection(apsw.Connection):
    def execute(self, sql, *rest):
        cursor = super().execute(sql, *rest)
        if {when!r} in sql:
            os.kill(os.getpid(), signal.SIGKILL)
        return cursor
apsw.Connection = Connection
open_store(sys.argv[1])
"""


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize("when", ["begin immediate", "create table sessions", "commit"])
def test_who_is_killed_while_a_file_is_made_leaves_one_that_the_next_can_use(
    tmp_path: Path, when: str
) -> None:
    path = tmp_path / "runlore.db"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED.format(when=when), str(path)], env=env, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    with closing(open_store(str(path))) as store:
        assert store.sessions.count(Filter()) == 0
        assert {"sessions", "events", "search"} <= tables(store)


def test_several_that_make_a_store_at_once_make_one(url: str) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert pool.map(count, [url] * 8) == [0] * 8


def count(url: str) -> int:
    with closing(open_store(url)) as store:
        return store.sessions.count(Filter())


# ── servers ──────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("mark", ["migrations", "runlore_format"])
def test_a_schema_of_a_development_version_is_left_alone_with_what_to_do(
    server: postgres.Server, mark: str
) -> None:
    url = server.make_schema()
    with psycopg.connect(url) as connection:
        connection.execute(
            f"create table {mark} (number bigint primary key, applied_at timestamptz not null)"
        )
        connection.execute(f"insert into {mark} values (1, now())")
        for table in ("sessions", "streams"):
            connection.execute(f"create table {table} (number bigint)")
    for read_only in (False, True):
        with pytest.raises(
            StoreTooOld,
            match=(
                r"development version of runlore.*an empty database or schema, and run `runlore"
                r" sync`"
            ),
        ):
            open_store(url, read_only=read_only)


def test_a_schema_of_a_newer_format_is_not_opened(server: postgres.Server) -> None:
    url = server.make_schema()
    open_store(url).close()
    with psycopg.connect(url) as connection:
        connection.execute("insert into runlore_migrations values (99, now())")
    for read_only in (False, True):
        with pytest.raises(
            StoreTooNew,
            match=rf"newer runlore \(format 99, this one knows {FORMAT}\); update runlore",
        ):
            open_store(url, read_only=read_only)


def test_an_empty_schema_is_a_missing_store_to_who_only_reads(server: postgres.Server) -> None:
    url = server.make_schema()
    with pytest.raises(StoreMissing, match="run `runlore sync` first"):
        open_store(url, read_only=True)
