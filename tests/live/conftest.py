"""A store of sessions in each of its homes: a folder, and a PostgreSQL server.

A test that takes `store` or `address` runs over both, unless it is marked `folder` (about files and
locks) or `server`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runlore.live import SessionStore
from tests import postgres


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    yield from postgres.start()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "address" in metafunc.fixturenames:
        marks = {mark.name for mark in metafunc.definition.iter_markers()}
        homes = [home for home in ("folder", "server") if home in marks] or ["folder", "server"]
        metafunc.parametrize("address", homes, indirect=True)


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store is."""
    if request.param == "folder":
        return str(tmp_path / "store")
    server: postgres.Server = request.getfixturevalue("server")
    return server.make_schema()


@pytest.fixture
def store(address: str) -> Iterator[SessionStore]:
    store = SessionStore(address)
    yield store
    store.close()
