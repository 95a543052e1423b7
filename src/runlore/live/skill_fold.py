"""Skill invocations as values, and the fold that builds them from the records of a log.

Pure: nothing here reads a file or the clock. An invalid record costs only its own content: a field
of the wrong type is left out, a finish without its start becomes an entry of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Any, Literal

import msgspec

from ..errors import ModelError
from ..model import LogRecord, Plain, Usage, parse_time

Status = Literal["running", "pass", "fail", "skip", "unknown"]
"""`running`: begun, without an end in the log.

`unknown`: an old log has a word of its own, which is stored beside it.
"""

STARTED, FINISHED, WHOLE = "skill.started", "skill.finished", "skill.entry"
ATTEMPT_STARTED, ATTEMPT_FINISHED = "skill.attempt_started", "skill.attempt_finished"

FOLD_VERSION = 1
"""Increase it when the meaning of a record changes: snapshots of older versions are then ignored.
"""

MAX_ATTEMPTS = 1000
"""Maximum number of attempts stored for one invocation.

The latest are stored, because the last one decides; the others are counted.
"""


class Check(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """Evidence for a result: an exit code, a test, a person.

    A model's opinion of its own work is none.
    """

    by: str
    passed: bool
    command: str | None = None
    exit_code: int | None = None
    detail: str | None = None


class SkillAttempt(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """One try within an invocation, by one model.

    `verified` has three values: True (all checks passed), False (one did not), None (nothing was
    checked). It follows from `checks`, so it always has its evidence.
    """

    attempt: int = 0
    model: str | None = None
    tier: str | int | None = None
    warm_start: bool | None = None
    output_summary: str | None = None
    runner_output: str | None = None
    verified: bool | None = None
    """True or False; None if nothing was checked."""
    checks: tuple[Check, ...] = ()
    verdict: str | None = None
    feedback: str | None = None
    error: str | None = None
    timestamp: datetime | None = None
    duration_ms: int | None = None
    usage: Usage | None = None
    usd: float | None = None
    is_open: bool = False
    """Begun, without an end in the log."""
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


class SkillEntry(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """One invocation of a skill, with its attempts.

    `timestamp` is its start; `model_used` is the model of the last attempt.
    """

    id: str
    session_id: str = ""
    skill: str = "unknown"
    phase: str | None = None
    timestamp: datetime | None = None
    project_root: str | None = None
    file_path: str | None = None
    input: Any = None
    attempts: tuple[SkillAttempt, ...] = ()
    left_out: int = 0
    """Number of attempts that are only counted, see MAX_ATTEMPTS."""
    final_status: Status = "running"
    status_word: str | None = None
    """The status in the log's own words, if it is not one of ours."""
    model_used: str | None = None
    message: str | None = None
    error: str | None = None
    duration_ms: int | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def verified(self) -> bool | None:
        """Verification of the result: that of the last attempt."""
        return self.attempts[-1].verified if self.attempts else None


class SkillsView(msgspec.Struct, frozen=True):
    """All invocations of a session by id, in the order of their start, up to record `seq`."""

    entries: dict[str, SkillEntry] = {}
    seq: int = -1
    version: int = FOLD_VERSION


_WORDS: dict[str, Status] = {
    "pass": "pass", "passed": "pass", "ok": "pass", "success": "pass", "succeeded": "pass",
    "fail": "fail", "failed": "fail", "failure": "fail", "error": "fail",
    "skip": "skip", "skipped": "skip",
    "running": "running",
}  # fmt: skip


def status_of(word: str) -> Status | None:
    """Return our status for a word, ours or an older one (`ok`, `error`, `skipped`), or None."""
    return _WORDS.get(word.strip().lower())


def verified_by(checks: tuple[Check, ...]) -> bool | None:
    """Return True if all checks passed, False if one did not, None without any."""
    return all(check.passed for check in checks) if checks else None


def fold(view: SkillsView, record: LogRecord, session_id: str = "") -> SkillsView:
    """Return the view with this record added. A record of another view only moves the position."""
    return fold_all(view, (record,), session_id)


def fold_all(view: SkillsView, records: Iterable[LogRecord], session_id: str = "") -> SkillsView:
    """Return the view with these records added. The entries are copied once."""
    entries: dict[str, SkillEntry] | None = None
    seq = view.seq
    for record in records:
        seq = max(seq, record.seq)
        if record.type.startswith("skill."):
            if entries is None:
                entries = dict(view.entries)
            _apply(entries, record, session_id)
    return SkillsView(view.entries if entries is None else entries, seq)


def brief(record: LogRecord) -> LogRecord:
    """Return the record without the long texts of a skill, as rates, histories and snapshots need
    it."""
    if not record.type.startswith("skill.") or not isinstance(record.payload, dict):
        return record
    shortened = {
        name: value
        for name, value in record.payload.items()
        if name not in ("input", "runner_output")
    }
    attempts = shortened.get("attempts")
    if isinstance(attempts, list):
        shortened["attempts"] = [
            {name: value for name, value in one.items() if name != "runner_output"}
            if isinstance(one, dict)
            else one
            for one in attempts
        ]
    return msgspec.structs.replace(record, payload=shortened)


def _apply(entries: dict[str, SkillEntry], record: LogRecord, session_id: str) -> None:
    payload: Mapping[str, Any] = record.payload if isinstance(record.payload, dict) else {}
    run = payload.get("run", payload.get("id"))
    # A record without a readable run is still one event, under the record's own id.
    name = run if isinstance(run, str) and run else record.id
    before = entries.get(name) or SkillEntry(id=name, session_id=session_id, timestamp=record.ts)
    after = _next(before, record, payload)
    if after is not None:
        entries[name] = after


