"""The text that the index is given: what was said, plus the parts of words that its tokenizer would not cut.

unicode61 splits at everything that is not a letter or a digit, so `parse_http` and `src/main.py` are found in parts. It
keeps `parseHttpUrl` whole, and takes a run of Chinese or Japanese for one word: for these, their parts and their pairs of
characters are appended. Only distinct words are looked at, and all scanning is done by bytes.translate and split, which
run at 100 MB/s where a regular expression over the text runs at 10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import filterfalse

LONGEST = 64
"""A longer run of letters and digits is not an identifier but data."""

_REMEMBERED = 100_000
"""Words whose parts are remembered: identifiers recur from segment to segment."""

_NOT_A_WORD = bytes(c if chr(c).isalnum() or c >= 0x80 else 0x20 for c in range(256))
_PARTS = re.compile(rb"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[\x80-\xff]+")
_CJK = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_NOT_CJK = bytes(c for c in range(256) if not (0xE3 <= c <= 0xED or c == 0xEF))
"""All bytes but those that a character of these scripts begins with in UTF-8: dashes and arrows are far more frequent."""

_parts: dict[bytes, tuple[bytes, ...]] = {}


def index_text(texts: list[bytes]) -> bytes:
    """The texts in UTF-8, one after another, and behind them the parts of their words."""
    text = b"\n".join(texts)
    more = camel_parts(text)
    if text.translate(None, _NOT_CJK):
        more += cjk_pairs(text.decode("utf-8", "replace"))
    return b"%b\n%b" % (text, b" ".join(more)) if more else text


def camel_parts(text: bytes) -> list[bytes]:
    """The parts of every word like parseHttpUrl or HTTPServer2 in the text, each once, sorted."""
    found: set[bytes] = set()
    words: Iterable[bytes] = set(text.translate(_NOT_A_WORD).split())
    for plain in (bytes.islower, bytes.istitle, bytes.isupper):
        words = filterfalse(plain, words)  # In C: nine words of ten need no look at all.
    for word in words:
        parts = _parts.get(word)
        if parts is None:
            if len(_parts) >= _REMEMBERED:
                _parts.clear()
            parts = _parts[word] = _cut(word)
        found.update(parts)
    return sorted(found)


def _cut(word: bytes) -> tuple[bytes, ...]:
    if len(word) > LONGEST:
        return ()
    parts = _PARTS.findall(word)
    return tuple(part for part in parts if len(part) > 1) if len(parts) > 1 else ()


def cjk_pairs(text: str) -> list[bytes]:
    """Every two neighbouring characters of each Chinese, Japanese or Korean run, in order."""
    pairs: list[str] = []
    for run in _CJK.findall(text):
        pairs += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
    return [pair.encode() for pair in pairs]
