"""What people who run agents in production rely on, each in one test."""

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runlore.errors import Conflict, LogError, ModelError, SessionBusy
from runlore.live import SessionStore
from runlore.live.liveness import here
from runlore.live.run_records import Started


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "store")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def run(store: SessionStore, code: str) -> "subprocess.Popen[bytes]":
    """Start a process that has the session `one` open, and wait until it says that it is ready."""
    program = f"from runlore.live import SessionStore\ns = SessionStore({str(store.path)!r})"
    program = f"{program}.open('one')\n{code}\n"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


def test_of_many_records_only_the_known_ones_are_left_out(store: SessionStore) -> None:
    session = store.create()
    first = session.record("own", {"n": 1}, key="a")
    both = session.record_many([("own", {"n": 1}, "a"), ("own", {"n": 2}, "b")])
    assert [record.payload for record in both] == [{"n": 1}, {"n": 2}]
    assert both[0] == first
    with pytest.raises(Conflict):
        session.record_many([("own", {"n": 3}, None), ("own", {"n": 9}, "b")])
    assert session.last_seq == both[1].seq


def test_a_run_is_taken_from_a_live_process_without_a_checkpoint(store: SessionStore) -> None:
    session = store.create(id="one")
    code = "s.state.start()\ns.state.progress('n')\nprint(flush=True)\nimport time\ntime.sleep(60)"
    process = run(store, code)
    try:
        with pytest.raises(SessionBusy):
            session.state.resume()
        state = session.state.resume(take_over=True)
        assert (state.status, state.progress.current_node) == ("active", "n")
    finally:
        process.kill()
        process.wait()


def test_a_run_of_a_lost_machine_is_recovered_in_time(store: SessionStore) -> None:
    long_ago = here(datetime.now(UTC) - timedelta(hours=2))
    owner = msgspec.structs.replace(long_ago, host="elsewhere", machine="other")
    payload = msgspec.to_builtins(Started(run="r", owner=owner))
    store.create(id="one").record("state.started", payload)
    assert [one.marked for one in store.recover()] == [None]
    assert [one.marked for one in store.recover(lost_after=timedelta(hours=1))] == ["failed"]
    assert store.open("one").state.status == "failed"


def test_the_latest_session_is_known_right_after_a_kill(store: SessionStore) -> None:
    for id in ("one", "two"):
        store.create(id=id).append(user("x"))
    latest = store.latest()
    assert latest is not None
    assert latest.id == "two"
    code = "s.append({'role': 'user', 'content': 'y'})\nimport os\nos.kill(os.getpid(), 9)"
    if sys.platform == "win32":
        code = code.replace("os.kill(os.getpid(), 9)", "os._exit(9)")
    run(store, code).wait()
    latest = store.latest()
    assert latest is not None
    assert (latest.id, latest.messages) == ("one", 2)


def test_a_seq_that_was_given_twice_is_reported(store: SessionStore) -> None:
    session = store.create(id="one")
    session.append(user("x"))
    log = session.path / "log.jsonl"
    log.write_bytes(log.read_bytes() + log.read_bytes().splitlines(keepends=True)[-1])
    (problem,) = store.open("one").check()
    assert "without the log's lock" in problem.reason


@pytest.mark.parametrize("path", ["redis://host/0", "s3://bucket", "mysql://u:secret@host/db"])
def test_an_unknown_kind_of_store_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(LogError) as error:
        SessionStore(path)
    assert "secret" not in str(error.value)
    assert list((tmp_path / "here").iterdir()) == []


def test_a_long_result_comes_back_whole(store: SessionStore) -> None:
    session = store.create()
    block = {"type": "tool_result", "tool_use_id": "a", "content": "y" * 200_000}
    session.append({"role": "user", "content": [block]})
    whole, short = (session.messages(repaired=False, whole=whole) for whole in (True, False))
    assert whole[0]["content"][0]["content"] == "y" * 200_000
    assert len(short[0]["content"][0]["content"]) < 10_000


def test_a_run_is_new_until_it_is_started(store: SessionStore) -> None:
    session = store.create()
    assert session.state.current.status == "new"
    assert session.state.start().status == "active"


@pytest.mark.parametrize(
    "value", [b"x", datetime.now(UTC), date(2026, 1, 2), {1, 2}, float("nan"), float("inf"), {1: 2}]
)
def test_what_would_come_back_as_something_else_is_refused(store: SessionStore, value: Any) -> None:
    session = store.create()
    before = session.last_seq
    for write in (
        lambda: session.append({"role": "user", "content": "x", "meta": [value]}),
        lambda: session.record("own", {"value": value}),
        lambda: session.record_many([("own", {"value": value}, None)]),
        lambda: session.tool_finished("a", {"value": value}),
        lambda: session.update_meta(value=value),
        lambda: store.create(value=value),
        lambda: session.state.put(value=value),
        lambda: session.state.checkpoint("n", {"value": value}),
        lambda: session.put_values({"value": value}),
    ):
        with pytest.raises((LogError, ModelError)):
            write()
    assert session.last_seq == before


def test_a_whole_fork_has_all_there_is(store: SessionStore) -> None:
    session = store.create(model="m")
    session.state.start()
    session.state.checkpoint("n", {"a": 1})
    with session.skill("tdd"):
        pass
    own = session.record("own", {"n": 1}, key="k")
    session.append(user("x"))
    session.update_meta(more=True)
    fork = session.fork(all=True)
    assert (fork.meta.model, fork.meta.extra) == ("m", {"more": True})
    assert fork.messages() == [user("x")]
    latest = fork.state.checkpoints.latest()
    assert latest is not None
    assert fork.state.checkpoints.load(latest).data_buffer == {"a": 1}
    assert [entry.skill for entry in fork.skills.entries()] == ["tdd"]
    again = fork.record("own", {"n": 1}, key="k")  # It knows the keys as well.
    assert again.id == own.id
