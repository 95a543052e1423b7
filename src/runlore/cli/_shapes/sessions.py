"""Sessions, and what answers a question about them."""

from __future__ import annotations

from ._base import Number, Value


class Session(Value):
    """A session in a listing. What the agent left unsaid is null.

    uid: `agent:native id`; names the session everywhere
    outcome: success, fail, abandoned, unknown
    quality: real, trivial, automated, one_shot, subagent; null until it has a digest
    task_ref: the issue or task that it was about
    parent_uid: the session that it came out of
    relation: to its parent: fork, subagent, continuation
    turns: prompts of a person, each with what followed
    input_tokens: without what came from a cache
    usd: what its calls cost, without its subagents; null when no price is known
    source_missing_at: since when the agent has no transcript of it any more
    evicted_at: when its text left the store, or a part of it; its digest is kept
    """

    uid: str
    agent: str
    title: str | None
    repo: str | None
    domain: str | None
    cwd: str | None
    branch: str | None
    model: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str
    task_ref: str | None
    machine: str | None
    parent_uid: str | None
    relation: str | None
    events: int
    errors: int
    turns: int
    retries: int
    wall_clock_s: Number
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    usd: Number | None
    source_path: str | None
    source_bytes: int
    source_missing_at: str | None
    ingested_at: str | None
    quality: str | None
    evicted_at: str | None


class EventHit(Value):
    """An event that answers a question.

    ref: `uid#seq`; `runlore show` takes it
    kind: user_msg, assistant_msg, thinking, tool_call, tool_result, edit, test_run, …
    marks: where in the snippet the words are: pairs of begin and end, in characters
    """

    ref: str
    seq: int
    kind: str
    ts: str | None
    tool: str | None
    is_error: bool
    snippet: str
    marks: list[tuple[int, int]]


class SearchHit(Session, kw_only=True):
    """A session that was found.

    missing: words that it has not
    """

    score: float
    missing: list[str]
    events: list[EventHit]  # type: ignore[assignment] # In place of their number.


class FlatHit(EventHit, kw_only=True):
    """An event that was found, with its session."""

    uid: str


class _Found(Value):
    query: str
    total: int
    missing: list[str]
    ignored: list[str]
    hints: list[str]
    partial: bool
    damaged: bool
    seconds: float


class Search(_Found):
    """The best sessions first.

    total: sessions that the index has
    missing: words that no session has together with the others
    ignored: what is no word
    hints: what may have been meant
    partial: not everything was looked at
    damaged: not every text could be read; `runlore doctor` says more
    """

    hits: list[SearchHit]


class FlatSearch(_Found):
    """The same, as events alone."""

    events: list[FlatHit]


class CommitHit(Session, kw_only=True):
    """A session that has a commit.

    made: it ran `git commit`, and the output shows the name; otherwise it mentions it
    """

    made: bool
    events: list[EventHit]  # type: ignore[assignment] # As above.


class Commit(Value):
    """Those that made it first, then those that mention it.

    partial: not everything was looked at
    """

    sha: str
    total: int
    partial: bool
    sessions: list[CommitHit]


class FileHit(Session, kw_only=True):
    """A session that touched a file.

    actions: how often it did edit, read, search, other
    last_ref: `uid#seq` of the last time
    """

    actions: dict[str, int]
    files: list[str]
    last_at: str | None
    last_ref: str


class File(Value):
    """Sessions that touched a file, the last first.

    path: in full, or null when it is the end of one
    elsewhere: sessions that touched others whose path ends so
    partial: not everything was looked at
    """

    path: str | None
    total: int
    elsewhere: int
    partial: bool
    sessions: list[FileHit]


class Cost(Value):
    """What a session took.

    cache_tokens: read and written
    """

    input_tokens: int
    output_tokens: int
    cache_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    usd: Number | None
    wall_clock_s: Number
    turns: int
    retries: int


class StoredSession(Value, forbid_unknown_fields=False):
    """A session with all that is kept of it. Fields that a newer version wrote are beside these.

    uid: the same as session_uid, as a listing has it
    agent: the same as flavor
    branch: the same as git_branch
    outcome_evidence: what the outcome was told from
    content_hash: a chain over all events
    analyzed_seq: the last event that its digest covers
    """

    uid: str
    agent: str
    branch: str | None
    session_uid: str
    flavor: str
    native_session_id: str
    title: str | None
    repo: str | None
    domain: str | None
    cwd: str | None
    git_branch: str | None
    model: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str
    outcome_evidence: str | None
    cost: Cost
    task_ref: str | None
    source_path: str | None
    source_bytes: int
    source_missing_at: str | None
    parent_uid: str | None
    relation: str | None
    machine: str | None
    author: str | None
    events: int
    errors: int
    last_seq: int
    content_hash: str
    pinned: bool
    name: str | None
    tags: list[str]
    note: str | None
    discovered_at: str | None
    ingested_at: str | None
    analyzed_at: str | None
    analyzed_seq: int | None
    analyzed_hash: str | None
    evicted_at: str | None
    schema_version: int


class Usage(Value):
    """Tokens of a call; what is 0 is left out."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class Tests(Value):
    """What a test run reported; what it did not say is left out."""

    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None


class Event(Value, forbid_unknown_fields=False):
    """An event. Fields that a newer version wrote are beside these.

    seq: `session_uid#seq` names the event for good
    parent_seq: the event that it follows
    call_id: pairs a call with its result
    action: shell, read, edit, search, web, agent, plan, mcp, other
    native: the agent's own word for it
    origin: `uid#seq` where it happened, when this is a copy
    view: what it does to the model's context: context, summary, compact, clear, retract
    is_gone: the agent's transcript has it no longer
    record: the native record that it came from
    body: the whole text
    """

    session_uid: str
    seq: int
    ts: str | None
    kind: str
    parent_seq: int | None
    role: str | None
    tool: str | None
    summary: str | None
    payload_ref: str | None
    tokens: int
    is_sidechain: bool
    native_id: str | None
    call_id: str | None
    action: str | None
    is_error: bool
    exit_code: int | None
    duration_ms: int | None
    files: list[str]
    cwd: str | None
    git_branch: str | None
    model: str | None
    native: str | None
    origin: str | None
    usage: Usage | None
    tests: Tests | None
    view: str | None
    refs: list[str]
    is_gone: bool
    record: int | None
    body: str


class SeenEvent(Event):
    """An event that the model saw.

    is_cleared: its result had been emptied by then
    """

    is_cleared: bool


class Branch(Value):
    """A line of the session: the active one, or what a rewind left behind.

    forked_at: the event that it leaves its own line at
    """

    seqs: list[int]
    is_active: bool
    forked_at: int | None


class Transcript(Value):
    """A session with all that happened in it.

    children: sessions that came out of it
    """

    session: StoredSession
    events: list[Event]
    branches: list[Branch]
    children: list[Session]


class Resume(Value):
    """How to take a session up again.

    source_missing_at: since when the agent has no transcript of it any more, and will not find it
    command: its words
    """

    uid: str
    agent: str
    branch: str | None
    session_uid: str
    cwd: str | None
    cwd_exists: bool
    source_missing_at: str | None
    command: list[str]
