"""What a session leaves behind when its bulk is gone: values that follow by rules from its events.

Everything in here is a pure function of a timeline: nothing reads a file, opens a database, calls a model or knows an agent's name.
`errors` says what went wrong, `fixes` what made it go away, `outcome` how it ended, `quality` what kind of session it was. The values stand
here, so that reading them back costs no more than msgspec.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .. import model

FINGERPRINT_VERSION = 1
"""Of the rules behind a fingerprint. It is part of the hash: a changed rule makes other fingerprints, and never a silent mix."""

How = Literal["edit", "command", "read", "changed", "retry"]
"""What made an error go away: a change to a file; a command; looking again before the same call; the call itself, made differently; or
nothing that is known but trying again."""


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


SHOWN_FROM = 0.5

OUTCOME_VERSION = 1
"""Of the rules behind an outcome."""

Level = Literal["test", "end", "exit", "shipped", "said", "errors", "interrupted", "silent", "none"]
"""What an outcome rests on, strongest first: the last run of tests; how the run ended, as its program tells; the exit codes of the last
commands; a commit or a pull request; the user's last words; errors that never went away; an interruption; a prompt without a reply."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a session ended, and what says so."""

    verdict: model.Outcome
    level: Level = "none"
    """Of the evidence. With `unknown` it is the strongest that was looked at and did not suffice."""
    confidence: float = 0.0
    """How often a verdict of this kind was right where the truth is known, and rather less; see `bench/outcome.py`. 0 for `unknown`."""
    evidence: tuple[int, ...] = ()
    """The events that say so, by seq."""
    reason: str = ""
    """The same in a few words, none of them out of the session."""


QUALITY_VERSION = 1
"""Of the rules behind a quality class."""

Quality = Literal["real", "trivial", "automated", "one_shot", "subagent"]
"""What kind of session it was: real work of a person with an agent; hardly anything; run by a program; one prompt with little behind it;
or work that another session asked for. What is learned from sessions is learned from the first kind, unless asked otherwise."""
