"""The state of a run: what each call does, on a log in memory and on a real one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.config import Attention
from runlore.errors import (
    CheckpointError,
    Conflict,
    IllegalTransition,
    LeaseLost,
    ModelError,
    SessionBusy,
)
from runlore.live.attention import attention
from runlore.live.liveness import Owner, here
from runlore.live.log import SessionStore
from runlore.live.run_fold import Folding, begin
from runlore.live.run_records import SHAPES
from runlore.live.state import RunView, StateHandle, fold, fold_all
from runlore.model import LogRecord
from tests.live.memory import MemoryLog

START = datetime(2026, 1, 1, tzinfo=UTC)


class Memory(MemoryLog):
    """With `expect`, as a real log has it, and a hook for what another process does in between."""

    before_record: Callable[[], Any] | None = None

    def record(
        self,
        type: str,
        payload: dict[str, Any],
        *,
        key: str | None = None,
        expect: int | None = None,
    ) -> LogRecord:
        if self.before_record is not None:
            hook, self.before_record = self.before_record, None
            hook()
        if expect is not None and expect != len(self.kept) - 1:
            raise Conflict("the log has gone on", expect, len(self.kept) - 1)
        return super().record(type, payload, key=key)


@pytest.fixture(params=["memory", "file"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield Memory()
        return
    with SessionStore(tmp_path / "live").create("a run") as session:
        yield session


@pytest.fixture
def state(log: Any) -> StateHandle:
    return StateHandle(log)


# ── the life of a run ─────────────────────────────────────────────────────────────────────────────
def test_a_run_starts_makes_progress_and_completes(state: StateHandle) -> None:
    state.start(
        "report", agent_id="writer", input_data={"topic": "rain"}, stream_id="s", correlation_id="c"
    )
    state.progress("search", tokens=120, latency_ms=900, edge="start->search")
    state.progress("write", input_tokens=10, output_tokens=20, edge="search->write")
    state.progress("write", retries="write", buffer={"draft": "Drip."})
    done = state.complete({"text": "Drip, drop."})
    assert (done.status, done.result.success, done.result.output) == (
        "completed",
        True,
        {"text": "Drip, drop."},
    )
    assert (done.goal_id, done.agent_id, done.stream_id, done.correlation_id) == (
        "report",
        "writer",
        "s",
        "c",
    )
    assert done.progress.path == ("search", "write", "write")
    assert done.progress.node_visit_counts == {"search": 1, "write": 2}
    assert (
        done.progress.steps_executed,
        done.progress.total_tokens,
        done.progress.total_latency_ms,
    ) == (3, 150, 900)
    assert (
        done.progress.total_retries,
        done.progress.retry_details,
        done.progress.execution_quality,
    ) == (1, {"write": 1}, "degraded")
    assert (done.metrics.total_input_tokens, done.metrics.total_output_tokens) == (10, 20)
    assert done.metrics.nodes_executed == ("search", "write")
    assert done.metrics.edges_traversed == ("start->search", "search->write")
    assert done.data_buffer == done.memory == {"draft": "Drip."}
    assert (done.owner, done.pid) == (None, None), "what has ended is run by nobody"
    assert done.timestamps.completed_at is not None
    assert done.duration_ms >= 0


def test_a_session_that_never_started_is_new_and_can_end(state: StateHandle) -> None:
    assert (state.status, state.current.owner, state.current.current_run_id) == (
        "new",
        None,
        None,
    )
    assert state.cancel("not needed").result.error == "not needed"
    with pytest.raises(IllegalTransition, match="it is cancelled and cannot become active"):
        state.start("late")


def test_a_run_pauses_and_resumes_where_it_was(state: StateHandle) -> None:
    state.start()
    state.progress("ask")
    paused = state.pause(reason="waits for the client")
    assert (paused.status, paused.progress.paused_at, paused.progress.pause_reason) == (
        "paused",
        "ask",
        "waits for the client",
    )
    assert paused.timestamps.paused_at_time is not None
    assert paused.owner is None
    assert paused.is_resumable
    state.put(answer=42)  # The client may answer while it is paused.
    going = state.resume()
    assert (going.status, going.progress.paused_at, going.progress.resume_from) == (
        "active",
        None,
        "ask",
    )
    assert going.timestamps.paused_at_time is None
    assert going.owner is not None
    assert going.owner.is_same(here())
    state.progress("ask")  # Entered once more, which is one visit.
    assert state.current.progress.path == ("ask",)
    assert state.current.progress.node_visit_counts == {"ask": 1}
    assert state.current.progress.resume_from is None
    state.progress("ask")  # And this is another one.
    assert state.current.progress.node_visit_counts == {"ask": 2}


ENDS = {"complete": (), "fail": ("broke",), "cancel": ()}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("then", ["start", "pause", "resume", "complete", "fail", "cancel"])
def test_nothing_follows_an_end_but_resuming_from_a_checkpoint(
    state: StateHandle, end: str, then: str
) -> None:
    state.start()
    getattr(state, end)(*ENDS[end])
    before = state.current
    with pytest.raises(IllegalTransition) as caught:
        getattr(state, then)(*ENDS.get(then, ()))
    assert before.status in str(caught.value), "it names where it is,"
    assert "from a checkpoint" in str(caught.value), "and what is allowed"
    assert state.current == before


def test_an_illegal_transition_names_where_from_where_to_and_what_is_allowed(
    state: StateHandle,
) -> None:
    state.start()
    state.pause()
    with pytest.raises(
        IllegalTransition,
        match=(
            "it is paused and cannot become completed; from paused it can become active, failed or"
            " cancelled"
        ),
    ):
        state.complete()
    with pytest.raises(IllegalTransition, match="it is paused and cannot make progress"):
        state.progress("x")


def test_a_run_is_started_once(state: StateHandle) -> None:
    state.start("one")
    with pytest.raises(IllegalTransition, match="was started before"):
        state.start("two")
    assert state.current.goal_id == "one"


def test_failures_and_quality_are_told(state: StateHandle) -> None:
    state.start()
    state.progress("a", failures="a")
    state.progress(failures=["a", "b"])
    assert state.current.progress.nodes_with_failures == ("a", "b")
    assert state.current.progress.had_partial_failures
    assert quality_of(state) == "degraded"
    state.progress(quality="clean")
    assert quality_of(state) == "clean", "who knows better says so"
    assert state.fail("broke").progress.execution_quality == "failed"


def quality_of(state: StateHandle) -> str:
    return state.current.progress.execution_quality


def test_problems_and_decisions_are_kept_and_counted(state: StateHandle) -> None:
    state.start()
    state.problem("disk full", severity="critical")
    state.decide({"id": "d1", "chosen": "retry"})
    state.fail("disk full")
    state.problem("found later")  # Notes may come at any time.
    now = state.current
    assert now.problems == (
        {"description": "disk full", "severity": "critical"},
        {"description": "found later"},
    )
    assert now.decisions == ({"id": "d1", "chosen": "retry"},)
    assert (now.metrics.problem_count, now.metrics.decision_count) == (2, 1)


def test_fields_are_described_and_unknown_ones_kept_when_meant(state: StateHandle) -> None:
    state.start()
    state.describe(
        active_triggers=["timer"],
        trigger_tasks={"timer": "look again"},
        worker_configured=True,
        isolation_level="isolated",
    )
    state.describe(extra={"colour": "blue"}, input_data={"n": 1})
    now = state.current
    assert (now.active_triggers, now.trigger_tasks, now.worker_configured) == (
        ("timer",),
        {"timer": "look again"},
        True,
    )
    assert (now.isolation_level, now.input_data, now.extra) == (
        "isolated",
        {"n": 1},
        {"colour": "blue"},
    )
    with pytest.raises(ModelError, match="isolation"):
        state.describe(isolation="typo")
    with pytest.raises(ModelError, match="worker_configured"):
        state.describe(worker_configured="yes")


def test_a_run_that_nobody_started_is_new(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    with store.create(id="one") as session:
        state = session.state
        assert state.current.status == "new"
        state.describe(agent_id="writer")
        state.put(a=1)
        assert state.current.status == "new"
        assert store.list(status="active") == []
        with pytest.raises(IllegalTransition, match="it is new and cannot become active"):
            state.resume()
        assert state.start("goal").status == "active"
    with store.create(id="two") as session:
        session.state.progress("node")  # A writer that does not call `start`.
        assert session.state.current.status == "active"


def test_a_run_is_taken_over_where_it_is(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    with store.create(id="one") as session, store.open("one") as other:
        session.state.start("goal")
        session.state.progress("search", buffer={"hits": 3})
        with pytest.raises(IllegalTransition):
            other.state.resume()
        now = other.state.resume(take_over=True)
        assert (now.status, now.data_buffer) == ("active", {"hits": 3})
        assert now.progress.resume_from == "search"
        other.state.progress("search")
        assert other.state.current.progress.path == ("search",)
        with pytest.raises(LeaseLost):
            session.state.progress("too late")
        other.state.complete()


def test_a_call_with_a_key_counts_once(state: StateHandle) -> None:
    state.start()
    state.progress("a", tokens=5, key="step-1")
    state.progress("a", tokens=5, key="step-1")
    assert state.current.progress.total_tokens == 5
    assert StateHandle(state.log).current == state.current


def test_what_is_not_json_is_refused_before_it_is_written(state: StateHandle) -> None:
    state.start()
    with pytest.raises(ModelError, match="cannot be written as JSON"):
        state.put(value=object())
    with pytest.raises(ModelError, match=r"state\.progress"):
        state.progress("a", tokens=-1)
    assert state.current.data_buffer == {}


def test_half_of_a_surrogate_pair_survives_in_the_buffer(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    with store.create() as session:
        handle = StateHandle(session)
        handle.start()
        handle.put(cut="\ud83d")
        point = handle.checkpoint("a", {"cut": "\ud83d", "more": 1})
        assert StateHandle(session).current.data_buffer == {"cut": "\ud83d", "more": 1}
        assert StateHandle(session).checkpoints.load(point).data_buffer == {
            "cut": "\ud83d",
            "more": 1,
        }


def test_values_given_cannot_be_changed_from_outside(state: StateHandle) -> None:
    state.start()
    mine = {"list": [1]}
    state.put(mine)
    mine["list"].append(2)
    assert state.current.data_buffer == {"list": [1]}


def test_history_and_any_moment_can_be_seen_again(state: StateHandle) -> None:
    state.start()
    state.progress("a")
    state.pause(reason="lunch")
    state.resume()
    state.fail("broke")
    history = list(state.history())
    assert [(step.before, step.after) for step in history] == [
        ("new", "active"),
        ("active", "paused"),
        ("paused", "active"),
        ("active", "failed"),
    ]
    assert [step.reason for step in history] == [None, "lunch", None, "broke"]
    assert state.at(history[1].seq).status == "paused"
    assert state.at(history[1].seq).progress.path == ("a",)


# ── checkpoints ───────────────────────────────────────────────────────────────────────────────────
def test_resuming_from_a_checkpoint_restores_buffer_path_and_counters(state: StateHandle) -> None:
    state.start()
    state.progress("a", tokens=10, retries="a")
    point = state.checkpoint("a", {"x": 1, "y": [1, 2]}, next_node="b", description="after a")
    then = state.current
    state.progress("b", tokens=90, failures="b", buffer={"x": 2, "z": 3})
    state.problem("b broke")
    state.fail("b broke")
    now = state.resume(point)
    assert now.status == "active"
    assert now.data_buffer == {"x": 1, "y": [1, 2]}
    assert msgspec.structs.replace(now.progress, resume_from=None) == then.progress
    assert (now.progress.resume_from, now.resumed_from) == ("b", point.id)
    assert (now.result.success, now.result.error, now.timestamps.completed_at) == (None, None, None)
    assert (now.problems, now.metrics.problem_count) == (
        ({"description": "b broke"},),
        1,
    ), "what was noted stays noted"
    state.progress("b")
    assert state.current.progress.path == ("a", "b")
    assert StateHandle(state.log).view() == state.view()


def test_resuming_at_a_node_that_had_begun_counts_it_once(state: StateHandle) -> None:
    state.start()
    state.progress("a")
    point = state.checkpoint("a", type="node_start")
    state.fail("broke")
    state.resume(point)
    state.checkpoint("a", {"in": "between"})
    state.progress("a")
    assert state.current.progress.node_visit_counts == {"a": 1}
    assert state.current.progress.steps_executed == 1


def test_also_a_completed_session_can_go_on_from_a_checkpoint(state: StateHandle) -> None:
    state.start()
    point = state.checkpoint("a", {"n": 1})
    state.complete({"n": 1})
    assert state.current.is_resumable_from_checkpoint
    assert state.resume(point).status == "active"
    assert state.complete({"n": 2}).result.output == {"n": 2}


def test_a_checkpoint_holds_what_changed_and_now_and_then_everything(
    log: Any, state: StateHandle
) -> None:
    state.start()
    buffer: dict[str, Any] = {f"key{n}": "x" * 50 for n in range(40)}
    for n in range(60):
        state.progress(f"n{n % 5}")
        buffer[f"key{n % 40}"] = f"changed in {n}"
        state.checkpoint(None, buffer)
    payloads = [record.payload for record in log.records() if record.type == "checkpoint"]
    whole = [payload for payload in payloads if "whole" in payload]
    assert 2 <= len(whole) <= 12
    assert all(len(payload.get("set", {})) <= 1 for payload in payloads if "whole" not in payload)
    for point in state.checkpoints.list()[::7]:
        n = [one.id for one in state.checkpoints].index(point.id)
        assert state.checkpoints.load(point).data_buffer[f"key{n % 40}"] == f"changed in {n}"


def test_checkpoints_are_listed_and_compared(state: StateHandle) -> None:
    state.start()
    state.progress("a", tokens=5)
    one = state.checkpoint("a", {"x": 1, "old": True})
    state.progress("b", tokens=7)
    two = state.checkpoint("b", {"x": 2, "new": True}, clean=False, type="loop_iteration")
    assert state.checkpoints.list() == (one, two)
    assert state.checkpoints.list(clean=True) == (one,)
    assert (
        state.checkpoints.list(node="b") == state.checkpoints.list(type="loop_iteration") == (two,)
    )
    assert state.checkpoints.latest() == two
    assert state.checkpoints.latest(clean=True) == one
    difference = state.checkpoints.compare(one, two)
    assert (difference.added, difference.removed, difference.changed) == (
        {"new": True},
        {"old": True},
        {"x": (1, 2)},
    )
    assert (difference.path, difference.path_left) == (("b",), ())
    assert difference.counters == {"steps_executed": 1, "total_tokens": 7}


def test_pruning_keeps_those_in_use(state: StateHandle) -> None:
    state.start()
    points = [state.checkpoint("a", {"n": n}, clean=n != 5) for n in range(6)]
    state.resume(points[1])
    gone = state.checkpoints.prune(keep=1)
    assert [point.id for point in gone] == [points[n].id for n in (0, 2, 3)]
    assert [point.id for point in state.checkpoints] == [points[n].id for n in (1, 4, 5)], (
        "resumed from, latest clean, latest"
    )
    assert StateHandle(state.log).checkpoints.list() == state.checkpoints.list()
    assert state.checkpoints.prune(older_than=timedelta(days=1)) == ()
    assert state.checkpoints.prune() == ()
    with pytest.raises(CheckpointError, match="no checkpoint"):
        state.resume(points[0])


def test_a_checkpoint_in_a_busy_log_is_still_right(tmp_path: Path) -> None:
    log = Memory()
    state = StateHandle(log)
    state.start()
    state.checkpoint("a", {"mine": 0})
    # Another process, in the moment before ours is written.
    log.before_record = lambda: StateHandle(log).put(theirs=1)
    point = state.checkpoint("a", {"mine": 1})
    assert state.checkpoints.load(point).data_buffer == {"mine": 1}, (
        "the buffer that was given is the whole of it"
    )
    log.before_record = lambda: StateHandle(log).put(theirs=1)
    point = state.checkpoint("a")
    assert state.checkpoints.load(point).data_buffer == {"mine": 1, "theirs": 1}


def test_a_checkpoint_needs_a_known_type_and_a_new_id(state: StateHandle) -> None:
    state.start()
    state.checkpoint("a", id="mine")
    with pytest.raises(CheckpointError, match="already"):
        state.checkpoint("b", id="mine")
    with pytest.raises(ModelError, match="node_start"):
        state.checkpoint("b", type="whatever")  # type: ignore[arg-type]
    assert [point.node for point in state.checkpoints] == ["a"]


# ── several processes ─────────────────────────────────────────────────────────────────────────────
def test_of_two_that_end_a_run_at_once_the_first_is_heard() -> None:
    log = Memory()
    one, two = StateHandle(log), StateHandle(log)
    one.start()
    assert two.current.owner is not None
    log.before_record = one.complete  # After the other has looked, and before it writes.
    with pytest.raises(IllegalTransition):
        two.cancel()
    assert StateHandle(log).status == one.status == two.status == "completed"
    assert two.view().refused_count == 1


def test_a_run_that_was_taken_over_is_not_heard_any_more(log: Any) -> None:
    one, two = StateHandle(log), StateHandle(log)
    one.start()
    one.checkpoint("a", {"n": 1})
    two.resume(two.checkpoints.latest())  # The same process, so nothing is in the way.
    with pytest.raises(LeaseLost, match="has taken its place"):
        one.progress("b")
    with pytest.raises(LeaseLost):
        one.complete()
    two.progress("b")
    assert StateHandle(log).current.progress.path == ("b",)


def test_of_two_that_resume_at_once_one_is_refused() -> None:
    log = Memory()
    one, two = StateHandle(log), StateHandle(log)
    one.start()
    point = one.checkpoint("a")
    one.fail("broke")
    log.before_record = lambda: one.resume(point)
    with pytest.raises(SessionBusy):
        two.resume(point)
    one.progress("b")
    assert StateHandle(log).current.progress.path == ("b",)


def test_a_run_of_a_live_process_is_resumed_only_by_taking_over(log: Any) -> None:
    state = StateHandle(log)
    state.start()
    point = state.checkpoint("a")
    elsewhere = Owner(pid=1, host="far", heartbeat=datetime.now(UTC))
    log.record(
        "state.resumed",
        {
            "owner": msgspec.to_builtins(elsewhere),
            "run": "other",
            "checkpoint": point.id,
            "whole": whole_of(log),
        },
    )
    assert state.current.owner == elsewhere
    with pytest.raises(SessionBusy, match="is run by process 1 on far"):
        state.resume(point)
    assert state.resume(point, take_over=True).pid == here().pid


def test_what_another_process_did_is_looked_up_before_anything_is_refused(log: Any) -> None:
    one, two = StateHandle(log), StateHandle(log)
    one.start()
    one.pause()
    assert two.current.progress.resume_from is None
    one.resume()
    two.progress("a")
    assert two.current.progress.path == ("a",)


def test_the_run_of_a_dead_process_goes_on_where_it_was(log: Any) -> None:
    dead = msgspec.structs.replace(here(), started="before")
    log.record("state.started", {"run": "theirs", "owner": msgspec.to_builtins(dead)})
    log.record("state.progress", {"run": "theirs", "node": "a", "set": {"k": 1}})
    state = StateHandle(log)
    going = state.resume()
    assert (going.status, going.progress.resume_from, going.data_buffer) == (
        "active",
        "a",
        {"k": 1},
    )
    assert going.owner is not None
    assert going.owner.is_same(here())
    assert [step.after for step in state.history()] == [
        "active",
        "paused",
        "active",
    ], "and the log tells of it"


def whole_of(log: Any) -> Any:
    return next(record.payload["whole"] for record in log.records() if record.type == "checkpoint")


# ── heartbeats ────────────────────────────────────────────────────────────────────────────────────
def test_heartbeats_are_written_rarely_and_progress_is_one(log: Any) -> None:
    state = StateHandle(log)
    state.start()
    for _ in range(5):
        state.heartbeat()
    assert [record.type for record in log.records()].count("state.heartbeat") == 0, (
        "the start was one"
    )
    state.heartbeat(every_s=0)
    assert [record.type for record in log.records()].count("state.heartbeat") == 1
    before = state.current.owner
    state.progress("a")
    after = state.current.owner
    assert before is not None
    assert after is not None
    assert before.is_same(after)
    assert after.heartbeat is not None
    assert before.heartbeat is not None
    assert after.heartbeat >= before.heartbeat


def test_a_thread_says_that_a_long_step_is_alive(log: Any) -> None:
    state = StateHandle(log)
    state.start()
    with state.beating(every_s=0.01):
        limit = threading.Event()
        for _ in range(500):
            if any(record.type == "state.heartbeat" for record in log.records()):
                break
            limit.wait(0.01)
    assert any(record.type == "state.heartbeat" for record in log.records())
    with state.beating(every_s=0.01):
        state.complete()
        limit.wait(0.05)
    assert state.status == "completed"


# ── attention ─────────────────────────────────────────────────────────────────────────────────────
def test_attention_is_asked_for_above_the_thresholds(state: StateHandle) -> None:
    state.start()
    state.progress("a", steps=20, tokens=100_000, latency_ms=60_000, retries={"a": 3})
    assert attention(state.current) == (), "as much as is allowed"
    state.progress("a", tokens=1, latency_ms=1, retries="a")
    assert attention(state.current) == ("retries", "slow", "tokens", "steps")
    assert attention(state.current, Attention(retries=0, latency_s=0, tokens=0, steps=0)) == ()
    assert attention(
        state.fail("broke"), Attention(steps=100, tokens=10**9, latency_s=10**6, retries=10)
    ) == ("failed",)


# ── the fold ──────────────────────────────────────────────────────────────────────────────────────
def records_of(run: Callable[[StateHandle], object]) -> list[LogRecord]:
    log = Memory()
    run(StateHandle(log))
    return log.kept


def a_whole_life(state: StateHandle) -> None:
    state.start("g", input_data={"a": 1})
    state.log.record("message", {"text": "of another view"})
    state.progress("a", tokens=3, retries="a", buffer={"k": 1})
    point = state.checkpoint("a", {"k": 2}, next_node="b")
    state.progress("b", edge="a->b", failures="b")
    state.decide("go on")
    state.checkpoint("b", {"k": 2, "l": 3}, clean=False)
    state.pause(reason="wait")
    state.resume(input_data={"a": 2})
    state.fail("broke")
    state.resume(point)
    state.progress("b")
    state.describe(extra={"u": [1]}, active_triggers=["t"])
    state.checkpoints.prune(keep=1)
    state.complete({"o": 1})


def test_a_snapshot_anywhere_gives_the_same_view() -> None:
    records = records_of(a_whole_life)
    whole = fold_all(begin("s1", START), records)
    assert whole.refused_count == 0
    one_by_one = begin("s1", START)
    for n, record in enumerate(records):
        one_by_one = fold(one_by_one, record)
        kept = msgspec.msgpack.decode(msgspec.msgpack.encode(one_by_one), type=RunView)
        assert kept == one_by_one
        assert fold_all(kept, records[n + 1 :]) == whole


def test_a_fold_changes_no_view_that_was_given_out() -> None:
    records = records_of(a_whole_life)
    view = begin("s1", START)
    for record in records:
        before = msgspec.msgpack.encode(view)
        after = fold(view, record)
        assert msgspec.msgpack.encode(view) == before
        view = after


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.data())
def test_broken_records_are_refused_and_cost_nothing_else(data: st.DataObject) -> None:
    records = records_of(a_whole_life)
    n = data.draw(st.integers(0, len(records) - 1))
    names = sorted(records[n].payload) or ["run"]
    payload = {**records[n].payload, data.draw(st.sampled_from(names)): data.draw(JUNK)}
    broken = msgspec.structs.replace(
        records[n], payload=payload, type=data.draw(st.sampled_from([records[n].type, *SHAPES]))
    )
    view = fold_all(begin("s1", START), [*records[:n], broken, *records[n + 1 :]])
    assert view.seq == records[-1].seq
    assert view.state.status in ("active", "paused", "completed", "failed", "cancelled")
    view.state.to_json()
    assert view.state == type(view.state).from_json(view.state.to_json())


@given(st.sets(st.integers(0, 14), max_size=8))
def test_lost_records_cost_only_what_they_said(lost: set[int]) -> None:
    kept = [record for record in records_of(a_whole_life) if record.seq not in lost]
    view = fold_all(begin("s1", START), kept)
    assert view.state == type(view.state).from_json(view.state.to_json())


def test_a_reader_begins_at_the_snapshot(log: Any) -> None:
    state = StateHandle(log)
    state.start()
    for n in range(1100):
        state.progress("a", tokens=n)
    kept = log.snapshot("state")
    assert kept is not None
    assert kept[0] >= 900
    read: list[int] = []

    class Counting:
        id, snapshot, put_snapshot, record = log.id, log.snapshot, log.put_snapshot, log.record

        def records(self, after: int = -1) -> Any:
            for record in log.records(after):
                read.append(record.seq)
                yield record

    assert StateHandle(Counting()).current == state.current
    assert len(read) < 300


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00" * 40,
        b"\xff",
        msgspec.msgpack.encode((999, {})),
        msgspec.msgpack.encode((1, {"seq": 5})),
    ],
)
def test_a_damaged_snapshot_is_ignored(log: Any, data: bytes) -> None:
    state = StateHandle(log)
    state.start("g")
    seq = state.view().seq
    log.put_snapshot("state", seq, data)
    assert StateHandle(log).current == state.current


def test_a_snapshot_that_is_not_of_its_place_is_ignored() -> None:
    log = Memory()
    state = StateHandle(log)
    state.start("g")
    state.save()
    state.progress("a")
    log.snapshots["state"] = (1, log.snapshots["state"][1])  # It says that the progress is in it.
    assert StateHandle(log).current == state.current


def test_resuming_with_something_else_than_the_checkpoint_held_is_refused(log: Any) -> None:
    state = StateHandle(log)
    state.start()
    point = state.checkpoint("a", {"n": 1})
    log.record(
        "state.resumed",
        {
            "run": "forged",
            "checkpoint": point.id,
            "whole": {**whole_of(log), "data_buffer": {"n": 2}},
        },
    )
    assert state.current.data_buffer == {"n": 1}
    assert [refused.why for refused in state.view().refused] == ["checkpoint"]


def test_any_sequence_of_calls_leaves_a_state_that_can_be(loops: Callable[[int], int]) -> None:
    import random

    calls: dict[str, Callable[[StateHandle], object]] = {
        "start": lambda state: state.start("g"),
        "progress": lambda state: state.progress("n", tokens=1),
        "pause": lambda state: state.pause(),
        "resume": lambda state: state.resume(),
        "back": lambda state: state.resume(state.checkpoints.latest()),
        "checkpoint": lambda state: state.checkpoint("n", {"at": state.view().seq}),
        "complete": lambda state: state.complete(),
        "fail": lambda state: state.fail("x"),
        "cancel": lambda state: state.cancel(),
        "prune": lambda state: state.checkpoints.prune(keep=2),
    }
    for seed in range(loops(200)):
        dice, log = random.Random(seed), Memory()
        handles = [StateHandle(log), StateHandle(log)]
        for _ in range(30):
            name, before = (
                dice.choice(list(calls)),
                fold_all(begin("s1", START), log.kept).state.status,
            )
            try:
                calls[name](dice.choice(handles))
            except (IllegalTransition, LeaseLost):
                assert fold_all(begin("s1", START), log.kept).state.status == before
        views = [handle.view() for handle in (*handles, StateHandle(log))]
        assert views[0] == views[1] == views[2]
        for point in views[0].checkpoints:
            handles[0].checkpoints.load(point)


def test_a_folding_gives_the_same_view_until_something_is_added() -> None:
    folding = Folding(begin("s1", START))
    for record in records_of(a_whole_life):
        folding.add(record)
    assert folding.view() is folding.view()
