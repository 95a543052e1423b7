"""The meaning of the entries of hyperguild's skill logs: a fold, with the events that runlore's own
log has for skills."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from .. import Normalized, Record, Source
from ..runlore.skills import attempt_line, attempt_of, is_failure
from ..shared.fold import load
from ..shared.pick import number, pick, time_of
from ..shared.stream import Entries, EntryFold
from ..shared.tools import key_values, one_line, text_of

CARRY = 1
"""The layout of `Log`; changed only together with the adapter's `version`."""
REFUSED = frozenset({"escalate", "error"})
"""Verdicts of a verifier that rejected an attempt."""
ENTRY = frozenset({"skill", "final_status", "attempts", "phase", "project_root", "model_used"})
"""Fields of an entry. A record with one of these is an entry."""


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    return Reader(source, carry).run(records)


class Log(Entries):
    version: int = CARRY
    at: datetime | None = None
    """The time of the last entry that had one."""


class Reader(EntryFold[Log]):
    record_start = b'{"session_id":'

    def __init__(self, source: Source, carry: bytes | None) -> None:
        super().__init__(source, load(carry, Log, CARRY))

    def line(self, value: dict[str, Any]) -> None:
        follows = self.parent
        if not self.admit(f"{self.session()}/{self.stamp().hex()}"):
            return
        self.ts = self.when(value)
        if value.keys() & ENTRY:
            self.entry(value)
        else:
            self.unknown(None)
        self.remember(self.state.anchor, follows)

    def when(self, entry: dict[str, Any]) -> datetime | None:
        """Return the time of an entry, or that of the one before it."""
        at = time_of(entry.get("timestamp"))
        if at is not None and at.year > 1:
            self.state.at = at
        return self.state.at

    def entry(self, entry: dict[str, Any]) -> None:
        """Add a whole invocation: its beginning, each attempt, and its end."""
        state = self.state
        skill = one_line(pick(entry, "skill", of=str) or "")[:200] or "unknown"
        phase = one_line(pick(entry, "phase", of=str) or "")[:200]
        state.cwd = pick(entry, "project_root", of=str) or state.cwd
        state.model = pick(entry, "model_used", of=str) or state.model
        if not state.is_titled:
            self.set_title(f"{skill} {phase}".strip(), 1)
        named = entry.get("session_id")
        other = {"session_id": named} if named not in (None, "", self.session()) else {}
        given = entry.get("input")
        task = key_values(given) if isinstance(given, dict) else text_of(given)
        body = "\n".join(text for text in (task, key_values(other)) if text)
        self.emit(
            "lifecycle",
            body,
            "skill.started",
            f"skill {skill}{f', {phase}' if phase else ''} began",
            tool=skill,
        )
        attempts = entry.get("attempts")
        for attempt in (
            attempts if isinstance(attempts, list) else [] if attempts is None else [attempts]
        ):
            self.attempt(attempt, skill)
        self.ended(entry, skill)

    def attempt(self, given: Any, skill: str) -> None:
        """Add an attempt, which is verified, failed or unchecked."""
        fields = given if isinstance(given, dict) else {"output_summary": text_of(given)}
        attempt = attempt_of({**fields, "checks": checks_of(fields)})
        has_raised = attempt.error is not None
        self.emit(
            "error" if has_raised else "lifecycle", attempt.body,
            f"skill.attempt_finished/{attempt.word}", attempt_line(fields, attempt.word),
            tool=skill, is_error=has_raised or attempt.word == "failed",
            model=pick(fields, "model", of=str),
            duration_ms=number(fields.get("duration_ms")),
        )  # fmt: skip

    def ended(self, entry: dict[str, Any], skill: str) -> None:
        status = one_line(pick(entry, "final_status", of=str) or "")[:100] or "unknown"
        path = pick(entry, "file_path", of=str)
        self.emit(
            "lifecycle", pick(entry, "message", of=str) or "", f"skill.finished/{status}",
            f"skill {skill}: {status}", tool=skill,
            is_error=is_failure(status), duration_ms=number(entry.get("duration_ms")),
            model=pick(entry, "model_used", of=str),
            files=(path,) if path else (),
        )  # fmt: skip


def checks_of(attempt: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the evidence for an attempt. `verified: false` without a verdict may mean that nobody
    checked."""
    if attempt.get("verified") is True:
        return [{"by": "log", "passed": True}]
    verdict = pick(attempt, "verdict", of=str)
    return (
        [{"by": "verdict", "passed": False}]
        if attempt.get("verified") is False and verdict in REFUSED
        else []
    )
