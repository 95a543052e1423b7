"""Answers questions in plain words: the sessions with the best passages.

The words of the question, in all their forms, choose segments by the index alone. The best few
hundred are read, and their passages scored (`passages.py`). A session is as good as its best
passage, and a little better for what else it has: other words of the question, its title, what its
digest says of goal, result and commits, its date.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..store import SessionLine, Store
from .fields import allowed
from .passages import Matcher, Passage, best_passages
from .questions import Clue, find_clues
from .syntax import Query
from .text import Answer, EventHit, Hit, Page, event_hit

MAX_READ = 300
"""Maximum number of segments that are read for a question."""

MAX_READ_OF_SESSION = 4
"""Share of these for one session."""

READ_AHEAD = 32
"""Number of segments that are fetched at a time."""

MIN_COVERAGE = 0.3
"""Share of the weight of the best session's words that a session must have to count as a match."""

SAID_WEIGHT = 1.0
"""Extra weight of a segment in which a person or the agent uses the word."""

PART_SHARE = 0.5
"""Share of the weight of a word that is a part of an identifier."""

EXACT_WEIGHT = 1.3
"""Factor for identifiers and phrases."""

COVERAGE_SHARE, SECOND_SHARE, TITLE_SHARE = 0.25, 0.1, 0.3
"""What a session has beside its best passage: the words of the question anywhere in it, its second
passage, its title."""


class _Candidate(NamedTuple):
    session: int
    score: float
    passages: list[tuple[int, Passage]]
    """With the segment of each, best first."""


