"""Which sessions answer a query, and in which order.

The postings of every word are intersected by session, and each session is scored by BM25 with the
segment in the place of the term's frequency: a database need not say how often a word is in a
segment. What the best sessions have is then looked up in their text. The constants were measured on
162 sessions that are found by the title of the issue they worked on (`bench/_known_item.py`): the
mean reciprocal rank is 0.95, and moves by less than 0.01 within the ranges given.
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
from itertools import groupby, islice

from .. import adapters
from ..errors import StoreError
from ..query import resolve
from ..store import Filter, SegmentEvent, Store
from ..store.rows import column_of
from ..store.words import mark
from .syntax import Chosen, Query, QueryError, Term, kinds_of, parse, parts_of, path_phrases
from .text import Answer, EventHit, Finder, Hit, Page, event_hit

PROOFS = 200
"""How many segments are unpacked at most to prove phrases and filters: about 100 ms. Then the
answer says it is partial."""

SHARE = PROOFS // 4
"""Of these, what a session gets before the others had their turn: a very long one could use up all
and not match."""

EVENTS = 3
"""Events shown of each session."""

SAID = 2.0
"""A segment in which a person or the agent says the word counts so much more than one where only a
tool does (1 to 4; without it 0.88): a test log has every word of its language."""

TELLING = 0.1
"""Words with less than so much of the weight of the rarest are not counted (0 to 0.2): they only
cost time."""

SATURATION, LENGTH = 2.0, 0.75
"""The k and b of BM25 (k 1 to 5, b 0.5 to 1; with b = 0, where a session with many segments wins by
chance, 0.85)."""

SENTENCE = 6
"""So many words are a sentence that someone pasted, and sessions that lack a few of them are ranked
with those that have all; fewer are meant as they stand. (4 to 6; without this 0.88, because
"raises" and "fails" are often not the words of the session, and with those that have all before the
others 0.91, because the largest session has all words of many sentences.)"""

NEAR = 0.5
"""What such a session must have of the words, by their weight (0.3 to 0.5)."""

_WEIGHT = {"user_msg": 1.5, "assistant_msg": 1.2, "thinking": 1.0}
"""Which events of a session are shown: what people said before what tools did (0.8)."""


def search(
    store: Store,
    text: str | Query,
    *,
    limit: int = 20,
    sort: str = "relevance",
    events: int = EVENTS,
    proofs: int | None = None,
) -> Answer:
    """The sessions that match, the best first (`sort="newest"`: the newest), each with so many of
    its best events. When no session has every word, those with the most and rarest. For a few
    events of each only its best segment is read; for more, as many as it takes. `proofs` in place
    of PROOFS. Raises QueryError, and NotFound when no session is meant by session:."""
    began = time.perf_counter()
    with store.snapshot():
        answer = _Search(
            store, parse(text) if isinstance(text, str) else text, events, proofs or PROOFS
        ).run(limit, sort)
    answer.seconds = time.perf_counter() - began
    return answer


def allowed(store: Store, query: Query) -> set[int] | None:
    """The sessions that the query's fields choose; None means all. Raises QueryError, NotFound."""
    chosen: set[int] | None = None
    for either in query.sessions:
        here = set().union(*(_numbers(store, one) for one in either))
        chosen = here if chosen is None else chosen & here
    return chosen


def _numbers(store: Store, chosen: Filter) -> set[int]:
    """The sessions that a filter chooses. Where it names one or an agent, and chooses none, it must
    at least be a name."""
    is_latest = (chosen.name or "").lower().partition(":")[0] == "latest"
    found = set() if is_latest else store.sessions.numbers(chosen)
    if not found and chosen.name is not None:
        found = store.sessions.numbers(Filter(name=resolve(store, chosen.name), parents_only=False))
    if not found and chosen.agent is not None and chosen.agent not in adapters.names():
        raise QueryError(
            f"there is no adapter {chosen.agent!r}; there are: {', '.join(adapters.names())}"
        )
    return found


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
        return (
            self.everywhere
            if len(sessions) * 8 > len(self.segments)
            else _counts(self.segments, sessions)
        )

    @cached_property
    def everywhere(self) -> dict[int, int]:
        return Counter([segment >> 20 for segment in self.segments])


