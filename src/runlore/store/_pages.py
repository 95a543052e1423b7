"""The index over words that a server keeps, as values: which segments have a word, on pages that a row can hold.

A volume is the index of some segments, which it numbers from 0. Its words stand on its pages in order, each with the segments that
have it and in which columns. No volume is ever changed: what is new makes another, and several are bound into one. Knows no database.

A page is words one after another: how many bytes a word shares with the one before it, how many are its own, these, how long its
places are, and these. A place is the distance from the segment before << 3 | a bit for each column. Numbers take seven bits of a byte,
the lowest first. A word with more places than a page holds has pages of its own, each beginning anew.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

try:
    from .. import _speed
except ImportError:  # It was not compiled.
    _speed = None  # type: ignore[assignment]

Words = tuple[bytes | None, bytes | None, bytes | None]
"""Of a segment's prompts, replies and tools: each word once, with blanks between."""
Page = tuple[bytes, int, bytes]
"""The first word on a page, the how manieth page that has only this word, and what stands on it."""

PAGE_BYTES = 3900
"""Two pages with their first words in what PostgreSQL reads at once. Larger ones take longer to look through."""
PIECE_BYTES = 3000
"""Of the places of one word on a page."""
WORD_BYTES = 2048
"""Of a word: with its places a page must fit into a row."""
MOST_SEGMENTS = 1 << 28
"""Of a volume: with its columns, the number of a segment must fit into 32 bits."""
DAMAGED = "a page is damaged"


def make_pages_in_python(segments: list[Words]) -> list[Page]:
    """The pages of a volume of these segments."""
    places: dict[bytes, list[int]] = {}
    for number, columns in enumerate(segments):
        for column, words in enumerate(columns[:3]):
            for word in words.split(b" ") if words else ():
                if len(word) > WORD_BYTES:
                    raise ValueError("a word is too long")
                if word:
                    _note(places, word, number << 3 | 1 << column)
    return _written(places)


def bind_pages_in_python(volumes: list[tuple[list[bytes], bytes]]) -> list[Page]:
    """The pages of several volumes made into one: of each its pages, and by segment the number that it has there, packed as `int`; -1 for
    one that is gone. Raises ValueError for pages that are damaged."""
    places: dict[bytes, list[int]] = {}
    for pages, packed in volumes:
        where = array("i", packed)
        for word, found in read_pages(pages):
            for number, columns in found:
                if number >= len(where):
                    raise ValueError(DAMAGED)
                if where[number] >= MOST_SEGMENTS:
                    raise ValueError("too many segments")
                if where[number] >= 0:
                    _note(places, word, where[number] << 3 | columns)
    return _written(places)


def find_in_python(pages: list[bytes], low: bytes, high: bytes, columns: int, ids: bytes) -> bytes:
    """The ids of the segments that have a word from `low` on and before `high` in one of the columns, each once; `ids` are those of all
    segments, packed as `long long`. Raises ValueError for pages that are damaged."""
    known, made = array("q", ids), dict[int, None]()
    for page in pages:
        for word, found in _entries(page):
            if word >= high:
                break
            if word >= low:
                for number, has in found:
                    if number >= len(known):
                        raise ValueError(DAMAGED)
                    if has & columns:
                        made.setdefault(number)
    return array("q", [known[number] for number in made]).tobytes()


make_pages: Callable[[list[Words]], list[Page]] = getattr(_speed, "make_pages", make_pages_in_python)
bind_pages: Callable[[list[tuple[list[bytes], bytes]]], list[Page]] = getattr(_speed, "bind_pages", bind_pages_in_python)
find_in_pages: Callable[[list[bytes], bytes, bytes, int, bytes], bytes] = getattr(_speed, "find_in_pages", find_in_python)
"""The same, compiled."""


def read_pages(pages: Sequence[bytes]) -> Iterator[tuple[bytes, Iterator[tuple[int, int]]]]:
    """Every word with its places, each (number, columns). Raises ValueError for pages that are damaged."""
    for page in pages:
        yield from _entries(page)


def _note(places: dict[bytes, list[int]], word: bytes, value: int) -> None:
    found = places.setdefault(word, [])
    if found and found[-1] >> 3 > value >> 3:
        raise ValueError("segments are out of order")
    if found and found[-1] >> 3 == value >> 3:
        found[-1] |= value & 7
    else:
        found.append(value)


def _written(places: dict[bytes, list[int]]) -> list[Page]:
    pages: list[Page] = []
    first, before, body = b"", b"", b""
    for word in sorted(places):
        pieces = list(_pieces(places[word]))
        own = [_entry(word, 0, piece) for piece in pieces]
        made = _entry(word, _shared(before, word), pieces[0]) if body else own[0]
        if body and (len(own) > 1 or len(body) + len(made) > PAGE_BYTES):
            pages.append((first, 0, body))
            body, made = b"", own[0]
        if len(own) > 1 or len(made) > PAGE_BYTES:
            pages += [(word, part, page) for part, page in enumerate(own)]
            continue
        first = first if body else word
        body += made
        before = word
    return [*pages, (first, 0, body)] if body else pages


def _pieces(values: Sequence[int]) -> Iterator[bytes]:
    """The places of a word, as many as a page can hold, and the rest on further ones."""
    piece, before = b"", 0
    for value in values:
        made = _packed((value >> 3) - before << 3 | value & 7)
        if len(piece) + len(made) > PIECE_BYTES:
            yield piece
            piece, made = b"", _packed(value)
        piece += made
        before = value >> 3
    yield piece


def _shared(one: bytes, other: bytes) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _entry(word: bytes, shared: int, piece: bytes) -> bytes:
    return _packed(shared) + _packed(len(word) - shared) + word[shared:] + _packed(len(piece)) + piece


def _packed(number: int) -> bytes:
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _entries(page: bytes) -> Iterator[tuple[bytes, Iterator[tuple[int, int]]]]:
    at, word = 0, b""
    while at < len(page):
        shared, at = _number(page, at, len(page))
        more, at = _number(page, at, len(page))
        if shared > len(word) or shared + more > WORD_BYTES or not shared + more or at + more > len(page):
            raise ValueError(DAMAGED)
        word = word[:shared] + page[at : at + more]
        size, at = _number(page, at + more, len(page))
        if at + size > len(page):
            raise ValueError(DAMAGED)
        yield word, _places(page, at, at + size)
        at += size


def _places(page: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    number = 0
    while at < end:
        value, at = _number(page, at, end)
        number += value >> 3
        if number >= MOST_SEGMENTS:
            raise ValueError(DAMAGED)
        yield number, value & 7


def _number(page: bytes, at: int, end: int) -> tuple[int, int]:
    made = 0
    for shift in range(0, 35, 7):
        if at >= end:
            break
        byte = page[at]
        at += 1
        made |= (byte & 0x7F) << shift
        if byte < 0x80 and made < 1 << 32:
            return made, at
    raise ValueError(DAMAGED)
