"""What every store must do. A further database is held to the same by adding it to `url` in
`conftest.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from runlore.adapters import Source
from runlore.errors import StoreBusy, StoreError
from runlore.model import BLOCK, MAX_UNITS, USD, Call, format_time
from runlore.store import (
    Batch,
    CallFilter,
    CallSum,
    Filter,
    LedgerCall,
    PriceRow,
    Put,
    Store,
    open_store,
)
from runlore.store.calls import hash_of
from runlore.store.natives import native_hash
from runlore.store.sql.database import Database
from runlore.store.sqlite import database
from runlore.sync.billing import merge_with_ledger
from runlore.sync.prepare import Job, Preparer, Setting
from runlore.sync.redaction import RedactSetting
from tests.toy import START, Toy, line

IN_A_FILE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
"""Of tests that are about what only a file can do."""


class Agent:
    """Writes a toy agent's file, and puts what is new in it into the store."""

    def __init__(self, store: Store, adapter: Toy, file: Path) -> None:
        self.store, self.adapter, self.file = store, adapter, file
        file.parent.mkdir(parents=True, exist_ok=True)
        self.preparer = Preparer(Setting(redact=RedactSetting(key_path=str(file.parent / "key"))))

    def write(self, *lines: bytes) -> Agent:
        with self.file.open("ab") as file:
            file.writelines(lines)
        return self

    @property
    def source(self) -> Source:
        return next(s for s in self.adapter.discover(self.file.parent) if s.path == str(self.file))

    def batch(self) -> Batch:
        state = self.store.sources.by_path().get(str(self.file))
        job = Job(source=self.source)
        if state is not None and state.position.offset:
            job = Job(
                source=self.source,
                since=state.position,
                resume=self.store.sources.resume(state.number),
            )
        batch = self.preparer.prepare(job).batch
        assert batch is not None
        return batch

    def put(self, *lines: bytes) -> Put:
        self.write(*lines)
        return self.store.ingest.put(self.batch())

    def fresh(self) -> Iterator[Batch]:
        """Everything from the beginning, as a source that was rewritten, or is derived again, is
        read."""
        batch = self.preparer.prepare(Job(source=self.source)).batch
        assert batch is not None
        yield batch

    @property
    def number(self) -> int:
        return self.store.sources.by_path()[str(self.file)].number


@pytest.fixture
def agent(store: Store, toy: Toy, tmp_path: Path) -> Agent:
    return Agent(store, toy, tmp_path / "toy" / "s1.jsonl")


@pytest.fixture
def another(store: Store, toy: Toy, tmp_path: Path) -> Agent:
    return Agent(store, toy, tmp_path / "toy" / "s2.jsonl")


def contents(store: Store) -> dict[str, int]:
    """How much there is of everything, whatever room that takes."""
    return {name: count for name, count in store.overview.stats().items() if name != "file_bytes"}


def test_what_was_put_can_be_read(store: Store, agent: Agent) -> None:
    agent.put(
        line(id="a", text="find the bug"),
        line(id="b", up="a", kind="assistant_msg", text="found it", tokens=7),
    )
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert (session.title, session.events, session.cost.turns, session.cost.output_tokens) == (
        "find the bug",
        2,
        1,
        7,
    )
    assert [
        (e.seq, e.kind, e.parent_seq, e.native_id) for e in store.sessions.events("toy:s1")
    ] == [
        (0, "user_msg", None, "a"),
        (1, "assistant_msg", 0, "b"),
    ]
    assert store.sessions.bodies("toy:s1") == {0: "find the bug", 1: "found it"}


def test_a_body_is_named_with_its_length(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="äöü"), line(id="b", text="two"))
    refs = [event.payload_ref for event in store.sessions.events("toy:s1")]
    assert [ref.partition(":")[2] for ref in refs if ref] == ["0+6", "6+3"]


def test_putting_a_batch_twice_changes_nothing(store: Store, agent: Agent) -> None:
    batch = agent.write(line(id="a", text="one")).batch()
    assert store.ingest.put(batch).events == 1
    before = contents(store)
    assert store.ingest.put(batch).events == 0
    assert contents(store) == before


def test_what_is_added_later_is_linked_to_what_was_there(store: Store, agent: Agent) -> None:
    agent.put(line(id="a"))
    agent.put(line(id="b", up="a"))
    assert [event.parent_seq for event in store.sessions.events("toy:s1")] == [None, 0]


def test_a_record_without_an_event_passes_its_link_on_also_across_reads(
    store: Store, agent: Agent
) -> None:
    agent.put(line(id="a"))
    agent.put(line(id="p", up="a", alias=True))
    agent.put(line(id="q", up="p", alias=True))
    agent.put(line(id="b", up="q"))
    assert [event.parent_seq for event in store.sessions.events("toy:s1")] == [None, 0]


def test_a_parent_that_comes_later_is_no_parent(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", up="b"), line(id="b", up="a"))
    assert [event.parent_seq for event in store.sessions.events("toy:s1")] == [None, 0]


def test_a_record_that_stands_twice_in_a_session_is_kept_once(store: Store, agent: Agent) -> None:
    assert agent.put(line(id="a", text="one"), line(id="a", text="one")).copies == 1
    assert agent.put(line(id="a", text="one"), line(id="b", text="two")).copies == 1
    assert list(store.sessions.bodies("toy:s1").values()) == ["one", "two"]


def test_identical_events_without_a_native_id_stay_apart(store: Store, agent: Agent) -> None:
    agent.put(line(text="again", at=5), line(text="again", at=5))
    assert list(store.sessions.bodies("toy:s1").values()) == ["again", "again"]


def test_a_copy_from_another_session_is_a_reference_and_is_counted_once(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(
        line(id="a", text="the question"),
        line(id="b", up="a", kind="assistant_msg", text="the answer", tokens=9),
    )
    another.put(
        line(id="a", text="the question"),
        line(id="b", up="a", kind="assistant_msg", text="the answer", tokens=9),
        line(id="c", up="b", text="and then"),
    )
    events = store.sessions.events("toy:s2")
    assert [event.origin for event in events] == ["toy:s1#0", "toy:s1#1", None]
    assert [event.parent_seq for event in events] == [None, 0, 1]
    assert store.sessions.bodies("toy:s2") == {0: "the question", 1: "the answer", 2: "and then"}
    assert store.sessions.first_prompt("toy:s1") == "the question"
    assert store.sessions.first_prompt("toy:s2") == "and then", "what it copied is another's"
    assert store.sessions.first_prompt("toy:nope") is None
    copy, original = store.sessions.get("toy:s2"), store.sessions.get("toy:s1")
    assert copy is not None
    assert original is not None
    assert (original.cost.output_tokens, copy.cost.output_tokens) == (9, 0)
    assert len(store.index.postings("question")) == 1
    assert store.retention.sharing() == [{"toy:s1", "toy:s2"}]


def test_a_copy_under_a_new_id_is_found_by_what_the_agent_says(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="the question"))
    another.put(line(id="x", of="a", text="the question"), line(id="y", up="x", text="more"))
    assert [(e.origin, e.parent_seq) for e in store.sessions.events("toy:s2")] == [
        ("toy:s1#0", None),
        (None, 0),
    ]


def test_a_copy_whose_original_is_unknown_is_kept_whole(store: Store, another: Agent) -> None:
    another.put(line(id="x", of="a", text="the question"))
    assert store.sessions.bodies("toy:s2") == {0: "the question"}


def test_two_files_of_one_session_get_a_block_of_numbers_each(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="one"))
    another.put(line(s="s1", id="b", text="two"))
    agent.put(line(id="c", text="three"))
    assert [event.seq for event in store.sessions.events("toy:s1")] == [0, 1, BLOCK]
    assert store.sessions.bodies("toy:s1") == {0: "one", 1: "three", BLOCK: "two"}
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert (session.events, session.last_seq) == (3, BLOCK)


def test_a_source_with_several_sessions_keeps_them_apart(store: Store, agent: Agent) -> None:
    agent.put(line(s="s1", id="a", text="one"), line(s="s9", id="b", text="two"))
    agent.put(line(s="s9", id="c", up="b", text="three"))
    assert store.retention.sharing() == []
    assert [len(store.sessions.events(uid)) for uid in ("toy:s1", "toy:s9")] == [1, 2]


