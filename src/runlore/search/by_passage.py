"""Answers questions in plain words: the sessions with the best passages.

The words of the question, in all their forms, choose segments by the index alone. The best few
hundred are read, and their passages scored (`passages.py`). A session is as good as its best
passage, and a little better for what else it has: other words of the question, its title, what its
digest says of goal, result and commits, its date.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from ..errors import StoreError
from ..model import parse_time
from ..store import SegmentEvent, SessionLine, Store
from .dates import find_period
from .fields import allowed
from .passages import Matcher, Passage, best_passages, verbatim_share
from .postings import common, contains
from .questions import Clue, find_clues
from .syntax import Query
from .text import Answer, EventHit, Hit, Page, event_hit

MAX_READ, MAX_READ_BYTES = 400, 5_000_000
"""Maximum number of segments that are read for a question, and of their bytes: segments of chats
are small."""

MAX_READ_OF_SESSION = 4
"""Maximum number of segments read of one session."""

READ_AHEAD = 32
"""Number of segments that are fetched at a time."""

MIN_COVERAGE = 0.3
"""Share of the weight of the best session's words that a session must have to count as a match."""

MESSAGE_WEIGHT = 1.0
"""Extra weight of a segment in which a person or the agent uses the word."""

PART_SHARE = 0.5
"""Share of the weight of a word that is a part of an identifier."""

EXACT_WEIGHT = 1.3
"""Factor for identifiers and phrases."""

SECOND_SHARE, WORDS_SHARE = 0.1, 0.05
"""Weight of a session's next passages, and of words found anywhere in it."""

FIELD_SHARES = {"title": 0.2, "goal": 0.1, "result": 0.1, "commits": 0.1}
"""Share of the weight of the words in these fields."""

MAX_WEIGHED = 40
"""Number of sessions whose fields are read."""

PERIOD_SHARE, RECENT_SHARE = 0.15, 0.02
"""Bonus, as a share of the score, for sessions in the period asked about, and for the newest."""

RECENT_DAYS = 60.0
"""Half-life of the preference for recent sessions."""


@dataclass
class _Candidate:
    session: int
    passages: list[tuple[int, Passage]]
    """With the segment of each, best first."""
    why: dict[str, float]

    @property
    def score(self) -> float:
        return sum(self.why.values())


