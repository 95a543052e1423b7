"""Files of JSON lines that older programs left, read with everything that can go wrong in them.
Nothing here writes.

One bad line costs one line and is named with its offset. A line has any length. A line that was cut
off by a crash, and to which the next one was then glued, costs only itself: what follows it begins
with a word that the format always begins with.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..adapters import read_loosely
from ..errors import ReadError

MAX_GLUED = 64
"""How many records are looked for in one damaged line."""


class Problem(msgspec.Struct, frozen=True):
    """Something in an old file that could not be read, or not be believed: where it begins, and
    what it is."""

    offset: int
    reason: str


class Line(msgspec.Struct, frozen=True):
    """An object of a file, with where its line begins and its own bytes."""

    offset: int
    data: dict[str, Any]
    raw: bytes


def read_lines(file: Path, begins: bytes, problems: list[Problem]) -> Iterator[Line]:
    """The objects of a file. What is not one is added to the problems. Raises ReadError when the
    file cannot be read."""
    offset = 0
    try:
        with file.open("rb") as lines:
            for line in lines:
                yield from _objects(line, offset, begins, problems)
                offset += len(line)
    except OSError as error:
        raise ReadError(str(file), (error.strerror or str(error)).lower()) from error


def _objects(line: bytes, offset: int, begins: bytes, problems: list[Problem]) -> Iterator[Line]:
    text = line.strip(b" \t\r\n\0")  # A machine that lost its power leaves runs of NUL.
    if not text:
        return
    for part, value in _values(text, begins):
        if isinstance(value, dict):
            yield Line(offset, value, part)
        else:
            reason = (
                "cut off, or no JSON"
                if value is None
                else f"not an object: {part[:40].decode('utf-8', 'replace')}"
            )
            problems.append(Problem(offset, reason))


def _values(text: bytes, begins: bytes) -> Iterator[tuple[bytes, Any]]:
    """The values of a line; None for what is none."""
    try:
        yield text, msgspec.json.decode(text)
        return
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    found = read_loosely(text)  # Bad UTF-8, halves of surrogate pairs, two objects on one line.
    if found:
        yield from [
            (text if len(found) == 1 else repr(value).encode("utf-8", "replace"), value)
            for value in found
        ]
        return
    start = text.find(begins, 1)
    for _ in range(MAX_GLUED):
        if start < 0:
            break
        rest = read_loosely(text[start:])
        if rest:
            yield text[:start], None
            yield from _values(text[start:], begins)
            return
        start = text.find(begins, start + 1)
    yield text, None
