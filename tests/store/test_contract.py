"""What every store must do. A second database is held to the same by adding it to `STORES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runlore.adapters import Source
from runlore.errors import StoreBusy, StoreError
from runlore.model import BLOCK
from runlore.prepare import Job, Preparer, Setting
from runlore.store import Batch, Filter, Put, Store, open_store
from tests.toy import Toy, line

STORES: dict[str, Callable[[Path], str]] = {"sqlite": lambda folder: str(folder / "runlore.db")}


@pytest.fixture(params=sorted(STORES))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return STORES[request.param](tmp_path)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    made = open_store(url)
    yield made
    made.close()


class Agent:
    """Writes a toy agent's file, and puts what is new in it into the store."""

    def __init__(self, store: Store, adapter: Toy, file: Path) -> None:
        self.store, self.adapter, self.file = store, adapter, file
        file.parent.mkdir(parents=True, exist_ok=True)
        self.preparer = Preparer(Setting(key_path=str(file.parent / "key")))

    def write(self, *lines: bytes) -> Agent:
        with self.file.open("ab") as file:
            file.writelines(lines)
        return self

    @property
    def source(self) -> Source:
        return next(s for s in self.adapter.discover(self.file.parent) if s.path == str(self.file))

    def batch(self) -> Batch:
        state = self.store.sources().get(str(self.file))
        job = Job(source=self.source)
        if state is not None and state.position.offset:
            job = Job(source=self.source, since=state.position, resume=self.store.resume(state.number))
        batch = self.preparer.prepare(job).batch
        assert batch is not None
        return batch

    def put(self, *lines: bytes) -> Put:
        self.write(*lines)
        return self.store.put(self.batch())

    def fresh(self) -> Iterator[Batch]:
        """Everything from the beginning, as a source that was rewritten, or is derived again, is read."""
        batch = self.preparer.prepare(Job(source=self.source)).batch
        assert batch is not None
        yield batch

    @property
    def number(self) -> int:
        return self.store.sources()[str(self.file)].number


@pytest.fixture
def agent(store: Store, toy: Toy, tmp_path: Path) -> Agent:
    return Agent(store, toy, tmp_path / "toy" / "s1.jsonl")


@pytest.fixture
def another(store: Store, toy: Toy, tmp_path: Path) -> Agent:
    return Agent(store, toy, tmp_path / "toy" / "s2.jsonl")


def test_what_was_put_can_be_read(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="find the bug"), line(id="b", up="a", kind="assistant_msg", text="found it", tokens=7))
    session = store.session("toy:s1")
    assert session is not None
    assert (session.title, session.events, session.cost.turns, session.cost.output_tokens) == ("find the bug", 2, 1, 7)
    assert [(e.seq, e.kind, e.parent_seq, e.native_id) for e in store.events("toy:s1")] == [
        (0, "user_msg", None, "a"),
        (1, "assistant_msg", 0, "b"),
    ]
    assert store.bodies("toy:s1") == {0: "find the bug", 1: "found it"}


def test_a_body_is_named_with_its_length(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="äöü"), line(id="b", text="two"))
    refs = [event.payload_ref for event in store.events("toy:s1")]
    assert [ref.partition(":")[2] for ref in refs if ref] == ["0+6", "6+3"]


def test_putting_a_batch_twice_changes_nothing(store: Store, agent: Agent) -> None:
    batch = agent.write(line(id="a", text="one")).batch()
    assert store.put(batch).events == 1
    before = store.stats()
    assert store.put(batch).events == 0
    assert store.stats() == before


def test_what_is_added_later_is_linked_to_what_was_there(store: Store, agent: Agent) -> None:
    agent.put(line(id="a"))
    agent.put(line(id="b", up="a"))
    assert [event.parent_seq for event in store.events("toy:s1")] == [None, 0]


def test_a_record_without_an_event_passes_its_link_on_also_across_reads(store: Store, agent: Agent) -> None:
    agent.put(line(id="a"))
    agent.put(line(id="p", up="a", alias=True))
    agent.put(line(id="q", up="p", alias=True))
    agent.put(line(id="b", up="q"))
    assert [event.parent_seq for event in store.events("toy:s1")] == [None, 0]


