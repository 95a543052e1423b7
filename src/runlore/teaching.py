"""Lessons beside a store: proposed from what it has, written by hand with evidence that it knows, chosen for a place or an error.

Files are in `lessons/` of runlore's home. What is decided is decided by people, through a face; nothing here approves but what the
configuration says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from itertools import chain

import msgspec

from . import adapters, mining, query
from ._text import clean as strip
from ._text import one_line
from .config import Config
from .digest.errors import signature
from .errors import ModelError, NotFound
from .export.outline import bodies_of
from .export.taking import cleaner
from .lessons import EVIDENCE, Lesson, curate, deliver, forgotten, measure, rank, retro, standing, tellings
from .lessons.drafts import Gate, drafts
from .lessons.measure import Effect
from .lessons.retro import Retro, SkillSeen
from .lessons.shelf import Broken, Shelf
from .live import SessionStore
from .live.skills import entries_of, pass_rates
from .mine import Case
from .mine.patterns import find
from .model import format_time
from .store import Filter, Store

replace = msgspec.structs.replace

FOLDER = "lessons"
LONGEST = 4_000
"""Characters of what somebody writes."""
WAITING = 200
"""Proposals of agents that nobody has decided on: an agent that goes in circles fills no disk, and nobody reads more."""
SCOPE = ("agent", "repo", "path", "tool")
WORDS = ("problem", "resolution", "notes", "why", *SCOPE)
"""Fields that people and agents write."""


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at the store has changed."""

    changed: list[Lesson]
    new: list[str]
    """The ids of those that were not there before."""
    broken: list[Broken]


def shelf_of(config: Config) -> Shelf:
    return Shelf(config.home / FOLDER)


def gate_of(config: Config) -> Gate:
    wanted = config.lessons
    return Gate(propose=wanted.propose, deliver=wanted.deliver, auto=wanted.auto)


def propose(store: Store, config: Config, now: datetime, *, dry_run: bool = False) -> Proposed:
    """Looks through all digests, and writes what is new or has changed. Twice in a row the second changes nothing."""
    shelf = shelf_of(config)
    cases = mining.cases(store, config, Filter(parents_only=False))
    patterns, by_uid = find(cases), {case.uid: case for case in cases}
    with nullcontext() if dry_run else shelf.held():
        known, broken = shelf.read()
        cleaned = redacted(config, known)  # By the rules of today, which may know more than those of its day.
        changed = curate.propose(patterns, by_uid, cleaned, gate_of(config), now)
        ids = {one.id for one in changed}
        changed += [new for old, new in zip(known, cleaned, strict=True) if new != old and new.id not in ids]
        for lesson in changed if not dry_run else ():
            shelf.put(lesson)
    old_ids = {one.id for one in known}
    return Proposed(changed=changed, new=[one.id for one in changed if one.id not in old_ids], broken=broken)


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
    clean = _cleaner(config)
    problem, resolution = clean(problem[:LONGEST]).strip(), clean(resolution[:LONGEST]).strip()
    if not problem or not resolution:
        raise ModelError("a lesson needs a problem and what to do about it")
    if not evidence:
        raise ModelError("a lesson needs evidence: an event as uid#seq, or a session")
    cited = [_cited(store, ref) for ref in evidence[:EVIDENCE]]
    scope = {name: one_line(clean(value[:LONGEST])) for name, value in scope.items()}
    lesson = curate.written(problem, resolution, cited, now, by=by, fingerprint=_fingerprint(error), **scope)
    shelf = shelf_of(config)
    with shelf.held():
        waiting = [one for one in shelf.read()[0] if one.by == by == "agent" and one.status == "proposed"]
        if len(waiting) >= WAITING and lesson.id not in {one.id for one in waiting}:
            raise ModelError(f"{len(waiting)} proposals of agents wait for a person to decide on them; no more are taken until then")
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
    found = signature(error)
    return found.fingerprint if found else ""


# ── decisions ────────────────────────────────────────────────────────────────────────────────────────────────────────
def decide(config: Config, names: Sequence[str], status: str, now: datetime, *, why: str = "") -> list[Lesson]:
    """What a person decides on these lessons. One that is approved takes the place of what it supersedes."""
    shelf, why = shelf_of(config), _cleaner(config)(why[:LONGEST])
    with shelf.held():
        made = [curate.decide(shelf.get(name), status, now, why=why) for name in names]
        for one in made:
            shelf.put(one)
            with suppress(NotFound):  # A team may have taken the older one out of its folder.
                if status == "approved" and one.supersedes:
                    old = curate.decide(shelf.get(one.supersedes), "superseded", now)
                    shelf.put(replace(old, superseded_by=one.id))
    return made


def edit(config: Config, before: Lesson, after: Lesson) -> Lesson:
    """What a person has changed in a lesson, put into it as it is now: it may have been decided on while an editor was open."""
    names = [name for name in Lesson.__struct_fields__ if name != "id" and getattr(before, name) != getattr(after, name)]
    clean = _cleaner(config)
    changed = {name: clean(getattr(after, name)) if name in WORDS else getattr(after, name) for name in names}
    if "resolution" in changed:  # What sessions did before and since says nothing about advice that is new.
        changed = {**changed, "key": "", "kept": 0, "broken": 0}
    shelf = shelf_of(config)
    with shelf.held():
        made = replace(shelf.get(before.id), **changed, edited=True)
        shelf.put(made)
    return made


