"""Find passages: places of a text in which the words of a question are close together.

A passage is a window of four neighbouring turns, or of as much of a longer text. It is scored by
BM25: a rare word counts more than a common one, a second occurrence less than the first, and a
short passage more than a long one. A word as the question spells it counts more than
another form of it, and words that follow each other as in the question count extra. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from .postings import Word
from .questions import Clue
from .syntax import TOKEN
from .text import Finder, Page

WINDOW = 4
"""Neighbouring turns in a passage."""

CHUNK_BYTES = 800
"""Size at which a turn is divided. The tokens of a passage should be near each other."""

SATURATION, LENGTH, USUAL_BYTES = 1.2, 0.7, 1200
"""The k and b of BM25, and the length of a passage that neither gains nor loses."""

FORM_SHARE = 0.8
"""Weight of an occurrence in another form of the word."""

NEAR_BYTES, NEAR_SHARE = 40, 0.25
"""Distance within which two words that follow each other in the question do so in the text, and the
share of their weights that this adds."""

TOOL_SHARE, INJECTED_SHARE = 0.6, 0.01
"""Share of the score of a passage in the calls and results of tools, and in injected text."""

NEARNESS_SHARE, VERBATIM_SHARE = 0.5, 1.0
"""Weight of the best passage in the order of sessions that have all words of a query, and what the
very text of the query adds, in shares of the weight of its words."""

MAX_SPOTS = 300
"""Maximum number of places of one word in a segment."""

_MESSAGES = frozenset({"user_msg", "assistant_msg", "human_intervention", "decision", "thinking"})
_WORD_END = re.compile(rb"[a-z]*")
_PART_END = re.compile(rb"[A-Za-z][a-z]*")


class Spot(NamedTuple):
    """An occurrence of a clue in the bytes of a page."""

    start: int
    end: int
    clue: int
    is_same: bool
    """True if it is written as in the question, apart from case."""


class Passage(NamedTuple):
    score: float
    events: tuple[int, ...]
    """Indexes of events with any of the words."""
    clues: frozenset[int]


class Matcher:
    """Finds clues in pages."""

    def __init__(self, clues: Sequence[Clue]) -> None:
        self.clues = clues
        self.patterns = [
            (n, clue.text.lower().encode(), *_pattern_for(group))
            for n, clue in enumerate(clues)
            for group in _with_same_beginning(clue.forms)
        ]
        self.finders = [(n, Finder(clue.term)) for n, clue in enumerate(clues) if not clue.forms]

    def find(self, page: Page, clues: Collection[int]) -> list[Spot]:
        """Return the places of some of the clues, by their index, in order."""
        spots: list[Spot] = []
        for n, same, forms, pattern in self.patterns:
            if n in clues:
                spots += _find_forms(page, n, same, forms, pattern)
        everywhere = range(len(page.events))
        for n, finder in self.finders:
            if n not in clues:
                continue
            for places in finder.find(page, everywhere, (), len(page.events)).values():
                spots += [Spot(start, end, n, True) for start, end in places]
        spots.sort()
        return spots


def best_passages(
    page: Page, spots: Sequence[Spot], weights: Sequence[float], most: int = 3
) -> list[Passage]:
    """Return the best passages of a page, best first, none of which share an event."""
    found = [
        passage
        for stream, share in _chunks_by_kind(page)
        for passage in _passages(stream, spots, weights, share)
    ]
    found.sort(key=lambda passage: -passage.score)
    best: list[Passage] = []
    for passage in found:
        if all(set(passage.events).isdisjoint(other.events) for other in best):
            best.append(passage)
            if len(best) >= most:
                break
    return best


def _with_same_beginning(forms: Iterable[str]) -> list[list[str]]:
    """Divide forms like `go` and `went` by their first two letters."""
    return [list(group) for _, group in groupby(sorted(forms), key=lambda form: form[:2])]


def _pattern_for(forms: Sequence[str]) -> tuple[frozenset[bytes], re.Pattern[bytes]]:
    """Return the forms, and a pattern for what all of them begin with."""
    beginning = _common_beginning(forms).encode()
    return frozenset(form.encode() for form in forms), re.compile(re.escape(beginning))


def _common_beginning(forms: Sequence[str]) -> str:
    first, last = min(forms), max(forms)
    same = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[:same] if same is not None else min(first, last, key=len)


def _find_forms(
    page: Page, n: int, same: bytes, forms: frozenset[bytes], pattern: re.Pattern[bytes]
) -> Iterator[Spot]:
    lower, data = page.lower, page.data
    count = 0
    for match in pattern.finditer(lower):
        at = match.start()
        before = data[at - 1] if at else 32
        is_camel = False
        if _is_word_byte(before):
            # Inside a word, unless a part begins here as in parseHttp.
            if not (97 <= before <= 122 and 65 <= data[at] <= 90):
                continue
            is_camel = True
        end = _WORD_END.match(lower, at).end()  # type: ignore[union-attr]
        word = lower[at:end]
        if word not in forms or (end < len(data) and _is_word_byte(data[end])):
            part = _PART_END.match(data, at)
            if part is None or part.end() >= end or lower[at : part.end()] not in forms:
                continue
            end, word, is_camel = part.end(), lower[at : part.end()], True
        yield Spot(at, end, n, word == same and not is_camel)
        count += 1
        if count >= MAX_SPOTS:
            return


def _is_word_byte(byte: int) -> bool:
    return 97 <= byte <= 122 or 65 <= byte <= 90 or 48 <= byte <= 57


# ── windows ───────────────────────────────────────────────────────────────────────────────────────
_Chunk = tuple[int, int, int]
"""The first byte, the end, and the index of the event."""


def _chunks_by_kind(page: Page) -> Iterator[tuple[list[_Chunk], float]]:
    """Yield the chunks of messages, of tools, and of injected text, each with its share of the
    score."""
    streams: dict[float, list[_Chunk]] = {1.0: [], TOOL_SHARE: [], INJECTED_SHARE: []}
    for at, event in enumerate(page.events):
        share = (
            INJECTED_SHARE if event.is_injected else 1.0 if event.kind in _MESSAGES else TOOL_SHARE
        )
        end = event.offset + event.length
        for start in range(event.offset, end, CHUNK_BYTES):
            streams[share].append((start, min(end, start + CHUNK_BYTES), at))
    for share, chunks in streams.items():
        yield chunks, share


def _passages(
    chunks: list[_Chunk], spots: Sequence[Spot], weights: Sequence[float], share: float
) -> Iterator[Passage]:
    """Yield a passage for each chunk with a word, beginning there."""
    by_chunk: dict[int, list[Spot]] = defaultdict(list)
    starts = [chunk[0] for chunk in chunks]
    for spot in spots:
        at = bisect_right(starts, spot.start) - 1
        if at >= 0 and spot.start < chunks[at][1]:
            by_chunk[at].append(spot)
    for first in by_chunk:
        here: list[Spot] = []
        events: list[int] = []
        window = chunks[first : first + WINDOW]
        for at, (_, _, event) in enumerate(window, first):
            if at in by_chunk:
                here += by_chunk[at]
                if event not in events:
                    events.append(event)
        size = sum(end - start for start, end, _ in window)
        score = score_of(here, size, weights) * share
        yield Passage(score, tuple(events), frozenset([spot.clue for spot in here]))


def score_of(spots: Sequence[Spot], size: int, weights: Sequence[float]) -> float:
    """Return the BM25 score of a passage, plus a bonus for words next to each other."""
    counts: dict[int, float] = defaultdict(float)
    near = 0.0
    pairs: set[int] = set()
    last: Spot | None = None
    for spot in spots:
        counts[spot.clue] += 1.0 if spot.is_same else FORM_SHARE
        if (
            last is not None
            and spot.clue == last.clue + 1
            and spot.start - last.end <= NEAR_BYTES
            and spot.clue not in pairs
        ):
            pairs.add(spot.clue)
            near += NEAR_SHARE * min(weights[spot.clue], weights[last.clue])
        last = spot
    norm = SATURATION * (1 - LENGTH + LENGTH * size / USUAL_BYTES)
    return near + sum(
        weights[clue] * count * (SATURATION + 1) / (count + norm) for clue, count in counts.items()
    )


# ── exact-word queries ────────────────────────────────────────────────────────────────────────────
def needs_nearness(words: Iterable[Word]) -> bool:
    """Return True if the query has more than one word, or an identifier of several."""
    texts = [word.terms[0].text for word in words]
    return len(texts) > 1 or any(
        len(TOKEN.findall(text)) > 1 or any(map(str.isupper, text[1:])) for text in texts
    )


def nearness(page: Page, spots: Sequence[Spot], weights: Sequence[float], text: bytes) -> float:
    """Return the score of the best passage with these places; more if it has the very text."""
    ordered = sorted(spots)
    best = 0.0
    for at, spot in enumerate(ordered):
        end = bisect_left(ordered, (spot.start + USUAL_BYTES,), at)
        best = max(best, score_of(ordered[at:end], USUAL_BYTES, weights))
    return NEARNESS_SHARE * best + (verbatim_share(page, text) * sum(weights) if ordered else 0.0)


def verbatim_share(page: Page, text: bytes) -> float:
    """Return what having the very text of a query is worth, in shares of its words' weight."""
    small = text.lower()
    if small not in page.lower:
        return 0.0
    # A query with capitals should match them.
    return VERBATIM_SHARE if text == small or text in page.data else VERBATIM_SHARE / 4
