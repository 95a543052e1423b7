"""Live sessions."""

from __future__ import annotations

from typing import Any

from msgspec import field

from ._base import Value


class LiveSession(Value):
    """A live session in a listing.

    status: active, paused, completed, failed, cancelled; null when it has no run
    attention: why it needs a look: failed, retries, slow, tokens, steps
    owner: its process: alive, dead, silent, unknown; null without one
    seq: of its last record
    origin: what it is a fork of: session, record, seq
    """

    id: str
    title: str
    status: str | None
    attention: list[str]
    owner: str | None
    agent: str | None
    provider: str | None
    model: str | None
    cwd: str | None
    created_at: str
    updated_at: str
    messages: int
    seq: int
    origin: dict[str, Any] | None


class Message(Value):
    """A message in view. Of one that the view made, seq, id and ts are null.

    message: as the agent wrote it
    """

    seq: int | None
    id: str | None
    ts: str | None
    message: dict[str, Any]


class OpenCall(Value):
    """A call without a result.

    fate: what is known of it
    replay: whether it may be run again: never, safe
    """

    call_id: str
    name: str
    fate: str
    replay: str


class Line(Value):
    """A line of the conversation.

    tip: its last record, which `rewind` takes
    parent: the record at which it left another, or -1
    """

    tip: str
    seq: int
    parent: int
    messages: int
    is_active: bool
    ts: str


class Damage(Value):
    """A place of the log that could not be read."""

    offset: int
    size_bytes: int
    reason: str


class Conversation(Value):
    """What the model should see now, or saw at a record."""

    session: LiveSession
    messages: list[Message]
    open_calls: list[OpenCall]
    branches: list[Line]
    problems: list[Damage]


class Record(Value):
    """A record of the log.

    key: the writer's own
    epoch: of the lease that it was written under
    """

    seq: int
    id: str
    ts: str
    type: str
    key: str | None
    epoch: int | None
    payload: dict[str, Any]


class Owner(Value):
    """The process that runs a session."""

    pid: int
    started: str
    boot: str
    host: str
    machine: str
    space: str
    heartbeat: str | None


class Timestamps(Value, forbid_unknown_fields=False):
    """When the run began, last changed, ended and was paused."""

    started_at: str
    updated_at: str
    completed_at: str | None
    paused_at_time: str | None


class Progress(Value, forbid_unknown_fields=False):
    """Where the run is.

    path: every visit, in order
    """

    current_node: str | None
    paused_at: str | None
    pause_reason: str | None
    resume_from: str | None
    steps_executed: int
    total_tokens: int
    total_latency_ms: int
    path: list[str]
    total_retries: int
    nodes_with_failures: list[str]
    retry_details: dict[str, int]
    had_partial_failures: bool
    execution_quality: str
    node_visit_counts: dict[str, int]


class Result(Value, forbid_unknown_fields=False):
    """What came of it.

    success: null until it is over
    """

    success: bool | None
    error: str | None
    output: dict[str, Any]


class Metrics(Value, forbid_unknown_fields=False):
    """Counts."""

    decision_count: int
    problem_count: int
    total_input_tokens: int
    total_output_tokens: int
    nodes_executed: list[str]
    edges_traversed: list[str]


class Refused(Value):
    """A record that could not follow."""

    seq: int
    type: str
    why: str
    reason: str


class State(Value, forbid_unknown_fields=False):
    """The state of a run. Fields that a newer version wrote are beside these.

    attention: why it needs a look
    owner_verdict: alive, dead, silent, unknown; null without an owner
    """

    schema_version: str
    session_id: str
    stream_id: str
    correlation_id: str
    status: str
    goal_id: str
    agent_id: str
    entry_point: str
    timestamps: Timestamps
    progress: Progress
    result: Result
    metrics: Metrics
    data_buffer: dict[str, Any]
    problems: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
    input_data: dict[str, Any]
    current_run_id: str | None
    pid: int | None
    owner: Owner | None
    isolation_level: str
    checkpoint_enabled: bool
    latest_checkpoint_id: str | None
    resumed_from: str | None
    active_triggers: list[str]
    trigger_tasks: dict[str, str]
    worker_configured: bool
    duration_ms: int
    is_resumable: bool
    is_resumable_from_checkpoint: bool
    attention: list[str]
    owner_verdict: str | None
    refused: list[Refused]


class Step(Value):
    """A change of status."""

    seq: int
    ts: str
    type: str
    before: str
    after: str
    reason: str | None


class Checkpoint(Value):
    """A point that a run can go back to.

    is_clean: nothing had failed by then
    base: the record that it builds on
    """

    id: str
    seq: int
    ts: str
    node: str | None
    next_node: str | None
    type: str
    is_clean: bool
    description: str
    run: str | None
    base: int
    digest: str


class Difference(Value):
    """What is different at the second of two checkpoints.

    changed: pairs of old and new
    path_left: what the first had visited after their ways parted
    """

    added: dict[str, Any]
    removed: dict[str, Any]
    changed: dict[str, tuple[Any, Any]]
    path: list[str]
    path_left: list[str]
    counters: dict[str, int]


class Rewound(Value):
    """Where a rewind led.

    seq: of the rewind's own record
    messages: how many are in view now
    """

    session: str
    seq: int
    messages: int


class Forked(Value):
    """A new session.

    origin: what it is a fork of: session, record, seq
    """

    session: str
    origin: dict[str, Any] | None


class Recovered(Value):
    """A session whose process died, or is silent.

    marked: what it was made; null when it was left alone
    """

    session_id: str
    owner: Owner
    verdict: str
    updated_at: str
    marked: str | None


class Rate(Value):
    """How often a model passed at a skill.

    rate: passed of those that passed or failed; null when none did
    verified: of those that passed, with a check to show for it
    """

    skill: str
    model: str | None
    rate: float | None
    passed: int
    failed: int
    skipped: int
    running: int
    unknown: int
    verified: int
    attempts: int
    tokens: int
    usd: float | None
    duration_ms: int


class Verification(Value, kw_only=True):
    """How something was found out; what is not known is left out."""

    by: str
    passed: bool
    command: str | None = None
    exit_code: int | None = None
    detail: str | None = None


class Attempt(Value, kw_only=True):
    """One try of one model; what is not known is left out.

    verified: true, false, or left out when nothing was checked
    is_open: begun, and its end is not in the log
    """

    attempt: int = 0
    model: str | None = None
    tier: str | int | None = None
    warm_start: bool | None = None
    output_summary: str | None = None
    runner_output: str | None = None
    verified: bool | None = None
    checks: list[Verification] = field(default_factory=list)
    verdict: str | None = None
    feedback: str | None = None
    error: str | None = None
    timestamp: str | None = None
    duration_ms: int | None = None
    usage: dict[str, int] | None = None
    usd: float | None = None
    is_open: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


class Invocation(Value, kw_only=True):
    """One invocation of a skill; what is not known is left out.

    left_out: attempts that are only counted
    status_word: the status in the log's own words, when there is none of ours for it
    """

    id: str
    session_id: str = ""
    skill: str = "unknown"
    phase: str | None = None
    timestamp: str | None = None
    project_root: str | None = None
    file_path: str | None = None
    input: Any = None
    attempts: list[Attempt] = field(default_factory=list)
    left_out: int = 0
    final_status: str = "running"
    status_word: str | None = None
    model_used: str | None = None
    message: str | None = None
    error: str | None = None
    duration_ms: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)


class History(Value):
    """What a session tried.

    text: for a next prompt
    """

    session: str
    text: str
    entries: list[Invocation]
