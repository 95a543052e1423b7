"""The digest of a session, and its parts.

These are values only: `runlore.digest` makes them, the store keeps them. Events are
cited by seq, their number in the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Literal, Self

import msgspec

from ..errors import ModelError
from .events import BLOCK
from .session import OUTCOMES, Outcome
from .value import Plain, Value, check_times, check_types

DIGEST_VERSION = 15
"""The version of all rules behind a digest. Raise it when a digest made today would differ from one
made yesterday."""

FINGERPRINT_VERSION = 2
"""The version of the rules behind a fingerprint. It is part of the hash, so that a changed rule
makes other fingerprints and never a silent mix."""

MIN_SHOWN_CONFIDENCE = 0.5
"""The confidence from which a fix is shown to someone who has the same error."""

FixKind = Literal["edit", "command", "read", "changed", "retry"]
"""The way an error went away: a change to a file; a command; reading again before the same call;
the call itself, made differently; or nothing that is known except trying again."""

Proof = Literal["exit", "tests", "output"]
"""The evidence that a later call succeeded: its own exit code, the counts of a test run, or another
success that is recognized in its output."""

Trend = Literal["new", "rising", "steady", "falling", "stopped"]
"""The development of something that recurs: an error over the last days, a pattern over the
sessions."""


class Signature(Plain, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The identity of an error.

    Texts with the same `fingerprint` are the same error, whichever tool or agent printed them.
    """

    fingerprint: str
    """The same for the same error, whichever tool or agent printed it."""
    kind: str
    """exception, test, compile, shell, git, http, json, message (a line with an error word), text
    (any other line), exit (a code)."""
    name: str = ""
    """The exception, the code or the missing command, if there is one."""
    template: str
    """The line that matters, for reading. Its variable parts are named, as in `<path>` and
    `<n>`."""
    sample: str
    """The line as it was printed."""
    version: int = FINGERPRINT_VERSION
    """The version of the rules behind the fingerprint."""


