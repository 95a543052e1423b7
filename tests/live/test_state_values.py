"""The values of a run, and what other systems knew of one."""

from __future__ import annotations

import enum
import json
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runlore.errors import MissingField, ModelError
from runlore.live.liveness import Owner
from runlore.live.run import (
    SessionMetrics,
    SessionProgress,
    SessionResult,
    SessionState,
    SessionTimestamps,
)
from runlore.live.state import StateHandle
from tests.live.memory import MemoryLog

NOW = datetime(2026, 2, 8, 12, 30, tzinfo=UTC)
TIMES = SessionTimestamps(started_at=NOW, updated_at=NOW)

# What the system that this view follows left on disk, version 1.1, with its computed fields and
# times without a zone.
OLD: dict[str, Any] = {
    "schema_version": "1.1",
    "session_id": "session_20260208_123000_abcd1234",
    "stream_id": "main",
    "correlation_id": "corr",
    "status": "paused",
    "goal_id": "goal",
    "agent_id": "agent",
    "entry_point": "begin",
    "timestamps": {
        "started_at": "2026-02-08T12:30:00.5",
        "updated_at": "2026-02-08T12:31:00",
        "paused_at_time": "2026-02-08T12:31:00",
    },
    "progress": {
        "current_node": "ask",
        "paused_at": "ask",
        "resume_from": "ask",
        "steps_executed": 2,
        "total_tokens": 10,
        "total_latency_ms": 900,
        "path": ["begin", "ask"],
        "total_retries": 1,
        "nodes_with_failures": ["begin"],
        "retry_details": {"begin": 1},
        "had_partial_failures": True,
        "execution_quality": "degraded",
        "node_visit_counts": {"begin": 1, "ask": 1},
    },
    "result": {"success": None, "error": None, "output": {}},
    "memory": {"answer": None},
    "metrics": {
        "decision_count": 1,
        "problem_count": 0,
        "total_input_tokens": 7,
        "total_output_tokens": 3,
        "nodes_executed": ["begin", "ask"],
        "edges_traversed": ["e1"],
    },
    "problems": [],
    "decisions": [{"id": "d1"}],
    "input_data": {"topic": "rain"},
    "current_run_id": "run_1",
    "pid": 4711,
    "isolation_level": "shared",
    "checkpoint_enabled": False,
    "latest_checkpoint_id": None,
    "active_triggers": ["t1"],
    "trigger_tasks": {"t1": "look"},
    "worker_configured": True,
    "duration_ms": 0,
    "is_resumable": False,
    "is_resumable_from_checkpoint": False,
    "unknown": {"kept": True},
}


def test_every_field_of_an_old_state_is_read_and_written() -> None:
    state = SessionState.from_dict(OLD, zone=timezone(timedelta(hours=2)))
    assert state.timestamps.started_at == datetime(2026, 2, 8, 10, 30, 0, 500_000, tzinfo=UTC)
    written = json.loads(state.to_json())
    changed = {"schema_version", "timestamps", "memory", "is_resumable"}
    assert {name: written[name] for name in OLD if name not in changed} == {
        name: OLD[name] for name in OLD if name not in changed
    } | {
        "progress": {**OLD["progress"], "pause_reason": None},
    }
    assert written["data_buffer"] == {"answer": None}
    assert written["is_resumable"], "a pause can be resumed"
    assert SessionState.from_dict(written) == state
    assert SessionState.from_json(state.to_json()) == state


def test_an_old_state_can_be_the_beginning_of_a_log() -> None:
    handle = StateHandle(MemoryLog("s9"))
    adopted = handle.adopt(SessionState.from_dict(OLD))
    assert (adopted.session_id, adopted.status, adopted.goal_id, adopted.pid) == (
        "s9",
        "paused",
        "goal",
        None,
    )
    assert adopted.progress.path == ("begin", "ask")
    assert adopted.extra == {"unknown": {"kept": True}}
    going = handle.resume(input_data={"answer": 1})
    assert (going.status, going.progress.resume_from, going.input_data) == (
        "active",
        "ask",
        {"answer": 1},
    )
    handle.progress("ask")
    assert handle.current.progress.path == ("begin", "ask")


TEXT = st.text(max_size=8)
DATA = st.dictionaries(
    TEXT, st.none() | st.integers(-(2**53), 2**53) | TEXT | st.lists(TEXT, max_size=2), max_size=3
)
COUNT = st.integers(0, 2**40)
UNKNOWN = st.dictionaries(TEXT.map(lambda text: f"x_{text}"), TEXT, max_size=2)


