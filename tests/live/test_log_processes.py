"""Several processes on one session, and processes that die in the middle of it."""

import os
import random
import select
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from runlore.errors import LogError, SessionBusy
from runlore.files.locks import try_lock
from runlore.live import SessionStore, codec
from runlore.live.backend import Durability
from runlore.live.folder import index, log_file
from runlore.model import LogRecord
from tests.live.folders import log_of


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def in_child(work: Callable[..., object]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def ended_well(*pids: int) -> bool:
    return {os.waitpid(pid, 0)[1] for pid in pids} == {0}


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_writer_can_be_killed_at_any_moment(
    tmp_path: Path, durability: Durability, loops: Callable[[int], int]
) -> None:
    store = SessionStore(tmp_path, durability=durability)
    store.create(id="one")
    rng = random.Random(durability)
    text = "€" * 340
    expected: list[str] = []
    for number in range(loops(500)):
        if number % 25 == 0:
            store.create(id=f"s{number}")
            expected = []
        id = f"s{number - number % 25}"
        read, written = os.pipe()

        def write(
            id: str = id, read: int = read, written: int = written, number: int = number
        ) -> None:
            os.close(read)
            with SessionStore(tmp_path, durability=durability).open(id) as session:
                for n in range(1_000_000):
                    session.append(user(f"{number}-{n} {text}"))
                    os.write(written, b".")

        pid = in_child(write)
        os.close(written)
        assert select.select([read], [], [], 30)[0]
        time.sleep(rng.uniform(0, 0.006))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        acknowledged = 0
        while chunk := os.read(read, 1 << 16):
            acknowledged += len(chunk)
        os.close(read)
        with SessionStore(tmp_path, durability=durability).open(id) as session:
            found = [message["content"].partition(" ")[0] for message in session.messages()]
            own = [f"{number}-{n}" for n in range(acknowledged)]
            assert found[: len(expected)] == expected, number
            assert found[len(expected) :][:acknowledged] == own, number
            session.append(user(f"after-{number}"))
            seqs = [record.seq for record in session.records()]
            assert seqs == list(range(len(seqs))), number
            expected = [message["content"].partition(" ")[0] for message in session.messages()]
            assert expected[-1] == f"after-{number}"
            # Between what was acknowledged and our own append lies at most the one record that was
            # on its way.
            assert len(expected) - len(found) in (1, 2)


def test_four_processes_append_to_one_session(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    inherited = store.create(id="one")
    inherited.append(user("parent"))

    def write(name: str, session: Any) -> None:
        for n in range(1000):
            session.append(user(f"{name}-{n}"))

    before = [in_child(lambda name=name: write(name, inherited)) for name in ("a", "b")]
    after = [
        in_child(lambda name=name: write(name, SessionStore(tmp_path).open("one")))
        for name in ("c", "d")
    ]
    assert ended_well(*before, *after)
    inherited.append(user("last"))
    for session in (inherited, store.open("one")):
        records = list(session.records())
        assert [record.seq for record in records] == list(range(1 + 4000 + 2))
        assert len({record.id for record in records}) == len(records)
        found = [record.payload.get("content") for record in records]
        for name in "abcd":
            assert [text for text in found if str(text).startswith(f"{name}-")] == [
                f"{name}-{n}" for n in range(1000)
            ]
        assert found[-1] == "last"
        assert len(session.messages()) == 4002


# Python 3.12 warns of what is tested here.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_handle_that_was_forked_while_another_thread_wrote_works(tmp_path: Path) -> None:
    """The child inherits locks as they were; a thread of the parent may have held one."""
    import threading

    session = SessionStore(tmp_path).create(id="one")
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            session.append(user("thread"))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for n in range(10):
            pid = in_child(lambda n=n: session.append(user(f"child {n}")))
            assert ended_well(pid)
    finally:
        done.set()
        thread.join()
    found = [message["content"] for message in session.messages()]
    assert [text for text in found if text != "thread"] == [f"child {n}" for n in range(10)]


def test_a_signal_handler_may_append_in_the_middle_of_an_append(
    tmp_path: Path, loops: Callable[[int], int]
) -> None:
    session = SessionStore(tmp_path).create(id="one")
    said: list[LogRecord] = []

    def handle(*_: Any) -> None:
        said.append(session.append(user(f"handler {len(said)}")))
        signal.setitimer(signal.ITIMER_REAL, 0.0003)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0003)
    try:
        own = [session.append(user(f"main {n}")) for n in range(loops(100_000))]
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert said
    there = {
        record.seq: record
        for record in SessionStore(tmp_path).open("one", readonly=True).records(after=0)
    }
    assert sorted(there) == [*range(1, len(own) + len(said) + 1)]
    assert all(there[record.seq].payload == record.payload for record in (*own, *said))
    assert not session.problems
    assert session.meta.messages == len(there)


def test_a_signal_handler_may_tell_of_the_run_in_the_middle_of_its_telling(
    tmp_path: Path, loops: Callable[[int], int]
) -> None:
    session = SessionStore(tmp_path).create(id="one")
    session.state.start("a goal")
    # msgspec crashes when it is interrupted, and used again, while it meets a type.
    session.state.progress("first", tokens=1)
    told = 1

    def handle(*_: Any) -> None:
        nonlocal told
        session.state.progress("handler", tokens=1)
        told += 1
        signal.setitimer(signal.ITIMER_REAL, 0.0005)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0005)
    try:
        for n in range(loops(20_000)):
            session.state.progress("main", tokens=1)
            assert n % 50 or session.state.status == "active"
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert told > 1
    session.close()
    for handle_of in (session, SessionStore(tmp_path).open("one", readonly=True)):
        progress = handle_of.state.current.progress
        assert progress.total_tokens == progress.steps_executed == told + loops(20_000)


