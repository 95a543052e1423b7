"""From drafts to proposals, and what becomes of them. Pure: what is known goes in, what has changed comes out.

A decision is kept: what was approved keeps its words, what was rejected stays so until there is more evidence, and better advice is
proposed as the successor of what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from .._text import clean, one_line
from ..mine import Case
from ..mine._cluster import SIMILAR, Pattern, alike
from ..mine.correction import words_of
from ..model import format_time
from . import EVIDENCE, Lesson
from .drafts import End, Gate, drafts, hashed

replace = msgspec.structs.replace


def propose(patterns: Iterable[Pattern], cases: Mapping[str, Case], known: Sequence[Lesson], gate: Gate, now: datetime) -> list[Lesson]:
    """The lessons that are new, or of which something has changed."""
    at = format_time(now)
    by_id = {lesson.id: lesson for lesson in known}
    current = dict(by_id)
    every = list(drafts(patterns, cases, gate))
    made_now = [draft for draft, _, _ in every if draft]
    for draft, subject, ends in every:
        if draft is not None:
            old = by_id.get(draft.id) or _same_words(draft, known)
            made = [_renewed(old, _with_merged(draft, old, made_now, by_id))] if old else _proposed(draft, known, at, gate)
            current.update((one.id, one) for one in made)
        for lesson in current.values() if subject else ():
            if lesson.subject == subject and lesson.status == "approved":
                keys = {lesson.key, *(by_id[name].key for name in lesson.merged if name in by_id)} - {""}
                current[lesson.id] = _recounted(lesson, keys, ends)
    return [lesson for name, lesson in current.items() if lesson != by_id.get(name)]


def _proposed(draft: Lesson, known: Sequence[Lesson], at: str, gate: Gate) -> list[Lesson]:
    """A new proposal, and those that it takes the place of; nothing when there is better advice already."""
    rivals = [one for one in known if one.subject and one.subject == draft.subject and one.status in ("approved", "proposed")]
    if any(one.confidence >= draft.confidence and not one.is_doubted for one in rivals):
        return []
    approved = next((one.id for one in rivals if one.status == "approved"), "")
    made = replace(draft, made_at=at, supersedes=approved)
    # Nobody looks at what is approved by itself: so the resolution, too, must have been seen more than once.
    if gate.auto and not approved and draft.sessions >= gate.deliver and draft.helped >= gate.propose:
        made = replace(made, status="approved", decided_at=at, decided_by="config")
    undecided = [one for one in rivals if one.status == "proposed" and not one.edited]
    return [made, *(replace(one, status="superseded", superseded_by=made.id) for one in undecided)]


def _renewed(old: Lesson, draft: Lesson) -> Lesson:
    """With the evidence of today. A decision stays, but that what was rejected is proposed again when more sessions show it."""
    counted = {name: getattr(draft, name) for name in ("evidence", "signals", "sessions", "helped", "confidence", "last_at")}
    if old.status == "rejected" and draft.sessions > old.sessions:
        return replace(old, status="proposed", **counted)
    if old.status == "proposed":
        words = {} if old.edited else {name: getattr(draft, name) for name in ("problem", "resolution", "repo", "agent", "tool")}
        return replace(old, **counted, **words)
    return replace(old, **counted) if old.status == "approved" else old


def _same_words(draft: Lesson, known: Iterable[Lesson]) -> Lesson | None:
    """The lesson of a correction whose words have shifted: most of what it rests on, or of what it says, is the same."""
    if draft.kind != "correction":
        return None
    mine, words = {ref.partition("#")[0] for ref in draft.evidence}, words_of(draft.resolution)
    for one in known:
        if one.kind == "correction":
            rests, says = {ref.partition("#")[0] for ref in one.evidence}, words_of(one.resolution)
            if 2 * len(mine & rests) >= len(mine) or (words and alike(words, says) >= SIMILAR):
                return one
    return None


def _with_merged(draft: Lesson, old: Lesson, drafts: Sequence[Lesson], known: Mapping[str, Lesson]) -> Lesson:
    """With the evidence of the lessons that were merged into this one, as it is today."""
    for other in (known[name] for name in old.merged if name in known):
        draft = _joined(draft_of(other, drafts) or other, draft)
    return draft


def draft_of(lesson: Lesson, drafts: Iterable[Lesson]) -> Lesson | None:
    """The draft of today that a lesson would be made from."""
    return next((one for one in drafts if one.id == lesson.id or _same_words(one, [lesson])), None)


def _recounted(lesson: Lesson, keys: set[str], ends: Sequence[End]) -> Lesson:
    """With how sessions went since the decision. Of one in a person's own words nobody can say which sessions did what it says; nor of a
    session that got over the error for a reason that is not known."""
    if not keys:
        return replace(lesson, kept=0, broken=0)
    since = [end for end in ends if end.at > (lesson.decided_at or lesson.made_at)]
    kept = {end.root for end in since if end.key in keys}
    broken = {end.root for end in since if end.key or not end.is_over} - kept
    return replace(lesson, kept=len(kept), broken=len(broken))


# ── decisions ────────────────────────────────────────────────────────────────────────────────────────────────────────
def decide(lesson: Lesson, status: str, now: datetime, *, by: str = "person", why: str = "") -> Lesson:
    return replace(lesson, status=status, decided_at=format_time(now), decided_by=by, why=why)


def merged(one: Lesson, into: Lesson, now: datetime) -> tuple[Lesson, Lesson]:
    """Two that say the same: the first gives its evidence to the second, and is superseded by it."""
    kept = replace(
        _joined(one, into),
        merged=tuple(dict.fromkeys((*into.merged, one.id, *one.merged))),
        repo=into.repo if into.repo == one.repo else "",
        agent=into.agent if into.agent == one.agent else "",
        path=into.path if into.path == one.path else "",
        tool=into.tool if into.tool == one.tool else "",
        fingerprint=into.fingerprint or one.fingerprint,
    )
    return replace(decide(one, "superseded", now), superseded_by=into.id), kept


def _joined(one: Lesson, into: Lesson) -> Lesson:
    """The second, with the evidence of both."""
    evidence = tuple(dict.fromkeys((*into.evidence, *one.evidence)))
    sessions = len({ref.partition("#")[0] for ref in evidence})
    return replace(
        into,
        evidence=evidence[:EVIDENCE],
        signals=into.signals + one.signals,
        sessions=max(into.sessions, one.sessions, sessions),
        helped=max(into.helped, one.helped),
        last_at=max(into.last_at, one.last_at),
    )


def written(problem: str, resolution: str, evidence: Sequence[str], now: datetime, **fields: str) -> Lesson:
    """A lesson by hand, which still has to be approved."""
    at = format_time(now)
    sessions = len({ref.partition("#")[0] for ref in evidence})
    return Lesson(
        id=hashed(problem, resolution, *fields.values()),
        problem=one_line(problem),
        resolution=clean(resolution).strip(),
        evidence=tuple(dict.fromkeys(evidence))[:EVIDENCE],
        signals=len(evidence),
        sessions=sessions,
        made_at=at,
        last_at=at,
        **fields,  # type: ignore[arg-type] # Names of fields that are texts.
    )
