"""What the entries of hyperguild's skill logs mean: a fold, in the words in which runlore's own log
tells of skills."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from .. import Normalized, Record, Source
from ..runlore.words import attempt_line, attempt_of, is_failure
from ..shared.fold import load
from ..shared.pick import number, pick, time_of
from ..shared.stream import Entries, EntryFold
from ..shared.tools import key_values, one_line, text_of

CARRY = 1
"""The layout of `Log`; changed only together with the adapter's `version`."""
REFUSED = frozenset({"escalate", "error"})
"""Verdicts of a verifier that did not take what an attempt gave."""
ENTRY = frozenset({"skill", "final_status", "attempts", "phase", "project_root", "model_used"})
"""What an entry has: any of these may be missing, and it is still one."""


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
        found = time_of(entry.get("timestamp"))
        if found is not None and found.year > 1:
            self.state.at = found
        return self.state.at

    def entry(self, entry: dict[str, Any]) -> None:
        """A whole invocation: that it began, each attempt, and how it ended."""
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
        told = key_values(given) if isinstance(given, dict) else text_of(given)
        body = "\n".join(text for text in (told, key_values(other)) if text)
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

    def attempt(self, attempt: Any, skill: str) -> None:
        """Add the result of one attempt, and what is known of it: verified, failed, or not
        checked."""
        told = attempt if isinstance(attempt, dict) else {"output_summary": text_of(attempt)}
        found = attempt_of({**told, "checks": checks_of(told)})
        has_raised = found.error is not None
        self.emit(
            "error" if has_raised else "lifecycle", found.body,
            f"skill.attempt_finished/{found.word}", attempt_line(told, found.word),
            tool=skill, is_error=has_raised or found.word == "failed",
            model=pick(told, "model", of=str),
            duration_ms=number(told.get("duration_ms")),
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
    """The evidence that there is for an attempt. A no without a verdict may as well mean that
    nobody looked."""
    if attempt.get("verified") is True:
        return [{"by": "log", "passed": True}]
    verdict = pick(attempt, "verdict", of=str)
    return (
        [{"by": "verdict", "passed": False}]
        if attempt.get("verified") is False and verdict in REFUSED
        else []
    )
