"""Errors that sessions met again and again, and what made them go away: asked of digests alone, so the answers stay when the rest is gone.

An error is known by its fingerprint, whatever tool, agent or repository printed it. The store says where each was met; here that is added
up, ranked, and joined with the fixes. Nothing here prints, and nothing is written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from .digest.errors import signature, signature_of_line
from .digest.families import identifying_words
from .errors import RunloreError
from .model import MIN_SHOWN_CONFIDENCE, Digest, Fix, Signature, Step, Trend, format_time
from .store import Filter, Store
from .store.digests import SessionError

RECENT = timedelta(days=30)
"""What a trend compares: so long until now, and as long before that."""
FIXES = 3
"""Told of each error: the surest, and no two that say the same."""
TRIED = 8
"""Digests that are opened to find them."""
LIKE = 0.5
"""The share of telling words that two errors must have in common to be called near."""
MOST_LINES = 400
"""Of a text that is asked about: a log may be long, and its last lines say most."""


class KnownFix(msgspec.Struct, frozen=True, kw_only=True):
    """What made an error go away in one session, with where that can be read."""

    uid: str
    agent: str
    repo: str | None
    at: str | None
    failed_seq: int
    fixed_seq: int | None
    how: str
    confidence: float
    steps: tuple[Step, ...]
    diff: str
    command: str | None
    """What failed."""

    @property
    def seq(self) -> int:
        """The event that is taken for the fix."""
        return self.steps[0].seq


class Recurring(msgspec.Struct, frozen=True, kw_only=True):
    """An error, and all that is known of it."""

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
    fixed: int
    """Sessions in which it went away for a reason that is known."""
    stayed: int
    """Sessions in which it never did, or in which nobody tried again."""
    usd: float | None
    """What the calls cost from where it was first seen to where it was gone, in all sessions together; None when no price is known."""
    fixes: tuple[KnownFix, ...] = ()
    likeness: float = 1.0
    """How near it is to what was asked for; 1 is the same error."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Errors, those that matter most first, out of `total`."""

    found: list[Recurring]
    total: int
    asked: Signature | None = None
    """Which error a text was taken for."""


# ── what keeps coming back ───────────────────────────────────────────────────────────────────────────────────────────
def recurring(store: Store, chosen: Filter, now: datetime, *, least: int = 2, limit: int | None = 20) -> Answer:
    """The errors that at least so many of these sessions have, those of most sessions first. Subagents are sessions too."""
    chosen = chosen._replace(parents_only=False)
    groups = [rows for rows in _by_fingerprint(store.errors_seen(chosen)).values() if len(rows) >= least]
    groups.sort(key=lambda rows: (-len(rows), -sum(row.count for row in rows), rows[0].fingerprint))
    shown = groups if limit is None else groups[:limit]
    spent = store.spent_on(chosen, [rows[0].fingerprint for rows in shown])
    return Answer(found=[_recurring(store, rows, spent, now) for rows in shown], total=len(groups))


def _by_fingerprint(rows: Iterable[SessionError]) -> dict[str, list[SessionError]]:
    """Of each error where it was met, latest first."""
    groups: dict[str, list[SessionError]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.last_at or "", row.uid), reverse=True):
        groups[row.fingerprint].append(row)
    return groups


def _recurring(store: Store, rows: list[SessionError], spent: dict[str, float], now: datetime, likeness: float = 1.0) -> Recurring:
    last = rows[0]
    repos = Counter(row.repo for row in rows if row.repo)
    agents = Counter(row.agent for row in rows)
    times = [row.first_at for row in rows if row.first_at]
    return Recurring(
        fingerprint=last.fingerprint,
        kind=last.kind,
        name=last.name,
        template=last.template,
        count=sum(row.count for row in rows),
        sessions=len(rows),
        repos=tuple(sorted(repos, key=lambda name: (-repos[name], name))),
        agents=tuple(sorted(agents, key=lambda name: (-agents[name], name))),
        first_at=min(times, default=None),
        last_at=last.last_at,
        last_uid=last.uid,
        last_seq=last.last_seq,
        trend=_trend(rows, now),
        fixed=sum(row.how is not None for row in rows),
        stayed=sum(row.fixed_seq is None for row in rows),
        usd=spent.get(last.fingerprint),
        fixes=tuple(_fixes(store, rows)),
        likeness=round(likeness, 2),
    )


