"""The values of a run: `SessionState` and its parts, and their JSON.

Pure: nothing here reads a log, asks the system or reads the clock. Values are frozen and check
themselves, so an impossible state (finished and active, an unknown status, a time without a zone)
cannot be built or saved. Unknown fields survive. `run_fold` turns a log into a state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, ClassVar, Literal, Self, get_args

import msgspec

from ..errors import LogError, ModelError
from ..model import Value, parse_time
from ..model.value import check_types
from .codec import check_plain
from .liveness import Owner

STATE_VERSION = "2.0"
"""1.0 and 1.1 come from the system that this view follows: local times, and `memory` for the data
buffer. 2.0: aware times, an owner."""

Status = Literal["new", "active", "paused", "completed", "failed", "cancelled"]
"""`new`: nothing was recorded of the run itself yet."""
Quality = Literal["clean", "degraded", "failed"]

STATUSES: frozenset[str] = frozenset(get_args(Status))
FINISHED: frozenset[str] = frozenset({"completed", "failed", "cancelled"})


class SessionTimestamps(Value, frozen=True, kw_only=True):
    """Times at which the run began, last changed, ended and was paused: aware, in UTC."""

    TIMES: ClassVar[frozenset[str]] = frozenset(
        {"started_at", "updated_at", "completed_at", "paused_at_time"}
    )

    started_at: datetime
    updated_at: datetime
    completed_at: datetime | None = None
    paused_at_time: datetime | None = None

    def __post_init__(self) -> None:
        check_types(self)
        for name in self.TIMES:
            moment: datetime | None = getattr(self, name)
            if moment is not None and moment.tzinfo is not UTC:
                if moment.tzinfo is None:
                    raise ModelError(f"{name} {moment} must be an aware time")
                msgspec.structs.force_setattr(self, name, moment.astimezone(UTC))


class SessionProgress(Value, frozen=True, kw_only=True):
    """The place of the run, its path and how well it went."""

    current_node: str | None = None
    paused_at: str | None = None
    pause_reason: str | None = None
    resume_from: str | None = None
    steps_executed: int = 0
    total_tokens: int = 0
    total_latency_ms: int = 0
    path: tuple[str, ...] = ()
    """Every visit, in order."""
    total_retries: int = 0
    nodes_with_failures: tuple[str, ...] = ()
    retry_details: dict[str, int] = msgspec.field(default_factory=dict)
    had_partial_failures: bool = False
    execution_quality: Quality = "clean"
    node_visit_counts: dict[str, int] = msgspec.field(default_factory=dict)


class SessionResult(Value, frozen=True, kw_only=True):
    """The result of a run."""

    success: bool | None = None
    """None until it is over."""
    error: str | None = None
    output: dict[str, Any] = msgspec.field(default_factory=dict)


class SessionMetrics(Value, frozen=True, kw_only=True):
    """Counts.

    `nodes_executed` and `edges_traversed` name each once, in the order of first occurrence.
    """

    decision_count: int = 0
    problem_count: int = 0
    total_input_tokens: int = 0
    total_output_tokens: int = 0
    nodes_executed: tuple[str, ...] = ()
    edges_traversed: tuple[str, ...] = ()


class SessionState(Value, frozen=True, kw_only=True):
    """Everything that is known of a run at one moment.

    `owner` runs it now; a paused or finished session has none. `checkpoint_enabled` and
    `latest_checkpoint_id` are set from the first checkpoint on, and `resumed_from` names the
    checkpoint that this run began at.
    """

    COMPUTED: ClassVar[tuple[str, ...]] = (
        "duration_ms",
        "is_resumable",
        "is_resumable_from_checkpoint",
    )
    """Written for readers, never read back: a computed field that is loaded as data would be
    written twice, once stale."""

    schema_version: str = STATE_VERSION
    session_id: str
    stream_id: str = ""
    correlation_id: str = ""
    status: Status = "active"
    goal_id: str
    agent_id: str = ""
    entry_point: str = "start"
    timestamps: SessionTimestamps
    progress: SessionProgress = msgspec.field(default_factory=SessionProgress)
    result: SessionResult = msgspec.field(default_factory=SessionResult)
    metrics: SessionMetrics = msgspec.field(default_factory=SessionMetrics)
    data_buffer: dict[str, Any] = msgspec.field(default_factory=dict)
    problems: tuple[dict[str, Any], ...] = ()
    decisions: tuple[dict[str, Any], ...] = ()
    input_data: dict[str, Any] = msgspec.field(default_factory=dict)
    current_run_id: str | None = None
    pid: int | None = None
    owner: Owner | None = None
    isolation_level: str = "shared"
    checkpoint_enabled: bool = False
    latest_checkpoint_id: str | None = None
    resumed_from: str | None = None
    active_triggers: tuple[str, ...] = ()
    trigger_tasks: dict[str, str] = msgspec.field(default_factory=dict)
    worker_configured: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        if self.status not in STATUSES:
            raise ModelError(f"status {self.status!r} is not one of {', '.join(get_args(Status))}")
        is_over, times = self.status in FINISHED, self.timestamps
        if is_over != (times.completed_at is not None):
            raise ModelError(
                f"a session that is {self.status} {'needs' if is_over else 'cannot have'}"
                " completed_at"
            )
        if self.status == "paused" and times.paused_at_time is None:
            raise ModelError("a session that is paused needs paused_at_time")
        if self.owner is not None and self.pid != self.owner.pid:
            msgspec.structs.force_setattr(self, "pid", self.owner.pid)

    @property
    def memory(self) -> dict[str, Any]:
        """The data buffer, under its old name."""
        return self.data_buffer

    @property
    def duration_ms(self) -> int:
        """Time from start to end; 0 until it has ended, and when the clock was set back in
        between."""
        ended = self.timestamps.completed_at
        return (
            max(0, round((ended - self.timestamps.started_at).total_seconds() * 1000))
            if ended
            else 0
        )

    @property
    def is_resumable(self) -> bool:
        """True if `resume` can continue from a pause or a checkpoint."""
        return self.status == "paused" or self.is_resumable_from_checkpoint

    @property
    def is_resumable_from_checkpoint(self) -> bool:
        """True if there is a checkpoint; a completed session can be resumed from one too."""
        return self.checkpoint_enabled and self.latest_checkpoint_id is not None

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), **{name: getattr(self, name) for name in self.COMPUTED}}

    def to_session_state_dict(self) -> dict[str, Any]:
        """Return the fields that an executor needs to continue, as copies."""
        progress = self.progress
        target = (
            progress.resume_from
            or progress.paused_at
            or (progress.path[-1] if progress.path else None)
        )
        return {
            "paused_at": target,
            "resume_from": target,
            "data_buffer": as_json(self.data_buffer),
            "execution_path": list(progress.path),
            "node_visit_counts": dict(progress.node_visit_counts),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, zone: tzinfo | None = None) -> Self:
        """Build a state from the output of `to_dict`, of this version or an older one.

        Times of versions 1.x have no zone: `zone` applies, or that of this machine. Raises
        ModelError for invalid data.
        """
        data = _upgrade(dict(data), zone)
        for name in cls.COMPUTED:
            data.pop(name, None)
        for name, part in _PARTS.items():
            if name in data:
                value = data[name]
                if not isinstance(value, Mapping | part):
                    raise ModelError(f"SessionState: {name} must be an object")
                data[name] = part.from_dict(value) if isinstance(value, Mapping) else value
        return super().from_dict(data)

    @classmethod
    def from_execution_result(
        cls, session_id: str, goal_id: str, result: Any, **more: Any
    ) -> SessionState:
        """Build a state from an executor's result.

        Options: see `run_import.from_execution_result`.
        """
        from .run_import import from_execution_result

        return from_execution_result(session_id, goal_id, result, **more)

    @classmethod
    def from_legacy_run(cls, run: Any, session_id: str, **more: Any) -> SessionState:
        """Build a state from a run of the old format. Options: see `run_import.from_legacy_run`."""
        from .run_import import from_legacy_run

        return from_legacy_run(run, session_id, **more)

    @classmethod
    def _load(cls, known: dict[str, Any], extra: dict[str, Any]) -> Self:
        # The parts are values already, including their unknown fields; they are set after the rest
        # was checked.
        parts = {name: known[name] for name in _PARTS if name in known}
        try:
            state = msgspec.convert(
                {**known, **{name: _bare(part) for name, part in parts.items()}, "extra": extra},
                cls,
            )
        except ValueError as error:
            raise ModelError(f"SessionState: {error}") from None
        return msgspec.structs.replace(state, **parts)


_PARTS: dict[str, type[Value]] = {
    "timestamps": SessionTimestamps,
    "progress": SessionProgress,
    "result": SessionResult,
    "metrics": SessionMetrics,
}


def _bare(part: Value) -> dict[str, Any]:
    return {name: getattr(part, name) for name in part.__struct_fields__}


def plain(value: Any) -> Any:
    """Return the value as JSON gives it back, sharing nothing.

    Raises ModelError for bytes, times and other values that would come back as something else.
    """
    try:
        check_plain({"value": value})
    except LogError as error:
        raise ModelError(f"a value cannot be written as JSON: {error}") from None
    return as_json(value)


def as_json(value: Any) -> Any:
    """Return the value of another system as JSON has it, with its times as texts.

    Raises ModelError if it is not JSON.
    """
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except UnicodeEncodeError:
        # A lone surrogate, cut out of a text by a tool: the log stores it.
        return json.loads(json.dumps(msgspec.to_builtins(value, str_keys=True)))
    except (TypeError, ValueError, RecursionError, OverflowError, msgspec.MsgspecError) as error:
        raise ModelError(f"{type(value).__name__} cannot be written as JSON: {error}") from None


def _upgrade(data: dict[str, Any], zone: tzinfo | None) -> dict[str, Any]:
    """Bring data of an older version to this one.

    A newer one stays unchanged, with unknown fields.
    """
    version = data.get("schema_version", STATE_VERSION)
    if not isinstance(version, str):
        raise ModelError(f"schema_version {version!r} must be a text like {STATE_VERSION!r}")
    memory = data.pop("memory", None)
    data.setdefault("data_buffer", memory if memory is not None else {})
    if not version.startswith(("0.", "1.")):
        return data
    data["schema_version"] = STATE_VERSION
    times = data.get("timestamps")
    if isinstance(times, Mapping):
        data["timestamps"] = _repair_times({**times}, str(data.get("status", "active")), zone)
    return data


def _repair_times(times: dict[str, Any], status: str, zone: tzinfo | None) -> dict[str, Any]:
    """Repair old times: add the zone and a missing end of a finished run; drop the end of an active
    one."""
    for name in SessionTimestamps.TIMES:
        if times.get(name) is not None:
            times[name] = local_time(times[name], zone)
    if status in FINISHED:
        times["completed_at"] = times.get("completed_at") or times.get("updated_at")
    else:
        times["completed_at"] = None
    if status == "paused":
        times["paused_at_time"] = times.get("paused_at_time") or times.get("updated_at")
    return times


def local_time(value: str | datetime, zone: tzinfo | None = None) -> datetime:
    """Return an aware UTC time; without a zone, `zone` or that of this machine applies.

    Raises ModelError for an invalid time.
    """
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone) if zone else moment.astimezone()
    except (TypeError, ValueError, OverflowError, OSError):
        raise ModelError(f"{value!r} is not a time in ISO 8601") from None
    return parse_time(moment)
