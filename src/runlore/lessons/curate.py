"""Turn drafts into proposals, and keep lessons up to date. Pure: returns what has changed.

Decisions are kept. An approved lesson keeps its words, a rejected one stays rejected until there is
more evidence, and better advice is proposed as the successor of what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from ..config import Lessons as Thresholds
from ..mine.drafts import MAX_EVIDENCE, hash_id
from ..mine.ends import End
from ..mine.signals.correction import KIND as CORRECTION
from ..mine.similarity import MIN_SIMILARITY, word_similarity
from ..mine.topic_words import find_topic_words
from ..mine.values import Case, Pattern
from ..model import format_time
from ..text.clean import clean, one_line
from . import Lesson
from .drafts import draft_lessons

replace = msgspec.structs.replace


def propose(
    patterns: Iterable[Pattern],
    cases: Mapping[str, Case],
    known: Sequence[Lesson],
    thresholds: Thresholds,
    now: datetime,
) -> list[Lesson]:
    """Return the lessons that are new or have changed."""
    at = format_time(now)
    by_id = {lesson.id: lesson for lesson in known}
    current = dict(by_id)
    drafted = list(draft_lessons(patterns, cases, thresholds))
    drafts = [one.lesson for one in drafted if one.lesson]
    for one in drafted:
        if one.lesson is not None:
            changed = _add_draft(one.lesson, drafts, known, by_id, at, thresholds)
            current.update((lesson.id, lesson) for lesson in changed)
        for lesson in current.values() if one.subject else ():
            if lesson.subject == one.subject and lesson.status == "approved":
                current[lesson.id] = _count_outcomes(lesson, by_id, one.ends)
    return [lesson for name, lesson in current.items() if lesson != by_id.get(name)]


def _add_draft(
    draft: Lesson,
    drafts: Sequence[Lesson],
    known: Sequence[Lesson],
    by_id: Mapping[str, Lesson],
    at: str,
    thresholds: Thresholds,
) -> list[Lesson]:
    """Return what a draft adds or changes."""
    old = by_id.get(draft.id) or _find_same_correction(draft, known)
    if old is None:
        return _propose_new(draft, known, at, thresholds)
    return [_renew(old, _with_merged_evidence(draft, old, drafts, by_id))]


def _propose_new(
    draft: Lesson, known: Sequence[Lesson], at: str, thresholds: Thresholds
) -> list[Lesson]:
    """Return a new proposal and those it replaces, or nothing if there is better advice already."""
    rivals = [
        one
        for one in known
        if one.subject and one.subject == draft.subject and one.status in ("approved", "proposed")
    ]
    if any(one.confidence >= draft.confidence and not one.is_doubted for one in rivals):
        return []
    approved = next((one.id for one in rivals if one.status == "approved"), "")
    proposal = replace(draft, made_at=at, supersedes=approved)
    # Nobody reads what is approved automatically, so the resolution itself must have helped more
    # than once.
    if (
        thresholds.auto
        and not approved
        and draft.sessions >= thresholds.deliver
        and draft.helped >= thresholds.propose
    ):
        proposal = replace(proposal, status="approved", decided_at=at, decided_by="config")
    undecided = [one for one in rivals if one.status == "proposed" and not one.edited]
    return [
        proposal,
        *(replace(one, status="superseded", superseded_by=proposal.id) for one in undecided),
    ]


def _renew(old: Lesson, draft: Lesson) -> Lesson:
    """Return a lesson with today's evidence.

    A rejected one is proposed again if more sessions show it.
    """
    counts = {
        name: getattr(draft, name)
        for name in (
            "evidence",
            "family",
            "signals",
            "sessions",
            "helped",
            "confidence",
            "last_at",
        )
    }
    if old.status == "rejected" and draft.sessions > old.sessions:
        return replace(old, status="proposed", **counts)
    if old.status == "proposed":
        words = (
            {}
            if old.edited
            else {
                name: getattr(draft, name)
                for name in ("when", "do", "avoid", "repo", "agent", "tool")
            }
        )
        return replace(old, **counts, **words)
    return replace(old, **counts) if old.status == "approved" else old


def _find_same_correction(draft: Lesson, known: Iterable[Lesson]) -> Lesson | None:
    """Return the lesson on the same correction, if its words have changed since.

    It is the same if most of the sessions it rests on, or most of its words, are the same.
    """
    if draft.kind != CORRECTION:
        return None
    sessions, words = _cited_uids(draft), find_topic_words(draft.do)
    for one in known:
        if one.kind == CORRECTION:
            other_words = find_topic_words(one.do)
            is_same_evidence = 2 * len(sessions & _cited_uids(one)) >= len(sessions)
            if is_same_evidence or (
                words and word_similarity(words, other_words) >= MIN_SIMILARITY
            ):
                return one
    return None


def _with_merged_evidence(
    draft: Lesson, old: Lesson, drafts: Sequence[Lesson], known: Mapping[str, Lesson]
) -> Lesson:
    """Return a draft with today's evidence of the lessons that were merged into the old one."""
    for other in (known[name] for name in old.merged if name in known):
        draft = _join_evidence(find_draft(other, drafts) or other, draft)
    return draft


