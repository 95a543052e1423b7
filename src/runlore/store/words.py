"""The text that the index is given: what was said, plus the parts of words that its tokenizer would
not cut.

unicode61 splits at everything that is not a letter or a digit, so `parse_http` and `src/main.py`
are found in parts. It keeps `parseHttpUrl` whole, and takes a run of Chinese or Japanese, and what
stands beside it without a space, for one word: for these, their parts and their pairs of characters
are appended. Such words are looked for in the text's classes of characters (`bytes.translate`): a
pattern that begins with one byte leaps from capital to capital, where one over the text itself
would stop at every letter.
"""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 64
"""A longer run of letters and digits is not an identifier but data."""

_OTHER, _LOWER, _UPPER = b"\0", b"\1", b"\2"
_CLASS = b"".join(
    _UPPER if 65 <= c <= 90 else _LOWER if 97 <= c <= 122 or 48 <= c <= 57 else _OTHER
    for c in range(256)
)
_BOUNDARY = re.compile(rb"\x02(?:(?<=\x01\x02)|\x02\x01)[\x01\x02]*+")
"""Of classes: the first inner beginning of a word, as in parseHttp and in HTTPServer, and all that
follows of it."""

_PARTS = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
CJK = re.compile(
    "[\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
"""A run of characters of the scripts that are written without spaces."""
_CJK_BYTES = re.compile(rb"(?:[\xe3-\xec\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf])+")
_CJK_CLASS = bytes(0xE3 <= c <= 0xED or c == 0xEF for c in range(256))
"""What a character of these scripts begins with in UTF-8: dashes and arrows are far more
frequent."""
_BEFORE_CJK = re.compile(rb"[!-~]+\Z")
_AFTER_CJK = re.compile(rb"[!-~]+")

_ESCAPE = re.compile(rb"\x1b\[[0-9;:?]*[A-Za-z]")
_SIGNS = ((b"\xf0\x9f", 4), (b"\xee", 3))
"""How emoji, and the glyphs of a prompt, begin in UTF-8, and how many bytes they are. To unicode61
the latter, and what is younger than its tables, are letters: of `done` with a smile behind it, it
makes a word that nobody looks for."""


def index_text(texts: list[bytes]) -> bytes:
    """The texts in UTF-8, one after another, and behind them the parts of their words."""
    text = blank_signs(blank_escapes(b"\n".join(texts)))
    more = camel_parts(text)
    if not text.isascii() and any(
        1 in body.translate(_CJK_CLASS) for body in texts if not body.isascii()
    ):
        more += cjk_words(text)
    return b"%b\n%b" % (text, b" ".join(more)) if more else text


def blank_escapes(text: bytes) -> bytes:
    """The text with blanks for the codes that colour a terminal, so that they are no part of the
    words behind them."""
    return _ESCAPE.sub(lambda match: b" " * len(match.group()), text) if b"\x1b" in text else text


def blank_signs(text: bytes) -> bytes:
    """The text with blanks for emoji and glyphs, so that they are no part of the words beside
    them."""
    for sign, size in _SIGNS:
        first = sign[:1]  # One byte is looked for forty times as fast as two.
        at = text.find(first)
        if at < 0:
            continue
        blank, out = b" " * size, bytearray(text)
        while at >= 0:
            if text.startswith(sign, at):
                out[at : at + size] = blank  # As many bytes: a body is made of whole characters.
            at = text.find(first, at + size)
        text = bytes(out)
    return text


@lru_cache(1024)
def mark(what: str, name: str) -> str:
    """The word that stands in the index for a kind, a tool or a state of an event. No tokenizer
    cuts it."""
    return "zq" + what + "".join(c if c.isalnum() else "9" for c in name.lower())


def camel_parts(text: bytes) -> list[bytes]:
    """Return the parts of every word like parseHttpUrl or HTTPServer2 in the text, each once,
    sorted."""
    return sorted({part for word in _mixed_words(text) for part in _parts_of(word)})


@lru_cache(100_000)  # Identifiers recur from segment to segment.
def _parts_of(word: bytes) -> tuple[bytes, ...]:
    return tuple(part for part in _PARTS.findall(word) if len(part) > 1)


def part_spans(word: bytes) -> list[tuple[int, int]]:
    """Where in a word of letters and digits the parts are that `camel_parts` finds; a plain word
    has none."""
    if len(word) > LONGEST or not _BOUNDARY.search(word.translate(_CLASS)):
        return []
    return [match.span() for match in _PARTS.finditer(word) if len(match.group()) > 1]


def _mixed_words(text: bytes) -> set[bytes]:
    words: set[bytes] = set()
    classes = text.translate(_CLASS)
    before, add = classes.rfind, words.add
    for boundary in _BOUNDARY.finditer(classes):
        at, last = boundary.span()
        first = before(_OTHER, 0, at) + 1
        if last - first <= LONGEST:
            add(text[first:last])
    return words


def cjk_words(text: bytes) -> list[bytes]:
    """The pairs, and what they do not hold: the last character of each run, and the words that
    stand beside one."""
    pairs: list[bytes] = []
    more: set[bytes] = set()
    # The runs are found among the first bytes of such characters: a pattern that looks through all
    # of the text takes ten times as long.
    classes = text.translate(_CJK_CLASS)
    at = classes.find(1)
    while at >= 0:
        run = _CJK_BYTES.match(text, at)
        if run is None:  # A byte that begins no character.
            at = classes.find(1, at + 1)
            continue
        offset = run.start()
        for part in CJK.finditer(run.group().decode("utf-8", "replace")):
            first = offset + 3 * part.start()
            last = offset + 3 * part.end()
            pairs += [text[i : i + 6] for i in range(first, last - 3, 3)] or [text[first:last]]
            if last - first > 3:
                more.add(text[last - 3 : last])
            if (
                first
                and 32 < text[first - 1] < 127
                and (before := _BEFORE_CJK.search(text, max(0, first - LONGEST), first))
            ):
                more.add(before.group())
            if after := _AFTER_CJK.match(text, last, last + LONGEST):
                more.add(after.group())
        at = classes.find(1, run.end())
    return pairs + sorted(more)


def cjk_pairs(text: str) -> list[bytes]:
    """Every two neighbouring characters of each Chinese, Japanese or Korean run, in order."""
    pairs: list[str] = []
    for run in CJK.findall(text):
        pairs += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
    return [pair.encode() for pair in pairs]
