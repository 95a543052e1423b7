"""Propose, write, decide on, find, measure and forget lessons, given a store.

Lessons are files in `lessons/` of runlore's home. People decide on them, through a face. Nothing
here approves a lesson unless the configuration says so.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from itertools import chain

import msgspec

from .. import adapters, query
from ..config import Config
from ..digest.errors import signature
from ..errors import ModelError, NotFound
from ..live import SessionStore
from ..live.skills import entries_of, pass_rates
from ..mine.cases import find_live_uids, read_cases
from ..mine.drafts import MAX_EVIDENCE
from ..mine.patterns import find_patterns
from ..mine.values import Case
from ..model import format_time
from ..redact.engine import Redactor, load_key, rules_from_config
from ..store import Filter, Store
from ..text.clean import clean as strip
from ..text.clean import one_line
from . import Lesson, curate, deliver, exposures, measure, rank, rendered_files, retro
from .drafts import draft_lessons
from .forget import ForgottenSession, find_affected, remove_sessions
from .measure import Effect
from .retro import Retro, SkillResult
from .shelf import Broken, Shelf

replace = msgspec.structs.replace

FOLDER = "lessons"
MAX_TEXT_CHARS = 4_000
"""Length of what somebody writes."""
MAX_AGENT_PROPOSALS = 200
"""Undecided proposals of agents: an agent in a loop must not fill the disk."""
SCOPE_FIELDS = ("agent", "repo", "path", "tool")
WRITTEN_FIELDS = ("when", "do", "avoid", "notes", "why", *SCOPE_FIELDS)
"""Fields that people and agents write."""


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `propose`."""

    changed: list[Lesson]
    new: list[str]
    """Ids of the lessons that are new."""
    broken: list[Broken]


def open_shelf(config: Config) -> Shelf:
    return Shelf(config.home / FOLDER)


def propose(store: Store, config: Config, now: datetime, *, dry_run: bool = False) -> Proposed:
    """Look through all digests, and write the lessons that are new or have changed.

    A second run changes nothing.
    """
    shelf = open_shelf(config)
    cases = read_cases(store, config, Filter(parents_only=False))
    patterns, by_uid = find_patterns(cases), {case.uid: case for case in cases}
    with nullcontext() if dry_run else shelf.lock():
        known, broken = shelf.read()
        # Today's rules may know more than those of the lesson's day.
        cleaned = redact_lessons(config, known)
        changed = curate.propose(patterns, by_uid, cleaned, config.lessons, now)
        ids = {one.id for one in changed}
        changed += [
            new for old, new in zip(known, cleaned, strict=True) if new != old and new.id not in ids
        ]
        for lesson in changed if not dry_run else ():
            shelf.put(lesson)
    old_ids = {one.id for one in known}
    return Proposed(
        changed=changed, new=[one.id for one in changed if one.id not in old_ids], broken=broken
    )


def write(
    store: Store,
    config: Config,
    when: str,
    do: str,
    evidence: Sequence[str],
    now: datetime,
    *,
    by: str,
    avoid: str = "",
    error: str = "",
    **scope: str,
) -> Lesson:
    """Write a lesson by hand, as a proposal. Writing the same lesson twice changes nothing.

    Raises ModelError without words or evidence, NotFound for evidence that does not exist.
    """
    clean = _build_cleaner(config)
    when, do, avoid = (clean(text[:MAX_TEXT_CHARS]).strip() for text in (when, do, avoid))
    if not when or not do:
        raise ModelError("a lesson needs a situation and what to do in it")
    if not evidence:
        raise ModelError("a lesson needs evidence: an event as uid#seq, or a session")
    refs = [_resolve_reference(store, ref) for ref in evidence[:MAX_EVIDENCE]]
    scope = {name: one_line(clean(value[:MAX_TEXT_CHARS])) for name, value in scope.items()}
    lesson = curate.write_lesson(
        when, do, refs, now, avoid=avoid, by=by, fingerprint=_fingerprint(error), **scope
    )
    shelf = open_shelf(config)
    with shelf.lock():
        waiting = [
            one for one in shelf.read()[0] if one.by == by == "agent" and one.status == "proposed"
        ]
        if len(waiting) >= MAX_AGENT_PROPOSALS and lesson.id not in {one.id for one in waiting}:
            raise ModelError(
                f"{len(waiting)} proposals of agents wait for a person to decide on them; no more"
                " are taken until then"
            )
        try:
            return shelf.get(lesson.id)  # It exists already, and may have been decided on.
        except NotFound:
            shelf.put(lesson)
            return lesson


