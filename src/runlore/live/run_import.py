"""The state of a run from other systems: an executor's result, and runs of the old format.

Accepts objects or mappings, by the names of their fields; a missing field counts as empty. Pure
except for the clock, which can be passed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

import msgspec

from ..errors import ModelError
from .run import (
    FINISHED,
    SessionMetrics,
    SessionProgress,
    SessionResult,
    SessionState,
    SessionTimestamps,
    Status,
    as_json,
    local_time,
)

OLD_STATUS: dict[str, Status] = {
    "running": "active",
    "completed": "completed",
    "cancelled": "cancelled",
}
"""Any other status, `failed` and `stuck` included, is failed."""


def from_execution_result(
    session_id: str,
    goal_id: str,
    result: Any,
    *,
    stream_id: str = "",
    correlation_id: str = "",
    started_at: str | datetime | None = None,
    input_data: Mapping[str, Any] | None = None,
    agent_id: str = "",
    entry_point: str = "start",
    cancelled: bool = False,
    previous: SessionState | None = None,
    now: datetime | None = None,
    zone: tzinfo | None = None,
) -> SessionState:
    """Return the state of the session after an executor returned `result`.

    It is paused if the result names a place and no error; otherwise completed or failed as the
    result says. It is cancelled only if the caller says so, never because of the text of an error.
    Fields that only `previous` has (metrics, decisions, problems, triggers, checkpoints, unknown
    fields) are kept. Raises ModelError for an invalid result.
    """
    now = now or datetime.now(UTC)
    paused_at = _text(result, "paused_at")
    is_success, error = _get(result, "success", False) is True, _text(result, "error")
    status: Status = "completed" if is_success else "failed"
    if cancelled:
        status = "cancelled"
    elif paused_at and not error:
        status = "paused"
    began = (
        local_time(started_at, zone)
        if started_at
        else previous.timestamps.started_at
        if previous
        else now
    )
    is_over = status in FINISHED
    # Long, because each field of a state is named here once.
    known = SessionState(
        session_id=session_id,
        stream_id=stream_id,
        correlation_id=correlation_id,
        goal_id=goal_id,
        agent_id=agent_id,
        entry_point=entry_point,
        status=status,
        timestamps=SessionTimestamps(
            started_at=began,
            updated_at=now,
            completed_at=now if is_over else None,
            paused_at_time=now if status == "paused" else None,
        ),
        progress=_progress(result, paused_at, status),
        result=SessionResult(
            success=None if status == "paused" else status == "completed",
            error=error,
            output=_object(result, "output"),
        ),
        data_buffer=_buffer(_get(result, "session_state", None)),
        input_data=as_json(dict(input_data or {})),
    )
    return _over(known, previous) if previous is not None else known


def from_legacy_run(
    run: Any,
    session_id: str,
    *,
    stream_id: str = "",
    now: datetime | None = None,
    zone: tzinfo | None = None,
) -> SessionState:
    """Return the state of a run of the old format. Its error and its buffer are carried over.

    A run that was still active has no success yet. The old format counted tokens in one number: it
    becomes `total_tokens`, and input tokens, which is an approximation.
    """
    now = now or datetime.now(UTC)
    word = _get(run, "status", "")
    status = OLD_STATUS.get(str(getattr(word, "value", word)).lower(), "failed")
    is_over = status in FINISHED
    ended = _get(run, "completed_at", None)
    metrics, problems = _get(run, "metrics", None), _dumps(_get(run, "problems", ()))
    tokens = _count(metrics, "total_tokens")
    # Long, because each field of a state is named here once.
    return SessionState(
        session_id=session_id,
        stream_id=stream_id,
        goal_id=_text(run, "goal_id") or "",
        status=status,
        timestamps=SessionTimestamps(
            started_at=local_time(_get(run, "started_at", None) or now, zone),
            updated_at=now,
            completed_at=(local_time(ended, zone) if ended else now) if is_over else None,
        ),
        progress=SessionProgress(
            total_tokens=tokens,
            path=_texts(run, "path"),
            execution_quality="failed" if status == "failed" else "clean",
        ),
        result=SessionResult(
            success=status == "completed" if is_over else None,
            error=_error(run, problems) if status == "failed" else _text(run, "error"),
            output=_object(run, "output_data"),
        ),
        metrics=SessionMetrics(
            decision_count=_count(metrics, "total_decisions"),
            problem_count=len(problems),
            total_input_tokens=tokens,
            nodes_executed=_texts(metrics, "nodes_executed"),
            edges_traversed=_texts(metrics, "edges_traversed"),
        ),
        data_buffer=_buffer(run),
        decisions=_dumps(_get(run, "decisions", ())),
        problems=problems,
        input_data=_object(run, "input_data"),
    )


def _progress(result: Any, paused_at: str | None, status: Status) -> SessionProgress:
    path = _texts(result, "path")
    resume_from = _text(_get(result, "session_state", None), "resume_from")
    fields = {
        "current_node": paused_at or (path[-1] if path else None),
        # A run that failed at a pause is not paused; the place to resume from stays known.
        "paused_at": paused_at if status == "paused" else None,
        "resume_from": resume_from or (paused_at if status != "paused" else None),
        "path": path,
        "nodes_with_failures": _texts(result, "nodes_with_failures"),
        "retry_details": _object(result, "retry_details"),
        "node_visit_counts": _object(result, "node_visit_counts"),
        "had_partial_failures": _get(result, "had_partial_failures", False) is True,
        "execution_quality": _text(result, "execution_quality") or "clean",
    }
    counts = ("steps_executed", "total_tokens", "total_latency_ms", "total_retries")
    return SessionProgress.from_dict({**fields, **{name: _count(result, name) for name in counts}})


def _over(known: SessionState, previous: SessionState) -> SessionState:
    """Return the new state with the fields of the previous one that a result does not have."""
    unchanged = (
        "metrics",
        "problems",
        "decisions",
        "current_run_id",
        "isolation_level",
        "checkpoint_enabled",
        "latest_checkpoint_id",
        "resumed_from",
        "active_triggers",
        "trigger_tasks",
        "worker_configured",
        "extra",
    )
    filled = ("stream_id", "correlation_id", "agent_id", "input_data", "data_buffer")
    parts = ("progress", "result", "timestamps")
    return msgspec.structs.replace(
        known,
        **{name: getattr(previous, name) for name in unchanged},
        **{name: getattr(known, name) or getattr(previous, name) for name in filled},
        **{
            name: msgspec.structs.replace(getattr(known, name), extra=getattr(previous, name).extra)
            for name in parts
        },
    )


def _error(run: Any, problems: tuple[dict[str, Any], ...]) -> str | None:
    """Return the error of the run itself, or the last problem that it recorded."""
    own = _text(run, "error")
    return own or next(
        (text for problem in reversed(problems) if (text := _text(problem, "description"))), None
    )


def _buffer(source: Any) -> dict[str, Any]:
    return _object(source, "data_buffer") or _object(source, "memory")


def _get(source: Any, name: str, default: Any) -> Any:
    return (
        source.get(name, default) if isinstance(source, Mapping) else getattr(source, name, default)
    )


def _text(source: Any, name: str) -> str | None:
    value = _get(source, name, None)
    return value if isinstance(value, str) and value else None


def _texts(source: Any, name: str) -> tuple[str, ...]:
    return tuple(str(value) for value in _get(source, name, None) or ())


def _count(source: Any, name: str) -> int:
    value = _get(source, name, 0)
    return int(value) if isinstance(value, int | float) and 0 <= value <= 2**53 else 0


def _object(source: Any, name: str) -> dict[str, Any]:
    value = _get(source, name, None)
    if value is None or value == {}:
        return {}
    if not isinstance(value, Mapping):
        raise ModelError(f"{name} must be an object, not {type(value).__name__}")
    copied: dict[str, Any] = as_json(dict(value))
    return copied


def _dumps(values: Any) -> tuple[dict[str, Any], ...]:
    """Return problems or decisions as plain data, from pydantic objects, other objects, or
    mappings."""
    return tuple(as_json(_dump(value)) for value in values or ())


def _dump(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "model_dump"):
        return dict(value.model_dump(mode="json"))
    return dict(vars(value)) if hasattr(value, "__dict__") else {"description": str(value)}