def _next(entry: SkillEntry, record: LogRecord, payload: Mapping[str, Any]) -> SkillEntry | None:
    """Return the entry after this record; None for a record type of a newer runlore."""
    if entry.final_status != "running":
        return entry  # A call that was repeated after its end counts once.
    if record.type == STARTED:
        return _updated(entry, payload)
    if record.type == ATTEMPT_STARTED:
        return _with_attempt(entry, {**payload, "is_open": True}, record)
    if record.type == ATTEMPT_FINISHED:
        return _with_attempt(entry, payload, record)
    if record.type == FINISHED:
        return _finished(_updated(entry, payload), payload)
    if record.type == WHOLE:
        return whole_entry(payload, entry)
    return None


def whole_entry(data: Mapping[str, Any], base: SkillEntry) -> SkillEntry:
    """Return an invocation from plain data. Unreadable fields stay as in `base`."""
    listed = data.get("attempts")
    attempts = (
        [attempt_of(one, n) for n, one in enumerate(listed, 1) if isinstance(one, dict)]
        if isinstance(listed, list)
        else []
    )
    entry = _updated(base, data)
    moment = moment_of(data.get("timestamp"))
    return _finished(
        msgspec.structs.replace(
            entry,
            attempts=tuple(attempts[-MAX_ATTEMPTS:]),
            left_out=max(0, len(attempts) - MAX_ATTEMPTS),
            timestamp=moment or entry.timestamp,
        ),
        data,
    )


def attempt_of(data: Mapping[str, Any], number: int) -> SkillAttempt:
    """Return an attempt from plain data, with `verified` derived from its checks."""
    try:
        # Faster than field by field, and usually valid.
        parsed = msgspec.convert(data, SkillAttempt)
    except (ValueError, RecursionError):
        parsed = SkillAttempt(
            **_fitting(
                SkillAttempt, {**data, "checks": msgspec.to_builtins(_checks(data.get("checks")))}
            )
        )
    extra = _strange(SkillAttempt, data)
    timestamp = moment_of(data.get("timestamp"))
    return msgspec.structs.replace(
        parsed,
        attempt=parsed.attempt or number,
        timestamp=timestamp,
        verified=verified_by(parsed.checks),
        extra={**parsed.extra, **extra} if extra else parsed.extra,
    )


def _checks(listed: Any) -> tuple[Check, ...]:
    checks = []
    for check in listed if isinstance(listed, list | tuple) else ():
        with suppress(ValueError):
            checks.append(msgspec.convert(check, Check))
    return tuple(checks)


def moment_of(value: Any) -> datetime | None:
    """Return a time as written; None without one, and for the year 1, which some programs write
    then."""
    if not isinstance(value, str | datetime):
        return None
    try:
        moment = parse_time(value)
    except ModelError:
        return None
    return moment if moment.year > 1 else None


def _updated(entry: SkillEntry, payload: Mapping[str, Any]) -> SkillEntry:
    """Return the entry with the facts about the whole invocation from the record."""
    fields = _fitting(SkillEntry, payload)
    for name in ("id", "session_id", "attempts", "left_out", "final_status", "timestamp"):
        fields.pop(name, None)
    extra_fields = fields.pop("extra", {})
    strange = _strange(SkillEntry, payload)
    return msgspec.structs.replace(
        entry,
        **fields,
        extra={**entry.extra, **extra_fields, **strange}
        if extra_fields or strange
        else entry.extra,
    )


def _finished(entry: SkillEntry, payload: Mapping[str, Any]) -> SkillEntry:
    word = payload.get("final_status")
    status = status_of(word) if isinstance(word, str) else None
    stated = (
        word
        if status is None and isinstance(word, str) and word != "unknown"
        else entry.status_word
    )
    last = entry.attempts[-1].model if entry.attempts else None
    extra = entry.extra
    if last and entry.model_used and last != entry.model_used:
        extra = {**extra, "model_used": entry.model_used}
    return msgspec.structs.replace(
        entry,
        final_status=status or "unknown",
        status_word=stated,
        model_used=last or entry.model_used,
        extra=extra,
    )


def _with_attempt(entry: SkillEntry, payload: Mapping[str, Any], record: LogRecord) -> SkillEntry:
    number = payload.get("attempt")
    if type(number) is not int:
        number = len(entry.attempts) + entry.left_out + 1
    place = next(
        (n for n in range(len(entry.attempts) - 1, -1, -1) if entry.attempts[n].attempt == number),
        None,
    )
    before = None if place is None else entry.attempts[place]
    if before is not None and not before.is_open:
        return entry  # Recorded twice: it counts once.
    after = attempt_of({"timestamp": before.timestamp if before else record.ts, **payload}, number)
    if place is not None:
        attempts = (*entry.attempts[:place], after, *entry.attempts[place + 1 :])
    else:
        attempts = (*entry.attempts, after)[-MAX_ATTEMPTS:]
    left_out = entry.left_out + len(entry.attempts) + (place is None) - len(attempts)
    return msgspec.structs.replace(
        entry,
        attempts=attempts,
        left_out=left_out,
        model_used=attempts[-1].model or entry.model_used,
    )


@cache
def _types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def _fitting(kind: type[msgspec.Struct], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of this struct that the data has with the right type."""
    types = _types(kind)
    fitting = {}
    for name, value in data.items():
        if name == "timestamp":
            fitting[name] = moment_of(value)
        elif name in types:
            with suppress(ValueError, RecursionError):
                fitting[name] = msgspec.convert(value, types[name])
    return fitting


def _strange(kind: type[msgspec.Struct], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the data that this version does not know, so that they survive."""
    types = _types(kind)
    return {name: value for name, value in data.items() if name not in types and name != "run"}
