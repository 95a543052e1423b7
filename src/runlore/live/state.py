"""The state of a run, as a view of its session's log.

    session.state.start(goal_id="report")
    session.state.progress("search", tokens=1200)
    session.state.checkpoint("search", {"hits": 3}, next_node="write")
    session.state.fail("no answer")
    session.state.resume(session.state.checkpoints.latest(clean=True))

Each change is one small record; the state is what they add up to, so its history is the log.
Reading goes on from the last snapshot. What cannot follow is refused: before it is written where
that is known, and else by the fold, for every reader alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, get_args
from uuid import uuid4

import msgspec

from ..errors import Conflict, IllegalTransition, ModelError, RunloreError, SessionBusy
from . import _run_words as words
from ._run_fold import Folding, Refusal, RunView, fold, fold_all
from ._run_log import Log, RunLog, Transition
from ._run_rules import content, digest
from ._run_words import Checkpoint, CheckpointType
from .checkpoints import Checkpoints, Difference
from .liveness import HEARTBEAT_S, Mark, Owner, here, judge
from .run import (
    Quality,
    SessionMetrics,
    SessionProgress,
    SessionResult,
    SessionState,
    SessionTimestamps,
    Status,
    plain,
)

__all__ = [
    "Checkpoint", "Checkpoints", "Difference", "Log", "Owner", "Refusal", "RunView",
    "SessionMetrics", "SessionProgress", "SessionResult",
    "SessionState", "SessionTimestamps", "StateHandle", "Status", "Transition", "fold", "fold_all",
]  # fmt: skip

RECORD_BYTES = 100
"""At least. A checkpoint is whole when as many bytes were written since the last whole one as it
needs: so the whole ones at most double the log."""

TRIES = 20
"""How often a checkpoint is tried while others write. After that it is written whole, which needs
no agreement on what came before."""


class StateHandle(RunLog):
    """`session.state`."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.checkpoints = Checkpoints(self)
        # The run that this handle began; None: it only looks on, or gives orders.
        self._run: str | None = None
        self._heard = 0.0

    # ── the life of a run ─────────────────────────────────────────────────────────────────────────
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
        """This process begins the run, and owns it from now on. Raises IllegalTransition when it
        was started before."""
        said = words.Started(
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
        return self._begin("state.started", said)

    def adopt(self, state: SessionState) -> SessionState:
        """Takes over what another system knew of this session, as its beginning. It gets no owner,
        and keeps none of its checkpoints."""
        self.tell("state.adopted", words.Adopted(state=plain(state.to_dict())))
        return self.current

    def pause(
        self, node: str | None = None, *, reason: str | None = None, resume_from: str | None = None
    ) -> SessionState:
        """Stops for input or at a node; nobody owns it until it is resumed."""
        return self._change(
            "state.paused", words.Paused(node=node, reason=reason, resume_from=resume_from)
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
        """This process goes on with the run: from where it was paused or its process died, or from
        a checkpoint.

        A checkpoint brings back its buffer, path and counters, whatever became of the session
        since. Raises CheckpointError when it is missing or damaged, IllegalTransition when there is
        nothing to go on from, and SessionBusy while another process that may be alive runs the
        session, unless `take_over` is said.
        """
        with self._lock:
            state = self._caught_up().view().state
            self._refuse_if_owned(state, take_over)
            if (
                checkpoint is None
                and state.owner is not None
                and self.recover(state.owner, "paused")
            ):
                state = self.current
            mark = self.checkpoints.get(checkpoint) if checkpoint is not None else None
            whole = self.checkpoints.load(mark) if mark else None
            target, again = _where(state, mark, node)
            said = words.Resumed(
                run=run_id or _new_run(),
                replaces=state.current_run_id,
                owner=here(),
                node=target,
                again=again,
                checkpoint=mark.id if mark else None,
                whole=whole,
                input_data=plain(dict(input_data)) if input_data is not None else None,
            )
            return self._begin("state.resumed", said)

    def complete(
        self, output: Mapping[str, Any] | None = None, *, quality: Quality | None = None
    ) -> SessionState:
        return self._change(
            "state.completed", words.Ended(output=plain(dict(output or {})), quality=quality)
        )

    def fail(self, error: str, *, output: Mapping[str, Any] | None = None) -> SessionState:
        return self._change(
            "state.failed", words.Ended(error=error, output=plain(dict(output or {})))
        )

    def cancel(self, reason: str | None = None) -> SessionState:
        """Somebody's decision, and never guessed from the text of an error."""
        return self._change("state.cancelled", words.Ended(error=reason))

    def recover(self, owner: Owner, mark: Mark = "failed") -> bool:
        """Marks the run of this owner, when it is dead and nobody has taken its place. Gives
        whether it did. See `liveness.recover`."""
        state = self.current
        if state.status != "active" or not owner.is_same(state.owner) or judge(owner) != "dead":
            return False
        heard = (
            f", last heard of at {owner.heartbeat:%Y-%m-%d %H:%M:%S} UTC" if owner.heartbeat else ""
        )
        error = (
            f"its owner died: process {owner.pid} on {owner.host or 'this machine'} is gone{heard}"
        )
        try:
            self.tell("state.recovered", words.Recovered(owner=owner, mark=mark, error=error))
        except (IllegalTransition, SessionBusy):
            return False
        return True

    # ── what happens in it ────────────────────────────────────────────────────────────────────────
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
        """Adds to what is known: a node entered (a step, unless `steps` says otherwise), tokens,
        time, retries, buffer values.

        `retries` is a node that is tried once more, or how often for each; `failures` are nodes
        that failed while the run went on. Either makes a clean run degraded.
        """
        said = words.Progressed(
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
        self.tell("state.progress", said, key=key)
        self._heard = time.monotonic()

    def put(
        self, values: Mapping[str, Any] | None = None, /, *, delete: Iterable[str] = (), **more: Any
    ) -> None:
        """Sets values of the data buffer, and deletes others. What is not named stays."""
        said = words.Buffered(
            run=self._run, set=plain({**(values or {}), **more}), delete=tuple(delete)
        )
        self.tell("state.buffer", said)

    def problem(self, problem: str | Mapping[str, Any], **more: Any) -> None:
        what = {"description": problem} if isinstance(problem, str) else dict(problem)
        self.tell("state.problem", words.Noted(run=self._run, what=plain({**what, **more})))

    def decide(self, decision: str | Mapping[str, Any], **more: Any) -> None:
        what = {"decision": decision} if isinstance(decision, str) else dict(decision)
        self.tell("state.decision", words.Noted(run=self._run, what=plain({**what, **more})))

    def describe(self, *, extra: Mapping[str, Any] | None = None, **fields: Any) -> None:
        """Sets goal_id, agent_id, entry_point, stream_id, correlation_id, isolation_level,
        input_data, active_triggers, trigger_tasks or worker_configured; and in `extra` fields that
        are not ours. Raises ModelError for a name or a type that is wrong."""
        try:
            said = msgspec.convert(
                {**plain(fields), "extra": plain(dict(extra or {}))}, _Description
            )
        except ValueError as error:
            raise ModelError(f"describe: {error}") from None
        self.tell("state.described", words.Described(**msgspec.structs.asdict(said)))

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
        """A point to go back to. `buffer` is the whole data buffer from now on; without it, it
        stays as it is.

        Resuming goes to `next_node`, or enters `node` once more. `clean` says that nothing is half
        done here.
        """
        if type not in get_args(CheckpointType):
            raise ModelError(
                f"a checkpoint of type {type!r}; there are {', '.join(get_args(CheckpointType))}"
            )
        id = id or f"cp_{uuid4().hex[:16]}"
        wanted = None if buffer is None else plain(dict(buffer))
        with self._lock:
            for attempt in range(TRIES + 1):
                folding, is_last = self._caught_up(), attempt == TRIES
                said = _checkpoint_of(folding, wanted, is_whole=is_last)
                said = msgspec.structs.replace(
                    said,
                    id=id,
                    run=self._run,
                    node=node if node is not None else folding.progress["current_node"],
                    next_node=next_node,
                    type=type,
                    is_clean=clean,
                    description=description,
                )
                # What changed is only right for the log as we know it: when it has gone on, look
                # again.
                with suppress(Conflict):
                    self.tell("checkpoint", said, expect=None if is_last else folding.seq)
                    break
            self._heard = time.monotonic()
            return self.checkpoints.get(id)

    # ── signs of life ─────────────────────────────────────────────────────────────────────────────
    def heartbeat(self, *, every_s: float = HEARTBEAT_S) -> None:
        """Says that the owner is alive; as often as you like, it writes at most once in `every_s`.
        Progress and checkpoints say so too."""
        now = time.monotonic()
        if self._heard and now - self._heard < every_s:
            return
        self._heard = now
        self.tell("state.heartbeat", words.Heard(run=self._run))

    @contextmanager
    def beating(self, every_s: float = HEARTBEAT_S) -> Iterator[None]:
        """Heartbeats from a thread of its own, for as long as the block runs: for steps that take
        minutes."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(every_s):
                try:
                    self.heartbeat(every_s=every_s / 2)
                except RunloreError:
                    # It was paused, or has ended: there is nothing more to say, and nobody to say
                    # it to.
                    return

        thread = threading.Thread(target=beat, name=f"heartbeat of {self.session_id}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _begin(self, type: str, said: words.Started | words.Resumed) -> SessionState:
        self.tell(type, said)
        self._run, self._heard = said.run, time.monotonic()
        return self.current

    def _change(self, type: str, said: words.Paused | words.Ended) -> SessionState:
        self.tell(type, msgspec.structs.replace(said, run=self._run))
        return self.current

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


class _Description(words.Described, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `describe` takes: a name that is misspelt is told, not kept."""


def _new_run() -> str:
    return f"run_{uuid4().hex[:12]}"


def _where(
    state: SessionState, mark: Checkpoint | None, node: str | None
) -> tuple[str | None, bool]:
    """At which node to go on, and whether that enters the same node once more."""
    if mark is not None:
        return node or mark.next_node or mark.node, node is None and mark.next_node is None
    target = node or state.progress.resume_from
    return target, target is not None and target == state.progress.current_node


def _checkpoint_of(
    folding: Folding, buffer: dict[str, Any] | None, *, is_whole: bool
) -> words.Checkpointed:
    """The content of a checkpoint at this moment: whole when it is time for that, else what
    changes."""
    saved = folding.saved()
    old, new = saved.data_buffer, saved.data_buffer if buffer is None else buffer
    saved = msgspec.structs.replace(saved, data_buffer=new)
    data = content(saved)
    if is_whole or folding.base is None or folding.since_base * RECORD_BYTES >= len(data):
        return words.Checkpointed(id="", digest=digest(data), whole=saved)
    changed = {name: value for name, value in new.items() if name not in old or old[name] != value}
    return words.Checkpointed(
        id="",
        digest=digest(data),
        set=changed,
        delete=tuple(name for name in old if name not in new),
    )
