"""What went wrong with the states of runs elsewhere, one by one (System 3 of the sources this view
unites), and does not here."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from runlore.config import Attention
from runlore.errors import CheckpointError, IllegalTransition, InvalidId, ModelError
from runlore.live import liveness
from runlore.live.attention import attention
from runlore.live.liveness import Owner, here, judge
from runlore.live.log import SessionStore
from runlore.live.run import STATE_VERSION, SessionState, SessionTimestamps
from runlore.live.state import StateHandle

pytestmark = pytest.mark.folder


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMES = SessionTimestamps(started_at=NOW, updated_at=NOW)


@pytest.fixture
def state(store: SessionStore) -> Any:
    with store.create("a run") as session:
        yield StateHandle(session)


def log_of(state: StateHandle) -> Path:
    return Path(state.log.path) / "log.jsonl"  # type: ignore[attr-defined]


def lines_of(state: StateHandle) -> list[bytes]:
    return log_of(state).read_bytes().splitlines(keepends=True)


def damage(state: StateHandle, chosen: Callable[[dict[str, Any]], bool]) -> int:
    """Breaks the lines whose record is chosen, as a bad disk would, and gives how many."""
    lines = lines_of(state)
    hit = [n for n, line in enumerate(lines) if chosen(json.loads(line))]
    for n in hit:
        lines[n] = lines[n][:30] + b"\x00\x00\x00" + lines[n][33:]
    log_of(state).write_bytes(b"".join(lines))
    for snapshot in (log_of(state).parent / "snapshots").glob("*"):
        snapshot.unlink()
    return len(hit)


def test_c1_a_checkpoint_makes_a_session_resumable(state: StateHandle) -> None:
    state.start()
    assert not state.current.is_resumable_from_checkpoint
    point = state.checkpoint("a")
    now = state.current
    assert (now.checkpoint_enabled, now.latest_checkpoint_id) == (True, point.id)
    assert now.is_resumable
    assert now.is_resumable_from_checkpoint


def test_c2_resuming_goes_to_the_node_that_is_next_and_not_to_the_entry(state: StateHandle) -> None:
    state.start(entry_point="begin")
    state.progress("begin")
    state.progress("middle")
    state.checkpoint("middle", next_node="end")
    state.fail("broke")
    assert state.resume(state.checkpoints.latest()).progress.resume_from == "end"
    assert state.current.to_session_state_dict()["resume_from"] == "end"


def test_c3_saving_and_loading_again_and_again_makes_no_duplicate_keys(state: StateHandle) -> None:
    state.start()
    state.checkpoint("a")
    value = state.complete()
    for _ in range(3):
        text = value.to_json()
        keys = keys_in(text)
        assert (
            keys.count("duration_ms")
            == keys.count("is_resumable")
            == keys.count("is_resumable_from_checkpoint")
            == 1
        )
        value = SessionState.from_json(text)
        assert value.extra == {}
    old = (
        f'{{"session_id":"s","goal_id":"g","duration_ms":1,"duration_ms":2,'
        f'"timestamps":{TIMES.to_json()}}}'
    )
    assert SessionState.from_json(old).to_dict()["duration_ms"] == 0


def keys_in(text: str) -> list[str]:
    """Every key of the JSON, as often as it stands there."""
    keys: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys.extend(name for name, _ in pairs)
        return dict(pairs)

    json.loads(text, object_pairs_hook=note)
    return keys


def test_c4_times_are_aware_and_a_bad_one_never_keeps_the_state_from_being_saved(
    state: StateHandle,
) -> None:
    with pytest.raises(ModelError, match="aware"):
        SessionTimestamps(started_at=datetime(2026, 1, 1), updated_at=NOW)  # noqa: DTZ001
    with pytest.raises(ModelError, match="not a time"):
        SessionState.from_dict(
            {
                "session_id": "s",
                "goal_id": "g",
                "timestamps": {"started_at": "yesterday", "updated_at": "x"},
            }
        )
    state.start()
    done = state.complete()
    assert done.timestamps.started_at.tzinfo is UTC
    assert json.loads(done.to_json())["timestamps"]["started_at"].endswith("Z")
    # A clock that was set back an hour in between: no duration rather than a negative one, and no
    # error.
    times = SessionTimestamps(started_at=NOW, updated_at=NOW, completed_at=NOW - timedelta(hours=1))
    back = msgspec.structs.replace(done, timestamps=times)
    assert back.duration_ms == 0
    assert SessionState.from_json(back.to_json()) == back


def test_c5_the_old_name_of_the_buffer_is_read_and_never_written() -> None:
    base = {"session_id": "s", "goal_id": "g", "timestamps": TIMES.to_dict()}
    assert SessionState.from_dict({**base, "memory": {"a": 1}}).data_buffer == {"a": 1}
    both = SessionState.from_dict({**base, "memory": {"stale": 1}, "data_buffer": {"b": 2}})
    assert (both.data_buffer, both.memory) == ({"b": 2}, {"b": 2})
    assert "memory" not in both.to_dict()
    assert both.extra == {}


def test_c6_a_state_cannot_be_changed_into_what_cannot_be(state: StateHandle) -> None:
    now = state.start()
    with pytest.raises(AttributeError):
        now.status = "nonsense"  # type: ignore[misc, assignment]
    with pytest.raises(ModelError, match="nonsense"):
        msgspec.structs.replace(now, status="nonsense")
    with pytest.raises(ModelError, match="nonsense"):
        SessionState.from_dict({**now.to_dict(), "status": "nonsense"})
    with pytest.raises(TypeError):
        SessionState(  # type: ignore[call-arg]
            session_id="s", goal_id="g", timestamps=TIMES, staus="active"
        )
    with pytest.raises(ModelError):
        state.describe(worker_configurd=True)


def test_c7_ending_a_run_resets_nothing_that_was_known(state: StateHandle) -> None:
    state.start()
    state.progress("a", input_tokens=5)
    state.decide("one")
    state.problem("two")
    state.describe(active_triggers=["t"], extra={"mine": 1})
    point = state.checkpoint("a")
    before, after = state.current, state.complete({"ok": True})
    kept = (
        "metrics",
        "decisions",
        "problems",
        "active_triggers",
        "extra",
        "checkpoint_enabled",
        "latest_checkpoint_id",
        "progress",
    )
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert after.latest_checkpoint_id == point.id
    result = SimpleNamespace(
        success=True, error=None, output={}, path=["a"], paused_at=None, session_state=None
    )
    again = SessionState.from_execution_result(after.session_id, "", result, previous=after)
    kept = (
        "metrics",
        "decisions",
        "problems",
        "active_triggers",
        "extra",
        "checkpoint_enabled",
        "latest_checkpoint_id",
        "current_run_id",
    )
    assert [getattr(again, name) for name in kept] == [getattr(after, name) for name in kept]


def test_c8_a_change_costs_what_changes_however_much_is_known(state: StateHandle) -> None:
    state.start(input_data={"long": "x" * 10_000})
    state.put(big="y" * 50_000)
    for n in range(300):
        state.decide({"n": n, "text": "z" * 100})
        state.progress("a")
    before = log_of(state).stat().st_size
    state.progress("a", tokens=1)
    assert log_of(state).stat().st_size - before < 300
    assert [step.after for step in state.history()] == ["active"], (
        "and what happened can be read again"
    )


def test_c9_only_legal_transitions_can_be_told_or_stored(state: StateHandle) -> None:
    state.start()
    state.complete()
    with pytest.raises(IllegalTransition):
        state.progress("more")
    state.log.record("state.paused", {})  # By someone who did not ask.
    assert state.status == "completed"
    assert [refused.type for refused in state.view().refused] == ["state.paused"]
    with pytest.raises(ModelError, match="cannot have completed_at"):
        msgspec.structs.replace(state.current, status="active")
    with pytest.raises(ModelError, match="needs completed_at"):
        SessionState(session_id="s", goal_id="g", timestamps=TIMES, status="failed")


def result_of(**fields: Any) -> SimpleNamespace:
    empty: dict[str, Any] = {
        "success": False,
        "error": None,
        "output": {},
        "path": [],
        "paused_at": None,
        "session_state": None,
    }
    return SimpleNamespace(**{**empty, **fields})


def test_c10_a_pause_does_not_hide_a_failure() -> None:
    broke = SessionState.from_execution_result(
        "s", "g", result_of(paused_at="ask", error="broke", path=["ask"])
    )
    assert (broke.status, broke.result.success, broke.result.error) == ("failed", False, "broke")
    assert (broke.progress.paused_at, broke.progress.resume_from) == (None, "ask")
    paused = SessionState.from_execution_result("s", "g", result_of(paused_at="ask", success=True))
    assert (paused.status, paused.result.success) == ("paused", None)


def test_c11_cancelled_is_said_and_not_guessed_from_a_text() -> None:
    failed = SessionState.from_execution_result(
        "s", "g", result_of(error="the order was cancelled by the shop")
    )
    assert failed.status == "failed"
    cancelled = SessionState.from_execution_result(
        "s", "g", result_of(error="stop"), cancelled=True
    )
    assert (cancelled.status, cancelled.result.success) == ("cancelled", False)


def test_c12_a_pid_that_was_given_again_does_not_keep_a_session_alive(store: SessionStore) -> None:
    me = here()
    assert judge(me) == "alive"
    assert judge(msgspec.structs.replace(me, started="1")) == "dead", (
        "the pid is taken, by a process that began at another time"
    )
    old_boot = msgspec.structs.replace(me, boot="another", heartbeat=NOW - timedelta(days=3000))
    assert judge(old_boot) == "dead"
    elsewhere = msgspec.structs.replace(me, host="elsewhere", started="1")
    assert judge(elsewhere) == "alive", "of another host only the heartbeat tells"


@pytest.mark.skipif(os.name != "posix", reason="a process of another user")
def test_c13_a_process_of_another_user_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, signal: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    first = msgspec.structs.replace(here(), pid=1, started="")
    monkeypatch.setattr(os, "kill", refuse)
    assert judge(first) == "alive"


def test_c14_recovery_is_a_record_like_any_other(store: SessionStore) -> None:
    with store.create() as session:
        StateHandle(session).start()
        before = log_of(StateHandle(session)).read_bytes()
    owner = dead_owner()
    with store.open(session.id) as other:
        give_to(other, owner)
        assert StateHandle(other).recover(owner)
        after = log_of(StateHandle(other)).read_bytes()
        assert after.startswith(before), "nothing was rewritten"
        assert StateHandle(other).status == "failed"


def test_c15_two_checkpoints_of_one_node_in_one_moment_are_two(state: StateHandle) -> None:
    state.start()
    points = [state.checkpoint("loop", {"n": n}) for n in range(50)]
    assert len({point.id for point in points}) == len(state.checkpoints) == 50
    assert [state.checkpoints.load(point).data_buffer["n"] for point in points] == list(range(50))


def test_c16_a_checkpoint_and_its_place_in_the_list_are_one_write(store: SessionStore) -> None:
    with store.create() as session:
        StateHandle(session).start()
    sessions = [store.open(session.id) for _ in range(4)]

    def work(n: int) -> list[str]:
        handle = StateHandle(sessions[n])
        return [handle.checkpoint(f"n{n}", {"by": n, "step": step}).id for step in range(10)]

    with ThreadPoolExecutor(4) as pool:
        made = [id for ids in pool.map(work, range(4)) for id in ids]
    for one in sessions:
        one.close()
    with store.open(session.id, readonly=True) as reader:
        points = StateHandle(reader).checkpoints
        assert sorted(point.id for point in points) == sorted(made)
        for point in points:
            assert points.load(point).data_buffer["by"] == int(str(point.node)[1:])
    # The line is there or not; half of it, as after a crash in mid-write, is no checkpoint and
    # hurts none.
    file = store.path / session.id / "log.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    with store.open(session.id, readonly=True) as reader:
        assert len(StateHandle(reader).checkpoints) == 39
        assert StateHandle(reader).checkpoints.load(made[0])


def test_c16_a_checkpoint_is_written_when_the_call_returns(store: SessionStore) -> None:
    async def run() -> str:
        with store.create() as session:
            handle = StateHandle(session)
            handle.start()
            await asyncio.to_thread(handle.checkpoint, "a")
            return session.id

    with store.open(asyncio.run(run()), readonly=True) as session:
        assert len(StateHandle(session).checkpoints) == 1


def test_c17_pruning_never_takes_the_checkpoint_that_the_state_points_to(
    state: StateHandle,
) -> None:
    state.start()
    for n in range(5):
        state.checkpoint("a", {"n": n})
    state.checkpoints.prune(keep=0, older_than=timedelta(seconds=-1))
    latest = state.current.latest_checkpoint_id
    assert [point.id for point in state.checkpoints] == [latest]
    assert latest is not None
    assert state.checkpoints.load(latest).data_buffer == {"n": 4}
    state.log.record("checkpoint.pruned", {"ids": [latest]})  # By someone who did not ask.
    assert state.checkpoints.get(latest)


@pytest.mark.parametrize("id", ["../../etc/passwd", "/etc/passwd", "..", "", "\x00"])
def test_c18_the_name_of_a_checkpoint_leads_nowhere_else(
    state: StateHandle, store: SessionStore, id: str
) -> None:
    state.start()
    state.checkpoint("a")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        state.checkpoints.load(id)
    with pytest.raises(InvalidId):
        store.open(id)


def test_c19_a_missing_checkpoint_stops_and_does_not_start_over(state: StateHandle) -> None:
    state.start()
    state.progress("paid")
    state.fail("broke")
    before = log_of(state).read_bytes()
    with pytest.raises(CheckpointError, match=r"has no checkpoint 'cp_gone'; it has none"):
        state.resume("cp_gone")
    assert log_of(state).read_bytes() == before
    assert state.status == "failed"


def test_c19_a_damaged_checkpoint_stops_and_does_not_start_over(state: StateHandle) -> None:
    state.start()
    state.checkpoint("a", {f"key{n}": "x" * 30 for n in range(40)})
    state.put(paid=True)
    last = state.checkpoint("b")
    assert damage(state, lambda line: line["t"] == "state.buffer") == 1
    again = StateHandle(state.log)
    with pytest.raises(CheckpointError, match=f"checkpoint {last.id} is damaged.*others: cp_"):
        again.resume(last)
    assert again.status == "active"
    assert len(again.log.problems) == 1  # type: ignore[attr-defined]
    assert again.resume(again.checkpoints.list()[0]).data_buffer["key0"] == "x" * 30, (
        "the one before is still good"
    )


def test_c19_a_whole_checkpoint_does_not_need_what_came_before(state: StateHandle) -> None:
    state.start()
    for n in range(40):
        state.progress("a", buffer={"n": n})
        last = state.checkpoint("a")
    kept = state.current
    assert damage(state, lambda line: line["t"] == "state.progress" and line["n"] < last.base) > 20
    again = StateHandle(state.log)
    assert again.checkpoints.load(last).data_buffer == {"n": 39}
    assert again.current.data_buffer == kept.data_buffer
    assert again.current.progress.path == kept.progress.path, (
        "a whole checkpoint puts the view right as well"
    )


def test_c20_a_run_that_still_runs_has_no_success_and_loses_nothing() -> None:
    run = SimpleNamespace(
        goal_id="g",
        status="running",
        started_at=NOW,
        completed_at=None,
        error="slow",
        memory={"k": 1},
        metrics=SimpleNamespace(
            total_decisions=2, total_tokens=10, nodes_executed=["a"], edges_traversed=["e"]
        ),
        decisions=[{"id": 1}],
        problems=[],
        input_data={"i": 1},
        output_data={},
    )
    state = SessionState.from_legacy_run(run, "s")
    assert (state.status, state.result.success, state.result.error, state.data_buffer) == (
        "active",
        None,
        "slow",
        {"k": 1},
    )


def test_c21_stale_sessions_are_found_without_reading_every_state(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def noted(self: StateHandle) -> SessionState:
        read.append(self.session_id)
        return self.view().state

    monkeypatch.setattr(StateHandle, "current", property(noted))
    for n in range(6):
        with store.create(id=f"s{n}") as session:
            handle = StateHandle(session)
            handle.start()
            handle.complete() if n else None
    read.clear()
    liveness.stale(store)
    assert read == ["s0"]


def test_c22_an_old_version_is_brought_up_to_date_and_a_newer_one_kept() -> None:
    times = {
        "started_at": "2026-02-06T10:00:00",
        "updated_at": "2026-02-06T10:01:00",
        "completed_at": "2026-02-06T10:01:00",
    }
    old = SessionState.from_dict(
        {
            "schema_version": "1.0",
            "session_id": "s",
            "goal_id": "g",
            "status": "active",
            "timestamps": times,
        }
    )
    assert old.schema_version == STATE_VERSION
    assert (old.status, old.timestamps.completed_at) == (
        "active",
        None,
    ), "an end of what goes on was no end"
    newer = {**old.to_dict(), "schema_version": "3.0", "later": {"a": 1}, "progress": {"later": 2}}
    kept = SessionState.from_dict(newer)
    assert (kept.schema_version, kept.extra, kept.progress.extra) == (
        "3.0",
        {"later": {"a": 1}},
        {"later": 2},
    )
    assert (kept.to_dict()["later"], kept.to_dict()["progress"]["later"]) == ({"a": 1}, 2)
    with pytest.raises(ModelError, match="schema_version"):
        SessionState.from_dict({**newer, "schema_version": 3})


def test_c23_thresholds_are_the_users(state: StateHandle) -> None:
    state.start()
    state.progress("a", steps=5)
    assert attention(state.current) == ()
    assert attention(state.current, msgspec.convert({"steps": 4}, Attention)) == ("steps",)


def dead_owner() -> Owner:
    return msgspec.structs.replace(here(), started="1")


def give_to(session: Any, owner: Owner) -> None:
    """The run belongs to this owner now, as if it had resumed it."""
    session.record("state.paused", {})
    session.record("state.resumed", {"run": "theirs", "owner": msgspec.to_builtins(owner)})


HALF = "\ud800"


@pytest.mark.parametrize(
    ("type", "payload"),
    [
        ("state.progress", {"quality": HALF}),
        ("state.progress", {HALF: 1}),
        ("state.started", {"owner": {"pid": 1, "heartbeat": HALF}}),
        ("state.recovered", {"owner": {"pid": 1}, "mark": HALF}),
        ("checkpoint", {"id": "a", "digest": "d", "type": HALF}),
        ("checkpoint", {"id": "a", "digest": "d", "whole": {"status": HALF}}),
        (
            "state.adopted",
            {
                "state": {
                    "status": HALF,
                    "goal_id": "g",
                    "timestamps": {"started_at": HALF, "updated_at": HALF},
                }
            },
        ),
    ],
)
def test_half_of_a_surrogate_pair_where_a_word_should_be_costs_its_record(
    tmp_path: Path, type: str, payload: dict[str, Any]
) -> None:
    """The log keeps such text, so a record from elsewhere may have it anywhere. It must not make
    the session unreadable."""
    session = SessionStore(tmp_path).create(id="one")
    session.record(type, payload)
    view = session.state.view()
    assert [refused.seq for refused in view.refused] == [1]
    assert session.state.start("goal").status == "active"
    assert [step.type for step in session.state.history()] == ["state.started"]
    assert session.meta.status == "active"


@pytest.mark.parametrize("name", ["progress", "describe"])
def test_half_of_a_surrogate_pair_is_refused_where_a_word_is_asked_for(
    tmp_path: Path, name: str
) -> None:
    session = SessionStore(tmp_path).create(id="one")
    session.state.start()
    with pytest.raises(ModelError):
        (
            session.state.progress("a", quality=HALF)  # type: ignore[arg-type]
            if name == "progress"
            else session.state.describe(**{HALF: 1})  # type: ignore[arg-type]
        )
    assert session.state.current.progress.path == ()


@pytest.mark.parametrize("place", range(8))
def test_a_damaged_record_of_a_run_does_not_cost_those_after_it(tmp_path: Path, place: int) -> None:
    """A run whose beginning is lost has begun all the same: what it wrote later counts."""
    store = SessionStore(tmp_path)
    with store.create(id="one") as session:
        state = session.state
        state.start("goal", run_id="r1")
        state.progress("search")
        state.checkpoint("search", {"hits": 3}, id="cp")
        state.pause("search")
        state.resume(run_id="r2")
        state.fail("no answer")
        state.resume("cp", run_id="r3")
        state.progress("write")
        state.complete({"text": "done"})
    log = store.path / "one/log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    lines[1 + place] = lines[1 + place].replace(b'"p":{', b'"p":[', 1)
    log.write_bytes(b"".join(lines))
    with store.open("one", readonly=True) as session:
        now = session.state.current
        assert (now.status, now.current_run_id) == ("completed", "r3")
        assert now.result.output == {"text": "done"}
        assert session.state.view().refused_count == 0
        assert [problem.lost for problem in session.check()] == [(1 + place, 1 + place)]
