"""The segments that contain the words of a query, and functions on sorted lists of segments.

The high bits of a segment number are the number of its session.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .syntax import Term
from .text import Finder


@dataclass
class Word:
    """A group of the query, with its postings."""

    text: str
    terms: tuple[Term, ...]
    finders: list[Finder]
    segments: list[int]
    weight: float
    needs_proof: bool
    is_part: bool = False
    """Not a word of the query, but a part of a word that no session has."""

    def among(self, sessions: set[int] | None) -> set[int]:
        """Return those of the sessions that have the word; None means all."""
        if sessions is None or len(sessions) * 8 > len(self.segments):
            everywhere = self.everywhere.keys()
            return set(everywhere) if sessions is None else everywhere & sessions
        return {session for session in sessions if of_session(self.segments, session)}

    def counts(self, sessions: set[int]) -> dict[int, int]:
        """Return the number of segments with the word for each session."""
        return (
            self.everywhere
            if len(sessions) * 8 > len(self.segments)
            else counts_of(self.segments, sessions)
        )

    @cached_property
    def everywhere(self) -> dict[int, int]:
        return Counter([segment >> 20 for segment in self.segments])


def of_session(segments: Sequence[int], session: int) -> Sequence[int]:
    """Return the segments of one session, out of ascending ids."""
    low = bisect_left(segments, session << 20)
    high = low
    while high < len(segments) and segments[high] >> 20 == session:
        high += 1
    return segments[low:high]


def contains(segments: Sequence[int], segment: int) -> bool:
    at = bisect_left(segments, segment)
    return at < len(segments) and segments[at] == segment


def counts_of(segments: Sequence[int], sessions: set[int]) -> dict[int, int]:
    """Return the number of segments for each of the sessions; others may be included."""
    if len(sessions) * 8 < len(segments):
        return {session: len(own) for session in sessions if (own := of_session(segments, session))}
    return Counter([segment >> 20 for segment in segments])


def union(postings: list[list[int]]) -> list[int]:
    return postings[0] if len(postings) == 1 else sorted(set().union(*postings))


def common(postings: list[list[int]]) -> list[int]:
    return (
        postings[0] if len(postings) == 1 else sorted(set(postings[0]).intersection(*postings[1:]))
    )
