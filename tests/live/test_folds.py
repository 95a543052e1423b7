"""A view that its user defines costs what is new, survives processes, and is never half changed."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore.errors import Conflict, LogError
from runlore.live import LiveSession, SessionStore
from runlore.live.folds import SAVE_EVERY
from runlore.model import LogRecord


class Votes(msgspec.Struct):
    count: dict[str, int] = {}

    def add(self, record: LogRecord) -> None:
        for_ = record.payload["for"]
        if for_ == "nobody":
            self.count["half"] = 1
            raise ValueError("an invalid vote")
        self.count[for_] = self.count.get(for_, 0) + 1


class Types(msgspec.Struct):
    seen: list[str] = []

    def add(self, record: LogRecord) -> None:
        self.seen.append(record.type)


@dataclasses.dataclass
class Last:
    raw: bytes = b""

    def add(self, record: LogRecord) -> None:
        self.raw = record.id.encode()


@pytest.fixture
def session(tmp_path: Path) -> LiveSession:
    return SessionStore(tmp_path).create(id="one")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_a_fold_has_what_was_appended_by_anyone(session: LiveSession) -> None:
    votes = session.fold("votes", Votes, types=["vote"])
    assert votes.value.count == {}
    session.record("vote", {"for": "ann"})
    session.append(user("not a vote"))
    session._store.open("one").record("vote", {"for": "ann"})
    assert votes.value.count == {"ann": 2}
    assert votes.seq == session.last_seq
    session.record_many([("vote", {"for": "bob"}, None), ("other", {}, None)])
    assert votes.value.count == {"ann": 2, "bob": 1}


def test_a_type_with_a_dot_at_its_end_stands_for_a_family(session: LiveSession) -> None:
    session.record("lg.put", {})
    session.record("lg", {})
    session.record("lgx", {})
    session.record('odd"type', {})
    assert session.fold("a", Types, types=["lg."]).value.seen == ["lg.put"]
    assert session.fold("b", Types, types=["lg"]).value.seen == ["lg"]
    assert session.fold("c", Types, types=['odd"type']).value.seen == ['odd"type']
    assert session.fold("d", Types).value.seen == ["session", "lg.put", "lg", "lgx", 'odd"type']


def test_only_what_is_new_is_folded_in_the_next_process(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    with store.create(id="one") as session:
        fold = session.fold("last", Last, types=["own"])
        for n in range(SAVE_EVERY + 1):
            session.record("own", {"n": n})
        raw = fold.value.raw
    added = 0

    @dataclasses.dataclass
    class Counting(Last):
        def add(self, record: LogRecord) -> None:
            nonlocal added
            added += 1
            super().add(record)

    with store.open("one") as session:
        fold = session.fold("last", Counting, types=["own"])
        assert (fold.value.raw, added) == (raw, 0)
        last = session.record("own", {})
        assert (fold.value.raw, added) == (last.id.encode(), 1)
        # Another version of the rule, or another name, begins at the beginning.
        session.fold("last", Counting, types=["own"], version=2).value  # noqa: B018
        assert added == 1 + SAVE_EVERY + 2


def test_a_reader_saves_nothing(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    with store.create(id="one") as session:
        for n in range(SAVE_EVERY + 1):
            session.record("own", {"n": n})
    with store.open("one", readonly=True) as session:
        assert session.fold("last", Last).value.raw
    assert not [name for name in os.listdir(tmp_path / "one/snapshots") if "fold" in name]


def test_an_exception_in_a_view_leaves_nothing_half_done(session: LiveSession) -> None:
    votes = session.fold("votes", Votes, types=["vote"])
    session.record("vote", {"for": "ann"})
    assert votes.value.count == {"ann": 1}
    session.record("vote", {"for": "nobody"})
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid vote"):
            _ = votes.value
    votes._view = Types  # type: ignore[assignment]
    assert votes.value.seen == ["vote", "vote"]  # type: ignore[attr-defined]


def test_a_log_that_lost_its_end_is_folded_again(session: LiveSession) -> None:
    votes = session.fold("votes", Votes, types=["vote"])
    session.record("vote", {"for": "ann"})
    size = (session.path / "log.jsonl").stat().st_size
    session.record("vote", {"for": "bob"})
    assert votes.value.count == {"ann": 1, "bob": 1}
    os.truncate(session.path / "log.jsonl", size)
    assert votes.value.count == {"ann": 1}


def test_own_records_are_put_once_by_their_key(session: LiveSession) -> None:
    first = session.record("vote", {"for": "ann"}, key="a")
    again = session.record_many(
        [("vote", {"for": "ann"}, "a"), ("vote", {"for": "bob"}, "b"), ("vote", {}, None)]
    )
    assert [record.seq for record in again] == [first.seq, first.seq + 1, first.seq + 2]
    for type_, payload in (("vote", {"for": "eve"}), ("other", {"for": "ann"})):
        with pytest.raises(Conflict):
            session.record(type_, payload, key="a")
    assert session.last_seq == first.seq + 2


def test_metadata_is_changed_found_and_kept(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    with store.create(id="a", app="weather", user="42", model="small") as a:
        a.update_meta(model="large", tags=["x"], user=None, n=2)
        assert (a.meta.model, a.meta.extra) == ("large", {"app": "weather", "tags": ["x"], "n": 2})
        assert a.fork(id="fork").meta.extra["n"] == 2
        with pytest.raises(LogError):
            a.update_meta(title="no")
    store.create(id="b", app="weather", user="42", ok=True).close()
    store.create(id="c", app='o"k', parent="a", call="call-1").close()

    def found(store: SessionStore, **where: Any) -> list[str]:
        return sorted(info.id for info in store.list(where=where))

    for one in (store, SessionStore(tmp_path)):
        assert found(one, app="weather") == ["a", "b", "fork"]
        assert found(one, app="weather", user="42") == ["b"]
        assert found(one, user=None) == ["a", "c", "fork"]
        assert found(one, model="large", n=2) == ["a", "fork"]
        assert found(one, ok=True) == ["b"]
        assert found(one, app='o"k') == found(one, parent="a", call="call-1") == ["c"]
        assert found(one, n="2") == []
    latest = store.latest(where={"user": "42"})
    assert latest is not None
    assert latest.id == "b"
    with pytest.raises(LogError):
        store.list(where={"tags": ["x"]})


def test_values_are_of_a_session_a_user_or_an_app(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    one = store.create(id="one", app="weather", user="ann")
    two = store.create(id="two", app="weather", user="bob")
    one.put_values({"app:unit": "C", "user:city": "Rome", "step": 1, "temp:x": 2})
    assert one.values() == {"app:unit": "C", "user:city": "Rome", "step": 1}
    assert two.values() == {"app:unit": "C"}
    two.put_values({"app:unit": "F"}, delete=["user:city"])
    assert SessionStore(tmp_path).open("one").values()["app:unit"] == "F"
    one.put_values(delete=["user:city", "step"])
    assert one.values() == {"app:unit": "F"}
    assert store.shared("user:weather/ann").values() == {}
    assert sorted(info.id for info in store.list()) == ["one", "two"]
    with pytest.raises(LogError, match="app and user"):
        store.create(id="three", app="weather").put_values({"user:x": 1})


def test_values_of_users_whose_names_have_slashes_are_kept_apart(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    with store.create(app="a/b", user="c") as one, store.create(app="a", user="b/c") as other:
        one.put_values({"user:city": "Rome"})
        assert other.values() == {}
        assert one.values() == {"user:city": "Rome"}
