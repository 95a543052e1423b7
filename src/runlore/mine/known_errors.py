"""Errors that occur in the sessions of a store, and what fixed them.

An error is known by its fingerprint, whichever tool, agent or repository printed it. The store says
where each occurred; here that is counted, ranked and joined with the fixes. Everything comes from
digests, so the answers stay when events are evicted. Nothing here prints or writes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from ..digest.errors import signature_of_line, signatures
from ..digest.families import families, identifying_words
from ..digest.shell_commands import fetches_and_runs
from ..digest.templates import build_template
from ..digest.text import MAX_LINE_CHARS
from ..errors import RunloreError
from ..model import (
    MIN_SHOWN_CONFIDENCE,
    Digest,
    Fix,
    Proof,
    Signature,
    Step,
    Trend,
    format_time,
)
from ..store import Filter, Store
from ..store.values import SessionError

TREND_PERIOD = timedelta(days=30)
"""A trend compares the last period with the one before it."""
MAX_FIXES = 3
"""Fixes shown for an error: the most certain ones, no two of which say the same."""
MAX_DIGESTS_FOR_FIXES = 8
"""Digests that are opened to find the fixes of an error."""
MIN_LIKENESS = 0.5
"""Share of distinctive words that two errors must have in common to be called near."""
MIN_WORDS = 2
"""Words of a pasted text that an error must have in a row to be taken for the one that is meant."""
_WORD = re.compile(r"\w+|[^\w\s.,:;!?'\"`()]+")
MAX_LINES = 400
"""Lines of a pasted text that are looked at, from its end: the last lines of a log say most."""


class KnownFix(msgspec.Struct, frozen=True, kw_only=True):
    """A fix of an error in one session, with its source."""

    uid: str
    agent: str
    repo: str | None
    at: str | None
    failed_seq: int
    fixed_seq: int | None
    how: str
    """What the fix was: edit, command, read, changed (the same call made differently), retry."""
    confidence: float
    """The share of right fixes among those with the same evidence, from 0 to 1."""
    steps: tuple[Step, ...]
    """The fix first, then what else was done."""
    diff: str
    """The diff of the first step if it is an edit, at most 2 KB."""
    command: str | None
    """The command that failed."""
    before: str
    """The call that failed, if the fix is a changed call or a command."""
    after: str
    """The call that succeeded, or the command that helped."""
    change: str
    """What differs: the words of the calls, or the part of the edit that touches what the error
    names. Lines begin with `-` and `+`."""
    cause: str
    """The agent's own sentence about the cause, if there is one."""
    cause_seq: int | None
    proof: Proof | None
    """What proves that the call succeeded: exit (its own exit code), tests (their counts), output
    (a success that is recognized)."""
    is_elsewhere: bool
    """True if it is from another repository than the one of the asker, or if that one is not known.
    """

    @property
    def seq(self) -> int:
        """Return the event that is taken for the fix."""
        return self.steps[0].seq


class Recurring(msgspec.Struct, frozen=True, kw_only=True):
    """An error and all that is known of it."""

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
    last_uid: str
    last_seq: int
    trend: Trend
    """By sessions of the last 30 days and the 30 days before."""
    fixed: int
    """Sessions in which it went away for a known reason."""
    stayed: int
    """Sessions in which it never went away, or in which nobody tried again."""
    usd: float | None
    """Cost of the calls from where it first occurred to where it was gone, over all sessions; None
    if no price is known."""
    fixes: tuple[KnownFix, ...] = ()
    likeness: float = 1.0
    """Similarity to the error in question; 1 is the same error, or one that has these words."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The most important errors, out of `total`."""

    found: list[Recurring]
    total: int
    asked: Signature | None = None
    """The error that a pasted text was taken for."""