class PassageSearch:
    def __init__(self, store: Store, query: Query, events: int) -> None:
        self.store, self.query, self.events = store, query, events
        self.clues = find_clues(query)
        self.matcher = Matcher(self.clues)
        self.is_damaged = False

    def run(self, limit: int) -> Answer:
        sessions = allowed(self.store, self.query)
        self.postings = [self._segments_of(clue) for clue in self.clues]
        self.weights = [
            self._weight(clue, segments)
            for clue, segments in zip(self.clues, self.postings, strict=True)
        ]
        scores, self.coverage = self._score_segments(sessions)
        candidates = self._read(self._choose(scores))
        best = heapq.nlargest(limit, candidates, key=lambda one: (one.score, one.session))
        lines = self.store.sessions.lines([one.session for one in best])
        hits = [self._hit(one, lines[one.session]) for one in best if one.session in lines]
        numbers = self._numbers()
        return Answer(
            hits=hits,
            total=max(len(numbers), len(hits)),
            numbers=frozenset(numbers),
            missing=self._missing(hits),
            ignored=list(self.query.ignored),
            is_partial=False,
            is_damaged=self.is_damaged,
            seconds=0.0,
        )

    # ── candidates ────────────────────────────────────────────────────────────────────────────────
    def _segments_of(self, clue: Clue, column: str | None = None) -> list[int]:
        index = self.store.index
        if clue.forms:
            return index.having(clue.forms, column=column)
        found = [
            index.postings(phrase, prefix=clue.term.is_prefix, column=column)
            for phrase in clue.term.phrases
        ]
        return found[0] if len(found) == 1 else sorted(set(found[0]).intersection(*found[1:]))

    def _weight(self, clue: Clue, segments: Sequence[int]) -> float:
        if not segments:
            return 0.0
        total = max(1, self.store.index.segment_count())
        weight = math.log(1 + (total - len(segments) + 0.5) / (len(segments) + 0.5))
        return weight * (PART_SHARE if clue.is_part else 1) * (EXACT_WEIGHT if clue.is_exact else 1)

    def _score_segments(
        self, sessions: set[int] | None
    ) -> tuple[dict[int, float], dict[int, set[int]]]:
        """Return the weight of the words of each segment, and the clues of each session."""
        scores: dict[int, float] = defaultdict(float)
        coverage: dict[int, set[int]] = defaultdict(set)
        for n, clue in enumerate(self.clues):
            weight = self.weights[n]
            if not weight:
                continue
            for segment in self.postings[n]:
                session = segment >> 20
                if sessions is None or session in sessions:
                    scores[segment] += weight
                    coverage[session].add(n)
            for segment in self._segments_of(clue, "said"):
                if segment in scores:
                    scores[segment] += weight * SAID_WEIGHT
        return scores, coverage

    def _choose(self, scores: dict[int, float]) -> list[int]:
        """Return the segments to read, in order: the best, and not too many of one session."""
        chosen: list[int] = []
        reads: dict[int, int] = defaultdict(int)
        for segment in sorted(scores, key=lambda segment: (-scores[segment], segment)):
            session = segment >> 20
            if reads[session] < MAX_READ_OF_SESSION:
                reads[session] += 1
                chosen.append(segment)
                if len(chosen) >= MAX_READ:
                    break
        return sorted(chosen)

    # ── ranking ───────────────────────────────────────────────────────────────────────────────────
    def _pages(self, segments: Sequence[int]) -> Iterator[tuple[int, Page]]:
        for at in range(0, len(segments), READ_AHEAD):
            some = segments[at : at + READ_AHEAD]
            data = self.store.index.segments(some, files=False)
            self.is_damaged = self.is_damaged or len(data) < len(some)
            for segment in some:
                if segment in data:
                    yield segment, Page(*data[segment])

    def _read(self, segments: Sequence[int]) -> list[_Candidate]:
        passages: dict[int, list[tuple[int, Passage]]] = defaultdict(list)
        for segment, page in self._pages(segments):
            spots = self.matcher.find(page)
            for passage in best_passages(page, spots, self.weights):
                passages[segment >> 20].append((segment, passage))
        return [self._candidate(session, found) for session, found in passages.items()]

    def _candidate(self, session: int, found: list[tuple[int, Passage]]) -> _Candidate:
        found.sort(key=lambda item: -item[1].score)
        score = found[0][1].score
        score += SECOND_SHARE * sum(passage.score for _, passage in found[1:3])
        score += COVERAGE_SHARE * self._weight_of(self.coverage[session])
        return _Candidate(session, score, found)

    def _weight_of(self, clues: Iterable[int]) -> float:
        return sum(self.weights[n] for n in clues)

    # ── the answer ────────────────────────────────────────────────────────────────────────────────
    def _hit(self, one: _Candidate, line: SessionLine) -> Hit:
        return Hit(
            session=line,
            score=round(one.score, 4),
            events=self._events(one),
            missing=self._lacking(one.session),
        )

    def _events(self, one: _Candidate) -> list[EventHit]:
        """Return the events of the best passages, in their order."""
        events: dict[int, EventHit] = {}
        for segment, passage in one.passages:
            if len(events) >= self.events:
                break
            for _, page in self._pages([segment]):
                spots = self.matcher.find(page)
                for at in passage.events[: self.events - len(events)]:
                    event = page.events[at]
                    end = event.offset + event.length
                    places = [s[:2] for s in spots if event.offset <= s.start < end]
                    events[event.seq] = event_hit(page, at, places)
        return [event for _, event in sorted(events.items())]

    def _lacking(self, session: int) -> list[str]:
        return [
            clue.text
            for n, clue in enumerate(self.clues)
            if n not in self.coverage[session] and not clue.is_part
        ]

    def _missing(self, hits: Sequence[Hit]) -> list[str]:
        """Return the words that the best hit lacks; without hits, the words that no session has."""
        if hits:
            return [] if any(not hit.missing for hit in hits) else hits[0].missing
        return [
            clue.text
            for clue, segments in zip(self.clues, self.postings, strict=True)
            if not segments and not clue.is_part
        ]

    def _numbers(self) -> set[int]:
        """Return the sessions that count as matches."""
        weights = {session: self._weight_of(clues) for session, clues in self.coverage.items()}
        enough = MIN_COVERAGE * max(weights.values(), default=0.0)
        return {session for session, weight in weights.items() if weight >= enough}
