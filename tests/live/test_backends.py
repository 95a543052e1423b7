"""What both homes of a session promise: keys, expectations, leases, blobs, kills, two writers.

Processes are started by address, as another machine would.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from runlore.errors import Conflict, InvalidId, LogError, SessionBusy, SessionNotFound
from runlore.live import AsyncSessionStore, LiveSession, SessionStore


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def texts(session: LiveSession) -> list[str]:
    return [message["content"] for message in session.messages()]


def start(code: str, address: str, *more: str, host: str | None = None) -> subprocess.Popen[str]:
    """Start a process with `store`, on a machine of another name if there is a host."""
    begin = """
        import os, sys
        from runlore.live import SessionStore
        from runlore.errors import *
        """
    if host is not None:
        begin += f"""
        from runlore.live import process
        uname = os.uname()
        os.uname = lambda: os.uname_result((uname[0], {host!r}, *uname[2:]))
        process.machine_id = lambda: {host!r}
        process.pid_space = lambda: {host!r}
        """
    program = textwrap.dedent(begin) + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", program, address, *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line_of(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline().strip()


def tell(program: subprocess.Popen[str], line: str = "") -> None:
    assert program.stdin is not None
    program.stdin.write(line + "\n")
    program.stdin.flush()


def end(program: subprocess.Popen[str]) -> None:
    program.communicate(timeout=60)
    assert program.returncode == 0


# ── records, keys, expectations ───────────────────────────────────────────────────────────────────


def test_what_is_appended_comes_back_as_it_was(store: SessionStore, address: str) -> None:
    odd = {
        "text": "ü€😀\x00\x1b \ud800",
        "numbers": [1.0, 10**17, -0.5, 1e300],
        "z": {"b": 1, "a": [True, None]},
    }
    session = store.create(id="one")
    record = session.record("note", odd, key="k ü")
    other = SessionStore(address).open("one")
    (same,) = other.records(after=0)
    assert (same.payload, same.key, same.id, same.ts) == (odd, record.key, record.id, record.ts)
    assert list(same.payload["z"]) == ["b", "a"]
    assert other.find(record.id) == other.find(1) == same
    assert [record.seq for record in other.tail(5)] == [0, 1]


def test_ids_grow_whoever_appends(store: SessionStore, address: str) -> None:
    one, two = store.create(id="one"), SessionStore(address).open("one")
    for n in range(10):
        (one, two)[n % 2].append(user(str(n)))
    records = [*one.records()]
    assert [record.id for record in records] == sorted({record.id for record in records})
    assert [record.seq for record in records] == list(range(11))


def test_a_batch_is_there_as_a_whole_and_each_key_counts_once(
    store: SessionStore, address: str
) -> None:
    session = store.create(id="one")
    session.record("a", {"n": 1}, key="a")
    other = SessionStore(address).open("one")
    records = other.record_many([("a", {"n": 1}, "a"), ("b", {"n": 2}, "b"), ("b", {"n": 2}, "b")])
    assert [record.seq for record in records] == [1, 2, 2]
    with pytest.raises(Conflict):
        other.record_many([("c", {"n": 3}, None), ("a", {"n": 2}, "a")])
    assert other.last_seq == 2
    session.record("d", {}, expect=2)
    with pytest.raises(Conflict) as refused:
        other.record("e", {}, expect=2)
    assert (refused.value.expected, refused.value.actual) == (2, 3)
    assert other.record_many([("a", {"n": 1}, "a")], expect=0)[0].seq == 1


def test_of_several_who_use_a_key_at_once_one_appends(store: SessionStore, address: str) -> None:
    store.create(id="one").close()
    seqs: list[tuple[int, int]] = []

    def append(name: int) -> None:
        with SessionStore(address).open("one") as session:
            seqs.extend(
                (n, session.record("note", {"n": n}, key=f"key {n}").seq) for n in range(10)
            )

    threads = [threading.Thread(target=append, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seqs) == 40
    assert len(set(seqs)) == 10
    assert store.open("one").last_seq == 10


def test_of_several_who_ensure_a_session_all_get_the_same(address: str) -> None:
    def append(name: int) -> None:
        store = SessionStore(address)
        with store.ensure("one") as session:
            session.append(user(str(name)))
        store.close()

    threads = [threading.Thread(target=append, args=(name,)) for name in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with SessionStore(address) as store, store.open("one") as session:
        assert sorted(texts(session)) == list("01234")
        assert [record.type for record in session.records()].count("session") == 1


def test_large_outputs_stay_out_of_the_log_also_of_a_draft(
    store: SessionStore, address: str
) -> None:
    long = "ü" * 100_000
    call = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "a", "name": "run", "input": {}}],
    }
    message = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "a", "content": long}],
    }
    with store.draft(id="one") as session:
        ref = session.put_output(b"\x00raw")
        session.append_many([call, message])
        assert session.output(ref) == b"\x00raw"
    other = SessionStore(address).open("one")
    assert other.output(ref) == b"\x00raw"
    assert other.messages() == [call, message]
    assert len(other.messages(whole=False)[1]["content"][0]["content"]) < 10_000
    with other.fork(id="two"):
        pass
    store.delete("one")
    store.empty_trash()
    assert SessionStore(address).open("two").messages() == [call, message]
    with pytest.raises(LogError):
        other.output("0" * 64)


# ── views ─────────────────────────────────────────────────────────────────────────────────────────


def test_rewinds_branches_and_compactions_are_seen_by_the_next_process(
    store: SessionStore, address: str
) -> None:
    session = store.create(id="one")
    question = session.append(user("colour?"))
    session.append(user("red"))
    session.rewind(to=question)
    session.append(user("blue"))
    session.compact("it is blue")
    session.append(user("thanks"))
    with SessionStore(address) as store_2, store_2.open("one") as other:
        assert texts(other) == texts(session)
        assert texts(other)[-1] == "thanks"
        assert len(other.branches()) == 2
        other.rewind(to=question)
        assert texts(session) == ["colour?"]
        assert other.at(question).messages == [user("colour?")]
    session.redo()
    assert texts(session)[-1] == "thanks"


def test_the_ledger_says_after_a_crash_what_tools_did(store: SessionStore, address: str) -> None:
    program = start(
        """
        store = SessionStore(sys.argv[1])
        session = store.create(id="one")
        calls = [{"type": "tool_use", "id": id, "name": "run", "input": {}} for id in "abc"]
        session.append({"role": "assistant", "content": calls})
        session.tool_started("a", "run")
        session.tool_finished("a", "x" * 100_000)
        session.tool_started("b", "run", replay="safe")
        os.kill(os.getpid(), 9)
        """,
        address,
    )
    program.communicate()
    with SessionStore(address) as again, again.open("one") as session:
        fates = {call.call_id: (call.fate, call.replay) for call in session.recover().calls}
        assert fates == {
            "a": ("settled", "never"),
            "b": ("unknown", "safe"),
            "c": ("not_started", "never"),
        }
        assert session.messages()[1]["content"][0]["content"] == "x" * 100_000
        assert [record.type for record in session.records()][-1] == "tool_started"


def test_a_run_its_checkpoints_and_skills_go_on_in_another_handle(
    store: SessionStore, address: str
) -> None:
    with store.create(id="one") as session:
        session.state.start("goal")
        for n in range(20):
            session.append(user(str(n)))
            session.state.progress("step", tokens=10)
        point = session.state.checkpoint("step", {"hits": 3}, next_node="write")
        session.state.put(hits=4)
        session.state.fail("no answer")
        with session.skill("tdd") as run, run.attempt(model="m") as attempt:
            attempt.verified(by="exit_code", command="pytest", exit_code=1)
        session.state.save()
    with SessionStore(address) as other_store, other_store.open("one") as session:
        assert session.state.current.progress.total_tokens == 200
        assert session.state.resume(point.id).data_buffer == {"hits": 3}
        assert session.state.current.progress.resume_from == "write"
        assert session.skills.rate("tdd") == 0.0
        with session.fork(id="two", all=True) as copy:
            assert copy.state.status == "paused"
            assert [one.id for one in copy.state.checkpoints] == [point.id]
            assert [entry.skill for entry in copy.skills.entries()] == ["tdd"]


def test_snapshots_save_reading_and_can_be_lost(store: SessionStore, address: str) -> None:
    with store.create(id="one") as session:
        for n in range(150):
            session.append(user(str(n)))
        session.put_snapshot("mine", 100, b"as of 100")
    with SessionStore(address) as other_store, other_store.open("one") as session:
        assert session.snapshot("mine") == (100, b"as of 100")
        assert [record.seq for record in session.records(after=100)] == list(range(101, 151))
        assert session.snapshot("yours") is None
        assert len(session.messages()) == 150


def test_async_callers_have_both(address: str) -> None:
    async def talk() -> list[Any]:
        async with AsyncSessionStore(address) as store, await store.create(id="one") as session:
            await asyncio.gather(*(session.append(user(str(n))) for n in range(5)))
            return [*await session.messages()]

    assert sorted(message["content"] for message in asyncio.run(talk())) == list("01234")


# ── the set of sessions ───────────────────────────────────────────────────────────────────────────


def test_the_list_and_the_latest_are_exact_whoever_wrote(store: SessionStore, address: str) -> None:
    other = SessionStore(address)
    for id in ("a", "b", "c"):
        store.create(id=id, agent=id).append(user(f"title of {id}"))
    session = other.open("a")
    for n in range(3):
        session.append(user(str(n)))  # Its handle stays open, and tells nobody.
        assert [info.id for info in store.list()] == ["a", "c", "b"]
        latest = store.latest()
        assert latest is not None
        assert (latest.id, latest.messages) == ("a", n + 2)
    session.state.start("goal")
    assert [info.id for info in store.list(status="active")] == ["a"]
    assert [info.title for info in store.list(agent="b")] == ["title of b"]
    assert [info.id for info in store.list(limit=1, offset=1)] == ["c"]
    store.delete("c")
    assert [info.id for info in other.list()] == ["a", "b"]
    store.reindex()
    assert [info.id for info in other.list()] == ["a", "b"]


def test_what_is_deleted_can_be_restored_until_the_trash_is_emptied(
    store: SessionStore, address: str
) -> None:
    session = store.create(id="one")
    session.append(user("a"))
    SessionStore(address).delete("one")
    with pytest.raises(SessionNotFound):
        session.append(user("too late"))
    with pytest.raises(SessionNotFound):
        store.open("one")
    assert store.trash() == ["one"]
    with store.create(id="one") as new:
        new.append(user("new"))
    with pytest.raises(Conflict):
        store.restore("one")
    store.delete("one")
    assert texts(store.restore("one")) == ["new"]
    assert store.empty_trash() == 1
    assert not store.trash()
    assert texts(store.open("one")) == ["new"]
    with pytest.raises(SessionNotFound):
        store.restore("two")
    with pytest.raises(InvalidId):
        store.open("../one")


# ── several processes ─────────────────────────────────────────────────────────────────────────────

APPEND = """
    store = SessionStore(sys.argv[1])
    session, name = store.open("one"), sys.argv[2]
    for n in range(int(sys.argv[3])):
        session.append({"role": "user", "content": f"{name} {n}"})
    """


def test_two_writers_lose_nothing_and_keep_their_order(store: SessionStore, address: str) -> None:
    store.create(id="one").close()
    for program in [start(APPEND, address, name, "60") for name in "ab"]:
        end(program)
    all_texts = texts(store.open("one"))
    for name in "ab":
        own = [text for text in all_texts if text.startswith(name)]
        assert own == [f"{name} {n}" for n in range(60)]
    assert not store.open("one").check()


def write_until_killed(address: str, turn: int, acknowledge: int) -> None:
    """Append, compact, rewind and change the state without end, and tell the number of each turn
    when it is acknowledged."""
    session = SessionStore(address).ensure("one")
    for n in range(1 << 30):
        session.append(user(f"{turn} {n}"))
        if n % 5 == 1:
            session.record("note", {"n": n}, key=f"{turn} {n}")
        if n % 7 == 3:
            session.rewind(to=session.last_seq - 1)
            session.redo()
        if n % 11 == 5:
            session.compact(f"summary {n}")
        if n == 2 and session.state.status == "new":
            session.state.start("goal")
        os.write(acknowledge, b"%d\n" % n)


def test_kills_lose_nothing_that_was_acknowledged(
    address: str, loops: Callable[[int], int]
) -> None:
    dice = random.Random(7)
    expected: set[str] = set()
    SessionStore(address).close()
    for turn in range(loops(200)):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                write_until_killed(address, turn, writing)
            finally:
                os._exit(1)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            assert pipe.readline() == "0\n"
            time.sleep(dice.random() * 0.1)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            acknowledged = max([0, *map(int, pipe.read().split())])
        expected |= {f"{turn} {n}" for n in range(acknowledged + 1)}
        with SessionStore(address) as store, store.open("one") as session:
            assert expected <= {
                record.payload["content"]
                for record in session.records()
                if record.type == "message"
            }
            assert not [problem for problem in session.check() if problem.lost]
            assert store.latest() == session.meta
            session.append(user("after"))


def test_a_follower_sees_what_others_append(store: SessionStore, address: str) -> None:
    store.create(id="one").close()
    follower = SessionStore(address).open("one", readonly=True)
    following = follower.follow(after=0, timeout_s=20)
    for text in "abc":
        program = start(APPEND, address, text, "1")
        assert next(following).payload["content"] == f"{text} 0"
        end(program)
    assert not [*follower.follow(timeout_s=0.1)]
    follower.close()


# ── leases ────────────────────────────────────────────────────────────────────────────────────────

HOLD = """
    store = SessionStore(sys.argv[1], lease_s=float(sys.argv[3]))
    try:
        session = store.open("one", exclusive=True, owner=sys.argv[2])
    except SessionBusy as error:
        print("busy", error.owner, flush=True)
        raise SystemExit
    message = {"role": "user", "content": f"{sys.argv[2]} has it"}
    session.append(message, key="key of the winner")
    print("holds", flush=True)
    for line in sys.stdin:
        try:
            session.append({"role": "user", "content": f"{sys.argv[2]} {line.strip()}"})
            print("appended", flush=True)
        except LeaseLost as error:
            print("lost", flush=True)
        if line.strip() == "leave":
            session.close()
            print("left", flush=True)
    """


def test_of_two_hosts_that_fight_for_a_lease_one_wins_and_the_other_is_refused(
    store: SessionStore, address: str
) -> None:
    store.create(id="one").close()
    fighters = [start(HOLD, address, name, "60", host=f"host-{name}") for name in ("x", "y")]
    answers = [line_of(fighter) for fighter in fighters]
    assert sorted(answer.split()[0] for answer in answers) == ["busy", "holds"]
    winner = "xy"[answers.index("holds")]
    assert f"busy {winner}" in answers
    # Nobody else writes, and whoever takes over shuts the winner out.
    for key in (None, "key of the winner"):
        with pytest.raises(SessionBusy):
            store.open("one").append(user(f"{winner} has it"), key=key)
    holder = fighters["xy".index(winner)]
    tell(holder, "1")
    assert line_of(holder) == "appended"
    third = start(
        """
        store = SessionStore(sys.argv[1])
        session = store.open("one", exclusive=True, owner="z", take_over=sys.argv[2])
        session.append({"role": "user", "content": "z has it"})
        print("holds", flush=True)
        sys.stdin.readline()
        """,
        address,
        winner,
        host="host-z",
    )
    assert line_of(third) == "holds"
    tell(holder, "2")
    assert line_of(holder) == "lost"
    end(third)
    tell(holder, "3")  # Also when it is free again.
    assert line_of(holder) == "lost"
    for fighter in fighters:
        end(fighter)
    assert texts(store.open("one")) == [f"{winner} has it", f"{winner} 1", "z has it"]


def test_a_lease_ends_with_its_process_and_is_renewed_until_then(
    store: SessionStore, address: str
) -> None:
    store.create(id="one").close()
    holder = start(HOLD, address, "x", "1")
    assert line_of(holder) == "holds"
    time.sleep(1.5)  # It says nothing, and still has it.
    with pytest.raises(SessionBusy) as busy:
        store.open("one", exclusive=True)
    assert busy.value.owner == "x"
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with store.open("one", exclusive=True) as session:  # On this machine it is known to be dead.
        session.append(user("mine"))
    assert texts(store.open("one")) == ["x has it", "mine"]


def test_a_child_of_a_fork_has_no_lease(store: SessionStore) -> None:
    session = store.create(id="one")
    session.close()
    session = store.open("one", exclusive=True)
    child = os.fork()
    if not child:
        status = 1
        try:
            session.append(user("child"))
        except SessionBusy:
            status = 0
        os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    session.append(user("parent"))
    session.close()
    assert texts(store.open("one")) == ["parent"]


@pytest.mark.server
def test_a_host_that_was_cut_off_is_refused_when_its_lease_was_taken(
    store: SessionStore, address: str
) -> None:
    store.create(id="one").close()
    holder = start(HOLD, address, "x", "0.6", host="far")
    assert line_of(holder) == "holds"
    with pytest.raises(SessionBusy):  # Its pid says nothing here.
        store.open("one", exclusive=True)
    holder.send_signal(signal.SIGSTOP)
    time.sleep(0.8)
    with store.open("one", exclusive=True, owner="me") as session:
        session.append(user("mine"))
        holder.send_signal(signal.SIGCONT)
        tell(holder, "1")
        assert line_of(holder) == "lost"
    end(holder)
    assert texts(store.open("one")) == ["x has it", "mine"]


@pytest.mark.server
def test_a_holder_that_was_silent_too_long_is_refused_when_anyone_has_written(
    store: SessionStore, address: str
) -> None:
    store.create(id="one").close()
    holder = start(HOLD, address, "x", "0.6", host="far")
    assert line_of(holder) == "holds"
    holder.send_signal(signal.SIGSTOP)
    time.sleep(0.8)
    store.open("one").append(user("mine"))
    holder.send_signal(signal.SIGCONT)
    tell(holder, "1")
    assert line_of(holder) == "lost"
    end(holder)


RUN = """
    store = SessionStore(sys.argv[1], lease_s=0.6)
    session = store.open("one", exclusive=True, owner="x")
    session.state.start("goal")
    print("runs", flush=True)
    for line in sys.stdin:
        try:
            session.state.progress("step")
            print("appended", flush=True)
        except LeaseLost:
            print("lost", flush=True)
    """


@pytest.mark.server
def test_a_run_of_another_host_is_recovered_when_its_lease_has_run_out(
    store: SessionStore, address: str
) -> None:
    store.create(id="one").close()
    far = start(RUN, address, host="far")
    assert line_of(far) == "runs"
    assert not store.recover()
    time.sleep(0.8)
    assert not store.recover(), "it renews its lease"
    far.send_signal(signal.SIGSTOP)
    time.sleep(0.8)
    (stale,) = store.recover("paused")
    assert (stale.verdict, stale.marked) == ("dead", "paused")
    far.send_signal(signal.SIGCONT)
    tell(far)
    assert line_of(far) == "lost"
    end(far)
    with store.open("one") as session:
        assert session.state.status == "paused"
        assert session.state.resume().status == "active"


@pytest.mark.server
def test_a_follower_is_notified_and_need_not_look(
    store: SessionStore, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runlore.live.postgres import following

    monkeypatch.setattr(following, "MAX_SILENCE_S", 1e9)
    session = store.create(id="one")
    with SessionStore(address) as other, other.open("one", readonly=True) as follower:
        seen = follower.follow(after=0, poll_s=0.01, timeout_s=30)
        for n in range(3):
            session.append(user(str(n)))
            assert next(seen).payload == user(str(n))


@pytest.mark.server
def test_a_handle_that_nobody_has_any_more_lets_its_lease_run_out(
    store: SessionStore, address: str
) -> None:
    store.create(id="one").close()
    with SessionStore(address, lease_s=0.6) as other:
        session = other.open("one", exclusive=True)
        time.sleep(0.8)
        with pytest.raises(SessionBusy):
            store.open("one").append(user("no"))
        del session
        gc.collect()
        time.sleep(0.8)
        store.open("one").append(user("now"))


@pytest.mark.server
def test_a_writer_waits_so_long_for_a_lock_and_no_longer(
    store: SessionStore, address: str, server: Any
) -> None:
    import psycopg

    store.create(id="one").close()
    with (
        SessionStore(address, lock_timeout_s=0.2) as other,
        other.open("one") as session,
        psycopg.connect(address) as holder,
    ):
        holder.execute("select 1 from live_sessions for update")
        with pytest.raises(SessionBusy):
            session.append(user("no"))
        holder.rollback()
        session.append(user("yes"))


@pytest.mark.server
def test_records_that_were_inserted_by_hand_are_noticed(store: SessionStore, address: str) -> None:
    import psycopg

    session = store.create(id="one")
    for n in range(3):
        session.append(user(str(n)))
    with psycopg.connect(address) as other:
        other.execute("update live_records set seq = 4 where seq = 3")
    with pytest.raises(LogError, match="in use"):
        session.append(user("next"))
    (problem,) = store.open("one").check()
    assert problem.lost == (3, 3)


@pytest.mark.server
def test_a_connection_that_was_cut_is_replaced(store: SessionStore, server: Any) -> None:
    session = store.create(id="one")
    session.append(user("before"))

    def cut() -> None:
        server.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'runlore live'"
        )
        time.sleep(0.2)

    cut()
    session.append(user("after"))
    cut()
    assert texts(session) == ["before", "after"]


# ── addresses ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wrong",
    [
        "mysql://me:geheim@host/db",
        "redis://:geheim@host",
        "postgresql://me:geheim@localhost:1/db",
        "postgresql://me:ge/heim@localhost:1/db",
        "postgresql://me:geheim@localhost:port/db",
        "postgresql://me@localhost:1/db?password=geheim",
        "postgresql://me:geheim@[::1/db",
        "postgresql://me:geheim@localhost:1/db?colour=red",
    ],
)
def test_a_wrong_address_is_refused_in_one_line_without_its_password(
    wrong: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    with pytest.raises(LogError) as refused:
        SessionStore(wrong)
    text = str(refused.value)
    assert "\n" not in text
    assert "geheim" not in text
    assert "heim" not in text
    assert not os.listdir(empty)


@pytest.mark.server
def test_the_name_of_a_server_has_no_password(server: Any, address: str) -> None:
    with server.locked_role("live_writer", "geheim") as url:
        server.execute("grant all on schema public to live_writer")
        with SessionStore(url) as store:
            assert "live_writer@" in store.name
            assert "geheim" not in store.name
        with pytest.raises(LogError) as refused:
            SessionStore(url.replace("geheim", "falsch"))
        assert "falsch" not in str(refused.value)
        server.execute("drop owned by live_writer")
