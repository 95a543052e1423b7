"""The effect of each record on the state of a run, or the reason for its refusal.

Pure. A rule is a method that returns None, or a refusal before it has changed anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal

import msgspec

from ..model import LogRecord
from . import run_records
from .run import FINISHED, SessionMetrics, SessionProgress, SessionResult, SessionState, Status
from .run_records import Checkpoint, Saved

Why = Literal["status", "run", "owner", "shape", "checkpoint"]
Refused = tuple[Why, str] | None

BECOMES: dict[str, Status] = {
    "state.started": "active",
    "state.paused": "paused",
    "state.resumed": "active",
    "state.completed": "completed",
    "state.failed": "failed",
    "state.cancelled": "cancelled",
}
NOT_SAVED = ("paused_at", "pause_reason", "resume_from")
"""Fields of progress that describe what comes next, which differs after resuming."""
ONCE = frozenset({"nodes_executed", "edges_traversed", "nodes_with_failures"})
"""Lists that name each thing once. During the fold they are the keys of a dict, for fast lookup."""
COUNTED = ("decision_count", "problem_count")
"""Fields of metrics that follow the lists, which a resume does not roll back."""


class Rules:
    """The state of a run in a mutable form."""

    def __init__(self, state: SessionState) -> None:
        self.is_started = False
        self.reenters: str | None = None
        self.base: int | None = None
        self.since_base = 0
        self.checkpoints: dict[str, Checkpoint] = {}
        self.take(state)

    def take(self, state: SessionState) -> None:
        self.top = open_fields(state, {"progress", "metrics", "result", "timestamps"})
        self.progress, self.metrics = open_fields(state.progress), open_fields(state.metrics)
        self.result, self.times = open_fields(state.result), open_fields(state.timestamps)

    # ── changes that belong together ──────────────────────────────────────────────────────────────
    def become(self, status: Status, at: datetime) -> None:
        self.top["status"] = status
        self.times["completed_at"] = at if status in FINISHED else None
        self.times["paused_at_time"] = at if status == "paused" else None
        if status != "active":
            self.own(None)

    def own(self, owner: Any) -> None:
        self.top["owner"], self.top["pid"] = owner, owner.pid if owner else None

    def change_buffer(self, changed: dict[str, Any], deleted: Iterable[str]) -> None:
        self.top["data_buffer"].update(changed)
        for name in deleted:
            self.top["data_buffer"].pop(name, None)

    def hear(self, at: datetime) -> None:
        owner = self.top["owner"]
        if owner is not None:
            self.top["owner"] = msgspec.structs.replace(owner, heartbeat=at)

    def visit(self, node: str) -> None:
        """Enter a node. A node that a resumed run enters once more was counted the first time."""
        progress, is_again = self.progress, self.reenters == node
        self.reenters = progress["resume_from"] = None
        progress["current_node"] = node
        if is_again:
            return
        progress["path"].append(node)
        progress["node_visit_counts"][node] = progress["node_visit_counts"].get(node, 0) + 1
        self.metrics["nodes_executed"][node] = None

    def go_on(self, payload: run_records.Resumed) -> None:
        """Begin a new run at the node where the previous one stopped."""
        path = self.progress["path"]
        self.reenters = (
            payload.node if payload.again and path and path[-1] == payload.node else None
        )
        self.progress.update(resume_from=payload.node, paused_at=None, pause_reason=None)
        self.is_started = True
        self.top["current_run_id"] = payload.run or self.top["current_run_id"]

    def add_to(self, part: dict[str, Any], name: str, number: int) -> None:
        part[name] = min(part[name] + number, 2**53)

    def saved(self) -> Saved:
        """Return what a checkpoint of this moment restores."""
        progress = _sparse(self.progress, SessionProgress, NOT_SAVED)
        metrics = _sparse(self.metrics, SessionMetrics, COUNTED)
        run, status = self.top["current_run_id"], self.top["status"]
        buffer = dict(self.top["data_buffer"])
        return Saved(
            data_buffer=buffer,
            progress=progress,
            metrics=metrics,
            status=status,
            run=run,
            reenters=self.reenters,
        )

    def restore(self, saved: Saved) -> None:
        """Restore a checkpoint. Raises ModelError for invalid content, before any change."""
        progress, metrics = (
            SessionProgress.from_dict(saved.progress),
            SessionMetrics.from_dict(saved.metrics),
        )
        ahead = {name: self.progress[name] for name in NOT_SAVED}
        counts = {name: self.metrics[name] for name in COUNTED}
        self.progress, self.metrics = (
            {**open_fields(progress), **ahead},
            {**open_fields(metrics), **counts},
        )
        self.top["data_buffer"] = dict(saved.data_buffer)

    # ── one rule for each type ────────────────────────────────────────────────────────────────────
    def _started(self, payload: run_records.Started, record: LogRecord) -> Refused:
        self.is_started = True
        self.top["current_run_id"] = payload.run
        for name in (
            "goal_id",
            "agent_id",
            "entry_point",
            "stream_id",
            "correlation_id",
            "isolation_level",
            "input_data",
        ):
            self.top[name] = getattr(payload, name)
        self.times["started_at"] = record.ts
        self.become("active", record.ts)
        self.own(payload.owner)
        return None

    def _adopted(self, payload: run_records.Adopted, record: LogRecord) -> Refused:
        """Start from a state of another system.

        Its owner and checkpoints do not belong to this log.
        """
        state = SessionState.from_dict(
            {**payload.state, "session_id": self.top["session_id"], "owner": None, "pid": None}
        )
        state = msgspec.structs.replace(state, checkpoint_enabled=False, latest_checkpoint_id=None)
        self.is_started = True
        self.take(state)
        return None

    def _progress(self, payload: run_records.Progressed, record: LogRecord) -> Refused:
        progress, metrics = self.progress, self.metrics
        if payload.node is not None:
            is_again = self.reenters == payload.node
            self.visit(payload.node)
            self.add_to(
                progress,
                "steps_executed",
                int(not is_again) if payload.steps is None else payload.steps,
            )
        else:
            self.add_to(progress, "steps_executed", payload.steps or 0)
        if payload.edge is not None:
            metrics["edges_traversed"][payload.edge] = None
        self.add_to(
            progress,
            "total_tokens",
            payload.input_tokens + payload.output_tokens
            if payload.tokens is None
            else payload.tokens,
        )
        self.add_to(progress, "total_latency_ms", payload.latency_ms)
        self.add_to(metrics, "total_input_tokens", payload.input_tokens)
        self.add_to(metrics, "total_output_tokens", payload.output_tokens)
        self._quality(payload)
        self.change_buffer(payload.set, payload.delete)
        self.hear(record.ts)
        return None

    def _quality(self, payload: run_records.Progressed) -> None:
        progress = self.progress
        for node, number in payload.retries.items():
            self.add_to(progress, "total_retries", number)
            progress["retry_details"][node] = min(
                progress["retry_details"].get(node, 0) + number, 2**53
            )
        for node in payload.failures:
            progress["had_partial_failures"] = True
            progress["nodes_with_failures"][node] = None
        if payload.quality is not None:
            progress["execution_quality"] = payload.quality
        elif (payload.retries or payload.failures) and progress["execution_quality"] == "clean":
            progress["execution_quality"] = "degraded"

    def _buffer(self, payload: run_records.Buffered, record: LogRecord) -> Refused:
        self.change_buffer(payload.set, payload.delete)
        return None

    def _problem(self, payload: run_records.Noted, record: LogRecord) -> Refused:
        self.top["problems"].append(payload.what)
        self.metrics["problem_count"] += 1
        return None

    def _decision(self, payload: run_records.Noted, record: LogRecord) -> Refused:
        self.top["decisions"].append(payload.what)
        self.metrics["decision_count"] += 1
        return None

    def _described(self, payload: run_records.Described, record: LogRecord) -> Refused:
        for name in payload.__struct_fields__:
            value = getattr(payload, name)
            if name not in ("run", "extra") and value is not None:
                self.top[name] = list(value) if isinstance(value, tuple) else value
        known = SessionState.__struct_fields__
        self.top["extra"].update(
            {name: value for name, value in payload.extra.items() if name not in known}
        )
        return None

    def _paused(self, payload: run_records.Paused, record: LogRecord) -> Refused:
        progress = self.progress
        node = payload.node or progress["current_node"]
        progress["paused_at"], progress["pause_reason"] = node, payload.reason
        progress["resume_from"] = payload.resume_from or node
        if node is not None:
            progress["current_node"] = node
        self.become("paused", record.ts)
        return None

    def _resumed(self, payload: run_records.Resumed, record: LogRecord) -> Refused:
        if payload.replaces is not None and payload.replaces != self.top["current_run_id"]:
            return (
                "run",
                f"run {self.top['current_run_id']} has taken the place of {payload.replaces}",
            )
        if payload.checkpoint is not None:
            # If the record of the checkpoint was damaged, this one still has all of it.
            checkpoint = self.checkpoints.get(payload.checkpoint)
            if payload.whole is None:
                return "checkpoint", f"there is no checkpoint {payload.checkpoint}"
            if checkpoint is not None and digest(content(payload.whole)) != checkpoint.digest:
                return (
                    "checkpoint",
                    f"what is restored is not what checkpoint {checkpoint.id} was taken of",
                )
            self.restore(payload.whole)
            self.base, self.since_base = record.seq, 0
            self.top["resumed_from"] = payload.checkpoint
        self.go_on(payload)
        self.result = open_fields(SessionResult(extra=self.result["extra"]))
        self.become("active", record.ts)
        self.own(payload.owner)
        if payload.input_data is not None:
            self.top["input_data"] = payload.input_data
        return None

    def _ended(self, payload: run_records.Ended, record: LogRecord) -> Refused:
        status = BECOMES[record.type]
        self.become(status, record.ts)
        self.result.update(
            success=status == "completed", error=payload.error, output=payload.output
        )
        if payload.quality is not None or status == "failed":
            self.progress["execution_quality"] = payload.quality or "failed"
        return None

    def _recovered(self, payload: run_records.Recovered, record: LogRecord) -> Refused:
        if not payload.owner.is_same(self.top["owner"]):
            return "owner", "it has another owner by now"
        if payload.mark == "paused":
            return self._paused(run_records.Paused(reason=payload.error), record)
        self.become(payload.mark, record.ts)
        self.result.update(success=False, error=payload.error)
        if payload.mark == "failed":
            self.progress["execution_quality"] = "failed"
        return None

    def _heartbeat(self, payload: run_records.Heartbeat, record: LogRecord) -> Refused:
        self.hear(record.ts)
        return None

    def _checkpoint(self, payload: run_records.Checkpointed, record: LogRecord) -> Refused:
        if payload.id in self.checkpoints:
            return "checkpoint", f"there is a checkpoint {payload.id} already"
        if payload.whole is not None:
            # Equal to the folded state, unless lines before it were lost: then this repairs it.
            self.restore(payload.whole)
            self.base, self.since_base = record.seq, 0
        self.change_buffer(payload.set, payload.delete)
        names = ("id", "node", "next_node", "type", "is_clean", "description", "run", "digest")
        known = {name: getattr(payload, name) for name in names}
        self.checkpoints[payload.id] = Checkpoint(
            seq=record.seq, ts=record.ts, base=self.base or 0, **known
        )
        self.top["checkpoint_enabled"], self.top["latest_checkpoint_id"] = True, payload.id
        self.hear(record.ts)
        return None

    def _pruned(self, payload: run_records.Pruned, record: LogRecord) -> Refused:
        for id in set(payload.ids) - in_use(self.checkpoints.values(), self.top["resumed_from"]):
            self.checkpoints.pop(id, None)
        return None


RULES: dict[str, Callable[[Any, Any, LogRecord], Refused]] = {
    "state.started": Rules._started,
    "state.adopted": Rules._adopted,
    "state.progress": Rules._progress,
    "state.buffer": Rules._buffer,
    "state.problem": Rules._problem,
    "state.decision": Rules._decision,
    "state.described": Rules._described,
    "state.paused": Rules._paused,
    "state.resumed": Rules._resumed,
    "state.completed": Rules._ended,
    "state.failed": Rules._ended,
    "state.cancelled": Rules._ended,
    "state.recovered": Rules._recovered,
    "state.heartbeat": Rules._heartbeat,
    "checkpoint": Rules._checkpoint,
    "checkpoint.pruned": Rules._pruned,
}


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:32]


def content(saved: Saved) -> bytes:
    """Return the bytes for the digest of a checkpoint: independent of the order of keys."""
    parts = [saved.data_buffer, saved.progress, saved.metrics]
    try:
        return msgspec.json.encode(parts, order="deterministic")
    except UnicodeEncodeError:  # A lone surrogate, cut out of a text by a tool.
        return json.dumps(parts, sort_keys=True).encode()


def in_use(checkpoints: Collection[Checkpoint], resumed_from: str | None) -> set[str]:
    """Return the ids that are never pruned: latest, latest clean, and the one resumed from."""
    latest = [checkpoint.id for checkpoint in checkpoints]
    clean = [checkpoint.id for checkpoint in checkpoints if checkpoint.is_clean]
    return {*latest[-1:], *clean[-1:], *({resumed_from} if resumed_from else ())}


def open_fields(value: Any, without: Iterable[str] = ()) -> dict[str, Any]:
    """Return the fields of a value in mutable form: tuples as lists or keys, dicts as copies."""
    fields = {name: getattr(value, name) for name in value.__struct_fields__ if name not in without}
    return {
        name: dict.fromkeys(field) if name in ONCE else _own_copy(field)
        for name, field in fields.items()
    }


def _own_copy(field: Any) -> Any:
    if isinstance(field, tuple | list):
        return list(field)
    return dict(field) if isinstance(field, dict) else field


def closed_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(field) if isinstance(field, list) or name in ONCE else _own_copy(field)
        for name, field in fields.items()
    }


def _sparse(
    fields: dict[str, Any], type: type[msgspec.Struct], without: tuple[str, ...]
) -> dict[str, Any]:
    """Return the fields that differ from the initial values, so that a small run has a small
    checkpoint."""
    empty = open_fields(type())
    changed = {
        name
        for name, value in fields.items()
        if name not in (*without, "extra") and value != empty[name]
    }
    return {
        **fields["extra"],
        **{
            name: list(fields[name]) if name in ONCE else _own_copy(fields[name])
            for name in changed
        },
    }