# ── errors that recur ────────────────────────────────────────────────────────────────────────────
def find_recurring(
    store: Store,
    chosen: Filter,
    now: datetime,
    *,
    min_sessions: int = 2,
    limit: int | None = 20,
    here: str | None = None,
) -> Answer:
    """Return the errors of at least so many sessions, those of most sessions first.

    Subagents count. Errors that differ in a quoted word are one. `here` is the repository of the
    asker.
    """
    chosen = chosen._replace(parents_only=False)
    groups = [
        (rows, template)
        for rows, template in _group_by_family(store.digests.errors(chosen))
        if _count_sessions(rows) >= min_sessions
    ]
    groups.sort(
        key=lambda group: (
            -_count_sessions(group[0]),
            -sum(row.count for row in group[0]),
            group[0][0].fingerprint,
        )
    )
    shown = groups if limit is None else groups[:limit]
    costs = store.digests.spent_on(
        chosen, list({row.fingerprint for rows, _ in shown for row in rows})
    )
    errors = [
        msgspec.structs.replace(_build_recurring(store, rows, costs, now, here), template=template)
        for rows, template in shown
    ]
    return Answer(found=errors, total=len(groups))


def _count_sessions(rows: Sequence[SessionError]) -> int:
    return len({row.uid for row in rows})


def _group_by_family(rows: Iterable[SessionError]) -> list[tuple[list[SessionError], str]]:
    """Return where each family of errors occurred, latest first, with the template of the family.

    A failed test is always an error of its own.
    """
    rows = sorted(rows, key=lambda row: (row.last_at or "", row.uid), reverse=True)
    family_of = families(
        Signature(
            fingerprint=row.fingerprint,
            kind=row.kind,
            name=row.name,
            template=row.template,
            sample="",
        )
        for row in rows
        if row.kind != "test"
    )
    groups: dict[tuple[str, str], list[SessionError]] = defaultdict(list)
    for row in rows:
        groups[row.name, family_of.get(row.fingerprint, row.fingerprint)].append(row)
    return [
        (
            group,
            group[0].template
            if len({row.fingerprint for row in group}) == 1
            else family_of[group[0].fingerprint],
        )
        for group in groups.values()
    ]


def find_error(
    store: Store, fingerprint: str, now: datetime, here: str | None = None
) -> tuple[Recurring, list[SessionError]] | None:
    """Return an error with every session that has it, latest first; None if no session has it."""
    chosen = Filter(parents_only=False)
    groups = _group_by_fingerprint(store.digests.errors(chosen, [fingerprint]))
    if fingerprint not in groups:
        return None
    return (
        _build_recurring(
            store, groups[fingerprint], store.digests.spent_on(chosen, [fingerprint]), now, here
        ),
        groups[fingerprint],
    )


def _group_by_fingerprint(rows: Iterable[SessionError]) -> dict[str, list[SessionError]]:
    """Return where each error occurred, latest first."""
    groups: dict[str, list[SessionError]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.last_at or "", row.uid), reverse=True):
        groups[row.fingerprint].append(row)
    return groups


def _build_recurring(
    store: Store,
    rows: list[SessionError],
    costs: dict[str, float],
    now: datetime,
    here: str | None,
    likeness: float = 1.0,
) -> Recurring:
    last = rows[0]
    repos = Counter(row.repo for row in rows if row.repo)
    agents = Counter(row.agent for row in rows)
    times = [row.first_at for row in rows if row.first_at]
    spent = [costs[one] for one in {row.fingerprint for row in rows} if one in costs]
    return Recurring(
        fingerprint=last.fingerprint,
        kind=last.kind,
        name=last.name,
        template=last.template,
        count=sum(row.count for row in rows),
        sessions=_count_sessions(rows),
        repos=tuple(sorted(repos, key=lambda name: (-repos[name], name))),
        agents=tuple(sorted(agents, key=lambda name: (-agents[name], name))),
        first_at=min(times, default=None),
        last_at=last.last_at,
        last_uid=last.uid,
        last_seq=last.last_seq,
        trend=_find_trend(rows, now),
        fixed=_count_sessions([row for row in rows if row.how is not None]),
        stayed=_count_sessions([row for row in rows if row.fixed_seq is None]),
        usd=sum(spent) if spent else None,
        fixes=tuple(_find_known_fixes(store, rows, here)),
        likeness=round(likeness, 2),
    )


