"""The sessions that match a query, in order of relevance.

Questions and sentences are answered by `by_passage`. For other words their postings are intersected
by session. Each session is scored by BM25, with the number of segments in place of the term
frequency: a database need not report how often a word is in a segment. The events of the best
sessions are then looked up in their text, and those sessions come first in which the words are near
each other. The constants were measured, before there were passages, on 162 sessions that are
searched by the title of the issue they worked on (`bench/_known_item.py`).
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice

from ..errors import StoreError
from ..store import Filter, SegmentEvent, Store
from ..store.rows import column_of
from ..store.words import mark
from .by_passage import PassageSearch
from .event_weights import is_all_injected, weight_of
from .fields import allowed
from .passages import Spot, nearness, needs_nearness
from .postings import Word, common, contains, counts_of, of_session, union
from .questions import is_question
from .syntax import EventFilter, Query, QueryError, Term, kinds_of, parse, parts_of, path_phrases
from .text import Answer, EventHit, Finder, Hit, Page, event_hit

MAX_PROOFS = 200
"""Maximum number of segments that are unpacked to prove phrases and filters. Beyond it the answer
is partial."""

MAX_FIRST_PROOFS = MAX_PROOFS // 4
"""Share of these for one session before the others had their turn: a very long session could use up
all of them and not match."""

EVENTS_SHOWN = 3
"""Events shown of each session."""

SPOKEN_WEIGHT = 2.0
"""Extra weight of a segment in which a person or the agent uses the word, over one in which only a
tool does (1 to 4; without it 0.88): a test log has every word of its language."""

MIN_WEIGHT = 0.1
"""Words with less than this share of the weight of the rarest are not scored (0 to 0.2): they only
cost time."""

SATURATION, LENGTH = 2.0, 0.75
"""The k and b of BM25 (k 1 to 5, b 0.5 to 1; with b = 0, where a session with many segments wins by
chance, 0.85)."""

SENTENCE_WORDS = 6
"""Number of words from which a query counts as a pasted sentence. Sessions that lack a few of its
words are then ranked together with those that have all. Shorter queries are taken literally. (4 to
6; without this 0.88, because "raises" and "fails" are often not the words of the session; with
complete sessions always first 0.91, because the largest session has all words of many sentences.)
"""

MIN_COVERAGE = 0.5
"""Share of the words, by weight, that such a session must have (0.3 to 0.5)."""

MAX_INJECTED, MAX_INJECTED_SEGMENTS = 50, 4
"""Maximum number of sessions that rank last because only injected text has the words, and of
segments that are read of such a session to find other text."""

MAX_COMPARED = 30
"""Number of sessions that are read to put those first in which the words are near each other."""


def search(
    store: Store,
    text: str | Query,
    *,
    limit: int = 20,
    sort: str = "relevance",
    events: int = EVENTS_SHOWN,
    proofs: int | None = None,
) -> Answer:
    """Return the sessions that match, best first (`sort="newest"`: newest first).

    Each has up to `events` of its best events. If no session has every word, those with the most
    and rarest words are returned. For a few events only the best segment of each session is read;
    for more, as many as needed. `proofs` replaces MAX_PROOFS. Raises QueryError, and NotFound when
    session: names no session.
    """
    began = time.perf_counter()
    query = parse(text) if isinstance(text, str) else text
    with store.snapshot():
        if sort == "relevance" and is_question(query):
            answer = PassageSearch(store, query, events).run(limit)
        else:
            answer = _Search(store, query, events, proofs or MAX_PROOFS).run(limit, sort)
    answer.seconds = time.perf_counter() - began
    return answer


_Proof = tuple[int, float, list[EventHit], list[str]]
"""A session, its score, its best events and the words that it lacks."""


class _Search:
    def __init__(self, store: Store, query: Query, events: int, max_proofs: int) -> None:
        self.store, self.query, self.events, self.max_proofs = store, query, events, max_proofs
        # A few events come from the best segment alone.
        self.enough = 1 if events <= EVENTS_SHOWN else events
        self.proofs = 0
        self.proven: list[int] = []
        """The sessions whose text proved the match."""
        self.read: dict[int, tuple[bytes, list[SegmentEvent]]] = {}
        """Segments that were read ahead."""
        self.is_partial = self.is_cut_short = self.is_damaged = False
        self.unwanted: list[Word] = []
        self.near: dict[int, float] = {}
        """How near the words are in the sessions that were read."""
        self.text = " ".join(query.words).encode()
        self.is_by_nearness = False
        self.is_picky = bool(query.without) or query.events != EventFilter()

    def run(self, limit: int, sort: str) -> Answer:
        query = self.query
        if not query.is_answerable:
            raise QueryError("-word alone finds nothing; give a word to find as well")
        narrow = self._narrow()
        words = [self._word(group, narrow) for group in query.groups]
        self.unwanted = [self._word((term,), None) for term in query.without]
        sessions = self._allowed(bool(words), narrow)
        is_loose = len(words) >= SENTENCE_WORDS
        if not is_loose:
            candidates = self._complete(words, sessions) if words else sessions or set()
            hits = self._hits(words, narrow, candidates, limit, sort)
        if is_loose or (not hits and len(words) > 1):
            words = self._with_parts(words, narrow)
            candidates = self._covering(words, sessions)
            hits = self._hits(words, narrow, candidates, limit, sort, is_loose=True)
        # With room left, everything that might match was read, and these are the matches.
        numbers = self.proven if len(hits) < limit and not self.is_partial else candidates
        return Answer(
            hits=hits,
            total=len(numbers),
            numbers=frozenset(numbers),
            missing=self._missing(words, hits),
            ignored=list(query.ignored),
            is_partial=self.is_partial,
            is_damaged=self.is_damaged,
            seconds=0.0,
        )

    def _allowed(self, has_words: bool, narrow: list[int] | None) -> set[int] | None:
        """Return the sessions that the fields choose; None means all."""
        sessions = allowed(self.store, self.query)
        if narrow is not None:
            with_events = {segment >> 20 for segment in narrow}
            sessions = with_events if sessions is None else with_events & sessions
        if sessions is None and not has_words:
            everything = Filter(parents_only=False)
            return set() if self.query.ignored else self.store.sessions.numbers(everything)
        return sessions

    def _missing(self, words: list[Word], hits: list[Hit]) -> list[str]:
        """Return the words that the best hit lacks; without hits, the words that no session has."""
        if hits:
            return [] if any(not hit.missing for hit in hits) else hits[0].missing
        return [
            word.text
            for word in words
            if not word.segments and not word.is_part and not self._postings(word.terms)
        ]

    # ── postings ──────────────────────────────────────────────────────────────────────────────────
    def _word(self, group: tuple[Term, ...], narrow: list[int] | None) -> Word:
        segments = self._postings(group, self._column())
        total = max(1, self.store.index.segment_count())
        weight = math.log(1 + (total - len(segments) + 0.5) / (len(segments) + 0.5))
        if narrow is not None:
            segments = sorted(set(segments).intersection(narrow))
        needs_proof = any(term.needs_proof for term in group)
        return Word(
            " OR ".join(term.text for term in group),
            group,
            [Finder(term) for term in group],
            segments,
            weight,
            needs_proof,
        )

    def _with_parts(self, words: list[Word], narrow: list[int] | None) -> list[Word]:
        """Return the words, and the parts of those that no session has.

        Of a pasted `module.function(x=3)` the function may be there.
        """
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
        """Return the segments that have one of the terms, ascending."""
        return union([self._term_postings(term.phrases, term.is_prefix, column) for term in group])

    def _term_postings(
        self, phrases: Sequence[str], is_prefix: bool = False, column: str | None = None
    ) -> list[int]:
        return common(
            [
                self.store.index.postings(phrase, prefix=is_prefix, column=column)
                for phrase in phrases
            ]
        )

    def _column(self) -> str | None:
        """Return the column that holds all chosen events, if it is one."""
        chosen = self.query.events
        columns = {column_of(kind) for word in chosen.kinds for kind in kinds_of(word)}
        columns |= {"tool"} if chosen.tools else set()
        return columns.pop() if len(columns) == 1 else None

    def _narrow(self) -> list[int] | None:
        """Return the segments with an event of the chosen tool, kind, state or file; None without a
        filter.

        The index has tools, kinds and states as words. The path of a file is in the text of the
        call.
        """
        chosen = self.query.events
        kinds = [kind for word in chosen.kinds for kind in kinds_of(word)]
        marks = [
            [mark("tool", tool) for tool in chosen.tools],
            [mark("kind", kind) for kind in kinds],
        ]
        marks += [[mark("is", "error")]] if chosen.is_error else []
        postings = [
            union([self.store.index.postings(word) for word in either])
            for either in marks
            if either
        ]
        postings += [union([self._naming(file) for file in chosen.files])] if chosen.files else []
        return common(postings) if postings else None

    def _naming(self, file: str) -> list[int]:
        """Return the segments that may have an event on a file.

        If its name has no whole word, these are all segments with a call.
        """
        phrases = path_phrases(file)
        return (
            self._term_postings(phrases)
            if phrases
            else union(
                [self.store.index.postings(mark("kind", kind)) for kind in kinds_of("tool_call")]
            )
        )

    # ── candidates ────────────────────────────────────────────────────────────────────────────────
    def _complete(self, words: list[Word], sessions: set[int] | None) -> set[int]:
        """Return the sessions that have every word. The rarest word is checked first."""
        for word in sorted(words, key=lambda word: len(word.segments)):
            sessions = word.among(sessions)
            if not sessions:
                break
        return sessions or set()

    def _covering(self, words: list[Word], sessions: set[int] | None) -> set[int]:
        """Return the sessions with the most and rarest of the words."""
        covered: dict[int, float] = {}
        for word in words:
            for session in word.among(sessions):
                covered[session] = covered.get(session, 0.0) + word.weight
        enough = MIN_COVERAGE * max(covered.values(), default=0.0)
        return {session for session, weight in covered.items() if weight >= enough}

    # ── ranking ───────────────────────────────────────────────────────────────────────────────────
    def _hits(
        self,
        words: list[Word],
        narrow: list[int] | None,
        sessions: set[int],
        limit: int,
        sort: str,
        *,
        is_loose: bool = False,
    ) -> list[Hit]:
        """Return the best sessions whose text proves the match."""
        # One function, because both passes share the proofs and the places that are left.
        proofs: dict[int, _Proof] = {}
        injected: dict[int, _Proof] = {}

        def group(events: list[EventHit]) -> dict[int, _Proof]:
            is_last = sort == "relevance" and is_all_injected(events)
            return injected if is_last else proofs

        late: list[tuple[int, tuple[int, float]]] = []
        wanted = self._wanted(words, limit, sort)
        most = MAX_FIRST_PROOFS if len(sessions) > 1 else self.max_proofs
        for rank, (number, score) in enumerate(
            self._prefetched(words, narrow, self._ranked(words, sessions, wanted, sort), wanted)
        ):
            proof = self._prove(words, narrow, number, most, is_loose=is_loose)
            if proof is not None:
                group(proof[0])[rank] = (number, score, *proof)
            elif self.is_cut_short:
                late.append((rank, (number, score)))
            # Before the next one is read ahead.
            is_full = len(proofs) + max(0, len(injected) - MAX_INJECTED) >= wanted
            if is_full or self.is_partial:
                break
        for rank, (number, score) in late:
            if len(proofs) >= limit or self.is_partial:
                self.is_partial = True
                break
            proof = self._prove(words, narrow, number, self.max_proofs, is_loose=is_loose)
            if proof is not None:
                group(proof[0])[rank] = (number, score, *proof)
        ordered = [
            proof
            for some in (proofs, injected)
            for proof in self._by_nearness([proof for _, proof in sorted(some.items())])
        ]
        return self._hits_of(ordered[:limit], words)

    def _hits_of(self, proofs: list[_Proof], words: list[Word]) -> list[Hit]:
        self.proven = [number for number, *_ in proofs]
        lines = self.store.sessions.lines(self.proven)
        return [
            Hit(
                session=lines[number],
                score=round(score + self.near.get(number, 0.0), 4),
                events=events,
                missing=missing,
                why=self._why(words, number, score),
            )
            for number, score, events, missing in proofs
            if number in lines
        ]

    def _wanted(self, words: list[Word], limit: int, sort: str) -> int:
        """Return how many sessions are read to choose the best: more than are shown, if words can
        be near each other."""
        self.is_by_nearness = sort == "relevance" and needs_nearness(words)
        is_free = self.is_by_nearness and not self.query.needs_proof
        return max(limit, MAX_COMPARED) if is_free and limit else limit

    def _by_nearness(self, proofs: list[_Proof]) -> list[_Proof]:
        """Return sessions in the order of their scores and of how near their words are."""
        if not self.is_by_nearness:
            return proofs
        return sorted(proofs, key=lambda proof: -proof[1] - self.near.get(proof[0], 0.0))

    def _why(self, words: list[Word], number: int, score: float) -> dict[str, float]:
        near = self.near.get(number, 0.0)
        parts = {"words in the session": score, "words near each other": near}
        return {name: round(value, 3) for name, value in parts.items() if value}

    def _prefetched(
        self,
        words: list[Word],
        narrow: list[int] | None,
        ranked: Iterator[tuple[int, float]],
        limit: int,
    ) -> Iterator[tuple[int, float]]:
        """Yield the same sessions, with the best segment of several read ahead at once."""
        while some := list(islice(ranked, max(0, limit))):
            self._fetch(
                segment
                for number, _ in some
                for segment in self._segments(words, narrow, number)[:1]
            )
            yield from some

    def _fetch(self, segments: Iterable[int]) -> None:
        self.read = self.store.index.segments(list(segments), files=bool(self.query.events.files))

    def _ranked(
        self, words: list[Word], sessions: set[int], limit: int, sort: str
    ) -> Iterator[tuple[int, float]]:
        if sort == "newest":
            yield from ((number, 0.0) for number in self.store.sessions.newest(list(sessions)))
            return
        scores = self._scores(words, sessions)
        want = limit + (self.max_proofs if self.query.needs_proof else MAX_INJECTED)
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

    def _scores(self, words: list[Word], sessions: set[int]) -> dict[int, float]:
        scores = dict.fromkeys(sessions, 0.0)
        sizes = self.store.index.sizes()
        base = SATURATION * (1 - LENGTH)
        slope = SATURATION * LENGTH * len(sizes) / max(1, sum(sizes.values()))
        telling = MIN_WEIGHT * max((word.weight for word in words), default=0.0)
        for word in words:
            weight, has = word.weight, word.counts(sessions)
            if weight < telling:
                continue
            spoken = counts_of(self._postings(word.terms, "said"), sessions)
            for session in sessions:
                if present := has.get(session):
                    count = present + SPOKEN_WEIGHT * spoken.get(session, 0)
                    scores[session] += (
                        weight * count / (count + base + slope * sizes.get(session, 1))
                    )
        return scores

    # ── proof ─────────────────────────────────────────────────────────────────────────────────────
    def _prove(
        self,
        words: list[Word],
        narrow: list[int] | None,
        session: int,
        most: int,
        *,
        is_loose: bool,
    ) -> tuple[list[EventHit], list[str]] | None:
        """Return the best events of a session and the words it lacks.

        None if it turns out not to match, or if that takes more than `most` proofs.
        """
        # One function, because each step needs the words that the one before it left unproven.
        self.is_cut_short = False
        lacks = {n for n, word in enumerate(words) if not of_session(word.segments, session)}
        # The index proves that a word is in the session. For a phrase, or a word in an event that
        # the filters choose, the text must prove it.
        unproven = {
            n
            for n, word in enumerate(words)
            if n not in lacks and (self.is_picky or word.needs_proof)
        }
        segments = self._segments(words, narrow, session)
        shown = self._read_events(words, segments, unproven, self.proofs + most)
        if shown is None or (unproven and not is_loose) or (self.is_picky and not shown):
            return None
        if len(words) == 1 and self.enough == 1:
            # With several words, injected text may be the only text that has one of them.
            shown = [item for item in shown if not item[1].is_injected] or shown
        best = heapq.nlargest(self.events, shown, key=lambda item: (item[0], -item[1].seq))
        missing = [
            word.text for n, word in enumerate(words) if n in lacks | unproven and not word.is_part
        ]
        return [event for _, event in sorted(best, key=lambda item: item[1].seq)], missing

    def _read_events(
        self, words: list[Word], segments: list[int], unproven: set[int], max_proofs: int
    ) -> list[tuple[float, EventHit]] | None:
        """Return the events that match, with their value; None when the proofs were used up. Words
        that an event proves are removed from `unproven`."""
        shown: list[tuple[float, EventHit]] = []
        reads = 0
        for segment in segments:
            has_enough = self._has_enough(shown, reads)
            if has_enough and not any(contains(words[n].segments, segment) for n in unproven):
                continue
            if (self.is_picky or unproven) and self._is_out_of_proofs(max_proofs):
                if unproven or not shown:
                    return None
                # The session matches, but it may have more events.
                self.is_partial = True
                break
            data = self._segment(segment)
            reads += 1
            if data is None:
                continue
            events, proven = self._events_of(segment, Page(*data), words)
            shown += events
            unproven -= proven
            if self._has_enough(shown, reads) and not unproven:
                break
        return shown

    def _events_of(
        self, segment: int, page: Page, words: list[Word]
    ) -> tuple[list[tuple[float, EventHit]], set[int]]:
        """Return `_events` of a segment, and note how near its words are."""
        here = {n: word for n, word in enumerate(words) if contains(word.segments, segment)}
        unwanted = [word for word in self.unwanted if contains(word.segments, segment)]
        matches = self._events(page, here, unwanted)
        if self.is_by_nearness:
            near = nearness(page, self.spots, [word.weight for word in words], self.text)
            self.near[segment >> 20] = max(near, self.near.get(segment >> 20, 0.0))
        return matches

    def _has_enough(self, shown: list[tuple[float, EventHit]], reads: int) -> bool:
        """Return True if there are enough events to show.

        As long as only injected text has the words, a few more segments are read.
        """
        if self.enough > 1 or reads >= MAX_INJECTED_SEGMENTS:
            return len(shown) >= self.enough
        return any(not event.is_injected for _, event in shown)

    def _is_out_of_proofs(self, max_proofs: int) -> bool:
        """Count one more unpacked segment, and return True if there were too many."""
        self.proofs += 1
        self.is_partial = self.proofs > self.max_proofs
        self.is_cut_short = self.proofs > max_proofs
        return self.is_partial or self.is_cut_short

    def _segment(self, segment: int) -> tuple[bytes, list[SegmentEvent]] | None:
        """Return the content of a segment; None if it was deleted meanwhile or is damaged.

        The session of a damaged segment counts as a match, but the segment is not shown.
        """
        if segment in self.read:
            return self.read.pop(segment)
        try:
            return self.store.index.segment(segment, files=bool(self.query.events.files))
        except StoreError:
            self.is_damaged = True
            return None

    def _segments(self, words: list[Word], narrow: list[int] | None, session: int) -> list[int]:
        """Return the segments of a session with any of the words, best first."""
        if not words:
            return list(of_session(narrow or [], session))
        weights: dict[int, float] = {}
        for word in words:
            for segment in of_session(word.segments, session):
                weights[segment] = weights.get(segment, 0.0) + word.weight
        for word in self.unwanted:
            for segment in of_session(word.segments, session):
                if segment in weights:
                    # Segments without an excluded word are read first.
                    weights[segment] /= 4
        return sorted(weights, key=lambda segment: (-weights[segment], segment))

    def _events(
        self, page: Page, words: dict[int, Word], unwanted: list[Word]
    ) -> tuple[list[tuple[float, EventHit]], set[int]]:
        """Return the best events with any of the words, each with its value, and the words in them.

        A word that occurs in an event with rarer words is not searched in the others.
        """
        wanted = self._chosen(page, unwanted)
        self.spots: list[Spot] = []
        spots: dict[int, list[tuple[int, int]]] = {} if words else {at: [] for at in wanted}
        weights: dict[int, float] = {}
        proven: set[int] = set()
        # Injected text is searched only for words that no other event of the segment has.
        injected = [at for at in wanted if page.events[at].is_injected and self.enough == 1]
        if injected:
            wanted = sorted(set(wanted).difference(injected))
        for n, word in sorted(words.items(), key=lambda item: -item[1].weight):
            likely = sorted(spots.keys() - set(injected)) if self.enough == 1 else ()
            for at, places in self._places(word, page, wanted, likely, injected):
                spots.setdefault(at, []).extend(places)
                if not page.events[at].is_injected:
                    self.spots += [Spot(start, end, n, True) for start, end in places]
                weights[at] = weights.get(at, 0.0) + word.weight
                proven.add(n)
        # Only the best become hits: a common word is in every event.
        value = {at: (weights.get(at, 0.0) + 1e-9) * weight_of(page.events[at]) for at in spots}
        best = heapq.nlargest(self.events, spots, key=lambda at: (value[at], -at))
        return [(value[at], event_hit(page, at, spots[at])) for at in best], proven

    def _places(
        self,
        word: Word,
        page: Page,
        wanted: Sequence[int],
        likely: Sequence[int],
        injected: Sequence[int],
    ) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yield the events with a word, and its places in each."""
        for finder in word.finders:
            places = finder.find(page, wanted, likely, self.events)
            yield from (places or finder.find(page, injected, (), self.events)).items()

    def _chosen(self, page: Page, unwanted: list[Word]) -> Sequence[int]:
        """Return the events that the fields choose and that have no excluded word."""
        if not self.is_picky:
            return range(len(page.events))
        banned = set().union(
            *(finder.events_with(page) for word in unwanted for finder in word.finders)
        )
        return [
            at
            for at, event in enumerate(page.events)
            if at not in banned and self.query.events.matches(event)
        ]