def _resolve_reference(store: Store, ref: str) -> str:
    """Return a reference as uid#seq, or as uid for a session.

    Raises NotFound if it does not exist.
    """
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
    known = signature(error)
    return known.fingerprint if known else ""


# ── decisions ────────────────────────────────────────────────────────────────────────────────────
def decide(
    config: Config, names: Sequence[str], status: str, now: datetime, *, why: str = ""
) -> list[Lesson]:
    """Record a person's decision on these lessons.

    An approved lesson replaces the one it supersedes.
    """
    shelf, why = open_shelf(config), _build_cleaner(config)(why[:MAX_TEXT_CHARS])
    with shelf.lock():
        decided = [curate.decide(shelf.get(name), status, now, why=why) for name in names]
        for one in decided:
            shelf.put(one)
            with suppress(NotFound):  # A team may have removed the older one from its folder.
                if status == "approved" and one.supersedes:
                    old = curate.decide(shelf.get(one.supersedes), "superseded", now)
                    shelf.put(replace(old, superseded_by=one.id))
    return decided


def edit(config: Config, before: Lesson, after: Lesson) -> Lesson:
    """Apply a person's changes to a lesson as it is now.

    It may have been decided on in the meantime.
    """
    names = [
        name
        for name in Lesson.__struct_fields__
        if name != "id" and getattr(before, name) != getattr(after, name)
    ]
    clean = _build_cleaner(config)
    changes = {
        name: clean(getattr(after, name)) if name in WRITTEN_FIELDS else getattr(after, name)
        for name in names
    }
    if changes.keys() & {"do", "avoid"}:  # What sessions did so far says nothing about new advice.
        changes = {**changes, "key": "", "kept": 0, "broken": 0}
    shelf = open_shelf(config)
    with shelf.lock():
        edited = replace(shelf.get(before.id), **changes, edited=True)
        shelf.put(edited)
    return edited


def merge(config: Config, name: str, into: str, now: datetime) -> tuple[Lesson, Lesson]:
    """Merge one lesson into another, and return both. They must not be the same."""
    shelf = open_shelf(config)
    with shelf.lock():
        one, other = shelf.get(name), shelf.get(into)
        assert one.id != other.id
        merged = curate.merge(one, other, now)
        # The one that stays is written first: nothing is lost if we are killed.
        for lesson in reversed(merged):
            shelf.put(lesson)
    return merged


def _build_cleaner(config: Config) -> Callable[[str], str]:
    """Return a function that removes secrets and terminal controls from a text.

    Reading creates no key: without one, the marks of secrets differ from run to run.
    """
    path = config.home / "redact.key"
    redact = Redactor(
        load_key(path) if path.is_file() else os.urandom(32), rules_from_config(config.redact.rules)
    ).text
    return lambda text: strip(redact(text))


def forget(
    store: Store, config: Config, uids: Iterable[str], now: datetime, *, dry_run: bool = False
) -> tuple[list[Lesson], list[Broken]]:
    """Remove what lessons have of these sessions, and the records of what these were shown.

    Returns the affected lessons as they were, and the files that could not be searched. Has to be
    called before the sessions leave the store, because only they know what came from them.
    """
    shelf, names = open_shelf(config), set(uids)
    with nullcontext() if dry_run else shelf.lock():
        known, broken = shelf.read()
        after = _remove_sessions(store, config, known, names, now) if known else {}
        changed = [lesson for lesson in known if lesson.id in after and after[lesson.id] != lesson]
        for lesson in changed if not dry_run else ():
            rest = after[lesson.id]
            if rest is None:
                shelf.drop(lesson.id)
            else:
                shelf.put(rest)
    if not dry_run:
        deliver.forget(config.home, names)
    return changed, broken


def _remove_sessions(
    store: Store, config: Config, known: Sequence[Lesson], names: set[str], now: datetime
) -> dict[str, Lesson | None]:
    """Return by id the lessons that took something from these sessions, as they are without."""
    forgotten = {
        uid: ForgottenSession(store.digests.get(uid), tuple(_cited_texts(store, uid, known)))
        for uid in sorted(names)
    }
    affected = find_affected(known, forgotten)
    if not affected:
        return {}
    rest = [
        case
        for case in read_cases(store, config, Filter(parents_only=False))
        if case.uid not in names
    ]
    drafted = draft_lessons(find_patterns(rest), {case.uid: case for case in rest}, config.lessons)
    drafts = [one.lesson for one in drafted if one.lesson]
    return {lesson.id: remove_sessions(lesson, forgotten, drafts, now) for lesson in affected}


