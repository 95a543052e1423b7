"""Who is alive: real processes, pids that were given again, other hosts; and what recovery does to
a store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore.live import liveness, process
from runlore.live.liveness import SILENT_AFTER, Owner, here, judge, recover, stale
from runlore.live.log import SessionStore

NOW = datetime.now(UTC)
replace = msgspec.structs.replace
posix = pytest.mark.skipif(os.name != "posix", reason="signals and zombies")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")

RUN = """
import sys
from runlore.live.log import SessionStore
session = SessionStore(sys.argv[1]).open(sys.argv[2])
session.state.start("work")
session.state.progress("node", tokens=5)
if len(sys.argv) > 3: session.state.checkpoint("node", {"done": 1}, next_node="next")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def known_by_name() -> None:
    """Who we are is asked once: before a test changes what the system answers."""
    here()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    made = SessionStore(tmp_path / "live")
    yield made
    made.close()


def process_of(store: SessionStore, id: str, *more: str) -> subprocess.Popen[str]:
    """Another process that runs the session, until it is killed or its input ends."""
    store.create(id=id).close()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", RUN, str(store.path), id, *more]
    started = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def owned(store: SessionStore, id: str, owner: Owner) -> None:
    """A session that this owner runs, as far as the log knows."""
    with store.create(id=id) as session:
        session.record(
            "state.started",
            {"run": f"run of {id}", "goal_id": "g", "owner": msgspec.to_builtins(owner)},
        )


def status_of(store: SessionStore, id: str) -> str:
    with store.open(id, readonly=True) as session:
        return str(session.state.status)


# ── processes ─────────────────────────────────────────────────────────────────────────────────────
def test_this_process_is_alive_and_known_by_its_start() -> None:
    me = here()
    assert judge(me) == "alive"
    assert (me.pid, me.started) == (os.getpid(), process.start_of(os.getpid()))
    assert me.started
    assert me.host


@posix
def test_a_child_of_a_fork_is_somebody_else() -> None:
    me, (reader, writer) = here(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, msgspec.json.encode(here()))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        other = msgspec.json.decode(pipe.read(), type=Owner)
    assert other.pid == child
    assert not other.is_same(me)
    assert judge(other) == "dead"


@posix
def test_a_process_that_was_killed_is_dead_even_before_its_parent_looks() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started = process.start_of(child.pid)
    owner = replace(here(), pid=child.pid, started=started or "")
    assert judge(owner) == "alive"
    os.kill(child.pid, signal.SIGKILL)
    for _ in range(200):  # A zombie until it is waited for.
        if judge(owner) == "dead":
            break
        time.sleep(0.01)
    assert judge(owner) == "dead"
    child.wait()
    assert judge(owner) == "dead"


def test_a_pid_that_was_given_to_another_process_is_dead() -> None:
    assert judge(replace(here(), started="before")) == "dead"


def test_where_the_start_is_not_known_the_pid_has_to_do() -> None:
    assert judge(replace(here(), started="")) == "alive"
    assert judge(replace(here(), started="", boot="")) == "alive"


@pytest.mark.parametrize("pid", [0, -1, -5, 2**31, 2**80])
def test_a_number_that_is_no_pid_is_nobody_and_signals_nobody(
    pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        os, "kill", lambda *_: pytest.fail("a group of processes would have been meant")
    )
    assert judge(replace(here(), pid=pid)) == "dead"


@posix
def test_a_process_that_may_not_be_signalled_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", refuse)
    assert judge(replace(here(), pid=1, started=process.start_of(1) or "")) == "alive"


@linux
def test_a_process_that_proc_hides_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "from_proc", lambda pid: "" if process.is_known(pid) else None)
    assert judge(here()) == "alive"
    monkeypatch.setattr(process, "is_known", lambda pid: False)
    assert judge(here()) == "dead"


@linux
def test_the_name_of_a_program_does_not_confuse_the_start(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(program), "60"])
    try:
        started = process.start_of(child.pid)
        assert started is not None
        assert started.isdecimal()
        ours = process.start_of(os.getpid())
        assert ours is not None
        assert int(started) >= int(ours)
    finally:
        child.kill()
        child.wait()


