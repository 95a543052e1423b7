"""The law, through a whole sync: cut the input anywhere, also in the middle of a line, and the
store is the same."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from runlore import adapters, config
from runlore.store import Filter, Resume, Store, open_store
from runlore.sync import pipeline, prepare

FIXTURES = Path(__file__).parent / "adapters" / "fixtures"
CASES = sorted(case for case in FIXTURES.glob("*/*") if (case / "root").is_dir())


def contents(store: Store) -> dict[str, Any]:
    """All that a store says of its sessions, without when it was told."""
    found: dict[str, Any] = {}
    for line in store.sessions.select(Filter(parents_only=False)):
        session = store.sessions.get(line.uid)
        assert session is not None
        plain = session.to_dict()
        for name in ("discovered_at", "ingested_at", "analyzed_at"):
            del plain[name]
        events = [event.to_dict() for event in store.sessions.events(line.uid)]
        # The segment's id holds the session's number, which follows from the order of arrival.
        for event in events:
            event["payload_ref"] = event["payload_ref"] and event["payload_ref"].partition(":")[2]
        found[line.uid] = {
            "session": plain,
            "events": events,
            "bodies": store.sessions.bodies(line.uid),
        }
    skips = [(Path(path).name, offset, reason) for path, offset, reason in store.sources.skips()]
    return {"sessions": found, "skips": skips}


def grow(
    source: Path,
    target: Path,
    pieces: int,
    rng: random.Random,
    after: Callable[[], object],
    now: int,
    *,
    before_newlines: bool = False,
) -> None:
    """Writes a copy of the files below `source`, one after another, in so many pieces each: cut
    anywhere, or just before a newline. A file that grows was written at `now`."""
    shutil.copytree(source, target)
    files = sorted(target.rglob("*.jsonl"))
    whole = {file: file.read_bytes() for file in files}
    for number, file in enumerate(files):
        file.write_bytes(b"")
        os.utime(file, ns=(now + number, now + number))
    for number, (file, data) in enumerate(whole.items()):
        places: Sequence[int] = range(len(data) + 1)
        if before_newlines:
            places = [at for at in places if data[at : at + 1] == b"\n"]
        cuts = sorted(rng.choice(places) for _ in range(pieces - 1)) if data and places else []
        for first, last in zip([0, *cuts], [*cuts, len(data)], strict=True):
            with file.open("ab") as out:
                out.write(data[first:last])
            os.utime(file, ns=(now + number, now + last))
            after()
        os.utime(file, ns=(now + number, now + number))
    after()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_a_source_read_in_pieces_is_stored_as_if_read_at_once(
    case: Path, tmp_path: Path, loops: Callable[[int], int]
) -> None:
    agent, root, now = case.parent.name, tmp_path / "root", time.time_ns()
    settings = config.load()

    def sync(url: str) -> Store:
        store = open_store(url)
        pipeline.sync(store, settings, agents=[agent], roots=[str(root)])
        return store

    def many(url: str) -> None:
        sync(url).close()

    grow(case / "root", root, 1, random.Random(0), lambda: None, now)
    at_once = contents(sync(str(tmp_path / "once.db")))
    assert at_once["sessions"], "a fixture has something to store"
    for seed in range(loops(10)):
        shutil.rmtree(root)
        url = str(tmp_path / f"pieces{seed}.db")
        grow(case / "root", root, 2 + seed % 9, random.Random(seed), lambda url=url: many(url), now)  # type: ignore[misc]
        assert contents(open_store(url)) == at_once


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_a_last_line_read_without_its_newline_is_stored_as_if_read_at_once(
    case: Path, tmp_path: Path, loops: Callable[[int], int]
) -> None:
    """Every file ends without a newline for a while, and is quiet then."""
    agent, root = case.parent.name, tmp_path / "root"
    quiet = time.time_ns() - 2 * int(adapters.QUIET_S * 1e9)

    def sync(url: str) -> Store:
        store = open_store(url)
        pipeline.sync(store, config.load(), agents=[agent], roots=[str(root)])
        return store

    def many(url: str) -> None:
        sync(url).close()

    grow(case / "root", root, 1, random.Random(0), lambda: None, quiet)
    at_once = contents(sync(str(tmp_path / "once.db")))
    for seed in range(loops(10)):
        shutil.rmtree(root)
        url = str(tmp_path / f"ends{seed}.db")
        grow(
            case / "root", root, 2 + seed % 9, random.Random(seed), lambda url=url: many(url),  # type: ignore[misc]
            quiet, before_newlines=True,
        )  # fmt: skip
        assert contents(open_store(url)) == at_once


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_what_must_be_remembered_between_two_reads_follows_from_the_source(
    case: Path, tmp_path: Path
) -> None:
    root, setting = tmp_path / "root", config.load()
    shutil.copytree(case / "root", root)
    store = open_store(str(tmp_path / "runlore.db"))
    pipeline.sync(store, setting, agents=[case.parent.name], roots=[str(root)])
    preparer = prepare.Preparer(prepare.prepare_setting(setting))
    found = {source.path: source for source in adapters.get(case.parent.name).discover(root)}
    read = {path: state for path, state in store.sources.by_path().items() if state.position.offset}
    assert read
    for path, state in read.items():
        if not adapters.is_appended(case.parent.name, path):
            continue
        resume = store.sources.resume(state.number)
        assert resume.carry is not None
        jobs = [
            prepare.Job(source=found[path], since=state.position, resume=Resume(carry=carry))
            for carry in (resume.carry, None)
        ]
        with_it, without = map(preparer.prepare, jobs)
        assert without.batch is not None
        assert without == with_it
