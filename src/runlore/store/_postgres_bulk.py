"""Rows as PostgreSQL takes many of them: COPY in its binary format. Bytes need not be written as hex and read again, nor words as text.

Pure: knows types of columns, and neither a table nor psycopg, which a worker has no need of. What a column cannot hold is told here,
before anything is sent.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_size = struct.Struct(">i").pack
_count = struct.Struct(">h").pack

_FORMS = {type_: (struct.calcsize(sign), struct.Struct(f">i{sign}").pack) for type_, sign in ((20, "q"), (21, "h"), (23, "i"), (701, "d"))}
"""How wide, and how packed, are bigint, smallint, integer and double precision, by the number that PostgreSQL gives to a type. What has
another is text or bytes."""

PART_BYTES = 1024 * 1024
"""Of rows that are put together before they are sent: many small pieces take longer than what is in them."""


class Vector(bytes):
    """Words of a tsvector as the server sends and takes them."""


END = b"\0\0\0"
"""What stands behind a word in a vector: the end of its text, and that it has no positions."""


def vector(count: int, words: bytes) -> bytes:
    """So many words without positions, each with its `END`, as the server keeps them: those that are not in order it has to sort."""
    return _size(count) + words


def words_of(packed: bytes) -> list[bytes]:
    """The words of a vector."""
    return packed[4:].split(END)[:-1]


def pack_rows(rows: Iterable[Sequence[Any]], types: Sequence[int]) -> list[bytes]:
    """Rows of columns of these types, in parts. Raises OverflowError or UnicodeError for a value that its column cannot hold."""
    parts: list[bytes] = []
    made = [_HEAD]
    size = 0
    count, forms = _count(len(types)), [_FORMS.get(type_, (0, None)) for type_ in types]
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
            if size >= PART_BYTES:
                parts.append(b"".join(made))
                made, size = [], 0
    except struct.error as error:
        raise OverflowError(str(error)) from None
    parts.append(b"".join([*made, _END]))
    return parts
