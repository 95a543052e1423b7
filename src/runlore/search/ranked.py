"""Which sessions answer a query, and in which order.

The postings of every word are intersected by session, and each session is scored by BM25 with the segment in the place of the
term's frequency: a database need not say how often a word is in a segment. What the best sessions have is then looked up in
their text. The constants were measured on 162 sessions that are found by the title of the issue they worked on
(`bench/_known_item.py`): the mean reciprocal rank is 0.95, and moves by less than 0.01 within the ranges given.
"""

from __future__ import annotations

import heapq
import math
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from ..store import Filter, Store
from ..store.pieces import column_of
from ..store.words import mark
from .syntax import Chosen, Query, QueryError, Term, kinds_of, parse, parts_of, phrases
from .text import Answer, EventHit, Finder, Hit, Page, event_hit

PROOFS = 200
"""How many segments are unpacked at most to prove phrases and filters: about 100 ms. Then the answer says it is partial."""

EVENTS = 3
"""Events shown of each session."""

SAID = 2.0
"""A segment in which a person or the agent says the word counts so much more than one where only a tool does (1 to 4; without
it 0.88): a test log has every word of its language."""

TELLING = 0.1
"""Words with less than so much of the weight of the rarest are not counted (0 to 0.2): they only cost time."""

SATURATION, LENGTH = 2.0, 0.75
"""The k and b of BM25 (k 1 to 5, b 0.5 to 1; with b = 0, where a session with many segments wins by chance, 0.85)."""

SENTENCE = 6
"""So many words are a sentence that someone pasted, and sessions that lack a few of them are ranked with those that have all;
fewer are meant as they stand. (4 to 6; without this 0.88, because "raises" and "fails" are often not the words of the session,
and with those that have all before the others 0.91, because the largest session has all words of many sentences.)"""

NEAR = 0.5
"""What such a session must have of the words, by their weight (0.3 to 0.5)."""

_WEIGHT = {"user_msg": 1.5, "assistant_msg": 1.2, "thinking": 1.0}
"""Which events of a session are shown: what people said before what tools did (0.8)."""


def search(store: Store, text: str, *, limit: int = 20, sort: str = "relevance") -> Answer:
    """The sessions that match, the best first (`sort="newest"`: the newest), each with its best events. When no session has
    every word, those with the most and rarest. Raises QueryError."""
    began = time.perf_counter()
    answer = _Search(store, parse(text)).run(limit, sort)
    answer.seconds = time.perf_counter() - began
    return answer


def allowed(store: Store, query: Query) -> set[int] | None:
    """The sessions that the query's fields choose; None means all."""
    chosen: set[int] | None = None
    for either in query.sessions:
        here = set().union(*map(store.numbers, either))
        chosen = here if chosen is None else chosen & here
    return chosen


@dataclass
class _Word:
    """A group of the query, and where the index has it."""

    text: str
    terms: tuple[Term, ...]
    finders: list[Finder]
    segments: list[int]
    weight: float
    needs_proof: bool
    is_part: bool = False
    """Not a word of the query but a part of one that no session has."""

    def among(self, sessions: set[int] | None) -> set[int]:
        """Those of the sessions that have it; None means all."""
        if sessions is None or len(sessions) * 8 > len(self.segments):
            everywhere = self.everywhere.keys()
            return set(everywhere) if sessions is None else everywhere & sessions
        return {session for session in sessions if _range(self.segments, session)}

    def counts(self, sessions: set[int]) -> dict[int, int]:
        """How many segments of each of the sessions have it."""
        return self.everywhere if len(sessions) * 8 > len(self.segments) else _counts(self.segments, sessions)

    @cached_property
    def everywhere(self) -> dict[int, int]:
        return Counter([segment >> 20 for segment in self.segments])