@pytest.mark.parametrize("cut", range(1, 12))
def test_segments_are_the_same_wherever_the_input_was_cut(
    store: Store, agent: Agent, another: Agent, cut: int
) -> None:
    words = [line(id=f"n{n}", text=f"word{n} " * 3000) for n in range(12)]
    agent.put(*words)
    for n in range(0, 12, cut):
        another.put(*(w.replace(b'"id": "n', b'"s": "s2", "id": "m') for w in words[n : n + cut]))
    one, two = (
        [e.payload_ref.partition(":")[2] for e in store.sessions.events(uid) if e.payload_ref]
        for uid in ("toy:s1", "toy:s2")
    )
    assert one == two
    assert [len(store.index.postings(f"word{n}")) for n in range(12)] == [2] * 12


def test_a_rewritten_source_adds_what_is_new_and_marks_what_is_gone(
    store: Store, agent: Agent
) -> None:
    agent.put(line(id="a", text="one"), line(id="b", text="two"))
    agent.file.write_bytes(line(id="a", text="one") + line(id="c", up="a", text="three"))
    store.ingest.rewrite(agent.number, agent.fresh())
    events = store.sessions.events("toy:s1")
    assert [(e.native_id, e.seq, e.is_gone, e.parent_seq) for e in events] == [
        ("a", 0, False, None),
        ("b", 1, True, None),
        ("c", BLOCK + 1, False, 0),
    ]
    agent.put(line(id="d", up="c", text="four"))
    assert [(e.native_id, e.parent_seq) for e in store.sessions.events("toy:s1")][-1] == (
        "d",
        BLOCK + 1,
    )


def test_a_source_that_shrank_and_is_derived_again_grows_to_what_it_was(
    store: Store, agent: Agent
) -> None:
    agent.put(line(id="a", text="one"), line(id="b", text="two"), line(id="c", text="three"))
    agent.file.write_bytes(line(id="a", text="one"))
    store.ingest.rewrite(agent.number, agent.fresh())
    store.ingest.rederive(agent.number, agent.fresh())
    agent.put(line(id="d", text="four"), line(id="c", text="three"))
    events = store.sessions.events("toy:s1")
    assert [(e.native_id, e.is_gone) for e in events] == [
        ("a", False),
        ("b", True),
        ("c", False),
        ("d", False),
    ]
    assert list(store.sessions.bodies("toy:s1").values()) == ["one", "two", "three", "four"]


def test_a_newer_adapter_replaces_the_events_and_keeps_their_numbers(
    store: Store, agent: Agent
) -> None:
    agent.put(line(id="a", text="one"), line(id="b", up="a", text="two"))
    agent.adapter.shout = True
    store.ingest.rederive(agent.number, agent.fresh())
    assert store.sessions.bodies("toy:s1") == {0: "ONE", 1: "TWO"}
    agent.put(line(id="c", up="b", text="three"))
    assert [(e.seq, e.parent_seq) for e in store.sessions.events("toy:s1")] == [
        (0, None),
        (1, 0),
        (2, 1),
    ]


def test_a_newer_adapter_that_sees_more_events_gives_them_numbers_never_used(
    store: Store, agent: Agent
) -> None:
    agent.put(line(id="a", text="one"), line(id="b", up="a", text="two"))
    agent.adapter.twice = True
    store.ingest.rederive(agent.number, agent.fresh())
    found = {e.native_id: (e.seq, e.parent_seq) for e in store.sessions.events("toy:s1")}
    assert found == {"a": (0, None), "b": (1, 0), "a#1": (BLOCK + 1, 0), "b#1": (BLOCK + 3, 1)}
    agent.put(line(id="c", up="b", text="three"))
    assert sorted(e.seq for e in store.sessions.events("toy:s1"))[-2:] == [BLOCK + 4, BLOCK + 5]
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert session.events == 6


def test_deriving_an_original_again_leaves_it_the_original(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="one"))
    another.put(line(id="a", text="one"), line(id="b", text="two"))
    store.ingest.rederive(agent.number, agent.fresh())
    assert [e.origin for e in store.sessions.events("toy:s1")] == [None]
    assert [e.origin for e in store.sessions.events("toy:s2")] == ["toy:s1#0", None]


def test_a_step_that_fails_leaves_nothing_behind(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    before = contents(store)
    batch = agent.write(line(id="b", text="two")).batch()

    def fail() -> None:
        with store.transaction():
            store.ingest.put(batch)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert contents(store) == before
    assert store.ingest.put(batch).events == 1


def test_a_broken_segment_is_noticed(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one" * 100))
    store.db.execute("update segments set hash = ?", (b"\0",))  # type: ignore[attr-defined]
    with pytest.raises(StoreError, match="not what was stored"):
        store.sessions.bodies("toy:s1")


def test_native_records_are_kept_as_they_were(store: Store, agent: Agent) -> None:
    one, two = line(id="a", text="one"), line(id="b", text="two")
    agent.put(one)
    agent.put(two)
    assert list(store.sources.native_records(str(agent.file))) == [
        (0, 0, one.rstrip()),
        (1, len(one), two.rstrip()),
    ]
    assert [record.data for record in store.sources.records(agent.number)] == [
        one.rstrip(),
        two.rstrip(),
    ]


def test_what_could_not_be_understood_is_listed_with_its_place(store: Store, agent: Agent) -> None:
    good = line(id="a")
    agent.put(good, b"{nonsense\n")
    assert store.sources.skips() == [(str(agent.file), len(good), "not JSON")]


def test_the_best_title_wins(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="a prompt"))
    agent.put(line(title="named by a person"))
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert session.title == "named by a person"


def test_sessions_are_found_by_any_unique_beginning(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a"))
    another.put(line(id="b"))
    assert store.sessions.find("toy:s1") == store.sessions.find("s1") == ["toy:s1"]
    assert (
        sorted(store.sessions.find("toy:"))
        == sorted(store.sessions.find("s"))
        == ["toy:s1", "toy:s2"]
    )
    assert store.sessions.find("%") == store.sessions.find("S1") == []


def test_listings_are_filtered_sorted_and_cut(store: Store, agent: Agent, another: Agent) -> None:
    agent.put(line(id="a", at=0, text="early"), line(id="b", at=60))
    another.put(line(id="c", at=3600, text="late", error=True))
    assert [s.uid for s in store.sessions.select(Filter())] == ["toy:s2", "toy:s1"]
    assert [s.uid for s in store.sessions.select(Filter(), sort="events")] == ["toy:s1", "toy:s2"]
    assert len(store.sessions.select(Filter(outcome="unknown"), sort="cost")) == 2
    assert not store.sessions.select(Filter(outcome="fail")) + store.sessions.select(
        Filter(min_usd=0.01)
    )
    assert [s.uid for s in store.sessions.select(Filter(), limit=1, offset=1)] == ["toy:s1"]
    assert [s.uid for s in store.sessions.select(Filter(errors=True))] == ["toy:s2"]
    assert [s.uid for s in store.sessions.select(Filter(cwd="work/s1"))] == ["toy:s1"]
    assert [s.uid for s in store.sessions.select(Filter(text="EARLY"))] == ["toy:s1"]
    assert store.sessions.select(Filter(agent="other")) == []
    assert [
        s.uid for s in store.sessions.select(Filter(until=datetime(2026, 1, 1, 0, 30, tzinfo=UTC)))
    ] == ["toy:s1"]
    assert [
        s.uid for s in store.sessions.select(Filter(since=datetime(2026, 1, 1, 0, 30, tzinfo=UTC)))
    ] == ["toy:s2"]
    assert store.sessions.count(Filter()) == 2
    assert sorted(store.sessions.uids(Filter())) == ["toy:s1", "toy:s2"]
    assert (
        store.sessions.uids(Filter(), limit=1)
        == [store.sessions.select(Filter(), limit=1)[0].uid]
        == ["toy:s2"]
    )


def test_a_long_listing_takes_as_many_queries_as_a_short_one(
    store: Store, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.put(*(line(s=f"s{n}", id=f"a{n}", kind="assistant_msg", tokens=7) for n in range(30)))
    ran: list[str] = []

    def count_queries(name: str) -> None:
        run = getattr(Database, name)

        def counting(self: Database, sql: str, bindings: Sequence[Any] = ()) -> Any:
            ran.append(sql)
            return run(self, sql, bindings)

        monkeypatch.setattr(Database, name, counting)

    count_queries("one")
    count_queries("all")
    queries = []
    for limit in (1, 30):
        ran.clear()
        lines = store.sessions.select(Filter(), limit=limit)
        assert [one.tokens for one in lines] == [7] * limit
        queries.append(len(ran))
    assert queries[0] == queries[1]


def test_sessions_are_labelled_however_many_are_asked_for(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="fix it"))
    another.put(line(id="b", text="a poem"))
    both = {"toy:s1": ("toy", "fix it", None), "toy:s2": ("toy", "a poem", None)}
    assert store.sessions.labels(["toy:s1", "toy:s2", "toy:gone"]) == both
    assert store.sessions.labels(["toy:s1", *(f"toy:gone-{n}" for n in range(2000))]) == {
        "toy:s1": both["toy:s1"]
    }
    assert store.sessions.labels([]) == {}


def test_sessions_are_found_by_the_beginnings_of_their_ids(
    store: Store, toy: Toy, tmp_path: Path
) -> None:
    for name in ("alpha", "alpine", "beta", "beta_1", "gamma"):
        Agent(store, toy, tmp_path / f"{name}.jsonl").put(line(s=name, id=name, text="x"))

    def find(*beginnings: str) -> list[str]:
        return sorted(store.sessions.uids(Filter(beginnings=beginnings)))

    assert find("alp", "beta_") == ["toy:alpha", "toy:alpine", "toy:beta_1"]
    assert find("alpha", "alpha", "al") == ["toy:alpha", "toy:alpine"], "each once"
    assert find("toy", "%") == []
    assert find(*(f"none-{n}" for n in range(499)), "gamma") == ["toy:gamma"]


def test_a_whole_path_is_that_folder_and_what_lies_below(store: Store, agent: Agent) -> None:
    agent.put(line(s="s1", id="a"), line(s="s1/below", id="b"), line(s="s12", id="c"))
    assert sorted(store.sessions.uids(Filter(cwd="/work/s1"))) == ["toy:s1", "toy:s1/below"]
    assert sorted(store.sessions.uids(Filter(cwd="work/s1"))) == [
        "toy:s1",
        "toy:s1/below",
        "toy:s12",
    ]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("api", ["s1", "s2"]), ("API", ["s1", "s2"]), ("acme/api", ["s1"]),
        ("acme/*", ["s1", "s3"]), ("api*", ["s1", "s2", "s3"]),
        ("*api", ["s1", "s2"]), ("ap", []), ("acme", []), ("cme/api", []), ("a[pq]i", ["s1", "s2"]),
    ],
)  # fmt: skip
def test_a_repository_is_named_whole_or_by_what_follows_its_last_slash(
    store: Store, agent: Agent, pattern: str, found: list[str]
) -> None:
    repos = {"s1": "acme/api", "s2": "api", "s3": "acme/api-docs", "s4": None}
    agent.put(*(line(s=name, id=name) for name in repos))
    store.ingest.set_places({f"toy:{name}": (repo, None) for name, repo in repos.items()})
    assert (
        sorted(uid.partition(":")[2] for uid in store.sessions.uids(Filter(repo=pattern))) == found
    )


