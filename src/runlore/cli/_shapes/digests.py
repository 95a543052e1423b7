"""What is kept of a session when its bulk is gone."""

from __future__ import annotations

import msgspec

from ._base import Number, Value


class Covers(Value):
    """The content that a digest was made from."""

    last_seq: int
    content_hash: str


class Moment(Value):
    """An event, and what of it is kept."""

    seq: int
    text: str


class CommandRun(Value):
    """A command that was run, once or several times in the same words.

    seq: of the last time
    exit_code: of the last time, where it was reported
    """

    seq: int
    command: str
    count: int = 1
    failed: int = 0
    exit_code: int | None = None


class TestRun(Value):
    """A run of tests.

    seq: where it ended
    """

    seq: int
    command: str
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    is_error: bool = False


class SlowCommand(Value):
    """A command that took long.

    seq: of the longest time
    seconds: of all times
    """

    seq: int
    command: str
    seconds: Number
    count: int = 1


class DigestCommit(Value):
    """A commit that was made, as git reported it."""

    seq: int
    sha: str
    subject: str = ""


class Signature(Value):
    """Which error it is.

    fingerprint: the same for the same error, whichever tool or agent printed it
    version: of the rules behind the fingerprint
    """

    fingerprint: str
    kind: str
    template: str
    sample: str
    name: str = ""
    version: int = 1


class ErrorSummary(Value):
    """An error of a session.

    seqs: where it was seen first and last
    command: what was run, or the file that was to be read or changed
    """

    signature: Signature
    count: int
    seqs: list[int]
    tool: str | None = None
    action: str | None = None
    command: str | None = None
    first_at: str | None = None
    last_at: str | None = None


class Step(Value):
    """Something that was done between an error and its end."""

    seq: int
    how: str
    summary: str
    files: list[str] = msgspec.field(default_factory=list)


class Fix(Value):
    """What made an error go away, or that it never did.

    fixed_seq: where the same call came to a better end; absent when it never did
    confidence: from 0.5 on it is told to others
    """

    fingerprint: str
    failed_seq: int
    fixed_seq: int | None = None
    how: str | None = None
    steps: list[Step] = msgspec.field(default_factory=list)
    diff: str = ""
    confidence: Number = 0.0


class RequestedLesson(Value):
    """A lesson that the session asked for and was given.

    lesson: its id
    seq: of the first answer that has it
    tokens: of all answers that have it, with what else is in them
    """

    lesson: str
    seq: int
    at: str | None = None
    tokens: int = 0


class Digest(Value, forbid_unknown_fields=False):
    """What is kept of a session. What it cost is in the ledger: `runlore usage --session`.

    version: of the rules that made it
    made_at: null when it was made to be shown
    goal: the first prompt that asks for something
    edits: files that were changed several times, with how often
    actions: calls by what they do: shell, read, edit, search, …
    wall_s: from the first event to the last
    active_s: without the times when nobody did anything
    corrections: what a person said next that rejects or redirects what was done
    outcome: success, fail, abandoned, unknown
    outcome_level: what the outcome rests on
    outcome_evidence: events, by seq
    quality: real, trivial, automated, one_shot, subagent
    excerpts: of the events that errors and fixes cite
    cut: by name, how many more there were
    before: what was known when events left that did not come back; all of it is in the other fields too
    """

    session_uid: str
    version: int
    covers: Covers
    made_at: str | None
    goal: str | None
    goal_seq: int | None
    title: str | None
    files_read: list[str]
    files_edited: list[str]
    files_created: list[str]
    commands: list[CommandRun]
    tests: list[TestRun]
    commits: list[DigestCommit]
    pull_requests: list[Moment]
    edits: dict[str, int]
    slow: list[SlowCommand]
    actions: dict[str, int]
    tools: dict[str, int]
    kinds: dict[str, int]
    subagents: list[Moment]
    wall_s: Number
    active_s: Number
    interventions: list[Moment]
    corrections: list[Moment]
    told: list[RequestedLesson]
    decisions: list[Moment]
    retries: int
    compactions: int
    errors: list[ErrorSummary]
    fixes: list[Fix]
    outcome: str
    outcome_level: str | None
    outcome_confidence: Number
    outcome_evidence: list[int]
    outcome_reason: str
    quality: str | None
    excerpts: list[Moment]
    cut: dict[str, int]
    before: Digest | None
