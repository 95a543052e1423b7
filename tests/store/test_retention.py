"""What leaves a store and what stays, on every database."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import apsw
import msgspec
import pytest

from runlore.adapters import Source
from runlore.model import Covers, Digest
from runlore.query import leaks as leaks_module
from runlore.query.leaks import leaks
from runlore.retention import evict as evicting
from runlore.retention.evict import let_go
from runlore.store import DAMAGED, Filter, Store, open_store
from runlore.store.sqlite.store import SqliteStore
from runlore.store.values import Marks
from tests.store.test_contract import Agent
from tests.toy import Toy, line

NOW = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture
def agent(store: Store, toy: Toy, tmp_path: Path) -> Agent:
    made = Agent(store, toy, tmp_path / "root" / "s1.jsonl")
    made.put(
        line(id="a", text="find the bug in parseHttpUrl"),
        line(id="b", up="a", text="x" * 5000, kind="tool_result", tokens=5),
        line(
            id="c",
            up="b",
            text="TypeError: 'NoneType' object is not iterable",
            kind="tool_result",
            error=True,
        ),
        line(id="d", up="c", text="found it"),
    )
    return made


def digest_of(store: Store, uid: str, **fields: object) -> Digest:
    session = store.sessions.get(uid)
    assert session is not None
    covers = {"last_seq": session.last_seq, "content_hash": session.content_hash}
    return Digest.from_dict({"session_uid": uid, "version": 1, "covers": covers, **fields})


def cover(store: Store, uid: str = "toy:s1") -> None:
    excerpts = [{"seq": 2, "text": "TypeError: 'NoneType' object"}]
    store.digests.put(
        digest_of(store, uid, goal="find the bug", goal_seq=0, excerpts=excerpts), NOW
    )


def test_a_session_is_covered_by_its_digest_until_it_grows(store: Store, agent: Agent) -> None:
    [weight] = store.retention.weights()
    assert (weight.uid, weight.is_covered, weight.is_evicted, weight.is_pinned) == (
        "toy:s1",
        False,
        False,
        False,
    )
    assert weight.body_bytes > 0
    cover(store)
    assert store.retention.weights()[0].is_covered
    agent.put(line(id="e", up="d", text="one more"))
    assert not store.retention.weights()[0].is_covered


def test_what_is_evicted_is_listed_and_found_by_what_its_digest_quotes(
    store: Store, agent: Agent
) -> None:
    cover(store)
    before = store.sessions.get("toy:s1")
    store.retention.evict(["toy:s1"], NOW)
    after = store.sessions.get("toy:s1")
    assert before is not None
    assert after == msgspec.structs.replace(before, evicted_at=NOW)
    assert [event.seq for event in store.sessions.events("toy:s1")] == [0, 2, 3]
    assert store.sessions.bodies("toy:s1") == {0: "find the bug", 2: "TypeError: 'NoneType' object"}
    assert len(store.index.postings("typeerror")) == 1
    assert store.index.postings("iterable") == []
    assert [found.uid for found in store.sessions.select(Filter())] == ["toy:s1"]
    assert store.digests.get("toy:s1") is not None
    assert list(store.sources.native_records(str(agent.file))) == []


def test_what_is_evicted_is_found_by_what_was_run_tested_committed_and_asked_to_merge(
    store: Store, agent: Agent
) -> None:
    said = {
        "commands": [{"seq": 1, "command": "make engine"}],
        "tests": [{"seq": 2, "command": "pytest wheels", "passed": 3, "failed": 1}],
        "commits": [{"seq": 3, "sha": "1a2b3c4", "subject": "Mend the door"}],
    }
    store.digests.put(digest_of(store, "toy:s1", **said), NOW)
    store.retention.evict(["toy:s1"], NOW)
    assert store.sessions.bodies("toy:s1") == {
        1: "$ make engine",
        2: "$ pytest wheels\n3 passed, 1 failed",
        3: "[1a2b3c4] Mend the door",
    }
    assert all(
        len(store.index.postings(word)) == 1 for word in ("engine", "wheels", "1a2b3c4", "door")
    )


def test_digests_of_what_was_evicted_are_found_by_what_stands_in_them(
    store: Store, agent: Agent
) -> None:
    store.digests.put(digest_of(store, "toy:s1", files_edited=['/work/a "b".PY']), NOW)
    assert list(store.digests.search_evicted("b")) == []
    store.retention.evict(["toy:s1"], NOW)
    assert [
        (number, digest.session_uid) for number, digest in store.digests.search_evicted('A "B".py')
    ] == [(next(iter(store.sessions.numbers(Filter()))), "toy:s1")]
    assert list(store.digests.search_evicted("c.py")) == []


def test_what_was_done_to_files_and_where_secrets_stood_is_written_down_before_the_events_leave(
    store: Store, toy: Toy, tmp_path: Path
) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    Agent(store, toy, tmp_path / "root" / "s1.jsonl").put(
        line(id="a", text=token),
        *(
            line(id=f"b{n}", text=f"a.py {n}", kind="edit", call=f"c{n}", files=["src/a.py"], at=n)
            for n in (1, 2)
        ),
        line(id="c", text="a.py", kind="tool_result", call="c2", files=["src/a.py"], at=3),
        line(id="d", text=f"once more {token}"),
    )
    cover(store)
    let_go(store, ["toy:s1"])
    digest = store.digests.get("toy:s1")
    assert digest is not None
    assert digest.secrets_at == {"github": (0, 4)}
    [touched] = digest.touched
    assert (touched.path, touched.last_seq, touched.edit + touched.other) == (
        "/work/s1/src/a.py",
        3,
        2,
    )


def test_files_that_are_too_many_to_be_written_down_are_counted_also_when_more_leave_later(
    store: Store, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runlore.retention.evict.MAX_TOUCHED", 1)
    agent = Agent(store, toy, tmp_path / "root" / "s1.jsonl")
    for last in (2, 4):
        edits = [
            line(id=f"b{n}", text=f"{n}.py", kind="edit", call=f"c{n}", files=[f"{n}.py"], at=n)
            for n in range(last - 2, last + 1)
        ]
        agent.put(*edits)
        old = store.digests.get("toy:s1")
        new = digest_of(store, "toy:s1")
        store.digests.put(
            msgspec.structs.replace(new, before=old, cut=old.cut) if old else new, NOW
        )
        let_go(store, ["toy:s1"])
        digest = store.digests.get("toy:s1")
        assert digest is not None
        assert ([file.path for file in digest.touched], digest.cut) == (
            [f"/work/s1/{last}.py"],
            {"touched": last},
        )


def test_of_a_quoted_event_only_what_is_known_nowhere_else_is_left_and_it_says_what_its_quote_says(
    store: Store, agent: Agent
) -> None:
    cover(store)
    store.retention.evict(["toy:s1"], NOW)
    rows = store.maintenance.rows("select native_id, call_id, summary from events order by seq")
    assert [tuple(row) for row in rows[:2]] == [(None, None, None)] * 2
    goal, error, last = store.sessions.events("toy:s1")
    assert (goal.summary, error.summary, error.is_error) == (
        "find the bug",
        "TypeError: 'NoneType' object",
        True,
    )
    assert last.summary == "found it"


def test_of_very_many_files_and_secrets_the_digest_says_how_many_more_there_were(
    store: Store, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evicting, "MAX_TOUCHED", 2)
    monkeypatch.setattr(leaks_module, "MAX_SECRETS", 3)
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    Agent(store, toy, tmp_path / "root" / "s1.jsonl").put(
        *(
            line(
                id=f"a{n}",
                text=f"{n}.py {token}",
                kind="edit",
                call=f"c{n}",
                files=[f"{n}.py"],
                at=n,
            )
            for n in range(5)
        )
    )
    [before] = leaks(store, Filter())
    cover(store)
    let_go(store, ["toy:s1"])
    digest = store.digests.get("toy:s1")
    assert digest is not None
    assert [touched.path for touched in digest.touched] == ["/work/s1/3.py", "/work/s1/4.py"]
    assert digest.cut == {"touched": 3, "secrets: github": 2}
    [after] = leaks(store, Filter())
    assert (
        (after.count, after.hashes, after.events)
        == (before.count, before.hashes, before.events)
        == (5, before.hashes, (0, 1, 2, 3, 4))
    )


def test_every_commit_of_an_event_is_found_whatever_else_is_quoted_of_it(
    store: Store, agent: Agent
) -> None:
    commits = [
        {"seq": 1, "sha": "1a2b3c4", "subject": "Boil it"},
        {"seq": 1, "sha": "5d6e7f8", "subject": ""},
    ]
    store.digests.put(
        digest_of(
            store, "toy:s1", commits=commits, excerpts=[{"seq": 1, "text": "the last lines"}]
        ),
        NOW,
    )
    store.retention.evict(["toy:s1"], NOW)
    assert store.sessions.bodies("toy:s1", 1, 1) == {
        1: "[5d6e7f8]\n[1a2b3c4] Boil it\nthe last lines"
    }
    assert [len(store.index.postings(word)) for word in ("1a2b3c4", "5d6e7f8", "lines")] == [
        1,
        1,
        1,
    ]


def test_evicting_twice_changes_nothing(store: Store, agent: Agent) -> None:
    cover(store)
    store.retention.evict(["toy:s1"], NOW)
    first = store.sessions.get("toy:s1"), store.sessions.bodies("toy:s1"), store.retention.weights()
    store.retention.evict(["toy:s1", "toy:nobody"], NOW)
    assert (
        store.sessions.get("toy:s1"),
        store.sessions.bodies("toy:s1"),
        store.retention.weights(),
    ) == first


def test_what_was_stored_by_a_clock_that_is_ahead_can_be_read_when_it_is_evicted(
    store: Store, agent: Agent
) -> None:
    cover(store)
    store.retention.evict(["toy:s1"], datetime(2020, 1, 1, tzinfo=UTC))
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert session.evicted_at is not None


@pytest.mark.parametrize(
    "more", [line(title="Another"), line(id="e", text="one more")], ids=["a title", "an event"]
)
def test_what_was_stored_by_a_clock_that_is_ahead_can_be_read_when_something_is_added(
    store: Store, agent: Agent, more: bytes
) -> None:
    cover(store)
    store.retention.evict(["toy:s1"], NOW)
    agent.put(more)  # By the clock of today.
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert session.evicted_at is not None


@pytest.mark.parametrize(
    "marks", [("discovered_at", "ingested_at"), ("discovered_at", "ingested_at", "analyzed_at")]
)
def test_a_clock_that_was_ahead_once_keeps_no_session_from_being_read(
    store: Store, agent: Agent, marks: tuple[str, ...]
) -> None:
    now = datetime.now(UTC)
    cover(store)
    store.db.execute(  # type: ignore[attr-defined]
        f"update sessions set {' = ?, '.join(marks)} = ?",
        ("2099-01-01T00:00:00.000000Z",) * len(marks),
    )
    steps: list[Callable[[], object]] = [
        lambda: agent.put(line(id="e", up="d", text="more")),
        lambda: store.digests.put(digest_of(store, "toy:s1"), now),
        lambda: store.retention.evict(["toy:s1"], now),
        lambda: agent.put(line(id="f", up="e", text="and more")),
        lambda: store.digests.put(digest_of(store, "toy:s1"), now),
        lambda: store.ingest.rederive(agent.number, agent.fresh()),
    ]
    for step in steps:
        step()
        assert store.sessions.get("toy:s1") is not None


def test_records_leave_before_what_was_derived_from_them(store: Store, agent: Agent) -> None:
    [bulk] = store.retention.bulks()
    assert (bulk.path, bulk.uids) == (str(agent.file), ("toy:s1",))
    assert bulk.size > 0
    bodies = store.sessions.bodies("toy:s1")
    store.retention.drop_records([bulk.source])
    assert store.retention.bulks() == []
    assert store.sessions.bodies("toy:s1") == bodies


def test_the_records_of_a_source_stay_while_one_of_its_sessions_does(
    store: Store, toy: Toy, tmp_path: Path
) -> None:
    both = Agent(store, toy, tmp_path / "root" / "both.jsonl")
    both.put(line(s="s1", id="a", text="one"), line(s="s2", id="b", text="two"))
    store.retention.evict(["toy:s1"], NOW)
    assert [bulk.uids for bulk in store.retention.bulks()] == [("toy:s1", "toy:s2")]
    store.retention.evict(["toy:s2"], NOW)
    assert store.retention.bulks() == []


def test_what_is_derived_again_has_the_numbers_it_had(store: Store, agent: Agent) -> None:
    bodies, events = store.sessions.bodies("toy:s1"), store.sessions.events("toy:s1")
    cover(store)
    before = store.sessions.get("toy:s1")
    store.retention.evict(["toy:s1"], NOW)
    assert store.sources.by_path()[str(agent.file)].is_evicted
    assert store.retention.bring_back(["toy:s1"]) == ["toy:s1"]
    state = store.sources.by_path()[str(agent.file)]
    assert state.adapter_version == DAMAGED
    store.ingest.rederive(state.number, agent.fresh())
    after = store.sessions.get("toy:s1")
    assert store.sessions.bodies("toy:s1") == bodies
    assert [
        msgspec.structs.replace(e, payload_ref=None) for e in store.sessions.events("toy:s1")
    ] == [msgspec.structs.replace(e, payload_ref=None) for e in events]
    assert before is not None
    assert after is not None
    assert (after.evicted_at, after.content_hash, after.is_evictable) == (
        None,
        before.content_hash,
        True,
    )
    assert not store.sources.by_path()[str(agent.file)].is_evicted


def test_what_has_no_source_cannot_be_brought_back(store: Store, agent: Agent) -> None:
    store.retention.evict(["toy:s1"], NOW)
    store.sources.mark_missing([store.sources.by_path()[str(agent.file)].number], NOW)
    assert store.retention.bring_back(["toy:s1"]) == []
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert session.last_seq == 3


def test_what_was_not_evicted_is_not_brought_back(store: Store, agent: Agent) -> None:
    (state,) = store.sources.by_path().values()
    assert store.retention.bring_back(["toy:s1", "toy:unknown"]) == []
    assert (
        store.sources.by_path()[state.source.path].adapter_version
        == state.adapter_version
        != DAMAGED
    )


def test_written_anew_a_store_of_which_most_has_left_takes_no_more_and_says_the_same(
    store: Store, agent: Agent
) -> None:
    cover(store)
    store.retention.evict(["toy:s1"], NOW)
    store.retention.shrink()
    used, told = store.retention.used_bytes(), store.sessions.events("toy:s1")
    store.retention.shrink(most_left=True)
    assert store.retention.used_bytes() <= used
    assert store.sessions.events("toy:s1") == told


def test_a_session_that_another_refers_to_is_known(
    store: Store, agent: Agent, toy: Toy, tmp_path: Path
) -> None:
    fork = Agent(store, toy, tmp_path / "root" / "s2.jsonl")
    fork.put(
        line(id="a", text="find the bug in parseHttpUrl"),
        line(id="z", up="a", text="another way", at=99),
    )
    assert {weight.uid: weight.is_shown_elsewhere for weight in store.retention.weights()} == {
        "toy:s1": True,
        "toy:s2": False,
    }
    store.retention.evict(["toy:s2"], NOW)
    assert not any(weight.is_shown_elsewhere for weight in store.retention.weights())


def test_a_secret_in_a_copy_is_told_where_it_happened_also_when_the_copy_has_left(
    store: Store, toy: Toy, tmp_path: Path
) -> None:
    secret = "the key is [redacted:aws:abc123]"
    Agent(store, toy, tmp_path / "root" / "s1.jsonl").put(line(id="a", text=secret))
    Agent(store, toy, tmp_path / "root" / "s2.jsonl").put(
        line(id="a", text=secret), line(id="z", up="a", text="another way")
    )
    cover(store, "toy:s2")
    let_go(store, ["toy:s2"])
    assert [(leak.line.uid, leak.count) for leak in leaks(store, Filter(parents_only=False))] == [
        ("toy:s1", 1)
    ]


def test_room_is_given_back(store: Store, toy: Toy, tmp_path: Path) -> None:
    import random

    noise = random.Random(1)
    for n in range(40):
        text = " ".join(noise.randbytes(6).hex() for _ in range(4000))
        Agent(store, toy, tmp_path / "root" / f"t{n}.jsonl").put(line(id=f"n{n}", text=text))
    before = store.retention.used_bytes()
    store.retention.evict([f"toy:t{n}" for n in range(40)], NOW)
    store.retention.shrink()
    assert store.retention.used_bytes() < before / 3


def test_marks_stay_through_everything_that_is_read(store: Store, agent: Agent) -> None:
    store.sessions.mark(
        "toy:s1", Marks(pinned=True, name="The bug", tags=("hard", "api"), note="ask Ada")
    )
    agent.put(line(id="e", up="d", text="one more"), line(title="Another title"))
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert (session.pinned, session.name, session.tags, session.note) == (
        True,
        "The bug",
        ("hard", "api"),
        "ask Ada",
    )
    assert session.title == "Another title"
    assert [found.title for found in store.sessions.select(Filter())] == ["The bug"]
    assert store.retention.weights()[0].is_pinned
    assert [found.uid for found in store.sessions.select(Filter(tag="api"))] == ["toy:s1"]
    assert store.sessions.select(Filter(tag="ap")) == []
    assert [found.uid for found in store.sessions.select(Filter(pinned=True))] == ["toy:s1"]
    store.sessions.mark("toy:s1", Marks())
    assert store.sessions.select(Filter(pinned=True)) == []


def test_a_marked_outcome_overrules_the_digest_and_can_be_taken_back(
    store: Store, agent: Agent
) -> None:
    def shown() -> tuple[str, str, str]:
        session = store.sessions.get("toy:s1")
        [line] = store.sessions.select(Filter(name="toy:s1"))
        assert session is not None
        both = [(one.outcome, one.outcome_level, one.outcome_by) for one in (session, line)]
        assert both[0] == both[1]
        assert [one.uid for one in store.sessions.select(Filter(outcome=line.outcome))] == [
            "toy:s1"
        ]
        assert dict(store.overview.count_values("outcome", Filter())) == {line.outcome: 1}
        return both[0]

    session = store.sessions.get("toy:s1")
    assert session is not None
    covers = Covers(session.last_seq, session.content_hash)
    digest = Digest(
        session_uid="toy:s1",
        version=1000,
        covers=covers,
        outcome="fail",
        outcome_level="observed",
        outcome_by="test",
    )
    store.digests.put(digest, NOW)
    assert shown() == ("fail", "observed", "test")
    store.sessions.mark("toy:s1", Marks(outcome="success"))
    assert shown() == ("success", "verified", "mark")
    agent.put(line(id="e", up="d", text="one more"))
    store.digests.put(digest, NOW)
    assert shown() == ("success", "verified", "mark")
    store.retention.evict(["toy:s1"], NOW)
    assert shown() == ("success", "verified", "mark")
    store.sessions.mark("toy:s1", Marks())
    assert shown() == ("fail", "observed", "test")


def test_source_states_know_no_eviction_elsewhere(
    store: Store, agent: Agent, toy: Toy, tmp_path: Path
) -> None:
    other = Agent(store, toy, tmp_path / "root" / "s2.jsonl")
    other.put(line(id="q", text="something else"))
    store.retention.evict(["toy:s1"], NOW)
    states = store.sources.by_path()
    assert [states[str(path)].is_evicted for path in (agent.file, other.file)] == [True, False]
    assert isinstance(states[str(other.file)].source, Source)


@pytest.fixture
def emptied(tmp_path: Path) -> Iterator[SqliteStore]:
    """A store of which more has left than is there: 6 MB of 16."""
    made = open_store(str(tmp_path / "runlore.db"))
    assert isinstance(made, SqliteStore)
    made.db.connection.pragma("cache_size", -1024)
    with made.transaction():
        for n in range(2000):
            made.db.execute("insert into records values (1, ?, 1, 8000, ?)", (n, os.urandom(8000)))
    with made.transaction():
        made.db.execute("delete from records where first >= 750")
    yield made
    made.close()


@pytest.mark.parametrize("way", ["shrink", "purge"])
def test_a_store_is_written_anew_without_being_held_in_memory(
    emptied: SqliteStore, way: str
) -> None:
    before = apsw.memory_used()
    apsw.memory_high_water(reset=True)
    getattr(emptied.retention, way)()
    assert apsw.memory_high_water() - before < 4 << 20
    assert emptied.db.connection.pragma("page_count") * 8192 < 8 << 20


def test_room_is_given_back_where_there_is_none_to_write_a_store_anew(emptied: SqliteStore) -> None:
    emptied.db.connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)  # It does not get its second file.
    emptied.retention.shrink()
    assert emptied.db.connection.pragma("page_count") * 8192 < 8 << 20