def test_a_session_of_the_future_is_sorted_by_when_it_was_read(store: Store, agent: Agent) -> None:
    year = 365 * 86_400
    agent.put(line(s="old", id="o", text="needle"))
    agent.put(line(s="future", id="f", text="needle", at=60 * year))
    now = datetime.now(UTC)
    agent.put(line(s="new", id="n", text="needle", at=int((now - START).total_seconds()) + 60))

    def order(**chosen: Any) -> list[str]:
        return [line.uid[4:] for line in store.sessions.select(Filter(**chosen))]

    assert order() == ["new", "future", "old"]
    assert [uid[4:] for uid in store.sessions.uids(Filter(), limit=2)] == ["new", "future"]
    numbers = store.sessions.numbers(Filter())
    lines = store.sessions.lines(sorted(numbers))
    for by in ("ended", "started"):
        newest = store.sessions.newest(sorted(numbers), by=by)
        assert [lines[number].uid[4:] for number in newest] == ["new", "future", "old"]
    assert store.sessions.find("toy:")[0] == "toy:new"
    assert order(since=now - timedelta(hours=1)) == ["new", "future"], "it was read just now"
    assert order(since=now + timedelta(seconds=30)) == ["new"]
    assert order(until=now + timedelta(seconds=30)) == ["future", "old"]
    assert order(until=now - timedelta(hours=1)) == ["old"]
    (shown,) = (line for line in store.sessions.select(Filter()) if line.uid == "toy:future")
    assert shown.ended_at is not None
    assert shown.ended_at > "2080", "its time is shown as it is"


def test_a_session_without_times_is_as_old_as_its_file(store: Store, agent: Agent) -> None:
    agent.write(line(id="a", at=None))
    written = START + timedelta(days=9)
    os.utime(agent.file, (written.timestamp(), written.timestamp()))
    agent.put()

    def is_found(**chosen: Any) -> bool:
        return bool(store.sessions.select(Filter(**chosen)))

    day = timedelta(days=1)
    assert is_found(since=written, until=written + day)
    assert not is_found(until=written)
    assert not is_found(since=written + day)


def test_repositories_are_named_by_what_is_known_of_all_sessions(
    store: Store, agent: Agent
) -> None:
    agent.put(line(s="s1", id="a"), line(s="s2", id="b"))
    store.ingest.set_places({"toy:s1": ("s1", None)})
    places = store.ingest.places()
    assert [(place.cwd, place.repo, place.recorded) for place in places] == [
        ("/work/s1", "s1", None), ("/work/s2", None, None),
    ]  # fmt: skip
    store.ingest.set_repos({place.number: "acme/api" for place in places[1:]})
    assert [place.repo for place in store.ingest.places()] == ["s1", "acme/api"]


def test_a_repository_that_is_known_with_its_owner_stays_so(store: Store, agent: Agent) -> None:
    agent.put(line(s="s1", id="a"))
    told: list[str | None] = []
    for repo in ("api", "acme/api", "api", "clone", None, "acme/web"):
        store.ingest.set_places({"toy:s1": (repo, None)})
        session = store.sessions.get("toy:s1")
        assert session is not None
        told.append(session.repo)
    assert told == ["api", *["acme/api"] * 4, "acme/web"]


def test_a_domain_follows_the_repository_and_what_it_is_said_to_be_now(
    store: Store, agent: Agent
) -> None:
    agent.put(*(line(s=name, id=name) for name in ("s1", "s2", "s3")))
    store.ingest.set_places({"toy:s1": ("acme/api", None), "toy:s2": ("acme/web", None)})

    def domains(said: dict[str | None, str]) -> list[str | None]:
        store.ingest.set_domains(said.get)
        return [
            session.domain
            for uid in ("toy:s1", "toy:s2", "toy:s3")
            if (session := store.sessions.get(uid)) is not None
        ]

    assert domains({"acme/api": "back", "acme/web": "front"}) == ["back", "front", None]
    assert domains({"acme/api": "core", None: "elsewhere"}) == ["core", None, "elsewhere"]
    store.ingest.set_places({"toy:s1": ("acme/web", None)})
    assert domains({"acme/web": "front"}) == ["front", "front", None]


