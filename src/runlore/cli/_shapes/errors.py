"""Errors that sessions met, and what fixed them."""

from __future__ import annotations

from ._base import Number, Value


class FixStep(Value):
    """Something that was done between an error and its end.

    how: edit, command, read, changed, retry
    """

    ref: str
    how: str
    summary: str
    files: list[str]


class KnownFix(Value):
    """What made an error go away in a session.

    ref: `uid#seq` of what is taken for the fix; `runlore show` takes it
    failed_ref: where the error was seen last
    fixed_ref: where the same call came to a better end
    how: what the fix was: edit, command, read, changed (the same call made differently), retry
    confidence: orders fixes; a rule of thumb from 0 to 1, and no probability
    command: what failed
    steps: the fix first, then what was done besides
    diff: of the first step, when it is an edit: at most 2 KB
    """

    ref: str
    failed_ref: str
    fixed_ref: str | None
    agent: str
    repo: str | None
    at: str | None
    how: str
    confidence: Number
    command: str | None
    steps: list[FixStep]
    diff: str


class KnownError(Value):
    """An error that sessions met.

    fingerprint: the same for the same error, whichever tool or agent printed it
    kind: exception, test, compile, shell, git, http, json, message, text, exit
    name: the exception, the code or the missing command, where there is one
    template: the line that matters, with what changes from time to time named
    trend: by sessions of the last 30 days and the 30 before: new, rising, steady, falling, stopped
    fixed: sessions in which it went away for a reason that is known
    stayed: sessions in which it never did, or in which nobody tried again
    usd: what the calls cost from where it was first seen to where it was gone, in all sessions; null when no price is known
    fixes: the surest first, no two that say the same
    likeness: to what was asked for; 1 is the same error
    last_ref: where it was met last
    """

    fingerprint: str
    kind: str
    name: str
    template: str
    count: int
    sessions: int
    repos: list[str]
    agents: list[str]
    first_at: str | None
    last_at: str | None
    trend: str
    fixed: int
    stayed: int
    usd: Number | None
    fixes: list[KnownFix]
    likeness: Number
    last_ref: str


class Errors(Value):
    """What keeps coming back, the errors of most sessions first."""

    total: int
    errors: list[KnownError]


class Asked(Value):
    """Which error a text was taken for."""

    fingerprint: str
    kind: str
    name: str
    template: str


class Fixes(Value):
    """What is known of the errors in a text: the same ones, or else the nearest."""

    asked: Asked | None
    total: int
    errors: list[KnownError]
