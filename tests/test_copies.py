"""What several sessions have is stored once, where it happened, whatever the order in which their
files arrive."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from runlore import config as config_module
from runlore import doctor
from runlore.config import Config
from runlore.store import Filter, Store, open_store
from runlore.sync import pipeline, plan
from tests.test_law import contents
from tests.toy import Toy, line

HISTORY = [
    ("a", "look at the parser"),
    ("b", "it drops the last line"),
    ("c", "fix it"),
    ("d", "done"),
]


def original() -> list[bytes]:
    return [line(id=name, text=text, tokens=10) for name, text in HISTORY]


def fork(prefix: str, of: str = "") -> list[bytes]:
    """The first three of the history under new ids, each with what it is a copy of, and something
    of its own."""
    copies = [
        line(id=prefix + name, of=of + name, text=text, tokens=10) for name, text in HISTORY[:3]
    ]
    return [*copies, line(id=prefix + "own", text=f"another way, {prefix}", tokens=1)]


def resumed(prefix: str) -> list[bytes]:
    """The history as it is, and something of its own."""
    return [*original(), line(id=prefix + "own", text=f"and then, {prefix}", tokens=1)]


CASES = {
    "a fork": {"m": original(), "f": fork("x")},
    "two forks": {"m": original(), "f": fork("x"), "z": fork("y")},
    "a fork of a fork": {"m": original(), "f": fork("x"), "g": fork("y", of="x")},
    "forks of what is not there": {"f": fork("x"), "g": fork("y")},
    "a fork of a fork of what is not there": {"f": fork("x"), "g": fork("y", of="x")},
    "resumed": {"m": original(), "n": resumed("x"), "b": resumed("y")},
    "resumed and forked": {"m": original(), "n": resumed("x"), "f": fork("y")},
}


@pytest.fixture
def config(toy: Toy) -> Config:
    return config_module.load()


@pytest.fixture
def root(home: Path) -> Path:
    made = home / ".toy"
    made.mkdir()
    return made


@pytest.fixture
def store(config: Config) -> Iterator[Store]:
    made = open_store(config.store)
    yield made
    made.close()


@pytest.mark.parametrize("name", CASES)
def test_the_order_in_which_files_arrive_does_not_matter(
    name: str, config: Config, root: Path, tmp_path: Path
) -> None:
    files = CASES[name]
    results = []
    for number, order in enumerate(itertools.permutations(files)):
        store = open_store(str(tmp_path / f"{number}.db"))
        for stem in order:
            (root / f"{stem}.jsonl").write_bytes(b"".join(files[stem]))
            pipeline.sync(store, config)
        report = pipeline.sync(store, config)
        assert report.found == {"unchanged": len(files)}, "nothing is left to do"
        results.append(contents(store))
        assert doctor.examine(store, config, full=True).ok
        store.close()
        for file in root.iterdir():
            file.unlink()
    assert all(result == results[0] for result in results)
    spoken = [
        body for session in results[0]["sessions"].values() for body in session["bodies"].values()
    ]
    events = [event for session in results[0]["sessions"].values() for event in session["events"]]
    for _, text in HISTORY[:3]:
        kept = [
            event for event in events if event["summary"] == text and event.get("origin") is None
        ]
        assert len(kept) == 1, f"{text!r} is kept once"
        assert kept[0]["tokens"] == 10
    assert len(spoken) == len(events), "every copy can be read"


@pytest.mark.parametrize("name", CASES)
def test_a_first_sync_that_begins_with_the_newest_gives_the_same_store(
    name: str, config: Config, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "NEWEST", 1)
    for number, (stem, lines) in enumerate({"0": [], **CASES[name]}.items()):
        (root / f"{stem}.jsonl").write_bytes(b"".join(lines))
        os.utime(root / f"{stem}.jsonl", ns=(number, number))
    results = []
    for is_newest_first in (False, True):
        with closing(open_store(str(tmp_path / f"{is_newest_first}.db"))) as store:
            pipeline.sync(store, config, is_newest_first=is_newest_first)
            assert pipeline.sync(store, config).found.keys() == {"unchanged"}
            assert doctor.examine(store, config, full=True).ok
            results.append(contents(store))
    assert results[0] == results[1]


@pytest.mark.parametrize("order", [*itertools.permutations("bmn")])
def test_the_session_that_ends_first_has_what_others_begin_with(
    order: tuple[str, ...], store: Store, config: Config, root: Path
) -> None:
    files = {"m": original(), "n": resumed("x"), "b": [*resumed("x"), *resumed("y")[-1:]]}
    for stem in order:
        (root / f"{stem}.jsonl").write_bytes(b"".join(files[stem]))
        pipeline.sync(store, config)
    found = {}
    for one in store.sessions.select(Filter()):
        session = store.sessions.get(one.uid)
        assert session is not None
        found[one.uid] = (session.cost.turns, session.parent_uid, session.relation)
    assert found == {
        "toy:m": (4, None, None),
        "toy:n": (1, "toy:m", "fork"),
        "toy:b": (1, "toy:n", "fork"),
    }


def test_a_copy_is_found_when_its_original_comes_later(
    store: Store, config: Config, root: Path
) -> None:
    (root / "f.jsonl").write_bytes(b"".join(fork("x")))
    pipeline.sync(store, config)
    session = store.sessions.get("toy:f")
    assert session is not None
    assert session.cost.output_tokens == 31, (
        "what happened elsewhere is kept here while it is nowhere else"
    )
    (root / "m.jsonl").write_bytes(b"".join(original()))
    report = pipeline.sync(store, config)
    assert (report.found, report.sessions, report.new_sessions, report.events) == (
        {"new": 1, "unchanged": 1},
        1,
        1,
        4,
    )
    totals = {line.uid: line.output_tokens for line in store.sessions.select(Filter())}
    assert totals == {"toy:m": 40, "toy:f": 1}
    assert [event.origin for event in store.sessions.events("toy:f")] == [
        "toy:m#0",
        "toy:m#1",
        "toy:m#2",
        None,
    ]
    assert [event.seq for event in store.sessions.events("toy:f")] == [0, 1, 2, 3], "numbers stay"
    assert store.sessions.bodies("toy:f")[0] == "look at the parser"


def test_a_sync_killed_before_it_has_seen_to_a_copy_goes_on(
    store: Store, config: Config, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "f.jsonl").write_bytes(b"".join(fork("x")))
    pipeline.sync(store, config)
    (root / "m.jsonl").write_bytes(b"".join(original()))
    with monkeypatch.context() as patch:
        for step in ("rederive_copies", "rederive_marked"):
            patch.setattr(pipeline.SyncRun, step, lambda run, *_: None)
        pipeline.sync(store, config)
    assert pipeline.sync(store, config).found == {"outdated": 1, "unchanged": 1}
    assert [event.origin for event in store.sessions.events("toy:f")] == [
        "toy:m#0",
        "toy:m#1",
        "toy:m#2",
        None,
    ]


def test_a_copy_whose_file_is_gone_yields_to_its_original_too(
    store: Store, config: Config, root: Path
) -> None:
    (root / "f.jsonl").write_bytes(b"".join(fork("x")))
    pipeline.sync(store, config)
    (root / "f.jsonl").unlink()
    (root / "m.jsonl").write_bytes(b"".join(original()))
    pipeline.sync(store, config)
    assert [event.origin for event in store.sessions.events("toy:f")] == [
        "toy:m#0",
        "toy:m#1",
        "toy:m#2",
        None,
    ]


def test_what_cannot_be_derived_again_keeps_what_it_has(
    store: Store, config: Config, root: Path
) -> None:
    config = msgspec.structs.replace(config, raw="drop")
    (root / "f.jsonl").write_bytes(b"".join(fork("x")))
    pipeline.sync(store, config)
    (root / "f.jsonl").unlink()
    pipeline.sync(store, config)
    (root / "m.jsonl").write_bytes(b"".join(original()))
    pipeline.sync(store, config)
    assert [event.origin for event in store.sessions.events("toy:f")] == [None] * 4
    assert [event.origin for event in store.sessions.events("toy:m")] == [
        "toy:f#0",
        "toy:f#1",
        "toy:f#2",
        None,
    ]
