"""The words of a segment in PostgreSQL's index, and the queries for a word or a phrase.

The tokenizer of SQLite's index splits the text, so both stores find the same. The table `search`
has each word of a segment once, in a tsvector without positions, under GIN. The index alone answers
queries for words and prefixes. Phrases are checked against the list of all words in their order,
which is stored compressed with the segment.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator
from functools import cache, lru_cache
from itertools import zip_longest
from typing import Any

import apsw
import msgspec
import zstandard

from .rows import INDEX_COLUMNS
from .values import Segment, SegmentTokens

MESSAGE_COLUMNS = INDEX_COLUMNS[:2]
"""The columns with prompts and replies, without the output of tools."""

MAX_WORD_CHARS = 500
"""Maximum characters of a word in the index: PostgreSQL takes words of up to 2,046 bytes. A word of
this length may have been cut, so it is checked like a phrase."""

MAX_VECTOR_BYTES = 500_000
"""Maximum bytes of the words in one tsvector, which holds a megabyte."""

PHRASE_CHECK_SEGMENTS = 500
"""Number of segments whose words are fetched at a time to check a phrase."""

_compress = zstandard.ZstdCompressor(level=1).compress

_FOLD = bytes(
    c | 0x20 if 65 <= c <= 90 else c if c >= 0x80 or chr(c).isalnum() else 0x20 for c in range(256)
)
_FOREIGN = bytes(c >= 0x80 for c in range(256))
_SIGNS = ("→".encode(), "—".encode(), "│".encode())
"""Signs that are not part of a word. Most non-ASCII words are ASCII words next to one of these,
such as the arrow after line numbers."""
_MAX_CACHED_BYTES = 64
"""Maximum bytes of a non-ASCII word whose tokens are cached."""


class WordQuery(msgspec.Struct, frozen=True):
    """A search for a word or phrase: a tsquery, and the phrase to check its matches for."""

    tsquery: str
    phrase: bytes | None


def tokenize_segment(segment: Segment) -> SegmentTokens:
    """Return the words of a segment, as its rows in `search` and `segments` have them."""
    lists = [list_words(text) for text in (segment.prompt, segment.reply, segment.tool)]
    prompt, reply, tool = ([_vector(part) for part in _parts(set(words))] for words in lists)
    lines = [b" %b " % b" ".join(words) for words in lists]
    return list(zip_longest(prompt, reply, tool)), _compress(b"\n".join(lines))


def list_words(text: bytes) -> list[bytes]:
    """Return the words of a text in order, as SQLite's index has them."""
    low = text.translate(_FOLD)
    return low.split() if low.isascii() else _fold_foreign(low).split()


def build_query(term: str, *, prefix: bool) -> WordQuery | None:
    """Return the query for a term; None if there is no word in it."""
    words = tokenize(term.encode("utf-8", "replace"))
    if not words:
        return None
    tsquery = " & ".join(f"'{word[:MAX_WORD_CHARS]}'" for word in words) + (":*" if prefix else "")
    if len(words) == 1 and len(words[0]) < MAX_WORD_CHARS:
        return WordQuery(tsquery, None)
    return WordQuery(tsquery, f" {' '.join(words)}{'' if prefix else ' '}".encode())


def build_alternatives(words: Collection[str]) -> WordQuery:
    """Return the query for any of several words of letters and digits."""
    return WordQuery(" | ".join(f"'{word[:MAX_WORD_CHARS]}'" for word in sorted(words)), None)


def columns_with(stream: bytes, phrase: bytes, unpack: Callable[[bytes], bytes]) -> frozenset[str]:
    """Return the columns in which a packed stream has the phrase. `unpack` is an `unpacker()`."""
    text = unpack(stream)
    if phrase not in text:
        return frozenset()
    lines = zip(INDEX_COLUMNS, text.split(b"\n"), strict=False)
    return frozenset(column for column, line in lines if phrase in line)


def unpacker() -> Callable[[bytes], bytes]:
    """Return a function that unpacks streams, for use in one thread."""
    return zstandard.ZstdDecompressor().decompress


def tokenize(text: bytes) -> list[str]:
    """Return the words of a text in order, split by the tokenizer of SQLite's index itself."""
    try:
        words: list[str] = _tokenizer()(text)
    except UnicodeError:
        words = _tokenizer()(text.decode("utf-8", "replace").encode())
    return words


def _fold_foreign(low: bytes) -> bytes:
    """Return a text with each non-ASCII word replaced by its tokens, separated by blanks.

    Other words need no tokenizer.
    """
    for sign in _SIGNS:
        low = low.replace(sign, b" ")
    foreign = low.translate(_FOREIGN)
    parts: list[bytes] = []
    end = 0
    at = foreign.find(1)
    while at >= 0:
        first = low.rfind(b" ", end, at) + 1 or end
        last = low.find(b" ", at)
        if last < 0:
            last = len(low)
        parts += (low[end:first], _tokenize_foreign(low[first:last]))
        end, at = last, foreign.find(1, last)
    parts.append(low[end:])
    return b"".join(parts)


def _tokenize_foreign(word: bytes) -> bytes:
    return _cached_tokens(word) if len(word) <= _MAX_CACHED_BYTES else _join_tokens(word)


def _join_tokens(word: bytes) -> bytes:
    return " ".join(tokenize(word)).encode()


_cached_tokens = lru_cache(maxsize=1 << 15)(_join_tokens)


@cache
def _tokenizer() -> Any:
    tokenizer = apsw.Connection(":memory:").fts5_tokenizer("unicode61", ["remove_diacritics", "2"])
    return lambda text: tokenizer(
        text, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
    )


def _parts(words: set[bytes]) -> Iterator[list[bytes]]:
    """Yield the words as tsvectors hold them: in order, and cut to their maximum length.

    If they are too many for one tsvector, there are several lists.
    """
    if max(map(len, words), default=0) > MAX_WORD_CHARS:
        words = {word.decode()[:MAX_WORD_CHARS].encode() for word in words}
    ordered = sorted(words)
    if sum(map(len, ordered)) + len(ordered) < MAX_VECTOR_BYTES:
        yield from [ordered] if ordered else []
        return
    part: list[bytes] = []
    size = 0
    for word in ordered:
        part.append(word)
        size += len(word) + 1
        if size >= MAX_VECTOR_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _vector(words: list[bytes]) -> bytes:
    """Return a tsvector in PostgreSQL's binary format.

    It has the number of words, then each word in order, followed by a zero byte and by the number
    of its positions, which is 0.
    """
    end = b"\0\0\0"
    return struct.pack(">i", len(words)) + end.join(words) + end
