"""Skill logs of the older kind: one file of JSON lines for each session, one line for each
invocation. Nothing here writes."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from ._old_lines import Line, Problem, read_lines
from ._skill_fold import Check, SkillEntry, moment_of, whole_entry
from ._skill_rates import REFUSED

BEGINS = b'{"session_id":'


class OldSkills(msgspec.Struct, frozen=True):
    """The invocations of one file, in its order, and what was wrong with it."""

    session_id: str
    entries: list[SkillEntry]
    problems: list[Problem]


def read_skills(file: Path) -> OldSkills:
    """What an old skill log says. Raises ReadError when there is no such file, or it cannot be
    read; an empty one has no entries.

    The session is the one that the file is named for: a line that names another says so in the
    problems. An entry without a time (or with that of the year 1, which a forgotten one was written
    as) has the time of the one before it, or else that of the file.
    """
    problems: list[Problem] = []
    found: dict[str, SkillEntry] = {}
    session_id = file.name.removesuffix(".jsonl")
    last = None
    for line in read_lines(file, BEGINS, problems):
        name = f"old-{blake2b(line.raw, digest_size=12).hexdigest()}"
        if name in found:
            problems.append(Problem(line.offset, "the same entry as before; it counts once"))
            continue
        if moment_of(line.data.get("timestamp")) is None:
            problems.append(
                Problem(
                    line.offset,
                    "an entry without a time; it has that of the one before it, or of the file",
                )
            )
            last = last or datetime.fromtimestamp(file.stat().st_mtime, UTC)
        base = SkillEntry(id=name, session_id=session_id, timestamp=last)
        found[name] = entry_of(line, base, problems)
        last = found[name].timestamp
    return OldSkills(session_id, list(found.values()), problems)


def entry_of(line: Line, base: SkillEntry, problems: list[Problem]) -> SkillEntry:
    data = dict(line.data)
    named = data.pop("session_id", None)
    if named and named != base.session_id:
        problems.append(
            Problem(
                line.offset, f"the entry names another session than its file: {str(named)[:100]}"
            )
        )
        data["session_named"] = named
    attempts = data.get("attempts")
    if isinstance(attempts, list):
        data["attempts"] = [_with_check(attempt) for attempt in attempts]
    entry = whole_entry(data, base)
    if entry.final_status == "unknown":
        problems.append(
            Problem(
                line.offset,
                f"status {entry.status_word or ''!r} is not known; the entry counts as unknown",
            )
        )
    return entry


def _with_check(attempt: Any) -> Any:
    """`verified` could only say yes or no there, and said no for "not checked" as well: a no counts
    when a verdict bears it out."""
    if not isinstance(attempt, dict):
        return attempt
    if attempt.get("verified") is True:
        return {**attempt, "checks": [{"by": "old log", "passed": True}]}
    verdict = attempt.get("verdict")
    if attempt.get("verified") is False and isinstance(verdict, str) and verdict in REFUSED:
        return {
            **attempt,
            "checks": [msgspec.to_builtins(Check(by="verdict", passed=False, detail=verdict))],
        }
    return attempt