@IN_A_FILE
def test_a_store_that_cannot_be_written_can_be_read(
    store: Store, url: str, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.put(line(id="a", text="one"))
    copy = Path(url).with_name("copy.db")
    store.backup(copy)
    # As root, a test may write everywhere.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    connect = database._connect_as

    def connect_as(path: str, options: str) -> apsw.Connection:
        if options == "mode=ro" and path == str(copy):
            raise apsw.CantOpenError("unable to open database file")
        return connect(path, options)

    monkeypatch.setattr(database, "_connect_as", connect_as)
    for place in (copy, Path(url)):  # One without a log, and one whose log is in use.
        reader = open_store(str(place), read_only=True)
        assert reader.sessions.bodies("toy:s1") == {0: "one"}
        assert reader.index.postings("one")
        reader.backup(Path(url).with_name(f"of-{place.name}"))
        reader.close()
    assert not copy.with_name("copy.db-wal").exists(), "nothing is made beside it"
    copy.with_name("copy.db-wal").write_bytes(b"the last writes")
    with pytest.raises(
        StoreError, match=r"its last writes are in copy\.db-wal and cannot be read here"
    ):
        open_store(str(copy), read_only=True)


@IN_A_FILE
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0,
    reason="root may write everywhere, and Windows has other rights",
)
def test_a_store_in_a_folder_that_cannot_be_written_can_be_read(
    tmp_path: Path, store: Store, agent: Agent
) -> None:
    agent.put(line(id="a", text="one"))
    folder = tmp_path / "shut"
    folder.mkdir()
    store.backup(folder / "copy.db")
    folder.chmod(0o500)
    reader = open_store(str(folder / "copy.db"), read_only=True)
    assert reader.sessions.bodies("toy:s1") == {0: "one"}
    reader.close()
    folder.chmod(0o700)


@IN_A_FILE
def test_a_copy_that_finds_no_room_says_so(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(apsw.Error):
        result = apsw.SQLITE_OK

    def quit_in_the_middle(*args: object) -> None:
        raise Full("not an error")

    with pytest.raises(StoreError, match=r"copy\.db: the disk is full"):
        store.backup(tmp_path / "copy.db", quit_in_the_middle)
    assert not list(tmp_path.glob("copy.db*"))


def test_a_file_that_is_no_store_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "junk.db").write_bytes(b"junk" * 1000)
    with pytest.raises(StoreError, match=r"junk\.db is not a runlore store \(.*config\.toml"):
        open_store(str(tmp_path / "junk.db"), read_only=True)


def test_a_store_that_is_damaged_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_store(str(path)).close()
    path.write_bytes(path.read_bytes()[:100] + b"junk" * 10_000)
    with pytest.raises(
        StoreError,
        match=r"is damaged .*; put a backup there, or move it away and run `runlore sync`",
    ):
        open_store(str(path), read_only=True)


def test_words_phrases_and_prefixes_are_found_in_their_column(store: Store, agent: Agent) -> None:
    agent.put(
        line(id="a", text="why does parseHttpUrl fail"),
        line(id="b", kind="assistant_msg", text="because src/app/main.py is wrong"),
        line(id="c", kind="tool_result", text="搜索功能 ModuleNotFoundError"),
    )
    for word in (
        "parseHttpUrl",
        "http",
        "main py",
        "搜索",
        "功能",
        "modulenotfounderror",
        "module",
    ):
        assert len(store.index.postings(word)) == 1, word
    assert store.index.postings("fail", column="prompt")
    assert not store.index.postings("fail", column="reply")
    assert store.index.postings("becau", prefix=True)
    assert not store.index.postings("becau")
    assert not store.index.postings("main wrong")


def test_a_forgotten_session_leaves_every_tier_and_does_not_come_back(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="unforgettable"))
    another.put(line(id="b", text="stays"))
    store.retention.forget(["toy:s1"], datetime.now(UTC))
    assert store.sessions.get("toy:s1") is None
    assert (
        store.sessions.events("toy:s1"),
        store.index.postings("unforgettable"),
        list(store.sources.native_records(str(agent.file))),
    ) == ([], [], [])
    assert agent.put(line(id="c", text="unforgettable too")).forgotten == 1
    assert (
        store.sessions.get("toy:s1"),
        store.index.postings("unforgettable"),
        list(store.sources.native_records(str(agent.file))),
    ) == (None, [], [])
    assert store.sessions.bodies("toy:s2") == {0: "stays"}


def test_what_a_fork_copied_from_a_forgotten_session_is_forgotten_too(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="unforgettable"))
    another.put(line(id="a", text="unforgettable"), line(id="b", up="a", text="its own"))
    assert store.retention.copies_of(["toy:s1"]) == ["toy:s2"]
    store.retention.forget(["toy:s1"], datetime.now(UTC))
    assert [(e.summary, e.origin) for e in store.sessions.events("toy:s2")] == [
        ("[forgotten]", None),
        ("its own", None),
    ]
    assert store.sessions.bodies("toy:s2") == {1: "its own"}
    assert another.put(line(id="c", up="b", text="goes on")).events == 1


def test_newer_rules_are_run_over_what_is_stored(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="the plan is xyzzy, really"), line(id="b", text="nothing here"))
    number = agent.number

    class Cleaner:
        def text(self, text: str) -> str:
            return text.replace("xyzzy", "[redacted]")

        def value(self, value: object) -> object:
            return (
                {k: self.text(v) if isinstance(v, str) else v for k, v in value.items()}
                if isinstance(value, dict)
                else value
            )

    assert store.sources.unredacted("next")
    assert store.retention.redact_again(number, "next", Cleaner()) > 0
    assert store.sessions.bodies("toy:s1") == {
        0: "the plan is [redacted], really",
        1: "nothing here",
    }
    assert "xyzzy" not in str(store.sessions.events("toy:s1")) + str(
        store.sessions.get("toy:s1")
    ) + str(list(store.sources.native_records(str(agent.file))))
    assert not store.index.postings("xyzzy")
    assert store.index.postings("redacted")
    assert not store.sources.unredacted("next")
    assert agent.put(line(id="c", up="a", text="goes on")).events == 1


def test_a_source_that_moved_or_vanished_is_said_and_its_sessions_stay(
    store: Store, agent: Agent
) -> None:
    agent.put(line(id="a", text="one"))
    store.sources.mark_missing([agent.number], datetime.now(UTC))
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert session.source_missing_at is not None
    moved = agent.file.rename(agent.file.with_name("moved.jsonl"))
    agent_number = agent.number
    agent.file = moved
    store.sources.move(agent_number, agent.source)
    session = store.sessions.get("toy:s1")
    assert session is not None
    assert (session.source_path, session.source_missing_at) == (str(moved), None)


def test_words_are_found_as_soon_as_they_are_put(store: Store, agent: Agent) -> None:
    with store.transaction():
        for count, word in enumerate(("apple", "pear", "plum"), 1):
            # The segment of before is filled up, and written again.
            agent.put(line(id=word, text=word))
            assert [len(store.index.postings(name)) for name in ("apple", "pear", "plum")] == [
                1
            ] * count + [0] * (3 - count)
            assert store.index.segment_count() == 1


def test_a_step_that_fails_takes_no_words_of_others_with_it(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="apple"))

    def broken() -> Iterator[Batch]:
        yield from agent.fresh()
        raise RuntimeError

    with store.transaction():
        another.put(line(id="b", text="pear"))
        agent.file.write_bytes(line(id="c", text="plum"))
        with pytest.raises(RuntimeError):
            store.ingest.rewrite(agent.number, broken())
    assert [len(store.index.postings(word)) for word in ("apple", "pear", "plum")] == [1, 1, 0]


def test_one_sync_at_a_time(store: Store, url: str) -> None:
    other = open_store(url)
    with store.sync_lock(), pytest.raises(StoreBusy), other.sync_lock():
        pass
    with other.sync_lock():
        pass
    other.close()


def test_a_reader_is_not_blocked_by_a_writer(store: Store, url: str, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    reader = open_store(url, read_only=True)
    with store.transaction():
        agent.put(line(id="b", text="two"))
        assert len(reader.sessions.events("toy:s1")) == 1
    assert len(reader.sessions.events("toy:s1")) == 2
    reader.close()


# ── the ledger ────────────────────────────────────────────────────────────────────────────────────
NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)


def call(key: str = "k1", session: str = "s1", **fields: Any) -> Call:
    return Call(
        **{
            "key": key,
            "session_uid": f"toy:{session}",
            "ts": NOON,
            "model": "m",
            "input_tokens": 100,
            **fields,
        }
    )


