"""The text for the search index: the bodies, and parts of words that its tokenizer does not split.

The tokenizer (unicode61) splits at everything that is not a letter or a digit, so the parts of
`parse_http` and `src/main.py` are found. It does not split `parseHttpUrl`. It also treats a run of
Chinese or Japanese characters, together with the text next to it, as one word. For these, the parts
and the pairs of characters are appended to the text.

Such words are searched in the text's classes of characters (`bytes.translate`). There a pattern can
begin with one byte, and skips everything between two capitals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

MAX_IDENTIFIER_BYTES = 64
"""A longer run of letters and digits is considered data and not an identifier."""

_OTHER, _LOWER, _UPPER = b"\0", b"\1", b"\2"
_CLASS = b"".join(
    _UPPER if 65 <= c <= 90 else _LOWER if 97 <= c <= 122 or 48 <= c <= 57 else _OTHER
    for c in range(256)
)
_BOUNDARY = re.compile(rb"\x02(?:(?<=\x01\x02)|\x02\x01)[\x01\x02]*+")
"""A pattern over classes: the first boundary inside a word, as in parseHttp and in HTTPServer, and
the rest of the word."""

_PARTS = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
CJK = re.compile(
    "[\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
"""A run of characters of Chinese, Japanese or Korean."""
_CJK_BYTES = re.compile(rb"(?:[\xe3-\xec\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf])+")
_CJK_CLASS = bytes(0xE3 <= c <= 0xED or c == 0xEF for c in range(256))
"""The bytes that begin a character of these scripts in UTF-8. Other non-ASCII characters, such as
dashes and arrows, are far more frequent."""
_BEFORE_CJK = re.compile(rb"[!-~]+\Z")
_AFTER_CJK = re.compile(rb"[!-~]+")

_ESCAPE = re.compile(rb"\x1b\[[0-9;:?]*[A-Za-z]")
_SIGNS = ((b"\xf0\x9f", 4), (b"\xee", 3))
"""The first bytes of emoji and of the glyphs of a shell prompt in UTF-8, and their number of bytes.
unicode61 takes the glyphs, and emoji that are newer than its tables, for letters. It would make one
word of `done` and an emoji that follows it."""


def index_text(texts: list[bytes]) -> bytes:
    """Return the texts in UTF-8, followed by the parts of their words."""
    text = blank_signs(blank_escapes(b"\n".join(texts)))
    parts = camel_parts(text)
    if not text.isascii() and any(
        1 in body.translate(_CJK_CLASS) for body in texts if not body.isascii()
    ):
        parts += cjk_words(text)
    return b"%b\n%b" % (text, b" ".join(parts)) if parts else text


def blank_escapes(text: bytes) -> bytes:
    """Return the text with blanks in place of terminal escape codes.

    Otherwise they would be part of the words that follow them.
    """
    return _ESCAPE.sub(lambda match: b" " * len(match.group()), text) if b"\x1b" in text else text


def blank_signs(text: bytes) -> bytes:
    """Return the text with blanks in place of emoji and glyphs.

    Otherwise they would be part of the words next to them.
    """
    for sign, size in _SIGNS:
        first = sign[:1]  # Searching for one byte is much faster than for two.
        at = text.find(first)
        if at < 0:
            continue
        blank, out = b" " * size, bytearray(text)
        while at >= 0:
            if text.startswith(sign, at):
                # The length stays the same. The text has whole characters, so none is cut.
                out[at : at + size] = blank
            at = text.find(first, at + size)
        text = bytes(out)
    return text


@lru_cache(1024)
def mark(what: str, name: str) -> str:
    """Return the word that stands in the index for a kind, a tool or a state of an event.

    The tokenizer does not split it.
    """
    return "zq" + what + "".join(c if c.isalnum() else "9" for c in name.lower())


def camel_parts(text: bytes) -> list[bytes]:
    """Return the parts of all words like parseHttpUrl or HTTPServer2, each once, sorted."""
    return sorted({part for word in _mixed_words(text) for part in _parts_of(word)})


@lru_cache(100_000)  # Identifiers recur from segment to segment.
def _parts_of(word: bytes) -> tuple[bytes, ...]:
    return tuple(part for part in _PARTS.findall(word) if len(part) > 1)


def part_spans(word: bytes) -> list[tuple[int, int]]:
    """Return the spans of the parts that `camel_parts` finds in a word of letters and digits.

    A plain word has none.
    """
    if len(word) > MAX_IDENTIFIER_BYTES or not _BOUNDARY.search(word.translate(_CLASS)):
        return []
    return [match.span() for match in _PARTS.finditer(word) if len(match.group()) > 1]


def _mixed_words(text: bytes) -> set[bytes]:
    words: set[bytes] = set()
    classes = text.translate(_CLASS)
    rfind, add = classes.rfind, words.add
    for boundary in _BOUNDARY.finditer(classes):
        at, last = boundary.span()
        first = rfind(_OTHER, 0, at) + 1
        if last - first <= MAX_IDENTIFIER_BYTES:
            add(text[first:last])
    return words


def cjk_words(text: bytes) -> list[bytes]:
    """Return the words of all Chinese, Japanese and Korean runs in the text.

    They are the pairs of neighbouring characters, the last character of each run, and the words
    directly before and after a run.
    """
    pairs: list[bytes] = []
    others: set[bytes] = set()
    # Searching for the first byte of such characters is much faster than a pattern over the text.
    classes = text.translate(_CJK_CLASS)
    at = classes.find(1)
    while at >= 0:
        run = _CJK_BYTES.match(text, at)
        if run is None:  # The byte begins no character of these scripts.
            at = classes.find(1, at + 1)
            continue
        offset = run.start()
        for part in CJK.finditer(run.group().decode("utf-8", "replace")):
            first = offset + 3 * part.start()
            last = offset + 3 * part.end()
            pairs += [text[i : i + 6] for i in range(first, last - 3, 3)] or [text[first:last]]
            if last - first > 3:
                others.add(text[last - 3 : last])
            others.update(_adjacent_words(text, first, last))
        at = classes.find(1, run.end())
    return pairs + sorted(others)


def _adjacent_words(text: bytes, first: int, last: int) -> Iterator[bytes]:
    """Yield the words directly before and after a run of characters."""
    if first and 32 < text[first - 1] < 127:
        start = max(0, first - MAX_IDENTIFIER_BYTES)
        if before := _BEFORE_CJK.search(text, start, first):
            yield before.group()
    if after := _AFTER_CJK.match(text, last, last + MAX_IDENTIFIER_BYTES):
        yield after.group()


def cjk_pairs(text: str) -> list[bytes]:
    """Return the pairs of neighbouring characters in all runs that `CJK` matches, in order.

    A run of one character is returned as it is.
    """
    pairs: list[str] = []
    for run in CJK.findall(text):
        pairs += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
    return [pair.encode() for pair in pairs]
