"""What tests of adapters share: an empty store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runlore.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(str(tmp_path / "store.db"))
    yield opened
    opened.close()
