"""The tables: numbered steps from nothing to the present schema, each in one transaction."""

from __future__ import annotations

from pathlib import Path

from ...errors import LogError
from .connections import Connection, Connections

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK = 0x4C49_5645
"""Advisory lock of those who migrate."""


def migrate(connections: Connections) -> None:
    """Bring the tables to the newest format. Raises LogError for a newer one."""
    steps = [
        (int(file.name[:4]), file.read_text(encoding="utf-8"))
        for file in sorted(MIGRATIONS.glob("[0-9]*.sql"))
    ]
    newest = steps[-1][0]
    with connections.borrow() as connection:
        version = _version(connection, connections.name)
        if version > newest:
            raise LogError(
                f"{connections.name}: its live sessions were made by a newer runlore (format"
                f" {version}, this one knows {newest}); update runlore"
            )
        if version == newest:
            return
        # Taken before the transaction: within one, the server does not look again for tables that
        # it has looked for.
        connection.execute("select pg_advisory_lock(%s)", (LOCK,))
        try:
            with connection.transaction():
                version = _version(connection, connections.name)  # Another one may have been first.
                _run(connection, [step for step in steps if step[0] > version])
        finally:
            connection.execute("select pg_advisory_unlock(%s)", (LOCK,))


def _run(connection: Connection, steps: list[tuple[int, str]]) -> None:
    connection.execute(
        "create table if not exists live_migrations"
        " (number integer primary key, ts timestamptz not null)"
    )
    for number, sql in steps:
        connection.execute(sql)
        connection.execute("insert into live_migrations values (%s, clock_timestamp())", (number,))


def _version(connection: Connection, name: str) -> int:
    """Return the number of the last step; 0 for a schema without our tables."""
    row = connection.execute(
        "select current_schema(), to_regclass('live_migrations') is not null"
    ).fetchone()
    assert row is not None
    if row[0] is None:
        raise LogError(
            f"{name}: the schema of its search_path does not exist, or this role may not use it"
        )
    if not row[1]:
        return 0
    row = connection.execute("select coalesce(max(number), 0) from live_migrations").fetchone()
    assert row is not None
    return int(row[0])
