"""What a batch changes is planned without a database."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore.adapters import Facts
from runlore.model import BLOCK
from runlore.store.changes import Changes
from runlore.store.known import File, Known, KnownSession, KnownSource, Stream, source_key
from runlore.store.numbering import Renumbering
from runlore.store.planning import outranked_sources, plan
from runlore.store.rows import PARENT, REST, SEQ, copied
from runlore.store.values import Batch
from runlore.sync.prepare import Job, Preparer, Setting
from runlore.sync.redaction import RedactSetting
from runlore.timeline import Tally
from tests.toy import Toy, line

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Desk:
    """Reads files of a toy agent and plans to put them, in a store that has nothing but what is
    noted by hand."""

    def __init__(self, toy: Toy, folder: Path) -> None:
        self.toy, self.folder, self.known = toy, folder, Known()
        self.preparer = Preparer(Setting(redact=RedactSetting(key_path=str(folder / "key"))))

    def batch(self, name: str, *lines: bytes) -> Batch:
        file = self.folder / "toy" / f"{name}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"".join(lines))
        source = next(one for one in self.toy.discover(file.parent) if one.path == str(file))
        batch = self.preparer.prepare(Job(source=source, is_new=True)).batch
        assert batch is not None
        return batch

    def plan(self, batch: Batch) -> Changes:
        """With numbers for what is new, as a store reserves them."""
        known = self.known
        known.sources.setdefault(source_key(batch), KnownSource(number=len(known.sources) + 1))
        for delta in batch.deltas:
            if delta.session_uid not in known.sessions:
                known.new_numbers[delta.session_uid] = len(known.sessions) + 1
        return plan(batch, known, NOON)

    def put(self, name: str, *lines: bytes) -> Changes:
        return self.plan(self.batch(name, *lines))


@pytest.fixture
def desk(toy: Toy, tmp_path: Path) -> Desk:
    return Desk(toy, tmp_path)


def origins(changes: Changes) -> list[str | None]:
    return [copied(row[REST + 1])[0] for row in changes.events]


def test_a_new_source_only_adds_rows(desk: Desk) -> None:
    changes = desk.put("s", line(id="a", text="one"), line(id="b", up="a", text="two"))
    assert changes.new_source is not None
    [session] = changes.sessions
    assert (session["uid"], session["title"], session["events"], session["last_seq"]) == (
        "toy:s",
        "one",
        2,
        1,
    )
    assert [row[: SEQ + 2] for row in changes.events] == [[1, 0], [1, 1]]
    assert [row[PARENT + 1] for row in changes.events] == [None, 0]
    assert [(one.id, one.first, one.last) for one in changes.segments] == [(1 << 20, 0, 1)]
    assert list(changes.streams) == [(1, 0)]
    changed = (changes.changed_streams, changes.totals, changes.replaced_segments)
    assert changed == ({}, [], [])


def test_a_batch_that_was_put_before_changes_nothing(desk: Desk) -> None:
    batch = desk.batch("s", line(id="a", text="one"))
    assert not desk.plan(batch).is_repeated
    again = desk.plan(batch)
    assert (again.is_repeated, again.events, again.put.events) == (True, [], 0)


def test_a_copy_refers_to_what_was_planned_before_it(desk: Desk) -> None:
    desk.put("a", line(id="x", text="one"))
    changes = desk.put("b", line(id="x", text="one"), line(id="y", up="x", text="two"))
    assert origins(changes) == ["toy:a#0", None]
    assert (changes.put.copies, changes.stale_sources) == (1, [])


def test_an_original_that_comes_after_its_copy_has_that_derived_again(desk: Desk) -> None:
    desk.put("b", line(id="x", text="one"))
    changes = desk.put("a", line(id="x", text="one"))
    assert (origins(changes), changes.stale_sources, changes.put.to_rederive) == ([None], [1], 1)


def test_a_session_that_cannot_be_derived_again_keeps_what_it_has(desk: Desk) -> None:
    desk.put("b", line(id="x", text="one"))
    desk.known.files[1] = File("/gone", 1, "2026-01-01T00:00:00Z", is_whole=False)
    changes = desk.put("a", line(id="x", text="one"))
    assert (origins(changes), changes.stale_sources) == (["toy:b#0"], [])


def test_a_second_source_of_a_session_counts_in_a_block_of_its_own(desk: Desk) -> None:
    desk.put("s", line(id="a", text="one"))
    changes = desk.put(
        "more", line(s="s", id="a", text="one"), line(s="s", id="b", up="a", text="two")
    )
    assert [row[SEQ + 1] for row in changes.events] == [BLOCK + 1]
    assert changes.events[0][PARENT + 1] == 0, "the one that the session has"
    assert (list(changes.streams), changes.sessions) == ([(1, 1)], [])
    assert [(one.session, one.columns["events"]) for one in changes.totals] == [(1, 2)]


def test_what_was_forgotten_is_counted_and_its_records_are_not_kept(desk: Desk) -> None:
    desk.known.tombstones.add("toy:s")
    changes = desk.put("s", line(id="a", text="one"))
    assert (changes.put.forgotten, changes.events, changes.records) == (1, [], [])
    assert changes.new_source is not None


@pytest.mark.parametrize(("rank", "outranked"), [(1, [(1, 1)]), (0, []), (None, [])])
def test_what_a_batch_tells_better_is_named_before_it_is_planned(
    desk: Desk, rank: int | None, outranked: list[tuple[int, int]]
) -> None:
    facts, tally = Facts(native_session_id="s", rank=rank), Tally(events=1)
    session = KnownSession(number=1, uid="toy:s", streams={0: Stream(0, 1, facts, tally, b"h")})
    desk.known.add_session(session)
    batch = desk.batch("s", line(id="a", text="one"))
    desk.known.sources[source_key(batch)] = KnownSource(number=2)
    assert outranked_sources(batch, desk.known) == outranked


def test_what_is_derived_again_has_the_numbers_that_it_had(desk: Desk) -> None:
    again = Renumbering()
    batch = desk.batch("s", line(id="a", text="one"), line(id="b", up="a", text="two"))
    [a, b] = batch.deltas[0].natives
    again.numbers, again.last = {b: 0}, 0
    desk.known.renumberings[1] = again
    session = KnownSession(number=1, uid="toy:s", next_segment=1 << 20)
    session.streams[0] = Stream.empty(0, 1)
    desk.known.add_session(session)
    changes = desk.plan(batch)
    assert sorted(changes.natives) == sorted([(a, 1, BLOCK), (b, 1, 0)])
    assert list(changes.streams) == [(1, 1)]


def test_a_digest_is_kept_when_it_covers_the_session(desk: Desk) -> None:
    batch = desk.batch("s", line(id="a", text="one"))
    assert batch.deltas[0].digest is not None
    other = desk.batch("t", line(id="b", text="two"))
    desk.known.sources_of["toy:t"] = {("toy", "here"), ("toy", "there")}
    changes = [desk.plan(one) for one in (batch, other)]
    assert [len(one.digests) for one in changes] == [1, 0], "several sources tell of the other one"
    columns: list[Any] = [one.sessions[0]["analyzed_at"] for one in changes]
    assert columns == [changes[0].now, None]


def test_planning_leaves_the_batch_as_it_is(desk: Desk) -> None:
    desk.put("s", line(id="a", text="one"))
    batch = desk.batch("more", line(s="s", id="a", text="x"), line(s="s", id="b", up="a", text="y"))
    before = msgspec.msgpack.encode(batch)
    desk.plan(batch)
    assert msgspec.msgpack.encode(batch) == before
