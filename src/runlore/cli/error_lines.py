"""Errors that are known, and what fixed them, as lines and as data. All text of sessions passes
`clean` or `one_line`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import ClassVar

import msgspec

from ..mine.known_errors import KnownFix, Recurring
from ..model import Signature, Step, Trend
from ..query import names as naming
from ..store import Store
from ..text.words import ago, count
from .output import clean, fit, one_line, paint, screen

DIFF_LINES = 12
"""Shown of a change; `runlore show` has the rest."""
_HOW = {
    "edit": "an edit",
    "command": "a command",
    "read": "looking again first",
    "changed": "another call",
    "retry": "trying again",
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
    """The event in which the same call ended better."""
    agent: str
    repo: str | None
    at: str | None
    how: str
    confidence: float
    command: str | None
    steps: list[ReferencedStep]
    diff: str

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


def fix_lines(fix: KnownFix, name: str, *, with_diff: bool) -> Iterator[str]:
    """Yield the fix, its place, and the change."""
    step = fix.steps[0]
    width = screen()[0]
    what = _brief(one_line(step.files[0] if step.files else step.summary))
    ref = f"{name}#{fix.seq}"
    yield fit(
        f"  {paint(ref, 'cyan')}  fixed by {_HOW.get(fix.how, one_line(fix.how))}: {what}",
        width + len(paint(ref, "cyan")) - len(ref),
    )
    if not with_diff:
        return
    if fix.how in ("changed", "read") and fix.command:
        yield paint(
            fit(
                f"    {'instead of' if fix.how == 'changed' else 'then again'}:"
                f" {_brief(one_line(fix.command))}",
                width,
            ),
            "dim",
        )
    lines = diff_lines(fix.diff)
    for line in lines[:DIFF_LINES]:
        yield "    " + paint(fit(line, width - 4), {"+": "green", "-": "red"}.get(line[:1], "dim"))
    if len(lines) > DIFF_LINES:
        yield paint(f"    … {count(len(lines) - DIFF_LINES, 'more line')}", "dim")
    also = [
        _brief(one_line(other.files[0] if other.files else other.summary))
        for other in fix.steps[1:3]
    ]
    if also:
        yield paint(fit(f"    also: {'; '.join(also)}", width), "dim")


def _brief(text: str) -> str:
    """A path by its last parts, which say most."""
    is_path = text.startswith(("/", "~/")) and " " not in text
    return f"…/{'/'.join(text.split('/')[-3:])}" if is_path and text.count("/") > 3 else text


def diff_lines(diff: str) -> list[str]:
    """Without the name of the file, which has been told."""
    lines = clean(diff).splitlines()
    return [
        line
        for line in (lines[1:] if len(lines) > 1 and lines[1].startswith("@@") else lines)
        if not line.startswith("@@")
    ]
