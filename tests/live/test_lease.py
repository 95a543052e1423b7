"""The exclusive lease: who has it, who may take it, and that nobody writes who lost it."""

import os
from pathlib import Path
from typing import Any

import pytest

from runlore.errors import LeaseLost, SessionBusy
from runlore.files.locks import is_locked, lock, try_lock
from runlore.live import SessionStore
from runlore.live.folder import lease
from runlore.live.log import LiveSession

pytestmark = pytest.mark.folder


@pytest.fixture(autouse=True)
def one(store: SessionStore) -> None:
    store.create(id="one").close()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def texts(session: LiveSession) -> list[str]:
    return [message["content"] for message in session.messages()]


def test_who_lost_the_lease_stays_out_also_when_it_is_free_again(store: SessionStore) -> None:
    old = store.open("one", exclusive=True, owner="worker-1")
    new = store.open("one", exclusive=True, owner="worker-2", take_over="worker-1")
    new.append(user("mine"))
    new.close()
    for _ in range(2):  # A loop that tries again must not get through.
        with pytest.raises(LeaseLost):
            old.append(user("too late"))
    old.close()
    assert texts(store.open("one")) == ["mine"]
    store.open("one").append(user("a new handle may"))


def test_two_who_look_at_a_free_lease_do_not_take_each_other_for_its_holder(
    store: SessionStore,
) -> None:
    with store.open("one", exclusive=True):
        pass
    path = store.path / "one/lease-1"
    asking = os.open(path, os.O_RDWR)
    held = os.open(path, os.O_RDWR)
    try:
        import fcntl

        fcntl.flock(asking, fcntl.LOCK_SH)  # What `is_locked` does for a moment.
        assert not lease.is_held(store.path / "one", 1)
        fcntl.flock(asking, fcntl.LOCK_UN)
        lock(held)
        assert is_locked(asking)
        assert not try_lock(asking)
    finally:
        os.close(asking)
        os.close(held)


def test_a_taker_that_died_in_the_middle_leaves_the_lease_with_its_holder(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = store.open("one", exclusive=True, owner="worker-1")
    real = lease.create_file

    class Killed(BaseException):
        pass

    def killed(folder: Path, epoch: int, me: Any) -> int:
        os.close(real(folder, epoch, me))  # As the kernel does with what a dead process had open.
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(lease, "create_file", killed)
        with pytest.raises(Killed):
            store.open("one", exclusive=True, owner="worker-2", take_over="worker-1")
    with pytest.raises(SessionBusy) as caught:
        store.open("one", exclusive=True, owner="worker-3")
    assert caught.value.owner == "worker-1"
    with pytest.raises(SessionBusy):
        store.open("one").append(user("beside it"))
    holder.append(user("mine"))
    with store.open("one", exclusive=True, owner="worker-3", take_over="worker-1") as third:
        assert third.append(user("third")).epoch == 3
        with pytest.raises(LeaseLost):
            holder.append(user("too late"))
    assert texts(store.open("one")) == ["mine", "third"]


def test_who_tidies_late_leaves_the_lease_of_the_next_one(store: SessionStore) -> None:
    first = store.open("one", exclusive=True, owner="worker-1")
    second = store.open("one", exclusive=True, owner="worker-2", take_over="worker-1")
    lease.remove_older_files(store.path / "one", 1)  # By the first, which was slow.
    with pytest.raises(SessionBusy):
        store.open("one").append(user("beside it"))
    assert second.append(user("mine")).epoch == 2
    with pytest.raises(LeaseLost):
        first.append(user("too late"))


def test_a_lease_is_seen_by_those_who_have_much_to_catch_up_with(store: SessionStore) -> None:
    late = store.open("one")
    late.append(user("first"))
    with store.open("one", exclusive=True, owner="worker-1") as holder:
        holder.append(user("x" * (5 << 20)))  # More than is read record by record.
        with pytest.raises(SessionBusy):
            late.append(user("beside it"))
    late.append(user("last"))
    assert [text[:5] for text in texts(late)] == ["first", "xxxxx", "last"]
