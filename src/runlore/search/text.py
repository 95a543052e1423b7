"""Where the words of a query are in the text of a segment: in which events, at which bytes, and what to show of them.

By the rules of the index: whole words, whatever their case and accents, and the parts of words of mixed case. An event ends a
word, although the bodies of a segment stand one behind the other without a gap.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ..store import SegmentEvent, SessionLine
from ..store.words import CJK, LONGEST, part_spans
from .syntax import TOKEN, Term

SNIPPET = 160
"""Bytes of a body that are shown: two lines of a terminal."""

SPOTS = 8
"""Places of one word that are looked for in one event: more than a snippet can show."""

Spans = dict[int, list[tuple[int, int]]]
"""By the place of an event in its segment: byte ranges in the segment."""


class EventHit(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    kind: str
    ts: str | None
    tool: str | None
    is_error: bool
    snippet: str
    marks: list[tuple[int, int]]
    """Where in the snippet the words are."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    session: SessionLine
    score: float
    events: list[EventHit]
    missing: list[str] = []
    """Words that this session does not have."""


class Answer(msgspec.Struct, kw_only=True):
    """What a search found, the best first."""

    hits: list[Hit]
    total: int
    """How many sessions there are; when phrases or events must be proven, at most so many."""
    missing: list[str]
    """What the best of the sessions shown lacks: then no session has every word."""
    ignored: list[str]
    """What has no letter or digit in it, or was one word too many."""
    is_partial: bool
    """Whether not everything was looked at that might match."""
    seconds: float


class Page:
    """A segment that was unpacked."""

    def __init__(self, data: bytes, events: Sequence[SegmentEvent]) -> None:
        self.data, self.events = data, events
        self.lower = data.lower()
        self.starts = [event.offset for event in events]

    def body(self, at: int) -> bytes:
        event = self.events[at]
        return self.data[event.offset : event.offset + event.length]


class Finder:
    """Finds a term in the events of a page."""

    def __init__(self, term: Term) -> None:
        self.is_prefix = term.is_prefix
        tokens = [token.translate(_FOLD) for token in TOKEN.findall(term.text)]
        is_cjk = CJK.search(term.text) is not None
        # Nearly all words are ASCII: their first token is found by `bytes.find`, ten times as fast as a pattern.
        self.first = tokens[0].encode() if term.text.isascii() and tokens else b""
        self.rest = re.compile(rb"[^0-9a-z]+".join(re.escape(token.encode()) for token in tokens)) if len(tokens) > 1 else None
        self.tokens = tokens
        self.wide = _wide_pattern(term, tokens, is_cjk=is_cjk)

    def find(self, page: Page, taken: Sequence[bool], most: int = SPOTS) -> Spans:
        """The places of the term in the events that are taken, at most so many in each."""
        found = self._find_ascii(page, taken, most) if self.first else {}
        # "cafe" is found in "café" as well: looked for only where nothing else was found, because it needs every character.
        return found or self._find_wide(page, taken, most)

    def events_with(self, page: Page) -> set[int]:
        """Every event that has the term."""
        everyone = [True] * len(page.events)
        found = self._find_ascii(page, everyone, 1) if self.first else {}
        return found.keys() | self._find_wide(page, everyone, 1).keys()

    def _find_ascii(self, page: Page, taken: Sequence[bool], most: int) -> Spans:
        lower, starts, events = page.lower, page.starts, page.events
        found: Spans = {}
        first = lower.find(self.first)
        while first >= 0:
            at = bisect_right(starts, first) - 1
            low = starts[at]
            high = low + events[at].length
            last = self._last(page, first, low, high) if taken[at] else None
            after = first + 1
            if last is not None:
                spots = found.setdefault(at, [])
                spots.append((first, last))
                after = last if len(spots) < most else high
            elif not taken[at]:
                after = high
            first = lower.find(self.first, max(after, first + 1))
        return found

    def _last(self, page: Page, first: int, low: int, high: int) -> int | None:
        """Where the term ends that begins at `first`, if it does, in the body from `low` to `high`."""
        last = first + len(self.first)
        if self.rest is not None:
            match = self.rest.match(page.lower, first, high)
            if match is None or not (match.group().isascii() or self._is_same(match.group())):
                return None
            last = match.end()
        if last > high:
            return None
        if _is_apart_before(page.data, first, low) and (self.is_prefix or _is_apart_after(page.data, last, high)):
            return last
        return last if self.rest is None and self._is_part(page.data, first, last, low, high) else None

    def _is_same(self, found: bytes) -> bool:
        """Whether what lies between the tokens is no word: a dash may be of many bytes, but so may a letter."""
        return [token.translate(_FOLD) for token in TOKEN.findall(found.decode("utf-8", "replace"))] == self.tokens

    def _is_part(self, data: bytes, first: int, last: int, low: int, high: int) -> bool:
        """Whether this is a part of a word like parseHttpUrl."""
        before = _RUN_BEFORE.search(data, max(low, first - LONGEST - 1), first)
        after = _RUN_AFTER.match(data, last, min(high, last + LONGEST + 1))
        assert after is not None
        start = before.start() if before else first
        for begin, end in part_spans(data[start : after.end()]):
            if begin + start == first and (end + start == last or (self.is_prefix and end + start > last)):
                return True
        return False

    def _find_wide(self, page: Page, taken: Sequence[bool], most: int) -> Spans:
        found: Spans = {}
        for at, is_taken in enumerate(taken):
            body = page.body(at) if is_taken else b""
            if not body or body.isascii():
                continue
            text = body.decode("utf-8", "replace")
            done, byte = 0, page.starts[at]
            for match in self.wide.finditer(text.translate(_FOLD)):
                first = byte + len(text[done : match.start()].encode())
                last = first + len(text[match.start() : match.end()].encode())
                done, byte = match.end(), last
                if last > first:
                    found.setdefault(at, []).append((first, last))
                if len(found.get(at, ())) >= most:
                    break
        return found


