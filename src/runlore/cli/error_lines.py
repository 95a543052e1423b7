"""Errors that are known, and what fixed them, as lines and as data. All text of sessions passes
`clean` or `one_line`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from textwrap import wrap
from typing import ClassVar

import msgspec

from ..mine.known_errors import KnownFix, Recurring
from ..model import Proof, Signature, Step, Trend
from ..query import names as naming
from ..store import Store
from ..text.words import ago, count
from .output import clean, fit, one_line, paint, screen

CHANGE_LINES = 12
"""Shown of a change; `runlore show` has the rest."""
_HOW = {
    "edit": "an edit",
    "command": "a command",
    "read": "looking again first",
    "changed": "another call",
    "retry": "trying again",
}
_PROOF = {
    "exit": "by its exit code",
    "tests": "by the tests that passed",
    "output": "by its output",
}


class ReferencedStep(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was done between an error and its end."""

    PRESENTS: ClassVar = (Step,)

    ref: str
    """`uid#seq`."""
    how: str
    summary: str
    files: tuple[str, ...]


class ReferencedFix(msgspec.Struct, frozen=True, kw_only=True):
    """A change that made an error go away in a session."""

    PRESENTS: ClassVar = (KnownFix,)

    ref: str
    """`uid#seq` of the event that is taken for the fix; `runlore show` takes it."""
    failed_ref: str
    """The last event with the error."""
    fixed_ref: str | None
    """The event in which the same call succeeded."""
    agent: str
    repo: str | None
    at: str | None
    how: str
    confidence: float
    command: str | None
    steps: list[ReferencedStep]
    diff: str
    before: str
    after: str
    change: str
    cause: str
    cause_ref: str | None
    """The event with the sentence about the cause."""
    proof: Proof | None
    is_elsewhere: bool

    @classmethod
    def of(cls, fix: KnownFix) -> ReferencedFix:
        return cls(
            ref=f"{fix.uid}#{fix.seq}",
            failed_ref=f"{fix.uid}#{fix.failed_seq}",
            fixed_ref=None if fix.fixed_seq is None else f"{fix.uid}#{fix.fixed_seq}",
            agent=fix.agent,
            repo=fix.repo,
            at=fix.at,
            how=fix.how,
            confidence=fix.confidence,
            command=fix.command,
            steps=[
                ReferencedStep(
                    ref=f"{fix.uid}#{step.seq}",
                    how=step.how,
                    summary=step.summary,
                    files=step.files,
                )
                for step in fix.steps
            ],
            diff=fix.diff,
            before=fix.before,
            after=fix.after,
            change=fix.change,
            cause=fix.cause,
            cause_ref=None if fix.cause_seq is None else f"{fix.uid}#{fix.cause_seq}",
            proof=fix.proof,
            is_elsewhere=fix.is_elsewhere,
        )


class KnownError(msgspec.Struct, frozen=True, kw_only=True):
    """An error that sessions met, with every place as `uid#seq`."""

    PRESENTS: ClassVar = (Recurring, Signature)

    fingerprint: str
    kind: str
    name: str
    template: str
    count: int
    sessions: int
    repos: tuple[str, ...]
    agents: tuple[str, ...]
    first_at: str | None
    last_at: str | None
    trend: Trend
    fixed: int
    stayed: int
    usd: float | None
    fixes: list[ReferencedFix]
    """The most certain one first, no two that say the same."""
    likeness: float
    last_ref: str
    """The place of its last occurrence."""

    @classmethod
    def of(cls, error: Recurring) -> KnownError:
        fields = msgspec.structs.asdict(error)
        last_ref = f"{fields.pop('last_uid')}#{fields.pop('last_seq')}"
        fixes = [ReferencedFix.of(fix) for fix in error.fixes]
        return cls(**{**fields, "fixes": fixes}, last_ref=last_ref)


def names_of(store: Store, errors: Sequence[Recurring]) -> dict[str, str]:
    """Short names of all sessions that are spoken of."""
    uids = [uid for error in errors for uid in (error.last_uid, *(fix.uid for fix in error.fixes))]
    return naming.names(store, list(dict.fromkeys(uids))) if uids else {}


def when(at: str | None) -> str:
    return ago(datetime.fromisoformat(at), datetime.now(UTC)) if at else "?"


def head(error: Recurring) -> str:
    """Return how often, where and since when the error occurred."""
    parts = [
        f"{count(error.count, 'time')} in {count(error.sessions, 'session')}",
        (
            f"{count(len(error.repos), 'repository', 'repositories')}"
            if len(error.repos) > 1
            else one_line("".join(error.repos))
        ),
        ", ".join(map(one_line, error.agents)),
        f"last {when(error.last_at)}",
        error.trend if error.trend in ("new", "rising", "falling") else "",
        _cost(error),
    ]
    return ", ".join(part for part in parts if part)


def _cost(error: Recurring) -> str:
    """Return what was spent and until when; empty if that is not known."""
    usd = error.usd
    if usd is None:
        return ""
    spent = f"${usd:.2f} spent" if usd >= 0.005 or not usd else "less than $0.01 spent"
    is_gone = error.stayed < error.sessions
    return f"{spent} until {'it was gone' if is_gone else 'its last occurrence'}"


def fix_lines(fix: KnownFix, name: str, *, with_change: bool) -> Iterator[str]:
    """Yield the fix and its place; with the change also what differs, why, and the proof."""
    step = fix.steps[0]
    width = screen()[0]
    what = _brief(one_line(step.files[0] if step.files else fix.after or step.summary))
    ref = f"{name}#{fix.seq}"
    how = _HOW.get(fix.how, one_line(fix.how))
    if fix.how == "changed" and step.files:
        how = "making it differently"
    where = f" (in {one_line(fix.repo)})" if fix.is_elsewhere and fix.repo else ""
    yield fit(
        f"  {paint(ref, 'cyan')}  fixed by {how}{where}: {what}",
        width + len(paint(ref, "cyan")) - len(ref),
    )
    if not with_change:
        return
    lines = clean(fix.change).splitlines()
    for line in lines[:CHANGE_LINES]:
        yield "    " + paint(fit(line, width - 4), {"+": "green", "-": "red"}.get(line[:1], "dim"))
    if len(lines) > CHANGE_LINES:
        yield paint(f"    … {count(len(lines) - CHANGE_LINES, 'more line')}", "dim")
    yield from _explanation(fix, width)


def _explanation(fix: KnownFix, width: int) -> Iterator[str]:
    """Yield why it failed in the agent's words, what else was done, and what proves the fix."""
    if fix.cause:
        cause = f"cause, as the agent wrote (#{fix.cause_seq}): {one_line(fix.cause)}"
        yield from (f"    {line}" for line in wrap(cause, max(20, width - 4)))
    also = [
        _brief(one_line(other.files[0] if other.files else other.summary))
        for other in fix.steps[1:3]
    ]
    if also:
        yield paint(fit(f"    also: {'; '.join(also)}", width), "dim")
    worked = "" if fix.fixed_seq is None else f", worked at #{fix.fixed_seq}"
    proof = f" {_PROOF[fix.proof]}" if fix.proof else ""
    confidence = f"confidence {fix.confidence:.2f}"
    yield paint(fit(f"    failed at #{fix.failed_seq}{worked}{proof}; {confidence}", width), "dim")


def _brief(text: str) -> str:
    """A path by its last parts, which say most."""
    is_path = text.startswith(("/", "~/")) and " " not in text
    return f"…/{'/'.join(text.split('/')[-3:])}" if is_path and text.count("/") > 3 else text