def event_of(native_id: str) -> int:
    return native_hash("toy", native_id)


def bill(agent: Agent, *calls: LedgerCall | Call, is_merged: bool = True) -> Put:
    """Puts a batch with a new event and these calls, as a sync would."""
    agent.write(
        line(id=f"of-{agent.file.stat().st_size if agent.file.exists() else 0}-{agent.file.stem}")
    )
    kept = [one if isinstance(one, LedgerCall) else LedgerCall(call=one) for one in calls]
    batch = msgspec.structs.replace(agent.batch(), calls=kept)
    return agent.store.ingest.put(merge_with_ledger(agent.store, batch) if is_merged else batch)


def prices(
    store: Store, usd: int = 7, basis: str = "listed", match: str = "exact", source: str = "list"
) -> int:
    """Gives everything without a price this one."""
    rows = [
        PriceRow(h, usd, basis, source, None, match, "m", None, None)
        for h, _ in store.ledger.unpriced()
    ]
    store.ledger.set_prices(rows)
    return len(rows)


def every(store: Store) -> list[CallSum]:
    return store.ledger.sum([], CallFilter())


def test_a_call_is_kept_with_its_event_and_found_by_its_hash(store: Store, agent: Agent) -> None:
    agent.put(line(id="a"), line(id="b"))
    bill(
        agent,
        LedgerCall(call=call(output_tokens=5, tier="fast", request_id="r"), event=event_of("b")),
    )
    [kept] = store.ledger.find([hash_of(call())])
    assert kept.call == call(output_tokens=5, tier="fast", request_id="r", seq=1)
    assert store.ledger.find([1]) == store.ledger.find([]) == []


def test_a_call_told_by_a_record_without_an_event_is_where_that_record_stands(
    store: Store, agent: Agent
) -> None:
    agent.put(line(id="a"), line(id="p", up="a", alias=True), line(id="b", up="p"))
    bill(agent, LedgerCall(call=call(), event=event_of("p")))
    assert [kept.call.seq for kept in store.ledger.find([hash_of(call())])] == [0]


def test_a_second_put_of_the_same_call_writes_nothing(store: Store, agent: Agent) -> None:
    bill(agent, call())
    prices(store)
    batch = msgspec.structs.replace(
        agent.write(line(id="z")).batch(), calls=[LedgerCall(call=call())]
    )
    assert merge_with_ledger(store, batch).calls == []
    bill(agent, call())
    assert store.ledger.unpriced() == []