def _find_trend(rows: Sequence[SessionError], now: datetime) -> Trend:
    """Return the trend by sessions: a hundred errors in one session are no trend.

    Rows without a time are left out.
    """
    start, start_before = format_time(now - TREND_PERIOD), format_time(now - 2 * TREND_PERIOD)
    recent = sum(row.last_at is not None and row.last_at >= start for row in rows)
    earlier = sum(row.last_at is not None and start_before <= row.last_at < start for row in rows)
    if not recent:
        return "stopped"
    if not any(row.first_at is not None and row.first_at < start for row in rows):
        return "new"
    return "rising" if recent > 1.5 * earlier else "falling" if earlier > 1.5 * recent else "steady"


# ── what fixed them ──────────────────────────────────────────────────────────────────────────────
def _find_known_fixes(
    store: Store, rows: Sequence[SessionError], here: str | None
) -> list[KnownFix]:
    """Return the fixes to show, those of the asker's repository first, then the surest.

    A command that runs what it fetches is not passed on to another repository.
    """
    fixed = [row for row in rows if row.how is not None and row.confidence >= MIN_SHOWN_CONFIDENCE]
    fixed.sort(
        key=lambda row: (here is not None and row.repo == here, row.confidence, row.last_at or ""),
        reverse=True,
    )
    fixes: dict[str, KnownFix] = {}
    for row in fixed[:MAX_DIGESTS_FOR_FIXES]:
        fix = _read_known_fix(store, row, here)
        if fix is not None and not (fix.is_elsewhere and _is_unsafe(fix)):
            fixes.setdefault(fix.change or fix.diff or f"{fix.how} {fix.steps[0].summary}", fix)
        if len(fixes) == MAX_FIXES:
            break
    return list(fixes.values())


def _is_unsafe(fix: KnownFix) -> bool:
    texts = (fix.command or "", fix.before, fix.after, *(step.summary for step in fix.steps))
    return any(map(fetches_and_runs, (*texts, *fix.change.splitlines())))


def _read_known_fix(store: Store, row: SessionError, here: str | None) -> KnownFix | None:
    try:
        digest = store.digests.get(row.uid)
    except RunloreError:  # `doctor` reports a damaged digest; the others still have answers.
        return None
    fix = _fix_in_digest(digest, row.fingerprint)
    if digest is None or fix is None or fix.how is None or not fix.is_shown:
        return None
    error = next(error for error in digest.errors if error.signature.fingerprint == row.fingerprint)
    return KnownFix(
        uid=row.uid,
        agent=row.agent,
        repo=row.repo,
        at=row.last_at,
        failed_seq=fix.failed_seq,
        fixed_seq=fix.fixed_seq,
        how=fix.how,
        confidence=fix.confidence,
        steps=fix.steps,
        diff=fix.diff,
        command=error.command,
        before=fix.before,
        after=fix.after,
        change=fix.change,
        cause=fix.cause,
        cause_seq=fix.cause_seq,
        proof=fix.proof,
        is_elsewhere=here is None or row.repo != here,
    )


def _fix_in_digest(digest: Digest | None, fingerprint: str) -> Fix | None:
    return (
        next((fix for fix in digest.fixes if fix.fingerprint == fingerprint), None)
        if digest
        else None
    )