def _cited_texts(store: Store, uid: str, known: Iterable[Lesson]) -> Iterator[str]:
    """Yield the bodies of the events of a session that lessons cite."""
    refs = (
        query.split_name(ref) for one in known for ref in one.evidence if curate.uid_of(ref) == uid
    )
    for seq in sorted({seq for _, seq in refs if seq is not None}):
        yield from store.sessions.bodies(uid, seq, seq).values()


# ── what to show ─────────────────────────────────────────────────────────────────────────────────
def find_lessons(
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
    """Return the lessons that may be shown to an agent and that fit, best first.

    Given an error or words, returns those on this error, then those that share most of the words.
    """
    lessons, _ = open_shelf(config).read()
    ready = [
        one
        for one in lessons
        if one.is_ready(config.lessons.deliver)
        and one.fits(agent=agent, repo=repo, path=path, tool=tool)
    ]
    ranked = rank.rank_lessons(ready, now, config.lessons.half_life_days)
    if not (error or words):
        return ranked
    fingerprint, wanted = _fingerprint(error), _find_words(f"{words} {error}")
    nearness = {
        one.id: (
            bool(fingerprint) and fingerprint in one.fingerprints,
            len(wanted & _find_words(f"{one.when} {one.do} {one.avoid}")),
        )
        for one in ranked
    }
    return sorted(
        (one for one in ranked if any(nearness[one.id])),
        key=lambda one: nearness[one.id],
        reverse=True,
    )


def redact_lessons(config: Config, lessons: Iterable[Lesson]) -> list[Lesson]:
    """Return lessons without secrets, as others may read them: people write these files by hand."""
    clean = _build_cleaner(config)
    return [
        replace(one, when=clean(one.when), do=clean(one.do), avoid=clean(one.avoid))
        for one in lessons
    ]


def _find_words(text: str) -> frozenset[str]:
    return frozenset(word for word in re.findall(r"[^\W_]{3,}", text.lower()))


# ── effects ──────────────────────────────────────────────────────────────────────────────────────
def measure_effects(config: Config, cases: Sequence[Case]) -> list[Effect]:
    """Return the effect of every lesson that was shown to a session, or withheld from one."""
    records = deliver.read_records(config.home)
    spans = rendered_files.iter_spans(rendered_files.read_records(config.home))
    every = chain(
        exposures.exposures_in(records),
        exposures.exposures_by_request(cases),
        exposures.exposures_by_files(spans, cases, adapters.instructions),
    )
    lessons = open_shelf(config).read()[0]
    return measure.measure_effects(lessons, exposures.decisions_in(records), every, cases)


# ── retrospective ────────────────────────────────────────────────────────────────────────────────
def look_back(store: Store, config: Config, days: int, now: datetime, *, chosen: Filter) -> Retro:
    """Return a retrospective of the last days, compared with as many days before."""
    start, earlier = now - timedelta(days=days), now - timedelta(days=2 * days)
    since, begin = format_time(start), format_time(earlier)
    cases = read_cases(store, config, chosen._replace(parents_only=False, since=earlier))
    return retro.look_back(
        [case for case in cases if since <= case.at],
        [case for case in cases if begin <= case.at < since],
        open_shelf(config).read()[0],
        _judge_skills(
            config, start, None if chosen == Filter() else {case.uid for case in cases}, store
        ),
        since=since,
        until=format_time(now),
    )


def _judge_skills(
    config: Config, start: datetime, uids: set[str] | None, store: Store
) -> list[SkillResult]:
    """Return how models did at skills in live sessions since then.

    With uids, only these sessions count.
    """
    folder = config.home / "live"
    if not folder.is_dir():
        return []
    entries = [
        entry
        for entry in entries_of(SessionStore(folder))
        if entry.timestamp is None or entry.timestamp >= start
    ]
    if uids is not None:
        live_uids = find_live_uids(store.sessions.select(Filter(parents_only=False)))
        entries = [entry for entry in entries if live_uids.get(entry.session_id) in uids]
    escalated = Counter(
        (entry.skill, one.model)
        for entry in entries
        for one in entry.attempts
        if one.verdict == "escalate"
    )
    return [
        retro.judge_skill(
            one.skill,
            one.model,
            passed=one.passed,
            failed=one.failed,
            unknown=one.running + one.unknown,
            verified=one.verified,
            escalated=escalated[one.skill, one.model],
        )
        for one in pass_rates(entries, now=start)
    ]
