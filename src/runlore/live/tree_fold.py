"""The tree of one open log, brought up to date from a snapshot and from new records."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat

import msgspec

from ..model import LogRecord
from .backend import SessionLog
from .tree import VERSION, Tree

SNAPSHOT = "view"


class TreeFold:
    """The tree of a log, and how far the log is in it.

    `tree` is None until the log was read. `end` is the position behind the last record in it,
    `saved_seq` the seq of the snapshot on disk.
    """

    def __init__(self, log: SessionLog, tree: Tree | None) -> None:
        self.tree = tree
        self.end = 0
        self.saved_seq = -1
        self._log = log
        self._start = 0
        self._is_folding = False

    def drop(self) -> None:
        """Forget the tree: the next access folds the log again."""
        self.tree, self._start, self.end = None, 0, 0

    def start_over(self) -> None:
        """Fold the log again without the snapshot: it knows records that are damaged since."""
        self.tree, self._start, self.end, self.saved_seq = Tree(), 0, 0, -1

    def drop_inherited(self, is_draft: bool) -> None:
        """Drop the tree in the child of a fork: a thread of the parent may have been changing
        it."""
        if self._log.is_inherited:
            self._log.is_inherited = False
            if not is_draft:
                self.drop()

    def current(self, is_draft: bool) -> Tree:
        """Return the tree of the log as it is now."""
        with self._log.mutex:
            self.drop_inherited(is_draft)
            # A loss of power removed records that had been folded.
            if not is_draft and self._log.bytes_after(self.end) < 0:
                self.drop()
            tree = self.tree if self.tree is not None else self.load()
            if not is_draft:
                self._add(tree, self._log.scan(self.end))
            return tree

    def load(self) -> Tree:
        """Start from the snapshot, or from an empty tree without a valid one."""
        tree = Tree()
        snapshot = self._log.snapshots.read(SNAPSHOT)
        if snapshot is not None:
            try:
                tree = msgspec.msgpack.decode(snapshot.data, type=Tree)
            except ValueError:
                tree = Tree()
            if tree.version != VERSION or tree.seq != snapshot.seq:
                tree = Tree()
            self._start = self.end = snapshot.position if tree.seq >= 0 else 0
        self.tree, self.saved_seq = tree, tree.seq
        return tree

    def advance(self, max_bytes: int) -> bool:
        """Fold the next part of the log, for a writer that nobody reads through.

        Return True if the tree is at the end then.
        """
        with self._log.mutex:
            tree = self.tree if self.tree is not None else self.load()
            stop = self.end + max_bytes
            for record, end in self._log.scan(self.end):
                if self.end >= stop and end > self.end:  # A line is folded as a whole.
                    break
                self._add(tree, [(record, end)])
            return self._log.bytes_after(self.end) <= 0

    def add_own(self, records: list[LogRecord], end: int) -> None:
        """Add the records that this handle has just appended, if they follow the last one."""
        tree = self.tree
        if tree is None or tree.seq != records[0].seq - 1 or self._is_folding:
            return
        # The common case. No signal handler can run in between.
        if len(records) == 1 and records[0].type == "message":
            tree.add(records[0])
            self.end = end
        else:
            self._add(tree, zip(records, repeat(end), strict=False))

    def add_new(self, records: list[LogRecord] | None, end: int, is_draft: bool) -> None:
        """Add the records of other writers; None if they were too many to read."""
        self.drop_inherited(is_draft)
        if records is None and end < self.end:
            self.drop()
        if records and self.tree is not None and self.tree.seq == records[0].seq - 1:
            self._add(self.tree, zip(records, repeat(end), strict=False))

    def save(self) -> None:
        """Write a snapshot of the tree."""
        with self._log.mutex:
            assert self.tree is not None
            seq, data, folded = (
                self.tree.seq,
                msgspec.msgpack.encode(self.tree),
                (self._start, self.end),
            )
            self.saved_seq = seq
        if seq >= 0:
            self._log.snapshots.write(SNAPSHOT, seq, data, folded)

    def _add(self, tree: Tree, records: Iterable[tuple[LogRecord, int]]) -> None:
        """Add records, each with the position behind it.

        Does nothing inside a signal handler that interrupts another fold.
        """
        if self._is_folding:
            return
        self._is_folding = True
        try:
            for record, end in records:
                tree.add(record)
                self.end = end
        except BaseException:  # Half a record may have been added, also by a handler.
            self.drop()
            raise
        finally:
            self._is_folding = False
