"""What one hostile or broken source may cost: itself, little memory, little time, and once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from runlore import config as config_module
from runlore.adapters import Normalized, Record, Source
from runlore.adapters.shared import fold, jsonl
from runlore.cli.commands.sync import summary
from runlore.config import Config
from runlore.doctor import examine
from runlore.store import Batch, Filter, Store, open_store
from runlore.sync import ingest, pipeline, prepare, workers
from tests.toy import Toy, line

forks = pytest.mark.skipif(sys.platform != "linux", reason="the made-up agent must be inherited")
Sync = Callable[..., pipeline.Report]


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
def sync(store: Store, config: Config, root: Path) -> Sync:
    return lambda **options: pipeline.sync(store, config, **options)


def write(root: Path, **texts: bytes) -> None:
    """Write files in this order of time."""
    for n, (name, data) in enumerate(texts.items()):
        (root / f"{name}.jsonl").write_bytes(data)
        os.utime(root / f"{name}.jsonl", ns=(n, n))


def good(name: str) -> bytes:
    return line(id=name, text=f"text of {name}")


def uids(store: Store) -> list[str]:
    return sorted(store.sessions.uids(Filter()))


@pytest.mark.parametrize("junk", [b"{}\n", b"\n", b"0\n", b"\0\n", b"not json\n"])
def test_a_file_of_tiny_lines_is_set_aside_and_the_others_are_stored(
    junk: bytes, store: Store, sync: Sync, root: Path
) -> None:
    write(root, s1=good("a"), s2=junk * 100_000, s3=good("b"))
    report = sync()
    [(path, reason)] = report.problems
    assert path == str(root / "s2.jsonl")
    assert reason.startswith("set aside by version 1 of its adapter: 20,000 records in ")
    assert report.found == {"new": 2, "set aside": 1}
    assert uids(store) == ["toy:s1", "toy:s3"]


def test_what_was_set_aside_is_read_again_when_it_or_its_adapter_has_changed(
    store: Store, sync: Sync, root: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, s1=good("a"), s2=b"{}\n" * 50_000)
    sync()
    assert sync().found == {"unchanged": 1, "set aside": 1}
    monkeypatch.setattr(toy, "version", 2)
    assert len(sync().problems) == 1
    assert sync().found == {"unchanged": 1, "set aside": 1}
    write(root, s2=good("b"))
    assert sync().problems == []
    assert uids(store) == ["toy:s1", "toy:s2"]


def test_what_came_before_the_junk_stays(store: Store, sync: Sync, root: Path) -> None:
    head = b"".join(line(id=str(n), text="x" * 9000) for n in range(1000))
    write(root, s1=head + b"{}\n" * 50_000)
    assert len(sync().problems) == 1
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert session.last_seq > 900
    assert sync().found == {"set aside": 1}


def test_a_part_has_so_many_records_at_most(
    store: Store, sync: Sync, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "MAX_BATCH_RECORDS", 10)
    sizes = []
    real = Toy.normalize

    def normalize(
        self: Toy, source: Source, records: Iterable[Record], carry: bytes | None
    ) -> Normalized:
        found = list(records)
        sizes.append(len(found))
        return real(self, source, found, carry)

    monkeypatch.setattr(Toy, "normalize", normalize)
    write(root, s1=b"".join(line(id=str(n), text="some text " * 9) for n in range(35)))
    assert sync().events == 35
    assert sizes == [10, 10, 10, 5]


def test_a_part_with_too_many_events_is_set_aside(
    home: Path, store: Store, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "MAX_BATCH_EVENTS", 50)
    folder = home / ".claude" / "projects" / "-work-app"
    folder.mkdir(parents=True)
    block = b'{"type":"text","text":"a"}'
    record = b'{"type":"user","uuid":"%d","sessionId":"s","message":{"role":"user","content":[%s]}}'
    lines = [record % (n, b",".join([block] * 30)) for n in range(5)]
    (folder / "s.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    report = pipeline.sync(store, config, agents=["claude"])
    [(_, reason)] = report.problems
    assert reason.endswith("more than 50 events at a time are no transcript")


def test_a_record_of_too_many_values_is_shortened_and_costs_no_other(
    home: Path, store: Store, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "MAX_VALUES", 1000)
    folder = home / ".claude" / "projects" / "-work-app"
    folder.mkdir(parents=True)
    record = b'{"type":"user","uuid":"%d","sessionId":"s","message":{"role":"user","content":%s}}'
    many = b"[" + b"{}," * 200_000 + b"{}]"
    commas = b'"' + b"a, b" * 200_000 + b'"'
    contents = [b'"before"', many, commas, b'"after"']
    (folder / "s.jsonl").write_bytes(
        b"".join(record % pair + b"\n" for pair in enumerate(contents))
    )
    report = pipeline.sync(store, config, agents=["claude"])
    assert report.problems == []
    assert report.skipped == {"too many values": 1}
    bodies = store.sessions.bodies("claude:s")
    assert [len(bodies[n]) for n in sorted(bodies)] == [6, jsonl.SHORTENED_BYTES, 800_000, 5]


@forks
@pytest.mark.parametrize("name", ["s1", "s4", "s8"])
def test_a_worker_that_dies_costs_the_source_it_died_of(
    name: str,
    store: Store,
    sync: Sync,
    root: Path,
    toy: Toy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(root, **{f"s{n}": good(str(n)) for n in range(9)})
    real, deaths = toy.normalize, root / "deaths"

    def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
        if source.path.endswith(f"{name}.jsonl"):
            with deaths.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return real(source, records, carry)

    monkeypatch.setattr(toy, "normalize", normalize)
    monkeypatch.setattr(workers, "start_method", lambda: "fork")
    report = sync(workers=2)
    [(path, reason)] = report.problems
    assert path == str(root / f"{name}.jsonl")
    assert reason.endswith(": the process that read it was killed")
    assert uids(store) == [f"toy:s{n}" for n in range(9) if f"s{n}" != name]
    tried = deaths.read_text()
    assert sync(workers=2).found == {"unchanged": 8, "set aside": 1}
    assert deaths.read_text() == tried, "it is not tried again"


@forks
@pytest.mark.parametrize("processes", [0, 2])
def test_a_source_for_which_the_memory_is_not_enough_is_set_aside(
    processes: int,
    store: Store,
    sync: Sync,
    root: Path,
    toy: Toy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(root, **{f"s{n}": good(str(n)) for n in range(3)})
    real = toy.normalize

    def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
        if source.path.endswith("s1.jsonl"):
            raise MemoryError
        return real(source, records, carry)

    monkeypatch.setattr(toy, "normalize", normalize)
    [(_, reason)] = sync(workers=processes).problems
    assert reason.endswith(": there is not enough memory to read it")
    assert uids(store) == ["toy:s0", "toy:s2"]
    assert sync().found == {"unchanged": 2, "set aside": 1}


def test_a_source_for_which_the_memory_is_not_enough_to_store_it_is_set_aside(
    store: Store, sync: Sync, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, **{f"s{n}": good(str(n)) for n in range(3)})
    real = ingest.Ingest.merge_calls

    def merge_calls(self: ingest.Ingest, batch: Batch) -> Batch:
        if batch.source.path.endswith("s1.jsonl"):
            raise MemoryError
        return real(self, batch)

    monkeypatch.setattr(ingest.Ingest, "merge_calls", merge_calls)
    [(_, reason)] = sync().problems
    assert reason.endswith(": it cannot be stored: MemoryError")
    assert uids(store) == ["toy:s0", "toy:s2"]


def test_what_is_set_aside_is_said(store: Store, config: Config, sync: Sync, root: Path) -> None:
    write(root, s1=good("a"), s2=b"{}\n" * 50_000)
    lines = list(summary(sync()))
    assert "sources: 1 new, 1 set aside" in lines[0]
    again = list(summary(sync()))
    assert again[0].startswith("nothing new in 2 sources")
    assert again[1] == "set aside: 1 source (`runlore doctor` says why)"
    notes = [note for check in examine(store, config).checks for note in check.notes]
    [told] = [note for note in notes if "set aside" in note]
    assert told.startswith(f"{root / 's2.jsonl'}: set aside by version 1 of its adapter: ")
