"""What patterns come to: a problem, and what ended it as often as the gate asks for. Pure.

An error that sessions got over becomes a draft with what ended it; a correction that people repeat becomes one in their own words. What
has no resolution becomes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from .._findings import ErrorSeen, Fix
from .._hash import blake2b
from .._text import clean, one_line
from ..mine import Case
from ..mine._cluster import Pattern
from ..mine._words import head, place
from . import EVIDENCE, Lesson
from .rank import wilson

ERRORS = frozenset({"recurring_error", "recovery", "tool_thrash"})
"""Types of patterns that are about an error, by its fingerprint."""
LONGEST = 600
"""Characters of a resolution: it is to be read at the start of a session."""


class Gate(msgspec.Struct, frozen=True):
    """How much evidence is asked for."""

    propose: int = 2
    deliver: int = 3
    auto: bool = False
    """What passes is approved without a person."""


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
        id=hashed(fingerprint, key),
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


def hashed(*parts: str) -> str:
    return blake2b("\0".join(sorted(set(parts))).encode("utf-8", "replace"), digest_size=6).hexdigest()
