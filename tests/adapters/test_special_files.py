"""Links out of an agent's folder, and pipes in place of files, are not opened."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from runlore import config
from runlore.adapters.shared.base import leads_out
from runlore.store import Filter, Store
from runlore.sync import pipeline
from runlore.testing import Fixture, iter_fixtures

FIXTURES = list(
    {one.agent: one for one in iter_fixtures(Path(__file__).parent / "fixtures")}.values()
)
each_agent = pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture.agent)
on_posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and links")
PATIENCE_S = 60


@pytest.fixture
def in_time() -> Iterator[None]:
    """Fail a test that waits for a pipe."""

    def fail(*_: object) -> None:
        raise TimeoutError("it waits for a pipe")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def sync(store: Store, fixture: Fixture, root: Path) -> pipeline.Report:
    return pipeline.sync(store, config.load(), agents=[fixture.agent], roots=[str(root)], workers=0)


def sessions(store: Store) -> list[str]:
    return sorted(store.sessions.uids(Filter(parents_only=False)))


def files(root: Path) -> list[Path]:
    return [path for path in sorted(root.rglob("*")) if path.is_file()]


@on_posix
@each_agent
@pytest.mark.usefixtures("in_time")
def test_pipes_in_place_of_files_are_not_opened(
    fixture: Fixture, tmp_path: Path, store: Store
) -> None:
    root = Path(shutil.copytree(fixture.root, tmp_path / "root"))
    for path in files(root):
        path.unlink()
        os.mkfifo(path)
    sync(store, fixture, root)
    # Where sessions and messages are files, their names are known. Nothing else is.
    kinds = {event.kind for uid in sessions(store) for event in store.sessions.events(uid)}
    assert kinds <= {"lifecycle"}


@on_posix
@each_agent
def test_links_out_of_the_folder_are_not_followed(
    fixture: Fixture, tmp_path: Path, store: Store
) -> None:
    root = Path(shutil.copytree(fixture.root, tmp_path / "root"))
    outside = Path(shutil.copytree(fixture.root, tmp_path / "outside"))
    for path in files(root):
        path.unlink()
        path.symlink_to(outside / path.relative_to(root))
    sync(store, fixture, root)
    assert sessions(store) == []


@on_posix
@each_agent
def test_a_root_that_is_a_link_is_followed(fixture: Fixture, tmp_path: Path, store: Store) -> None:
    elsewhere = Path(shutil.copytree(fixture.root, tmp_path / "elsewhere" / fixture.root.name))
    root = tmp_path / fixture.root.name
    root.symlink_to(elsewhere)
    sync(store, fixture, root)
    assert sessions(store)


@on_posix
def test_a_link_that_stays_in_the_folder_is_followed(home: Path, store: Store) -> None:
    claude = next(one for one in FIXTURES if one.agent == "claude")
    root = Path(shutil.copytree(claude.root, home / "root"))
    first = next(path for path in files(root) if path.suffix == ".jsonl")
    aside = root / "moved" / "elsewhere.txt"
    aside.parent.mkdir()
    first.rename(aside)
    first.symlink_to(aside)
    assert not leads_out(str(first), str(root))
    assert sync(store, claude, root).problems == []
    assert sessions(store)
