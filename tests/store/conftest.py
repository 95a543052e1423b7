"""Every store that the contract is about, and the server that one of them needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runlore.store import Store, open_store
from tests import postgres


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    yield from postgres.start()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store."""
    if request.param == "sqlite":
        return str(tmp_path / "runlore.db")
    made: postgres.Server = request.getfixturevalue("server")
    return made.make_schema()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = open_store(url)
    yield made
    made.close()
