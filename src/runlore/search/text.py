"""The words of a query in the text of a segment: their events, their bytes, and the snippet to
show.

The rules are those of the index: whole words, regardless of case and accents, and the parts of
words in mixed case. The end of an event ends a word, although the bodies of a segment follow each
other without a gap.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import msgspec

from ..model import is_own
from ..store import SegmentEvent, SessionLine
from ..store.words import CJK, MAX_IDENTIFIER_BYTES, blank_escapes, part_spans
from .syntax import TOKEN, Query, Term, parts_of

SNIPPET_BYTES = 160
"""Length of a snippet: two lines of a terminal."""

MAX_SPOTS = 6
"""Maximum number of places of one word in one event: as many as a snippet may show."""

MAX_EVENTS = 12
"""Maximum number of events that are searched to choose the few to show: a common word is in all of
them."""

Spans = dict[int, list[tuple[int, int]]]
"""Byte ranges in the segment, by the index of the event."""


class EventHit(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    kind: str
    """user_msg, assistant_msg, thinking, tool_call, tool_result, edit, test_run, …"""
    ts: str | None
    tool: str | None
    is_error: bool
    snippet: str
    marks: list[tuple[int, int]]
    """Ranges of the words in the snippet."""
    is_injected: bool = False
    """True if the agent's program added the text by itself: a listing of skills, a reminder, the
    output of a hook."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    session: SessionLine
    score: float
    events: list[EventHit]
    missing: list[str] = []
    """Words that this session does not have."""
    why: dict[str, float] = {}
    """What the score is made of."""


class Answer(msgspec.Struct, kw_only=True):
    """The result of a search, best first."""

    hits: list[Hit]
    total: int
    """Number of sessions that match; an upper bound if phrases or events need proof and the limit
    is reached."""
    missing: list[str]
    """Words that the best session shown lacks: then no chosen session has every word. If none is
    shown, the words that no session has at all."""
    ignored: list[str]
    """Parts without a letter or digit, such as the signs of C++, and words beyond the maximum."""
    is_partial: bool
    """True if not everything that might match was read."""
    seconds: float
    numbers: frozenset[int] = frozenset()
    """The sessions that match, as many as `total` says, by their numbers in the store."""
    is_damaged: bool = False
    """True if some text of the store cannot be read: it is neither shown nor proven. See `runlore
    doctor`."""


def without_own(events: Sequence[SegmentEvent]) -> Sequence[SegmentEvent]:
    """Return the events without those of runlore's own tools."""
    if not any(map(is_own, {event.tool for event in events})):
        return events
    return [event for event in events if not is_own(event.tool)]


class Page:
    """An unpacked segment, without the answers of runlore itself."""

    def __init__(self, data: bytes, events: Sequence[SegmentEvent]) -> None:
        self.data, self.events = blank_escapes(data), without_own(events)
        self.lower = self.data.lower()
        self.starts = [event.offset for event in self.events]

    @cached_property
    def accented(self) -> frozenset[int]:
        """The events that may have accented letters, in which an ASCII word also matches."""
        if not self.data.translate(None, _NO_ACCENT):
            return frozenset()
        return frozenset(
            at for at in range(len(self.events)) if self.body(at).translate(None, _NO_ACCENT)
        )

    def body(self, at: int) -> bytes:
        event = self.events[at]
        return self.data[event.offset : event.offset + event.length]


