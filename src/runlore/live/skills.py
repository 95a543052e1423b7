"""The skills view of a session's log: invocations, their attempts, and success rates.

    with session.skill("tdd", phase="red", input={"spec": "add() adds"}) as run:
        with run.attempt(model="small") as attempt:
            attempt.output("wrote test_add.py", runner_output=text)
            attempt.verified(by="exit_code", command="pytest -q test_add.py", exit_code=code)
    session.skills.rate("tdd", model="small", window="7d")

The start is in the log before the work begins, so that a crash leaves a trace. An exception turns
the run into a `fail`, is stored with it, and reaches the caller. Knows no file: it writes and reads
through the log it is given.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from traceback import format_exception_only
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self
from uuid import uuid4

import msgspec

from ..errors import Conflict, LogError, ModelError
from ..model import LogRecord, Usage
from .skill_fold import (
    ATTEMPT_FINISHED,
    ATTEMPT_STARTED,
    FINISHED,
    FOLD_VERSION,
    STARTED,
    WHOLE,
    Check,
    SkillAttempt,
    SkillEntry,
    SkillsView,
    Status,
    brief,
    fold,
    fold_all,
    status_of,
    verified_by,
)
from .skill_rates import (
    Rate,
    format_history,
    pass_rate,
    pass_rates,
    prepend_history,
    result_of,
    window_of,
)

if TYPE_CHECKING:
    from .log import SessionStore

__all__ = [
    "Attempt", "Check", "Rate", "SkillAttempt", "SkillEntry", "SkillLog", "SkillRun", "SkillsView",
    "Status", "entries_of", "fold",
    "fold_all", "format_history", "pass_rate", "pass_rates", "prepend_history", "result_of",
    "status_of", "window_of",
]  # fmt: skip

SNAPSHOT = "skills"
SNAPSHOT_EVERY = 1000
"""Records between two snapshots."""

ERROR_CHARS = 2000


class Log(Protocol):
    """The parts of a session's log that this view needs."""

    @property
    def id(self) -> str: ...

    def record(
        self, type: str, payload: dict[str, Any], *, key: str | None = None
    ) -> LogRecord: ...

    def records(self, after: int = -1) -> Iterator[LogRecord]: ...

    def snapshot(self, name: str) -> tuple[int, bytes] | None: ...

    def put_snapshot(self, name: str, seq: int, data: bytes) -> None: ...