def test_a_parent_that_comes_later_is_no_parent(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", up="b"), line(id="b", up="a"))
    assert [event.parent_seq for event in store.events("toy:s1")] == [None, 0]


def test_a_record_that_stands_twice_in_a_session_is_kept_once(store: Store, agent: Agent) -> None:
    assert agent.put(line(id="a", text="one"), line(id="a", text="one")).copies == 1
    assert agent.put(line(id="a", text="one"), line(id="b", text="two")).copies == 1
    assert list(store.bodies("toy:s1").values()) == ["one", "two"]


def test_identical_events_without_a_native_id_stay_apart(store: Store, agent: Agent) -> None:
    agent.put(line(text="again", at=5), line(text="again", at=5))
    assert list(store.bodies("toy:s1").values()) == ["again", "again"]


def test_a_copy_from_another_session_is_a_reference_and_is_counted_once(store: Store, agent: Agent, another: Agent) -> None:
    agent.put(line(id="a", text="the question"), line(id="b", up="a", kind="assistant_msg", text="the answer", tokens=9))
    another.put(
        line(id="a", text="the question"),
        line(id="b", up="a", kind="assistant_msg", text="the answer", tokens=9),
        line(id="c", up="b", text="and then"),
    )
    events = store.events("toy:s2")
    assert [event.origin for event in events] == ["toy:s1#0", "toy:s1#1", None]
    assert [event.parent_seq for event in events] == [None, 0, 1]
    assert store.bodies("toy:s2") == {0: "the question", 1: "the answer", 2: "and then"}
    copy, original = store.session("toy:s2"), store.session("toy:s1")
    assert copy is not None
    assert original is not None
    assert (original.cost.output_tokens, copy.cost.output_tokens) == (9, 0)
    assert len(store.postings("question")) == 1


def test_a_copy_under_a_new_id_is_found_by_what_the_agent_says(store: Store, agent: Agent, another: Agent) -> None:
    agent.put(line(id="a", text="the question"))
    another.put(line(id="x", of="a", text="the question"), line(id="y", up="x", text="more"))
    assert [(e.origin, e.parent_seq) for e in store.events("toy:s2")] == [("toy:s1#0", None), (None, 0)]


def test_a_copy_whose_original_is_unknown_is_kept_whole(store: Store, another: Agent) -> None:
    another.put(line(id="x", of="a", text="the question"))
    assert store.bodies("toy:s2") == {0: "the question"}


def test_two_files_of_one_session_get_a_block_of_numbers_each(store: Store, agent: Agent, another: Agent) -> None:
    agent.put(line(id="a", text="one"))
    another.put(line(s="s1", id="b", text="two"))
    agent.put(line(id="c", text="three"))
    assert [event.seq for event in store.events("toy:s1")] == [0, 1, BLOCK]
    assert store.bodies("toy:s1") == {0: "one", 1: "three", BLOCK: "two"}
    session = store.session("toy:s1")
    assert session is not None
    assert (session.events, session.last_seq) == (3, BLOCK)


def test_a_source_with_several_sessions_keeps_them_apart(store: Store, agent: Agent) -> None:
    agent.put(line(s="s1", id="a", text="one"), line(s="s9", id="b", text="two"))
    agent.put(line(s="s9", id="c", up="b", text="three"))
    assert [len(store.events(uid)) for uid in ("toy:s1", "toy:s9")] == [1, 2]


@pytest.mark.parametrize("cut", range(1, 12))
def test_segments_are_the_same_wherever_the_input_was_cut(store: Store, agent: Agent, another: Agent, cut: int) -> None:
    words = [line(id=f"n{n}", text=f"word{n} " * 3000) for n in range(12)]
    agent.put(*words)
    for n in range(0, 12, cut):
        another.put(*(w.replace(b'"id": "n', b'"s": "s2", "id": "m') for w in words[n : n + cut]))
    one, two = ([e.payload_ref.partition(":")[2] for e in store.events(uid) if e.payload_ref] for uid in ("toy:s1", "toy:s2"))
    assert one == two
    assert [len(store.postings(f"word{n}")) for n in range(12)] == [2] * 12


def test_a_rewritten_source_adds_what_is_new_and_marks_what_is_gone(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"), line(id="b", text="two"))
    agent.file.write_bytes(line(id="a", text="one") + line(id="c", up="a", text="three"))
    store.rewrite(agent.number, agent.fresh())
    events = store.events("toy:s1")
    assert [(e.native_id, e.seq, e.is_gone, e.parent_seq) for e in events] == [
        ("a", 0, False, None),
        ("b", 1, True, None),
        ("c", BLOCK + 1, False, 0),
    ]
    agent.put(line(id="d", up="c", text="four"))
    assert [(e.native_id, e.parent_seq) for e in store.events("toy:s1")][-1] == ("d", BLOCK + 1)


def test_a_newer_adapter_replaces_the_events_and_keeps_their_numbers(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"), line(id="b", up="a", text="two"))
    agent.adapter.shout = True
    store.rederive(agent.number, agent.fresh())
    assert store.bodies("toy:s1") == {0: "ONE", 1: "TWO"}
    agent.put(line(id="c", up="b", text="three"))
    assert [(e.seq, e.parent_seq) for e in store.events("toy:s1")] == [(0, None), (1, 0), (2, 1)]


def test_a_newer_adapter_that_sees_more_events_gives_them_numbers_never_used(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"), line(id="b", up="a", text="two"))
    agent.adapter.twice = True
    store.rederive(agent.number, agent.fresh())
    found = {e.native_id: (e.seq, e.parent_seq) for e in store.events("toy:s1")}
    assert found == {"a": (0, None), "b": (1, 0), "a#1": (BLOCK + 1, 0), "b#1": (BLOCK + 3, 1)}
    agent.put(line(id="c", up="b", text="three"))
    assert sorted(e.seq for e in store.events("toy:s1"))[-2:] == [BLOCK + 4, BLOCK + 5]
    session = store.session("toy:s1")
    assert session is not None
    assert session.events == 6


def test_deriving_an_original_again_leaves_it_the_original(store: Store, agent: Agent, another: Agent) -> None:
    agent.put(line(id="a", text="one"))
    another.put(line(id="a", text="one"), line(id="b", text="two"))
    store.rederive(agent.number, agent.fresh())
    assert [e.origin for e in store.events("toy:s1")] == [None]
    assert [e.origin for e in store.events("toy:s2")] == ["toy:s1#0", None]


def test_a_step_that_fails_leaves_nothing_behind(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    before = store.stats()
    batch = agent.write(line(id="b", text="two")).batch()

    def fail() -> None:
        with store.transaction():
            store.put(batch)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert store.stats() == before
    assert store.put(batch).events == 1


def test_a_broken_segment_is_noticed(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one" * 100))
    store.db.execute("update segments set hash = x'00'")  # type: ignore[attr-defined]
    with pytest.raises(StoreError, match="not what was stored"):
        store.bodies("toy:s1")


def test_native_records_are_kept_as_they_were(store: Store, agent: Agent) -> None:
    one, two = line(id="a", text="one"), line(id="b", text="two")
    agent.put(one)
    agent.put(two)
    assert list(store.records(str(agent.file))) == [(0, 0, one.rstrip()), (1, len(one), two.rstrip())]
    assert [record.data for record in store.kept(agent.number)] == [one.rstrip(), two.rstrip()]


def test_what_could_not_be_understood_is_listed_with_its_place(store: Store, agent: Agent) -> None:
    good = line(id="a")
    agent.put(good, b"{nonsense\n")
    assert store.skips() == [(str(agent.file), len(good), "not JSON")]


def test_the_best_title_wins(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="a prompt"))
    agent.put(line(title="named by a person"))
    session = store.session("toy:s1")
    assert session is not None
    assert session.title == "named by a person"


def test_sessions_are_found_by_any_unique_beginning(store: Store, agent: Agent, another: Agent) -> None:
    agent.put(line(id="a"))
    another.put(line(id="b"))
    assert store.find("toy:s1") == store.find("s1") == ["toy:s1"]
    assert sorted(store.find("toy:")) == sorted(store.find("s")) == ["toy:s1", "toy:s2"]
    assert store.find("%") == store.find("S1") == []


def test_listings_are_filtered_sorted_and_cut(store: Store, agent: Agent, another: Agent) -> None:
    agent.put(line(id="a", at=0, text="early"), line(id="b", at=60))
    another.put(line(id="c", at=3600, text="late", error=True))
    assert [s.uid for s in store.sessions(Filter())] == ["toy:s2", "toy:s1"]
    assert [s.uid for s in store.sessions(Filter(), sort="events")] == ["toy:s1", "toy:s2"]
    assert [s.uid for s in store.sessions(Filter(), limit=1, offset=1)] == ["toy:s1"]
    assert [s.uid for s in store.sessions(Filter(errors=True))] == ["toy:s2"]
    assert [s.uid for s in store.sessions(Filter(cwd="work/s1"))] == ["toy:s1"]
    assert [s.uid for s in store.sessions(Filter(text="EARLY"))] == ["toy:s1"]
    assert store.sessions(Filter(agent="other")) == []
    assert [s.uid for s in store.sessions(Filter(until=datetime(2026, 1, 1, 0, 30, tzinfo=UTC)))] == ["toy:s1"]
    assert [s.uid for s in store.sessions(Filter(since=datetime(2026, 1, 1, 0, 30, tzinfo=UTC)))] == ["toy:s2"]
    assert store.count(Filter()) == 2
    assert sorted(store.uids(Filter())) == ["toy:s1", "toy:s2"]


def test_a_whole_path_is_that_folder_and_what_lies_below(store: Store, agent: Agent) -> None:
    agent.put(line(s="s1", id="a"), line(s="s1/below", id="b"), line(s="s12", id="c"))
    assert sorted(store.uids(Filter(cwd="/work/s1"))) == ["toy:s1", "toy:s1/below"]
    assert sorted(store.uids(Filter(cwd="work/s1"))) == ["toy:s1", "toy:s1/below", "toy:s12"]


def test_words_phrases_and_prefixes_are_found_in_their_column(store: Store, agent: Agent) -> None:
    agent.put(
        line(id="a", text="why does parseHttpUrl fail"),
        line(id="b", kind="assistant_msg", text="because src/app/main.py is wrong"),
        line(id="c", kind="tool_result", text="搜索功能 ModuleNotFoundError"),
    )
    for word in ("parseHttpUrl", "http", "main py", "搜索", "功能", "modulenotfounderror", "module"):
        assert len(store.postings(word)) == 1, word
    assert store.postings("fail", column="prompt")
    assert not store.postings("fail", column="reply")
    assert store.postings("becau", prefix=True)
    assert not store.postings("becau")
    assert not store.postings("main wrong")


def test_a_forgotten_session_leaves_every_tier_and_does_not_come_back(store: Store, agent: Agent, another: Agent) -> None:
    agent.put(line(id="a", text="unforgettable"))
    another.put(line(id="b", text="stays"))
    store.forget(["toy:s1"], datetime.now(UTC))
    assert store.session("toy:s1") is None
    assert (store.events("toy:s1"), store.postings("unforgettable"), list(store.records(str(agent.file)))) == ([], [], [])
    assert agent.put(line(id="c", text="unforgettable too")).forgotten == 1
    assert (store.session("toy:s1"), store.postings("unforgettable"), list(store.records(str(agent.file)))) == (None, [], [])
    assert store.bodies("toy:s2") == {0: "stays"}


def test_what_a_fork_copied_from_a_forgotten_session_is_forgotten_too(store: Store, agent: Agent, another: Agent) -> None:
    agent.put(line(id="a", text="unforgettable"))
    another.put(line(id="a", text="unforgettable"), line(id="b", up="a", text="its own"))
    assert store.copies_of(["toy:s1"]) == ["toy:s2"]
    store.forget(["toy:s1"], datetime.now(UTC))
    assert [(e.summary, e.origin) for e in store.events("toy:s2")] == [("[forgotten]", None), ("its own", None)]
    assert store.bodies("toy:s2") == {1: "its own"}
    assert another.put(line(id="c", up="b", text="goes on")).events == 1


def test_newer_rules_are_run_over_what_is_stored(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="the plan is xyzzy, really"), line(id="b", text="nothing here"))
    number = agent.number

    class Cleaner:
        def text(self, text: str) -> str:
            return text.replace("xyzzy", "[redacted]")

        def value(self, value: object) -> object:
            return {k: self.text(v) if isinstance(v, str) else v for k, v in value.items()} if isinstance(value, dict) else value

    assert store.unredacted("next")
    assert store.redact_again(number, "next", Cleaner()) > 0
    assert store.bodies("toy:s1") == {0: "the plan is [redacted], really", 1: "nothing here"}
    assert "xyzzy" not in str(store.events("toy:s1")) + str(store.session("toy:s1")) + str(list(store.records(str(agent.file))))
    assert not store.postings("xyzzy")
    assert store.postings("redacted")
    assert not store.unredacted("next")
    assert agent.put(line(id="c", up="a", text="goes on")).events == 1


def test_a_source_that_moved_or_vanished_is_said_and_its_sessions_stay(store: Store, agent: Agent) -> None:
    agent.put(line(id="a", text="one"))
    store.miss_sources([agent.number], datetime.now(UTC))
    session = store.session("toy:s1")
    assert session is not None
    assert session.source_missing_at is not None
    moved = agent.file.rename(agent.file.with_name("moved.jsonl"))
    agent_number = agent.number
    agent.file = moved
    store.move_source(agent_number, agent.source)
    session = store.session("toy:s1")
    assert session is not None
    assert (session.source_path, session.source_missing_at) == (str(moved), None)


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
        assert len(reader.events("toy:s1")) == 1
    assert len(reader.events("toy:s1")) == 2
    reader.close()
