"""The parts of a digest: values, and not a word on how they are found.

They stand apart so that the store, which keeps them, and `digest`, which makes them, mean the same. Reading them back costs no more
than msgspec. What is cited is cited by seq, the number of an event in its session.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

FINGERPRINT_VERSION = 1
"""Of the rules behind a fingerprint. It is part of the hash: a changed rule makes other fingerprints, and never a silent mix."""

DIGEST_VERSION = 9
"""Of all the rules behind a digest. Raise it when one made today would say something else than one made yesterday."""

How = Literal["edit", "command", "read", "changed", "retry"]
"""What made an error go away: a change to a file; a command; looking again before the same call; the call itself, made differently; or
nothing that is known but trying again."""


def how_said(how: str | None) -> str:
    """In the words of a sentence: what an error was over after."""
    return "call" if how == "changed" else how or "step"


Trend = Literal["new", "rising", "steady", "falling", "stopped"]
"""How something that recurs goes: an error over the last days, a pattern over the sessions."""

SHOWN_FROM = 0.5
"""The confidence from which on a fix is told to someone who has the same error."""


class Signature(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Which error it is. Two texts with the same `fingerprint` tell of the same error, whichever tool or agent printed them."""

    fingerprint: str
    kind: str
    """exception, test, compile, shell, git, http, json, message (a line with an error word), text (any other line), exit (a code)."""
    name: str = ""
    """The exception, the code or the missing command, where there is one."""
    template: str
    """The line that matters, for reading: what changes from time to time is named, as in `<path>` and `<n>`."""
    sample: str
    """The same line as it was."""
    version: int = FINGERPRINT_VERSION


class ErrorSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One error of a session, however often it was seen."""

    signature: Signature
    count: int
    seqs: tuple[int, ...]
    """Where, by seq; of many the first ones and the last."""
    tool: str | None = None
    action: str | None = None
    command: str | None = None
    """Of the first time: what was run, in one line, or the file that was to be read or changed."""
    first_at: datetime | None = None
    last_at: datetime | None = None

    @property
    def first_seq(self) -> int:
        return self.seqs[0]

    @property
    def last_seq(self) -> int:
        return self.seqs[-1]


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was done between an error and its end."""

    seq: int
    how: How
    summary: str
    files: tuple[str, ...] = ()


class Fix(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What made an error go away, or that it never did (`fixed_seq` is None).

    Between `failed_seq`, where it was seen last, and `fixed_seq`, where the same call came to a better end, lie the `steps`. The first of
    them is what is taken for the fix, the others are what was done besides. `confidence` orders answers;
    it is a rule of thumb between 0 and 1, and no probability.
    """

    fingerprint: str
    failed_seq: int
    fixed_seq: int | None = None
    how: How | None = None
    steps: tuple[Step, ...] = ()
    diff: str = ""
    """Of the first step, when it is an edit: at most 2 KB."""
    confidence: float = 0.0

    @property
    def is_shown(self) -> bool:
        """Whether it is good enough to be told to someone who has the same error."""
        return bool(self.steps) and self.confidence >= SHOWN_FROM


class Moment(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An event, and what of it is kept: a correction, a decision, an excerpt, a reason."""

    seq: int
    text: str


class Ran(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A command that was run, once or several times in the same words."""

    seq: int
    """Of the last time."""
    command: str
    count: int = 1
    failed: int = 0
    exit_code: int | None = None
    """Of the last time, where it was reported."""


class Tested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A run of tests. What the output did not say is None."""

    seq: int
    """Where it ended."""
    command: str
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    is_error: bool = False


class Took(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A command that took long, once or several times in the same words."""

    seq: int
    """Of the longest time."""
    command: str
    seconds: float
    """Of all times."""
    count: int = 1


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A commit that was made, as git reported it."""

    seq: int
    sha: str
    subject: str = ""


class Touched(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What was done to a file: calls by what they do, and the last event on it."""

    path: str
    edit: int = 0
    read: int = 0
    search: int = 0
    other: int = 0
    last_seq: int
    last_at: str | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A lesson that the session asked our tools for and was given, however often."""

    lesson: str
    seq: int
    """Of the first answer that has it."""
    at: datetime | None = None
    tokens: int = 0
    """Of all answers that have it, with what else is in them."""


class Covers(msgspec.Struct, frozen=True):
    """The content that a digest was made from: the last event, and the hash of all."""

    last_seq: int
    content_hash: str
