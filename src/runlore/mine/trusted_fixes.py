"""The fixes of an error that an agent may be shown although nobody has approved them.

A transcript may come from anywhere, and what is in it must not steer an agent elsewhere. So a fix
is told only if it is certain enough, and only

- in the repository that it comes from, with its change; or
- by its class alone (`changes`), without a path or a diff, if independent tasks agree on it.

A command that fetches code and runs it is never told, and neither is any other that reaches another
machine: whose it is cannot be known. Everything cites the event that shows it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..digest.shell_commands import reaches_out
from ..errors import RunloreError
from ..model import Digest, Fix
from ..store import Filter, Store
from ..store.values import SessionError
from .change_lessons import describe_change, is_dangerous
from .changes import Change, find_change
from .tasks import MIN_TASKS, join_tasks, task_keys

MIN_CONFIDENCE = 0.8
MAX_DIGESTS = 24
"""Digests that are opened, those of the most certain fixes: an agent waits for the answer."""
MAX_ANCESTORS = 8
MAX_FIXES = 3


class TrustedFix(msgspec.Struct, frozen=True, kw_only=True):
    """A fix that may be shown to an agent, with the event that proves it."""

    uid: str
    seq: int
    how: str
    text: str
    """What was done: the change in the same repository, else its class in a few words."""
    repo: str = ""
    """The repository, if it is that of the agent; empty if tasks of others agree on it."""
    tasks: int = 1
    """Independent tasks that show it."""
    diff: str = ""


class _Evidence(msgspec.Struct, frozen=True):
    row: SessionError
    digest: Digest
    fix: Fix
    change: Change | None


def find_trusted_fixes(store: Store, fingerprint: str, repo: str | None) -> list[TrustedFix]:
    """Return the fixes of an error that an agent in this repository may be shown, best first."""
    known = _read_evidence(store, fingerprint)
    own = {
        one.fix.change or _describe(one): _own_fix(one)
        for one in known
        if repo and one.row.repo == repo
    }
    return [*own.values()][:MAX_FIXES] or _find_shared(store, known)


def _read_evidence(store: Store, fingerprint: str) -> list[_Evidence]:
    """Return the fixes that are certain enough and harmless, the most certain first."""
    rows = [
        row
        for row in store.digests.errors(Filter(parents_only=False), [fingerprint])
        if row.how not in (None, "retry") and row.confidence >= MIN_CONFIDENCE
    ]
    rows.sort(key=lambda row: (row.confidence, row.last_at or "", row.uid), reverse=True)
    known = []
    for row in rows[:MAX_DIGESTS]:
        try:
            digest = store.digests.get(row.uid)
        except RunloreError:  # `doctor` reports a damaged digest; the others still have answers.
            continue
        if digest is not None:
            known += _find_evidence(row, digest)
    return known


def _find_evidence(row: SessionError, digest: Digest) -> list[_Evidence]:
    errors = {error.signature.fingerprint: error for error in digest.errors}
    return [
        _Evidence(row, digest, fix, find_change(fix, errors[fix.fingerprint]))
        for fix in digest.fixes
        if fix.fingerprint == row.fingerprint
        and fix.fingerprint in errors
        and fix.steps
        and fix.how not in (None, "retry")
        and fix.confidence >= MIN_CONFIDENCE
        and not is_dangerous(fix)
        and not any(map(reaches_out, (fix.after, *(step.summary for step in fix.steps))))
    ]


def _own_fix(one: _Evidence) -> TrustedFix:
    return TrustedFix(
        uid=one.row.uid,
        seq=one.fix.steps[0].seq,
        how=one.fix.how or "",
        text=_describe(one),
        repo=one.row.repo or "",
        diff=one.fix.diff,
    )


def _describe(one: _Evidence) -> str:
    return one.fix.after or one.fix.steps[0].summary


def _find_shared(store: Store, known: Iterable[_Evidence]) -> list[TrustedFix]:
    """Return the changes that enough independent tasks agree on, those of most tasks first."""
    by_key: dict[str, list[_Evidence]] = {}
    for one in known:
        if one.change is not None:
            by_key.setdefault(one.change.key, []).append(one)
    shared = []
    for same in by_key.values():
        tasks = count_tasks(store, same) if len(same) >= MIN_TASKS else 0
        best = same[0]
        if tasks >= MIN_TASKS and best.change is not None:
            shared.append(
                TrustedFix(
                    uid=best.row.uid,
                    seq=best.fix.steps[0].seq,
                    how=best.fix.how or "",
                    text=describe_change(best.change),
                    tasks=tasks,
                )
            )
    return sorted(shared, key=lambda one: -one.tasks)[:MAX_FIXES]


def count_tasks(store: Store, evidence: Iterable[_Evidence]) -> int:
    """Count the independent tasks of these sessions."""
    keys = {}
    for one in evidence:
        session = store.sessions.get(one.row.uid)
        ref = one.digest.task_ref or (session.task_ref if session else None)
        root = _find_root(store, one.row.uid)
        requests = (request.text for request in one.digest.requests)
        keys[one.row.uid] = task_keys(root, one.row.repo, ref, one.digest.goal, requests)
    return len(set(join_tasks(keys).values()))


def _find_root(store: Store, uid: str) -> str:
    """Return the session that this one goes back to by its parents."""
    for _ in range(MAX_ANCESTORS):
        session = store.sessions.get(uid)
        if session is None or not session.parent_uid:
            break
        uid = session.parent_uid
    return uid
