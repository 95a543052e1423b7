"""The points that a run can go back to: listed, loaded, compared, pruned.

A checkpoint is a record of the log that holds what changed since the one before; now and then one
holds everything, so that loading reads from there and the log still grows with what happens, not
with what is known. Each has a digest of all that it brings back: when lines are lost in between, it
is refused rather than brought back half.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import CheckpointError
from ..model import LogRecord
from ._run_fold import Folding, begin
from ._run_read import Follower
from ._run_rules import content, digest, in_use
from ._run_words import Checkpoint, Checkpointed, Pruned, Resumed, Saved

if TYPE_CHECKING:
    from ._run_log import RunLog


class Difference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """From one checkpoint to another: keys of the data buffer, nodes visited since, and how far the
    counters moved."""

    added: dict[str, Any] = {}
    removed: dict[str, Any] = {}
    changed: dict[str, tuple[Any, Any]] = {}
    """Pairs of old and new."""
    path: tuple[str, ...] = ()
    path_left: tuple[str, ...] = ()
    """What the first had visited after their ways parted, or before the second was taken."""
    counters: dict[str, int] = {}


class Checkpoints:
    """`session.state.checkpoints`."""

    def __init__(self, handle: RunLog) -> None:
        self._handle = handle

    def __iter__(self) -> Iterator[Checkpoint]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self._handle.view().checkpoints)

    def list(
        self, *, clean: bool | None = None, node: str | None = None, type: str | None = None
    ) -> tuple[Checkpoint, ...]:
        """Oldest first, those that are not pruned."""
        return tuple(
            one
            for one in self._handle.view().checkpoints
            if (clean is None or one.is_clean == clean)
            and (node is None or one.node == node)
            and (type is None or one.type == type)
        )

    def latest(self, *, clean: bool | None = None) -> Checkpoint | None:
        found = self.list(clean=clean)
        return found[-1] if found else None

    def get(self, checkpoint: str | Checkpoint) -> Checkpoint:
        """Raises CheckpointError when there is no such checkpoint, or it was pruned."""
        id = checkpoint if isinstance(checkpoint, str) else checkpoint.id
        known = {one.id: one for one in self._handle.view().checkpoints}
        if id not in known:
            latest = f"the latest is {next(reversed(known))}" if known else "it has none"
            raise CheckpointError(
                f"session {self._handle.session_id} has no checkpoint {id!r}; {latest}"
            )
        return known[id]

    def load(self, checkpoint: str | Checkpoint) -> Saved:
        """What it brings back. Raises CheckpointError when it is missing, or the log no longer
        holds all of it."""
        mark = self.get(checkpoint)
        # From the whole record that it builds on; when that one is lost, what came before may still
        # add up to the same.
        for first in {mark.base, 0}:
            saved = self._fold(mark, first)
            if saved is not None and digest(content(saved)) == mark.digest:
                return saved
        others = [one.id for one in self.list() if one.id != mark.id]
        hint = f"; others: {', '.join(others[-3:])}" if others else ""
        raise CheckpointError(
            f"checkpoint {mark.id} is damaged: the log has lost lines that it is made of{hint}"
        )

    def compare(self, one: str | Checkpoint, other: str | Checkpoint) -> Difference:
        """What is different at the other."""
        a, b = self.load(one), self.load(other)
        old, new = a.data_buffer, b.data_buffer
        left, path = a.progress.get("path", ()), b.progress.get("path", ())
        shared = next(
            (n for n, (x, y) in enumerate(zip(left, path, strict=False)) if x != y),
            min(len(left), len(path)),
        )
        return Difference(
            added={name: value for name, value in new.items() if name not in old},
            removed={name: value for name, value in old.items() if name not in new},
            changed={
                name: (old[name], value)
                for name, value in new.items()
                if name in old and old[name] != value
            },
            path=tuple(path[shared:]),
            path_left=tuple(left[shared:]),
            counters=_counters(a, b),
        )

    def prune(
        self,
        *,
        keep: int | None = None,
        older_than: timedelta | None = None,
        now: datetime | None = None,
    ) -> tuple[Checkpoint, ...]:
        """Takes checkpoints off the list: all but the newest `keep`, those older than `older_than`,
        or those that are both.

        Never one in use: the latest, the latest clean one, the one that the run was resumed from.
        Gives those that are gone. The log keeps their records: what is written stays written.
        """
        view = self._handle.view()
        used = in_use(view.checkpoints, view.state.resumed_from)
        before = (now or datetime.now(UTC)) - older_than if older_than is not None else None
        old = (
            view.checkpoints[: max(0, len(view.checkpoints) - keep)]
            if keep is not None
            else view.checkpoints
        )
        gone = [one for one in old if one.id not in used and (before is None or one.ts < before)]
        if (keep is None and older_than is None) or not gone:
            return ()
        self._handle.tell("checkpoint.pruned", Pruned(ids=tuple(one.id for one in gone)))
        left = {one.id for one in self._handle.view().checkpoints}
        return tuple(one for one in gone if one.id not in left)

    def _fold(self, mark: Checkpoint, first: int) -> Saved | None:
        """What the log says of this checkpoint when it is read from `first`; None when it does not
        go that far."""
        folding = Folding(begin(self._handle.session_id, mark.ts))
        folding.seq = first - 1
        for record in Follower(self._handle.log).new(first - 1):
            if record.seq > mark.seq:
                return None
            if record.seq == first and first:
                _enter(folding, record)
            else:
                folding.add(record)
            if record.seq == mark.seq:
                return folding.saved()
        return None


def _enter(folding: Folding, record: LogRecord) -> None:
    """Begins in mid-log, at a record that holds everything."""
    folding.seq = record.seq
    shape: type[Checkpointed | Resumed] = Checkpointed if record.type == "checkpoint" else Resumed
    try:
        said = msgspec.convert(record.payload, shape)
        if said.whole is None:
            return
        folding.restore(said.whole)
    except ValueError:
        return
    folding.is_started = True
    folding.reenters = said.whole.reenters
    folding.top.update(status=said.whole.status, current_run_id=said.whole.run)
    if isinstance(said, Resumed):
        folding.top["status"] = "active"
        folding.go_on(said)


def _counters(one: Saved, other: Saved) -> dict[str, int]:
    moved = {}
    for a, b in ((one.progress, other.progress), (one.metrics, other.metrics)):
        for name in {*a, *b}:
            old, new = a.get(name, 0), b.get(name, 0)
            if (
                isinstance(old, int)
                and isinstance(new, int)
                and old != new
                and not isinstance(new, bool)
            ):
                moved[name] = new - old
    return dict(sorted(moved.items()))