class Finder:
    """A matcher for one term in the events of a page."""

    def __init__(self, term: Term) -> None:
        self.is_prefix = term.is_prefix
        tokens = [token.translate(_FOLD) for token in TOKEN.findall(term.text)]
        # Nearly all words are ASCII: `bytes.find` finds their first token faster than a pattern.
        self.first = tokens[0].encode() if tokens and all(map(str.isascii, tokens)) else b""
        self.rest = (
            re.compile(rb"[^0-9a-z]+".join(re.escape(token.encode()) for token in tokens))
            if len(tokens) > 1
            else None
        )
        self.tokens, self.term = tokens, term

    @cached_property
    def wide(self) -> re.Pattern[str]:
        """The pattern for text that is not ASCII, with case and accents folded.

        Accents may also follow their letter as separate characters.
        """
        if CJK.search(self.term.text):
            return re.compile(r"[\W_]+".join(map(re.escape, self.tokens)))
        words = [_MARKS.join([*map(re.escape, token), ""]) for token in self.tokens]
        return re.compile(
            r"(?<![^\W_])" + r"[\W_]+".join(words) + ("" if self.is_prefix else r"(?![^\W_])")
        )

    def find(
        self, page: Page, wanted: Sequence[int], likely: Sequence[int] = (), events: int = 0
    ) -> Spans:
        """Return the first places of the term in the wanted events.

        If the term is in the `likely` events, only those are searched. `events` raises the number
        of events.
        """
        spans: Spans = {}
        enough = max(MAX_EVENTS, events)
        if self.first:
            spans = self._find_ascii(page, likely, MAX_SPOTS, enough) or self._find_ascii(
                page, wanted, MAX_SPOTS, enough
            )
        # "cafe" also matches "café". This is slower, so it is tried only if nothing else matched.
        return spans or self._find_wide(page, wanted, MAX_SPOTS)

    def events_with(self, page: Page) -> set[int]:
        """Return every event that has the term."""
        everyone = range(len(page.events))
        spans = self._find_ascii(page, everyone, 1, len(everyone)) if self.first else {}
        return spans.keys() | self._find_wide(page, everyone, 1).keys()

    def _find_ascii(self, page: Page, wanted: Iterable[int], most: int, enough: int) -> Spans:
        starts, events = page.starts, page.events
        find = (
            self._finds_letter(page.lower)
            if len(self.first) == 1 and not self.is_prefix
            else page.lower.find
        )
        spans: Spans = {}
        for at in wanted:
            low = starts[at]
            high = low + events[at].length
            first = find(self.first, low, high)
            while first >= 0:
                last = self._match_end(page, first, low, high)
                if last is None:
                    first = find(self.first, first + 1, high)
                    continue
                spots = spans.setdefault(at, [])
                spots.append((first, last))
                first = find(self.first, last, high) if len(spots) < most else -1
            if len(spans) >= enough:
                break
        return spans

    def _finds_letter(self, lower: bytes) -> Callable[[bytes, int, int], int]:
        """Return a `find` for a single letter, which skips the letters inside words."""
        search = re.compile(rb"%b(?<![0-9a-z]%b)(?![0-9a-z])" % (self.first, self.first)).search

        def find(letter: bytes, start: int, end: int) -> int:
            # The byte before the start may belong to another event.
            if lower.startswith(letter, start, end):
                return start
            match = search(lower, start, end)
            return match.start() if match else -1

        return find

    def _match_end(self, page: Page, first: int, low: int, high: int) -> int | None:
        """Return the end of a term that begins at `first`, in the body from `low` to `high`, or
        None."""
        data = page.data
        # Inside a word, where no part begins: the most frequent case, so it comes first.
        before = _CLASS[data[first - 1]] if first > low else _APART
        if before in _LETTERS and _CLASS[data[first]] == _LOWER:
            return None
        last = self._tokens_end(page.lower, first, high)
        if last is None:
            return None
        after = _CLASS[data[last]] if last < high and not self.is_prefix else _APART
        if after == _LOWER and _CLASS[data[last - 1]] in _LETTERS:
            return None
        if _begins_word(data, first, low, before) and _ends_word(data, last, high, after):
            return last
        is_part = self.rest is None and self._is_word_part(data, first, last, low, high)
        return last if is_part else None

    def _tokens_end(self, lower: bytes, first: int, high: int) -> int | None:
        """Return the end of all tokens of the term, or None if the others do not follow."""
        if self.rest is None:
            return first + len(self.first)
        match = self.rest.match(lower, first, high)
        if match is None or not (match.group().isascii() or self._has_same_tokens(match.group())):
            return None
        return match.end()

    def _has_same_tokens(self, text: bytes) -> bool:
        """Return True if no other word lies between the tokens: non-ASCII bytes may be a dash or a
        letter."""
        return [
            token.translate(_FOLD) for token in TOKEN.findall(text.decode("utf-8", "replace"))
        ] == self.tokens

    def _is_word_part(self, data: bytes, first: int, last: int, low: int, high: int) -> bool:
        """Return True if this is a part of a word like parseHttpUrl."""
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

    def _find_wide(self, page: Page, wanted: Iterable[int], most: int) -> Spans:
        spans: Spans = {}
        for at in wanted if not self.first else [at for at in wanted if at in page.accented]:
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
                    spans.setdefault(at, []).append((first, last))
                if len(spans.get(at, ())) >= most:
                    break
        return spans


class _Fold(dict[int, int]):
    """A lazy table that removes case and accents, one character for one, as the index does."""

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
"""All bytes except the first bytes of accented Latin letters and of combining accents in UTF-8."""
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


def _begins_word(data: bytes, first: int, low: int, before: int) -> bool:
    """Return True if the character in front is no part of the same word."""
    return before == _APART or (
        before == _HIGH
        and _is_no_letter(data[max(low, first - 4) : first].decode("utf-8", "ignore")[-1:])
    )


def _ends_word(data: bytes, last: int, high: int, after: int) -> bool:
    """Return True if the character behind is no part of the same word."""
    return after == _APART or (
        after == _HIGH
        and _is_no_letter(data[last : min(high, last + 4)].decode("utf-8", "ignore")[:1])
    )


def _is_no_letter(char: str) -> bool:
    """Return True if a word ends at this character.

    Words next to a CJK character are separate words.
    """
    return not char.isalnum() or CJK.match(char) is not None


def words_in(query: Query, text: str) -> list[str]:
    """Return the words of a query as a text writes them, to mark them where the text is shown."""
    data = text.encode("utf-8", "replace")
    page = Page(data, [SegmentEvent(0, "", None, None, False, (), 0, len(data))])

    def places(term: Term) -> list[tuple[int, int]]:
        return Finder(term).find(page, [0]).get(0, [])

    terms = list(chain(*query.groups))
    # A word that no session has is found by its parts.
    spots = [
        spot
        for term in terms
        for spot in places(term) or chain(*(places(part) for part in parts_of(term)))
    ]
    words = (page.data[first:last].decode("utf-8", "replace") for first, last in spots)
    return list(dict.fromkeys(words))


# ── snippets ──────────────────────────────────────────────────────────────────────────────────────
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
        is_injected=event.is_injected,
    )


def snippet(body: bytes, spots: Iterable[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """Return the part of a body with the most places, on one line, and the places in it."""
    ordered = sorted(spots)
    best, most = 0, 0
    for n, (first, _) in enumerate(ordered):
        count = sum(
            last <= first + SNIPPET_BYTES * 3 // 4 for _, last in ordered[n : n + 2 * MAX_SPOTS]
        )
        if count > most or not n:
            best, most = first, count
    start = max(0, best - SNIPPET_BYTES // 4)
    start = body.rfind(b" ", max(0, start - 16), start) + 1 or start
    end = min(len(body), start + SNIPPET_BYTES)
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
    """Yield the places within these bytes, without overlaps."""
    for first, last in spots:
        if start <= first < end:
            yield first, min(last, end)
            start = last


_BLANKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def _one_line(data: bytes) -> str:
    return _BLANKS.sub(" ", data.decode("utf-8", "ignore"))
