"""What each record changes in the state of a run, or why it changes nothing.

Pure. A rule is a method that gives None, or the reason of its refusal before anything is changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal

import msgspec

from ..model import LogRecord
from . import _run_words as words
from ._run_words import Checkpoint, Saved
from .run import FINISHED, SessionMetrics, SessionProgress, SessionResult, SessionState, Status

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
"""Of progress: they say what is to come, which is another thing after resuming."""
ONCE = frozenset({"nodes_executed", "edges_traversed", "nodes_with_failures"})
"""Lists that name each thing once. While folding they are the keys of a dict: a run of a million
nodes asks a million times."""
COUNTED = ("decision_count", "problem_count")
"""Of metrics: they follow the lists, which no resuming takes back."""


class Rules:
    """The state of a run, open to change."""

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

    # ── what changes together ─────────────────────────────────────────────────────────────────────
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
        """A node that a resumed run enters once more was counted when it was first entered."""
        progress, is_again = self.progress, self.reenters == node
        self.reenters = progress["resume_from"] = None
        progress["current_node"] = node
        if is_again:
            return
        progress["path"].append(node)
        progress["node_visit_counts"][node] = progress["node_visit_counts"].get(node, 0) + 1
        self.metrics["nodes_executed"][node] = None

    def go_on(self, said: words.Resumed) -> None:
        """A new run, at the node where the one before stopped."""
        path = self.progress["path"]
        self.reenters = said.node if said.again and path and path[-1] == said.node else None
        self.progress.update(resume_from=said.node, paused_at=None, pause_reason=None)
        self.is_started = True
        self.top["current_run_id"] = said.run or self.top["current_run_id"]

    def add_to(self, part: dict[str, Any], name: str, number: int) -> None:
        part[name] = min(part[name] + number, 2**53)

    def saved(self) -> Saved:
        """What a checkpoint of this moment brings back."""
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
        """Raises ModelError when it is not what a checkpoint holds; nothing is changed then."""
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
    def _started(self, said: words.Started, record: LogRecord) -> Refused:
        self.is_started = True
        self.top["current_run_id"] = said.run
        for name in (
            "goal_id",
            "agent_id",
            "entry_point",
            "stream_id",
            "correlation_id",
            "isolation_level",
            "input_data",
        ):
            self.top[name] = getattr(said, name)
        self.times["started_at"] = record.ts
        self.become("active", record.ts)
        self.own(said.owner)
        return None

    def _adopted(self, said: words.Adopted, record: LogRecord) -> Refused:
        """A state from elsewhere, as the beginning of this log. Its owner and its checkpoints are
        not of this log."""
        state = SessionState.from_dict(
            {**said.state, "session_id": self.top["session_id"], "owner": None, "pid": None}
        )
        state = msgspec.structs.replace(state, checkpoint_enabled=False, latest_checkpoint_id=None)
        self.is_started = True
        self.take(state)
        return None

    def _progress(self, said: words.Progressed, record: LogRecord) -> Refused:
        progress, metrics = self.progress, self.metrics
        if said.node is not None:
            is_again = self.reenters == said.node
            self.visit(said.node)
            self.add_to(
                progress, "steps_executed", int(not is_again) if said.steps is None else said.steps
            )
        else:
            self.add_to(progress, "steps_executed", said.steps or 0)
        if said.edge is not None:
            metrics["edges_traversed"][said.edge] = None
        self.add_to(
            progress,
            "total_tokens",
            said.input_tokens + said.output_tokens if said.tokens is None else said.tokens,
        )
        self.add_to(progress, "total_latency_ms", said.latency_ms)
        self.add_to(metrics, "total_input_tokens", said.input_tokens)
        self.add_to(metrics, "total_output_tokens", said.output_tokens)
        self._quality(said)
        self.change_buffer(said.set, said.delete)
        self.hear(record.ts)
        return None

    def _quality(self, said: words.Progressed) -> None:
        progress = self.progress
        for node, number in said.retries.items():
            self.add_to(progress, "total_retries", number)
            progress["retry_details"][node] = min(
                progress["retry_details"].get(node, 0) + number, 2**53
            )
        for node in said.failures:
            progress["had_partial_failures"] = True
            progress["nodes_with_failures"][node] = None
        if said.quality is not None:
            progress["execution_quality"] = said.quality
        elif (said.retries or said.failures) and progress["execution_quality"] == "clean":
            progress["execution_quality"] = "degraded"

    def _buffer(self, said: words.Buffered, record: LogRecord) -> Refused:
        self.change_buffer(said.set, said.delete)
        return None

    def _problem(self, said: words.Noted, record: LogRecord) -> Refused:
        self.top["problems"].append(said.what)
        self.metrics["problem_count"] += 1
        return None

    def _decision(self, said: words.Noted, record: LogRecord) -> Refused:
        self.top["decisions"].append(said.what)
        self.metrics["decision_count"] += 1
        return None

    def _described(self, said: words.Described, record: LogRecord) -> Refused:
        for name in said.__struct_fields__:
            value = getattr(said, name)
            if name not in ("run", "extra") and value is not None:
                self.top[name] = list(value) if isinstance(value, tuple) else value
        known = SessionState.__struct_fields__
        self.top["extra"].update(
            {name: value for name, value in said.extra.items() if name not in known}
        )
        return None

    def _paused(self, said: words.Paused, record: LogRecord) -> Refused:
        progress = self.progress
        node = said.node or progress["current_node"]
        progress["paused_at"], progress["pause_reason"] = node, said.reason
        progress["resume_from"] = said.resume_from or node
        if node is not None:
            progress["current_node"] = node
        self.become("paused", record.ts)
        return None

    def _resumed(self, said: words.Resumed, record: LogRecord) -> Refused:
        if said.replaces is not None and said.replaces != self.top["current_run_id"]:
            return "run", f"run {self.top['current_run_id']} has taken the place of {said.replaces}"
        if said.checkpoint is not None:
            checkpoint = self.checkpoints.get(said.checkpoint)
            if checkpoint is None or said.whole is None:
                return "checkpoint", f"there is no checkpoint {said.checkpoint}"
            if digest(content(said.whole)) != checkpoint.digest:
                return (
                    "checkpoint",
                    f"what is restored is not what checkpoint {checkpoint.id} was taken of",
                )
            self.restore(said.whole)
            self.base, self.since_base = record.seq, 0
            self.top["resumed_from"] = checkpoint.id
        self.go_on(said)
        self.result = open_fields(SessionResult(extra=self.result["extra"]))
        self.become("active", record.ts)
        self.own(said.owner)
        if said.input_data is not None:
            self.top["input_data"] = said.input_data
        return None

    def _ended(self, said: words.Ended, record: LogRecord) -> Refused:
        status = BECOMES[record.type]
        self.become(status, record.ts)
        self.result.update(success=status == "completed", error=said.error, output=said.output)
        if said.quality is not None or status == "failed":
            self.progress["execution_quality"] = said.quality or "failed"
        return None

    def _recovered(self, said: words.Recovered, record: LogRecord) -> Refused:
        if not said.owner.is_same(self.top["owner"]):
            return "owner", "it has another owner by now"
        if said.mark == "paused":
            return self._paused(words.Paused(reason=said.error), record)
        self.become(said.mark, record.ts)
        self.result.update(success=False, error=said.error)
        if said.mark == "failed":
            self.progress["execution_quality"] = "failed"
        return None

    def _heartbeat(self, said: words.Heard, record: LogRecord) -> Refused:
        self.hear(record.ts)
        return None

    def _checkpoint(self, said: words.Checkpointed, record: LogRecord) -> Refused:
        if said.id in self.checkpoints:
            return "checkpoint", f"there is a checkpoint {said.id} already"
        if said.whole is not None:
            # The same as what was folded, unless lines before it were lost: then this puts it
            # right.
            self.restore(said.whole)
            self.base, self.since_base = record.seq, 0
        self.change_buffer(said.set, said.delete)
        names = ("id", "node", "next_node", "type", "is_clean", "description", "run", "digest")
        known = {name: getattr(said, name) for name in names}
        self.checkpoints[said.id] = Checkpoint(
            seq=record.seq, ts=record.ts, base=self.base or 0, **known
        )
        self.top["checkpoint_enabled"], self.top["latest_checkpoint_id"] = True, said.id
        self.hear(record.ts)
        return None

    def _pruned(self, said: words.Pruned, record: LogRecord) -> Refused:
        for id in set(said.ids) - in_use(self.checkpoints.values(), self.top["resumed_from"]):
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
    """What the digest of a checkpoint is taken of: the same for the same values, whatever the order
    of keys."""
    parts = [saved.data_buffer, saved.progress, saved.metrics]
    try:
        return msgspec.json.encode(parts, order="deterministic")
    except UnicodeEncodeError:  # Half of a surrogate pair, which a tool has cut out of a text.
        return json.dumps(parts, sort_keys=True).encode()


def in_use(checkpoints: Collection[Checkpoint], resumed_from: str | None) -> set[str]:
    """Those that are never pruned: the latest, the latest clean one, and the one that the run was
    resumed from."""
    latest = [checkpoint.id for checkpoint in checkpoints]
    clean = [checkpoint.id for checkpoint in checkpoints if checkpoint.is_clean]
    return {*latest[-1:], *clean[-1:], *({resumed_from} if resumed_from else ())}


def open_fields(value: Any, without: Iterable[str] = ()) -> dict[str, Any]:
    """The fields of a value, free to be changed: tuples as lists or as keys, dicts as copies."""
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
    """What differs from the beginning, as JSON has it, so that a small run has a small
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
