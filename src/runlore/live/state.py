"""The state of a run, as a view of its session's log.

    session.state.start(goal_id="report")
    session.state.progress("search", tokens=1200)
    session.state.checkpoint("search", {"hits": 3}, next_node="write")
    session.state.fail("no answer")
    session.state.resume(session.state.checkpoints.latest(clean=True))

Each change is one small record, and the state is their sum, so its history is the log. Reading
continues from the last snapshot. An illegal change is refused before it is written, if that is
known by then; otherwise the fold refuses it, for every reader alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, get_args
from uuid import uuid4

import msgspec

from ..errors import Conflict, IllegalTransition, ModelError, RunloreError, SessionBusy
from . import run_records
from .checkpoints import Checkpoints, Difference
from .liveness import HEARTBEAT_S, LOST_AFTER, Mark, Owner, here, is_over, judge
from .run import (
    Quality,
    SessionMetrics,
    SessionProgress,
    SessionResult,
    SessionState,
    SessionTimestamps,
    Status,
    as_json,
    plain,
)
from .run_fold import Folding, Refusal, RunView, fold, fold_all
from .run_log import Log, RunLog, Transition
from .run_records import Checkpoint, CheckpointType
from .run_rules import content, digest

__all__ = [
    "Checkpoint", "Checkpoints", "Difference", "Log", "Owner", "Refusal", "RunView",
    "SessionMetrics", "SessionProgress", "SessionResult",
    "SessionState", "SessionTimestamps", "StateHandle", "Status", "Transition", "fold", "fold_all",
]  # fmt: skip

MIN_RECORD_BYTES = 100
"""Minimum size of a record.

A checkpoint is written whole when the records since the last whole one add up to its size, so whole
checkpoints at most double the log.
"""

MAX_CHECKPOINT_TRIES = 20
"""Maximum number of tries for a checkpoint while others write.

