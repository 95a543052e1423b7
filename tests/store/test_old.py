"""One small store of each format that was ever released, made by the version of that time. They still open."""

import shutil
from pathlib import Path

import pytest

from runlore.store import open_store
from runlore.store._sql import migrations
from runlore.store.sqlite import MIGRATIONS

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
