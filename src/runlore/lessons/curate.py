"""From patterns to proposals, and what becomes of them. Pure: what is known goes in, what has changed comes out.

An error that sessions got over becomes a lesson with what ended it; a correction that people repeat becomes one in their own words. What
has no resolution becomes none. A decision is kept: what was approved keeps its words, what was rejected stays so until there is more
evidence, and better advice is proposed as the successor of what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from .._findings import ErrorSeen, Fix
from .._hash import blake2b
from .._text import clean, one_line
from ..mine import Case
from ..mine._cluster import Pattern
from ..mine._words import head, place
from ..model import format_time
from . import EVIDENCE, Lesson
from .rank import wilson

ERRORS = frozenset({"recurring_error", "recovery", "tool_thrash"})
"""Types of patterns that are about an error, by its fingerprint."""
LONGEST = 600
"""Characters of a resolution: it is to be read at the start of a session."""

replace = msgspec.structs.replace


class Gate(msgspec.Struct, frozen=True):
    """How much evidence is asked for."""

    propose: int = 2
    deliver: int = 3
    auto: bool = False
    """What passes is approved without a person."""


def propose(patterns: Iterable[Pattern], cases: Mapping[str, Case], known: Sequence[Lesson], gate: Gate, now: datetime) -> list[Lesson]:
    """The lessons that are new, or of which something has changed."""
    at = format_time(now)
    by_id = {lesson.id: lesson for lesson in known}
    current = dict(by_id)
    every = list(drafts(patterns, cases, gate))
    made_now = [draft for draft, _, _ in every if draft]
    for draft, fingerprint, ends in every:
        if draft is not None:
            old = by_id.get(draft.id) or _same_words(draft, known)
            made = [_renewed(old, _with_merged(draft, old, made_now, by_id))] if old else _proposed(draft, known, at, gate)
            current.update((one.id, one) for one in made)
        for lesson in current.values() if fingerprint else ():
            if lesson.fingerprint == fingerprint and lesson.status == "approved":
                keys = {lesson.key, *(by_id[name].key for name in lesson.merged if name in by_id)} - {""}
                current[lesson.id] = _recounted(lesson, keys, ends)
    return [lesson for name, lesson in current.items() if lesson != by_id.get(name)]


def _proposed(draft: Lesson, known: Sequence[Lesson], at: str, gate: Gate) -> list[Lesson]:
    """A new proposal, and those that it takes the place of; nothing when there is better advice already."""
    rivals = [one for one in known if one.fingerprint and one.fingerprint == draft.fingerprint and one.status in ("approved", "proposed")]
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
    """The lesson of a correction whose words have shifted: most of what it rests on is the same."""
    if draft.kind != "correction":
        return None
    mine = {ref.partition("#")[0] for ref in draft.evidence}
    for one in known:
        if one.kind == "correction" and 2 * len(mine & {ref.partition("#")[0] for ref in one.evidence}) >= len(mine):
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


# ── drafts ───────────────────────────────────────────────────────────────────────────────────────────────────────────
class End(msgspec.Struct, frozen=True):
    """How an error ended in one session. No key: it did not, or nobody knows why."""

    root: str
    at: str
    ref: str
    key: str = ""
    fix: Fix | None = None
    is_over: bool = False


def drafts(patterns: Iterable[Pattern], cases: Mapping[str, Case], gate: Gate) -> Iterator[tuple[Lesson | None, str, Sequence[End]]]:
    """What the patterns come to; and each error that they are about, with how it ended everywhere."""
    by_error: dict[str, list[Pattern]] = {}
    for pattern in patterns:
        if pattern.type in ERRORS:
            by_error.setdefault(pattern.locus.rpartition("\0")[2], []).append(pattern)
        elif pattern.type == "correction" and _passes(pattern, gate):
            yield _of_correction(pattern), "", ()
    for fingerprint, about in by_error.items():
        if any(_passes(pattern, gate) for pattern in about):
            ends = _ends(fingerprint, {uid for pattern in about for uid in pattern.uids}, cases)
            yield _of_error(fingerprint, about, ends, gate), fingerprint, ends


def _passes(pattern: Pattern, gate: Gate) -> bool:
    return pattern.signals >= gate.propose and pattern.sessions >= gate.propose


def _of_correction(pattern: Pattern) -> Lesson:
    return Lesson(
        id=pattern.id,
        kind="correction",
        problem=f"People had to say this in {pattern.sessions} sessions.",
        resolution=_short(clean(pattern.what)),
        repo=pattern.repos[0] if len(pattern.repos) == 1 else "",
        evidence=pattern.examples,
        signals=pattern.signals,
        sessions=pattern.sessions,
        helped=pattern.sessions,
        confidence=round(wilson(pattern.sessions, pattern.sessions)[0], 3),
        last_at=pattern.last_at,
    )


def _of_error(fingerprint: str, about: Sequence[Pattern], ends: Sequence[End], gate: Gate) -> Lesson | None:
    """None when nothing is known to have helped, or only once: what ended it in one session was about that session."""
    by_key: dict[str, list[End]] = {}
    for end in ends:
        if end.key:
            by_key.setdefault(end.key, []).append(end)
    by_key = {key: same for key, same in by_key.items() if len({end.root for end in same}) >= gate.propose}
    if not by_key:
        return None
    key = max(by_key, key=lambda key: (len({end.root for end in by_key[key]}), max(e.fix.confidence for e in by_key[key] if e.fix), key))
    best = max(by_key[key], key=lambda end: (end.fix.confidence if end.fix else 0.0, end.at, end.ref))
    main = max(about, key=lambda pattern: (pattern.type == "recurring_error", pattern.sessions))
    thrash = next((pattern for pattern in about if pattern.type == "tool_thrash"), None)
    repos = sorted({repo for pattern in about for repo in pattern.repos})
    agents = sorted({agent for pattern in about for agent in pattern.agents})
    sessions, helped = len({end.root for end in ends}), len({end.root for end in by_key[key]})
    assert best.fix is not None
    return Lesson(
        id=_hash(fingerprint, key),
        kind="error",
        problem=one_line(main.what.partition(" → ")[0] if main.type == "recovery" else main.what),
        resolution=_short(clean(_told(best.fix, {end.fix.steps[0].summary for end in by_key[key] if end.fix}))),
        # What was seen in one place only is told there only: elsewhere it may be wrong.
        repo=repos[0] if len(repos) == 1 else "",
        agent=agents[0] if thrash and len(agents) == 1 else "",
        tool=one_line(thrash.what.partition(":")[0]) if thrash and len(agents) == 1 else "",
        fingerprint=fingerprint,
        key=key,
        evidence=tuple(end.ref for end in sorted(by_key[key], key=lambda end: end.at, reverse=True))[:EVIDENCE],
        signals=max(pattern.signals for pattern in about),
        sessions=sessions,
        helped=helped,
        confidence=round(wilson(helped, sessions)[0], 3),
        last_at=max(pattern.last_at for pattern in about),
    )


def _ends(fingerprint: str, uids: Iterable[str], cases: Mapping[str, Case]) -> list[End]:
    found = []
    for uid in sorted(uids):
        case = cases.get(uid)
        error = next((one for one in case.digest.errors if one.signature.fingerprint == fingerprint), None) if case else None
        if case is None or error is None:
            continue
        fix = next((one for one in case.digest.fixes if one.fingerprint == fingerprint and _says_what(one, error)), None)
        seq = fix.steps[0].seq if fix else error.last_seq
        is_over = any(one.fingerprint == fingerprint and one.fixed_seq is not None for one in case.digest.fixes)
        found.append(End(case.root, case.at, f"{uid}#{seq}", key_of(fix) if fix else "", fix, is_over))
    return found


def _says_what(fix: Fix, error: ErrorSeen) -> bool:
    """Whether a fix tells what to do. Trying again does not, nor does another call of a tool whose words are not kept."""
    return fix.is_shown and fix.how != "retry" and (fix.how != "changed" or error.action == "shell")


def key_of(fix: Fix) -> str:
    """What a fix comes down to. A command is the same whatever it is done to; a call that was made differently only in the same words."""
    step = fix.steps[0]
    if step.how == "edit":
        return f"edit {place(step.files[0]) if step.files else one_line(step.summary)}"
    if step.how == "read":
        return "read"
    return f"{step.how} {head(step.summary) if step.how == 'command' else one_line(step.summary)}"


def _told(fix: Fix, summaries: set[str]) -> str:
    """In words; `summaries` are those of all the fixes that come down to the same."""
    step = fix.steps[0]
    if step.how == "edit":
        where = ", ".join(place(path) for path in step.files[:3]) or step.summary
        return f"Change {where}:\n{fix.diff}" if fix.diff else f"Change {where}."
    if step.how == "read":
        return "Read it first, then try again."
    if step.how == "command" and len(summaries) == 1:
        return f"Run `{step.summary}`, then try again."
    if step.how == "command":
        return f"Run `{head(step.summary)}` for it (for instance `{step.summary}`), then try again."
    return f"Call it in this way: `{step.summary}`"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _hash(*parts: str) -> str:
    return blake2b("\0".join(sorted(set(parts))).encode("utf-8", "replace"), digest_size=6).hexdigest()


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
        id=_hash(problem, resolution, *fields.values()),
        problem=one_line(problem),
        resolution=clean(resolution).strip(),
        evidence=tuple(dict.fromkeys(evidence))[:EVIDENCE],
        signals=len(evidence),
        sessions=sessions,
        made_at=at,
        last_at=at,
        **fields,  # type: ignore[arg-type] # Names of fields that are texts.
    )
