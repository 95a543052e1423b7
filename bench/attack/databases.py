"""Databases that were made to hang a reader or to fill its memory, in place of those of each agent
that keeps its sessions in SQLite.

Each may cost 300 MB of memory and 10 s of CPU, and the sync goes on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from bench.attack import Result, not_possible
from bench.attack._hostile import Run, choose_fixtures, configure, copy_root, run_sync, why_not
from bench.attack.files import judge
from runlore.testing import Fixture

MAGIC = b"SQLite format 3\0"
ROWS = 400_000
"""Rows that are added to a table: about 30 MB of them."""


def find_databases(root: Path) -> list[Path]:
    files = [path for path in sorted(root.rglob("*")) if path.is_file()]
    return [path for path in files if path.read_bytes()[:16] == MAGIC]


def edit_databases(root: Path, edit: Callable[[apsw.Connection], None]) -> None:
    for path in find_databases(root):
        db = apsw.Connection(str(path))
        edit(db)
        db.close()


def tables(db: apsw.Connection) -> list[str]:
    sql = "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'"
    return [str(name) for (name,) in db.execute(sql).fetchall()]


def columns(db: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in db.execute(f'pragma table_info("{table}")')]


def into_endless_views(db: apsw.Connection) -> None:
    for table in tables(db):
        names = ", ".join(f'"{name}"' for name in columns(db, table))
        db.execute(f'alter table "{table}" rename to "{table} of before"')
        db.execute(
            f'create view "{table}" as with recursive endless(n) as (select 1 union all'
            f" select n + 1 from endless) select n as rowid, {names} from endless,"
            f' "{table} of before"'
        )


def into_virtual_tables(db: apsw.Connection) -> None:
    for table in tables(db):
        names = ", ".join(f'"{name}"' for name in columns(db, table) if name != "rowid")
        db.execute(f'drop table "{table}"')
        db.execute(f'create virtual table "{table}" using fts5({names})')
        db.execute(f'insert into "{table}"("{columns(db, table)[0]}") values (1)')


def into_huge_values(db: apsw.Connection) -> None:
    for table in tables(db):
        first, *others = columns(db, table)
        huge = (f'"{name}" generated always as (zeroblob(1000000000)) virtual' for name in others)
        db.execute(f'alter table "{table}" rename to "{table} of before"')
        db.execute(f'create table "{table}" ("{first}", {", ".join(huge)})')
        db.execute(f'insert into "{table}" select "{first}" from "{table} of before"')


def into_slow_values(db: apsw.Connection) -> None:
    """Have every value computed, slowly, from the first column."""
    slow = "replace(hex(zeroblob(5000000)), '0', 'ab')"
    for table in tables(db):
        first, *others = columns(db, table)
        made = (f'"{name}" generated always as ({slow}) virtual' for name in others)
        db.execute(f'alter table "{table}" rename to "{table} of before"')
        db.execute(f'create table "{table}" ("{first}", {", ".join(made)})')
        db.execute(f'insert into "{table}" select "{first}" from "{table} of before"')


def into_many_rows(db: apsw.Connection) -> None:
    """Repeat the last row of each table, under other ids."""
    for table in tables(db):
        names = columns(db, table)
        db.execute(f'create table "copy" as select * from "{table}"')
        db.execute(f'drop table "{table}"; alter table "copy" rename to "{table}"')
        others = ", ".join(
            f"'x' || n || substr({name}, 1, 8)" if name.lower().endswith(("id", "key")) else "null"
            for name in (f'"{name}"' for name in names)
        )
        db.execute(
            "with recursive many(n) as"
            f" (select 1 union all select n + 1 from many where n < {ROWS})"
            f' insert into "{table}" select {others} from many,'
            f' (select * from "{table}" order by rowid desc limit 1)'
        )


ATTACKS = {
    "endless views in place of tables": into_endless_views,
    "virtual tables in place of tables": into_virtual_tables,
    "values of 1 GB that are computed": into_huge_values,
    "values that are computed slowly": into_slow_values,
    "many rows that say nothing": into_many_rows,
}


def attack(scale: float, scratch: Path) -> Iterator[Result]:
    """Change the databases of each agent in one way after another, and sync."""
    if reason := why_not():
        yield not_possible("hostile databases", reason)
        return
    for case, edit in ATTACKS.items():
        runs: dict[str, Run] = {}
        for fixture in choose_fixtures(scale, has_database):
            home = scratch / "home"
            root = copy_root(fixture, home / "agent")
            edit_databases(root, edit)
            configure(home, {fixture.agent: [root]})
            runs[fixture.agent] = run_sync(home, [fixture.agent])
            shutil.rmtree(home)
        yield judge(case, runs)


def has_database(fixture: Fixture) -> bool:
    return bool(find_databases(fixture.root))
