"""Rows as PostgreSQL takes many of them: COPY in its binary format. Bytes need not be written as hex and read again.

Pure: knows types of columns, and neither a table nor psycopg, which a worker has no need of. What a column cannot hold is told here,
before anything is sent.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

try:
    from .. import _speed
except ImportError:  # It was not compiled.
    _speed = None  # type: ignore[assignment]

HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TAIL = b"\xff\xff"
"""What comes before all rows of a COPY, and behind them."""
_NULL = b"\xff\xff\xff\xff"
_size = struct.Struct(">i").pack
_count = struct.Struct(">h").pack

_SIGNS = {20: "q", 21: "h", 23: "i", 701: "d"}
"""How bigint, smallint, integer and double precision are packed, by the number that PostgreSQL gives to a type. What has another is text
or bytes."""

_FORMS = {ord(sign): (struct.calcsize(sign), struct.Struct(f">i{sign}").pack) for sign in _SIGNS.values()}

PART_BYTES = 1024 * 1024
"""Of rows that are put together before they are sent: many small pieces take longer than what is in them."""


def pack_rows(rows: list[Sequence[Any]], types: Sequence[int]) -> list[bytes]:
    """Rows of columns of these types, in parts, without `HEAD` and `TAIL`. Raises OverflowError or UnicodeError for a value that its column
    cannot hold."""
    signs = "".join([_SIGNS.get(type_, "s") for type_ in types]).encode()
    return _pack(rows, signs, PART_BYTES)


def pack_in_python(rows: list[Sequence[Any]], signs: bytes, part_bytes: int) -> list[bytes]:
    parts: list[bytes] = []
    made: list[bytes] = []
    size = 0
    count, forms = _count(len(signs)), [_FORMS.get(sign, (0, None)) for sign in signs]
    try:
        for row in rows:
            made.append(count)
            for value, (width, number) in zip(row, forms, strict=True):
                if value is None:
                    made.append(_NULL)
                elif number is not None:
                    made.append(number(width, value))
                else:
                    data = value.encode() if isinstance(value, str) else value
                    size += len(data)
                    made += (_size(len(data)), data)
            if size >= part_bytes:
                parts.append(b"".join(made))
                made, size = [], 0
    except struct.error as error:
        raise OverflowError(str(error)) from None
    parts.append(b"".join(made))
    return parts


_pack = getattr(_speed, "pack_rows", pack_in_python)
"""The same, compiled it takes a tenth of the time."""
