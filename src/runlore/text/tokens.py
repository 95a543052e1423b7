"""Answers that fit into a number of tokens: whole items are left off at the end, and long texts are
cut with a mark, so that a reader knows what is missing.

Pure; nothing here knows a command or a tokenizer. `tokens` is an estimate on the high side: for
98.8 % of 2,217 excerpts of real transcripts two common tokenizers made fewer tokens (two thirds in
the median), and never more than 1.15 times as many.
"""

from __future__ import annotations

import string
from typing import Any

import msgspec

from .clean import safe_json

MAX_DEPTH = 24
"""Values nested deeper are left off, if the whole does not fit."""

MAX_KEY = 200
MAX_NAME = 100

_LOWER, _SPACE, _SINGLE = (
    string.ascii_lowercase.encode(),
    b" \t\r\n",
    (string.ascii_uppercase + string.digits).encode(),
)
_MAX_CHARS = 5  # Characters in a token at most, by the estimate for spaces.


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """A value that fits: the items of its list that are shown and left off, and the number of texts
    and other lists that were cut."""

    value: Any
    shown: int = 0
    left: int = 0
    texts: int = 0
    lists: int = 0

    @property
    def is_whole(self) -> bool:
        return not (self.left or self.texts or self.lists)


def tokens(text: str | bytes) -> int:
    """Return the largest number of tokens that a model is likely to make of a text.

    Small letters share a token; capitals and digits, as in ids and hashes, do not.
    """
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    size = len(data)
    lower, space, single = (
        size - len(data.translate(None, chars)) for chars in (_LOWER, _SPACE, _SINGLE)
    )
    # Signs; and the bytes of other scripts, of which a character has two to four.
    rest = size - lower - space - single
    return -(-(20 * lower + 12 * space + 60 * single + 45 * rest) // 60)


def tokens_of(value: Any) -> int:
    """Return the tokens of a value as JSON, with control characters escaped."""
    return tokens(safe_json(msgspec.json.encode(value)))


def cut(text: str, room: int) -> str:
    """Return as much of a text as fits into `room` tokens, with a mark of how much is missing."""
    if len(text) <= room * _MAX_CHARS and tokens(text) <= room:
        return text
    low, high = 0, min(len(text), room * _MAX_CHARS)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(_marked(text, middle)) <= room else (low, middle - 1)
    return _marked(text, low)


def _marked(text: str, length: int) -> str:
    return f"{text[:length]}… [{len(text) - length} more characters]"


def fit(value: Any, room: int, items: str | None = None) -> Fitted:
    """Return a decoded JSON value that takes at most `room` tokens as JSON.

    `items` names its list, from the end of which whole items may be left off; "" if the value is
    the list. The value stays whole if it fits. Otherwise its texts are cut to a quarter of the
    room, to an eighth and so on, until one item fits. If none does, the list is empty; if the rest
    does not fit either, the value is null.
    """
    listed = _list_of(value, items)
    if tokens_of(value) <= room:
        return Fitted(value=value, shown=len(listed))
    head = _with_items(value, items, [])
    limit = room // 4
    while limit >= 4:
        if fitted := _fit_cut(head, listed, items, room, _Cutter(limit)):
            return fitted
        limit //= 2
    for cutter in (_Cutter(room), _Cutter(4)) if listed else ():
        if tokens_of(short := cutter(head)) <= room:
            return Fitted(value=short, left=len(listed), texts=cutter.texts, lists=cutter.lists)
    return Fitted(value=None, left=len(listed), lists=1)


def _fit_cut(
    head: Any, listed: list[Any], items: str | None, room: int, cutter: _Cutter
) -> Fitted | None:
    """Return the value, cut by this cutter, with the items that fit; None if none fits."""
    short = cutter(head)
    left = room - tokens_of(short)
    if left < 0:
        return None
    fitting: list[Any] = []
    texts, lists = cutter.texts, cutter.lists
    for item in listed:
        item = cutter(item)
        left -= tokens_of(item) + 1
        if left < 0:
            break
        fitting.append(item)
        texts, lists = cutter.texts, cutter.lists
    if listed and not fitting:
        return None
    return Fitted(
        value=_with_items(short, items, fitting),
        shown=len(fitting),
        left=len(listed) - len(fitting),
        texts=texts,
        lists=lists,
    )


def _with_items(value: Any, items: str | None, new: list[Any]) -> Any:
    """Return the value with another list of items."""
    if items is None:
        return value
    return {**value, items: new} if items else new


def _list_of(value: Any, items: str | None) -> list[Any]:
    listed = None if items is None else value if items == "" else value.get(items)
    return listed if isinstance(listed, list) else []


def _is_name(text: str) -> bool:
    """Return True for an id, a path or the like, a part of which would be of no use."""
    return len(text) <= MAX_NAME and text.isascii() and text.isprintable() and " " not in text


class _Cutter:
    """Cuts the texts of a value to `limit` tokens and its lists to `limit` entries, and counts."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.texts = self.lists = 0

    def __call__(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, str):
            short = value if _is_name(value) else cut(value, self.limit)
            self.texts += short is not value
            return short
        if not isinstance(value, (dict, list)):
            return value
        if depth >= MAX_DEPTH:
            self.lists += bool(value)
            return type(value)()
        if isinstance(value, list):
            self.lists += len(value) > self.limit
            return [self(one, depth + 1) for one in value[: self.limit]]
        return {
            key if len(key) <= MAX_KEY else cut(key, MAX_KEY // 4): self(one, depth + 1)
            for key, one in value.items()
        }
