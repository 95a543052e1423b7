"""A session that several stores of an agent tell: only the best of them counts, and what was cited
of another can still be read."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runlore import config, doctor
from runlore.model import BLOCK
from runlore.store import Store, open_store
from runlore.store.copying import copy
from runlore.sync import pipeline
from tests.store.test_contract import IN_A_FILE
from tests.toy import Toy, line

BEST = [
    line(id="p", text="count the pears"),
    line(id="q", up="p", kind="assistant_msg", text="seven pears", tokens=9),
]
WORSE = [
    line(id="w1", text="count the pears"),
    line(id="w2", kind="assistant_msg", text="seven of them"),
]
WORST = [line(text="count pears")]
FILES = {"s.jsonl": BEST, "s~1.jsonl": WORSE, "s~2.jsonl": WORST}


class Home:
    """What a toy agent left, and a store that is brought up to date with it."""

    def __init__(self, store: Store, root: Path) -> None:
        self.store, self.root, self.config = store, root, config.load()
        root.mkdir(parents=True, exist_ok=True)

    def sync(self, *names: str) -> pipeline.Report:
        for name in names:
            (self.root / name).write_bytes(b"".join(FILES[name]))
        return pipeline.sync(self.store, self.config, roots=[str(self.root)])

    def told(self) -> list[tuple[str, str]]:
        bodies = self.store.sessions.bodies("toy:s")
        return [(event.kind, bodies[event.seq]) for event in self.store.sessions.events("toy:s")]

    def check(self) -> None:
        found = doctor.examine(self.store, self.config, full=True)
        assert found.ok, found


@pytest.fixture
def made(store: Store, toy: Toy, home: Path) -> Home:
    return Home(store, home / ".toy")


@pytest.mark.parametrize("order", list(itertools.permutations(FILES)), ids=" ".join)
def test_the_best_telling_counts_whatever_the_order(made: Home, order: tuple[str, ...]) -> None:
    for name in order:
        made.sync(name)
    assert made.told() == [("user_msg", "count the pears"), ("assistant_msg", "seven pears")]
    session = made.store.sessions.get("toy:s")
    assert session is not None
    assert (session.events, session.cost.turns, session.cost.output_tokens) == (2, 1, 9)
    assert session.source_path == str(made.root / "s.jsonl")
    assert [made.store.index.postings(word) != [] for word in ("pears", "them")] == [True, False]
    assert [event.kind for event in made.store.digests.timeline("toy:s")[0]] == [
        "user_msg",
        "assistant_msg",
    ]
    made.check()


def test_all_at_once_is_the_same(made: Home) -> None:
    made.sync(*FILES)
    assert made.told() == [("user_msg", "count the pears"), ("assistant_msg", "seven pears")]
    made.check()


def test_what_was_cited_can_still_be_read_and_its_number_is_not_given_again(made: Home) -> None:
    made.sync("s~1.jsonl")
    assert [event.seq for event in made.store.sessions.events("toy:s")] == [0, 1]
    made.sync("s.jsonl")
    assert [event.seq for event in made.store.sessions.events("toy:s")] == [BLOCK, BLOCK + 1]
    (cited,) = made.store.sessions.events("toy:s", 1, 1)
    assert (cited.seq, cited.kind, made.store.sessions.bodies("toy:s", 1, 1)) == (
        1,
        "assistant_msg",
        {1: "seven of them"},
    )


def test_a_telling_that_grows_when_there_is_a_better_one_adds_nothing(made: Home) -> None:
    made.sync("s~1.jsonl")
    made.sync("s.jsonl")
    with (made.root / "s~1.jsonl").open("ab") as file:
        file.write(line(text="and the plums"))
    report = made.sync()
    assert (report.found, report.events) == ({"grown": 1, "unchanged": 1}, 0)
    assert len(made.told()) == 2
    made.check()


def test_the_best_telling_goes_on(made: Home) -> None:
    made.sync("s~1.jsonl")
    made.sync("s.jsonl")
    with (made.root / "s.jsonl").open("ab") as file:
        file.write(line(id="r", up="q", text="and the plums"))
    made.sync()
    assert [text for _, text in made.told()] == ["count the pears", "seven pears", "and the plums"]
    made.check()


def test_a_better_store_with_the_same_names_tells_all_of_it(made: Home) -> None:
    (made.root / "s~1.jsonl").write_bytes(
        b"".join(line(id=name, text=f"{name} as it was") for name in "pq")
    )
    made.sync()
    made.sync("s.jsonl")
    assert made.told() == [("user_msg", "count the pears"), ("assistant_msg", "seven pears")]
    made.check()


def test_a_better_store_that_says_nothing_yet_takes_nothing_away(made: Home) -> None:
    made.sync("s~1.jsonl")
    (made.root / "s.jsonl").write_bytes(line(title="pears"))
    made.sync()
    assert [text for _, text in made.told()] == ["count the pears", "seven of them"]
    with (made.root / "s.jsonl").open("ab") as file:
        file.writelines(BEST)
    made.sync()
    assert [text for _, text in made.told()] == ["count the pears", "seven pears"]
    made.check()


def test_a_newer_adapter_leaves_what_is_set_aside_as_it_was_cited(made: Home, toy: Toy) -> None:
    made.sync("s~1.jsonl")
    made.sync("s.jsonl")
    toy.version, toy.shout = 2, True
    assert made.sync().found == {"outdated": 2}
    assert [text for _, text in made.told()] == ["COUNT THE PEARS", "SEVEN PEARS"]
    assert made.store.sessions.bodies("toy:s", 1, 1) == {1: "seven of them"}
    assert made.sync().found == {"unchanged": 2}
    made.check()


def test_a_newer_adapter_that_knows_a_telling_to_be_worse_sets_it_aside(
    made: Home, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("tests.toy.spare_of", lambda source: 0)
        made.sync("s~1.jsonl")
        made.sync("s.jsonl")
        assert len(made.told()) == 4, "so it was before"
    toy.version = 2
    made.sync()
    assert [text for _, text in made.told()] == ["count the pears", "seven pears"]
    assert made.store.sessions.bodies("toy:s", 1, 1) == {1: "seven of them"}
    made.check()


def test_a_telling_that_is_set_aside_and_gone_keeps_nothing_from_coming_back(made: Home) -> None:
    made.sync("s~1.jsonl")
    made.sync("s.jsonl")
    (made.root / "s~1.jsonl").unlink()
    made.sync()
    session = made.store.sessions.get("toy:s")
    assert session is not None
    assert session.source_missing_at is None, "the one that counts is there"
    made.store.retention.evict(["toy:s"], datetime.now(UTC) + timedelta(days=1))
    assert made.store.retention.bring_back(["toy:s"]) == ["toy:s"]
    made.sync()
    assert made.told() == [("user_msg", "count the pears"), ("assistant_msg", "seven pears")]
    made.check()


def test_a_better_store_of_an_evicted_session_brings_it_back(made: Home) -> None:
    made.sync("s~1.jsonl")
    made.store.retention.evict(["toy:s"], datetime.now(UTC))
    made.sync("s.jsonl")
    assert made.told() == [("user_msg", "count the pears"), ("assistant_msg", "seven pears")]
    session = made.store.sessions.get("toy:s")
    assert session is not None
    assert session.evicted_at is None
    made.check()


def test_what_is_set_aside_is_copied_with_its_session(made: Home, tmp_path: Path) -> None:
    made.sync("s~1.jsonl")
    made.sync("s.jsonl")
    other = open_store(str(tmp_path / "other.db"))
    copy(made.store, other)
    assert list(other.sessions.bodies("toy:s").values()) == ["count the pears", "seven pears"]
    assert other.sessions.bodies("toy:s", 1, 1) == {1: "seven of them"}
    assert other.index.postings("them") == []
    other.close()


def test_what_is_gone_when_a_better_store_comes_leaves_no_trace_of_its_names(made: Home) -> None:
    made.sync("s~1.jsonl")
    with (made.root / "s~1.jsonl").open("ab") as file:
        file.write(line(id="w3", text="and the plums"))
    made.sync()
    made.store.retention.evict(["toy:s"], datetime.now(UTC))
    made.sync("s.jsonl")
    made.check()


def test_no_records_are_kept_of_what_counts_no_more(made: Home) -> None:
    made.sync("s~1.jsonl")
    made.store.retention.evict(["toy:s"], datetime.now(UTC))
    made.sync("s.jsonl")
    with (made.root / "s~1.jsonl").open("ab") as file:
        file.write(line(id="w3", text="and the plums"))
    made.sync()
    kept = {
        Path(path).name: made.store.sources.count_records(state.number)
        for path, state in made.store.sources.by_path().items()
    }
    assert kept == {"s.jsonl": 2, "s~1.jsonl": 0}
    made.check()


@IN_A_FILE
def test_whatever_happens_one_telling_counts_and_what_was_cited_can_be_read(
    made: Home, toy: Toy, loops: Callable[[int], int]
) -> None:
    """Three stores grow, vanish, are evicted and derived again in any order."""
    for seed in range(loops(100)):
        rng, store, cited = (
            random.Random(seed),
            open_store(f"{made.root}-{seed}.db"),
            dict[int, str](),
        )
        home, left, ids = (
            Home(store, made.root.with_name(f"root-{seed}")),
            list(FILES),
            rng.choice(["own", "shared"]),
        )
        lengths = Counter[str]()
        for _ in range(rng.randrange(4, 14)):
            what, name = (
                rng.choice(
                    ["append", "append", "append", "sync", "evict", "back", "version", "delete"]
                ),
                rng.choice(left or ["s.jsonl"]),
            )
            if what == "append" and name in left:
                lengths[name] += 1
                with (home.root / name).open("ab") as file:
                    file.write(
                        line(
                            id=f"{name if ids == 'own' else ''}{lengths[name]}",
                            text=f"{name} {lengths[name]}",
                        )
                    )
            elif what == "evict" and store.sessions.get("toy:s") is not None:
                store.retention.evict(["toy:s"], datetime.now(UTC))
                cited.clear()
            elif what == "back":
                store.retention.bring_back(["toy:s"])
            elif what == "version":
                toy.version += 1
            elif what == "delete" and name in left:
                left.remove(name)
                (home.root / name).unlink(missing_ok=True)
            if what in ("sync", "delete"):
                home.sync()
                session = store.sessions.get("toy:s")
                if session is not None and session.evicted_at is None:
                    cited |= store.sessions.bodies("toy:s")
        home.sync()
        home.sync()
        home.check()
        session = store.sessions.get("toy:s")
        if session is not None and session.evicted_at is None:
            assert (
                len({text.split()[0] for text in store.sessions.bodies("toy:s").values()}) == 1
            ), seed
            assert {
                seq: store.sessions.bodies("toy:s", seq, seq).get(seq) for seq in cited
            } == cited, seed
        store.close()
