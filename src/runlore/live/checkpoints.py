"""The points that a run can return to: list, load, compare, prune.

A checkpoint is a record that holds the changes since the one before. From time to time one holds
everything, so that loading starts there and the log grows with the changes, not with the size of
the state. Each has a digest of everything it restores: if lines between are lost, it is refused
instead of restored in part.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import CheckpointError
from ..model import LogRecord, Plain
from .run_fold import Folding, begin
from .run_reader import Follower
from .run_records import Checkpoint, Checkpointed, Pruned, Resumed, Saved
from .run_rules import content, digest, in_use

if TYPE_CHECKING:
    from .run_log import RunLog


class Difference(Plain, frozen=True, kw_only=True, omit_defaults=True):
    """The difference between two checkpoints: keys of the data buffer, nodes visited, counters."""

    added: dict[str, Any] = msgspec.field(default_factory=dict)
    removed: dict[str, Any] = msgspec.field(default_factory=dict)
    changed: dict[str, tuple[Any, Any]] = msgspec.field(default_factory=dict)
    """Pairs of old and new."""
    path: tuple[str, ...] = ()
    path_left: tuple[str, ...] = ()
    """Nodes that the first visited after the two paths diverge."""
    counters: dict[str, int] = msgspec.field(default_factory=dict)


class Checkpoints:
    """The checkpoints of a session: `session.state.checkpoints`."""

    def __init__(self, handle: RunLog) -> None:
        self._handle = handle

    def __iter__(self) -> Iterator[Checkpoint]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self._handle.view().checkpoints)

    def list(
        self, *, clean: bool | None = None, node: str | None = None, type: str | None = None
    ) -> tuple[Checkpoint, ...]:
        """Return the checkpoints that are not pruned, oldest first."""
        return tuple(
            one
            for one in self._handle.view().checkpoints
            if (clean is None or one.is_clean == clean)
            and (node is None or one.node == node)
            and (type is None or one.type == type)
        )

    def latest(self, *, clean: bool | None = None) -> Checkpoint | None:
        checkpoints = self.list(clean=clean)
        return checkpoints[-1] if checkpoints else None

    def get(self, checkpoint: str | Checkpoint) -> Checkpoint:
        """Return a checkpoint. Raises CheckpointError when it does not exist or was pruned."""
        id = checkpoint if isinstance(checkpoint, str) else checkpoint.id
        known = {one.id: one for one in self._handle.view().checkpoints}
        if id not in known:
            latest = f"the latest is {next(reversed(known))}" if known else "it has none"
            raise CheckpointError(
                f"session {self._handle.session_id} has no checkpoint {id!r}; {latest}"
            )
        return known[id]

    def load(self, checkpoint: str | Checkpoint) -> Saved:
        """Return the content of a checkpoint.

        Raises CheckpointError when the log no longer holds all of it.
        """
        mark = self.get(checkpoint)
        # Start from the whole record it builds on. If that one is lost, the records before it may
        # still add up to the same.
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
        """Return the differences between two checkpoints."""
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
        """Remove checkpoints from the list and return them.

        Removes those that are not among the newest `keep` and are older than `older_than`; either
        limit may be left out. The latest, the latest clean one and the one that the run was resumed
        from always stay. The log keeps the records.
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
        self._handle.append("checkpoint.pruned", Pruned(ids=tuple(one.id for one in gone)))
        left = {one.id for one in self._handle.view().checkpoints}
        return tuple(one for one in gone if one.id not in left)

    def _fold(self, mark: Checkpoint, first: int) -> Saved | None:
        """Return the content of this checkpoint as folded from `first` on, or None if that
        fails."""
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
    """Start a fold in the middle of the log, at a record that holds everything."""
    folding.seq = record.seq
    shape: type[Checkpointed | Resumed] = Checkpointed if record.type == "checkpoint" else Resumed
    try:
        payload = msgspec.convert(record.payload, shape)
        if payload.whole is None:
            return
        folding.restore(payload.whole)
    except ValueError:
        return
    folding.is_started = True
    folding.reenters = payload.whole.reenters
    folding.top.update(status=payload.whole.status, current_run_id=payload.whole.run)
    if isinstance(payload, Resumed):
        folding.top["status"] = "active"
        folding.go_on(payload)


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
