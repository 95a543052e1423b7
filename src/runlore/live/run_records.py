"""The payloads of the records of a run: one struct for each type, checked on reading.

A record holds a change, never the whole state: fields that are not set stay as they were. Two are
whole on purpose, so that reading can begin there: an occasional checkpoint, and the record of
resuming from one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from ..model import Plain
from .liveness import Mark, Owner
from .run import Quality, Status

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A count within the range of any JSON reader."""

CheckpointType = Literal[
    "node_start", "node_complete", "loop_iteration", "edge_transition", "pause", "safe_point"
]


class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    run: str | None = None
    """Id of the run. A record of a run that was replaced is refused; None belongs to any run."""


class Started(Payload, frozen=True, kw_only=True, omit_defaults=True):
    goal_id: str = ""
    agent_id: str = ""
    entry_point: str = "start"
    stream_id: str = ""
    correlation_id: str = ""
    isolation_level: str = "shared"
    input_data: dict[str, Any] = {}
    owner: Owner | None = None


class Adopted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    state: dict[str, Any]


class Progressed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    node: str | None = None
    edge: str | None = None
    steps: Count | None = None
    tokens: Count | None = None
    input_tokens: Count = 0
    output_tokens: Count = 0
    latency_ms: Count = 0
    retries: dict[str, Count] = {}
    failures: tuple[str, ...] = ()
    quality: Quality | None = None
    set: dict[str, Any] = {}
    delete: tuple[str, ...] = ()


class Buffered(Payload, frozen=True, kw_only=True, omit_defaults=True):
    set: dict[str, Any] = {}
    delete: tuple[str, ...] = ()


class Noted(Payload, frozen=True, kw_only=True, omit_defaults=True):
    what: dict[str, Any]


class Described(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Fields that are simply set; None leaves one unchanged.

    `extra` holds fields that this version does not know.
    """

    goal_id: str | None = None
    agent_id: str | None = None
    entry_point: str | None = None
    stream_id: str | None = None
    correlation_id: str | None = None
    isolation_level: str | None = None
    input_data: dict[str, Any] | None = None
    active_triggers: tuple[str, ...] | None = None
    trigger_tasks: dict[str, str] | None = None
    worker_configured: bool | None = None
    extra: dict[str, Any] = {}


class Paused(Payload, frozen=True, kw_only=True, omit_defaults=True):
    node: str | None = None
    reason: str | None = None
    resume_from: str | None = None


class Ended(Payload, frozen=True, kw_only=True, omit_defaults=True):
    error: str | None = None
    output: dict[str, Any] = {}
    quality: Quality | None = None


class Recovered(Payload, frozen=True, kw_only=True, omit_defaults=True):
    owner: Owner
    mark: Mark = "failed"
    error: str | None = None


class Heartbeat(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A sign of life, without content."""


class Saved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The whole content of a checkpoint: the data buffer, and the non-initial progress and
    metrics."""

    data_buffer: dict[str, Any] = {}
    progress: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    status: Status = "active"
    run: str | None = None
    reenters: str | None = None


class Checkpointed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    digest: str
    node: str | None = None
    next_node: str | None = None
    type: CheckpointType = "node_complete"
    is_clean: bool = True
    description: str = ""
    set: dict[str, Any] = {}
    delete: tuple[str, ...] = ()
    whole: Saved | None = None


class Resumed(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The record of resuming a run.

    `replaces` is the run before it: of two processes that resume at once, one is refused.
    """

    replaces: str | None = None
    owner: Owner | None = None
    node: str | None = None
    again: bool = False
    """The node was entered before and is entered once more: that counts as one visit."""
    checkpoint: str | None = None
    whole: Saved | None = None
    input_data: dict[str, Any] | None = None


class Pruned(Payload, frozen=True, kw_only=True, omit_defaults=True):
    ids: tuple[str, ...]


class Checkpoint(Plain, frozen=True, kw_only=True, gc=False):
    """A point that a run can go back to."""

    id: str
    seq: int
    ts: datetime
    node: str | None = None
    next_node: str | None = None
    type: CheckpointType = "node_complete"
    is_clean: bool = True
    """True if nothing had failed by then."""
    description: str = ""
    run: str | None = None
    base: int = 0
    """The whole record that it builds on."""
    digest: str = ""


SHAPES: dict[str, type[Payload]] = {
    "state.started": Started,
    "state.adopted": Adopted,
    "state.progress": Progressed,
    "state.buffer": Buffered,
    "state.problem": Noted,
    "state.decision": Noted,
    "state.described": Described,
    "state.paused": Paused,
    "state.resumed": Resumed,
    "state.completed": Ended,
    "state.failed": Ended,
    "state.cancelled": Ended,
    "state.recovered": Recovered,
    "state.heartbeat": Heartbeat,
    "checkpoint": Checkpointed,
    "checkpoint.pruned": Pruned,
}
