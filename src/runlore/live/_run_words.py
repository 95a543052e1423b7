"""What the records of a run say: one shape for each type, checked when it is read.

A record holds a change, never the whole state: what is not said stays as it was. Two are whole on
purpose, so that reading can begin there: a checkpoint now and then, and the record of resuming from
one.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from .liveness import Mark, Owner
from .run import Quality, Status

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""What any JSON reader can count; sums of it fit where we add them up."""

CheckpointType = Literal[
    "node_start", "node_complete", "loop_iteration", "edge_transition", "pause", "safe_point"
]


class _Words(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    run: str | None = None
    """Of which run this is. What a run says after another one has taken over is refused; None is
    anybody's."""


class Started(_Words, frozen=True, kw_only=True, omit_defaults=True):
    goal_id: str = ""
    agent_id: str = ""
    entry_point: str = "start"
    stream_id: str = ""
    correlation_id: str = ""
    isolation_level: str = "shared"
    input_data: dict[str, Any] = {}
    owner: Owner | None = None


class Adopted(_Words, frozen=True, kw_only=True, omit_defaults=True):
    state: dict[str, Any]


class Progressed(_Words, frozen=True, kw_only=True, omit_defaults=True):
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


class Buffered(_Words, frozen=True, kw_only=True, omit_defaults=True):
    set: dict[str, Any] = {}
    delete: tuple[str, ...] = ()


class Noted(_Words, frozen=True, kw_only=True, omit_defaults=True):
    what: dict[str, Any]


class Described(_Words, frozen=True, kw_only=True, omit_defaults=True):
    """The fields that are simply set; None leaves one as it is. What is in `extra` are fields that
    this version does not know."""

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


class Paused(_Words, frozen=True, kw_only=True, omit_defaults=True):
    node: str | None = None
    reason: str | None = None
    resume_from: str | None = None


class Ended(_Words, frozen=True, kw_only=True, omit_defaults=True):
    error: str | None = None
    output: dict[str, Any] = {}
    quality: Quality | None = None


class Recovered(_Words, frozen=True, kw_only=True, omit_defaults=True):
    owner: Owner
    mark: Mark = "failed"
    error: str | None = None


class Heard(_Words, frozen=True, kw_only=True, omit_defaults=True):
    """Nothing but a sign of life."""


class Saved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a checkpoint brings back, whole: the data buffer, and of progress and metrics what
    differs from the beginning."""

    data_buffer: dict[str, Any] = {}
    progress: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    status: Status = "active"
    run: str | None = None
    reenters: str | None = None


class Checkpointed(_Words, frozen=True, kw_only=True, omit_defaults=True):
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


class Resumed(_Words, frozen=True, kw_only=True, omit_defaults=True):
    """`replaces` is the run that was there when it was decided: of two processes that resume at
    once, one is refused."""

    replaces: str | None = None
    owner: Owner | None = None
    node: str | None = None
    again: bool = False
    """The node was entered before and is entered once more: that is one visit."""
    checkpoint: str | None = None
    whole: Saved | None = None
    input_data: dict[str, Any] | None = None


class Pruned(_Words, frozen=True, kw_only=True, omit_defaults=True):
    ids: tuple[str, ...]


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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


SHAPES: dict[str, type[_Words]] = {
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
    "state.heartbeat": Heard,
    "checkpoint": Checkpointed,
    "checkpoint.pruned": Pruned,
}