class ErrorSummary(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """One error of a session, with all of its occurrences."""

    signature: Signature
    count: int
    seqs: tuple[int, ...]
    """The events of the occurrences; of many, the first ones and the last."""
    tool: str | None = None
    action: str | None = None
    command: str | None = None
    """The command of the first occurrence, in one line and at most 1,000 characters, or the file
    that was to be read or changed."""
    first_at: datetime | None = None
    last_at: datetime | None = None

    @property
    def first_seq(self) -> int:
        return self.seqs[0]

    @property
    def last_seq(self) -> int:
        return self.seqs[-1]


class Step(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was done between an error and its end."""

    seq: int
    how: FixKind
    """edit, command, read, changed, retry."""
    summary: str
    files: tuple[str, ...] = ()


class Fix(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """The end of an error, or that it never ended (`fixed_seq` is None).

    `steps` are the actions between `failed_seq`, the last occurrence, and `fixed_seq`, where the
    same call succeeded. The first step counts as the fix. `confidence` is the share of right fixes
    among those with the same evidence, as far as it was measured.
    """

    fingerprint: str
    failed_seq: int
    fixed_seq: int | None = None
    """Where the same call succeeded; None if it never did."""
    how: FixKind | None = None
    """What the fix was."""
    steps: tuple[Step, ...] = ()
    """The fix first, then what else was done."""
    diff: str = ""
    """The diff of the first step if it is an edit, at most 2 KB."""
    confidence: float = 0.0
    """The share of right fixes among those with the same evidence, from 0 to 1. Below 0.5 a fix is
    not shown."""
    before: str = ""
    """The call that failed, in one line and at most 1,000 characters; empty unless the fix is a
    changed call or a command."""
    after: str = ""
    """The call that succeeded or the command that helped, in the same form."""
    change: str = ""
    """What differs, for reading: the words of the calls that differ, or the part of an edit that
    touches what the error names. Lines begin with `-` and `+`."""
    cause: str = ""
    """The agent's own sentence about the cause, if there is one."""
    cause_seq: int | None = None
    """The event with that sentence."""
    proof: Proof | None = None
    """What proves that the later call succeeded: exit, tests, output."""

    @property
    def is_shown(self) -> bool:
        """True if it is good enough to be shown to someone who has the same error."""
        return bool(self.steps) and self.confidence >= MIN_SHOWN_CONFIDENCE


class Moment(Plain, frozen=True, omit_defaults=True, gc=False):
    """An event and the part of its text that is kept: a correction, a decision, an excerpt."""

    seq: int
    text: str


class CommandRun(Plain, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A command that was run, once or several times in the same words."""

    seq: int
    """The event of the last run."""
    command: str
    count: int = 1
    failed: int = 0
    exit_code: int | None = None
    """The exit code of the last run, if it was reported."""


class TestRun(Plain, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A run of tests. Counts that the output does not report are None."""

    seq: int
    """The event of the result."""
    command: str
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    is_error: bool = False


class SlowCommand(Plain, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A command that took long, once or several times in the same words."""

    seq: int
    """The event of the slowest run."""
    command: str
    seconds: float
    """The duration of all runs together."""
    count: int = 1


class Commit(Plain, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A commit that was made, as git reported it, or as a quiet command says."""

    seq: int
    sha: str
    """Empty if git printed none."""
    subject: str = ""


class FileActivity(Plain, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The calls on a file: their number by action, and the last event."""

    path: str
    edit: int = 0
    read: int = 0
    search: int = 0
    other: int = 0
    command: int = 0
    """Shell commands whose text says that they change it."""
    last_seq: int
    last_at: str | None = None


class RequestedLesson(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson that the session got from our tools because it asked, once or several times."""

    lesson: str
    """The id of the lesson."""
    seq: int
    """The event of the first answer with this lesson."""
    at: datetime | None = None
    tokens: int = 0
    """The tokens of all answers with this lesson, including what else is in them."""


class Covers(Plain, frozen=True):
    """The content that a digest was made from: the last event, and the hash of all."""

    last_seq: int
    content_hash: str


class Digest(Value, frozen=True, kw_only=True):
    """The part of a session that remains when its bulk is gone.

    Made by rules alone: equal input gives an equal digest. `covers` names the content it was made
    from. Lists are cut, and the entries that matter most are kept; `cut` says by name how many more
    there were. The cost of a session is in the ledger, not here.
    """

    TIMES: ClassVar[frozenset[str]] = frozenset({"made_at"})

    session_uid: str
    version: int
    """The version of the rules that made it. A digest of older rules is made again while its events
    exist."""
    covers: Covers
    made_at: datetime | None = None
    """Set by the store, and not part of what is compared."""
    goal: str | None = None
    """The first prompt that asks for something."""
    goal_seq: int | None = None
    requests: tuple[Moment, ...] = ()
    """What each turn asked for, one line each: of many, the first and the last ones."""
    result: Moment | None = None
    """The last words of the agent. They are its own statement, and no evidence."""
    task_ref: str | None = None
    """The issue or pull request that it was about, such as `#123`, `owner/repo#12` or `ABC-123`;
    else its branch, unless that is a default one."""
    title: str | None = None
    files_read: tuple[str, ...] = ()
    """Files that a tool read or a command printed. Paths in the folder of the session, or in a
    worktree of it, are relative to it; the same in the next two and in `edits`."""
    files_edited: tuple[str, ...] = ()
    """Files that were changed, by a tool, a patch or a command."""
    files_created: tuple[str, ...] = ()
    commands: tuple[CommandRun, ...] = ()
    """In the order of their first run."""
    tests: tuple[TestRun, ...] = ()
    commits: tuple[Commit, ...] = ()
    pull_requests: tuple[Moment, ...] = ()
    """What was done to pull requests, such as `opened https://…/pull/12` and `merged #12`."""
    edits: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of changes, for files that were changed several times."""
    slow: tuple[SlowCommand, ...] = ()
    tools: dict[str, int] = msgspec.field(default_factory=dict)
    actions: dict[str, int] = msgspec.field(default_factory=dict)
    """Calls by what they do: shell, read, edit, search, …"""
    kinds: dict[str, int] = msgspec.field(default_factory=dict)
    subagents: tuple[Moment, ...] = ()
    wall_s: float = 0.0
    """Seconds from the first event to the last."""
    active_s: float = 0.0
    """The duration without pauses."""
    interventions: tuple[Moment, ...] = ()
    corrections: tuple[Moment, ...] = ()
    """What a person said to reject or redirect what was done: messages, and the reasons of
    refusals."""
    requested_lessons: tuple[RequestedLesson, ...] = ()
    """Lessons that the session got because it asked for them."""
    decisions: tuple[Moment, ...] = ()
    """What a person decided: a question with its answer, or the beginning of an approved plan."""
    retries: int = 0
    compactions: int = 0
    errors: tuple[ErrorSummary, ...] = ()
    fixes: tuple[Fix, ...] = ()
    outcome: Outcome = "unknown"
    outcome_level: str = "unknown"
    """How the outcome is known: verified, observed, said, unknown."""
    outcome_by: str = ""
    """The kind of evidence: run, ci, merged, test, shipped, said … With an unknown outcome it is
    the one that was looked at and did not suffice."""
    outcome_evidence: tuple[int, ...] = ()
    """Events, by seq."""
    outcome_reason: str = ""
    quality: str | None = None
    """real, trivial, automated, one_shot, subagent."""
    excerpts: tuple[Moment, ...] = ()
    """Excerpts of the events that errors and fixes cite, by seq."""
    cut: dict[str, int] = msgspec.field(default_factory=dict)
    """By name, how many more entries there were."""
    dead_ends: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """What led nowhere, by reason, as a flat list of triples of events. For `retries` and `failed`:
    (attempt, first, last), with the first and last content block of the answer that held the
    attempt. For `abandoned`: (first, first, last) of a stretch."""
    waste: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """The API calls that led nowhere, by reason, as digests before version 9 recorded them at
    eviction."""
    secrets: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """By kind, a keyed hash for each redacted secret. This and the next three are written at
    eviction, because only the events know them."""
    secrets_at: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    """By kind, the first events that held a secret."""
    touched: tuple[FileActivity, ...] = ()
    """The calls on files."""
    ends: tuple[int, ...] = ()
    """The last event of each block of numbers at eviction."""
    before: Digest | None = None
    """The digest at the time when events left that did not come back. This digest holds all of it
    too."""

    def __post_init__(self) -> None:
        check_types(self)
        if self.outcome not in OUTCOMES:
            raise ModelError(
                f"outcome {self.outcome!r} is not one of {', '.join(sorted(OUTCOMES))}"
            )
        check_times(self)

    def knows(self, seq: int) -> bool:
        """Return True if this digest was made with this event (after an eviction, by `ends`)."""
        ends = {end // BLOCK: end for end in self.ends}
        return seq <= ends.get(seq // BLOCK, self.covers.last_seq)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        rest = dict(data)
        before = rest.pop("before", None)
        digest = super().from_dict(rest)
        return (
            msgspec.structs.replace(digest, before=cls.from_dict(before))
            if isinstance(before, Mapping)
            else digest
        )


def describe_how(how: str | None) -> str:
    """Return the noun for a sentence like "it was over after this edit"."""
    return "call" if how == "changed" else how or "step"
