"""Databases that were made to hang a reader, or to fill its memory. They cost themselves."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import apsw
import pytest

from bench.attack.databases import (
    columns,
    edit_databases,
    find_databases,
    has_database,
    into_endless_views,
    into_huge_values,
    into_virtual_tables,
    tables,
)
from runlore.adapters.shared import sqlite
from runlore.errors import ReadError, Rejected
from runlore.testing import Fixture, iter_fixtures

FIXTURES = [
    fixture
    for fixture in iter_fixtures(Path(__file__).parent / "fixtures")
    if has_database(fixture)
]
each_fixture = pytest.mark.parametrize(
    "fixture", FIXTURES, ids=lambda fixture: f"{fixture.agent}-{fixture.case}"
)


def read_all(fixture: Fixture, root: Path) -> tuple[int, list[str]]:
    """Return how many records are read, and why others are not."""
    records, reasons = 0, []
    for source in fixture.adapter.discover(root):
        try:
            records += sum(1 for _ in fixture.adapter.read(source, None))
        except ReadError as error:
            reasons.append(error.reason)
    return records, reasons + [error.reason for error in fixture.adapter.refused]


def change(fixture: Fixture, root: Path, edit: Callable[[apsw.Connection], None]) -> None:
    shutil.copytree(fixture.root, root)
    edit_databases(root, edit)


@each_fixture
@pytest.mark.parametrize(
    "edit",
    [into_endless_views, into_virtual_tables, into_huge_values],
    ids=lambda edit: edit.__name__,
)
def test_what_a_database_defines_itself_is_not_run(
    fixture: Fixture, edit: Callable[[apsw.Connection], None], tmp_path: Path
) -> None:
    change(fixture, tmp_path / "root", edit)
    began = time.process_time()
    read_all(fixture, tmp_path / "root")
    assert time.process_time() - began < 5


def into_broken_text(db: apsw.Connection) -> None:
    """Have every text end with bytes that are not UTF-8."""
    db.execute("pragma foreign_keys = off")
    for table in tables(db):
        for name in columns(db, table):
            with suppress(apsw.Error):  # Constraints, and columns that are computed.
                db.execute(
                    f"""update "{table}" set "{name}" = cast(cast("{name}" as blob) || x'ff80fe'"""
                    f""" as text) where typeof("{name}") = 'text'"""
                )


def into_broken_schema(db: apsw.Connection, sql: str) -> None:
    db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    db.execute("pragma writable_schema = on")
    db.execute("update sqlite_schema set sql = " + sql)


@each_fixture
@pytest.mark.parametrize(
    "edit",
    [
        into_broken_text,
        partial(into_broken_schema, sql="substr(sql, 1, length(sql) / 2)"),
        partial(into_broken_schema, sql="cast(x'ff80' || cast(sql as blob) as text)"),
        partial(into_broken_schema, sql="sql, name = cast(x'ff80' as text)"),
        partial(into_broken_schema, sql="sql, rootpage = 999999"),
    ],
    ids=["text", "half", "no UTF-8", "names no UTF-8", "no page"],
)
def test_a_database_with_damaged_text_or_schema_costs_itself(
    fixture: Fixture, edit: Callable[[apsw.Connection], None], tmp_path: Path
) -> None:
    change(fixture, tmp_path / "root", edit)
    records, reasons = read_all(fixture, tmp_path / "root")
    assert records or reasons or not read_all(fixture, fixture.root)[0]


def test_a_read_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_READ_S", 0.1)
    apsw.Connection(str(tmp_path / "a.db")).execute("create table t (a)")
    endless = "with recursive c(n) as (select 1 union all select n + 1 from c) select max(n) from c"
    with (
        pytest.raises(Rejected, match="reading it takes too long for its size"),
        sqlite.reading(str(tmp_path / "a.db")) as db,
    ):
        db.execute(endless).fetchall()


def test_a_value_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MAX_VALUE_BYTES", 1 << 20)
    apsw.Connection(str(tmp_path / "a.db")).execute("create table t (a); insert into t values (1)")
    with (
        pytest.raises(Rejected, match="it has a value of more than 1 MB"),
        sqlite.reading(str(tmp_path / "a.db")) as db,
    ):
        db.execute("select zeroblob(2000000) from t").fetchall()


def test_a_database_with_more_sessions_than_fit_into_it_is_set_aside(tmp_path: Path) -> None:
    [fixture] = [one for one in FIXTURES if (one.agent, one.case) == ("opencode", "database")]

    def add(db: apsw.Connection) -> None:
        db.execute("pragma foreign_keys = off; begin")
        for table, key in (("session", "id"), ("message", "session_id")):
            names = columns(db, table)
            [values] = db.execute(f"select * from {table} limit 1").fetchall()
            row = dict(zip(names, values, strict=True))
            for n in range(3000):
                made = row | {"id": f"{table}-{n}", key: f"session-{n}"}
                marks = ", ".join("?" * len(names))
                db.execute(f"insert into {table} values ({marks})", tuple(made.values()))
        db.execute("update message set data = '{}'; commit; vacuum")

    change(fixture, tmp_path / "root", add)
    records, [reason] = read_all(fixture, tmp_path / "root")
    assert records == 0
    assert reason == "more than 1,000 sessions are too many for its size"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_a_pipe_beside_a_database_does_not_block(suffix: str, tmp_path: Path) -> None:
    [fixture] = [one for one in FIXTURES if (one.agent, one.case) == ("opencode", "database")]
    root = Path(shutil.copytree(fixture.root, tmp_path / "root"))
    [path] = find_databases(root)
    pipe = path.with_name(path.name + suffix)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    records, reasons = read_all(fixture, root)
    assert records == 0
    assert reasons == ([f"{pipe.name} is not an ordinary file"] if suffix else [])
