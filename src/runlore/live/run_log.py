"""A session's log, seen as the log of its run: read the state, append a change.

Knows the fold, snapshots and refusals; `state` defines the changes. A view is brought up to date on
each access, from where it was left. A handle that writes also writes snapshots; a read-only handle
writes nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol

import msgspec

from ..errors import (
    CheckpointError,
    Conflict,
    IllegalTransition,
    LeaseLost,
    LogError,
    ModelError,
    SessionBusy,
)
from ..model import LogRecord, Plain
from . import run_records
from .run import SessionState, Status
from .run_fold import FOLD_VERSION, Folding, Refusal, RunView, begin
from .run_reader import Follower
from .run_rules import BECOMES

SNAPSHOT = "state"
SNAPSHOT_EVERY = 1000
"""Records between two snapshots."""


class Log(Protocol):
    """The parts of a session that this view needs."""

    @property
    def id(self) -> str: ...

    def record(
        self,
        type: str,
        payload: dict[str, Any],
        *,
        key: str | None = None,
        expect: int | None = None,
    ) -> LogRecord: ...

    def records(self, after: int = -1) -> Iterator[LogRecord]: ...

    def snapshot(self, name: str) -> tuple[int, bytes] | None: ...

    def put_snapshot(self, name: str, seq: int, data: bytes) -> None: ...


class Transition(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """One change of status, with its place in the log."""

    seq: int
    ts: datetime
    type: str
    before: Status
    after: Status
    reason: str | None = None


class RunLog:
    """The run of one session, as read from its log."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._follower = Follower(log)
        self._folding: Folding | None = None
        self._is_folding = False
        self._saved = -1  # Seq of the snapshot on disk.
        self._pid = os.getpid()
        self._mutex = threading.RLock()

    @property
    def _lock(self) -> threading.RLock:
        """The lock of this process.

        In the child of a fork, a thread of the parent may hold the inherited one while it changes
        the fold.
        """
        if self._pid != os.getpid():
            self._pid, self._mutex = os.getpid(), threading.RLock()
            self._follower, self._folding, self._is_folding = Follower(self.log), None, False
        return self._mutex

    @property
    def session_id(self) -> str:
        return self.log.id

    @property
    def current(self) -> SessionState:
        """The state at the end of the log."""
        return self.view().state

    @property
    def status(self) -> Status:
        return self.current.status

    def view(self) -> RunView:
        """Return the state with its checkpoints and refusals."""
        with self._lock:
            return self._caught_up().view()

    def at(self, seq: int) -> SessionState:
        """Return the state as it was after this record."""
        return self.view_at(seq).state

    def view_at(self, seq: int) -> RunView:
        folding = Folding(self._from_nothing())
        for record in Follower(self.log).new(-1):
            if record.seq > seq:
                break
            folding.add(record)
        return folding.view()

    def history(self) -> Iterator[Transition]:
        """Yield every change of status, oldest first."""
        folding = Folding(self._from_nothing())
        for record in Follower(self.log).new(-1):
            before: Any = folding.status
            if folding.add(record) is not None:
                continue
            after: Any = folding.status
            if before != after or record.type in BECOMES:
                text = record.payload.get("reason") or record.payload.get("error")
                reason = text if isinstance(text, str) else None
                yield Transition(
                    seq=record.seq,
                    ts=record.ts,
                    type=record.type,
                    before=before,
                    after=after,
                    reason=reason,
                )

    def append(
        self, type: str, payload: Any, *, key: str | None = None, expect: int | None = None
    ) -> None:
        """Append a record, unless it would be refused. A refusal raises the matching error."""
        with self._lock:
            is_known = self._folding is not None and not self._is_folding and type not in BECOMES
            folding = self._folding if is_known and self._folding is not None else self._caught_up()
            # Our view may be stale: read the log before refusing.
            if (
                folding.refusal(type, payload) is not None
                and (refused := self._caught_up().refusal(type, payload)) is not None
            ):
                self._raise(*refused)
            try:
                data = msgspec.to_builtins(payload)
                msgspec.convert(data, run_records.SHAPES[type])
            except (TypeError, ValueError, RecursionError) as error:
                raise ModelError(f"{type}: {error}") from None
            try:
                record = self.log.record(type, data, key=key, expect=expect)
            except Conflict:
                if key is None:
                    raise
                return  # Recorded before, perhaps by the run that this one replaced.
            refusal = self._fold_own(folding, record)
            if refusal is not None:
                self._raise(refusal.why, refusal.reason)
            if self._folding is not None and self._folding.seq - self._saved >= SNAPSHOT_EVERY:
                self.save()

    def save(self) -> None:
        """Write a snapshot of the view for the next reader. A failure to write it is ignored."""
        with self._lock:
            folding = self._caught_up(is_saving=False)
            if folding.seq <= self._saved or folding is not self._folding:
                return
            with suppress(
                TypeError,
                ValueError,
                OverflowError,
                RecursionError,
                OSError,
                LogError,
                msgspec.MsgspecError,
            ):
                self.log.put_snapshot(
                    SNAPSHOT, folding.seq, msgspec.msgpack.encode((FOLD_VERSION, folding.view()))
                )
            self._saved = folding.seq

    def start_over(self) -> None:
        """Forget the view: the next access folds the log, or continues from a snapshot."""
        with self._lock:
            self._follower, self._folding, self._saved = Follower(self.log), None, -1

    def _caught_up(self, *, is_saving: bool = True) -> Folding:
        """Return the fold at the end of the log."""
        # A signal handler interrupts a fold: it uses a fold of its own.
        if self._is_folding:
            return self._advanced(
                Folding(self._from_snapshot() or self._from_nothing()), Follower(self.log)
            )
        with self._folds():
            if self._folding is None:
                self._folding = Folding(self._from_snapshot() or self._from_nothing())
                self._saved = self._folding.seq
            folding = self._advanced(self._folding, self._follower)
        if is_saving and folding.seq - self._saved >= SNAPSHOT_EVERY:
            self.save()
        return folding

    def _advanced(self, folding: Folding, follower: Follower) -> Folding:
        for record in follower.new(folding.seq):
            folding.add(record)
        return folding

    @contextmanager
    def _folds(self) -> Iterator[None]:
        """Guard a change of the fold.

        An exception may leave it half changed, so it is then dropped.
        """
        self._is_folding = True
        try:
            yield
        except BaseException:
            self._follower, self._folding = Follower(self.log), None
            raise
        finally:
            self._is_folding = False

    def _from_nothing(self) -> RunView:
        first = next(iter(self.log.records()), None)
        return begin(
            self.session_id,
            first.ts if first is not None and first.ts.tzinfo else datetime.now(UTC),
        )

    def _from_snapshot(self) -> RunView | None:
        """Return the saved view if it is valid. Otherwise the log is folded again."""
        snapshot = self.log.snapshot(SNAPSHOT)
        if snapshot is None:
            return None
        try:
            version, view = msgspec.msgpack.decode(snapshot[1], type=tuple[int, RunView])
        except (ValueError, RecursionError):
            # msgspec and our own values raise ValueErrors.
            return None
        return (
            view
            if version == FOLD_VERSION
            and view.seq == snapshot[0]
            and view.state.session_id == self.session_id
            else None
        )

    def _fold_own(self, folding: Folding, record: LogRecord) -> Refusal | None:
        """Add our own record to the fold, after those of others that came before it."""
        if record.seq > folding.seq + 1 or folding is not self._folding:
            folding = self._caught_up()
        if record.seq == folding.seq + 1:
            with self._folds():
                return folding.add(record)
        return next((refused for refused in folding.refused if refused.seq == record.seq), None)

    def _raise(self, why: str, reason: str) -> NoReturn:
        message = f"session {self.session_id}: {reason}"
        if why == "run":
            raise LeaseLost(message)
        if why == "owner":
            raise SessionBusy(message)
        if why == "checkpoint":
            raise CheckpointError(message)
        raise ModelError(message) if why == "shape" else IllegalTransition(message)
