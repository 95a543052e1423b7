"""Reader of JSON lines that older programs left, damage included. Nothing here writes.

A bad line costs only itself and is reported with its offset. A line may have any length. If a crash
cut off a line and the next one was joined to it, the second is recovered: it begins with bytes that
the format always begins with.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ...adapters import read_loosely
from ...errors import ReadError

MAX_GLUED = 64
"""Maximum number of records that are searched in one damaged line."""


class Problem(msgspec.Struct, frozen=True):
    """Part of an old file that could not be read or is not plausible."""

    offset: int
    reason: str


class Line(msgspec.Struct, frozen=True):
    """An object of a file, with the offset of its line and its bytes."""

    offset: int
    data: dict[str, Any]
    raw: bytes


def read_lines(file: Path, begins: bytes, problems: list[Problem]) -> Iterator[Line]:
    """Yield the objects of a file, and add other lines to the problems. Raises ReadError."""
    offset = 0
    try:
        with file.open("rb") as lines:
            for line in lines:
                yield from _objects(line, offset, begins, problems)
                offset += len(line)
    except OSError as error:
        raise ReadError(str(file), (error.strerror or str(error)).lower()) from error


def _objects(line: bytes, offset: int, begins: bytes, problems: list[Problem]) -> Iterator[Line]:
    text = line.strip(b" \t\r\n\0")  # A power failure leaves runs of NUL.
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
    """Yield the values of a line; None for an invalid part."""
    try:
        yield text, msgspec.json.decode(text)
        return
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    values = read_loosely(text)  # Bad UTF-8, lone surrogates, two objects on one line.
    if values:
        yield from [
            (text if len(values) == 1 else repr(value).encode("utf-8", "replace"), value)
            for value in values
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