@posix
def test_ps_tells_the_same_where_there_is_no_proc() -> None:
    if not process.run_program("ps", "-o", "stat=", "-p", str(os.getpid())):
        pytest.skip("ps is not here")
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    told = process.from_ps(child.pid)
    assert told
    assert told == process.from_ps(child.pid)
    assert str(datetime.now(UTC).year) in told
    os.kill(child.pid, signal.SIGKILL)
    for _ in range(200):
        if process.from_ps(child.pid) is None:
            break
        time.sleep(0.01)
    assert process.from_ps(child.pid) is None, "a zombie"
    child.wait()
    assert process.run_program("no-such-program-anywhere") == ""


# ── other boots, other machines ───────────────────────────────────────────────────────────────────
def test_before_the_last_boot_everybody_is_dead() -> None:
    boot = "ffffffff-0000"
    if not here().boot:
        pytest.skip("this system does not tell its boots apart")
    assert judge(replace(here(), boot=boot, heartbeat=NOW - timedelta(days=4000))) == "dead"
    assert judge(replace(here(), boot=boot, heartbeat=None)) == "dead"


@linux
def test_who_was_heard_since_our_boot_from_another_boot_is_another_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "boot_time", lambda: (NOW - timedelta(days=1)).timestamp())
    twin = replace(here(), boot="ffffffff-0000", heartbeat=NOW)
    assert judge(twin, now=NOW) == "alive"
    assert judge(replace(twin, heartbeat=NOW - timedelta(hours=3))) == "silent"


@pytest.mark.parametrize("change", [{"host": "far"}, {"machine": "other"}, {"space": "pid:[1]"}])
def test_of_another_machine_or_container_only_the_heartbeat_tells(change: dict[str, str]) -> None:
    other = replace(here(), pid=1, started="1", boot="x", **change)
    assert judge(replace(other, heartbeat=NOW), now=NOW) == "alive"
    assert judge(replace(other, heartbeat=NOW - SILENT_AFTER), now=NOW) == "alive"
    assert (
        judge(replace(other, heartbeat=NOW - SILENT_AFTER - timedelta(seconds=1)), now=NOW)
        == "silent"
    )
    assert judge(replace(other, heartbeat=NOW + timedelta(hours=1)), now=NOW) == "alive", (
        "its clock may be ahead of ours"
    )
    assert judge(replace(other, heartbeat=None)) == "unknown"


def test_a_time_without_zone_from_a_strange_log_does_no_harm() -> None:
    strange = Owner(pid=1, host="far", heartbeat=datetime(2026, 1, 1))  # noqa: DTZ001
    assert judge(strange) == "silent"


def test_the_machines_own_id_is_not_given_away() -> None:
    own = process.read_text("/etc/machine-id")
    if own:
        assert own not in msgspec.json.encode(here()).decode()


# ── stores ────────────────────────────────────────────────────────────────────────────────────────
@posix
def test_the_session_of_a_killed_process_is_found_marked_and_resumed(store: SessionStore) -> None:
    child = process_of(store, "crashed", "with a checkpoint")
    assert stale(store) == []
    end(child)
    (found,) = stale(store)
    assert (found.session_id, found.verdict, found.owner.pid) == ("crashed", "dead", child.pid)
    assert status_of(store, "crashed") == "active", "looking changes nothing"
    (marked,) = recover(store)
    assert (marked.session_id, marked.marked) == ("crashed", "failed")
    with store.open("crashed") as session:
        state = session.state.current
        assert (state.status, state.owner, state.progress.path) == ("failed", None, ("node",))
        assert f"process {child.pid}" in str(state.result.error)
        going = session.state.resume(session.state.checkpoints.latest())
        assert (going.status, going.data_buffer, going.progress.resume_from) == (
            "active",
            {"done": 1},
            "next",
        )
    assert stale(store) == recover(store) == []


