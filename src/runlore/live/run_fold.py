"""From the records of a log to the state of its run.

Pure. The fold decides what is legal: of two processes that end a run at once, the first in the log
counts, the other is refused, and every reader comes to the same result. An invalid record is
refused as well and does not affect the rest. Nor does a record that was damaged: what was written
after it was legal, so a run whose beginning is lost is taken as begun.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from ..model import LogRecord, Plain
from . import run_records
from .run import (
    FINISHED,
    SessionMetrics,
    SessionProgress,
    SessionResult,
    SessionState,
    SessionTimestamps,
)
from .run_records import Checkpoint
from .run_rules import BECOMES, RULES, Refused, Rules, Why, closed_fields

FOLD_VERSION = 2
"""Increase it when the meaning of a record changes: snapshots of older versions are then ignored.
"""

MAX_REFUSALS = 20
"""Maximum number of refusals that are kept for display, latest first; all are counted."""

LEGAL: dict[str, frozenset[str]] = {
    "state.started": frozenset({"new", "active"}),  # Allowed only once.
    "state.adopted": frozenset({"new", "active"}),
    "state.paused": frozenset({"active"}),
    "state.resumed": frozenset({"paused"}),  # See `_is_takeover` for the others.
    "state.completed": frozenset({"active"}),
    "state.failed": frozenset({"active", "paused"}),
    "state.cancelled": frozenset({"active", "paused"}),
    "state.recovered": frozenset({"active"}),
    "state.progress": frozenset({"active"}),
    "state.heartbeat": frozenset({"active"}),
    "checkpoint": frozenset({"active", "paused"}),
}
"""Statuses in which a record is allowed; types that are not listed are allowed in any."""

BEGINS = frozenset(LEGAL) - {"state.resumed", "state.recovered"}
"""Records that begin a new run, also if its writer does not call `start`."""

LEADS_TO: dict[str, str] = {
    "new": "active",
    "active": "paused, completed, failed or cancelled",
    "paused": "active, failed or cancelled",
    **dict.fromkeys(FINISHED, "active, resumed from a checkpoint"),
}


class Refusal(Plain, frozen=True, kw_only=True):
    """A record that was refused."""

    seq: int
    type: str
    why: Why
    reason: str


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the fold after `seq`: the state, its checkpoints, and the refusals."""

    seq: int = -1
    state: SessionState
    checkpoints: tuple[Checkpoint, ...] = ()
    is_started: bool = False
    reenters: str | None = None
    base: int | None = None
    since_base: int = 0
    refused: tuple[Refusal, ...] = ()
    refused_count: int = 0
    runs: tuple[str, ...] = ()
    """Every run that the log names. A record of one that is over is refused."""


def begin(session_id: str, at: datetime) -> RunView:
    """Return the view of an empty log."""
    return RunView(
        state=SessionState(
            session_id=session_id,
            status="new",
            goal_id="",
            timestamps=SessionTimestamps(started_at=at, updated_at=at),
        )
    )


def fold(view: RunView, record: LogRecord) -> RunView:
    """Return the view after one more record. For many records use `fold_all`, which copies once."""
    return fold_all(view, (record,))


def fold_all(view: RunView, records: Iterable[LogRecord]) -> RunView:
    folding = Folding(view)
    for record in records:
        folding.add(record)
    return folding.view()


