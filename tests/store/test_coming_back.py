"""What was evicted comes back whole, or what was known of it stays and is added to: on every
database, by way of a sync."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runlore import config as settings
from runlore import doctor
from runlore.config import Config
from runlore.mine import known_errors
from runlore.model import Digest, Session
from runlore.retention.evict import let_go
from runlore.store import Filter, Store
from runlore.sync import pipeline, prepare
from tests.toy import Toy, line

ALL = Filter(parents_only=False)
LATER = -1e9
"""Seconds: everything is at rest."""
UID = "toy:s1"


def failing(name: str, up: str, what: str, at: int) -> bytes:
    """A command, and the error that it came to."""
    call = line(
        id=f"{name}1", up=up, kind="tool_call", text="make all", call=name, tool="Sh", at=at
    )
    return call + line(
        id=f"{name}2",
        up=f"{name}1",
        kind="tool_result",
        text=f"Error: {what} is missing",
        call=name,
        error=True,
        at=at + 1,
    )


def _of_first(lines: bytes) -> bytes:
    """The same in a file of another name."""
    return lines.replace(b"{", b'{"s": "s1", ')


ASKED = line(id="a", text="please build it", at=0)
FIRST = ASKED + failing("b", "a", "gear", 1) + failing("c", "b2", "wheel", 3)
MORE = (
    line(id="d", up="c2", text="try again", at=10)
    + failing("e", "d", "wheel", 11)
    + failing("f", "e2", "axle", 13)
)


@pytest.fixture
def config() -> Config:
    return settings.load()


@pytest.fixture
def root(home: Path, toy: Toy) -> Path:
    made = home / ".toy"
    made.mkdir()
    (made / "s1.jsonl").write_bytes(FIRST)
    return made


@pytest.fixture
def sync(store: Store, config: Config, root: Path) -> Callable[[], pipeline.Report]:
    """The session is stored, has a digest, and has left."""

    def sync() -> pipeline.Report:
        return pipeline.sync(store, config, quiet_s=LATER, workers=0)

    sync()
    let_go(store, [UID])
    return sync


def session(store: Store, uid: str = UID) -> Session:
    found = store.sessions.get(uid)
    assert found is not None
    return found


def digest(store: Store, uid: str = UID) -> Digest:
    found = store.digests.get(uid)
    assert found is not None
    return found


def errors(store: Store) -> dict[str, tuple[int, int]]:
    """As `errors` tells them: how often each was met, and in how many sessions."""
    found = known_errors.find_recurring(store, ALL, datetime.now(UTC), min_sessions=1).found
    return {one.template: (one.count, one.sessions) for one in found}


KNOWN = {"Error: gear is missing": (1, 1), "Error: wheel is missing": (1, 1)}
BOTH = {
    "Error: gear is missing": (1, 1),
    "Error: wheel is missing": (2, 1),
    "Error: axle is missing": (1, 1),
}


def test_a_source_that_has_grown_brings_it_back_whole(
    store: Store, config: Config, root: Path, sync: Callable[[], object]
) -> None:
    (root / "s1.jsonl").write_bytes(FIRST + MORE)
    sync()
    assert (session(store).evicted_at, session(store).events, digest(store).before) == (
        None,
        10,
        None,
    )
    assert errors(store) == BOTH
    assert doctor.examine(store, config, full=True).ok


def test_brought_back_it_has_the_digest_that_it_had(
    store: Store, config: Config, sync: Callable[[], object]
) -> None:
    before = digest(store)
    assert store.retention.bring_back([UID]) == [UID]
    sync()
    assert session(store).evicted_at is None
    assert digest(store) == before
    store.digests.drop([UID])
    sync()
    made = digest(store).to_dict()
    assert {
        name: value for name, value in before.to_dict().items() if value != made[name]
    }.keys() == {"made_at", "ends"}


@pytest.mark.parametrize(
    "left",
    [ASKED, FIRST[:-200], FIRST.partition(b"\n")[2], b""],
    ids=["first", "cut", "last", "nothing"],
)
def test_a_source_that_has_become_shorter_takes_nothing_away(
    store: Store, config: Config, root: Path, sync: Callable[[], object], left: bytes
) -> None:
    known, totals = digest(store), session(store)
    (root / "s1.jsonl").write_bytes(left)
    for _ in range(2):
        sync()
        assert digest(store) == known
        assert errors(store) == KNOWN
        now = session(store)
        assert (now.evicted_at is not None, now.events, now.errors, now.started_at) == (
            True,
            totals.events,
            totals.errors,
            totals.started_at,
        )
    assert store.retention.bring_back([UID]) == []
    assert doctor.examine(store, config, full=True).ok


def test_what_a_shorter_source_goes_on_with_is_added_to_what_was_known(
    store: Store, config: Config, root: Path, sync: Callable[[], object]
) -> None:
    known = digest(store)
    (root / "s1.jsonl").write_bytes(ASKED + MORE)
    sync()
    assert errors(store) == BOTH
    now = digest(store)
    assert (now.goal, now.goal_seq) == ("please build it", 0)
    assert now.kinds == {"tool_call": 4, "tool_result": 4, "user_msg": 2}
    assert now.before is not None
    assert now.before.errors == known.errors
    assert (session(store).events, session(store).is_stale) == (10, False)
    with (root / "s1.jsonl").open("ab") as file:
        file.write(failing("g", "f2", "axle", 20))
    sync()
    assert errors(store) == {**BOTH, "Error: axle is missing": (2, 1)}
    assert digest(store).before == now.before
    assert doctor.examine(store, config, full=True).ok


def test_what_came_since_can_leave_as_well_and_the_digest_knows_all_of_it(
    store: Store, config: Config, root: Path, sync: Callable[[], object]
) -> None:
    (root / "s1.jsonl").write_bytes(MORE)
    sync()
    [weight] = store.retention.weights()
    assert (weight.is_evicted, weight.is_covered) == (False, True)
    let_go(store, [UID])
    assert store.retention.weights()[0].is_evicted
    assert digest(store).before is None
    assert errors(store) == BOTH
    (root / "s1.jsonl").write_bytes(failing("g", "a", "gear", 30))
    sync()
    assert errors(store) == {**BOTH, "Error: gear is missing": (2, 1)}
    assert session(store).events == 12
    assert doctor.examine(store, config, full=True).ok


def test_a_source_with_another_session_in_it_leaves_the_first_as_it_was(
    store: Store, config: Config, root: Path, sync: Callable[[], object]
) -> None:
    known = digest(store)
    (root / "s1.jsonl").write_bytes(line(s="s2", id="q", text="something else", at=50))
    sync()
    assert (digest(store), session(store).events, session(store).evicted_at is not None) == (
        known,
        5,
        True,
    )
    assert (digest(store, "toy:s2").goal, session(store, "toy:s2").evicted_at) == (
        "something else",
        None,
    )
    assert errors(store) == KNOWN
    assert doctor.examine(store, config, full=True).ok


def test_a_source_that_is_put_back_elsewhere_brings_all_of_it_back(
    store: Store, config: Config, root: Path, sync: Callable[[], object]
) -> None:
    (root / "s1.jsonl").write_bytes(line(s="s2", id="q", text="something else", at=50))
    sync()
    (root / "old").mkdir()
    (root / "old" / "s1.jsonl").write_bytes(FIRST)
    sync()
    assert store.retention.bring_back([UID]) == [UID]
    sync()
    assert (session(store).evicted_at, session(store).events) == (None, 5)
    assert errors(store) == KNOWN
    assert doctor.examine(store, config, full=True).ok


def test_what_was_gone_from_the_source_before_it_was_evicted_is_not_lost_when_the_source_grows(
    store: Store, config: Config, root: Path
) -> None:
    def sync() -> None:
        pipeline.sync(store, config, quiet_s=LATER, workers=0)

    sync()
    (root / "s1.jsonl").write_bytes(MORE)  # What was read first is no longer in it, and stays.
    sync()
    assert errors(store) == BOTH
    let_go(store, [UID])
    with (root / "s1.jsonl").open("ab") as file:
        file.write(failing("g", "f2", "axle", 20))
    sync()
    assert errors(store) == {**BOTH, "Error: axle is missing": (2, 1)}
    assert session(store).events == 12
    assert doctor.examine(store, config, full=True).ok


@pytest.mark.parametrize("step", ["return_whole", "part_with"])
def test_killed_halfway_nothing_is_lost(
    store: Store,
    config: Config,
    root: Path,
    sync: Callable[[], object],
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    known = digest(store)
    (root / "s1.jsonl").write_bytes(ASKED + MORE)
    done: Callable[..., object] = getattr(store.ingest, step)

    def killed(*given: object, **named: object) -> object:
        done(*given, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store.ingest, step, killed)
        with pytest.raises(KeyboardInterrupt):
            sync()
    assert (digest(store), session(store).events, errors(store)) == (known, 5, KNOWN)
    sync()
    assert (session(store).events, errors(store)) == (10, BOTH)
    assert doctor.examine(store, config, full=True).ok


def test_of_several_sessions_in_one_source_only_what_goes_on_comes_back(
    store: Store, config: Config, root: Path, toy: Toy
) -> None:
    def sync() -> None:
        pipeline.sync(store, config, quiet_s=LATER, workers=0)

    file = root / "many.jsonl"
    file.write_bytes(
        line(s="a", id="a1", text="first", at=1) + line(s="b", id="b1", text="second", at=2)
    )
    sync()
    let_go(store, ["toy:a", "toy:b"])
    with file.open("ab") as out:
        out.write(line(s="c", id="third-1", text="third", at=30))
    sync()
    assert [session(store, f"toy:{name}").evicted_at is not None for name in "abc"] == [
        True,
        True,
        False,
    ]
    assert digest(store, "toy:c").goal == "third"
    with file.open("ab") as out:
        out.write(line(s="a", id="a2", up="a1", text="and more", at=40))
    sync()
    assert (session(store, "toy:a").evicted_at, session(store, "toy:a").events) == (None, 2)
    assert [event.seq for event in store.sessions.events("toy:a")] == [0, 1]
    assert digest(store, "toy:a").kinds == {"user_msg": 2}
    assert doctor.examine(store, config, full=True).ok


def test_what_a_source_goes_on_from_leaves_with_its_text_and_is_had_again_from_the_source(
    store: Store, config: Config, root: Path, toy: Toy, sync: Callable[[], object]
) -> None:
    (state,) = store.sources.by_path().values()
    assert store.sources.resume(state.number).carry is None
    with (root / "s1.jsonl").open("ab") as out:
        out.write(line(s="s2", id="q", text="something else", at=50))
    sync()
    assert session(store).evicted_at is not None
    assert [event.record for event in store.sessions.events("toy:s2")] == [5]
    found = next(iter(toy.discover(root)))
    assert (
        store.sources.resume(state.number).carry
        == toy.normalize(found, toy.read(found, None), None).carry
    )


def test_no_records_are_kept_behind_those_that_have_left(
    store: Store, config: Config, root: Path, sync: Callable[[], object]
) -> None:
    (number,) = (state.number for state in store.sources.by_path().values())
    for name in ("s2", "s3"):
        with (root / "s1.jsonl").open("ab") as out:
            out.write(line(s=name, id=name, text="something else", at=30))
        sync()
        assert session(store).evicted_at is not None
        assert store.sources.count_records(number) == 0
        assert doctor.examine(store, config, full=True).ok
    store.retention.bring_back([UID])
    sync()
    assert store.sources.count_records(number) == 7


def test_what_goes_before_it_is_brought_back_is_nothing_to_complain_about(
    store: Store, config: Config, root: Path, sync: Callable[[], object]
) -> None:
    (root / "s1.jsonl").rename(root / "s1.old")
    assert store.retention.bring_back([UID]) == [UID]
    sync()
    assert session(store).evicted_at is not None
    assert doctor.examine(store, config, full=True).ok
    (root / "s1.old").rename(root / "s1.jsonl")
    sync()
    assert (session(store).evicted_at, errors(store)) == (None, KNOWN)
    assert doctor.examine(store, config, full=True).ok


@pytest.mark.parametrize("names", [("b1", "b2"), (None, None)], ids=["named", "nameless"])
def test_a_rewritten_source_takes_nothing_from_its_sessions_that_are_still_there(
    store: Store, config: Config, root: Path, toy: Toy, names: tuple[str | None, str | None]
) -> None:
    first, second, third = (line(s="b", text=text, at=n, **({"id": name} if name else {})) for n,
    (name, text) in enumerate(
        [(names[0], "one"), (names[1], "two"), ("b3", "three")]
    ))  # fmt: skip
    file = root / "many.jsonl"
    file.write_bytes(line(s="a", id="a1", text="first", at=1) + first + second)
    pipeline.sync(store, config, quiet_s=LATER, workers=0)
    let_go(store, ["toy:a"])
    file.write_bytes(line(s="a", id="a1", text="first", at=1) + third)
    for _ in range(2):
        pipeline.sync(store, config, quiet_s=LATER, workers=0)
        assert sorted(store.sessions.bodies("toy:b").values()) == ["one", "three", "two"]
        assert (session(store, "toy:b").events, digest(store, "toy:b").kinds) == (
            3,
            {"user_msg": 3},
        )
        assert digest(store, "toy:a").kinds == {"user_msg": 1}
        assert doctor.examine(store, config, full=True).ok


def test_what_was_emptied_before_it_was_evicted_is_not_asked_for_again(
    store: Store, config: Config, root: Path, toy: Toy
) -> None:
    def sync() -> None:
        pipeline.sync(store, config, quiet_s=LATER, workers=0)

    sync()
    (root / "s1.jsonl").write_bytes(b"")  # What was read is no longer in it, and stays.
    sync()
    let_go(store, [UID])
    (root / "more.jsonl").write_bytes(
        line(s="s1", id="d", text="try again", at=10) + _of_first(failing("g", "d", "axle", 20))
    )
    for _ in range(2):
        sync()
        assert errors(store) == {**KNOWN, "Error: axle is missing": (1, 1)}
        assert session(store).events == 8
        assert store.retention.bring_back([UID]) == []
        assert doctor.examine(store, config, full=True).ok


def test_a_source_that_is_read_anew_in_parts_may_come_to_a_session_in_a_later_one(
    store: Store, config: Config, root: Path, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "BATCH_BYTES", 1)
    file = root / "many.jsonl"
    file.write_bytes(
        line(s="a", id="a1", text="one", at=1) + line(s="b", id="b1", text="two", at=2)
    )
    pipeline.sync(store, config, quiet_s=LATER, workers=0)
    file.write_bytes(
        b"".join(
            line(s=name[0], id=name, text=name, at=n) for n, name in enumerate(["a2", "b2", "b3"])
        )
    )
    for _ in range(2):
        pipeline.sync(store, config, quiet_s=LATER, workers=0)
        assert sorted(store.sessions.bodies("toy:b").values()) == ["b2", "b3", "two"]
        assert [session(store, f"toy:{name}").events for name in "ab"] == [2, 3]
        assert digest(store, "toy:b").kinds == {"user_msg": 3}
        assert doctor.examine(store, config, full=True).ok


def test_a_source_that_says_only_a_title_any_more_takes_no_event_away(
    store: Store, config: Config, root: Path, toy: Toy
) -> None:
    def sync() -> tuple[str | None, int, int]:
        pipeline.sync(store, config, quiet_s=LATER, workers=0)
        assert doctor.examine(store, config, full=True).ok
        now = session(store)
        return now.title, now.events, sum(digest(store).kinds.values())

    sync()
    (root / "s1.jsonl").write_bytes(line(title="the gears"))
    assert sync() == sync() == ("the gears", 5, 5)
    with (root / "s1.jsonl").open("ab") as file:
        file.write(MORE)
    assert sync() == ("the gears", 10, 10)
