"""The state is read from a log of which it is a small part: whatever else stands there, it is what
all records add up to."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runlore.errors import RunloreError
from runlore.live.folder import type_scan
from runlore.live.log import LiveSession, SessionStore
from runlore.live.run_fold import begin, fold_all
from runlore.live.state import StateHandle

pytestmark = pytest.mark.folder


START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=[1 << 20, 300], ids=["large chunks", "small chunks"])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(type_scan, "CHUNK_BYTES", request.param)
    return int(request.param)


def fill(session: LiveSession, dice: random.Random, count: int) -> None:
    """A run among messages, some of which look like it."""
    state = StateHandle(session)
    state.start("g")
    for n in range(count):
        what = dice.randrange(6)
        if what == 0:
            state.progress(f"n{n % 3}", tokens=n)
        elif what == 1:
            state.checkpoint("a", {"n": n})
        elif what == 2:
            session.append_many([message(f"{n} of a batch"), message("x" * dice.randrange(400))])
        elif what == 3:
            session.record_many(
                [("message", message("m"), None), ("state.decision", {"what": {"n": n}}, None)]
            )
        elif what == 4:
            session.append(message('"t":"state.failed"\n{"n":1,"t":"state.failed"}'))
        else:
            session.record("note", {"t": "state.failed", "n": 1, "e": "é" * dice.randrange(200)})


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def whole(session: LiveSession) -> Any:
    """The state by the long way: every record decoded and folded."""
    records = list(session.records())
    return fold_all(begin(session.id, records[0].ts), records)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_all_records_add_up_to(store: SessionStore, chunk: int, seed: int) -> None:
    with store.create() as session:
        onlooker = StateHandle(session)
        for _ in range(3):
            fill_more(session, random.Random(seed))
            assert StateHandle(session).view() == onlooker.view() == whole(session)


def fill_more(session: LiveSession, dice: random.Random) -> None:
    if session.state.view().is_started:
        session.state.progress("more")
        session.append(message("the last line is of another view"))
    else:
        fill(session, dice, 60)


@pytest.mark.parametrize("seed", range(10))
def test_it_is_the_same_when_lines_are_damaged_or_glued(
    store: SessionStore, chunk: int, seed: int
) -> None:
    dice = random.Random(seed)
    with store.create() as session:
        fill(session, dice, 60)
        file = session.path / "log.jsonl"
    data = bytearray(file.read_bytes())
    ends = [n for n, byte in enumerate(data) if byte == 10]
    for place in dice.sample(ends[:-1], 4):
        data[place] = 32  # A line end is lost: two lines are one.
    for _ in range(4):
        data[dice.randrange(len(data))] = dice.choice([0, 10, 34, 125])
    file.write_bytes(data[: dice.randrange(len(data) - 200, len(data))])
    remove_snapshots(session.path)
    with store.open(session.id, readonly=True) as again:
        assert StateHandle(again).view() == whole(again)


def remove_snapshots(folder: Path) -> None:
    for snapshot in (folder / "snapshots").glob("*"):
        snapshot.unlink()


def test_a_line_that_is_being_written_is_read_when_it_is_whole(
    store: SessionStore, chunk: int
) -> None:
    with store.create() as session:
        session.state.start("g")
        session.state.put(text="é" * 500)
        file = session.path / "log.jsonl"
        data = file.read_bytes()
    remove_snapshots(session.path)
    line = data.rstrip(b"\n").rfind(b"\n") + 1
    with store.open(session.id, readonly=True) as reader:
        handle = StateHandle(reader)
        for cut in range(line, len(data), 7):
            file.write_bytes(data[:cut])
            assert handle.current.data_buffer == {}
        file.write_bytes(data)
        assert handle.current.data_buffer == {"text": "é" * 500}


def test_a_session_that_was_not_started_began_with_its_first_record(store: SessionStore) -> None:
    with store.create() as session:
        session.append(message("hello"))
        session.state.checkpoint("a")
        first = next(iter(session.records()))
        assert StateHandle(session).current.timestamps.started_at == first.ts
        assert session.state.at(1).timestamps.started_at == first.ts


def test_a_strange_reason_does_no_harm(store: SessionStore) -> None:
    with store.create() as session:
        session.record("state.started", {"run": "r", "reason": 5})
        assert [step.reason for step in session.state.history()] == [None]


def test_a_reader_writes_nothing(store: SessionStore) -> None:
    with store.create() as session:
        session.state.start("g")
        for n in range(1500):
            session.append(message(str(n)))
    remove_snapshots(session.path)
    before = sorted((path, path.stat().st_size) for path in session.path.rglob("*"))
    with store.open(session.id, readonly=True) as reader:
        assert reader.state.current.goal_id == "g"
        with pytest.raises(RunloreError):
            reader.state.pause()
    assert sorted((path, path.stat().st_size) for path in session.path.rglob("*")) == before


def test_a_snapshot_of_a_log_that_lost_its_end_is_not_believed(store: SessionStore) -> None:
    with store.create() as session:
        session.state.start("g")
        file = session.path / "log.jsonl"
        kept = file.read_bytes()
        session.state.complete()
        session.state.save()
    file.write_bytes(kept)  # A loss of power took the rest.
    with store.open(session.id, readonly=True) as reader:
        assert reader.state.status == "active"


def test_a_draft_has_a_state_and_gets_a_log_by_its_first_record(store: SessionStore) -> None:
    with store.draft() as session:
        assert session.state.status == "new"
        assert not session.path.exists()
        assert session.state.start("g").goal_id == "g"
        assert StateHandle(session).checkpoints.list() == ()
    with store.draft() as session:
        handle = StateHandle(session)
        point = handle.checkpoint("a", {"n": 1})
        assert handle.checkpoints.load(point).data_buffer == {"n": 1}


def test_cost_of_reading_does_not_grow_with_the_conversation(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = count_decoded(monkeypatch)
    with store.create() as session:
        handle = StateHandle(session)
        handle.start("g")
        for n in range(3000):
            session.append(message(str(n)))
        handle.progress("a")
        decoded.clear()
        assert StateHandle(session).current == handle.current
        assert len(decoded) < 50


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    from runlore.live.folder.log_reader import LogReader

    decoded: list[int] = []
    decode: Callable[..., Any] = LogReader.decode

    def counted(self: LogReader, line: bytes, offset: int) -> Any:
        decoded.append(offset)
        return decode(self, line, offset)

    monkeypatch.setattr(LogReader, "decode", counted)
    return decoded


@pytest.fixture(autouse=True)
def closed(store: SessionStore) -> Iterator[None]:
    yield
    store.close()