class _Fold(dict[int, int]):
    """Characters without case and accents, one for one, as the index sees them. Filled as they come up."""

    def __missing__(self, code: int) -> int:
        whole = chr(code)
        parts = unicodedata.normalize("NFD", whole)
        plain = parts[0] if len(parts) > 1 and all(unicodedata.combining(mark) for mark in parts[1:]) else whole
        lower = plain.lower()
        self[code] = ord(lower) if len(lower) == 1 else ord(plain)
        return self[code]


_FOLD = _Fold()
_MARKS = "[\u0300-\u036f]*"
_LETTERS = bytes(48 <= c <= 57 or 65 <= c <= 90 or 97 <= c <= 122 for c in range(256))
_RUN_BEFORE = re.compile(rb"[0-9A-Za-z]+\Z")
_RUN_AFTER = re.compile(rb"[0-9A-Za-z]*")


def _wide_pattern(term: Term, tokens: Sequence[str], *, is_cjk: bool) -> re.Pattern[str]:
    """For text that is not ASCII, case and accents folded. Accents may also stand behind their letter."""
    if is_cjk:
        return re.compile(r"\s+".join(re.escape(word.translate(_FOLD)) for word in term.text.split()))
    words = [_MARKS.join([*map(re.escape, token), ""]) for token in tokens]
    return re.compile(r"(?<![^\W_])" + r"[\W_]+".join(words) + ("" if term.is_prefix else r"(?![^\W_])"))


def _is_apart_before(data: bytes, at: int, low: int) -> bool:
    if at <= low or not (_LETTERS[data[at - 1]] or data[at - 1] >= 0x80):
        return True
    return data[at - 1] >= 0x80 and _is_no_letter(data[max(low, at - 4) : at].decode("utf-8", "ignore")[-1:])


def _is_apart_after(data: bytes, at: int, high: int) -> bool:
    if at >= high or not (_LETTERS[data[at]] or data[at] >= 0x80):
        return True
    return data[at] >= 0x80 and _is_no_letter(data[at : min(high, at + 4)].decode("utf-8", "ignore")[:1])


def _is_no_letter(char: str) -> bool:
    """Words beside a Chinese or Japanese character are indexed apart from it."""
    return not char.isalnum() or CJK.match(char) is not None


# ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────────────
def event_hit(page: Page, at: int, spots: Iterable[tuple[int, int]]) -> EventHit:
    event = page.events[at]
    text, marks = snippet(page.body(at), [(first - event.offset, last - event.offset) for first, last in spots])
    return EventHit(seq=event.seq, kind=event.kind, ts=event.ts, tool=event.tool, is_error=event.is_error, snippet=text, marks=marks)


def snippet(body: bytes, spots: Iterable[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """The part of a body with the most of the places, on one line, and where they are in it."""
    ordered = sorted(spots)
    best, most = 0, 0
    for n, (first, _) in enumerate(ordered):
        count = sum(last <= first + SNIPPET * 3 // 4 for _, last in ordered[n : n + 2 * SPOTS])
        if count > most or not n:
            best, most = first, count
    start = max(0, best - SNIPPET // 4)
    start = body.rfind(b" ", max(0, start - 16), start) + 1 or start
    end = min(len(body), start + SNIPPET)
    text = "…" if start else ""
    marks: list[tuple[int, int]] = []
    at = start
    for first, last in _apart(ordered, start, end):
        text += _one_line(body[at:first])
        begin = len(text)
        text += _one_line(body[first:last])
        marks.append((begin, len(text)))
        at = last
    return text + _one_line(body[at:end]) + ("…" if end < len(body) else ""), [(a, b) for a, b in marks if a < b]


def _apart(spots: Iterable[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The places within these bytes, without those that overlap one before."""
    for first, last in spots:
        if start <= first < end:
            yield first, min(last, end)
            start = last


_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def _one_line(data: bytes) -> str:
    return _BLANKS.sub(" ", data.decode("utf-8", "ignore"))
