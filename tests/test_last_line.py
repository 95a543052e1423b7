"""The last line of a file, when no newline follows: read once the file is quiet, and as if read in
one go whatever is written after it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runlore import config as config_module
from runlore.adapters.shared.jsonl import QUIET_S
from runlore.config import Config
from runlore.store import Store, open_store
from runlore.sync import pipeline
from tests.test_law import contents
from tests.toy import Toy, line

FIRST, LAST = line(id="a", text="one"), line(id="b", up="a", text="two")[:-1]
Sync = Callable[..., pipeline.Report]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(str(tmp_path / "store.db"))
    yield opened
    opened.close()


@pytest.fixture
def config() -> Config:
    return config_module.load()


@pytest.fixture
def file(home: Path, toy: Toy) -> Path:
    (home / ".toy").mkdir()
    return home / ".toy" / "s1.jsonl"


@pytest.fixture
def sync(store: Store, config: Config, monkeypatch: pytest.MonkeyPatch) -> Sync:
    """A sync that happens so many seconds from now."""

    def run(later_s: float = 0) -> pipeline.Report:
        now = time.time() + later_s
        monkeypatch.setattr("runlore.adapters.shared.jsonl.time", lambda: now)
        return pipeline.sync(store, config)

    return run


def at_once(config: Config, path: Path) -> object:
    """What a store has that reads everything in one go."""
    with_all = open_store(str(path))
    pipeline.sync(with_all, config)
    found = contents(with_all)
    with_all.close()
    return found


def forbid_reading(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("an idle source is not opened")

    for name in ("follows", "read", "position", "has_other_end"):
        monkeypatch.setattr(toy, name, refuse)


def test_a_last_line_without_a_newline_is_read_when_the_file_is_quiet(
    store: Store, sync: Sync, file: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(FIRST + LAST)
    sync()
    assert store.sessions.bodies("toy:s1") == {0: "one"}
    assert sync(QUIET_S - 5).found == {"unchanged": 1}
    assert sync(QUIET_S + 5).found == {"grown": 1}
    assert store.sessions.bodies("toy:s1") == {0: "one", 1: "two"}
    forbid_reading(toy, monkeypatch)
    assert sync(QUIET_S + 10).found == {"unchanged": 1}


def test_a_file_of_one_line_without_a_newline_is_a_session(
    store: Store, sync: Sync, file: Path
) -> None:
    file.write_bytes(FIRST[:-1])
    sync()
    assert store.sessions.bodies("toy:s1") == {}
    sync(QUIET_S + 5)
    assert store.sessions.bodies("toy:s1") == {0: "one"}


def test_a_file_from_the_future_is_read_to_its_end(store: Store, sync: Sync, file: Path) -> None:
    file.write_bytes(FIRST + LAST)
    os.utime(file, (time.time() + 1e8,) * 2)
    sync()
    assert store.sessions.bodies("toy:s1") == {0: "one", 1: "two"}


@pytest.mark.parametrize("rest", [LAST[:-3], b" \n \t", b"\0\0\0"], ids=["torn", "blank", "NUL"])
def test_what_is_no_whole_json_stays_unread_and_is_looked_at_once_more(
    store: Store, sync: Sync, file: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch, rest: bytes
) -> None:
    file.write_bytes(FIRST + rest)
    sync()
    assert sync(QUIET_S + 5).found == {"unchanged": 1}
    assert store.sessions.bodies("toy:s1") == {0: "one"}
    forbid_reading(toy, monkeypatch)
    assert sync(QUIET_S + 10).found == {"unchanged": 1}
    assert sync(QUIET_S * 100).found == {"unchanged": 1}


def test_a_file_that_was_read_to_its_end_is_not_opened_when_it_is_quiet(
    sync: Sync, file: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(FIRST + LAST + b"\n")
    sync()
    forbid_reading(toy, monkeypatch)
    assert sync(QUIET_S + 5).found == {"unchanged": 1}


@pytest.mark.parametrize(
    "after",
    [
        FIRST + LAST + b"\n",
        FIRST + LAST + b"\n" + line(id="c", up="b", text="three"),
        FIRST + LAST + b"\r\n" + line(id="c", up="b", text="three"),
        FIRST + LAST + b"\n" + line(id="c", up="b", text="three")[:-1],
        FIRST + LAST + line(id="c", up="b", text="three"),
        FIRST + LAST + b" \n" + line(id="c", up="b", text="three"),
        FIRST + line(id="b", up="a", text="two and a half") + line(id="c", up="b", text="three"),
        FIRST,
    ],
    ids=[
        "newline", "a line", "CRLF", "a line without newline", "glued", "blanks", "rewritten",
        "removed",
    ],
)  # fmt: skip
def test_what_is_written_later_gives_the_store_of_one_go(
    store: Store, config: Config, sync: Sync, file: Path, tmp_path: Path, after: bytes
) -> None:
    file.write_bytes(FIRST + LAST)
    sync(QUIET_S + 5)
    assert store.sessions.bodies("toy:s1") == {0: "one", 1: "two"}
    file.write_bytes(after)
    sync(QUIET_S * 3)
    assert contents(store) == at_once(config, tmp_path / "once.db")
    assert sync(QUIET_S * 4).found == {"unchanged": 1}


def test_another_last_line_leaves_nothing_of_the_one_that_was_read(
    store: Store, sync: Sync, file: Path
) -> None:
    """Only the number is another than in one go: none is given twice."""
    file.write_bytes(FIRST + LAST)
    sync(QUIET_S + 5)
    file.write_bytes(FIRST + line(id="c", up="a", text="three"))
    sync(QUIET_S * 3)
    events = store.sessions.events("toy:s1")
    assert [(event.native_id, event.is_gone) for event in events] == [("a", False), ("c", False)]
    assert events[1].parent_seq == 0
    assert list(store.sessions.bodies("toy:s1").values()) == ["one", "three"]


def test_a_number_that_goes_on_is_one_record(
    store: Store, config: Config, sync: Sync, file: Path, tmp_path: Path
) -> None:
    file.write_bytes(FIRST + b'{"alias": 1}\n12')
    sync(QUIET_S + 5)
    file.write_bytes(FIRST + b'{"alias": 1}\n123\n' + line(id="c", text="three"))
    sync(QUIET_S * 3)
    assert contents(store) == at_once(config, tmp_path / "once.db")


def test_a_rewrite_of_more_than_the_last_line_keeps_what_was_read(
    store: Store, sync: Sync, file: Path
) -> None:
    file.write_bytes(FIRST + LAST)
    sync(QUIET_S + 5)
    file.write_bytes(line(id="z", text="another") + LAST)
    assert sync(QUIET_S * 3).found == {"rewritten": 1}
    assert [(event.native_id, event.is_gone) for event in store.sessions.events("toy:s1")] == [
        ("a", True), ("b", False), ("z", False),
    ]  # fmt: skip
