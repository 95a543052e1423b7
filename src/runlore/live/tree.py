"""The records of a log that are in view: a fold that stores a few numbers for each rewind, and none
for each message.

A log is divided into segments. One ends where a rewind or redo moves the head; the next begins with
that record and names the position it continues from. A position is a seq, and stands for the
conversation right after that record; following it from segment to segment gives its path. Rewound
records stay in their segments. A rewind across a compaction needs no special case: the compaction
is then not on the path. The facts for the list of sessions are folded along.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from typing import Any

import msgspec

from ..model import LogRecord

VERSION = 2
MESSAGES = frozenset({"message", "partial"})
NODES = MESSAGES | {"compact", "clear"}
"""The records that form a conversation."""

QUIET = frozenset(
    {"state.progress", "state.heartbeat", "state.buffer", "state.problem", "state.decision"}
)
"""Frequent records of a run that do not change its status."""

TITLE_CHARS = 48


class Tree(msgspec.Struct):
    """The fold of a log up to and including record `seq`. Its snapshots are small for any log."""

    version: int = VERSION
    seq: int = -1
    starts: list[int] = msgspec.field(default_factory=lambda: [0])
    parents: list[int] = msgspec.field(default_factory=lambda: [-1])
    lasts: list[int] = msgspec.field(default_factory=lambda: [-1])
    counts: list[int] = msgspec.field(default_factory=lambda: [0])
    marks: list[tuple[int, int]] = []
    redo: list[int] = []
    has_ledger: bool = False
    tells_starts: bool = False
    meta: dict[str, Any] = {}
    title: str | None = None
    is_named: bool = False
    title_seq: int = -1
    state_seq: int = -1
    usage_seq: int = -1
    created_at: datetime | None = None
    updated_at: datetime | None = None
    messages: int = 0
    changed: int = 0

    def add(self, record: LogRecord) -> None:
        """Add the next record. A record that was added already changes nothing."""
        seq, kind = record.seq, record.type
        if seq <= self.seq:
            return
        self.seq, self.updated_at = seq, record.ts
        if kind in NODES:
            self.lasts[-1] = seq
            self.counts[-1] += 1
            if self.redo:
                self.redo.clear()
            if kind == "message":
                self.messages += 1
                if self.title is None and record.payload.get("role") == "user":
                    self._set_title(title_of(record.payload))
            elif kind != "partial":
                self._add_mark(seq, kind, record.payload)
        else:
            self._add_other(seq, kind, record)

    def path(self, position: int) -> list[tuple[int, int]]:
        """Return the ranges of seqs that lead to a position, oldest first, both ends included."""
        ranges = []
        while position >= 0:
            segment = self._segment(position)
            ranges.append((self.starts[segment], position))
            position = self.parents[segment]
        return ranges[::-1]

    def visible(self, position: int) -> tuple[int | None, list[tuple[int, int]]]:
        """Return the last compaction or clear on the path to a position, and the ranges in view
        after it."""
        mark, floor = None, -1
        ranges: list[tuple[int, int]] = []
        while position > floor:
            segment = self._segment(position)
            start = self.starts[segment]
            if mark is None and (last := self._last_mark(start, position)) is not None:
                mark, floor = last
            ranges.append((max(start, floor + 1), position))
            position = self.parents[segment]
        return mark, [(low, high) for low, high in reversed(ranges) if low <= high]

    def last_node(self, position: int) -> int:
        """Return the last record in view at a position as far as numbers tell it; -1 at the
        beginning."""
        while position >= 0:
            segment = self._segment(position)
            if self.lasts[segment] >= 0:
                # Before the last node of a segment only the log knows which records are nodes; the
                # caller looks there.
                return min(position, self.lasts[segment])
            position = self.parents[segment]
        return -1

    def tips(self) -> list[tuple[int, int, int]]:
        """Return for each branch its last node, the position it branched off at, and its number of
        nodes."""
        continued = {
            self._segment(parent)
            for segment, parent in enumerate(self.parents)
            if parent >= 0 and self.counts[segment] and parent >= self.lasts[self._segment(parent)]
        }
        rows = zip(self.lasts, self.parents, self.counts, strict=True)
        return [
            (last, parent, count)
            for segment, (last, parent, count) in enumerate(rows)
            if count and segment not in continued
        ]

    def _add_other(self, seq: int, kind: str, record: LogRecord) -> None:
        payload = record.payload
        if kind in ("rewind", "redo"):
            self._move(seq, kind, payload)
        elif kind.startswith("tool_"):
            self.has_ledger = True
            self.tells_starts = self.tells_starts or kind == "tool_started"
        elif kind == "model_finished":
            self.usage_seq = seq
        elif kind == "session" and seq == 0:
            self.meta, self.created_at, self.changed = payload, record.ts, seq
            self._set_title(payload.get("title"), named=True)
        elif kind in ("meta", "title", "redacted"):
            self._change_facts(seq, kind, payload)
        elif kind.startswith("state.") and kind not in QUIET:
            self.state_seq = self.changed = seq

    def _move(self, seq: int, kind: str, payload: dict[str, Any]) -> None:
        """Continue from another position."""
        if kind == "rewind":
            to = payload.get("seq")
            if isinstance(to, int) and -1 <= to < seq:
                self.redo.append(seq - 1)
                self._begin_segment(seq, to)
            return
        # It names where it goes: the rewind that it undoes may be damaged.
        to = payload.get("seq", self.redo[-1] if self.redo else None)
        if to in self.redo:
            del self.redo[self.redo.index(to) :]
            self._begin_segment(seq, to)

    def _change_facts(self, seq: int, kind: str, payload: dict[str, Any]) -> None:
        if kind == "title":
            self.title = None
            self._set_title(payload.get("title"), named=True)
        elif kind == "meta":
            changed = {**self.meta, **payload}
            self.meta = {name: value for name, value in changed.items() if value is not None}
            self.changed = seq
        else:  # What was derived from a redacted record goes, too.
            if payload.get("seq") == self.title_seq:
                self.title, self.changed = None, seq
            if payload.get("type") in ("session", "meta"):
                self.meta, self.changed = {}, seq

    def _set_title(self, title: object, named: bool = False) -> None:
        if isinstance(title, str) and title:
            self.title, self.is_named = title, named
            self.title_seq = self.changed = self.seq

    def _add_mark(self, seq: int, kind: str, payload: dict[str, Any]) -> None:
        upto = payload.get("upto")
        if kind == "clear":
            upto = seq
        elif not isinstance(upto, int) or upto >= seq:
            upto = seq - 1
        # A compaction that began before a clear does not restore what was cleared.
        cleared = next(
            (
                other
                for other, floor in reversed(self.marks)
                if other == floor and self._is_on_path(other)
            ),
            -1,
        )
        self.marks.append((seq, max(upto, cleared)))

    def _is_on_path(self, seq: int) -> bool:
        return any(low <= seq <= high for low, high in self.path(self.seq))

    def _begin_segment(self, seq: int, parent: int) -> None:
        self.starts.append(seq)
        self.parents.append(parent)
        self.lasts.append(-1)
        self.counts.append(0)

    def _segment(self, position: int) -> int:
        return bisect_right(self.starts, position) - 1

    def _last_mark(self, low: int, high: int) -> tuple[int, int] | None:
        place = bisect_right(self.marks, high, key=lambda mark: mark[0]) - 1
        return self.marks[place] if place >= 0 and self.marks[place][0] >= low else None


def title_of(message: dict[str, Any]) -> str | None:
    """Return the beginning of a user's own text on one line, or None when the message has no
    text."""
    content = message.get("content")
    if isinstance(content, list):
        blocks = [
            block for block in content if isinstance(block, dict) and block.get("type") == "text"
        ]
        texts = [
            block["text"]
            for block in blocks
            if isinstance(block.get("text"), str) and not block.get("attachment")
        ]
    else:
        texts = [content] if isinstance(content, str) else []
    return " ".join(" ".join(text[:4096] for text in texts).split())[:TITLE_CHARS].strip() or None
