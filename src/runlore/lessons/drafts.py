"""What patterns come to: a problem, and what ended it as often as the gate asks for. Pure.

An error that sessions got over becomes a draft with what ended it, and so does a command that is run again and again while it fails; a
test that passes when it is run again, one that says so; a correction that people repeat, one in their own words; a step that takes minutes,
one that says how many; a skill that fails, one with the model that passed where others had failed. What has no resolution becomes none:
sessions that cost too much, fill their context or are abandoned do not tell how to do better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from .._text import clean, one_line
from ..mine import Case
from ..mine._cluster import Pattern
from ..mine._words import head, place
from ..model import ErrorSummary, Fix
from . import EVIDENCE, Lesson
from .rank import wilson

ERRORS = frozenset({"recurring_error", "recovery", "tool_thrash", "flaky_test"})
"""Types of patterns that are about an error, by its fingerprint."""
RETRY = "retry"
"""The key of an end for which nothing was done but to try again."""
LONGEST = 600
"""Characters of a resolution: it is to be read at the start of a session."""
AGAIN = "Run it again before you change anything: it has passed then, with nothing done in between."


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
    failed: str = ""
    """The command that failed."""

    @property
    def sureness(self) -> float:
        return self.fix.confidence if self.fix else 0.0


def drafts(patterns: Iterable[Pattern], cases: Mapping[str, Case], gate: Gate) -> Iterator[tuple[Lesson | None, str, Sequence[End]]]:
    """What the patterns come to; and what each of them is about, with how that ended everywhere."""
    by_error: dict[str, list[Pattern]] = {}
    others: list[Pattern] = []
    for pattern in patterns:
        if pattern.type in ERRORS:
            by_error.setdefault(pattern.locus.rpartition("\0")[2], []).append(pattern)
        elif _passes(pattern, gate):
            others.append(pattern)
    told: set[str] = set()
    for fingerprint, about in by_error.items():
        if any(_passes(pattern, gate) for pattern in about):
            ends = _ends(fingerprint, {uid for pattern in about for uid in pattern.uids}, cases)
            made = _of_error(fingerprint, about, ends, gate)
            told.update(made.evidence if made else ())
            yield made, fingerprint, ends
    for pattern in others:
        if pattern.type == "correction":
            yield _of_correction(pattern), "", ()
        elif pattern.type == "slow_step":
            yield _of_slow_step(pattern, cases), "", ()
        elif pattern.type in ("retry_storm", "failing_skill"):
            is_storm = pattern.type == "retry_storm"
            ends = _ends_of_command(pattern, cases) if is_storm else _ends_of_skill(pattern, cases)
            made = _of_command(pattern, ends, gate) if is_storm else _of_skill(pattern, ends, gate)
            # The same fixes of the same error are told with the error.
            if made is None or 2 * len(told.intersection(made.evidence)) < len(made.evidence):
                yield made, f"{pattern.type} {pattern.locus}", ends


def _passes(pattern: Pattern, gate: Gate) -> bool:
    return pattern.signals >= gate.propose and pattern.sessions >= gate.propose


def _only(names: Sequence[str]) -> str:
    """What was seen in one place only is told there only."""
    return names[0] if len(names) == 1 else ""


def _of_correction(pattern: Pattern) -> Lesson:
    return Lesson(
        id=pattern.id,
        kind="correction",
        problem=f"People had to say this in {pattern.sessions} sessions.",
        resolution=_short(clean(pattern.what)),
        repo=_only(pattern.repos),
        evidence=pattern.examples,
        signals=pattern.signals,
        sessions=pattern.sessions,
        helped=pattern.sessions,
        confidence=round(wilson(pattern.sessions, pattern.sessions)[0], 3),
        last_at=pattern.last_at,
    )


def _of_command(pattern: Pattern, ends: Sequence[End], gate: Gate) -> Lesson | None:
    same = _most(ends, gate)
    if not same:
        return None
    assert same[0].fix is not None
    return Lesson(
        id=hashed("retry_storm", pattern.locus, same[0].key),
        kind="retries",
        about=pattern.locus,
        key=same[0].key,
        problem=one_line(pattern.what),
        resolution=_told(same[0].fix, same),
        repo=_only(pattern.repos),
        signals=pattern.signals,
        last_at=pattern.last_at,
        **_counted(same, ends),
    )


def _of_skill(pattern: Pattern, ends: Sequence[End], gate: Gate) -> Lesson | None:
    same = _most(ends, gate)
    if not same:
        return None
    return Lesson(
        id=hashed("failing_skill", pattern.locus, same[0].key),
        kind="skill",
        about=pattern.locus,
        key=same[0].key,
        problem=one_line(pattern.what),
        resolution=_short(f"Give it to {one_line(same[0].key)}: it passed the check there where another model had failed."),
        signals=pattern.signals,
        last_at=pattern.last_at,
        **_counted(same, ends),
    )


def _of_slow_step(pattern: Pattern, cases: Mapping[str, Case]) -> Lesson:
    """How long it takes is all that is known: so nothing is counted as having helped."""
    of = [case for uid in pattern.uids if (case := cases.get(uid))]
    times = sorted(took.seconds / took.count for case in of for took in case.digest.slow if head(took.command) == pattern.locus)
    usual, longest = (max(1, round(seconds / 60)) for seconds in (times[len(times) // 2], times[-1]))
    return Lesson(
        id=pattern.id,
        kind="slow",
        about=pattern.locus,
        problem=one_line(pattern.what),
        resolution=f"One run takes about {usual} min, at most {longest} were seen: allow that much, or let it run in the background.",
        repo=pattern.repo or "",
        evidence=pattern.examples,
        signals=pattern.signals,
        sessions=pattern.sessions,
        last_at=pattern.last_at,
    )


def _of_error(fingerprint: str, about: Sequence[Pattern], ends: Sequence[End], gate: Gate) -> Lesson | None:
    """None when nothing is known to have helped, or only once: what ended it in one session was about that session."""
    is_flaky = any(pattern.type == "flaky_test" for pattern in about)
    same = _most([end for end in ends if end.key != RETRY or is_flaky], gate)
    if not same:
        return None
    key, best = same[0].key, same[0]
    main = max(about, key=lambda pattern: (pattern.type == "recurring_error", pattern.sessions))
    thrash = next((pattern for pattern in about if pattern.type == "tool_thrash"), None)
    repos = sorted({repo for pattern in about for repo in pattern.repos})
    agents = sorted({agent for pattern in about for agent in pattern.agents})
    return Lesson(
        id=hashed(fingerprint, key),
        kind="flaky" if key == RETRY else "error",
        problem=one_line(main.what.partition(" → ")[0] if main.type == "recovery" else main.what),
        resolution=_told(best.fix, same) if best.fix else AGAIN,
        # What was seen in one place only is told there only: elsewhere it may be wrong.
        repo=_only(repos),
        agent=_only(agents) if thrash else "",
        tool=one_line(thrash.what.partition(":")[0]) if thrash and len(agents) == 1 else "",
        fingerprint=fingerprint,
        key=key,
        signals=max(pattern.signals for pattern in about),
        **_counted(same, ends),
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
        overs = [one for one in case.digest.fixes if one.fingerprint == fingerprint and one.fixed_seq is not None]
        key = key_of(fix, error) if fix else RETRY if any(one.how == "retry" for one in overs) else ""
        found.append(End(case.root, case.at, f"{uid}#{seq}", key, fix, bool(overs), error.command or ""))
    return found


def _ends_of_command(pattern: Pattern, cases: Mapping[str, Case]) -> list[End]:
    """How a command that failed again and again ended, whatever it said each time: with the surest of the fixes of its errors."""
    found = []
    for case in (cases[uid] for uid in pattern.uids if uid in cases):
        errors = {one.signature.fingerprint: one for one in case.digest.errors if one.command and head(one.command) == pattern.locus}
        fixes = [fix for fix in case.digest.fixes if fix.fingerprint in errors]
        fix = max((one for one in fixes if _says_what(one, errors[one.fingerprint])), key=lambda one: one.confidence, default=None)
        seq = fix.steps[0].seq if fix else max((one.last_seq for one in errors.values()), default=0)
        is_over = any(one.fixed_seq is not None for one in fixes)
        error = errors[fix.fingerprint] if fix else None
        key = key_of(fix, error) if fix and error else ""
        found.append(End(case.root, case.at, f"{case.uid}#{seq}", key, fix, is_over, error.command or "" if error else ""))
    return found


def _ends_of_skill(pattern: Pattern, cases: Mapping[str, Case]) -> list[End]:
    """Of a skill, the sessions in which it failed, and those in which another model passed where one had failed."""
    found = [End(case.root, case.at, case.uid) for uid in pattern.uids if (case := cases.get(uid))]
    for case in cases.values():
        models = {skill.rescued_by for skill in case.skills if skill.name == pattern.locus and skill.rescued_by}
        found += [End(case.root, case.at, case.uid, model, None, True) for model in sorted(models)]
    return found


def _most(ends: Iterable[End], gate: Gate) -> list[End]:
    """The ends that come down to what helped in most sessions, the surest of them first; none when that are too few."""
    by_key: dict[str, list[End]] = {}
    for end in ends:
        if end.key:
            by_key.setdefault(end.key, []).append(end)
    sure = {key: sorted(same, key=lambda end: (end.sureness, end.at, end.ref), reverse=True) for key, same in by_key.items()}
    found = max(sure, key=lambda key: (len(_roots(sure[key])), sure[key][0].sureness, key), default=None)
    return sure[found] if found is not None and len(_roots(sure[found])) >= gate.propose else []


def _roots(ends: Iterable[End]) -> set[str]:
    return {end.root for end in ends}


def _counted(same: Sequence[End], ends: Iterable[End]) -> dict[str, Any]:
    """What a lesson rests on: these ends, of all."""
    sessions, helped = len(_roots(ends)), len(_roots(same))
    newest = sorted(same, key=lambda end: end.at, reverse=True)
    return {
        "evidence": tuple(dict.fromkeys(end.ref for end in newest))[:EVIDENCE],
        "sessions": sessions,
        "helped": helped,
        "confidence": round(wilson(helped, sessions)[0], 3),
    }


def _says_what(fix: Fix, error: ErrorSummary) -> bool:
    """Whether a fix tells what to do. Trying again does not, nor does another call of a tool whose words are not kept."""
    return fix.is_shown and fix.how != "retry" and (fix.how != "changed" or error.action == "shell")


def key_of(fix: Fix, error: ErrorSummary) -> str:
    """What a fix comes down to. A command is the same whatever it is done to; a call that was made differently in what was different, if
    that is a word or a flag, and else only in the same words."""
    step = fix.steps[0]
    if step.how == "changed" and (other := swapped(error.command or "", step.summary)):
        return f"changed {other[0]} → {other[1]}"
    if step.how == "edit":
        return f"edit {place(step.files[0]) if step.files else one_line(step.summary)}"
    if step.how == "read":
        return "read"
    return f"{step.how} {head(step.summary) if step.how == 'command' else one_line(step.summary)}"


def _told(fix: Fix, same: Iterable[End]) -> str:
    """In words, clean and not too many; `same` are all the ends that come down to it."""
    best, *_ = same = list(same)
    other = swapped(best.failed, fix.steps[0].summary) if fix.steps[0].how == "changed" else None
    if other:
        return _short(clean(_swap_told(*other, fix.steps[0].summary)))
    return _short(clean(_in_words(fix, {end.fix.steps[0].summary for end in same if end.fix})))


def swapped(failed: str, worked: str) -> tuple[str, str] | None:
    """The one word of a command that another took the place of, that was left out (`""` for it) or, if it is a flag, put in."""
    if failed.endswith("…") or worked.endswith("…"):
        return None
    before, after = failed.split(), worked.split()
    gone, new = ([word for word in some if word not in others] for some, others in ((before, after), (after, before)))
    if len(gone) > 1 or len(new) > 1 or not set(before) & set(after):
        return None
    if gone:
        return gone[0], new[0] if new else ""
    return ("", new[0]) if new and new[0].startswith("-") else None


def _swap_told(gone: str, new: str, example: str) -> str:
    for_instance = f"for instance `{example}`"
    if not gone:
        return f"Call it with `{new}`, {for_instance}."
    return f"Use `{new}` instead of `{gone}`, {for_instance}." if new else f"Leave out `{gone}`, {for_instance}."


def _in_words(fix: Fix, summaries: set[str]) -> str:
    step = fix.steps[0]
    if step.how == "edit":
        where = ", ".join(place(path) for path in step.files[:3]) or step.summary
        diff = _without_homes(fix.diff, step.files)
        return f"Change {where}:\n{diff}" if diff else f"Change {where}."
    if step.how == "read":
        return "Read it first, then try again."
    if step.how == "command" and len(summaries) == 1:
        return f"Run `{step.summary}`, then try again."
    if step.how == "command":
        return f"Run `{head(step.summary)}` for it (for instance `{step.summary}`), then try again."
    return f"Call it in this way: `{step.summary}`"


def _without_homes(diff: str, files: Iterable[str]) -> str:
    """A change without where somebody keeps his checkout: it says which file it is about already, and others will read it."""
    for path in files:
        diff = diff.removeprefix(f"{path}\n").replace(path, place(path))
    return diff


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def hashed(*parts: str) -> str:
    return blake2b("\0".join(sorted(set(parts))).encode("utf-8", "replace"), digest_size=6).hexdigest()
