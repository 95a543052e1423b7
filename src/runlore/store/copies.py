"""Who has what several sessions have: the session where it happened, whatever the order in which
they arrive.

What the agent calls a copy is one. Of two that are not, a session has it before those that come
from it, and else the one whose uid is smaller: any order will do that does not depend on when a
file was read. A session that has to give up what it has is derived again, and then finds where it
happened. Knows no database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, cmp_to_key

import msgspec

from ..model import BLOCK
from .rows import copied
from .values import Piece

Where = tuple[int, int]
"""(number of the session, seq)."""


class Place(msgspec.Struct, frozen=True):
    """A session that has an event in full."""

    uid: str
    parent: str | None
    is_copy: bool
    """So says the agent."""
    can_yield: bool = True
    """It can be derived again. One that cannot keeps what it has."""
    at: Where = (-1, -1)

    def compare(self, other: Place) -> int:
        """Less than 0 when the event happened here rather than there."""
        if self.can_yield != other.can_yield:
            return self.can_yield - other.can_yield
        if self.is_copy != other.is_copy:
            return self.is_copy - other.is_copy
        if self.parent == other.uid or other.parent == self.uid:
            return 1 if self.parent == other.uid else -1
        return -1 if (self.uid, self.at) < (other.uid, other.at) else 1


class Copies:
    """Finds out for the rows of a piece where they happened.

    `rest` gives the rest of a stored row, `who` the uid of a session, its parent's, and whether it
    can be derived again. `overtaken` takes up (session, block) of what has turned out to be a copy
    of something else than was thought.
    """

    def __init__(
        self,
        piece: Piece,
        overtaken: set[tuple[int, int]],
        rest: Callable[[int, int], bytes | None],
        who: Callable[[int], tuple[str, str | None, bool]],
    ) -> None:
        self._piece, self._overtaken, self._rest, self._who = piece, overtaken, rest, cache(who)
        self._declared = {n for n, _ in piece.originals}

    def origin(self, n: int, places: list[Where]) -> str | None:
        """Where a row of the piece happened, when that is elsewhere."""
        here = Place(self._piece.session_uid, self._piece.facts.parent_uid, n in self._declared)
        kept: list[Place] = []
        elsewhere: list[str] = []
        mine: list[Where] = []
        for at in sorted(places):
            rest = self._rest(*at)
            if rest is None:
                continue
            origin, original = copied(rest)
            if origin is None:
                uid, parent, can_yield = self._who(at[0])
                kept.append(Place(uid, parent, original is not None, can_yield, at))
            elif origin.startswith(here.uid + "#"):
                # This session is being derived again, and there is a reference to what it is about
                # to store.
                mine.append(at)
            else:
                elsewhere.append(origin)
        first = min([*kept, here], key=cmp_to_key(Place.compare))
        if first is not here:
            # Another event of the same session is no copy of the first: a record may name one, and
            # tell of an original that is the other.
            self._overtake([*mine, *(place.at for place in kept if place.uid != first.uid)])
            return f"{first.uid}#{first.at[1]}"
        if kept:
            self._overtake(places)
        elif elsewhere:
            self._overtake(mine)
            return elsewhere[0]
        return None

    def _overtake(self, places: Iterable[Where]) -> None:
        self._overtaken.update((session, seq // BLOCK) for session, seq in places)
