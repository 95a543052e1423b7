"""A session's log, seen as the log of its run: what it adds up to, and how something is added.

Knows the fold, snapshots and refusals; what a run may say is in `state`. A view is brought up to
date whenever it is asked for, from where it was left; a handle that writes also writes snapshots,
one that is opened for reading writes nothing.
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
    IllegalTransition,
    LeaseLost,
    LogError,
    ModelError,
    SessionBusy,
)
from ..model import LogRecord
from . import _run_words as words
from ._run_fold import FOLD_VERSION, Folding, Refusal, RunView, begin
from ._run_read import Follower
from ._run_rules import BECOMES
from .run import SessionState, Status

SNAPSHOT = "state"
SNAPSHOT_EVERY = 1000
"""Records between two snapshots: passing so many takes about a millisecond."""


class Log(Protocol):
    """What this view needs of a session."""

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


class Transition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of status, with its place in the log."""

    seq: int
    ts: datetime
    type: str
    before: Status
    after: Status
    reason: str | None = None


class RunLog:
    """The run of one session, as far as the log tells."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._follower = Follower(log)
        self._folding: Folding | None = None
        self._is_folding = False
        self._saved = -1  # Up to where the snapshot on disk goes.
        self._pid = os.getpid()
        self._mutex = threading.RLock()

    @property
    def _lock(self) -> threading.RLock:
        """The lock of this process. In the child of a fork the parent's may be held, by a thread in
        the middle of folding."""
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
        """The state with its checkpoints, and with what was refused on the way."""
        with self._lock:
            return self._caught_up().view()

    def at(self, seq: int) -> SessionState:
        """The state as it was after this record."""
        return self.view_at(seq).state

    def view_at(self, seq: int) -> RunView:
        folding = Folding(self._from_nothing())
        for record in Follower(self.log).new(-1):
            if record.seq > seq:
                break
            folding.add(record)
        return folding.view()

    def history(self) -> Iterator[Transition]:
        """Every change of status, oldest first."""
        folding = Folding(self._from_nothing())
        for record in Follower(self.log).new(-1):
            before: Any = folding.status
            if folding.add(record) is not None:
                continue
            after: Any = folding.status
            if before != after or record.type in BECOMES:
                said = record.payload.get("reason") or record.payload.get("error")
                reason = said if isinstance(said, str) else None
                yield Transition(
                    seq=record.seq,
                    ts=record.ts,
                    type=record.type,
                    before=before,
                    after=after,
                    reason=reason,
                )

    def tell(
        self, type: str, said: Any, *, key: str | None = None, expect: int | None = None
    ) -> None:
        """Appends what is said, unless it is known to be refused. Raises what the refusal means."""
        with self._lock:
            is_known = self._folding is not None and not self._is_folding and type not in BECOMES
            folding = self._folding if is_known and self._folding is not None else self._caught_up()
            # What we know may be old: it is looked up before anything is refused for it.
            if (
                folding.refusal(type, said) is not None
                and (refused := self._caught_up().refusal(type, said)) is not None
            ):
                self._raise(*refused)
            try:
                payload = msgspec.to_builtins(said)
                msgspec.convert(payload, words.SHAPES[type])
            except (TypeError, ValueError, RecursionError) as error:
                raise ModelError(f"{type}: {error}") from None
            record = self.log.record(type, payload, key=key, expect=expect)
            refusal = self._take(folding, record)
            if refusal is not None:
                self._raise(refusal.why, refusal.reason)
            if self._folding is not None and self._folding.seq - self._saved >= SNAPSHOT_EVERY:
                self.save()

    def save(self) -> None:
        """Writes a snapshot of the view, so that the next reader begins there. One that cannot be
        written is not missed."""
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

    def _caught_up(self, *, is_saving: bool = True) -> Folding:
        """The fold at the end of the log."""
        # A signal handler came in the middle of it: it folds for itself, and leaves ours alone.
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
        """Around what changes our fold. What raises in the middle may have left it half done: it is
        then made anew."""
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
        """The view that was saved, if it is one of ours. A damaged or foreign one costs only the
        time to fold again."""
        found = self.log.snapshot(SNAPSHOT)
        if found is None:
            return None
        try:
            version, view = msgspec.msgpack.decode(found[1], type=tuple[int, RunView])
        except (ValueError, RecursionError):
            # What msgspec and our own values raise are ValueErrors.
            return None
        return (
            view
            if version == FOLD_VERSION
            and view.seq == found[0]
            and view.state.session_id == self.session_id
            else None
        )

    def _take(self, folding: Folding, record: LogRecord) -> Refusal | None:
        """Folds our own record in, after those of others that came before it."""
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
