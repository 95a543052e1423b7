"""From the records of a log to the state of its run.

Pure. The fold is the judge of what is legal: of two processes that end a run at once, the first in
the log is heard, the other is refused, and every reader comes to the same result. A record that
makes no sense is refused as well, and never costs the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from ..model import LogRecord
from . import _run_words as words
from ._run_rules import BECOMES, RULES, Refused, Rules, Why, closed_fields
from ._run_words import Checkpoint
from .run import (
    FINISHED,
    SessionMetrics,
    SessionProgress,
    SessionResult,
    SessionState,
    SessionTimestamps,
)

FOLD_VERSION = 1
"""Raise it when a record comes to mean something else: snapshots of older versions are then left
alone."""

MOST_REFUSED = 20
"""The latest refusals that are kept for people to look at; all are counted."""

LEGAL: dict[str, frozenset[str]] = {
    "state.started": frozenset({"active"}),  # As every session is to begin with; and only once.
    "state.adopted": frozenset({"active"}),
    "state.paused": frozenset({"active"}),
    "state.resumed": frozenset({"paused"}),  # From a checkpoint: whatever became of the run.
    "state.completed": frozenset({"active"}),
    "state.failed": frozenset({"active", "paused"}),
    "state.cancelled": frozenset({"active", "paused"}),
    "state.recovered": frozenset({"active"}),
    "state.progress": frozenset({"active"}),
    "state.heartbeat": frozenset({"active"}),
    "checkpoint": frozenset({"active", "paused"}),
}
"""In which status a record may come; one that is not here, in any."""

LEADS_TO: dict[str, str] = {
    "active": "paused, completed, failed or cancelled",
    "paused": "active, failed or cancelled",
    **dict.fromkeys(FINISHED, "active, resumed from a checkpoint"),
}


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A record that was not followed."""

    seq: int
    type: str
    why: Why
    reason: str


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """What the fold knows after `seq`: the state, its checkpoints, and what was refused on the
    way."""

    seq: int = -1
    state: SessionState
    checkpoints: tuple[Checkpoint, ...] = ()
    is_started: bool = False
    reenters: str | None = None
    base: int | None = None
    since_base: int = 0
    refused: tuple[Refusal, ...] = ()
    refused_count: int = 0


def begin(session_id: str, at: datetime) -> RunView:
    """The view of an empty log."""
    return RunView(
        state=SessionState(
            session_id=session_id,
            goal_id="",
            timestamps=SessionTimestamps(started_at=at, updated_at=at),
        )
    )


def fold(view: RunView, record: LogRecord) -> RunView:
    """The view after one more record. For many, `fold_all` makes one copy instead of one for
    each."""
    return fold_all(view, (record,))


def fold_all(view: RunView, records: Iterable[LogRecord]) -> RunView:
    folding = Folding(view)
    for record in records:
        folding.add(record)
    return folding.view()


class Folding(Rules):
    """A fold under way: the inside of a view, open to change. Whoever follows a log keeps one and
    asks for views."""

    def __init__(self, view: RunView) -> None:
        super().__init__(view.state)
        self.seq, self.is_started, self.reenters = view.seq, view.is_started, view.reenters
        self.base, self.since_base = view.base, view.since_base
        self.refused, self.refused_count = list(view.refused), view.refused_count
        self.checkpoints = {checkpoint.id: checkpoint for checkpoint in view.checkpoints}
        self._view: RunView | None = view

    def view(self) -> RunView:
        """The value as it is now; the same one as long as nothing was added."""
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
        """Takes the next record of the log in. One of another view only moves `seq`. Gives the
        refusal, if it is refused."""
        if record.seq <= self.seq:
            return None
        if record.ts.tzinfo is None:  # Not of our making.
            record = msgspec.structs.replace(record, ts=record.ts.replace(tzinfo=UTC))
        if record.seq == 0 and not self.is_started:
            self.times["started_at"] = self.times["updated_at"] = record.ts
        self.seq, self._view = record.seq, None
        shape = words.SHAPES.get(record.type)
        if shape is None:
            return None
        self.since_base += 1
        try:
            said = msgspec.convert(record.payload, shape)
            refusal = self.refusal(record.type, said) or RULES[record.type](self, said, record)
        except (ValueError, RecursionError) as error:
            # Of another shape, or half of a surrogate pair where a word should be.
            refusal = ("shape", str(error))
        if refusal is None:
            self.times["updated_at"] = max(self.times["updated_at"], record.ts)
            return None
        refused = Refusal(seq=record.seq, type=record.type, why=refusal[0], reason=refusal[1])
        self.refused = [*self.refused[1 - MOST_REFUSED :], refused]
        self.refused_count += 1
        return refused

    def refusal(self, type: str, said: words._Words) -> Refused:
        """Why a record of this type cannot come now; None: it can."""
        run, status = self.top["current_run_id"], self.status
        if (
            said.run is not None
            and run is not None
            and said.run != run
            and type not in ("state.started", "state.resumed")
        ):
            return "run", f"run {said.run} is over: {run} has taken its place"
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
            or (isinstance(said, words.Resumed) and said.checkpoint is not None)
        ):
            return None
        wanted = BECOMES.get(type)
        what = (
            f"become {wanted}"
            if wanted
            else {"checkpoint": "take a checkpoint"}.get(type, "make progress")
        )
        return (
            "status",
            f"it is {status} and cannot {what}; from {status} it can become {LEADS_TO[status]}",
        )
