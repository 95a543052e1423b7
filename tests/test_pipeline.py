"""What a sync does with what it finds on disk. The agent is made up; see `toy`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

import tests.toy as toy_module
from runlore import config as config_module
from runlore.adapters import Facts, Normalized, Position, Record, Source
from runlore.config import Config, Exclude, ExtraRoot, Redact, SourceConfig
from runlore.errors import ReadError, StoreBusy, StoreError, StoreLost
from runlore.model import BLOCK
from runlore.store import Batch, CallFilter, Filter, Put, Store, open_store
from runlore.sync import ingest, pipeline, plan
from tests.ledgers import Paid
from tests.toy import Toy, line


@pytest.fixture
def config() -> Config:
    return config_module.load()


@pytest.fixture
def store(config: Config) -> Iterator[Store]:
    made = open_store(config.store)
    yield made
    made.close()


@pytest.fixture
def root(home: Path, toy: Toy) -> Path:
    made = home / ".toy"
    made.mkdir()
    return made


@pytest.fixture
def sync(store: Store, config: Config, root: Path) -> Callable[..., pipeline.Report]:
    return lambda **options: pipeline.sync(
        store, msgspec.structs.replace(config, **options.pop("config", {})), **options
    )


def append(file: Path, *lines: bytes) -> None:
    with file.open("ab") as out:
        out.writelines(lines)


def rows(store: Store) -> int:
    return int(store.db.connection.total_changes())  # type: ignore[attr-defined]


def test_a_second_sync_writes_no_rows(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a", text="one"))
    assert sync().found == {"new": 1}
    before = rows(store)
    assert sync().found == {"unchanged": 1}
    assert rows(store) == before


def test_only_what_is_new_is_read(sync: Callable[..., pipeline.Report], root: Path) -> None:
    append(root / "s1.jsonl", line(id="a", text="one" * 1000))
    sync()
    more = line(id="b", up="a", text="two")
    append(root / "s1.jsonl", more)
    report = sync()
    assert (report.found, report.size, report.events) == ({"grown": 1}, len(more), 1)


def test_a_line_still_being_written_is_read_when_it_is_whole(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    whole = line(id="b", text="two")
    append(root / "s1.jsonl", line(id="a", text="one"), whole[:9])
    sync()
    assert store.sessions.bodies("toy:s1") == {0: "one"}
    append(root / "s1.jsonl", whole[9:])
    sync()
    assert store.sessions.bodies("toy:s1") == {0: "one", 1: "two"}
    assert store.sources.skips() == []


def test_a_rewritten_file_is_compared_and_said(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a", text="one"), line(id="b", text="two"))
    sync()
    (root / "s1.jsonl").write_bytes(line(id="a", text="one") + line(id="c", text="three"))
    assert sync().found == {"rewritten": 1}
    assert [(e.native_id, e.is_gone) for e in store.sessions.events("toy:s1")] == [
        ("a", False),
        ("b", True),
        ("c", False),
    ]


def test_a_file_that_shrank_keeps_what_was_read(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a", text="one"), line(id="b", text="two"))
    sync()
    (root / "s1.jsonl").write_bytes(line(id="a", text="one"))
    assert sync().found == {"rewritten": 1}
    assert store.sessions.bodies("toy:s1") == {0: "one", 1: "two"}
    assert sync().found == {"unchanged": 1}


def test_a_moved_file_is_not_read_again(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(s="s1", id="a", text="one"))
    sync()
    (root / "elsewhere").mkdir()
    (root / "s1.jsonl").rename(root / "elsewhere" / "s1.jsonl")
    assert sync().found == {"moved": 1, "unchanged": 1}
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert session.source_path == str(root / "elsewhere" / "s1.jsonl")
    append(root / "elsewhere" / "s1.jsonl", line(s="s1", id="b", text="two"))
    assert sync().found == {"grown": 1}
    assert [e.seq for e in store.sessions.events("toy:s1")] == [0, 1]


def test_a_session_whose_source_is_gone_stays(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a", text="one"))
    sync()
    (root / "s1.jsonl").unlink()
    assert sync().found == {"missing": 1}
    assert sync().found == {}
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert session.source_missing_at is not None
    assert store.sessions.bodies("toy:s1") == {0: "one"}


def test_a_source_that_comes_back_is_no_longer_missing(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    file = root / "s1.jsonl"
    append(file, line(id="a", text="one"))
    sync()
    kept = file.rename(root / "s1.backup")
    sync()
    kept.rename(file)
    append(file, line(id="b", text="two"))
    sync()
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert (session.source_missing_at, session.events) == (None, 2)


def test_an_unreadable_file_is_a_problem_and_the_others_are_read(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    (root / "bad.jsonl").symlink_to(root / "nowhere.jsonl")
    (root / "dir.jsonl").mkdir()
    (root / "loop").symlink_to(root)
    append(root / "good.jsonl", line(id="a", text="one"))
    report = sync()
    assert (report.events, report.problems) == (1, [])


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything"
)
def test_a_file_without_permission_is_a_problem(
    sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a"))
    (root / "s1.jsonl").chmod(0)
    assert sync().problems == [(str(root / "s1.jsonl"), "permission denied")]


def test_a_read_that_fails_is_tried_again_the_next_time(
    store: Store,
    sync: Callable[..., pipeline.Report],
    root: Path,
    toy: Toy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append(root / "s1.jsonl", line(id="a", text="one"))

    def fail(source: object, since: object) -> Iterator[object]:
        raise ReadError("s1.jsonl", "permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(toy, "read", fail)
        assert sync().problems == [(str(root / "s1.jsonl"), "permission denied")]
    assert sync().events == 1


def test_an_adapter_that_fails_costs_its_source_and_not_the_sync(
    store: Store,
    sync: Callable[..., pipeline.Report],
    root: Path,
    toy: Toy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append(root / "s1.jsonl", line(id="a", text="poison"))
    append(root / "s2.jsonl", line(id="b", text="fine"))
    real = toy.normalize

    def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
        if source.path.endswith("s1.jsonl"):
            raise ZeroDivisionError("oops")
        return real(source, records, carry)

    monkeypatch.setattr(toy, "normalize", normalize)
    assert sync().problems == [
        (str(root / "s1.jsonl"), "the toy adapter failed: ZeroDivisionError: oops")
    ]
    assert store.sessions.bodies("toy:s2") == {0: "fine"}


def test_a_value_that_no_database_takes_costs_its_source_once(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    for n, text in enumerate(("before", "bad", "after")):
        append(
            root / f"s{n}.jsonl", line(id=text, text=text, tokens=1 << 62 if text == "bad" else 1)
        )
        append(
            root / f"s{n}.jsonl",
            line(id=text + "2", text=text, tokens=1 << 62 if text == "bad" else 1),
        )
        os.utime(root / f"s{n}.jsonl", ns=(n, n))
    assert [path for path, _ in sync().problems] == [str(root / "s1.jsonl")]
    assert sorted(store.sessions.uids(Filter())) == ["toy:s0", "toy:s2"]
    assert sync().found == {"unchanged": 2, "set aside": 1}


def test_sessions_of_an_older_adapter_are_derived_again(
    store: Store,
    sync: Callable[..., pipeline.Report],
    root: Path,
    toy: Toy,
) -> None:
    append(root / "s1.jsonl", line(id="a", text="one"))
    append(root / "s2.jsonl", line(id="b", text="two"))
    sync()
    (root / "s2.jsonl").unlink()
    toy.version, toy.shout = 2, True
    report = sync()
    assert report.found == {"outdated": 2, "missing": 1}
    assert store.sessions.bodies("toy:s1") == {0: "ONE"}
    assert store.sessions.bodies("toy:s2") == {0: "TWO"}, "the source is gone, its records are kept"
    assert sync().found == {"unchanged": 1}


def test_a_newer_adapter_can_read_what_was_stored_in_many_batches(
    store: Store,
    sync: Callable[..., pipeline.Report],
    root: Path,
    toy: Toy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runlore.sync.prepare.BATCH_BYTES", 100)
    append(
        root / "s1.jsonl", *(line(id=f"n{n}", up=f"n{n - 1}", text=f"word{n}") for n in range(20))
    )
    sync()
    assert [e.parent_seq for e in store.sessions.events("toy:s1")] == [None, *range(19)]
    toy.version, toy.twice = 2, True
    sync()
    events = store.sessions.events("toy:s1")
    assert len(events) == 40
    assert {e.native_id: e.seq for e in events if e.seq < BLOCK} == {f"n{n}": n for n in range(20)}


@pytest.mark.parametrize("is_there", [True, False], ids=["read again", "from the kept records"])
def test_a_newer_adapter_keeps_what_is_gone_from_its_source(
    store: Store,
    sync: Callable[..., pipeline.Report],
    root: Path,
    toy: Toy,
    monkeypatch: pytest.MonkeyPatch,
    is_there: bool,
) -> None:
    monkeypatch.setattr("runlore.sync.prepare.BATCH_BYTES", 100)
    append(root / "s1.jsonl", *(line(id=f"n{n}", text=f"old{n}", tokens=1) for n in range(9)))
    sync()
    (root / "s1.jsonl").write_bytes(
        b"".join(line(id=f"n{n}", text=f"old{n}", tokens=1) for n in range(6, 12))
    )
    sync()
    if not is_there:
        (root / "s1.jsonl").unlink()
    toy.version, toy.shout = 2, True
    assert sync().found["outdated"] == 1
    events = store.sessions.events("toy:s1")
    assert {e.native_id: e.is_gone for e in events} == {f"n{n}": n < 6 for n in range(12)}
    bodies = store.sessions.bodies("toy:s1")
    assert sorted(bodies.values()) == sorted(
        [f"old{n}" for n in range(6)] + [f"OLD{n}" for n in range(6, 12)]
    )
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert (session.events, session.cost.output_tokens) == (12, 12)


def test_a_file_rewritten_before_a_newer_adapter_reads_it_loses_nothing(
    store: Store, sync: Callable[..., pipeline.Report], root: Path, toy: Toy
) -> None:
    append(root / "s1.jsonl", line(id="a", text="one"), line(id="b", text="two"))
    sync()
    (root / "s1.jsonl").write_bytes(line(id="c", text="three"))
    toy.version = 2
    sync()
    assert sorted(store.sessions.bodies("toy:s1").values()) == ["one", "three", "two"]


def test_a_read_that_fails_halfway_leaves_what_was_there(
    store: Store,
    sync: Callable[..., pipeline.Report],
    root: Path,
    toy: Toy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runlore.sync.prepare.BATCH_BYTES", 100)
    append(root / "s1.jsonl", *(line(id=f"n{n}", text=f"word{n}") for n in range(20)))
    append(root / "s2.jsonl", line(id="x", text="fine"))
    sync()
    toy.version, toy.shout = 2, True
    real, reads = toy.read, []

    def read(source: Source, since: Position | None) -> Iterator[Record]:
        reads.append(source.path)
        if source.path.endswith("s1.jsonl") and len(reads) > 4:
            raise ReadError(source.path, "input/output error")
        return real(source, since)

    monkeypatch.setattr(toy, "read", read)
    assert sync().problems == [(str(root / "s1.jsonl"), "input/output error")]
    assert list(store.sessions.bodies("toy:s1").values()) == [f"word{n}" for n in range(20)]
    assert store.sessions.bodies("toy:s2") == {0: "FINE"}


def test_a_file_replaced_between_two_parts_is_read_again_the_next_time(
    store: Store,
    sync: Callable[..., pipeline.Report],
    root: Path,
    toy: Toy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runlore.sync.prepare.BATCH_BYTES", 100)
    file = root / "s1.jsonl"
    append(file, *(line(id=f"n{n}", text=f"word{n}") for n in range(20)))
    real, reads = toy.read, []

    def read(source: Source, since: Position | None) -> Iterator[Record]:
        reads.append(source.path)
        found = list(real(source, since))
        if len(reads) == 2:
            file.write_bytes(b"".join(line(id=f"m{n}", text=f"other{n}") for n in range(30)))
        return iter(found)

    monkeypatch.setattr(toy, "read", read)
    assert "replaced while it was read" in sync().problems[0][1]
    sync()
    assert {f"other{n}" for n in range(30)} <= set(store.sessions.bodies("toy:s1").values())


@pytest.mark.parametrize("version", [1, 2], ids=["rewritten", "outdated"])
def test_a_file_that_says_it_is_of_1970_is_read_anew_to_its_end(
    store: Store,
    sync: Callable[..., pipeline.Report],
    root: Path,
    toy: Toy,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
) -> None:
    monkeypatch.setattr("runlore.sync.prepare.BATCH_BYTES", 100)
    file = root / "s1.jsonl"
    file.write_bytes(b"".join(line(id=f"n{n}", text=f"word{n}") for n in range(20)))
    sync()
    if version == 1:
        file.write_bytes(b"".join(line(id=f"m{n}", text=f"word{n}") for n in range(30)))
    toy.version, toy.shout = version, True
    os.utime(file, (0, 0))  # As archives leave them that are to be the same whenever they are made.
    sync()
    last = 29 if version == 1 else 19
    assert f"WORD{last}" in store.sessions.bodies("toy:s1").values()


@pytest.mark.parametrize(
    "size", [1, 22, 1 << 20], ids=["a line at a time", "two of them, which is all", "whole"]
)
@pytest.mark.parametrize(
    "files",
    [
        {"s1": [line(id="a"), line(id="b")], "s0": [line(id="a")]},
        {"s1": [line(id="a"), line(id="b", of="b")], "s0": [line(id="b"), line(id="a", of="a")]},
        {"s1": [line(id="a"), line(id="b", of="c"), line(id="c")], "s2": [line(id="c", of="a")]},
        {
            "s0": [line(id="a", of="b"), line(id="c"), line(id="d")],
            "s1": [line(id="c", of="d"), line(id="b"), line(id="a")],
        },
    ],
    ids=["the later has it", "from each other", "from oneself", "as two of the other's"],
)
def test_sessions_with_copies_come_to_rest_with_the_first_sync(
    store: Store,
    sync: Callable[..., pipeline.Report],
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, list[bytes]],
    size: int,
) -> None:
    monkeypatch.setattr("runlore.sync.prepare.BATCH_BYTES", size)
    for number, (name, lines) in enumerate(files.items(), start=1):
        (root / f"{name}.jsonl").write_bytes(b"".join(lines))
        os.utime(root / f"{name}.jsonl", (number, number))

    def times() -> dict[str, str | None]:
        return {session.uid: session.ingested_at for session in store.sessions.select(Filter())}

    sync()
    first = times()
    assert sync().found == {"unchanged": 2}
    assert times() == first


def test_a_copy_of_what_its_own_session_has_is_the_same_event_in_parts_of_any_size(
    config: Config, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(
        root / "s1.jsonl",
        line(id="a"),
        line(id="b", of="a"),
        line(id="c", of="d"),
        line(id="d"),
        line(id="e", up="d"),
    )
    told = []
    for size in (1, 1 << 20):
        monkeypatch.setattr("runlore.sync.prepare.BATCH_BYTES", size)
        with closing(open_store(str(tmp_path / f"{size}.db"))) as store:
            pipeline.sync(store, config)
            told.append(
                [
                    (event.native_id, event.seq, event.parent_seq)
                    for event in store.sessions.events("toy:s1")
                ]
            )
    assert told[0] == told[1] == [("a", 0, None), ("c", 2, None), ("e", 4, 2)]


def test_an_event_that_comes_back_is_no_longer_gone(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    whole = line(id="a", text="one") + line(id="b", text="two")
    (root / "s1.jsonl").write_bytes(whole)
    sync()
    (root / "s1.jsonl").write_bytes(line(id="b", text="two"))
    sync()
    assert [e.is_gone for e in store.sessions.events("toy:s1")] == [True, False]
    assert [store.sessions.record_of("toy:s1", seq) for seq in (0, 1)] == [
        None,
        (str(root / "s1.jsonl"), 0),
    ]
    (root / "s1.jsonl").write_bytes(whole)
    sync()
    assert [e.is_gone for e in store.sessions.events("toy:s1")] == [False, False]
    assert store.sessions.record_of("toy:s1", 1) == (str(root / "s1.jsonl"), 1)


@pytest.mark.parametrize("left", [line(id="a", text="one"), b""], ids=["shorter", "empty"])
def test_an_event_that_comes_back_to_a_file_that_shrank_is_no_longer_gone(
    store: Store, sync: Callable[..., pipeline.Report], root: Path, left: bytes
) -> None:
    """As when a sync comes while an agent writes its file anew."""
    append(
        root / "s1.jsonl",
        line(id="a", text="one"),
        line(id="b", text="two"),
        line(id="c", text="three"),
    )
    sync()
    (root / "s1.jsonl").write_bytes(left)
    sync()
    assert [e.is_gone for e in store.sessions.events("toy:s1")] == [not left, True, True]
    append(root / "s1.jsonl", line(id="x", text="new"), line(id="c", text="three"))
    sync()
    assert [(e.native_id, e.is_gone) for e in store.sessions.events("toy:s1")] == [
        ("a", not left),
        ("b", True),
        ("c", False),
        ("x", False),
    ]
    assert store.sessions.record_of("toy:s1", 2) == (str(root / "s1.jsonl"), 2 if left else 1)


def test_a_file_that_shrank_and_was_derived_again_can_grow(
    store: Store, sync: Callable[..., pipeline.Report], root: Path, toy: Toy
) -> None:
    append(
        root / "s1.jsonl",
        line(id="a", text="one"),
        line(id="b", text="two"),
        line(id="c", text="three"),
    )
    sync()
    (root / "s1.jsonl").write_bytes(line(id="a", text="one"))
    sync()
    toy.version = 2
    sync()
    append(root / "s1.jsonl", line(id="d", text="four"), line(id="e", text="five"))
    assert sync().found == {"grown": 1}
    assert [(e.native_id, e.is_gone) for e in store.sessions.events("toy:s1")] == [
        ("a", False), ("b", True), ("c", True), ("d", False), ("e", False),
    ]  # fmt: skip
    assert list(store.sessions.bodies("toy:s1").values()) == ["one", "two", "three", "four", "five"]


def test_sources_that_were_not_looked_for_are_not_missing(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a"))
    sync()
    assert sync(config={"sources": {"toy": SourceConfig(enabled=False)}}).found == {}
    assert sync(config={"sources": {"toy": SourceConfig(roots=["/nowhere"])}}).found == {}
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert session.source_missing_at is None


def test_a_root_that_was_away_for_a_while_is_back(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a"))
    sync()
    root.rename(root.with_name("unmounted"))
    assert sync().found == {"missing": 1}
    root.with_name("unmounted").rename(root)
    assert sync().found == {"back": 1, "unchanged": 1}
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert session.source_missing_at is None


def test_newer_rules_reach_a_source_that_grew_in_the_same_sync(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a", text="ticket ACME-12345678 is open"))
    sync()
    append(root / "s1.jsonl", line(id="b", text="more"))
    sync(config={"redact": Redact(rules=[{"name": "acme", "pattern": "ACME-[0-9]{8}"}])})
    assert "ACME-12345678" not in str(store.sessions.bodies("toy:s1")) + str(
        list(store.sources.native_records(str(root / "s1.jsonl")))
    )
    held = b"".join(file.read_bytes() for file in Path(store.url).parent.glob("runlore.db*"))
    assert b"12345678" not in held, "also not in what the file no longer uses"


def test_a_forgotten_file_is_not_read_again(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a", text="private"))
    sync()
    store.retention.forget(["toy:s1"], datetime.now(UTC))
    append(root / "s1.jsonl", line(title="also private"), line(id="b", text="private too"))
    assert sync().found == {"unchanged": 1}
    assert (
        store.sessions.select(Filter()),
        list(store.sources.native_records(str(root / "s1.jsonl"))),
    ) == ([], [])


def test_two_agents_may_share_a_folder(
    store: Store, config: Config, root: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runlore import adapters

    twin = Toy()
    twin.name = "twin"
    monkeypatch.setattr(adapters, "names", lambda: ("toy", "twin"))
    monkeypatch.setattr(adapters, "get", lambda name: {"toy": toy, "twin": twin}[name])
    append(root / "s1.jsonl", line(id="a"))
    assert pipeline.sync(store, config).found == {"new": 2}
    assert sorted(store.sessions.uids(Filter())) == ["toy:s1", "twin:s1"]
    assert pipeline.sync(store, config).found == {"unchanged": 2}


def test_a_broken_adapter_is_a_problem_and_the_others_are_read(
    store: Store, config: Config, root: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runlore import adapters
    from runlore.errors import ConfigError

    def get(name: str) -> Toy:
        if name == "bad":
            raise ConfigError("adapter 'bad' cannot be loaded")
        return toy

    monkeypatch.setattr(adapters, "names", lambda: ("bad", "toy"))
    monkeypatch.setattr(adapters, "get", get)
    append(root / "s1.jsonl", line(id="a"))
    report = pipeline.sync(store, config)
    assert (report.found, report.problems) == (
        {"new": 1},
        [("bad", "adapter 'bad' cannot be loaded")],
    )


def test_excluded_folders_and_repositories_are_not_stored(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a", text="private"))
    append(root / "s2.jsonl", line(id="b", text="public"))
    rules = Exclude(paths=["/work/s1"])
    assert sync(config={"exclude": rules}).excluded == 1
    assert [s.uid for s in store.sessions.select(Filter())] == ["toy:s2"]
    assert list(store.sources.native_records(str(root / "s1.jsonl"))) == []
    assert not store.index.postings("private")
    assert sync(config={"exclude": rules}).found == {"unchanged": 2}
    assert sync(config={"exclude": Exclude(repos=["s2"])}).events == 1, (
        "with other rules it is looked at again"
    )
    assert store.sessions.bodies("toy:s1") == {0: "private"}


def test_domains_that_are_configured_later_reach_what_is_stored(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    for name in ("s1", "s2"):
        append(root / f"{name}.jsonl", line(id=name))
    told = []
    for domains in ({}, {"s1": "mine"}, {"s*": "ours"}):
        assert not sync(config={"domains": domains}).problems
        told.append(
            [
                session.domain
                for session in sorted(store.sessions.select(Filter()), key=lambda one: one.uid)
            ]
        )
    assert told == [[None, None], ["mine", None], ["ours", "ours"]]


def test_configured_roots_replace_the_agents_own_and_others_are_added_with_their_machine(
    store: Store, sync: Callable[..., pipeline.Report], root: Path, tmp_path: Path
) -> None:
    append(root / "s1.jsonl", line(id="a"))
    for name in ("mine", "laptop"):
        (tmp_path / name).mkdir()
        append(tmp_path / name / f"{name}.jsonl", line(id=name))
    also = [ExtraRoot(path=str(tmp_path / "laptop"), machine="laptop")]
    sync(config={"sources": {"toy": SourceConfig(roots=[str(tmp_path / "mine")], also=also)}})
    assert {(s.uid, s.machine) for s in store.sessions.select(Filter())} == {
        ("toy:mine", None),
        ("toy:laptop", "laptop"),
    }


def test_a_disabled_agent_is_left_alone_unless_it_is_asked_for(
    sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a"))
    off = {"sources": {"toy": SourceConfig(enabled=False)}}
    assert sync(config=dict(off)).found == {}
    assert sync(config=dict(off), agents=["toy"]).found == {"new": 1}


def test_a_dry_run_says_what_it_would_do_and_writes_nothing(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a"))
    before = rows(store)
    assert sync(dry_run=True).found == {"new": 1}
    assert rows(store) == before


def test_a_second_sync_leaves_with_a_message(
    store: Store, sync: Callable[..., pipeline.Report], config: Config, root: Path
) -> None:
    other = open_store(config.store)
    with other.sync_lock(), pytest.raises(StoreBusy, match="another sync is running"):
        sync()
    other.close()


forks = pytest.mark.skipif(
    sys.platform != "linux", reason="a made-up adapter reaches worker processes only through fork"
)


class Interrupted:
    """A progress that ends the sync as Ctrl-C does, once so many files are stored."""

    def __init__(self, files: int) -> None:
        self.left = files

    def start(self, total: int, size_bytes: int, what: str = "files") -> None: ...

    def advance(self, count: int, size_bytes: int) -> None:
        self.left -= count
        if self.left < 0:
            raise KeyboardInterrupt

    def close(self) -> None: ...


def test_the_newest_sources_are_stored_before_all_others_for_someone_who_waits(
    store: Store, config: Config, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "NEWEST", 2)
    for n in range(9):
        append(root / f"s{n}.jsonl", line(id=f"{n}", text=f"text {n}"))
        os.utime(root / f"s{n}.jsonl", ns=(n, n))
    with pytest.raises(KeyboardInterrupt):
        pipeline.sync(store, config, progress=Interrupted(2), is_newest_first=True)
    assert sorted(store.sessions.uids(Filter())) == ["toy:s7", "toy:s8"]
    report = pipeline.sync(store, config, is_newest_first=True)
    assert (report.new_sessions, report.found) == (7, {"new": 7, "unchanged": 2})


@forks
def test_workers_make_the_same_store_as_one_process(
    store: Store, config: Config, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        append(
            root / f"s{n}.jsonl",
            *(line(id=f"{n % 7}-{k}", text=f"text {n % 7} {k}" * 50) for k in range(40)),
        )
        os.utime(root / f"s{n}.jsonl", ns=(n, n))
    pipeline.sync(store, config, workers=0)
    monkeypatch.setattr(ingest, "MIN_BYTES_FOR_WORKERS", 0)
    with closing(open_store(str(tmp_path / "other.db"))) as other:
        pipeline.sync(other, config)
        for n in range(30):
            uid = f"toy:s{n}"
            assert (store.sessions.events(uid), store.sessions.bodies(uid)) == (
                other.sessions.events(uid),
                other.sessions.bodies(uid),
            )


def test_no_workers_are_started_where_nothing_is_new(
    store: Store, config: Config, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(root / "s1.jsonl", line(id="a", text="one"))
    pipeline.sync(store, config, workers=0)
    monkeypatch.setattr(
        ingest, "start_workers", lambda *_: pytest.fail("there is nothing to do for them")
    )
    assert pipeline.sync(store, config, workers=2).found == {"unchanged": 1}


def test_what_cannot_be_looked_at_is_a_problem_of_each_sync(
    store: Store, config: Config, root: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(root / "s1.jsonl", line(id="a", text="one"))
    discover = toy.discover

    def refused(root: Path) -> Iterator[Source]:
        yield from discover(root)
        toy.refused = [ReadError("/somewhere", "permission denied")]

    monkeypatch.setattr(toy, "discover", refused)
    for found in ({"new": 1}, {"unchanged": 1}):
        report = pipeline.sync(store, config)
        assert (report.found, report.problems) == (found, [("/somewhere", "permission denied")])


@forks
def test_a_store_that_is_full_takes_nothing_of_what_workers_are_at(
    store: Store, config: Config, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        append(root / f"s{n}.jsonl", line(id=f"{n}", text=f"text {n}"))
    monkeypatch.setattr(ingest.Ingest, "is_full", lambda *_: True)
    pipeline.sync(store, config, workers=2)
    assert store.sessions.count(Filter(parents_only=False)) == 0


@forks
@pytest.mark.parametrize("failing", [1, 7, 25])
def test_a_store_that_goes_away_costs_the_workers_and_nothing_else(
    failing: int, store: Store, config: Config, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        append(root / f"s{n}.jsonl", *(line(id=f"{n}-{k}", text=f"text {k}") for k in range(5)))
    real, count = store.ingest.put, 0

    def put(batch: Batch) -> Put:
        nonlocal count
        count += 1
        if count == failing:
            raise StoreLost("it went away")
        return real(batch)

    monkeypatch.setattr(store.ingest, "put", put)
    pipeline.sync(store, config, workers=2)
    assert [len(store.sessions.events(f"toy:s{n}")) for n in range(30)] == [5] * 30


def test_secrets_are_out_before_anything_is_stored(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    append(
        root / "s1.jsonl", line(id="a", text=f"use {secret} please"), line(title=f"about {secret}")
    )
    report = sync()
    assert sum(report.redacted.values()) >= 1
    held = (
        str(store.sessions.get("toy:s1"))
        + str(store.sessions.events("toy:s1"))
        + str(store.sessions.bodies("toy:s1"))
    )
    held += str(list(store.sources.native_records(str(root / "s1.jsonl"))))
    assert secret not in held
    assert "[redacted:" in held
    database = Path(store.url)
    assert all(
        secret.encode() not in file.read_bytes()
        for file in database.parent.glob(database.name + "*")
    )


def test_a_secret_in_the_place_of_a_model_is_in_no_ledger(
    store: Store, sync: Callable[..., pipeline.Report], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid = Paid()
    monkeypatch.setattr("runlore.adapters.get", lambda _: paid)
    secrets = [f"ghp_{letter}1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8" for letter in "ab"]
    # One of the two counts, the other is its copy.
    append(
        root / "s1.jsonl",
        *(
            line(id=f"n{n}", msg="m", tokens=n + 1, model=secret)
            for n, secret in enumerate(secrets)
        ),
    )
    append(root / "s2.jsonl", line(id="z", tokens=1, model="acme-12345678"))
    sync()
    sync(config={"redact": Redact(rules=[{"name": "acme", "pattern": "acme-[0-9]{8}"}])})
    assert sorted(str(one.keys[0])[:14] for one in store.ledger.sum(["model"], CallFilter())) == [
        "[redacted:acme",
        "[redacted:gith",
    ]
    assert store.maintenance.wrong_rollups() == []
    held = b"".join(
        file.read_bytes() for file in Path(store.url).parent.glob(Path(store.url).name + "*")
    )
    assert not [word for word in (*secrets, "acme-12345678") if word.encode() in held]


def test_a_key_that_a_change_takes_apart_is_out_too(
    store: Store, config: Config, tmp_path: Path
) -> None:
    lines = [
        f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{n}BKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
        for n in range(30, 60)
    ]
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----", ""])
    change = {
        "file_path": "/r/key.pem",
        "old_string": key,
        "new_string": key.replace(lines[15], "changed"),
    }
    edit = {"type": "tool_use", "id": "t1", "name": "Edit", "input": change}
    record = {
        "type": "assistant", "uuid": "5f1c3b1e-0000-4000-8000-000000000001",
        "sessionId": "5f1c3b1e-0000-4000-8000-00000000000a",
        "timestamp": "2026-01-02T03:04:05Z", "message": {"role": "assistant", "content": [edit]},
    }  # fmt: skip
    file = tmp_path / "claude/projects/-r/5f1c3b1e-0000-4000-8000-00000000000a.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(msgspec.json.encode(record) + b"\n")
    pipeline.sync(store, config, agents=["claude"], roots=[str(tmp_path / "claude")])
    [session] = store.sessions.select(Filter())
    [event] = store.sessions.events(session.uid)
    body = str(store.sessions.bodies(session.uid))
    assert event.kind == "edit"
    assert "/r/key.pem" in body
    assert not [line for line in lines if line in body]


def test_rules_that_are_added_later_are_run_over_what_is_stored(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a", text="ticket ACME-12345678 is open"))
    sync()
    assert store.index.postings("12345678")
    sync(config={"redact": Redact(rules=[{"name": "acme", "pattern": "ACME-[0-9]{8}"}])})
    assert "ACME-12345678" not in store.sessions.bodies("toy:s1")[0]
    assert not store.index.postings("12345678")


def test_what_redaction_was_off_for_is_cleaned_when_it_is_on(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    append(root / "s1.jsonl", line(id="a", text=f"use {secret} please"))
    sync(config={"redact": Redact(enabled=False)})
    assert secret in store.sessions.bodies("toy:s1")[0]
    sync()
    assert secret not in store.sessions.bodies("toy:s1")[0]


def test_the_native_records_can_be_left_out(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a"))
    sync(config={"raw": "drop"})
    assert list(store.sources.native_records(str(root / "s1.jsonl"))) == []


def test_a_full_disk_is_said_and_what_was_kept_is_safe(
    store: Store, sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a", text="one"))
    sync()
    pages = store.db.connection.pragma("page_count")  # type: ignore[attr-defined]
    store.db.connection.pragma("max_page_count", pages + 1)  # type: ignore[attr-defined]
    append(root / "s2.jsonl", *(line(id=f"n{n}", text=os.urandom(3000).hex()) for n in range(200)))
    with pytest.raises(StoreError, match="the disk is full"):
        sync()
    assert store.sessions.bodies("toy:s1") == {0: "one"}
    assert store.sessions.get("toy:s2") is None
    store.db.connection.pragma("max_page_count", 1 << 30)  # type: ignore[attr-defined]
    assert sync().events == 200


KILLED = """
import sys
sys.path[:0] = {path!r}
from runlore import adapters, config
from runlore.sync import ingest, pipeline, prepare
from runlore.store import open_store
from tests.toy import Toy
made = Toy()
adapters.names, adapters.get = (lambda: ("toy",)), (lambda name: made)
prepare.BATCH_BYTES, ingest.COMMIT_BYTES = 2000, 6000
found = config.load()
pipeline.sync(open_store(found.store), found, workers={workers})
"""


def test_a_sync_killed_again_and_again_ends_in_the_same_store(
    store: Store, config: Config, root: Path, tmp_path: Path, loops: Callable[[int], int]
) -> None:
    for n in range(12):
        append(
            root / f"s{n}.jsonl",
            *(
                line(id=f"{n}-{k}", up=f"{n}-{k - 1}", text=f"w{k} " * 40, tokens=k)
                for k in range(60)
            ),
        )
        os.utime(root / f"s{n}.jsonl", ns=(n, n))
    kills = 0
    began = time.monotonic()
    while kills < loops(50):
        script = KILLED.format(
            path=[p for p in sys.path if p],
            workers=2 if kills % 2 and sys.platform == "linux" else 0,
        )
        process = subprocess.Popen([sys.executable, "-c", script])
        delay = 0.08 + (kills * 37 % 100) / 400
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        kills += 1
        assert time.monotonic() - began < 600
    pipeline.sync(store, config)
    undisturbed = open_store(str(tmp_path / "undisturbed.db"))
    pipeline.sync(undisturbed, config)
    for n in range(12):
        uid = f"toy:s{n}"
        assert store.sessions.bodies(uid) == undisturbed.sessions.bodies(uid)
        assert [e.to_dict() for e in store.sessions.events(uid)] == [
            e.to_dict() for e in undisturbed.sessions.events(uid)
        ]
        mine, theirs = store.sessions.get(uid), undisturbed.sessions.get(uid)
        assert mine is not None
        assert theirs is not None
        assert (mine.cost, mine.content_hash, mine.events) == (
            theirs.cost,
            theirs.content_hash,
            theirs.events,
        )
    assert store.overview.stats()["segments"] == undisturbed.overview.stats()["segments"]
    undisturbed.close()


# ── what is there and cannot be looked at ─────────────────────────────────────────────────────────
def test_what_lies_in_a_folder_that_cannot_be_read_is_not_called_gone(
    store: Store, sync: Callable[..., pipeline.Report], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "shut").mkdir()
    append(root / "shut/s1.jsonl", line(s="s1", id="a", text="one"))
    append(root / "s2.jsonl", line(s="s2", id="b", text="two"))
    sync()
    plain = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", path)
        return plain(path)

    monkeypatch.setattr("os.scandir", scandir)
    report = sync()
    assert (report.found, report.problems) == (
        {"unchanged": 1},
        [(str(root / "shut"), "permission denied")],
    )
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert session.source_missing_at is None
    (root / "s2.jsonl").unlink()
    assert sync().found == {"missing": 1}


def test_a_source_that_cannot_be_read_is_not_new_every_time(
    sync: Callable[..., pipeline.Report], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(root / "s1.jsonl", line(id="a", text="one"))

    def refuse(self: Toy, source: Source, since: Position | None) -> Iterator[Record]:
        raise ReadError(source.path, "permission denied")
        yield

    with monkeypatch.context() as patch:
        patch.setattr(Toy, "read", refuse)
        assert [sync().found for _ in range(2)] == [{"unreadable": 1}] * 2
    assert sync().found == {"new": 1}


def test_a_file_that_was_only_touched_has_not_grown(
    sync: Callable[..., pipeline.Report], root: Path
) -> None:
    append(root / "s1.jsonl", line(id="a", text="one"))
    sync()
    os.utime(root / "s1.jsonl", (1, 1))
    assert sync().found == {"unchanged": 1}


def test_subagents_are_counted_apart(
    sync: Callable[..., pipeline.Report], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = Facts
    monkeypatch.setattr(
        toy_module,
        "Facts",
        lambda **told: facts(
            **told,
            relation="subagent" if "/" in told["native_session_id"] else None,
            parent_uid="toy:s1" if "/" in told["native_session_id"] else None,
        ),
    )
    append(
        root / "s1.jsonl",
        line(s="s1", id="a"),
        line(s="s1/agent-1", id="b"),
        line(s="s1/agent-2", id="c"),
    )
    report = sync()
    assert (report.sessions, report.subagents) == (3, 2)