@pytest.mark.parametrize("when", ["try_lock", "unlock"])
def test_the_lock_is_held_by_who_is_interrupted_and_let_go_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """As above, at the two moments that are hard to meet."""
    session = SessionStore(tmp_path).create(id="one")
    real: Callable[[int], bool | None] = getattr(log_file, when)
    seen: list[bool] = []

    def is_free() -> bool:
        with (session.path / "log.jsonl").open("rb") as file:
            return try_lock(file.fileno())

    def interrupted(fd: int) -> bool | None:
        answer = real(fd)
        if not seen:
            seen.append(is_free())
            session.append(user("handler"))
            seen.append(is_free())
        return answer

    monkeypatch.setattr(log_file, when, interrupted)
    session.append(user("main"))
    assert seen == [when == "unlock"] * 2
    assert is_free()
    assert [record.seq for record in session.records()] == [0, 1, 2]


def test_the_kernel_frees_the_lease_of_a_dead_process(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    store.create(id="one")
    read, written = os.pipe()

    def hold() -> None:
        session = SessionStore(tmp_path).open("one", exclusive=True, owner="child")
        session.append(user("held"))
        os.write(written, b".")
        time.sleep(60)

    pid = in_child(hold)
    assert os.read(read, 1) == b"."
    waiting = store.open("one")
    with pytest.raises(SessionBusy, match="child"):
        waiting.append(user("x"))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    waiting.append(user("free"))
    with store.open("one", exclusive=True, owner="next") as session:
        assert session.append(user("mine")).epoch == 2
        assert [message["content"] for message in session.messages()] == ["held", "free", "mine"]
    os.close(read)
    os.close(written)


def test_a_child_does_not_inherit_the_lease(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    store.create(id="one")
    session = store.open("one", exclusive=True, owner="parent")
    session.append(user("parent"))

    def write() -> None:
        with pytest.raises(SessionBusy, match="parent"):
            session.append(user("child"))

    assert ended_well(in_child(write))
    read, written = os.pipe()
    pid = in_child(lambda: os.read(read, 1))  # A child that lives on and never looks at the session
    session.close()
    assert store.open("one", exclusive=True).append(user("free")).epoch == 2
    os.write(written, b".")
    assert ended_well(pid)
    os.close(read)
    os.close(written)


def test_a_reader_is_not_held_up_by_a_writer_that_has_the_lock(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    session = store.create(id="one")
    session.append(user("a"))
    with log_of(session).file.locked():
        other = SessionStore(tmp_path).open("one", readonly=True)
        assert len(other.messages()) == 1
        assert len(other.tail()) == 2
        assert SessionStore(tmp_path).list()[0].id == "one"


def test_what_a_killed_writer_could_not_tell_is_listed(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    store.create(id="one").close()
    store.create(id="two").close()

    def write() -> None:
        session = store.open("one")
        for n in range(20):  # More than one in a second: only the first is told at once.
            session.append(user(str(n)))
        os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(in_child(write), 0)
    assert [(info.id, info.messages) for info in store.list()] == [("one", 20), ("two", 0)]
    assert [(info.id, info.messages) for info in store.list()] == [("one", 20), ("two", 0)]


def test_a_run_that_was_killed_before_it_was_listed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore(tmp_path)
    store.create(id="one").close()

    def write() -> None:
        monkeypatch.setattr(
            index.Index, "update", lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
        )
        store.open("one").state.start("a goal")

    os.waitpid(in_child(write), 0)
    assert [found.session_id for found in store.stale()] == ["one"]


def test_the_last_of_two_writers_is_not_forgotten_when_the_first_one_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SessionStore(tmp_path)
    first, second = store.create(id="one"), store.open("one")
    first.append(user("a"))
    second.append(user("b"))
    first.close()
    monkeypatch.setattr(index.Index, "update", lambda *_, **__: None)
    second.append(user("c"))
    assert [info.messages for info in store.list()] == [3]


def test_a_writer_that_knows_no_index_is_listed_at_once(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    for id in ("one", "two"):
        with store.create(id=id) as session:
            session.append(user(id))
    assert [info.id for info in store.list()] == ["two", "one"]
    log = tmp_path / "one/log.jsonl"
    os.utime(log, (1_750_000_000, 1_750_000_000))  # Quiet for long before that.
    assert len(store.list()) == 2
    line = bytearray()
    last = store.open("one", readonly=True).tail(1)[0]
    later = datetime.now(UTC)
    codec.encode([structs.replace(last, seq=2, id="f" * 24, ts=later)], line)
    with log.open("ab") as file:
        file.write(line)
    latest = store.latest()
    assert latest is not None
    assert (latest.id, latest.messages) == ("one", 2)


def test_two_processes_make_sessions_at_once(tmp_path: Path) -> None:
    def make() -> None:
        store = SessionStore(tmp_path)
        for _ in range(50):
            store.create("x").close()

    assert ended_well(*[in_child(make) for _ in range(3)])
    assert len(SessionStore(tmp_path).list()) == 150


def test_any_mix_of_writers_that_are_killed_leaves_a_log_without_gaps(
    tmp_path: Path, loops: Callable[[int], int]
) -> None:
    """Messages, batches, rewinds, compactions and leases from three processes; what is seen does
    not depend on snapshots."""

    def work(seed: int) -> None:
        rng = random.Random(seed)
        session = SessionStore(tmp_path).open("one")
        while True:
            try:
                what = rng.random()
                if what < 0.6:
                    session.append(
                        user(f"{seed} " + "x" * rng.randrange(3000)),
                        key=f"{seed}-{rng.random()}" if what < 0.1 else None,
                    )
                elif what < 0.75:
                    session.append_many([user("a"), user("b")])
                elif what < 0.85:
                    session.rewind(to=rng.randrange(session.last_seq + 1))
                elif what < 0.9:
                    session.redo()
                elif what < 0.97:
                    session.compact("s", upto=rng.randrange(session.last_seq + 1))
                elif what < 0.99:
                    session.close()
                    session = SessionStore(tmp_path).open("one")
                else:
                    with SessionStore(tmp_path).open("one", exclusive=True) as holder:
                        holder.append(user("alone"))
            except LogError:  # nothing to redo or compact, or another one has the lease
                continue

    SessionStore(tmp_path).create(id="one").close()
    for number in range(loops(30)):
        pids = [in_child(lambda seed=number * 3 + n: work(seed)) for n in range(3)]
        time.sleep(0.08)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        store = SessionStore(tmp_path)
        with store.open("one") as session:
            session.append(user("after"))
            records = list(session.records())
            assert [record.seq for record in records] == list(range(len(records)))
            ids = [record.id for record in records]
            assert ids == sorted(set(ids))
            assert len(records) > 20 * (number + 1)  # they did get to write
            view = session.messages()
            branches = session.branches()
        for path in (tmp_path / "one/snapshots").glob("view"):
            path.unlink()
        again = store.open("one", readonly=True)
        assert (again.messages(), again.branches()) == (view, branches)
        assert again.problems == []


def test_a_fork_can_be_killed_at_any_moment(tmp_path: Path, loops: Callable[[int], int]) -> None:
    """A fork is there with everything or not at all; what it left half made is taken away by a
    later one."""
    store = SessionStore(tmp_path)
    with store.create(id="one") as session:
        for _ in range(100):
            session.append(user("x" * 2000))
    rng = random.Random(5)
    for number in range(loops(60)):

        def fork(number: int = number) -> None:
            source = SessionStore(tmp_path).open("one")
            for n in range(1000):
                source.fork(id=f"fork-{number}-{n}")

        pid = in_child(fork)
        time.sleep(rng.uniform(0.005, 0.03))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert {info.messages for info in store.list()} == {100}
    left = tmp_path / ".making/1-left"
    left.mkdir(parents=True)
    (left / "log.jsonl").write_bytes(b"half")
    os.utime(left, (0, 0))
    store.open("one").fork(id="last")
    assert not left.exists()
    assert {len(store.open(info.id).messages()) for info in store.list()} == {100}


def test_a_session_can_be_killed_while_it_is_deleted_or_restored(
    tmp_path: Path, loops: Callable[[int], int]
) -> None:
    store = SessionStore(tmp_path)
    rng = random.Random(6)
    for number in range(loops(100)):
        id = f"s{number}"
        with store.create(id=id) as session:
            session.append(user("kept"))

        def move(id: str = id) -> None:
            moving = SessionStore(tmp_path)
            while True:
                moving.delete(id)
                moving.restore(id).close()

        pid = in_child(move)
        time.sleep(rng.uniform(0.001, 0.015))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if id in store.trash():
            store.restore(id).close()
        with store.open(id) as session:
            session.append(user("after"))
            assert [message["content"] for message in session.messages()] == ["kept", "after"], (
                number
            )
        assert id in [info.id for info in store.list(limit=3)]


def test_four_processes_ensure_one_session_at_once(
    tmp_path: Path, loops: Callable[[int], int]
) -> None:
    for number in range(loops(40)):
        pids = [
            in_child(
                lambda k=k: (
                    SessionStore(tmp_path).ensure(f"s{number}").append(user(str(k)))  # noqa: B023
                )
            )
            for k in range(4)
        ]
        assert ended_well(*pids)
        session = SessionStore(tmp_path).open(f"s{number}")
        assert sorted(message["content"] for message in session.messages()) == ["0", "1", "2", "3"]
        assert [record.type for record in session.records()].count("session") == 1


# Python 3.12 warns of what is tested here.
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("what", ["reading", "running"])
def test_a_handle_that_another_thread_was_using_works_in_the_child_of_a_fork(
    tmp_path: Path, what: str
) -> None:
    """Also one that has never written: a lock that a thread of the parent held would be held in the
    child for ever."""
    import threading

    with SessionStore(tmp_path).create(id="one") as made:
        made.append(user("a"))
        made.state.start("goal")
    session = SessionStore(tmp_path).open("one")
    lock = session.backend_log.mutex if what == "reading" else session.state._lock
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(5)

    def child() -> None:
        signal.alarm(10)
        assert len(session.messages()) == 1
        assert session.state.current.goal_id == "goal"
        session.state.progress("a")
        session.append(user("child"))

    try:
        assert ended_well(in_child(child))
    finally:
        done.set()
        thread.join()
    assert [message["content"] for message in session.messages()] == ["a", "child"]
    assert session.state.current.progress.path == ("a",)


def test_an_append_behind_a_lock_that_nobody_releases_says_so(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, lock_timeout_s=0.2)
    session = store.create(id="one")
    with (session.path / "log.jsonl").open("rb") as file:
        assert try_lock(file.fileno())
        began = time.monotonic()
        with pytest.raises(SessionBusy, match=r"held its lock for 0\.2 s; nothing was"):
            session.append(user("one"))
        assert 0.2 <= time.monotonic() - began < 5
        with pytest.raises(SessionBusy):
            store.open("one", exclusive=True)
    session.append(user("two"))
    assert [message["content"] for message in session.messages()] == ["two"]