class Folding(Rules):
    """A fold in progress: a mutable view.

    A reader that follows a log keeps one and asks for views.
    """

    def __init__(self, view: RunView) -> None:
        super().__init__(view.state)
        self.seq, self.is_started, self.reenters = view.seq, view.is_started, view.reenters
        self.base, self.since_base = view.base, view.since_base
        self.refused, self.refused_count = list(view.refused), view.refused_count
        self.checkpoints = {checkpoint.id: checkpoint for checkpoint in view.checkpoints}
        self.runs = dict.fromkeys(view.runs)
        self._view: RunView | None = view

    def view(self) -> RunView:
        """Return the current value; the same object as long as nothing was added."""
        if self._view is None:
            self._view = RunView(
                seq=self.seq,
                state=self._state(),
                checkpoints=tuple(self.checkpoints.values()),
                is_started=self.is_started,
                reenters=self.reenters,
                base=self.base,
                since_base=self.since_base,
                refused=tuple(self.refused),
                refused_count=self.refused_count,
                runs=tuple(self.runs),
            )
        return self._view

    def _state(self) -> SessionState:
        return SessionState(
            timestamps=SessionTimestamps(**self.times),
            progress=SessionProgress(**closed_fields(self.progress)),
            result=SessionResult(**closed_fields(self.result)),
            metrics=SessionMetrics(**closed_fields(self.metrics)),
            **closed_fields(self.top),
        )

    @property
    def status(self) -> str:
        status: str = self.top["status"]
        return status

    def add(self, record: LogRecord) -> Refusal | None:
        """Add the next record and return its refusal, if any.

        Records of other views only move `seq`.
        """
        if record.seq <= self.seq:
            return None
        if record.ts.tzinfo is None:  # Written by another program.
            record = msgspec.structs.replace(record, ts=record.ts.replace(tzinfo=UTC))
        if record.seq == 0 and not self.is_started:
            self.times["started_at"] = self.times["updated_at"] = record.ts
        self.seq, self._view = record.seq, None
        shape = run_records.SHAPES.get(record.type)
        if shape is None:
            return None
        self.since_base += 1
        try:
            payload = msgspec.convert(record.payload, shape)
            self._enter_lost_run(payload, record)
            refusal = self.refusal(record.type, payload)
            if refusal is None:
                if self.status == "new" and record.type in BEGINS:
                    self.become("active", record.ts)
                refusal = RULES[record.type](self, payload, record)
        except (ValueError, RecursionError) as error:
            # Another shape, or a lone surrogate in place of a word.
            refusal = ("shape", str(error))
        if refusal is None:
            self.times["updated_at"] = max(self.times["updated_at"], record.ts)
            return None
        refused = Refusal(seq=record.seq, type=record.type, why=refusal[0], reason=refusal[1])
        self.refused = [*self.refused[1 - MAX_REFUSALS :], refused]
        self.refused_count += 1
        return refused

    def _enter_lost_run(self, payload: run_records.Payload, record: LogRecord) -> None:
        """Begin the run that a record belongs to, if the record of its beginning was damaged."""
        run = payload.replaces if isinstance(payload, run_records.Resumed) else payload.run
        is_beginning = isinstance(payload, run_records.Started)
        if run is not None and run not in self.runs and not is_beginning:
            self.is_started, self.top["current_run_id"] = True, run
            if self.status != "active":
                self.become("active", record.ts)
        self.runs.update(dict.fromkeys(one for one in (run, payload.run) if one is not None))

    def refusal(self, type: str, payload: run_records.Payload) -> Refused:
        """Return the reason why a record of this type is not allowed now, or None."""
        run, status = self.top["current_run_id"], self.status
        if (
            payload.run in self.runs
            and run is not None
            and payload.run != run
            and type not in ("state.started", "state.resumed")
        ):
            return "run", f"run {payload.run} is over: {run} has taken its place"
        if type in ("state.started", "state.adopted") and self.is_started:
            return (
                "status",
                (
                    f"it is {status} and was started before; from {status} it can become"
                    f" {LEADS_TO[status]}"
                ),
            )
        legal = LEGAL.get(type)
        if (
            legal is None
            or status in legal
            or (status == "new" and type in BEGINS)
            or (isinstance(payload, run_records.Resumed) and self._is_takeover(payload))
        ):
            return None
        return "status", self.illegal(type)

    def _is_takeover(self, payload: run_records.Resumed) -> bool:
        """Return True if a run may begin in any status: from a checkpoint, or in place of the one
        that is active."""
        replaces, run = payload.replaces, self.top["current_run_id"]
        return payload.checkpoint is not None or (
            self.status == "active" and replaces is not None and replaces == run
        )

    def illegal(self, type: str) -> str:
        """Return the reason why a record of this type cannot follow the status of now."""
        status, wanted = self.status, BECOMES.get(type)
        what = (
            f"become {wanted}"
            if wanted
            else {"checkpoint": "take a checkpoint"}.get(type, "make progress")
        )
        return f"it is {status} and cannot {what}; from {status} it can become {LEADS_TO[status]}"
