"""Reader of skill logs in the older format: a file per session, a JSON line per invocation.

Nothing here writes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from ..skill_fold import Check, SkillEntry, moment_of, whole_entry
from ..skill_rates import REFUSED
from .lines import Line, Problem, read_lines

BEGINS = b'{"session_id":'


class SkillFile(msgspec.Struct, frozen=True):
    """The invocations of one file, in its order, and its problems."""

    session_id: str
    entries: list[SkillEntry]
    problems: list[Problem]


def read_skills(file: Path) -> SkillFile:
    """Read a skill log. An empty file has no entries. Raises ReadError if it cannot be read.

    The session is the one that the file is named for; a line that names another is reported. An
    entry without a time (or with the year 1, which was written for a missing one) gets the time of
    the entry before it, or else that of the file.
    """
    problems: list[Problem] = []
    entries: dict[str, SkillEntry] = {}
    session_id = file.name.removesuffix(".jsonl")
    last = None
    for line in read_lines(file, BEGINS, problems):
        name = f"old-{blake2b(line.raw, digest_size=12).hexdigest()}"
        if name in entries:
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
        entries[name] = _to_entry(line, base, problems)
        last = entries[name].timestamp
    return SkillFile(session_id, list(entries.values()), problems)


def _to_entry(line: Line, base: SkillEntry, problems: list[Problem]) -> SkillEntry:
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
    """Return the attempt with a check derived from `verified`.

    The old format wrote False for "not checked" too: it counts only if a verdict agrees.
    """
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
