"""The index over words in PostgreSQL: what is stored of a segment's text, and which segments have a word or a phrase.

Words are cut by the tokenizer of SQLite's index, so both stores find the same. PostgreSQL has each word of a segment once, in a
tsvector without positions, and GIN over these: words and prefixes are answered by the index alone. All words in their order are
kept packed beside them, and prove phrases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any

import apsw
import msgspec
import zstandard

from . import Segment
from ._postgres_bulk import END, Vector, vector
from .contract import CutWords

try:
    from .. import _speed
except ImportError:  # It was not compiled.
    _speed = None  # type: ignore[assignment]

COLUMNS = ("prompt", "reply", "tool")
SAID = COLUMNS[:2]

LONGEST = 500
"""Characters of a word that the index has: it takes words of up to 2,046 bytes. A longer one is proved like a phrase."""

PART_BYTES = 500_000
"""Of words in one row: a tsvector holds a megabyte."""

PROVED = 500
"""Segments whose words are fetched at a time."""

_compress = zstandard.ZstdCompressor(level=1).compress

_FOLD = bytes(c | 0x20 if 65 <= c <= 90 else c if c >= 0x80 or chr(c).isalnum() else 0x20 for c in range(256))
_FOREIGN = bytes(c >= 0x80 for c in range(256))
_SIGNS = ("→".encode(), "—".encode(), "│".encode())
"""Three in four words beyond ASCII are no words but for one of these beside them: agents number lines with the first."""
_SHORT = 64
"""Bytes of a word beyond ASCII that may come again."""


class Asked(msgspec.Struct, frozen=True):
    """A word or phrase: `query` is for the index, and what it finds is proved by `phrase` when there is one."""

    query: str
    phrase: bytes | None


def rows_of(session: int, id_: int, segment: Segment) -> Iterator[tuple[Any, ...]]:
    """The rows of table `search` for a segment, each (session, id, part, prompt, reply, tool, stream)."""
    for part, prompt, reply, tool, stream in cut_words(segment) if segment.cut is None else segment.cut:
        yield (session, id_, part, *(words and Vector(words) for words in (prompt, reply, tool)), stream)


def cut_words(segment: Segment) -> list[CutWords]:
    """The words of a segment, as the rows have them."""
    lines, columns = [], []
    for text in (segment.prompt, segment.reply, segment.tool):
        line, count, words, longest = list_words(text, cut_foreign)
        lines.append(line)
        columns.append([vector(count, words)] if count else [])
        if longest > LONGEST or len(line) >= PART_BYTES:
            columns[-1] = [vector(len(part), b"".join(word + END for word in part)) for part in _parts(words.split(END)[:-1])]
    rows: list[CutWords] = []
    for part in range(max(1, *map(len, columns))):
        prompt, reply, tool = (column[part] if part < len(column) else None for column in columns)
        rows.append((part, prompt, reply, tool, _compress(b"\n".join(lines)) if part == 0 else None))
    return rows


def list_words_in_python(text: bytes, cut: Callable[[bytes], bytes]) -> tuple[bytes, int, bytes, int]:
    """The words of a text, as SQLite's index sees them, with one blank before, between and behind; how many different ones there are;
    these in order, with `END` behind each; and the length of the longest. `cut` takes those apart that are not all ASCII. The server takes
    words without positions so, and would have to sort them itself."""
    words = fold(text, cut).split()
    once = sorted(set(words))
    return b" %b " % b" ".join(words), len(once), b"".join([word + END for word in once]), max(map(len, once), default=0)


list_words = getattr(_speed, "list_words", list_words_in_python)
"""The same, compiled it takes a third of the time."""


def ask(term: str, *, prefix: bool) -> Asked | None:
    """What to ask for a term; None when there is no word in it."""
    words = cut(term.encode("utf-8", "replace"))
    if not words:
        return None
    marks = [""] * (len(words) - 1) + [":*" if prefix else ""]
    query = " & ".join(f"'{word[:LONGEST]}'{mark}" for word, mark in zip(words, marks, strict=True))
    is_plain = len(words) == 1 and len(words[0]) <= LONGEST
    return Asked(query, None if is_plain else f" {' '.join(words)}{'' if prefix else ' '}".encode())


def columns_with(stream: bytes, phrase: bytes, unpack: Callable[[bytes], bytes]) -> frozenset[str]:
    """The columns that have the phrase in a packed stream. To make an `unpacker` takes half as long as to use it."""
    text = unpack(stream)
    if phrase not in text:
        return frozenset()
    return frozenset(column for column, line in zip(COLUMNS, text.split(b"\n"), strict=False) if phrase in line)


def unpacker() -> Callable[[bytes], bytes]:
    """What unpacks streams, in one thread."""
    return zstandard.ZstdDecompressor().decompress


def cut(text: bytes) -> list[str]:
    """The words of a text, in order, as SQLite's index sees them."""
    try:
        words: list[str] = _tokenizer()(text)
    except UnicodeError:
        words = _tokenizer()(text.decode("utf-8", "replace").encode())
    return words


def fold(text: bytes, cut: Callable[[bytes], bytes]) -> bytes:
    """The words of a text with blanks between. What is ASCII, which is nearly all, is not left to the tokenizer: two thirds of the time."""
    low = text.translate(_FOLD)
    if low.isascii():
        return low
    for sign in _SIGNS:
        low = low.replace(sign, b" ")
    foreign = low.translate(_FOREIGN)
    made: list[bytes] = []
    at = 0
    here = foreign.find(1)
    while here >= 0:
        first = low.rfind(b" ", at, here) + 1 or at
        last = low.find(b" ", here)
        if last < 0:
            last = len(low)
        made += (low[at:first], cut(low[first:last]))
        at, here = last, foreign.find(1, last)
    made.append(low[at:])
    return b"".join(made)


def cut_foreign(word: bytes) -> bytes:
    """The words of one that is not all ASCII, with blanks between."""
    return _cut_again(word) if len(word) <= _SHORT else _cut(word)


def _cut(word: bytes) -> bytes:
    return " ".join(cut(word)).encode()


_cut_again = lru_cache(maxsize=1 << 15)(_cut)


@cache
def _tokenizer() -> Any:
    tokenizer = apsw.Connection(":memory:").fts5_tokenizer("unicode61", ["remove_diacritics", "2"])
    return lambda text: tokenizer(text, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False)


def _parts(words: list[bytes]) -> Iterator[list[bytes]]:
    """Words as rows can hold them: cut where they are too long, and in pieces where they are too many."""
    part: list[bytes] = []
    size = 0
    for word in sorted({word.decode()[:LONGEST].encode() for word in words}):
        part.append(word)
        size += len(word) + 1
        if size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
