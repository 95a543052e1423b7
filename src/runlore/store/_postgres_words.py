"""The words of a segment, for the index in PostgreSQL, and what to ask it for a word or a phrase.

Words are cut by the tokenizer of SQLite's index, so both stores find the same. The index has each word of a segment once (`_pages.py`):
words and prefixes are answered by it alone. All words in their order are kept packed beside the segment, and prove phrases.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import apsw
import msgspec
import zstandard

from . import Segment
from ._pages import WORD_BYTES, Words
from .contract import CutWords

try:
    from .. import _speed
except ImportError:  # It was not compiled.
    _speed = None  # type: ignore[assignment]

COLUMNS = ("prompt", "reply", "tool")
SAID = COLUMNS[:2]

LONGEST = WORD_BYTES // 4
"""Characters of a word that the index has. One of so many, or more, is proved like a phrase."""

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
    """A word or phrase: `words` are for the index, the last perhaps the beginning of one, and what it finds is proved by `phrase` when
    there is one."""

    words: tuple[bytes, ...]
    is_prefix: bool
    phrase: bytes | None

    @property
    def ranges(self) -> list[tuple[bytes, bytes]]:
        """Of each word, from where on and up to where it stands in order. No word has a byte of 255, nor goes on with one of 0."""
        last = len(self.words) - 1
        return [(word, word + (b"\xff" if self.is_prefix and n == last else b"\0")) for n, word in enumerate(self.words)]


def cut_words(segment: Segment) -> CutWords:
    """The words of a segment, as they are kept."""
    lines, columns = [], []
    for text in (segment.prompt, segment.reply, segment.tool):
        line, once, longest = list_words(text, cut_foreign)
        if longest > LONGEST:  # In bytes, so perhaps none is.
            once = _once(once.split())
        lines.append(line)
        columns.append(once or None)
    prompt, reply, tool = columns
    return prompt, reply, tool, _compress(b"\n".join(lines))


def list_words_in_python(text: bytes, cut: Callable[[bytes], bytes]) -> tuple[bytes, bytes, int]:
    """The words of a text, as SQLite's index sees them, with one blank before, between and behind; each of them once, with blanks between;
    and the length of the longest. `cut` takes those apart that are not all ASCII."""
    words = fold(text, cut).split()
    once = dict.fromkeys(words)
    return b" %b " % b" ".join(words), b" ".join(once), max(map(len, once), default=0)


list_words = getattr(_speed, "list_words", list_words_in_python)
"""The same, compiled it takes a third of the time."""


def ask(term: str, *, prefix: bool) -> Asked | None:
    """What to ask for a term; None when there is no word in it."""
    words = cut(term.encode("utf-8", "replace"))
    if not words:
        return None
    is_plain = len(words) == 1 and len(words[0]) < LONGEST
    phrase = None if is_plain else f" {' '.join(words)}{'' if prefix else ' '}".encode()
    return Asked(tuple(word[:LONGEST].encode() for word in words), prefix, phrase)


def words_in(stream: bytes) -> Words:
    """The words of a packed stream, each once, as `cut_words` had them."""
    prompt, reply, tool = (_once(line.split()) or None for line in unpacker()(stream).split(b"\n"))
    return prompt, reply, tool


def _once(words: list[bytes]) -> bytes:
    return b" ".join(dict.fromkeys(word.decode()[:LONGEST].encode() for word in words))


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