def test_a_copy_that_does_not_count_changes_neither_place_nor_price(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a"))
    bill(agent, LedgerCall(call=call(output_tokens=9), event=event_of("a")))
    prices(store)
    bill(another, LedgerCall(call=call(session="s2", output_tokens=1), event=event_of("nowhere")))
    [kept] = store.ledger.find([hash_of(call())])
    assert (kept.call.seq, kept.call.output_tokens) == (0, 9)
    assert [copy.session_uid for copy in kept.superseded] == ["toy:s2"]
    assert store.ledger.unpriced() == []
    assert [one.kept.call.key for one in store.ledger.copied("toy:s2")] == ["k1"]
    assert store.ledger.copied("toy:s1") == []
    store.db.execute("update calls set flags = 0")  # type: ignore[attr-defined]
    store.maintenance.recount(
        [number for (number,) in store.maintenance.rows("select number from sessions")]
    )
    assert [one.kept.call.key for one in store.ledger.copied("toy:s2")] == ["k1"], (
        "also of calls from before it was noted"
    )


def test_a_better_copy_takes_the_call_and_its_cost_to_its_session(
    store: Store, agent: Agent, another: Agent
) -> None:
    bill(another, call(session="s2", output_tokens=1))
    prices(store, usd=USD)
    assert usd_of(store, "toy:s2") == 1.0
    bill(agent, call(output_tokens=9))
    assert prices(store, usd=2 * USD) == 1, "other figures have another price"
    assert (usd_of(store, "toy:s1"), usd_of(store, "toy:s2")) == (2.0, None)


def usd_of(store: Store, uid: str) -> float | None:
    session = store.sessions.get(uid)
    assert session is not None
    return session.cost.usd


def test_what_was_spent_is_told_in_short(store: Store, agent: Agent) -> None:
    bill(agent, call("k1", seq=0, input_tokens=1, output_tokens=20, cache_write_1h_tokens=300))
    assert store.ledger.spent("toy:s1") == [(0, 321, None)]
    prices(store, usd=7)
    bill(agent, call("k2", seq=-1, input_tokens=5))
    prices(store, usd=0, basis="none")
    bill(agent, call("k3", session="s2"))
    assert sorted(store.ledger.spent("toy:s1")) == [(-1, 5, None), (0, 321, 7)]
    assert store.ledger.spent("toy:nobody") == []


def test_pricing_again_keeps_the_old_figure_and_never_touches_an_invoice(
    store: Store, agent: Agent
) -> None:
    bill(agent, call("k1"), call("k2", invoiced=5))
    rows = [PriceRow(h, 5 if one.invoiced else 7, "invoiced" if one.invoiced else "listed", "x",
    None, "exact", "m", None, None)
            for h, one in store.ledger.unpriced()]  # fmt: skip
    store.ledger.set_prices(rows)
    assert store.ledger.unprice(["y"]) == 0, "an exact price stays, whichever table it is from"
    assert store.ledger.unprice() == 1
    assert prices(store, usd=8) == 1
    found = {
        one.kept.call.key: (one.price.usd if one.price else None, one.old_usd)
        for one in store.ledger.billed("toy:s1")
    }
    assert found == {"k1": (8, 7), "k2": (5, None)}
    assert usd_of(store, "toy:s1") == pytest.approx(13 / USD)


def test_what_another_table_had_no_exact_price_for_is_priced_again(
    store: Store, agent: Agent
) -> None:
    bill(agent, call("k1"))
    prices(store, match="fuzzy", source="old")
    assert store.ledger.unprice(["old"]) == 0
    assert store.ledger.unprice(["new"]) == 1
    assert len(store.ledger.unpriced()) == 1


def test_doubtful_are_calls_without_a_certain_price(store: Store, agent: Agent) -> None:
    for match, basis in (
        ("exact", "listed"),
        ("alias", "listed"),
        ("fuzzy", "listed"),
        ("none", "none"),
    ):
        bill(agent, call(match, model=f"{match}-1"))
        prices(store, basis=basis, match=match)
    bill(agent, call("noted", model="noted-1"))
    store.ledger.set_prices(
        [
            PriceRow(h, 7, "listed", "list", None, "exact", "m", None, "sum")
            for h, _ in store.ledger.unpriced()
        ]
    )
    bill(agent, call("new", model="new-1"))
    found = store.ledger.sum(["model", "price_match", "price_notes"], CallFilter(is_doubtful=True))
    assert {(one.keys, one.calls) for one in found} == {
        (("fuzzy-1", "fuzzy", None), 1), (("none-1", "none", None), 1),
        (("noted-1", "exact", "sum"), 1), (("new-1", None, None), 1)
    }  # fmt: skip


def test_forgetting_a_session_forgets_its_calls(store: Store, agent: Agent, another: Agent) -> None:
    bill(agent, call("k1"))
    bill(another, call("k2", session="s2"))
    store.retention.forget(["toy:s1"], NOON)
    assert [one.calls for one in every(store)] == [1]
    bill(agent, call("k1"))
    assert [one.calls for one in every(store)] == [1], "it does not come back"


def test_forgetting_a_session_forgets_what_its_model_is_called(
    store: Store, agent: Agent, another: Agent
) -> None:
    bill(agent, call("k1", model="secret-1"), call("k2", model="known-1"))
    bill(another, call("k3", session="s2", model="known-1"))
    store.retention.forget(["toy:s1"], NOON)
    assert store.maintenance.rows("select model from models") == [("known-1",)]


def test_a_model_that_another_process_forgot_has_its_name_when_it_is_used_again(
    url: str, store: Store, toy: Toy, another: Agent, agent: Agent
) -> None:
    bill(agent, call("k1", model="seldom-1"))
    with closing(open_store(url)) as other:
        other.retention.forget(["toy:s1"], NOON)
        bill(
            Agent(other, toy, agent.file.with_name("s3.jsonl")),
            call("k3", session="s3", model="new-1"),
        )
    bill(another, call("k2", session="s2", model="seldom-1"))
    assert {one.keys[0] for one in store.ledger.sum(["model"], CallFilter())} == {
        "seldom-1",
        "new-1",
    }


def test_models_without_end_take_no_longer_each(toy: Toy, tmp_path: Path) -> None:
    steps = []
    for number in (200, 400):
        with closing(open_store(str(tmp_path / f"{number}.db"))) as store:
            agent = Agent(store, toy, tmp_path / str(number) / "s1.jsonl")
            ticks = count()
            store.db.connection.set_progress_handler(lambda ticks=ticks: bool(next(ticks) < 0), 100)  # type: ignore[attr-defined]
            bill(agent, *(call(f"k{n}", model=f"strange-{n}\0") for n in range(number)))
            steps.append(next(ticks))
            assert len(store.ledger.sum(["model"], CallFilter())) == number
    assert steps[1] < 3 * steps[0]


def test_sums_are_exact_beyond_64_bits(store: Store, agent: Agent) -> None:
    bill(agent, *(call(f"k{n}", invoiced=MAX_UNITS) for n in range(200)))
    prices(store, usd=MAX_UNITS, basis="invoiced")
    assert every(store)[0].usd == 200 * MAX_UNITS > 1 << 63
    assert usd_of(store, "toy:s1") == 200 * MAX_UNITS / USD


def test_nothing_adds_up_to_nothing(store: Store, agent: Agent) -> None:
    agent.put(line(id="a"))
    assert every(store) == store.ledger.sum(["day"], CallFilter()) == []
    assert store.ledger.times() is None


def test_sums_are_grouped_and_filtered(store: Store, agent: Agent, another: Agent) -> None:
    bill(
        agent,
        call("k1", model="Opus-4"),
        call("k2", ts=NOON + timedelta(days=1)),
        call("k3", ts=None, is_sidechain=True),
    )
    bill(another, call("k4", session="s2", model="<none>"))
    prices(store, basis="none", match="none")

    def counts(by: str, **chosen: Any) -> dict[Any, int]:
        return {one.keys[0]: one.calls for one in store.ledger.sum([by], CallFilter(**chosen))}

    assert counts("agent") == {"toy": 4}
    assert counts("session") == {"toy:s1": 3, "toy:s2": 1}
    assert counts("model") == {"Opus-4": 1, "m": 2, "<none>": 1}
    assert counts("branch") == {"main": 4}
    assert counts("machine") == {store.machine: 4}
    assert counts("repo") == {"/work/s1": 3, "/work/s2": 1}
    assert counts("subagent") == {"main": 3, "sidechain": 1}
    assert counts("day", since=NOON) == {NOON.toordinal(): 2, NOON.toordinal() + 1: 1}
    assert counts("day")[None] == 1, "a call without a time is in no day"
    assert counts("model", model="opus") == counts("model", model="OPUS-*") == {"Opus-4": 1}
    assert counts("model", since=NOON, until=NOON + timedelta(days=1)) == {"Opus-4": 1, "<none>": 1}
    assert counts("agent", cwd="/work/s2") == counts("agent", session="toy:s2") == {"toy": 1}
    assert (
        counts("agent", agent="other")
        == counts("agent", branch="dev")
        == counts("agent", machine="x")
        == {}
    )
    assert counts("agent", is_subagent=True) == {"toy": 1}
    assert counts("agent", is_subagent=False) == {"toy": 3}
    assert [one.unpriced for one in every(store)] == [3], "what no model said needs no price"


def test_a_task_is_counted_with_the_subagents_of_its_sessions(
    store: Store, agent: Agent, another: Agent
) -> None:
    bill(agent, call("k1"))
    bill(another, call("k2", session="s2"))

    def calls() -> dict[Any, int]:
        return {one.keys[0]: one.calls for one in store.ledger.sum(["task"], CallFilter())}

    assert calls() == {None: 2}, "sessions without a task are one group"
    change = store.db.execute  # type: ignore[attr-defined]
    change("update sessions set task_ref = 'acme/shop#7' where uid = 'toy:s1'")
    assert calls() == {"acme/shop#7": 1, None: 1}
    change("update sessions set parent_uid = 'toy:s1', relation = 'subagent' where uid = 'toy:s2'")
    assert calls() == {"acme/shop#7": 2}


def test_days_follow_the_clock_where_it_was_set(store: Store, agent: Agent) -> None:
    """23:30 UTC is the next day an hour east, and the same day once the clock is an hour back."""
    before, after = (
        datetime(2026, 10, 20, 23, 30, tzinfo=UTC),
        datetime(2026, 10, 30, 23, 30, tzinfo=UTC),
    )
    bill(agent, call("k1", ts=before), call("k2", ts=after))
    change = int(datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp())
    found = store.ledger.sum(["day"], CallFilter(), [(0, 3600), (change, 0)])
    assert sorted(one.keys[0] for one in found) == [before.toordinal() + 1, after.toordinal()]


@pytest.mark.parametrize("year", [1, 1969, 1970, 9999])
def test_a_strange_year_is_a_day_like_any_other(store: Store, agent: Agent, year: int) -> None:
    moment = datetime(year, 12, 31, 23, 59, 59, tzinfo=UTC)
    bill(agent, call("k1", ts=moment))
    assert [
        one.keys[0] for one in store.ledger.sum(["day"], CallFilter(), [(0, -3600), (10**9, -3600)])
    ] == [moment.toordinal()]
    assert store.ledger.times() == (format_time(moment), format_time(moment))


def test_an_outline_has_every_event_and_what_was_tried_as_it_is(store: Store, agent: Agent) -> None:
    agent.put(
        line(id="a", text="fix it"),
        line(id="b", up="a", kind="thinking", text="so"),
        line(id="c", up="b", kind="tool_call", text="make", tool="sh", call="c1", files=["a.py"]),
        line(id="d", up="c", kind="tool_result", text="no rule", call="c1", error=True),
        line(id="e", up="d", kind="tool_call", text="make", tool="sh", call="c2"),
        line(id="f", up="e", kind="tool_result", text="done", call="c2"),
        line(id="g", up="f", kind="lifecycle", text="end"),
    )
    store.db.execute("update events set kind = 'of tomorrow' where native_id = 'g'")  # type: ignore[attr-defined]
    whole, found = store.sessions.events("toy:s1"), store.sessions.outline("toy:s1")
    for place, every in (
        ("seq parent_seq call_id is_error is_sidechain", range(7)),
        ("kind tool summary files origin", (0, 2, 3, 4)),
    ):
        for name in place.split():
            assert [getattr(found[n], name) for n in every] == [
                getattr(whole[n], name) for n in every
            ]
    assert [(one.kind, one.summary) for one in found[5:]] == [
        ("tool_result", None),
        ("lifecycle", None),
    ]
    assert store.sessions.outline("toy:nobody") == []


def test_what_events_and_calls_tell_otherwise_is_found_with_subagents(
    store: Store, agent: Agent, another: Agent
) -> None:
    bill(agent, call("k1"))
    bill(another, call("k2", session="s2"))

    def tell(uid: str, tokens: int, **changes: str | None) -> None:
        for name, value in {"cache_write_tokens": tokens, **changes}.items():
            store.db.execute(f"update sessions set {name} = ? where uid = ?", (value, uid))  # type: ignore[attr-defined]

    assert store.ledger.gaps(None) == (2, []), "events that tell of nothing say nothing"
    tell("toy:s1", 100)
    tell("toy:s2", 101)
    assert store.ledger.gaps(None) == store.ledger.gaps("toy") == (2, [("toy:s2", 101, 100)])
    assert store.ledger.gaps("other") == (0, [])
    tell("toy:s1", 99, parent_uid="toy:s2", relation="subagent")
    assert store.ledger.gaps(None) == (1, [])
    tell("toy:s1", 98)
    assert store.ledger.gaps(None) == (1, [("toy:s2", 199, 200)])
    tell("toy:s2", 101, parent_uid="toy:s1", relation="subagent")
    assert (store.ledger.gaps(None)[0], sorted(store.ledger.gaps(None)[1])) == (
        2,
        [("toy:s1", 98, 100), ("toy:s2", 101, 100)],
    ), "in a circle"
    tell("toy:s1", 98, parent_uid="toy:nobody")
    assert store.ledger.gaps(None) == (1, [("toy:s1", 199, 200)]), "its parent is not stored"


def test_the_calls_that_started_subagents_are_remembered(store: Store, agent: Agent) -> None:
    names = ("s1", "s1/a", "s1/b", "s1/fork")
    agent.write(*[line(s=name, id=name, text="x") for name in names])
    batch = agent.batch()
    facts = {
        "toy:s1/a": {"parent_call": "c1", "relation": "subagent"},
        "toy:s1/b": {"relation": "subagent"},
        "toy:s1/fork": {"parent_call": "c2", "relation": "fork"},
    }
    for delta in batch.deltas:
        if told := facts.get(delta.session_uid):
            delta.facts = msgspec.structs.replace(delta.facts, parent_uid="toy:s1", **told)
    store.ingest.put(batch)
    assert store.overview.parent_calls("toy:s1") == {"toy:s1/a": "c1"}
    assert store.overview.parent_calls("toy:s1/a") == store.overview.parent_calls("toy:x") == {}


def test_subagents_are_counted_at_any_depth_and_in_a_circle(store: Store, agent: Agent) -> None:
    above = {"s1/a": "s1", "s1/b": "s1", "s1/b/c": "s1/b", "o": "p", "p": "o"}
    names = ("s1", "s1/fork", *above)
    agent.write(*[line(s=name, id=name, text="x") for name in names])
    batch = agent.batch()
    for delta in batch.deltas:
        name = delta.session_uid.removeprefix("toy:")
        if parent := above.get(name, "s1" if name == "s1/fork" else None):
            relation = "subagent" if name in above else "fork"
            delta.facts = msgspec.structs.replace(
                delta.facts, parent_uid=f"toy:{parent}", relation=relation
            )
    store.ingest.put(batch)
    counted = store.overview.subagents()
    assert counted == {"toy:s1": 3, "toy:s1/b": 1, "toy:o": 1, "toy:p": 1}
    lines = store.sessions.select(Filter(parents_only=False))
    assert {one.uid: one.subagents for one in lines if one.subagents} == counted


def test_a_session_is_counted_with_its_subagents(
    store: Store, agent: Agent, another: Agent
) -> None:
    bill(agent, call("k1"))
    bill(another, call("k2", session="s2"))
    store.db.execute(  # type: ignore[attr-defined]
        "update sessions set parent_uid = 'toy:s1', relation = 'subagent' where uid = 'toy:s2'"
    )
    assert [(one.keys, one.calls) for one in store.ledger.sum(["session"], CallFilter())] == [
        (("toy:s1",), 2)
    ]
    assert [one.calls for one in store.ledger.sum([], CallFilter(session="toy:s1"))] == [2]
    assert [one.calls for one in store.ledger.sum([], CallFilter(session="toy:s2"))] == [1]
    assert [one.calls for one in store.ledger.sum([], CallFilter(is_subagent=True))] == [1]
    # Where parents lead in a circle, everyone is counted, and once.
    store.db.execute(  # type: ignore[attr-defined]
        "update sessions set parent_uid = 'toy:s2', relation = 'subagent' where uid = 'toy:s1'"
    )
    assert sum(one.calls for one in store.ledger.sum(["session"], CallFilter())) == 2
    assert [one.calls for one in store.ledger.sum([], CallFilter(session="toy:s1"))] == [2]


def below(store: Store, **parents: str) -> None:
    for name, parent in parents.items():
        store.db.execute(  # type: ignore[attr-defined]
            "update sessions set parent_uid = ?, relation = 'subagent' where uid = ?",
            (f"toy:{parent}", f"toy:{name}"),
        )


def test_lists_choose_and_sort_by_the_figures_with_subagents(store: Store, agent: Agent) -> None:
    names = ("s1", "s2", "s3", "s4")
    agent.write(*[line(s=name, id=name, text="x", error=name == "s3") for name in names])
    calls = [
        call("k1", "s1"),
        call("k2", "s2", input_tokens=250),
        call("k3", "s3"),
        call("k4", "s3"),
    ]
    store.ingest.put(
        merge_with_ledger(
            store,
            msgspec.structs.replace(agent.batch(), calls=[LedgerCall(call=one) for one in calls]),
        )
    )
    prices(store, usd=USD)
    below(store, s3="s4", s4="s1")

    def sorted_by(sort: str) -> list[str]:
        return [one.uid for one in store.sessions.select(Filter(), sort=sort)]

    assert sorted_by("tokens") == ["toy:s1", "toy:s2"], "300 of a family, 250 of one session"
    assert sorted_by("cost") == ["toy:s1", "toy:s2"], "3 USD and 1"
    assert sorted_by("errors") == ["toy:s1", "toy:s2"]
    assert store.sessions.uids(Filter(errors=True)) == ["toy:s1"]
    assert store.sessions.uids(Filter(min_usd=2.5)) == ["toy:s1"]
    assert set(store.sessions.uids(Filter(errors=True, parents_only=False))) == {
        "toy:s1",
        "toy:s3",
        "toy:s4",
    }


def test_a_subagent_whose_parent_is_not_stored_is_a_session_of_its_own(
    store: Store, agent: Agent
) -> None:
    agent.write(*[line(s=name, id=name, text="x") for name in ("s1", "s2")])
    calls = [LedgerCall(call=call("k1", "s1")), LedgerCall(call=call("k2", "s2"))]
    store.ingest.put(merge_with_ledger(store, msgspec.structs.replace(agent.batch(), calls=calls)))
    prices(store, usd=USD)
    below(store, s1="nobody", s2="s1")
    (listed,) = store.sessions.select(Filter())
    assert (listed.uid, listed.relation, listed.usd_with_subagents) == ("toy:s1", "subagent", 2)
    assert [(one.keys, one.usd) for one in store.ledger.sum(["session"], CallFilter())] == [
        (("toy:s1",), 2 * USD)
    ]
    assert store.sessions.count(Filter()) == 1


def test_a_line_counts_the_calls_whose_price_is_not_known(
    store: Store, agent: Agent, another: Agent
) -> None:
    bill(agent, call("k1"))
    bill(another, call("k2", session="s2"), call("k3", session="s2"))
    below(store, s2="s1")
    prices(store, basis="none")
    (one,) = store.sessions.select(Filter())
    assert (one.unpriced, one.unpriced_with_subagents, one.usd_with_subagents) == (1, 3, None)
    family = store.overview.family("toy:s1")
    assert (family.own_unpriced, family.unpriced) == (1, 3)


def test_several_segments_at_once_are_what_each_of_them_is(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="apple " * 20_000), line(id="b", text="apple pie", files=["a.py"]))
    another.put(line(id="c", text="apple cake"))
    ids = store.index.postings("apple")
    assert len(ids) == 3
    assert store.index.segments([*ids, ids[-1] + 1]) == {
        id_: store.index.segment(id_) for id_ in ids
    }
    assert store.index.segments([]) == {}