@st.composite
def states(draw: st.DrawFn) -> SessionState:
    status: Any = draw(st.sampled_from(["active", "paused", "completed", "failed", "cancelled"]))
    times = SessionTimestamps(
        started_at=draw(st.datetimes(timezones=st.just(UTC))),
        updated_at=NOW,
        completed_at=None if status in ("active", "paused") else NOW,
        paused_at_time=NOW if status == "paused" else None,
        extra=draw(UNKNOWN),
    )
    return SessionState(
        session_id=draw(TEXT),
        goal_id=draw(TEXT),
        status=status,
        timestamps=times,
        progress=SessionProgress(
            path=tuple(draw(st.lists(TEXT, max_size=3))),
            total_tokens=draw(COUNT),
            extra=draw(UNKNOWN),
        ),
        result=SessionResult(
            success=draw(st.none() | st.booleans()), output=draw(DATA), extra=draw(UNKNOWN)
        ),
        metrics=SessionMetrics(
            edges_traversed=tuple(draw(st.lists(TEXT, max_size=2))), extra=draw(UNKNOWN)
        ),
        data_buffer=draw(DATA),
        decisions=tuple(draw(st.lists(DATA, max_size=2))),
        owner=draw(
            st.none()
            | st.builds(
                Owner, pid=st.integers(1, 2**30), host=TEXT, heartbeat=st.none() | st.just(NOW)
            )
        ),
        extra=draw(UNKNOWN),
    )


@given(states())
def test_written_and_read_again_a_state_is_the_same(state: SessionState) -> None:
    assert SessionState.from_json(state.to_json()) == state
    assert SessionState.from_dict(state.to_dict()) == state
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=SessionState) == state
    assert SessionState.from_json(state.to_json()).to_json() == state.to_json()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"session_id": None}, "session_id"),
        ({"timestamps": None}, "timestamps must be an object"),
        ({"timestamps": {"started_at": NOW}}, "needs updated_at"),
        ({"progress": {"path": "a"}}, "path"),
        ({"progress": {"steps_executed": "many"}}, "steps_executed"),
        ({"progress": {"execution_quality": "so-so"}}, "execution_quality|Invalid enum value"),
        ({"owner": {"host": "h"}}, "pid"),
        ({"data_buffer": []}, "data_buffer"),
    ],
)
def test_what_cannot_be_right_is_refused_with_its_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said):
        SessionState.from_dict(
            {"session_id": "s", "goal_id": "g", "timestamps": TIMES.to_dict(), **change}
        )


def test_a_missing_field_is_named() -> None:
    with pytest.raises(MissingField, match="goal_id, timestamps"):
        SessionState.from_dict({"session_id": "s"})
    with pytest.raises(ModelError, match="not JSON"):
        SessionState.from_json("{")


def test_the_callers_dict_stays_as_it_was() -> None:
    given_ = {
        "session_id": "s",
        "goal_id": "g",
        "timestamps": TIMES.to_dict(),
        "memory": {"a": 1},
        "duration_ms": 3,
    }
    before = json.dumps(given_, sort_keys=True)
    SessionState.from_dict(given_)
    assert json.dumps(given_, sort_keys=True) == before


# ── what an executor says ─────────────────────────────────────────────────────────────────────────
def result_of(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{
            "success": True,
            "error": None,
            "output": {"o": 1},
            "paused_at": None,
            "session_state": {"resume_from": "r", "data_buffer": {"b": 1}, "memory": {"old": 1}},
            "steps_executed": 3,
            "total_tokens": 50,
            "total_latency_ms": 700,
            "path": ["a", "b"],
            "total_retries": 2,
            "nodes_with_failures": ["a"],
            "retry_details": {"a": 2},
            "had_partial_failures": True,
            "execution_quality": "degraded",
            "node_visit_counts": {"a": 3, "b": 1},
            **fields,
        }
    )


def test_an_execution_result_becomes_a_state() -> None:
    more: dict[str, Any] = {
        "stream_id": "st",
        "correlation_id": "co",
        "agent_id": "ag",
        "entry_point": "e",
        "input_data": {"i": 1},
    }
    state = SessionState.from_execution_result(
        "s", "g", result_of(), started_at="2026-02-08T12:00:00+01:00", now=NOW, **more
    )
    assert (
        state.status,
        state.stream_id,
        state.correlation_id,
        state.agent_id,
        state.entry_point,
    ) == ("completed", "st", "co", "ag", "e")
    assert state.timestamps == SessionTimestamps(
        started_at=datetime(2026, 2, 8, 11, tzinfo=UTC), updated_at=NOW, completed_at=NOW
    )
    assert state.duration_ms == 90 * 60 * 1000
    assert state.progress == SessionProgress(
        current_node="b",
        resume_from="r",
        steps_executed=3,
        total_tokens=50,
        total_latency_ms=700,
        path=("a", "b"),
        total_retries=2,
        nodes_with_failures=("a",),
        retry_details={"a": 2},
        had_partial_failures=True,
        execution_quality="degraded",
        node_visit_counts={"a": 3, "b": 1},
    )
    assert state.result == SessionResult(success=True, output={"o": 1})
    assert (state.data_buffer, state.input_data) == ({"b": 1}, {"i": 1})