After that it is written whole, which does not depend on the records before it.
"""


class StateHandle(RunLog):
    """The state of a session's run: `session.state`."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.checkpoints = Checkpoints(self)
        # The run that this handle began; None if it only reads or controls a run.
        self._run: str | None = None
        self._heard = 0.0

    # ── life of a run ─────────────────────────────────────────────────────────────────────────────
    def start(
        self,
        goal_id: str = "",
        *,
        agent_id: str = "",
        entry_point: str = "start",
        stream_id: str = "",
        correlation_id: str = "",
        isolation_level: str = "shared",
        input_data: Mapping[str, Any] | None = None,
        run_id: str | None = None,
    ) -> SessionState:
        """Begin the run with this process as its owner.

        Raises IllegalTransition if it was started before.
        """
        payload = run_records.Started(
            run=run_id or _new_run(),
            goal_id=goal_id,
            agent_id=agent_id,
            entry_point=entry_point,
            stream_id=stream_id,
            correlation_id=correlation_id,
            isolation_level=isolation_level,
            input_data=plain(dict(input_data or {})),
            owner=here(),
        )
        return self._begin("state.started", payload)

    def adopt(self, state: SessionState) -> SessionState:
        """Take the state from another system as the beginning of this session.

        It gets no owner and keeps none of its checkpoints.
        """
        self.append("state.adopted", run_records.Adopted(state=as_json(state.to_dict())))
        return self.current

    def pause(
        self, node: str | None = None, *, reason: str | None = None, resume_from: str | None = None
    ) -> SessionState:
        """Pause the run for input or at a node. It has no owner until it is resumed."""
        return self._change(
            "state.paused", run_records.Paused(node=node, reason=reason, resume_from=resume_from)
        )

    def resume(
        self,
        checkpoint: str | Checkpoint | None = None,
        *,
        node: str | None = None,
        input_data: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        take_over: bool = False,
    ) -> SessionState:
        """Continue the run in this process: from a pause, from where its process died, or from a
        checkpoint.

        A checkpoint restores its buffer, path and counters, whatever happened to the session since.
        Raises CheckpointError when it is missing or damaged, and IllegalTransition when there is
        nothing to continue. Raises SessionBusy while another process that may be alive runs the
        session, unless `take_over` is set: the next record of that process is then refused.
        """
        with self._lock:
            state = self._caught_up().view().state
            self._refuse_if_owned(state, take_over)
            if checkpoint is None and state.status == "active":
                state = self._end_run(state, take_over)
            mark = self.checkpoints.get(checkpoint) if checkpoint is not None else None
            whole = self.checkpoints.load(mark) if mark else None
            target, again = _resume_target(state, mark, node)
            payload = run_records.Resumed(
                run=run_id or _new_run(),
                replaces=state.current_run_id,
                owner=here(),
                node=target,
                again=again,
                checkpoint=mark.id if mark else None,
                whole=whole,
                input_data=plain(dict(input_data)) if input_data is not None else None,
            )
            return self._begin("state.resumed", payload)

    def complete(
        self, output: Mapping[str, Any] | None = None, *, quality: Quality | None = None
    ) -> SessionState:
        return self._change(
            "state.completed", run_records.Ended(output=plain(dict(output or {})), quality=quality)
        )

    def fail(self, error: str, *, output: Mapping[str, Any] | None = None) -> SessionState:
        return self._change(
            "state.failed", run_records.Ended(error=error, output=plain(dict(output or {})))
        )

    def cancel(self, reason: str | None = None) -> SessionState:
        """Cancel the run.

        This is always an explicit decision, never derived from the text of an error.
        """
        return self._change("state.cancelled", run_records.Ended(error=reason))

    def recover(
        self,
        owner: Owner,
        mark: Mark = "failed",
        *,
        lost_after: timedelta | None = LOST_AFTER,
        now: datetime | None = None,
        is_dead: bool = False,
    ) -> bool:
        """Mark the run of this owner if it is dead and was not replaced.

        Return True if it was marked. `is_dead` says that the caller knows; see `liveness.recover`.
        """
        state = self.current
        if state.status != "active" or not owner.is_same(state.owner) or state.owner is None:
            return False
        if not is_dead and not is_over(state.owner, lost_after, now=now):
            return False
        heard = (
            f", last heard of at {owner.heartbeat:%Y-%m-%d %H:%M:%S} UTC" if owner.heartbeat else ""
        )
        error = (
            f"its owner died: process {owner.pid} on {owner.host or 'this machine'} is gone{heard}"
        )
        try:
            self.append(
                "state.recovered", run_records.Recovered(owner=owner, mark=mark, error=error)
            )
        except (IllegalTransition, SessionBusy):
            return False
        return True

    # ── events of a run ───────────────────────────────────────────────────────────────────────────
    def progress(
        self,
        node: str | None = None,
        *,
        edge: str | None = None,
        steps: int | None = None,
        tokens: int | None = None,
        input_tokens: int = 0,
        output_tokens: int = 0,
        latency_ms: int = 0,
        retries: str | Mapping[str, int] | None = None,
        failures: str | Iterable[str] = (),
        quality: Quality | None = None,
        buffer: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> None:
        """Record progress: a node entered (one step, unless `steps` is given), tokens, time, buffer
        values.

        `retries` is a node that is tried once more, or a number for each node. `failures` are nodes
        that failed while the run continued. Either turns a clean run into a degraded one.
        """
        payload = run_records.Progressed(
            run=self._run,
            node=node,
            edge=edge,
            steps=steps,
            tokens=tokens,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            latency_ms=latency_ms,
            retries={retries: 1} if isinstance(retries, str) else dict(retries or {}),
            failures=(failures,) if isinstance(failures, str) else tuple(failures),
            quality=quality,
            set=plain(dict(buffer or {})),
        )
        self.append("state.progress", payload, key=key)
        self._heard = time.monotonic()

    def put(
        self, values: Mapping[str, Any] | None = None, /, *, delete: Iterable[str] = (), **more: Any
    ) -> None:
        """Set some values of the data buffer and delete others. The rest stays."""
        payload = run_records.Buffered(
            run=self._run, set=plain({**(values or {}), **more}), delete=tuple(delete)
        )
        self.append("state.buffer", payload)

    def problem(self, problem: str | Mapping[str, Any], **more: Any) -> None:
        what = {"description": problem} if isinstance(problem, str) else dict(problem)
        self.append("state.problem", run_records.Noted(run=self._run, what=plain({**what, **more})))

    def decide(self, decision: str | Mapping[str, Any], **more: Any) -> None:
        what = {"decision": decision} if isinstance(decision, str) else dict(decision)
        self.append(
            "state.decision", run_records.Noted(run=self._run, what=plain({**what, **more}))
        )

    def describe(self, *, extra: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """Set descriptive fields.

        These are goal_id, agent_id, entry_point, stream_id, correlation_id, isolation_level,
        input_data, active_triggers, trigger_tasks and worker_configured; other fields go into
        `extra`. Raises ModelError for an unknown name or a wrong type.
        """
        try:
            payload = msgspec.convert(
                {**as_json(fields), "extra": plain(dict(extra or {}))}, _Description
            )
        except ValueError as error:
            raise ModelError(f"describe: {error}") from None
        self.append("state.described", run_records.Described(**msgspec.structs.asdict(payload)))

    def checkpoint(
        self,
        node: str | None = None,
        buffer: Mapping[str, Any] | None = None,
        *,
        next_node: str | None = None,
        type: CheckpointType = "node_complete",
        clean: bool = True,
        description: str = "",
        id: str | None = None,
    ) -> Checkpoint:
        """Write a checkpoint. `buffer` replaces the data buffer; without it, the buffer stays.

        Resuming goes to `next_node`, or enters `node` once more. `clean` says that no work is half
        done.
        """
        if type not in get_args(CheckpointType):
            raise ModelError(
                f"a checkpoint of type {type!r}; there are {', '.join(get_args(CheckpointType))}"
            )
        id = id or f"cp_{uuid4().hex[:16]}"
        wanted = None if buffer is None else plain(dict(buffer))
        with self._lock:
            for attempt in range(MAX_CHECKPOINT_TRIES + 1):
                folding, is_last = self._caught_up(), attempt == MAX_CHECKPOINT_TRIES
                payload = _checkpoint_of(folding, wanted, is_whole=is_last)
                payload = msgspec.structs.replace(
                    payload,
                    id=id,
                    run=self._run,
                    node=node if node is not None else folding.progress["current_node"],
                    next_node=next_node,
                    type=type,
                    is_clean=clean,
                    description=description,
                )
                # The changes fit only the log as it was read. If it has grown, they are computed
                # again.
                with suppress(Conflict):
                    self.append("checkpoint", payload, expect=None if is_last else folding.seq)
                    break
            self._heard = time.monotonic()
            return self.checkpoints.get(id)

    # ── signs of life ─────────────────────────────────────────────────────────────────────────────
    def heartbeat(self, *, every_s: float = HEARTBEAT_S) -> None:
        """Record that the owner is alive, at most once in `every_s`.

        Progress and checkpoints count as heartbeats too.
        """
        now = time.monotonic()
        if self._heard and now - self._heard < every_s:
            return
        self._heard = now
        self.append("state.heartbeat", run_records.Heartbeat(run=self._run))

    @contextmanager
    def beating(self, every_s: float = HEARTBEAT_S) -> Iterator[None]:
        """Send heartbeats from a thread while the block runs, for steps that take minutes."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(every_s):
                try:
                    self.heartbeat(every_s=every_s / 2)
                except RunloreError:
                    # The run was paused or has ended: no more heartbeats are needed.
                    return

        thread = threading.Thread(target=beat, name=f"heartbeat of {self.session_id}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _begin(self, type: str, payload: run_records.Started | run_records.Resumed) -> SessionState:
        self.append(type, payload)
        self._run, self._heard = payload.run, time.monotonic()
        return self.current

    def _change(self, type: str, payload: run_records.Paused | run_records.Ended) -> SessionState:
        self.append(type, msgspec.structs.replace(payload, run=self._run))
        return self.current

    def _end_run(self, state: SessionState, take_over: bool) -> SessionState:
        """Return the state to go on from: of a run whose process died, or that is taken over."""
        if state.owner is not None and self.recover(state.owner, "paused"):
            return self.current
        if not take_over:
            self._raise("status", self._caught_up().illegal("state.resumed"))
        return state

    def _refuse_if_owned(self, state: SessionState, take_over: bool) -> None:
        owner = state.owner
        if (
            state.status != "active"
            or owner is None
            or take_over
            or owner.is_same(here())
            or judge(owner) == "dead"
        ):
            return
        raise SessionBusy(
            f"session {self.session_id} is run by process {owner.pid} on {owner.host}; pause it"
            " there, or say take_over"
        )


class _Description(run_records.Described, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of `describe`: an unknown name is an error."""


def _new_run() -> str:
    return f"run_{uuid4().hex[:12]}"


def _resume_target(
    state: SessionState, mark: Checkpoint | None, node: str | None
) -> tuple[str | None, bool]:
    """Return the node to continue at, and True if that enters the same node once more."""
    if mark is not None:
        return node or mark.next_node or mark.node, node is None and mark.next_node is None
    target = node or state.progress.resume_from
    if target is None and state.status == "active":  # Taken over where it is.
        target = state.progress.current_node
    return target, target is not None and target == state.progress.current_node


def _checkpoint_of(
    folding: Folding, buffer: dict[str, Any] | None, *, is_whole: bool
) -> run_records.Checkpointed:
    """Return the content of a checkpoint at this moment: whole when that is due, else the
    changes."""
    saved = folding.saved()
    old, new = saved.data_buffer, saved.data_buffer if buffer is None else buffer
    saved = msgspec.structs.replace(saved, data_buffer=new)
    data = content(saved)
    if is_whole or folding.base is None or folding.since_base * MIN_RECORD_BYTES >= len(data):
        return run_records.Checkpointed(id="", digest=digest(data), whole=saved)
    changed = {name: value for name, value in new.items() if name not in old or old[name] != value}
    return run_records.Checkpointed(
        id="",
        digest=digest(data),
        set=changed,
        delete=tuple(name for name in old if name not in new),
    )