@pytest.mark.parametrize("files", [True, False])
def test_a_segment_tells_which_text_the_program_added(
    store: Store, agent: Agent, files: bool
) -> None:
    agent.put(
        line(id="a", text="apple"),
        line(id="b", text="apple skills", kind="lifecycle"),
        line(id="c", text="apple", kind="tool_result", files=["a.py"]),
    )
    segment = store.index.segment(*store.index.postings("apple"), files=files)
    assert segment is not None
    assert [event.is_injected for event in segment[1]] == [False, True, False]
    assert segment[1][2].files == (("a.py",) if files else ())


def test_what_is_read_in_a_snapshot_is_of_one_moment(
    url: str, store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="apple pie"))
    reader = open_store(url, read_only=True)
    with reader.snapshot():
        before = (
            reader.index.postings("apple"),
            reader.index.postings("apple pie"),
            dict(reader.index.sizes()),
        )
        another.put(line(id="b", text="apple pie"))
        with reader.snapshot():  # One in another is the same one.
            assert (
                reader.index.postings("apple"),
                reader.index.postings("apple pie"),
                dict(reader.index.sizes()),
            ) == before
    assert [len(reader.index.postings(term)) for term in ("apple", "apple pie")] == [2, 2]
    assert len(reader.index.sizes()) == 2
    reader.close()