class _Search:
    def __init__(self, store: Store, query: Query, events: int, most_proofs: int) -> None:
        self.store, self.query, self.events, self.most_proofs = store, query, events, most_proofs
        # A few are taken from where the best ones are.
        self.enough = 1 if events <= EVENTS else events
        self.proofs = 0
        self.read: dict[int, tuple[bytes, list[SegmentEvent]]] = {}
        """Segments that will be looked at next."""
        self.is_partial = self.is_cut_short = self.is_damaged = False
        self.unwanted: list[_Word] = []
        self.is_picky = bool(query.without) or query.events != Chosen()

    def run(self, limit: int, sort: str) -> Answer:
        query = self.query
        if not query.is_answerable:
            raise QueryError("-word alone finds nothing; give a word to find as well")
        narrow = self._narrow()
        words = [self._word(group, narrow) for group in query.groups]
        self.unwanted = [self._word((term,), None) for term in query.without]
        sessions = allowed(self.store, query)
        if narrow is not None:
            sessions = (
                {segment >> 20 for segment in narrow} & sessions
                if sessions is not None
                else {s >> 20 for s in narrow}
            )
        if sessions is None and not words:
            sessions = (
                set() if query.ignored else self.store.sessions.numbers(Filter(parents_only=False))
            )
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
            # With room left, all that might match was looked at, and these are what does.
            total=len(hits) if len(hits) < limit and not self.is_partial else len(found),
            missing=self._missing(words, hits),
            ignored=list(query.ignored),
            is_partial=self.is_partial,
            is_damaged=self.is_damaged,
            seconds=0.0,
        )

    def _missing(self, words: list[_Word], hits: list[Hit]) -> list[str]:
        """What the best of the hits lacks; without any, what is nowhere at all, whatever the fields
        choose."""
        if hits:
            return [] if any(not hit.missing for hit in hits) else hits[0].missing
        return [
            word.text
            for word in words
            if not word.segments and not word.is_part and not self._postings(word.terms)
        ]

    # ── what the index has ────────────────────────────────────────────────────────────────────────
    def _word(self, group: tuple[Term, ...], narrow: list[int] | None) -> _Word:
        segments = self._postings(group, self._column())
        total = max(1, self.store.index.segment_count())
        weight = math.log(1 + (total - len(segments) + 0.5) / (len(segments) + 0.5))
        if narrow is not None:
            segments = sorted(set(segments).intersection(narrow))
        needs_proof = any(term.needs_proof for term in group)
        return _Word(
            " OR ".join(term.text for term in group),
            group,
            [Finder(term) for term in group],
            segments,
            weight,
            needs_proof,
        )

    def _with_parts(self, words: list[_Word], narrow: list[int] | None) -> list[_Word]:
        """The words, and the parts of those that no session has: of a pasted `module.function(x=3)`
        the function may be there."""
        parts = [
            part
            for word in words
            if not word.segments
            for term in word.terms
            for part in parts_of(term)
        ]
        more = [
            self._word((part,), narrow)
            for part in parts
            if all((part,) != word.terms for word in words)
        ]
        for word in more:
            word.is_part = True
        return words + more

    def _postings(self, group: Iterable[Term], column: str | None = None) -> list[int]:
        """The segments that have one of the terms, ascending."""
        return _union([self._term(term.phrases, term.is_prefix, column) for term in group])

    def _term(
        self, asked: Sequence[str], is_prefix: bool = False, column: str | None = None
    ) -> list[int]:
        found = [
            self.store.index.postings(phrase, prefix=is_prefix, column=column) for phrase in asked
        ]
        return found[0] if len(found) == 1 else sorted(set(found[0]).intersection(*found[1:]))

    def _column(self) -> str | None:
        """The column in which all the events are that are asked for, when it is one."""
        chosen = self.query.events
        columns = {column_of(kind) for word in chosen.kinds for kind in kinds_of(word)}
        columns |= {"tool"} if chosen.tools else set()
        return columns.pop() if len(columns) == 1 else None

    def _narrow(self) -> list[int] | None:
        """The segments that have an event of the tool, kind or state that is asked for: the index
        knows these as words. The path of a file is in the text of the call."""
        chosen = self.query.events
        kinds = [kind for word in chosen.kinds for kind in kinds_of(word)]
        marks = [
            [mark("tool", tool) for tool in chosen.tools],
            [mark("kind", kind) for kind in kinds],
        ]
        marks += [[mark("is", "error")]] if chosen.is_error else []
        found = [
            _union([self.store.index.postings(word) for word in either])
            for either in marks
            if either
        ]
        found += [_union([self._naming(file) for file in chosen.files])] if chosen.files else []
        return sorted(set(found[0]).intersection(*found[1:])) if found else None

    def _naming(self, file: str) -> list[int]:
        """The segments that may have an event on a file; all with a call, when its name has no
        whole word."""
        asked = path_phrases(file)
        return (
            self._term(asked)
            if asked
            else _union(
                [self.store.index.postings(mark("kind", kind)) for kind in kinds_of("tool_call")]
            )
        )

    # ── which sessions ────────────────────────────────────────────────────────────────────────────
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

    # ── in which order ────────────────────────────────────────────────────────────────────────────
    def _hits(
        self,
        words: list[_Word],
        narrow: list[int] | None,
        sessions: set[int],
        limit: int,
        sort: str,
        *,
        is_loose: bool = False,
    ) -> list[Hit]:
        """The best of the sessions that prove to match."""
        found: dict[int, tuple[int, float, list[EventHit], list[str]]] = {}
        late: list[tuple[int, tuple[int, float]]] = []
        most = SHARE if len(sessions) > 1 else self.most_proofs
        for rank, (number, score) in enumerate(
            self._fetched(words, narrow, self._in_order(words, sessions, limit, sort), limit)
        ):
            if len(found) >= limit or self.is_partial:
                break
            looked = self._look(words, narrow, number, most, is_loose=is_loose)
            if looked is not None:
                found[rank] = (number, score, *looked)
            elif self.is_cut_short:
                late.append((rank, (number, score)))
        for rank, (number, score) in late:
            if len(found) >= limit or self.is_partial:
                self.is_partial = True
                break
            looked = self._look(words, narrow, number, self.most_proofs, is_loose=is_loose)
            if looked is not None:
                found[rank] = (number, score, *looked)
        lines = self.store.sessions.lines([number for number, *_ in found.values()])
        return [
            Hit(session=lines[number], score=round(score, 4), events=events, missing=missing)
            for _, (number, score, events, missing) in sorted(found.items())
            if number in lines
        ]

    def _fetched(
        self,
        words: list[_Word],
        narrow: list[int] | None,
        ranked: Iterator[tuple[int, float]],
        limit: int,
    ) -> Iterator[tuple[int, float]]:
        """The same, with the best segment of each read before it is asked for: many at once."""
        while some := list(islice(ranked, max(0, limit))):
            self._fetch(
                segment
                for number, _ in some
                for segment in self._segments(words, narrow, number)[:1]
            )
            yield from some

    def _fetch(self, segments: Iterable[int]) -> None:
        self.read = self.store.index.segments(list(segments), files=bool(self.query.events.files))

    def _in_order(
        self, words: list[_Word], sessions: set[int], limit: int, sort: str
    ) -> Iterator[tuple[int, float]]:
        if sort == "newest":
            yield from ((number, 0.0) for number in self.store.sessions.newest(list(sessions)))
            return
        scores = self._scores(words, sessions)
        want = limit if not self.query.needs_proof else limit + self.most_proofs
        if len(scores) > want > 0:
            least = heapq.nlargest(want, scores.values())[-1]
            scores = {session: score for session, score in scores.items() if score >= least}
        order = sorted(scores, key=lambda session: -scores[session])
        for score, alike in groupby(order, key=lambda session: scores[session]):
            same = list(alike)
            yield from (
                (number, score)
                for number in (
                    same if len(same) == 1 else self.store.sessions.newest(same, by="started")
                )
            )

    def _scores(self, words: list[_Word], sessions: set[int]) -> dict[int, float]:
        scores = dict.fromkeys(sessions, 0.0)
        sizes = self.store.index.sizes()
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
                    scores[session] += (
                        weight * count / (count + base + slope * sizes.get(session, 1))
                    )
        return scores

    # ── where exactly ─────────────────────────────────────────────────────────────────────────────
    def _look(
        self,
        words: list[_Word],
        narrow: list[int] | None,
        session: int,
        most: int,
        *,
        is_loose: bool,
    ) -> tuple[list[EventHit], list[str]] | None:
        """The best events of a session and the words it lacks, or None when it turns out not to
        match, or when that takes more than so many proofs."""
        self.is_cut_short = False
        end = self.proofs + most
        segments = self._segments(words, narrow, session)
        lacks = {n for n, word in enumerate(words) if not _range(word.segments, session)}
        # By the index alone a word is in the session. Whether a phrase is, or a word in an event
        # that counts, the text must show.
        unproven = {
            n
            for n, word in enumerate(words)
            if n not in lacks and (self.is_picky or word.needs_proof)
        }
        shown: list[tuple[float, EventHit]] = []
        for segment in segments:
            if len(shown) >= self.enough and not any(
                _has(words[n].segments, segment) for n in unproven
            ):
                continue
            if self.is_picky or unproven:
                self.proofs += 1
                self.is_partial = self.proofs > self.most_proofs
                self.is_cut_short = self.proofs > end
                if shown and not unproven and (self.is_partial or self.is_cut_short):
                    # It matches; only what more there is of it is not known.
                    self.is_partial = True
                    break
                if self.is_partial or self.is_cut_short:
                    return None
            data = self._segment(segment)
            if data is None:
                continue
            here = {n: word for n, word in enumerate(words) if _has(word.segments, segment)}
            events, seen = self._events(
                Page(*data), here, [word for word in self.unwanted if _has(word.segments, segment)]
            )
            shown += events
            unproven -= seen
            if len(shown) >= self.enough and not unproven:
                break
        if (unproven and not is_loose) or (self.is_picky and not shown):
            return None
        best = heapq.nlargest(self.events, shown, key=lambda item: (item[0], -item[1].seq))
        missing = [
            word.text for n, word in enumerate(words) if n in lacks | unproven and not word.is_part
        ]
        return [event for _, event in sorted(best, key=lambda item: item[1].seq)], missing

    def _segment(self, segment: int) -> tuple[bytes, list[SegmentEvent]] | None:
        """What a segment has; None when it was forgotten meanwhile, or is damaged: then its session
        is found, but not shown."""
        if segment in self.read:
            return self.read.pop(segment)
        try:
            return self.store.index.segment(segment, files=bool(self.query.events.files))
        except StoreError:
            self.is_damaged = True
            return None

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
                    # What has none of it needs no proof, and is looked at first.
                    weights[segment] /= 4
        return sorted(weights, key=lambda segment: (-weights[segment], segment))

    def _events(
        self, page: Page, words: dict[int, _Word], unwanted: list[_Word]
    ) -> tuple[list[tuple[float, EventHit]], set[int]]:
        """The best events that have any of the words, each with how well, and which of the words
        were seen in them. A word that is in one of the events with rarer words is not looked for in
        the others."""
        taken: Sequence[int] = range(len(page.events))
        if self.is_picky:
            banned = set().union(
                *(finder.events_with(page) for word in unwanted for finder in word.finders)
            )
            taken = [
                at
                for at, event in enumerate(page.events)
                if at not in banned and self.query.events.takes(event)
            ]
        spots: dict[int, list[tuple[int, int]]] = {} if words else {at: [] for at in taken}
        weights: dict[int, float] = {}
        seen: set[int] = set()
        for n, word in sorted(words.items(), key=lambda item: -item[1].weight):
            likely = sorted(spots) if self.enough == 1 else ()
            for at, places in (
                item
                for finder in word.finders
                for item in finder.find(page, taken, likely, self.events).items()
            ):
                spots.setdefault(at, []).extend(places)
                weights[at] = weights.get(at, 0.0) + word.weight
                seen.add(n)
        # Only the best are made into something to show: a common word is in every event.
        value = {
            at: (weights.get(at, 0.0) + 1e-9) * _WEIGHT.get(page.events[at].kind, 0.8)
            for at in spots
        }
        best = heapq.nlargest(self.events, spots, key=lambda at: (value[at], -at))
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
    """How many of the segments each of the sessions has, and some others perhaps: counted all at
    once, or looked up for a few."""
    if len(sessions) * 8 < len(segments):
        return {session: len(found) for session in sessions if (found := _range(segments, session))}
    return Counter([segment >> 20 for segment in segments])


def _union(found: list[list[int]]) -> list[int]:
    return found[0] if len(found) == 1 else sorted(set().union(*found))