class _Search:
    def __init__(self, store: Store, query: Query) -> None:
        self.store, self.query = store, query
        self.proofs = 0
        self.is_partial = False
        self.unwanted: list[_Word] = []
        self.is_picky = bool(query.without) or query.events != Chosen()

    def run(self, limit: int, sort: str) -> Answer:
        query = self.query
        if query.without and not query.groups and query.events == Chosen():
            raise QueryError("-word alone finds nothing; give a word to find as well")
        narrow = self._narrow()
        words = [self._word(group, narrow) for group in query.groups]
        self.unwanted = [self._word((term,), None) for term in query.without]
        sessions = allowed(self.store, query)
        if narrow is not None:
            sessions = {segment >> 20 for segment in narrow} & sessions if sessions is not None else {s >> 20 for s in narrow}
        if sessions is None and not words:
            sessions = set() if query.ignored else self.store.numbers(Filter(parents_only=False))
        found = self._complete(words, sessions) if words else sessions or set()
        if is_loose := len(words) >= SENTENCE:
            words = self._with_parts(words, narrow)
            found = self._near(words, sessions)
        hits = self._hits(words, narrow, found, limit, sort, is_loose=is_loose)
        if not hits and len(words) > 1 and not is_loose:
            words = self._with_parts(words, narrow)
            found = self._near(words, sessions)
            hits = self._hits(words, narrow, found, limit, sort, is_loose=True)
        return Answer(
            hits=hits,
            total=len(found),
            missing=self._missing(words, hits),
            ignored=list(query.ignored),
            is_partial=self.is_partial,
            seconds=0.0,
        )

    def _missing(self, words: list[_Word], hits: list[Hit]) -> list[str]:
        if hits:
            return [] if any(not hit.missing for hit in hits) else hits[0].missing
        return [word.text for word in words if not word.segments and not word.is_part]

    # ── what the index has ───────────────────────────────────────────────────────────────────────────────────────────
    def _word(self, group: tuple[Term, ...], narrow: list[int] | None) -> _Word:
        segments = self._postings(group, self._column())
        total = max(1, self.store.segment_count())
        weight = math.log(1 + (total - len(segments) + 0.5) / (len(segments) + 0.5))
        if narrow is not None:
            segments = sorted(set(segments).intersection(narrow))
        needs_proof = any(term.needs_proof for term in group)
        return _Word(group[0].text, group, [Finder(term) for term in group], segments, weight, needs_proof)

    def _with_parts(self, words: list[_Word], narrow: list[int] | None) -> list[_Word]:
        """The words, and the parts of those that no session has: of a pasted `module.function(x=3)` the function may be there."""
        parts = [part for word in words if not word.segments for term in word.terms for part in parts_of(term)]
        more = [self._word((part,), narrow) for part in parts if all((part,) != word.terms for word in words)]
        for word in more:
            word.is_part = True
        return words + more

    def _postings(self, group: Iterable[Term], column: str | None = None) -> list[int]:
        """The segments that have one of the terms, ascending."""
        return _union([self._term(term.phrases, term.is_prefix, column) for term in group])

    def _term(self, asked: Sequence[str], is_prefix: bool = False, column: str | None = None) -> list[int]:
        found = [self.store.postings(phrase, prefix=is_prefix, column=column) for phrase in asked]
        return found[0] if len(found) == 1 else sorted(set(found[0]).intersection(*found[1:]))

    def _column(self) -> str | None:
        """The column in which all the events are that are asked for, when it is one."""
        chosen = self.query.events
        columns = {column_of(kind) for word in chosen.kinds for kind in kinds_of(word)}
        columns |= {"tool"} if chosen.tools else set()
        return columns.pop() if len(columns) == 1 else None

    def _narrow(self) -> list[int] | None:
        """The segments that have an event of the tool, kind or state that is asked for: the index knows these as words. The path
        of a file is in the text of the call."""
        chosen = self.query.events
        kinds = [kind for word in chosen.kinds for kind in kinds_of(word)]
        marks = [[mark("tool", tool) for tool in chosen.tools], [mark("kind", kind) for kind in kinds]]
        marks += [[mark("is", "error")]] if chosen.is_error else []
        found = [_union([self.store.postings(word) for word in either]) for either in marks if either]
        paths = [asked for file in chosen.files if (asked := phrases(file))]
        found += [_union([self._term(asked) for asked in paths])] if paths else []
        return sorted(set(found[0]).intersection(*found[1:])) if found else None

    # ── which sessions ───────────────────────────────────────────────────────────────────────────────────────────────
    def _complete(self, words: list[_Word], sessions: set[int] | None) -> set[int]:
        """The sessions that have every word, the rarest first."""
        for word in sorted(words, key=lambda word: len(word.segments)):
            sessions = word.among(sessions)
            if not sessions:
                break
        return sessions or set()

    def _near(self, words: list[_Word], sessions: set[int] | None) -> set[int]:
        """The sessions with the most and rarest of the words."""
        covered: dict[int, float] = {}
        for word in words:
            for session in word.among(sessions):
                covered[session] = covered.get(session, 0.0) + word.weight
        enough = NEAR * max(covered.values(), default=0.0)
        return {session for session, weight in covered.items() if weight >= enough}

    # ── in which order ───────────────────────────────────────────────────────────────────────────────────────────────
    def _hits(
        self, words: list[_Word], narrow: list[int] | None, sessions: set[int], limit: int, sort: str, *, is_loose: bool = False
    ) -> list[Hit]:
        """The best of the sessions that prove to match."""
        found: list[tuple[int, float, list[EventHit], list[str]]] = []
        for number, score in self._in_order(words, sessions, limit, sort):
            if len(found) >= limit or self.is_partial:
                break
            looked = self._look(words, narrow, number, is_loose=is_loose)
            if looked is not None:
                found.append((number, score, *looked))
        lines = self.store.lines([number for number, *_ in found])
        return [
            Hit(session=lines[number], score=round(score, 4), events=events, missing=missing)
            for number, score, events, missing in found
            if number in lines
        ]

    def _in_order(self, words: list[_Word], sessions: set[int], limit: int, sort: str) -> Iterator[tuple[int, float]]:
        if sort == "newest":
            yield from ((number, 0.0) for number in self.store.newest(list(sessions)))
            return
        scores = self._scores(words, sessions)
        want = limit if not self.query.needs_proof else limit + PROOFS
        if len(scores) > want:
            least = heapq.nlargest(want, scores.values())[-1]
            scores = {session: score for session, score in scores.items() if score >= least}
        order = sorted(scores, key=lambda session: -scores[session])
        for score, alike in groupby(order, key=lambda session: scores[session]):
            same = list(alike)
            yield from ((number, score) for number in (same if len(same) == 1 else self.store.newest(same, by="started")))

    def _scores(self, words: list[_Word], sessions: set[int]) -> dict[int, float]:
        scores = dict.fromkeys(sessions, 0.0)
        sizes = self.store.sizes()
        base = SATURATION * (1 - LENGTH)
        slope = SATURATION * LENGTH * len(sizes) / max(1, sum(sizes.values()))
        telling = TELLING * max((word.weight for word in words), default=0.0)
        for word in words:
            weight, has = word.weight, word.counts(sessions)
            if weight < telling:
                continue
            said = _counts(self._postings(word.terms, "said"), sessions)
            for session in sessions:
                if present := has.get(session):
                    count = present + SAID * said.get(session, 0)
                    scores[session] += weight * count / (count + base + slope * sizes.get(session, 1))
        return scores

    # ── where exactly ────────────────────────────────────────────────────────────────────────────────────────────────
    def _look(
        self, words: list[_Word], narrow: list[int] | None, session: int, *, is_loose: bool
    ) -> tuple[list[EventHit], list[str]] | None:
        """The best events of a session and the words it lacks, or None when it turns out not to match."""
        segments = self._segments(words, narrow, session)
        lacks = {n for n, word in enumerate(words) if not _range(word.segments, session)}
        # By the index alone a word is in the session. Whether a phrase is, or a word in an event that counts, the text must show.
        unproven = {n for n, word in enumerate(words) if n not in lacks and (self.is_picky or word.needs_proof)}
        shown: list[tuple[float, EventHit]] = []
        for segment in segments:
            if shown and not any(_has(words[n].segments, segment) for n in unproven):
                continue
            if self.is_picky or unproven:
                self.proofs += 1
                if self.proofs > PROOFS:
                    self.is_partial = True
                    return None
            data = self.store.segment(segment, files=bool(self.query.events.files))
            if data is None:  # Forgotten meanwhile.
                continue
            here = {n: word for n, word in enumerate(words) if _has(word.segments, segment)}
            events, seen = self._events(Page(*data), here, [word for word in self.unwanted if _has(word.segments, segment)])
            shown += events
            unproven -= seen
            if shown and not unproven:
                break
        if (unproven and not is_loose) or (self.is_picky and not shown):
            return None
        best = heapq.nlargest(EVENTS, shown, key=lambda item: (item[0], -item[1].seq))
        missing = [word.text for n, word in enumerate(words) if n in lacks | unproven and not word.is_part]
        return [event for _, event in sorted(best, key=lambda item: item[1].seq)], missing

    def _segments(self, words: list[_Word], narrow: list[int] | None, session: int) -> list[int]:
        """The segments of a session with any of the words, the best first."""
        if not words:
            return list(_range(narrow or [], session))
        weights: dict[int, float] = {}
        for word in words:
            for segment in _range(word.segments, session):
                weights[segment] = weights.get(segment, 0.0) + word.weight
        for word in self.unwanted:
            for segment in _range(word.segments, session):
                if segment in weights:
                    weights[segment] /= 4  # What has none of it needs no proof, and is looked at first.
        return sorted(weights, key=lambda segment: (-weights[segment], segment))

    def _events(self, page: Page, words: dict[int, _Word], unwanted: list[_Word]) -> tuple[list[tuple[float, EventHit]], set[int]]:
        """The best events that have any of the words, each with how well, and which of the words were seen in them. A word that is
        in one of the events with rarer words is not looked for in the others."""
        taken: Sequence[int] = range(len(page.events))
        if self.is_picky:
            banned = set().union(*(finder.events_with(page) for word in unwanted for finder in word.finders))
            taken = [at for at, event in enumerate(page.events) if at not in banned and self.query.events.takes(event)]
        spots: dict[int, list[tuple[int, int]]] = {} if words else {at: [] for at in taken}
        weights: dict[int, float] = {}
        seen: set[int] = set()
        for n, word in sorted(words.items(), key=lambda item: -item[1].weight):
            likely = sorted(spots)
            for at, places in (item for finder in word.finders for item in finder.find(page, taken, likely).items()):
                spots.setdefault(at, []).extend(places)
                weights[at] = weights.get(at, 0.0) + word.weight
                seen.add(n)
        # Only the best are made into something to show: a common word is in every event.
        value = {at: (weights.get(at, 0.0) + 1e-9) * _WEIGHT.get(page.events[at].kind, 0.8) for at in spots}
        best = heapq.nlargest(EVENTS, spots, key=lambda at: (value[at], -at))
        return [(value[at], event_hit(page, at, spots[at])) for at in best], seen


def _range(segments: Sequence[int], session: int) -> Sequence[int]:
    """Those of one session, out of ascending ids."""
    low = bisect_left(segments, session << 20)
    high = low
    while high < len(segments) and segments[high] >> 20 == session:
        high += 1
    return segments[low:high]


def _has(segments: Sequence[int], segment: int) -> bool:
    at = bisect_left(segments, segment)
    return at < len(segments) and segments[at] == segment


def _counts(segments: Sequence[int], sessions: set[int]) -> dict[int, int]:
    """How many of the segments each of the sessions has, and some others perhaps: counted all at once, or looked up for a few."""
    if len(sessions) * 8 < len(segments):
        return {session: len(found) for session in sessions if (found := _range(segments, session))}
    return Counter([segment >> 20 for segment in segments])


def _union(found: list[list[int]]) -> list[int]:
    return found[0] if len(found) == 1 else sorted(set().union(*found))
