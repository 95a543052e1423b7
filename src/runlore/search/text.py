"""Where the words of a query are in the text of a segment: in which events, at which bytes, and
what to show of them.

By the rules of the index: whole words, whatever their case and accents, and the parts of words of
mixed case. An event ends a word, although the bodies of a segment stand one behind the other
without a gap.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import msgspec

from ..model import is_own
from ..store import SegmentEvent, SessionLine
from ..store.words import CJK, MAX_IDENTIFIER_BYTES, blank_escapes, part_spans
from .syntax import TOKEN, Term

SNIPPET = 160
"""Bytes of a body that are shown: two lines of a terminal."""

SPOTS = 6
"""Places of one word that are looked for in one event: as many as a snippet may show."""

ENOUGH = 12
"""Events that are found at most to choose the few from that are shown: a common word is in all of
them."""

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
    """How many sessions there are; when phrases or events must be proven and the limit is reached,
    at most so many."""
    missing: list[str]
    """What the best of the sessions shown lacks: then none that the fields choose has every word.
    When none is shown, what no session has, whatever the fields choose."""
    ignored: list[str]
    """What has no letter or digit in it, as the signs of C++, or was one word too many."""
    is_partial: bool
    """Whether not everything was looked at that might match."""
    seconds: float
    is_damaged: bool = False
    """Whether some text of the store cannot be read: what is in it is not shown, and not proven.
    See `runlore doctor`."""


def without_own(events: Sequence[SegmentEvent]) -> Sequence[SegmentEvent]:
    """The events without those of runlore's own tools. The few different tools are looked at before
    the many events."""
    if not any(map(is_own, {event.tool for event in events})):
        return events
    return [event for event in events if not is_own(event.tool)]


class Page:
    """A segment that was unpacked, without what runlore itself answered in it."""

    def __init__(self, data: bytes, events: Sequence[SegmentEvent]) -> None:
        self.data, self.events = blank_escapes(data), without_own(events)
        self.lower = self.data.lower()
        self.starts = [event.offset for event in self.events]

    @cached_property
    def accented(self) -> frozenset[int]:
        """The events in which there may be letters that an ASCII word is found in as well."""
        if not self.data.translate(None, _NO_ACCENT):
            return frozenset()
        return frozenset(
            at for at in range(len(self.events)) if self.body(at).translate(None, _NO_ACCENT)
        )

    def body(self, at: int) -> bytes:
        event = self.events[at]
        return self.data[event.offset : event.offset + event.length]


class Finder:
    """Finds a term in the events of a page."""

    def __init__(self, term: Term) -> None:
        self.is_prefix = term.is_prefix
        tokens = [token.translate(_FOLD) for token in TOKEN.findall(term.text)]
        # Nearly all words are ASCII: their first token is found by `bytes.find`, ten times as fast
        # as a pattern.
        self.first = tokens[0].encode() if tokens and all(map(str.isascii, tokens)) else b""
        self.rest = (
            re.compile(rb"[^0-9a-z]+".join(re.escape(token.encode()) for token in tokens))
            if len(tokens) > 1
            else None
        )
        self.tokens, self.term = tokens, term

    @cached_property
    def wide(self) -> re.Pattern[str]:
        """For text that is not ASCII, case and accents folded. Accents may also stand behind their
        letter."""
        if CJK.search(self.term.text):
            return re.compile(r"[\W_]+".join(map(re.escape, self.tokens)))
        words = [_MARKS.join([*map(re.escape, token), ""]) for token in self.tokens]
        return re.compile(
            r"(?<![^\W_])" + r"[\W_]+".join(words) + ("" if self.is_prefix else r"(?![^\W_])")
        )

    def find(
        self, page: Page, taken: Sequence[int], likely: Sequence[int] = (), events: int = 0
    ) -> Spans:
        """The first places of the term in the events that are taken, as many as are asked for or
        more; only in those that are likely, when it is there."""
        found: Spans = {}
        enough = max(ENOUGH, events)
        if self.first:
            found = self._find_ascii(page, likely, SPOTS, enough) or self._find_ascii(
                page, taken, SPOTS, enough
            )
        # "cafe" is found in "café" as well: looked for only where nothing else was found, because
        # it needs every character.
        return found or self._find_wide(page, taken, SPOTS)

    def events_with(self, page: Page) -> set[int]:
        """Every event that has the term."""
        everyone = range(len(page.events))
        found = self._find_ascii(page, everyone, 1, len(everyone)) if self.first else {}
        return found.keys() | self._find_wide(page, everyone, 1).keys()

    def _find_ascii(self, page: Page, taken: Iterable[int], most: int, enough: int) -> Spans:
        starts, events = page.starts, page.events
        find = (
            self._finds_letter(page.lower)
            if len(self.first) == 1 and not self.is_prefix
            else page.lower.find
        )
        found: Spans = {}
        for at in taken:
            low = starts[at]
            high = low + events[at].length
            first = find(self.first, low, high)
            while first >= 0:
                last = self._last(page, first, low, high)
                if last is None:
                    first = find(self.first, first + 1, high)
                    continue
                spots = found.setdefault(at, [])
                spots.append((first, last))
                first = find(self.first, last, high) if len(spots) < most else -1
            if len(found) >= enough:
                break
        return found

    def _finds_letter(self, lower: bytes) -> Callable[[bytes, int, int], int]:
        """As `bytes.find`, for a single letter: it is in most words, so a pattern passes over
        those."""
        search = re.compile(rb"%b(?<![0-9a-z]%b)(?![0-9a-z])" % (self.first, self.first)).search

        def find(letter: bytes, start: int, end: int) -> int:
            # What stands before the start may be another event's.
            if lower.startswith(letter, start, end):
                return start
            match = search(lower, start, end)
            return match.start() if match else -1

        return find

    def _last(self, page: Page, first: int, low: int, high: int) -> int | None:
        """Where the term ends that begins at `first`, if it does, in the body from `low` to
        `high`."""
        data = page.data
        # Within a word, where no part of it begins or ends: by far the most frequent case, so it
        # comes first.
        before = _CLASS[data[first - 1]] if first > low else _APART
        if before in _LETTERS and _CLASS[data[first]] == _LOWER:
            return None
        last = first + len(self.first)
        if self.rest is not None:
            match = self.rest.match(page.lower, first, high)
            if match is None or not (match.group().isascii() or self._is_same(match.group())):
                return None
            last = match.end()
        after = _CLASS[data[last]] if last < high and not self.is_prefix else _APART
        if after == _LOWER and _CLASS[data[last - 1]] in _LETTERS:
            return None
        begins = before == _APART or (
            before == _HIGH
            and _is_no_letter(data[max(low, first - 4) : first].decode("utf-8", "ignore")[-1:])
        )
        ends = after == _APART or (
            after == _HIGH
            and _is_no_letter(data[last : min(high, last + 4)].decode("utf-8", "ignore")[:1])
        )
        if begins and ends:
            return last
        return last if self.rest is None and self._is_part(data, first, last, low, high) else None

    def _is_same(self, found: bytes) -> bool:
        """Whether what lies between the tokens is no word: a dash may be of many bytes, but so may
        a letter."""
        return [
            token.translate(_FOLD) for token in TOKEN.findall(found.decode("utf-8", "replace"))
        ] == self.tokens

    def _is_part(self, data: bytes, first: int, last: int, low: int, high: int) -> bool:
        """Whether this is a part of a word like parseHttpUrl."""
        before = _RUN_BEFORE.search(data, max(low, first - MAX_IDENTIFIER_BYTES - 1), first)
        after = _RUN_AFTER.match(data, last, min(high, last + MAX_IDENTIFIER_BYTES + 1))
        assert after is not None
        start = before.start() if before else first
        for begin, end in part_spans(data[start : after.end()]):
            if begin + start == first and (
                end + start == last or (self.is_prefix and end + start > last)
            ):
                return True
        return False

    def _find_wide(self, page: Page, taken: Iterable[int], most: int) -> Spans:
        found: Spans = {}
        for at in taken if not self.first else [at for at in taken if at in page.accented]:
            body = page.body(at)
            if body.isascii():
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
    """Characters without case and accents, one for one, as the index sees them. Filled as they come
    up."""

    def __missing__(self, code: int) -> int:
        whole = chr(code)
        parts = unicodedata.normalize("NFD", whole)
        plain = (
            parts[0]
            if len(parts) > 1 and all(unicodedata.combining(mark) for mark in parts[1:])
            else whole
        )
        self[code] = next(
            ord(one) for one in (plain.casefold(), plain.lower(), plain) if len(one) == 1
        )
        return self[code]


_FOLD = _Fold()
_NO_ACCENT = bytes(c for c in range(256) if not (0xC3 <= c <= 0xCD or c == 0xE1))
"""All bytes but those that Latin letters with accents, and accents alone, begin with in UTF-8."""
_MARKS = "[\u0300-\u036f]*"
_APART, _LOWER, _UPPER, _DIGIT, _HIGH = range(5)
_LETTERS = (_LOWER, _UPPER)
_CLASS = bytes(
    (
        _HIGH
        if c >= 0x80
        else (
            _LOWER
            if 97 <= c <= 122
            else _UPPER
            if 65 <= c <= 90
            else _DIGIT
            if 48 <= c <= 57
            else _APART
        )
    )
    for c in range(256)
)
_RUN_BEFORE = re.compile(rb"[0-9A-Za-z]+\Z")
_RUN_AFTER = re.compile(rb"[0-9A-Za-z]*")


def _is_no_letter(char: str) -> bool:
    """Words beside a Chinese or Japanese character are indexed apart from it."""
    return not char.isalnum() or CJK.match(char) is not None


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────
def event_hit(page: Page, at: int, spots: Iterable[tuple[int, int]]) -> EventHit:
    event = page.events[at]
    text, marks = snippet(
        page.body(at), [(first - event.offset, last - event.offset) for first, last in spots]
    )
    return EventHit(
        seq=event.seq,
        kind=event.kind,
        ts=event.ts,
        tool=event.tool,
        is_error=event.is_error,
        snippet=text,
        marks=marks,
    )


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
    return text + _one_line(body[at:end]) + ("…" if end < len(body) else ""), [
        (a, b) for a, b in marks if a < b
    ]


def _apart(spots: Iterable[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The places within these bytes, without those that overlap one before."""
    for first, last in spots:
        if start <= first < end:
            yield first, min(last, end)
            start = last


_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def _one_line(data: bytes) -> str:
    return _BLANKS.sub(" ", data.decode("utf-8", "ignore"))