class PassageSearch:
    """The search for one question. `run` returns the sessions with the best passages."""

    def __init__(
        self, store: Store, query: Query, events: int, now: datetime | None = None
    ) -> None:
        self.store, self.query, self.events = store, query, events
        self.period = find_period(query.words, now)
        self.clues = find_clues(query, self.period.words if self.period else ())
        self.matcher = Matcher(self.clues)
        self.text = " ".join(query.words).encode("utf-8", "replace")
        self.verbatim: dict[int, float] = {}
        """What having the very text of the question is worth, by session."""
        self.is_damaged = False

    def run(self, limit: int) -> Answer:
        sessions = allowed(self.store, self.query)
        self.postings = [self._segments_of(clue) for clue in self.clues]
        self.weights = [
            self._clue_weight(clue, segments)
            for clue, segments in zip(self.clues, self.postings, strict=True)
        ]
        scores, self.coverage = self._score_segments(sessions)
        numbers = self._numbers()
        candidates = self._read(self._choose(scores, numbers))
        best = self._best(candidates, limit + MAX_WEIGHED)
        lines = self.store.sessions.lines([one.session for one in best])
        best = [one for one in best if one.session in lines]
        self._add_extras(best[:MAX_WEIGHED], lines)
        hits = [self._hit(one, lines[one.session]) for one in self._best(best, limit)]
        return Answer(
            hits=hits,
            total=len(numbers),
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
        return common(
            [
                index.postings(phrase, prefix=clue.term.is_prefix, column=column)
                for phrase in clue.term.phrases
            ]
        )

    def _clue_weight(self, clue: Clue, segments: Sequence[int]) -> float:
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
                    scores[segment] += weight * MESSAGE_WEIGHT
        return scores, coverage

    def _choose(self, scores: dict[int, float], numbers: set[int]) -> list[int]:
        """Return the segments to read: the best first, and not too many of one session."""
        chosen: list[int] = []
        most = MAX_READ_OF_SESSION if len(numbers) > 1 else MAX_READ
        reads: dict[int, int] = defaultdict(int)
        for segment in sorted(scores, key=lambda segment: (-scores[segment], segment)):
            session = segment >> 20
            if session in numbers and reads[session] < most:
                reads[session] += 1
                chosen.append(segment)
                if len(chosen) >= MAX_READ:
                    break
        return chosen

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
        size = 0
        for segment, page in self._pages(segments):
            spots = self.matcher.find(page, self._clues_in(segment))
            session = segment >> 20
            for passage in best_passages(page, spots, self.weights):
                passages[session].append((segment, passage))
            share = verbatim_share(page, self.text) if spots else 0.0
            self.verbatim[session] = max(share, self.verbatim.get(session, 0.0))
            size += len(page.data)
            if size >= MAX_READ_BYTES:
                break
        return [self._candidate(session, found) for session, found in passages.items()]

    def _candidate(self, session: int, found: list[tuple[int, Passage]]) -> _Candidate:
        found.sort(key=lambda item: (-item[1].score, item[0]))
        why = {
            "passage": found[0][1].score,
            "other passages": SECOND_SHARE * sum(passage.score for _, passage in found[1:3]),
            "very text": self.verbatim[session] * sum(self.weights),
            "words": WORDS_SHARE * self._sum_weights(self.coverage[session]),
        }
        return _Candidate(session, found, why)

    def _best(self, candidates: Iterable[_Candidate], most: int) -> list[_Candidate]:
        """Return the best candidates; of those that are as good, the newest first."""
        best: list[_Candidate] = []
        ordered = sorted(candidates, key=_rounded_score, reverse=True)
        for _, alike in groupby(ordered, key=_rounded_score):
            same = {one.session: one for one in alike}
            numbers = (
                same if len(same) == 1 else self.store.sessions.newest(list(same), by="started")
            )
            best += [same[number] for number in numbers]
            if len(best) >= most:
                break
        return best[:most]

    def _add_extras(self, best: Sequence[_Candidate], lines: Mapping[int, SessionLine]) -> None:
        """Add what fields, the date that the question names, and the age of a session are worth."""
        times = [parse_time(time) for line in lines.values() if (time := line.started_at)]
        newest = max(times, default=None)
        for one in best:
            line = lines[one.session]
            score = one.score
            for name, text in self._fields(line):
                one.why[name] = FIELD_SHARES[name] * self._sum_weights(self._clues_of(text))
            if newest is None or line.started_at is None:
                continue
            started = parse_time(line.started_at)
            age = (newest - started).total_seconds() / 86_400
            one.why["recent"] = RECENT_SHARE * score * 2 ** (-age / RECENT_DAYS)
            ended = parse_time(line.ended_at) if line.ended_at else started
            if self.period and started < self.period.last and ended >= self.period.first:
                one.why["date"] = PERIOD_SHARE * score

    def _fields(self, line: SessionLine) -> Iterator[tuple[str, str]]:
        yield "title", line.title or ""
        try:
            digest = self.store.digests.get(line.uid)
        except StoreError:
            digest = None
        if digest is not None:
            yield "goal", digest.goal or ""
            yield "result", digest.result.text if digest.result else ""
            yield "commits", "\n".join(commit.subject or "" for commit in digest.commits)

    def _clues_of(self, text: str) -> set[int]:
        """Return the clues in the text of a field."""
        data = text.encode("utf-8", "replace")
        page = Page(data, [SegmentEvent(0, "", None, None, False, (), 0, len(data))])
        return {spot.clue for spot in self.matcher.find(page, range(len(self.clues)))}

    def _clues_in(self, segment: int) -> set[int]:
        return {n for n, segments in enumerate(self.postings) if contains(segments, segment)}

    def _sum_weights(self, clues: Iterable[int]) -> float:
        return sum(self.weights[n] for n in clues)

    # ── the answer ────────────────────────────────────────────────────────────────────────────────
    def _hit(self, one: _Candidate, line: SessionLine) -> Hit:
        return Hit(
            session=line,
            score=round(one.score, 4),
            events=self._events(one),
            missing=self._lacking(one.session),
            why={name: round(value, 3) for name, value in one.why.items() if value},
        )

    def _events(self, one: _Candidate) -> list[EventHit]:
        """Return the events of the best passages, in their order."""
        events: dict[int, EventHit] = {}
        for segment, passage in one.passages:
            if len(events) >= self.events:
                break
            for _, page in self._pages([segment]):
                spots = self.matcher.find(page, self._clues_in(segment))
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
        weights = {session: self._sum_weights(clues) for session, clues in self.coverage.items()}
        enough = MIN_COVERAGE * max(weights.values(), default=0.0)
        return {session for session, weight in weights.items() if weight >= enough}


def _rounded_score(candidate: _Candidate) -> float:
    # The last digits depend on the order in which a database gives the words.
    return round(candidate.score, 9)