def test_the_status_of_an_execution_result() -> None:
    make = SessionState.from_execution_result
    paused = make("s", "g", result_of(paused_at="p"), now=NOW)
    assert (paused.status, paused.progress.current_node, paused.progress.paused_at) == (
        "paused",
        "p",
        "p",
    )
    assert (paused.timestamps.paused_at_time, paused.timestamps.completed_at) == (NOW, None)
    failed = make("s", "g", result_of(success=False, error="broke"), now=NOW)
    assert (failed.status, failed.result.error, failed.timestamps.started_at) == (
        "failed",
        "broke",
        NOW,
    )
    bare = make("s", "g", {"success": True})
    assert (bare.status, bare.progress.current_node, bare.data_buffer) == ("completed", None, {})
    assert make("s", "g", result_of(session_state={"memory": {"old": 1}})).data_buffer == {"old": 1}
    with pytest.raises(ModelError, match="output"):
        make("s", "g", result_of(output="text"))


class Word(enum.StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STUCK = "stuck"
    OTHER = "whatever"


class Dumped:
    """As an object of pydantic would be."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, mode: str = "python") -> dict[str, Any]:
        return self.fields


def run_of(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{
            "goal_id": "g",
            "status": Word.COMPLETED,
            "started_at": datetime(2026, 1, 1, 10),  # As the old format had it.  # noqa: DTZ001
            "completed_at": datetime(2026, 1, 1, 11),  # noqa: DTZ001
            "metrics": SimpleNamespace(
                total_decisions=4, total_tokens=900, nodes_executed=["a"], edges_traversed=["e"]
            ),
            "decisions": [Dumped(id="d")],
            "problems": [Dumped(description="first"), Dumped(description="last")],
            "input_data": {"i": 1},
            "output_data": {"o": 1},
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("word", "status", "success"),
    [
        (Word.RUNNING, "active", None),
        (Word.COMPLETED, "completed", True),
        (Word.FAILED, "failed", False),
        (Word.CANCELLED, "cancelled", False),
        (Word.STUCK, "failed", False),
        (Word.OTHER, "failed", False),
        ("COMPLETED", "completed", True),
        (None, "failed", False),
    ],
)
def test_the_status_of_an_old_run(word: Any, status: str, success: bool | None) -> None:
    state = SessionState.from_legacy_run(
        run_of(status=word), "s", stream_id="st", zone=UTC, now=NOW
    )
    assert (state.status, state.result.success) == (status, success)
    assert (state.timestamps.completed_at is None) == (status == "active")


def test_an_old_run_becomes_a_state() -> None:
    state = SessionState.from_legacy_run(
        run_of(status="failed", data_buffer={"k": 1}), "s", stream_id="st", zone=UTC, now=NOW
    )
    assert (state.stream_id, state.goal_id, state.duration_ms) == ("st", "g", 3_600_000)
    assert state.metrics == SessionMetrics(
        decision_count=4,
        problem_count=2,
        total_input_tokens=900,
        nodes_executed=("a",),
        edges_traversed=("e",),
    )
    assert state.progress.total_tokens == 900
    assert (state.result.error, state.result.output) == (
        "last",
        {"o": 1},
    ), "the last problem is the best reason there is"
    assert (state.decisions, state.input_data, state.data_buffer) == (
        ({"id": "d"},),
        {"i": 1},
        {"k": 1},
    )
    ended = SessionState.from_legacy_run(
        run_of(status="failed", completed_at=None), "s", zone=UTC, now=NOW
    )
    assert ended.timestamps.completed_at == NOW


def test_what_an_executor_needs_to_go_on() -> None:
    state = SessionState.from_dict(OLD)
    assert state.to_session_state_dict() == {
        "paused_at": "ask",
        "resume_from": "ask",
        "data_buffer": {"answer": None},
        "execution_path": ["begin", "ask"],
        "node_visit_counts": {"begin": 1, "ask": 1},
    }
    state.to_session_state_dict()["data_buffer"]["answer"] = 1
    assert state.data_buffer == {"answer": None}, "it gets copies"

    def target(**progress: Any) -> Any:
        return msgspec.structs.replace(
            state, progress=SessionProgress(**progress)
        ).to_session_state_dict()["resume_from"]

    assert target(resume_from="r", paused_at="p", path=("a",)) == "r"
    assert target(paused_at="p", path=("a",)) == "p"
    assert target(path=("a", "b")) == "b"
    assert target() is None
