"""Lessons beside a store: proposed from what it has, written by hand with evidence that it knows, chosen for a place or an error.

Files are in `lessons/` of runlore's home. What is decided is decided by people, through a face; nothing here approves but what the
configuration says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from . import mining, query
from .config import Config
from .errors import ModelError, NotFound
from .lessons import Lesson, curate, rank, retro
from .lessons.retro import Retro, SkillSeen
from .lessons.shelf import Broken, Shelf
from .model import format_time
from .store import Filter, Store

replace = msgspec.structs.replace

FOLDER = "lessons"
LONGEST = 4_000
"""Characters of what somebody writes."""


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at the store has changed."""

    changed: list[Lesson]
    broken: list[Broken]


def shelf_of(config: Config) -> Shelf:
    return Shelf(config.home / FOLDER)


def gate_of(config: Config) -> curate.Gate:
    wanted = config.lessons
    return curate.Gate(propose=wanted.propose, deliver=wanted.deliver, auto=wanted.auto)


def propose(store: Store, config: Config, now: datetime, *, dry_run: bool = False) -> Proposed:
    """Looks through all digests, and writes what is new or has changed. Twice in a row the second changes nothing."""
    from .mine.patterns import find

    shelf = shelf_of(config)
    known, broken = shelf.read()
    cases = mining.cases(store, config, Filter(parents_only=False))
    gate = gate_of(config)
    changed = curate.propose(find(cases), {case.uid: case for case in cases}, known, gate, now)
    for lesson in changed if not dry_run else ():
        shelf.put(lesson)
    return Proposed(changed=changed, broken=broken)


def write(
    store: Store,
    config: Config,
    problem: str,
    resolution: str,
    evidence: Sequence[str],
    now: datetime,
    *,
    by: str,
    error: str = "",
    **scope: str,
) -> Lesson:
    """A lesson by hand, as a proposal. Raises ModelError without words or evidence, NotFound for evidence that there is not."""
    from .export.taking import cleaner

    clean = cleaner(config)
    problem, resolution = clean(problem[:LONGEST]).strip(), clean(resolution[:LONGEST]).strip()
    if not problem or not resolution:
        raise ModelError("a lesson needs a problem and what to do about it")
    if not evidence:
        raise ModelError("a lesson needs evidence: an event as uid#seq, or a session")
    cited = [_cited(store, ref) for ref in evidence]
    lesson = curate.written(problem, resolution, cited, now, by=by, fingerprint=_fingerprint(error), **scope)
    shelf = shelf_of(config)
    try:
        return shelf.get(lesson.id)  # It is there already, perhaps decided on: saying it twice changes nothing.
    except NotFound:
        shelf.put(lesson)
        return lesson


def _cited(store: Store, ref: str) -> str:
    """As uid#seq, checked."""
    name, seq = query.split_name(ref)
    uid = query.resolve(store, name)
    if seq is None:
        return uid
    session = query.get(store, uid)
    if seq > session.last_seq:
        raise NotFound(f"{uid} has no event {seq}; its last is {session.last_seq}")
    return f"{uid}#{seq}"


def _fingerprint(error: str) -> str:
    if not error.strip():
        return ""
    from .digest.errors import signature

    found = signature(error)
    return found.fingerprint if found else ""


def told_of(
    config: Config,
    now: datetime,
    *,
    agent: str | None = None,
    repo: str | None = None,
    path: str | None = None,
    tool: str | None = None,
    error: str = "",
    words: str = "",
) -> list[Lesson]:
    """The lessons that an agent may be told and that fit, the best first: those on this very error before all others, then those that have
    most of the words."""
    lessons, _ = shelf_of(config).read()
    ready = [one for one in lessons if one.is_ready(config.lessons.deliver) and one.fits(agent=agent, repo=repo, path=path, tool=tool)]
    ranked = rank.ranked(ready, now, config.lessons.half_life_days)
    if not (error or words):
        return ranked
    fingerprint, wanted = _fingerprint(error), _words(f"{words} {error}")
    near = {one.id: (bool(fingerprint) and one.fingerprint == fingerprint, len(wanted & _words_of(one))) for one in ranked}
    return sorted((one for one in ranked if any(near[one.id])), key=lambda one: near[one.id], reverse=True)


def _words_of(lesson: Lesson) -> frozenset[str]:
    return _words(f"{lesson.problem} {lesson.resolution}")


def _words(text: str) -> frozenset[str]:
    import re

    return frozenset(word for word in re.findall(r"[^\W_]{3,}", text.lower()))


# ── looking back ─────────────────────────────────────────────────────────────────────────────────────────────────────
def look_back(store: Store, config: Config, days: int, now: datetime, *, chosen: Filter) -> Retro:
    """The sessions that ended in the last so many days, beside those of as many days before."""
    start, earlier = now - timedelta(days=days), now - timedelta(days=2 * days)
    since, begin = format_time(start), format_time(earlier)
    every = mining.cases(store, config, replace(chosen, parents_only=False, since=earlier))
    return retro.look_back(
        [case for case in every if since <= case.at],
        [case for case in every if begin <= case.at < since],
        shelf_of(config).read()[0],
        _skills(config, start),
        since=since,
        until=format_time(now),
    )


def _skills(config: Config, start: datetime) -> list[SkillSeen]:
    """What live sessions logged of skills since then."""
    folder = config.home / "live"
    if not folder.is_dir():
        return []
    from .live import SessionStore
    from .live.skills import entries_of, pass_rates

    entries = [entry for entry in entries_of(SessionStore(folder)) if entry.timestamp is None or entry.timestamp >= start]
    escalated = Counter((entry.skill, one.model) for entry in entries for one in entry.attempts if one.verdict == "escalate")
    return [
        retro.judge_skill(
            one.skill, one.model, passed=one.passed, failed=one.failed, verified=one.verified, escalated=escalated[one.skill, one.model]
        )
        for one in pass_rates(entries, now=start)
    ]
