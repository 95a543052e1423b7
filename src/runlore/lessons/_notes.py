"""A file of lines that is only appended to: what hooks, syncs and commands note, each in one write. What is damaged costs itself."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


def append(file: Path, note: msgspec.Struct, largest: int) -> None:
    """One write, so that several processes do not mix their lines. A file that has become as large takes no more."""
    place = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600)
    try:
        if os.fstat(place).st_size < largest:
            os.write(place, msgspec.json.encode(note) + b"\n")
    finally:
        os.close(place)


def lines(file: Path, most: int) -> list[bytes]:
    """Of the last so many bytes. The first of them may be cut off. None where there is no file, or none that can be read."""
    try:
        with open(file, "rb") as data:
            data.seek(max(0, data.seek(0, os.SEEK_END) - most))
            return data.read(most).split(b"\n")
    except OSError:
        return []


def decoded(line: bytes, decoder: msgspec.json.Decoder[T]) -> T | None:
    try:
        return decoder.decode(line)
    except msgspec.MsgspecError:
        return None


def is_time(text: str) -> bool:
    """Whether this is a time with an offset, which can be compared with others."""
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
