"""Files of JSON lines that are only appended to, each record in one write.

A damaged line is skipped.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


def append_record(file: Path, record: msgspec.Struct, max_bytes: int) -> None:
    """Append a record in one write, so that several processes do not mix their lines.

    A file that has reached its maximum size takes no more.
    """
    descriptor = os.open(
        file, os.O_CREAT | os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600
    )
    try:
        if os.fstat(descriptor).st_size < max_bytes:
            os.write(descriptor, msgspec.json.encode(record) + b"\n")
    finally:
        os.close(descriptor)


def read_lines(file: Path, max_bytes: int) -> list[bytes]:
    """Return the lines in the last so many bytes, the first of which may be cut off.

    Returns nothing if the file is missing or cannot be read.
    """
    try:
        with open(file, "rb") as data:
            data.seek(max(0, data.seek(0, os.SEEK_END) - max_bytes))
            return data.read(max_bytes).split(b"\n")
    except OSError:
        return []


def decode_record(line: bytes, decoder: msgspec.json.Decoder[T]) -> T | None:
    """Return the record of a line; None if it is damaged."""
    try:
        return decoder.decode(line)
    except msgspec.MsgspecError:
        return None


def is_time(text: str) -> bool:
    """Return True for a time with an offset, which can be compared with others."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
