"""Answers that fit a budget of tokens: entries as far as they fit, fenced, in two forms, and a
cursor for the rest.

A client hands its model either the text or the structured form, so each has everything and each
keeps to the budget. Recorded text is only ever inside the fence; outside are numbers, times and
names (`fencing.is_name`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ...text.tokens import cut, tokens, tokens_of
from . import cursor as cursors
from .cursor import Place
from .fencing import fence, quoted

MIN_TOKENS, DEFAULT_TOKENS, MAX_TOKENS = 400, 2_000, 20_000
"""Tokens of an answer: fewer leave no room beside the fence, more are more than clients take."""

_MAX_CURSOR, _MAX_MARK = "A" * 40, "0" * 8
"""Placeholders of maximum length, to estimate an answer before it is built."""
_MIN_PART_TOKENS = 60
"""A part of a long text that has fewer tokens than this goes to the next page."""
_MAX_CHARS_PER_TOKEN = 5
"""Characters in a token at most, by `budget.tokens`."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found: a head and perhaps a long text, of which a page may have a part."""

    at: int
    head: str
    """Plain already."""
    key: str = ""
    """Its identity in a list that may change."""
    body: str = ""
    """The whole text as it was recorded."""
    offset: int = 0
    """The character of the body to begin at."""
    data: Any = None
    """Data outside the fence."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool. `pieces` are read one by one, as long as there is room."""

    name: str
    """The name of the list of data outside the fence."""
    pieces: Iterable[Entry]
    about: dict[str, Any] = {}
    """Numbers and names; nothing that was recorded."""
    hints: list[str] = []
    more: Place | None = None
    """The position after the last of the pieces, if there is more."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    data: dict[str, Any]


def fit(found: Result, question: Any, room: int) -> Answer:
    """The answer in at most so many tokens in either form."""
    hints = [cut(hint, room // 8) for hint in found.hints[:4]]
    while hints and _bare(found, hints) > room // 2:
        hints.pop()
    texts, items, place = _fill(found, room - _bare(found, hints))
    return _build(found, texts, items, hints, cursors.write(place, question) if place else "")


def _bare(found: Result, hints: list[str]) -> int:
    """Return the cost of the answer with nothing between its fences. In `tokens` the parts of a
    text never cost less than the whole."""
    return size(_build(found, [" "], [], hints, _MAX_CURSOR, _MAX_MARK))


def _fill(found: Result, room: int) -> tuple[list[str], list[Any], Place | None]:
    """Return the texts that fit, their data outside the fence, and the position of the rest."""
    texts: list[str] = []
    items: list[Any] = []
    last = 0
    for piece in found.pieces:
        rest = len(piece.body) - piece.offset
        cost = tokens_of(piece.head) + 1 + (0 if piece.data is None else tokens_of(piece.data) + 1)
        length = part(piece.body, piece.offset, room - cost) if rest > 0 else 0
        is_scrap = length < rest and (
            length == 0 or (bool(texts) and room - cost < _MIN_PART_TOKENS)
        )
        if cost > room or is_scrap:
            if texts:
                return texts, items, Place(piece.at, piece.offset, last)
            # Not even one fits: what it is called must do, and the next page begins behind it.
            return (
                [cut(piece.head, max(8, room - 4))],
                [],
                Place(piece.at + 1, 0, cursors.hash_of(piece.key)),
            )
        shown = quoted(piece.body[piece.offset : piece.offset + length])
        texts.append(f"{piece.head}\n{shown}" if shown else piece.head)
        items += [] if piece.data is None else [piece.data]
        if length < rest:
            return texts, items, Place(piece.at, piece.offset + length, last)
        room -= cost + tokens_of(shown)
        last = cursors.hash_of(piece.key)
    return texts, items, found.more and Place(found.more.at, found.more.offset, last)


def part(body: str, offset: int, room: int) -> int:
    """Return how many characters of the body fit, from this offset on. Ends at a line break if
    there is one in the second half."""
    length = min(len(body) - offset, max(0, room) * _MAX_CHARS_PER_TOKEN)
    while length and tokens_of(quoted(body[offset : offset + length])) > room:
        length = length * 4 // 5
    if offset + length < len(body):
        end = body.rfind("\n", offset + length // 2, offset + length) + 1
        length = end - offset if end > 0 else length
    return length


def _build(
    found: Result, texts: list[str], items: list[Any], hints: list[str], cursor: str, mark: str = ""
) -> Answer:
    data: dict[str, Any] = {**found.about}
    lines = [
        ", ".join(f"{name}: {value}" for name, value in found.about.items() if value is not None)
    ]
    if texts:
        notice, fenced = fence("\n".join(texts), mark)
        data |= {"notice": notice, "recorded": fenced}
        lines += [notice, fenced]
    if items or not texts:
        data[found.name] = items
    if not texts:
        lines.append(f"no {found.name}")
    if hints:
        data["hints"] = hints
        lines += [f"hint: {hint}" for hint in hints]
    if cursor:
        data.update(cursor=cursor)
        lines.append(f"there is more: ask the same with cursor {cursor}")
    return Answer(text="\n".join(line for line in lines if line), data=data)


def size(answer: Answer) -> int:
    """Return the tokens of the larger of the two forms."""
    return max(tokens(answer.text), tokens_of(answer.data))