@posix
def test_a_live_process_keeps_its_session(store: SessionStore) -> None:
    child = process_of(store, "busy")
    try:
        assert recover(store) == []
        assert status_of(store, "busy") == "active"
    finally:
        end(child)


@pytest.mark.parametrize("mark", ["failed", "paused", "cancelled"])
def test_it_is_marked_as_wanted(store: SessionStore, mark: Any) -> None:
    owned(store, "gone", replace(here(), started="before"))
    assert [found.marked for found in recover(store, mark=mark)] == [mark]
    with store.open("gone") as session:
        assert session.state.status == mark
        if mark == "paused":
            assert session.state.resume().status == "active", (
                "from where it stopped, without a checkpoint"
            )


def test_the_run_of_another_machine_is_recovered_when_it_is_silent_for_very_long(
    store: SessionStore,
) -> None:
    quiet = Owner(pid=7, host="far", heartbeat=datetime.now(UTC) - timedelta(hours=30))
    owned(store, "far", quiet)
    assert [found.marked for found in store.recover(lost_after=None)] == [None]
    assert [found.marked for found in store.recover(lost_after=timedelta(hours=48))] == [None]
    assert [found.marked for found in store.recover("paused")] == ["paused"]
    with store.open("far") as session:
        assert "process 7 on far is gone" in str(session.state.current.progress.pause_reason)
        assert session.state.resume().owner is not None


def test_the_sessions_of_other_machines_are_shown_and_not_touched(store: SessionStore) -> None:
    quiet = Owner(pid=7, host="far", heartbeat=NOW - timedelta(hours=20))
    owned(store, "far-and-silent", quiet)
    owned(store, "far-and-alive", replace(quiet, heartbeat=datetime.now(UTC)))
    assert [(found.session_id, found.verdict) for found in stale(store)] == [
        ("far-and-silent", "silent")
    ]
    assert [found.marked for found in recover(store)] == [None]
    assert status_of(store, "far-and-silent") == "active"


def test_paused_finished_and_ownerless_sessions_are_left_alone(store: SessionStore) -> None:
    with store.create(id="paused") as session:
        session.state.start()
        session.state.pause()
    with store.create(id="done") as session:
        session.state.start()
        session.state.complete()
    with store.create(id="only-talk") as session:
        session.append({"role": "user", "content": "hello"})
    assert stale(store) == recover(store) == []


def test_a_session_that_was_resumed_in_the_meantime_is_left_to_its_new_owner(
    store: SessionStore,
) -> None:
    dead = replace(here(), started="before")
    owned(store, "contested", dead)
    with store.open("contested") as session:
        # Another process resumes between our look and our mark.
        session.record("state.paused", {})
        session.state.resume()
        session.record("state.recovered", {"owner": msgspec.to_builtins(dead), "mark": "failed"})
        assert session.state.status == "active"
        assert session.state.view().refused[-1].why == "owner"
        assert not session.state.recover(dead)
        assert not session.state.recover(here()), "and nobody declares a live owner dead"
    assert recover(store) == []


def test_a_heartbeat_of_the_same_owner_does_not_save_it(store: SessionStore) -> None:
    dead = replace(here(), started="before", heartbeat=NOW - timedelta(hours=1))
    owned(store, "late", dead)
    with store.open("late") as session:
        # Its last word, which was not in the list we worked from.
        session.record("state.heartbeat", {})
    assert [found.marked for found in recover(store)] == ["failed"]


def test_one_session_that_cannot_be_read_does_not_hide_the_others(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runlore.errors import LogError

    for id in ("a", "b", "c"):
        owned(store, id, replace(here(), started="before"))
    known = store.list(status="active")
    opened = SessionStore.open

    def refuse_b(self: SessionStore, id: str, **more: Any) -> Any:
        if id == "b":
            raise LogError("b: input/output error")
        return opened(self, id, **more)

    monkeypatch.setattr(SessionStore, "list", lambda self, **wanted: known)
    monkeypatch.setattr(SessionStore, "open", refuse_b)
    assert sorted(found.session_id for found in liveness.stale(store)) == ["a", "c"]