# ── errors in a text ─────────────────────────────────────────────────────────────────────────────
def find_fixes(
    store: Store,
    text: str,
    chosen: Filter,
    now: datetime,
    *,
    limit: int = 5,
    here: str | None = None,
) -> Answer:
    """Return what is known of the errors in a text, which is one line or a whole log.

    If none of them is known, returns the errors that have the words of the text, or else the
    nearest known errors. `here` is the repository of the asker.
    """
    chosen = chosen._replace(parents_only=False)
    asked = _find_signatures(text)
    first = next(iter(asked.values()), None)
    groups = _group_by_fingerprint(store.digests.errors(chosen, list(asked)))
    if not groups:
        groups = _find_with_words(store, chosen, {text, first.sample if first else text})
    likeness = dict.fromkeys(groups, 1.0)
    if not groups and first is not None:
        likeness = _find_nearest(store, first, limit)
        groups = _group_by_fingerprint(store.digests.errors(chosen, list(likeness)))
    order = {fingerprint: n for n, fingerprint in enumerate(asked)}
    ranked = sorted(groups.values(), key=lambda rows: _rank(rows, likeness, order))
    costs = store.digests.spent_on(chosen, [rows[0].fingerprint for rows in ranked[:limit]])
    errors = [
        _build_recurring(store, rows, costs, now, here, likeness[rows[0].fingerprint])
        for rows in ranked[:limit]
    ]
    return Answer(found=errors, total=len(ranked), asked=first)


def _rank(
    rows: list[SessionError], likeness: dict[str, float], order: dict[str, int]
) -> tuple[float, bool, int, int]:
    """Return a sort key: the nearest first, then those with a known fix, then as in the text."""
    fingerprint = rows[0].fingerprint
    return (
        -likeness[fingerprint],
        not any(row.how for row in rows),
        order.get(fingerprint, 0),
        -len(rows),
    )


def _find_signatures(text: str) -> dict[str, Signature]:
    """Return the errors a text may report: of the whole text first, each failed test for itself,
    then of its last lines."""
    errors: dict[str, Signature] = {}
    lines = text.splitlines()
    for one in (
        *signatures(text),
        *map(signature_of_line, reversed(lines[-MAX_LINES:] if len(lines) > 1 else [])),
    ):
        if one is not None:
            errors.setdefault(one.fingerprint, one)
    return errors


def _find_with_words(
    store: Store, chosen: Filter, texts: set[str]
) -> dict[str, list[SessionError]]:
    """Return where the errors occurred whose template or line has the words of a text in a row.

    The words are compared as they stand, and with names like `<path>` for what varies. A quoted
    word may be one that was found to vary.
    """
    texts = {text for text in texts if len(text) <= MAX_LINE_CHARS}
    texts |= {_QUOTED.sub(r"\1<value>\1", text) for text in texts}
    forms = map(_join_words, (*texts, *map(build_template, texts)))
    wanted = {words for words in forms if len(re.findall(r"\w+", words)) >= MIN_WORDS}
    if not wanted:
        return {}
    return {
        fingerprint: rows
        for fingerprint, rows in _group_by_fingerprint(store.digests.errors(chosen)).items()
        if any(
            words in line
            for line in {_join_words(line) for row in rows for line in (row.template, row.sample)}
            for words in wanted
        )
    }


_QUOTED = re.compile(r"(['\"`])[^'\"`\s]{1,100}\1")


def _join_words(text: str) -> str:
    """Return the words of a text, without case and punctuation, each between two blanks."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


def _find_nearest(store: Store, wanted: Signature, limit: int) -> dict[str, float]:
    """Return the fingerprints of the nearest errors with their likeness.

    The likeness is the share of distinctive words in common. Of equally near errors the one of more
    sessions comes first. An error with a name is never near one with another, but a failed test is
    near an assertion that its template holds.
    """
    wanted_words = identifying_words(wanted.template)
    near = []
    for fingerprint, kind, name, template, sessions in store.digests.templates():
        is_assertion = kind == "test" and "assert" in wanted.template.lower()
        is_other = bool(wanted.name) and name != wanted.name
        if not wanted_words or (is_other and not is_assertion):
            continue
        words = identifying_words(template)
        size = 2 * len(wanted_words) if is_assertion else len(wanted_words) + len(words)
        near.append((2 * len(wanted_words & words) / size, sessions, fingerprint))
    near.sort(reverse=True)
    return {
        fingerprint: likeness
        for likeness, _, fingerprint in near[:limit]
        if likeness >= MIN_LIKENESS
    }