def test_batches_put_together_are_kept_as_when_put_one_by_one(
    store: Store, toy: Toy, tmp_path: Path
) -> None:
    """New ones, one that goes on, a copy, a session from two sources, and what was forgotten."""
    store.retention.forget(["toy:gone"], datetime.now(UTC))
    agents = {
        name: Agent(store, toy, tmp_path / "toy" / f"{name}.jsonl")
        for name in ("new", "old", "then", "more", "gone")
    }
    agents["old"].put(line(id="a", text="apple"))
    agents["new"].write(
        line(id="b", text="apple"),
        line(id="x", up="b", alias=True),
        line(id="c", up="x", text="pear"),
    )
    agents["old"].write(line(id="d", up="a", text="pear"))
    agents["then"].write(line(id="b", text="apple"), line(id="e", up="b", text="plum", at=9))
    agents["more"].write(line(s="new", id="f", up="c", text="plum"))
    agents["gone"].write(line(id="g", text="gone"))
    batches = [one.batch() for one in agents.values()]
    with store.transaction(), store.ingest.together(batches):
        done = [store.ingest.put(batch) for batch in batches]
        assert store.ingest.put(batches[0]).events == 0, "the second time nothing"
    assert [put.events for put in done] == [2, 1, 2, 1, 0]
    assert store.sessions.bodies("toy:new") == {0: "apple", 1: "pear", BLOCK: "plum"}
    assert store.sessions.bodies("toy:old") == {0: "apple", 1: "pear"}
    assert store.sessions.bodies("toy:then") == {0: "apple", 1: "plum"}
    assert [event.parent_seq for event in store.sessions.events("toy:new")] == [None, 0, 1]
    assert sorted(
        len(store.index.postings(word)) for word in ("apple", "pear", "plum", "gone")
    ) == [
        0,
        2,
        2,
        2,
    ]
    assert store.sessions.get("toy:gone") is None


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_what_several_sources_tell_of_a_session_is_the_same_however_many_are_put_at_once(
    store: Store, toy: Toy, tmp_path: Path, at_once: int
) -> None:
    """Two parts of it, all of it, and all of it once more, with calls that are told again."""
    parts = [
        [line(s="s", id="b", text="pear"), line(s="s", id="x", up="b", alias=True)],
        [line(s="s", id="d", up="b", text="plum"), line(s="s", id="t", title="fruit")],
        [
            line(s="s", id="a", text="apple"),
            line(s="s", id="b", up="a", text="pear"),
            line(s="s", id="c", up="b", text="fig"),
        ],
        [line(s="s", id="c", up="b", text="fig"), line(s="s", id="d", up="c", text="plum")],
    ]
    calls = [
        [LedgerCall(call=call("k1", "s", ts=NOON), event=event_of("x"))],
        [],
        [
            LedgerCall(call=call("k1", "s", ts=NOON, output_tokens=9), event=event_of("b")),
            LedgerCall(call=call("k2", "s"), event=event_of("c")),
        ],
        [LedgerCall(call=call("k2", "s"), event=event_of("c"))],
    ]
    agents = [
        Agent(store, toy, tmp_path / "toy" / f"{n}.jsonl").write(*lines)
        for n, lines in enumerate(parts)
    ]
    batches = [
        msgspec.structs.replace(agent.batch(), calls=mine)
        for agent, mine in zip(agents, calls, strict=True)
    ]
    done: list[Put] = []
    with store.transaction():
        for at in range(0, len(batches), at_once):
            with store.ingest.together(batches[at : at + at_once]):
                for batch in batches[at : at + at_once]:
                    done.append(store.ingest.put(merge_with_ledger(store, batch)))
                    store.ingest.set_places(
                        {"toy:s": ("acme/shop" if len(done) == 1 else "shop", None)}
                    )
    assert [(put.events, put.copies) for put in done] == [(1, 0), (1, 0), (2, 1), (0, 2)]
    assert store.sessions.bodies("toy:s") == {
        0: "pear",
        BLOCK: "plum",
        2 * BLOCK: "apple",
        2 * BLOCK + 2: "fig",
    }
    assert [event.parent_seq for event in store.sessions.events("toy:s")] == [None, 0, None, 0]
    assert sorted(len(store.index.postings(word)) for word in ("apple", "pear", "plum", "fig")) == [
        1,
        1,
        1,
        1,
    ]
    session = store.sessions.get("toy:s")
    assert session is not None
    assert (session.events, session.last_seq, session.title, session.repo) == (
        4,
        2 * BLOCK + 2,
        "fruit",
        "acme/shop",
    )
    kept = {
        one.call.key: one
        for one in store.ledger.find([hash_of(call("k1", "s")), hash_of(call("k2", "s"))])
    }
    assert {key: (one.call.seq, one.call.output_tokens) for key, one in kept.items()} == {
        "k1": (0, 9),
        "k2": (2 * BLOCK + 2, 0),
    }
    assert every(store)[0].calls == 2
    assert len(store.sources.by_path()) == 4


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_call_that_counts_elsewhere_has_all_of_its_copies(
    store: Store, agent: Agent, another: Agent, at_once: int
) -> None:
    batches = [
        msgspec.structs.replace(
            one.write(line(id=name, text=name)).batch(),
            calls=[LedgerCall(call=call("k", name, output_tokens=9 - n), event=event_of(name))],
        )
        for n, (one, name) in enumerate({agent: "s1", another: "s2"}.items())
    ]
    with store.transaction():
        for at in range(0, len(batches), at_once):
            with store.ingest.together(batches[at : at + at_once]):
                for batch in batches[at : at + at_once]:
                    store.ingest.put(merge_with_ledger(store, batch))
    [kept] = store.ledger.find([hash_of(call("k", "s1"))])
    uids = {kept.call.session_uid, *(copy.session_uid for copy in kept.superseded)}
    assert uids == {"toy:s1", "toy:s2"}


def test_an_alias_that_a_source_has_is_known_whatever_session_the_batch_is_of(
    store: Store, agent: Agent
) -> None:
    first = [line(s="A", id="a", text="one"), line(s="A", id="h", up="a", alias=True)]
    agent.put(*first)
    agent.write(*first, line(s="B", id="b", text="two"), line(s="B", id="h", up="a", alias=True))
    batch = agent.batch()
    others = [delta for delta in batch.deltas if delta.session_uid == "toy:B"]
    before = store.maintenance.rows("select * from aliases")
    store.ingest.put(msgspec.structs.replace(batch, deltas=others))
    assert store.maintenance.rows("select * from aliases") == before
    assert [event.native_id for event in store.sessions.events("toy:B")] == ["b"]


def test_two_agents_may_have_a_source_at_the_same_path(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    store.sources.touch(
        msgspec.structs.replace(agent.source, agent="other"), adapter_version=1, redact_version=""
    )
    assert sorted((state.source.agent, state.source.path) for state in store.sources.all()) == [
        ("other", str(agent.file)),
        ("toy", str(agent.file)),
    ]
    assert [state.source.agent for state in store.sources.by_path("toy").values()] == ["toy"]


def test_calls_that_are_there_are_known_also_while_others_are_put_together(
    store: Store, agent: Agent, another: Agent
) -> None:
    agent.put(line(id="a", text="one"))
    bill(agent, call())
    batch = msgspec.structs.replace(
        another.write(line(id="b", text="two")).batch(), calls=[LedgerCall(call=call("k2", "s2"))]
    )
    there, coming = hash_of(call()), hash_of(call("k2", "s2"))
    with store.transaction(), store.ingest.together([batch]):
        assert store.ledger.find([coming]) == []
        store.ingest.put(batch)
        assert [
            len(store.ledger.find(hashes)) for hashes in ([there], [coming], [there, coming])
        ] == [
            1,
            1,
            2,
        ]