def merge(config: Config, name: str, into: str, now: datetime) -> tuple[Lesson, Lesson]:
    """Both as they are afterwards. They must not be the same."""
    shelf = shelf_of(config)
    with shelf.held():
        one, other = shelf.get(name), shelf.get(into)
        assert one.id != other.id
        made = curate.merged(one, other, now)
        for changed in reversed(made):  # The one that stays first: killed in between, nothing is lost.
            shelf.put(changed)
    return made


def _cleaner(config: Config) -> Callable[[str], str]:
    """Secrets out of what a person writes, and whatever a terminal would obey."""
    redact = cleaner(config)
    return lambda text: strip(redact(text))


def forget(
    store: Store, config: Config, uids: Iterable[str], now: datetime, *, dry_run: bool = False
) -> tuple[list[Lesson], list[Broken]]:  # fmt: skip
    """Takes out of the lessons what they have of these sessions, and the notes on what these were told; gives back the lessons as they
    were, and files that cannot be read, in which nothing was looked for. To be done before the sessions leave the store: only they know
    what was theirs."""
    shelf, names = shelf_of(config), set(uids)
    with nullcontext() if dry_run else shelf.held():
        known, broken = shelf.read()
        gone = {uid: forgotten.Gone(store.digest(uid), tuple(_texts(store, uid, known))) for uid in sorted(names)} if known else {}
        changed = []
        if found := forgotten.touched(known, gone):
            left = [case for case in mining.cases(store, config, Filter(parents_only=False)) if case.uid not in names]
            made = drafts(find(left), {case.uid: case for case in left}, gate_of(config))
            left_over = [draft for draft, _, _ in made if draft]
            after = {lesson.id: forgotten.without(lesson, gone, left_over, now) for lesson in found}
            changed = [lesson for lesson in found if after[lesson.id] != lesson]
        for lesson in changed if not dry_run else ():
            kept = after[lesson.id]
            if kept is None:
                shelf.drop(lesson.id)
            else:
                shelf.put(kept)
    if not dry_run:
        deliver.forget(config.home, names)
    return changed, broken


def _texts(store: Store, uid: str, known: Iterable[Lesson]) -> Iterable[str]:
    """Of the events of this session that lessons cite."""
    refs = (query.split_name(ref) for one in known for ref in one.evidence if forgotten.uid_of(ref) == uid)
    return bodies_of(store, uid, (seq for _, seq in refs if seq is not None)).values()


# ── telling ──────────────────────────────────────────────────────────────────────────────────────────────────────────
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


def redacted(config: Config, lessons: Iterable[Lesson]) -> list[Lesson]:
    """As they may be written where others read: their files are a person's to write, and nobody looked there for secrets."""
    clean = _cleaner(config)
    return [replace(one, problem=clean(one.problem), resolution=clean(one.resolution)) for one in lessons]


def _words_of(lesson: Lesson) -> frozenset[str]:
    return _words(f"{lesson.problem} {lesson.resolution}")


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"[^\W_]{3,}", text.lower()))


# ── whether it helps ─────────────────────────────────────────────────────────────────────────────────────────────────
def effects(config: Config, cases: Sequence[Case]) -> list[Effect]:
    """Of every lesson that one of these sessions was told by whatever way, or that hooks told to any."""
    told = chain(
        tellings.by_hooks(deliver.read(config.home)),
        tellings.by_asking(cases),
        tellings.by_files(standing.spans(standing.read(config.home)), cases, adapters.instructions),
    )
    return measure.effects(shelf_of(config).read()[0], told, cases)


# ── looking back ─────────────────────────────────────────────────────────────────────────────────────────────────────
def look_back(store: Store, config: Config, days: int, now: datetime, *, chosen: Filter) -> Retro:
    """The sessions that ended in the last so many days, beside those of as many days before."""
    start, earlier = now - timedelta(days=days), now - timedelta(days=2 * days)
    since, begin = format_time(start), format_time(earlier)
    every = mining.cases(store, config, chosen._replace(parents_only=False, since=earlier))
    return retro.look_back(
        [case for case in every if since <= case.at],
        [case for case in every if begin <= case.at < since],
        shelf_of(config).read()[0],
        _skills(config, start, None if chosen == Filter() else {case.uid for case in every}, store),
        since=since,
        until=format_time(now),
    )


def _skills(config: Config, start: datetime, uids: set[str] | None, store: Store) -> list[SkillSeen]:
    """What live sessions logged of skills since then; of some sessions, when they are named."""
    folder = config.home / "live"
    if not folder.is_dir():
        return []
    entries = [entry for entry in entries_of(SessionStore(folder)) if entry.timestamp is None or entry.timestamp >= start]
    if uids is not None:
        named = mining.live_names(store.sessions(Filter(parents_only=False)))
        entries = [entry for entry in entries if named.get(entry.session_id) in uids]
    escalated = Counter((entry.skill, one.model) for entry in entries for one in entry.attempts if one.verdict == "escalate")
    return [
        retro.judge_skill(
            one.skill, one.model, passed=one.passed, failed=one.failed, verified=one.verified, escalated=escalated[one.skill, one.model]
        )
        for one in pass_rates(entries, now=start)
    ]