class SkillLog:
    """The skills of one session. Reading continues from the last snapshot."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._view: SkillsView | None = None
        self._saved = -1  # Seq of the snapshot on disk.
        self._since = -1  # The first record that this handle wrote.

    def run(
        self,
        skill: str,
        *,
        phase: str | None = None,
        input: Any = None,
        project_root: str | None = None,
        file_path: str | None = None,
        model: str | None = None,
        key: str | None = None,
    ) -> SkillRun:
        """Return an invocation, to be used with `with`.

        `key` names it: a call that is repeated with the same key counts once.
        """
        if not isinstance(skill, str) or not skill.strip():
            raise ModelError("a skill needs a name")
        about = {
            "skill": skill,
            "phase": phase,
            "input": input,
            "project_root": project_root,
            "file_path": file_path,
            "model_used": model,
        }
        known = self.view().entries.get(key) if key else None
        return SkillRun(self, key or uuid4().hex, about, known=known, is_keyed=key is not None)

    def add(self, entry: SkillEntry, *, key: str | None = None) -> LogRecord:
        """Add a whole invocation of another program after it ended.

        The default time is the record's.
        """
        if entry.final_status == "running":
            raise ModelError(
                "an invocation that is still running is told with run(), not with add()"
            )
        plain = msgspec.to_builtins(entry)
        plain.pop("session_id", None)  # It belongs to the session of this log.
        return self.record(WHOLE, plain, key=key)

    def finish(
        self, id: str, status: str, *, message: str | None = None, error: str | None = None
    ) -> LogRecord:
        """End an invocation whose process cannot: it was killed, or the work continues
        elsewhere."""
        return self.record(
            FINISHED,
            {"run": id, "final_status": _known(status), "message": message, "error": error},
        )

    def record(self, type: str, payload: dict[str, Any], *, key: str | None = None) -> LogRecord:
        """Append a record of this view, and update the snapshot from time to time."""
        record = self._log.record(type, _without_none(payload), key=key)
        if self._since < 0:
            self._since = record.seq
        elif (
            type in (FINISHED, WHOLE)
            and record.seq - max(self._since, self._saved) >= SNAPSHOT_EVERY
        ):
            self.view()
        return record

    def entries(self, *, skill: str | None = None, phase: str | None = None) -> list[SkillEntry]:
        """Return all invocations in the order in which they began, with everything recorded."""
        all_entries = fold_all(SkillsView(), self._log.records(), self._log.id).entries.values()
        return [
            entry
            for entry in all_entries
            if skill in (None, entry.skill) and phase in (None, entry.phase)
        ]

    def open(self) -> list[SkillEntry]:
        """Return the invocations without an end: running in some process, or interrupted with
        it."""
        return [entry for entry in self.view().entries.values() if entry.final_status == "running"]

    def rates(self, window: str | None = None, *, now: datetime | None = None) -> list[Rate]:
        """Return the pass rate of each model at each skill, in a window like `24h` or `7d`."""
        return pass_rates(self.view().entries.values(), window, now=now or datetime.now(UTC))

    def rate(
        self,
        skill: str,
        model: str | None = None,
        window: str | None = None,
        *,
        now: datetime | None = None,
    ) -> float | None:
        """Return the share of passes of a skill, with one model or any, of all that were not
        skipped; None if no result is known."""
        return pass_rate(
            self.view().entries.values(), skill, model, window, now=now or datetime.now(UTC)
        )

    def history(self, exclude_phase: str | None = None) -> str:
        """Return earlier attempts as text for a next prompt."""
        return format_history(self.view().entries.values(), exclude_phase)

    def view(self) -> SkillsView:
        """Return all invocations without their long texts, up to the last record."""
        if self._view is None:
            self._view = self._from_snapshot()
            self._saved = self._view.seq
        self._view = fold_all(
            self._view, map(brief, self._log.records(self._view.seq)), self._log.id
        )
        if self._view.seq - self._saved >= SNAPSHOT_EVERY:
            self._save(self._view)
        return self._view

    def start_over(self) -> None:
        """Forget the view: the next access folds the log, or continues from a snapshot."""
        self._view, self._saved = None, -1

    def _from_snapshot(self) -> SkillsView:
        snapshot = self._log.snapshot(SNAPSHOT)
        try:
            view = msgspec.msgpack.decode(snapshot[1], type=SkillsView) if snapshot else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            view = None  # The log can rebuild it.
        if (
            view is None
            or snapshot is None
            or (view.version, view.seq) != (FOLD_VERSION, snapshot[0])
        ):
            return SkillsView()
        return view

    def _save(self, view: SkillsView) -> None:
        try:
            data = msgspec.msgpack.encode(view)
        except (OverflowError, RecursionError, TypeError):
            # A foreign log may hold a number that msgpack cannot encode: it is then read again each
            # time.
            return
        self._saved = view.seq
        self._log.put_snapshot(SNAPSHOT, view.seq, data)


class SkillRun:
    """An invocation in progress.

    `entry` is the result of an earlier call with the same key, if any.
    """

    def __init__(
        self,
        log: SkillLog,
        id: str,
        about: dict[str, Any],
        *,
        known: SkillEntry | None = None,
        is_keyed: bool = False,
    ) -> None:
        self.id = id
        self.entry = known
        self._log, self._about, self._is_keyed = log, about, is_keyed
        self._attempts = len(known.attempts) + known.left_out if known else 0
        self._last: SkillAttempt | None = None
        self._status: Status | None = None
        self._end: dict[str, Any] = {}
        self._began = 0.0

    @property
    def is_done(self) -> bool:
        """True if an earlier call with the same key has ended: there is nothing left to do."""
        return self.entry is not None and self.entry.final_status != "running"

    def attempt(
        self,
        model: str | None = None,
        *,
        tier: str | int | None = None,
        warm_start: bool | None = None,
    ) -> Attempt:
        """Return the next attempt, to be used with `with`."""
        self._attempts += 1
        return Attempt(
            self,
            {"attempt": self._attempts, "model": model, "tier": tier, "warm_start": warm_start},
        )

    def finish(
        self, status: str = "pass", message: str | None = None, *, file_path: str | None = None
    ) -> None:
        """Set how the invocation ends: `pass`, `fail` or `skip`, or an old word for one of them.

        It is recorded at the end of the `with` block.
        """
        self._status = _known(status)
        self._end = {"message": message, "file_path": file_path}

    def fail(self, message: str) -> None:
        self.finish("fail", message)

    def skip(self, message: str) -> None:
        self.finish("skip", message)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self.record(STARTED, self._about, "started")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        status = "fail" if error is not None else self._status or self._by_attempt()
        end = {
            **self._end,
            "skill": self._about["skill"],
            "final_status": status,
            "error": _error_text(error),
            "duration_ms": _since(self._began),
        }
        _record_end(error, lambda: self.record(FINISHED, end, "finished"))

    def record(self, type: str, payload: dict[str, Any], what: str) -> None:
        key = f"skill:{self.id}:{what}" if self._is_keyed else None
        # Recorded by an earlier call with the same key, which took another time: the first counts.
        with suppress(Conflict):
            self._log.record(type, {"run": self.id, **payload}, key=key)

    def ended(self, attempt: SkillAttempt) -> None:
        self._last = attempt

    def _by_attempt(self) -> Status:
        """Return the default status: pass, unless the last attempt is known to have failed."""
        if self._last is None:
            return "pass"
        entry = SkillEntry(id=self.id, attempts=(self._last,), final_status="pass")
        return result_of(entry, self._last)


class Attempt:
    """An attempt in progress. It is recorded when it ends."""

    def __init__(self, run: SkillRun, about: dict[str, Any]) -> None:
        self.number: int = about["attempt"]
        self._run, self._about = run, about
        self._said: dict[str, Any] = {}
        self._checks: list[Check] = []
        self._usage = Usage()
        self._began = 0.0

    def output(self, summary: str | None = None, *, runner_output: str | None = None) -> None:
        """Set the output: a summary, and the text as printed."""
        self._said |= _without_none({"output_summary": summary, "runner_output": runner_output})

    def verified(
        self,
        by: str,
        *,
        command: str | None = None,
        exit_code: int | None = None,
        passed: bool | None = None,
        detail: str | None = None,
    ) -> None:
        """Add a check of the result and how it was done.

        An exit code of 0 passes; without one the check passes unless `passed` is False. Several
        checks must all pass. Without any the attempt is "not checked", which differs from failed.
        """
        if by == "self":
            raise ModelError(
                "an attempt cannot verify itself; name a command and its exit code, a test, a"
                " verifier or a person"
            )
        if by == "exit_code" and exit_code is None:
            raise ModelError("verified(by='exit_code') needs the exit_code")
        if passed is None:
            passed = exit_code == 0 if exit_code is not None else True
        self._checks.append(
            Check(by=by, passed=passed, command=command, exit_code=exit_code, detail=detail)
        )

    def judged(self, verdict: str, feedback: str | None = None) -> None:
        """Set the verdict of a verifier (`accept`, `escalate` or `error`) and its feedback."""
        self._said |= _without_none({"verdict": verdict, "feedback": feedback})

    def used(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        reasoning_tokens: int = 0,
        usd: float | None = None,
    ) -> None:
        """Add the tokens and cost of an API call; several calls add up."""
        self._usage = Usage(
            input_tokens=self._usage.input_tokens + input_tokens,
            output_tokens=self._usage.output_tokens + output_tokens,
            cache_read_tokens=self._usage.cache_read_tokens + cache_read_tokens,
            cache_write_tokens=self._usage.cache_write_tokens + cache_write_tokens,
            reasoning_tokens=self._usage.reasoning_tokens + reasoning_tokens,
        )
        if usd is not None:
            self._said["usd"] = self._said.get("usd", 0.0) + usd

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._run.record(ATTEMPT_STARTED, self._about, f"attempt:{self.number}:started")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        checks = tuple(self._checks)
        done = SkillAttempt(
            **self._about, **self._said, checks=checks, verified=verified_by(checks),
            error=_error_text(error),
            duration_ms=_since(self._began), usage=self._usage if self._usage.total else None,
        )  # fmt: skip
        self._run.ended(done)
        _record_end(
            error,
            lambda: self._run.record(
                ATTEMPT_FINISHED, msgspec.to_builtins(done), f"attempt:{self.number}:finished"
            ),
        )


def entries_of(
    store: SessionStore, window: str | None = None, *, now: datetime | None = None
) -> Iterator[SkillEntry]:
    """Yield the invocations of all sessions, without their long texts.

    A session that was last written before the window is not opened.
    """
    start = (now or datetime.now(UTC)) - window_of(window) if window else None
    for info in store.list():
        if start is not None and info.updated_at < start:
            return  # The list is newest first.
        # It may be deleted meanwhile, or not be readable.
        with suppress(LogError), store.open(info.id, readonly=True) as session:
            yield from session.skills.view().entries.values()


def _known(status: str) -> Status:
    known = status_of(status)
    if known is None or known == "running":
        raise ModelError(
            f"status {status!r} is not one of pass, fail, skip (or ok, error, skipped)"
        )
    return known


def _record_end(error: BaseException | None, record: Any) -> None:
    """Record an end. If the work failed and the log fails too, the caller gets the first error."""
    try:
        record()
    except Exception as trouble:  # An error of the log must not hide the error of the work.
        if error is None:
            raise
        error.add_note(f"and its end could not be recorded: {trouble}")


def _error_text(error: BaseException | None) -> str | None:
    if error is None:
        return None
    return "".join(format_exception_only(error)).strip()[:ERROR_CHARS]


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


def _without_none(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None}
