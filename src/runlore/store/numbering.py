"""The numbers of events within a session. A source numbers its events from 0; in the session these
are in blocks, which are its alone.

Pure: knows neither a database nor who has which block.
"""

from __future__ import annotations

from typing import Any

from ..model import BLOCK
from .rows import PARENT, SEQ, outside
from .values import Piece


class Again:
    """A session that is being derived again: the numbers its native ids had, and the block for
    those that had none."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.last = -1
        """The highest number that was ever given: what comes behind it is new."""
        self.taken: set[int] = set()
        """The numbers that were given again: an event and what it is a copy of may have had the
        same."""
        self.fresh: int | None = None
        self.has_gone = False
        """Some events are not in the source any more and keep their numbers, to which counting
        would come when it grows."""

    def fits(self, piece: Piece, blocks: list[int]) -> bool:
        """Whether counting on gives every event the number it had, and what is new one that nothing
        had."""
        if self.has_gone:
            return False
        numbers = (
            (h, absolute(row[SEQ], blocks))
            for h, row in zip(piece.natives, piece.rows, strict=True)
        )
        return all(
            number > self.last if h not in self.numbers else number == self.numbers[h]
            for h, number in numbers
        )


def numbers_of(piece: Piece, blocks: list[int]) -> list[int]:
    """Those of its events in the session."""
    if blocks == [0]:  # As nearly always.
        return [row[SEQ] for row in piece.rows]
    return [absolute(row[SEQ], blocks) for row in piece.rows]


def rows_in(session: int, piece: Piece, blocks: list[int]) -> list[list[Any]]:
    """The rows of a piece as they are numbered in its session, each with that before it."""
    is_plain = blocks == [0]
    rows = []
    for row in piece.rows:
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
    return blocks[seq // BLOCK] * BLOCK + seq % BLOCK