def find_draft(lesson: Lesson, drafts: Iterable[Lesson]) -> Lesson | None:
    """Return today's draft of a lesson."""
    return next(
        (one for one in drafts if one.id == lesson.id or _find_same_correction(one, [lesson])), None
    )


def _count_outcomes(lesson: Lesson, by_id: Mapping[str, Lesson], ends: Sequence[End]) -> Lesson:
    """Return a lesson with the results of sessions since the decision. A resolution that a person
    wrote has no key, so the sessions that followed it are unknown.
    Sessions that solved the problem for an unknown reason do not count.
    """
    keys = {lesson.key, *(by_id[name].key for name in lesson.merged if name in by_id)} - {""}
    if not keys:
        return replace(lesson, kept=0, broken=0)
    since = [end for end in ends if end.at > (lesson.decided_at or lesson.made_at)]
    followed = {end.task for end in since if end.key in keys}
    broken = {end.task for end in since if end.key or not end.is_over} - followed
    return replace(lesson, kept=len(followed), broken=len(broken))


# ── decisions ────────────────────────────────────────────────────────────────────────────────────
def decide(
    lesson: Lesson, status: str, now: datetime, *, by: str = "person", why: str = ""
) -> Lesson:
    return replace(lesson, status=status, decided_at=format_time(now), decided_by=by, why=why)


def merge(one: Lesson, into: Lesson, now: datetime) -> tuple[Lesson, Lesson]:
    """Merge two lessons that say the same, and return both.

    The first gives its evidence to the second, which supersedes it.
    """
    merged = replace(
        _join_evidence(one, into),
        merged=tuple(dict.fromkeys((*into.merged, one.id, *one.merged))),
        repo=into.repo if into.repo == one.repo else "",
        agent=into.agent if into.agent == one.agent else "",
        path=into.path if into.path == one.path else "",
        tool=into.tool if into.tool == one.tool else "",
        fingerprint=into.fingerprint or one.fingerprint,
    )
    return replace(decide(one, "superseded", now), superseded_by=into.id), merged


def _join_evidence(one: Lesson, into: Lesson) -> Lesson:
    """Return the second lesson with the evidence of both."""
    evidence = tuple(dict.fromkeys((*into.evidence, *one.evidence)))
    return replace(
        into,
        evidence=evidence[:MAX_EVIDENCE],
        signals=into.signals + one.signals,
        sessions=max(into.sessions, one.sessions, len({uid_of(ref) for ref in evidence})),
        helped=max(into.helped, one.helped),
        last_at=max(into.last_at, one.last_at),
    )


def write_lesson(
    when: str, do: str, evidence: Sequence[str], now: datetime, **fields: str
) -> Lesson:
    """Return a lesson written by hand, which still has to be approved."""
    at = format_time(now)
    return Lesson(
        id=hash_id(when, do, *fields.values()),
        when=one_line(when),
        do=clean(do).strip(),
        evidence=tuple(dict.fromkeys(evidence))[:MAX_EVIDENCE],
        signals=len(evidence),
        sessions=len({uid_of(ref) for ref in evidence}),
        made_at=at,
        last_at=at,
        **fields,  # type: ignore[arg-type] # Names of fields that are texts.
    )


def _cited_uids(lesson: Lesson) -> set[str]:
    return {uid_of(ref) for ref in lesson.evidence}


def uid_of(ref: str) -> str:
    """Return the session of a reference, which is written uid#seq."""
    return ref.partition("#")[0]
