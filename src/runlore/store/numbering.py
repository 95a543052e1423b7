"""The numbers of events within a session. A source numbers its events from 0; in the session these
are in blocks, which are its alone.

Pure: knows neither a database nor who has which block.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..model import BLOCK
from .rows import PARENT, SEQ, outside
from .values import Delta


class Renumbering:
    """A session that is being derived again: the numbers its native ids had, and the block for
    those that had none."""

    def __init__(self, age: tuple[datetime, datetime, int] | None = None) -> None:
        self.age = age
        """The age of the session with all its events, which decides what of it is a copy."""
        self.numbers: dict[int, int] = {}
        """By hash of a native id."""
        self.last = -1
        """The highest number that was ever given: what comes behind it is new."""
        self.used: set[int] = set()
        """The numbers that were given again: an event and what it is a copy of may have had the
        same."""
        self.block: int | None = None
        self.has_gone = False
        """Some events are not in the source any more and keep their numbers, to which counting
        would come when it grows."""

    def fits(self, delta: Delta, blocks: list[int]) -> bool:
        """Return True if counting on gives every event the number it had, and what is new one that
        nothing had."""
        if self.has_gone:
            return False
        return all(
            number > self.last if h not in self.numbers else number == self.numbers[h]
            for h, number in zip(delta.natives, numbers_of(delta, blocks), strict=True)
        )


def numbers_of(delta: Delta, blocks: list[int]) -> list[int]:
    """Return the numbers of its events in the session."""
    if blocks == [0]:  # As nearly always.
        return [row[SEQ] for row in delta.rows]
    return [absolute(row[SEQ], blocks) for row in delta.rows]


def rows_in(session: int, delta: Delta, blocks: list[int]) -> list[list[Any]]:
    """Return the rows as they are numbered in the session, each with that before it."""
    is_plain = blocks == [0]
    rows = []
    for row in delta.rows:
        parent = row[PARENT]
        if is_plain and (parent is None or parent >= 0):
            rows.append([session, *row])
            continue
        seq = absolute(row[SEQ], blocks)
        if parent is not None:
            parent = outside(parent) if parent < 0 else absolute(parent, blocks)
            # What stands in for a copy may be numbered in a later block, and is then no parent.
            parent = parent if parent < seq else None
        rows.append([session, seq, *row[1:PARENT], parent, *row[PARENT + 1 :]])
    return rows


def absolute(seq: int, blocks: list[int]) -> int:
    """Return the number in the session of an event of a stream."""
    return blocks[seq // BLOCK] * BLOCK + seq % BLOCK
