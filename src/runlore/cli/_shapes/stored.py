"""The store, and what is done to it."""

from __future__ import annotations

from typing import Any

from ._base import Value


class Root(Value):
    """A folder that is looked in."""

    path: str
    exists: bool
    machine: str | None


class Agent(Value):
    """An agent that runlore can read.

    keeps_days: after so many it deletes its transcripts
    lacks: what its files never tell
    version_seen: of the agent or of its format, as the newest of its files tells
    """

    name: str
    label: str
    enabled: bool
    roots: list[Root]
    keeps_days: int | None
    lacks: list[str]
    sources: int
    sessions: int
    source_bytes: int
    last_sync: str | None
    version_seen: str | None


class Sync(Value):
    """What a sync did, or would do.

    found: sources by what became of them
    agents: sources of each
    subagents: how many of the sessions
    digests: of sessions that changed and came to rest
    copies: events that are stored elsewhere
    merged: records that only add to others
    skipped: what was not understood, and is kept as it is
    redacted: secrets by kind
    problems: pairs of a path and what was wrong
    """

    found: dict[str, int]
    agents: dict[str, int]
    sessions: int
    new_sessions: int
    subagents: int
    events: int
    digests: int
    copies: int
    merged: int
    skipped: dict[str, int]
    redacted: dict[str, int]
    excluded: int
    forgotten: int
    size: int
    seconds: float
    problems: list[tuple[str, str]]
    dry_run: bool


class Check(Value):
    """What became of a check.

    of: so many there are
    problems: the first of `count`
    """

    name: str
    ok: bool
    checked: int
    of: int
    count: int
    problems: list[str]
    notes: list[str]


class Doctor(Value):
    """What the doctor says.

    repairs: what --repair would do, and how often
    hopeless: problems that nothing here can repair
    """

    ok: bool
    checks: list[Check]
    repairs: dict[str, int]
    repaired: list[str]
    hopeless: int


class Backup(Value):
    """A copy of the store."""

    path: str
    size: int
    seconds: float


class Copied(Value):
    """What was brought from one store to another. `unchanged` were there already, `forgotten` were forgotten there. `problems` are what
    the doctor finds wrong with the copy."""

    source: str
    target: str
    sessions: int
    events: int
    calls: int
    unchanged: int
    forgotten: int
    problems: list[str]
    seconds: float


class Demo(Value):
    """A store to look around in."""

    home: str
    store: str
    sessions: int
    events: int


class Forget(Value):
    """What was removed, or would be.

    copies: other sessions that show parts of these
    lessons: ids of those that rest on these, or quote them
    unread: files among the lessons that cannot be read, and stay as they are
    """

    dry_run: bool
    sessions: list[str]
    events: int
    source_bytes: int
    copies: list[str]
    lessons: list[str]
    unread: list[str]


class Autostart(Value):
    """The job that syncs by itself.

    files: path and text of each; after `off` and for `status` of what is installed
    """

    manager: str
    on: bool
    every_minutes: int | None
    command: list[str]
    files: dict[str, str]


class Installed(Value):
    """What was put into an agent's settings or taken out of them, or would be.

    what: hooks, mcp
    state: afterwards: installed, outdated, absent
    diff: its lines
    """

    agent: str
    what: str
    file: str
    state: str
    changed: bool
    dry_run: bool
    diff: list[str]


class Integration(Value):
    """What is in an agent's settings.

    what: hooks, mcp
    state: installed, outdated, absent; unknown when the file cannot be read
    problem: why it cannot be read
    last_sync: the last that a hook started: at, sessions, events, problems, or error
    """

    agent: str
    what: str
    file: str
    state: str
    problem: str | None
    last_sync: dict[str, Any] | None


class Served(Value):
    """Where the page is, told when it answers there.

    needs_token: whether it asks for the token that was printed, or given in RUNLORE_TOKEN
    """

    url: str
    needs_token: bool


class Exported(Value):
    """A file that was written.

    format: markdown, jsonl, html
    size: in bytes
    """

    path: str
    format: str
    size: int


class Leaving(Value):
    """A session that leaves.

    analyzed: whether a digest covers all of it
    size: of its text, packed
    """

    uid: str
    title: str | None
    ended_at: str | None
    events: int
    analyzed: bool
    size: int


class Evicted(Value):
    """What left, or would.

    records: of how many transcripts the native records leave
    freed: bytes; as long as nothing has left, an estimate
    used: bytes that the store took before
    stays: why sessions stay that would have had to leave, and how many
    manifest: the file that lists what left
    """

    dry_run: bool
    sessions: list[Leaving]
    records: int
    freed: int
    used: int
    stays: dict[str, int]
    manifest: str | None


class Marked(Value):
    """What people say of a session."""

    uid: str
    pinned: bool
    name: str | None
    tags: list[str]
    note: str | None


class Leak(Value):
    """Secrets of one kind in one session.

    secrets: a keyed hash of each, the same wherever it stands
    events: where; the first twenty
    """

    uid: str
    agent: str
    title: str | None
    source_path: str | None
    source_missing_at: str | None
    kind: str
    count: int
    secrets: list[str]
    events: list[int]


class Pattern(Value):
    """Something that keeps happening.

    polarity: problem, success
    sessions: how many that have nothing to do with each other
    signals: how often it was seen
    magnitude: how strongly, on average; what it counts depends on the type
    months: signals by month
    trend: new, rising, steady, falling, stopped
    examples: as uid#seq
    """

    id: str
    type: str
    polarity: str
    what: str
    repo: str | None
    signals: int
    sessions: int
    uids: list[str]
    repos: list[str]
    agents: list[str]
    usd: float
    magnitude: float
    first_at: str
    last_at: str
    months: dict[str, int]
    trend: str
    examples: list[str]
