"""The original of an event that several sessions have, whatever the order in which they
arrive.

An event that the agent marks as a copy is one. Otherwise the original is in the session from which
the other was forked, or else in the older one (`known.Age`), or else in the one with the smaller
uid. None of this depends on when a file was read. A session whose event turns out to be a copy is
derived again, and then refers to the original. A copy of a copy may have a name in common with that
one alone, so what copies refer to is compared as well. Knows no database.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ..timeline import Tally
from .deltas import rebuild, repeated
from .known import LATEST, Age, Known, KnownSession, Place, block_of
from .rows import GONE, SEQ, copied, outside, record_of, with_origin, with_record
from .values import Delta, StreamState, Tail


class Claim(msgspec.Struct, frozen=True):
    """A session that has an event in full."""

    uid: str
    is_copy: bool
    """The agent says so."""
    age: Age
    can_yield: bool = True
    """It can be derived again. One that cannot keeps what it has."""
    at: tuple[int, int] = (-1, -1)

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Return a key by which the session that has the original has the smallest claim."""
        return self.can_yield, self.is_copy, self.age, self.uid, self.at


class Copies:
    """The rows of a delta that its own session or another one has already."""

    def __init__(self, delta: Delta, session: int, known: Known, age: Age) -> None:
        self.stale: set[tuple[int, int]] = set()
        """(session, block) of what has turned out to be a copy of something else than was
        thought."""
        self.again: dict[int, int | None] = {}
        """Events of the session that are in the delta as well, and the numbers of their records
        there."""
        self.count = 0
        self._delta, self._session, self._known, self._age = delta, session, known, age
        self._ages: dict[int, Age] = {}
        self._declared = {n for n, _ in delta.originals}

    def without(self, tally: Tally | None, tail: Tail | None) -> Delta:
        """Return what the delta adds: without what the session has, and with references to what
        happened in another one. `tally` and `tail` are those of the stream that it continues."""
        delta, places_of = self._delta, self._places()
        earlier = repeated(delta)
        if not places_of and not earlier:
            return delta
        replaced: dict[int, list[Any] | None] = {}
        instead: dict[int, int] = {}
        for n, (h, row) in enumerate(zip(delta.natives, delta.rows, strict=True)):
            places = places_of.get(h, ())
            own = next((at.seq for at in places if at.session == self._session), None)
            if own is not None:
                replaced[n], instead[row[SEQ]] = None, outside(own)
                self.again.setdefault(own, record_of(row))
            elif n in earlier:
                replaced[n], instead[row[SEQ]] = None, delta.rows[earlier[n]][SEQ]
            elif places and (origin := self._origin(n, places)) is not None:
                replaced[n] = with_origin(row, origin)
        if not replaced:
            return delta
        self.count = len(replaced)
        state = None
        if tally is not None:
            state = StreamState(block=0, facts=delta.facts, tally=tally, hash=b"", tail=tail)
        return rebuild(delta, state, replaced, instead)

    def _places(self) -> dict[int, tuple[Place, ...]]:
        """The events that may be the same as a row, by the hash of its native id."""
        delta, natives = self._delta, self._known.natives
        found = {h: places for h in delta.natives if (places := natives.get(h)) and h}
        for n, original in delta.originals:
            h = delta.natives[n]
            places = natives.get(original, ()) if original != h else ()
            if places:
                found[h] = _each_once((*found.get(h, ()), *places))
        for n, twin in delta.twins:
            h = delta.natives[n]
            # Equal events within one session are not copies of each other.
            elsewhere = [at for at in natives.get(twin, ()) if at.session != self._session]
            if elsewhere:
                found[h] = _each_once((*found.get(h, ()), *elsewhere))
        return found

    def _origin(self, n: int, places: Iterable[Place]) -> str | None:
        """Return where a row happened, if that is elsewhere."""
        delta, is_copy = self._delta, n in self._declared
        here = Claim(delta.session_uid, is_copy, self._age)
        claims: set[Claim] = set()
        elsewhere: dict[str, list[tuple[int, int]]] = {}
        mine: list[tuple[int, int]] = []
        stored = sorted((at for at in places if at.rest is not None), key=lambda at: at[:2])
        for at in stored:
            cited = copied(at.rest or b"")[0]
            if cited is None:
                claims.update(self._claims(at))
            elif cited.startswith(here.uid + "#"):
                # This session is being derived again, and there is a reference to what it is about
                # to store.
                mine.append(at[:2])
            else:
                # What it is a copy of may have no name in common with the row.
                elsewhere.setdefault(cited, []).append(at[:2])
                claims.update(self._claims(self._known.cited_place(cited)))
        first = min([*claims, here], key=lambda claim: claim.sort_key)
        if first is not here:
            # Another event of the same session is no copy of the first: a record may name one, and
            # tell of an original that is the other.
            others = (claim.at for claim in claims if claim.uid != first.uid)
            self._mark_stale([*mine, *others, *self._citing_others(elsewhere, first.uid)])
            return f"{first.uid}#{first.at[1]}"
        if claims:
            self._mark_stale([*(at[:2] for at in places), *(claim.at for claim in claims)])
        elif elsewhere:
            self._mark_stale(mine)
            return min(elsewhere, key=self._key_of_origin)
        return None

    def _key_of_origin(self, origin: str) -> tuple[Age, str]:
        session = self._known.sessions.get(origin.rpartition("#")[0])
        return (LATEST, LATEST, 0) if session is None else self._age_of(session), origin

    def _claims(self, at: Place | None) -> Iterator[Claim]:
        """Yield the claim of the event at a place, unless it is a copy itself."""
        if at is None or at.rest is None:
            return
        origin, original = copied(at.rest)
        if origin is None:
            self._known.cited[at[:2]] = at
            session = self._known.by_number[at.session]
            can_yield = self._known.can_be_derived_again(session)
            age = self._age_of(session)
            yield Claim(session.uid, original is not None, age, can_yield, at[:2])

    def _citing_others(
        self, elsewhere: dict[str, list[tuple[int, int]]], uid: str
    ) -> Iterator[tuple[int, int]]:
        """Yield the copies that do not refer to this session, but to another known one."""
        for cited, copies in elsewhere.items():
            if not cited.startswith(uid + "#") and self._known.cited_place(cited) is not None:
                yield from copies

    def _age_of(self, session: KnownSession) -> Age:
        # A delta is small enough that no session grows while its copies are looked for.
        if session.number not in self._ages:
            self._ages[session.number] = self._known.age(session)
        return self._ages[session.number]

    def _mark_stale(self, places: Iterable[tuple[int, int]]) -> None:
        self.stale.update((session, block_of(seq)) for session, seq in places)

    def list_returned(self, blocks: set[int]) -> list[tuple[Place, bytes]]:
        """Return what was gone from the source and is there again, with the rest of its row as it
        is now. `blocks` are those of the source."""
        places = {
            at.seq: at
            for places in self._places().values()
            for at in places
            if at.session == self._session
        }
        return [
            (places[seq], with_record(rest, record))
            for seq, record in self.again.items()
            if (rest := places[seq].rest) is not None
            and places[seq].flags & GONE
            and block_of(seq) in blocks
        ]


def _each_once(places: Iterable[Place]) -> tuple[Place, ...]:
    # A place that is listed twice would conflict with itself, and be derived again for ever.
    return tuple({at[:2]: at for at in places}.values())