def _trend(rows: Sequence[SessionError], now: datetime) -> Trend:
    """By sessions, so that one in which it came a hundred times is no trend. What has no time says nothing."""
    here, before = format_time(now - RECENT), format_time(now - 2 * RECENT)
    recent = sum(row.last_at is not None and row.last_at >= here for row in rows)
    earlier = sum(row.last_at is not None and before <= row.last_at < here for row in rows)
    if not recent:
        return "stopped"
    if not any(row.first_at is not None and row.first_at < here for row in rows):
        return "new"
    return "rising" if recent > 1.5 * earlier else "falling" if earlier > 1.5 * recent else "steady"


def one(store: Store, fingerprint: str, now: datetime) -> tuple[Recurring, list[SessionError]] | None:
    """All that is known of an error, and every session that has it, latest first; None when none has."""
    chosen = Filter(parents_only=False)
    groups = _by_fingerprint(store.errors_seen(chosen, [fingerprint]))
    if fingerprint not in groups:
        return None
    return _recurring(store, groups[fingerprint], store.spent_on(chosen, [fingerprint]), now), groups[fingerprint]


# ── what fixed it ────────────────────────────────────────────────────────────────────────────────────────────────────
def _fixes(store: Store, rows: Sequence[SessionError]) -> list[KnownFix]:
    known = [row for row in rows if row.how is not None and row.confidence >= MIN_SHOWN_CONFIDENCE]
    known.sort(key=lambda row: (row.confidence, row.last_at or ""), reverse=True)
    found: list[KnownFix] = []
    told: set[str] = set()
    for row in known[:TRIED]:
        fix = _known_fix(store, row)
        if fix is None or (same := fix.diff or f"{fix.how} {fix.steps[0].summary}") in told:
            continue
        told.add(same)
        found.append(fix)
        if len(found) == FIXES:
            break
    return found


def _known_fix(store: Store, row: SessionError) -> KnownFix | None:
    try:
        digest = store.digest(row.uid)
    except RunloreError:  # One that is damaged is for `doctor`; the others have their answers.
        return None
    fix = _fix_of(digest, row.fingerprint)
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
    )


def _fix_of(digest: Digest | None, fingerprint: str) -> Fix | None:
    return next((fix for fix in digest.fixes if fix.fingerprint == fingerprint), None) if digest else None


def fixes_for(store: Store, text: str, chosen: Filter, now: datetime, *, limit: int = 5) -> Answer:
    """What is known of the errors that a text tells of, one line or a whole log: the same ones, or where none is known the nearest."""
    chosen = chosen._replace(parents_only=False)
    asked = _signatures(text)
    if not asked:
        return Answer(found=[], total=0)
    groups = _by_fingerprint(store.errors_seen(chosen, list(asked)))
    likeness = dict.fromkeys(groups, 1.0)
    if not groups:
        likeness = _nearest(store, next(iter(asked.values())), limit)
        groups = _by_fingerprint(store.errors_seen(chosen, list(likeness)))
    order = {fingerprint: n for n, fingerprint in enumerate(asked)}
    ranked = sorted(groups.values(), key=lambda rows: _rank(rows, likeness, order))
    spent = store.spent_on(chosen, [rows[0].fingerprint for rows in ranked[:limit]])
    found = [_recurring(store, rows, spent, now, likeness[rows[0].fingerprint]) for rows in ranked[:limit]]
    return Answer(found=found, total=len(ranked), asked=next(iter(asked.values())))


def _rank(rows: list[SessionError], likeness: dict[str, float], order: dict[str, int]) -> tuple[float, bool, int, int]:
    """The nearest first; of errors that are as near those that are known to go away, and then as the text has them."""
    fingerprint = rows[0].fingerprint
    return -likeness[fingerprint], not any(row.how for row in rows), order.get(fingerprint, 0), -len(rows)


def _signatures(text: str) -> dict[str, Signature]:
    """Which errors a text may tell of: the one that it is about as a whole first, then those of its lines, the last ones first."""
    found: dict[str, Signature] = {}
    lines = text.splitlines()
    for one in (signature(text), *map(signature_of_line, reversed(lines[-MOST_LINES:] if len(lines) > 1 else []))):
        if one is not None:
            found.setdefault(one.fingerprint, one)
    return found


def _nearest(store: Store, asked: Signature, limit: int) -> dict[str, float]:
    """The fingerprints whose templates have most of the telling words in common, with how much that is: the share of both that they
    share. Of those that are as near the one of more sessions is first; errors of different names are never near."""
    mine = identifying_words(asked.template)
    near = []
    for fingerprint, _, name, template, sessions in store.templates():
        if name == asked.name and mine:
            words = identifying_words(template)
            near.append((2 * len(mine & words) / (len(mine) + len(words)), sessions, fingerprint))
    near.sort(reverse=True)
    return {fingerprint: likeness for likeness, _, fingerprint in near[:limit] if likeness >= LIKE}
