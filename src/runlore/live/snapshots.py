"""Snapshots of views: small files beside the log. Each can be deleted at any time.

A snapshot names the line of the log it was taken at, and is valid only while that line is there. A
log that lost its end to a power cut, or was replaced, is folded again.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import msgspec

from ..files.locks import O_BINARY
from .log_reader import LogReader

FOLDER = "snapshots"
MAX_BYTES = 1 << 28


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """A view as of a record, with the offset and the first bytes of that record's line.

    `stamp` is that of the log if all of it had been read without problems, else None.
    """

    seq: int
    offset: int
    head: bytes
    check: int
    data: bytes
    stamp: tuple[int, int, int, int] | None = None


def read(folder: Path, name: str, reader: LogReader) -> Snapshot | None:
    """Return the snapshot; None if it is missing, empty, damaged, or of another log."""
    try:
        with (folder / FOLDER / name).open("rb") as file:
            snapshot = msgspec.msgpack.decode(file.read(MAX_BYTES), type=Snapshot)
    except (OSError, ValueError):
        return None
    if snapshot.check != crc32(snapshot.data) or not snapshot.head or snapshot.offset < 0:
        return None
    return snapshot if reader.read(snapshot.offset, len(snapshot.head)) == snapshot.head else None


def write(folder: Path, name: str, snapshot: Snapshot) -> None:
    """Replace the snapshot as a whole. A failure costs only time later, so it is not an error."""
    place = folder / FOLDER
    temporary = place / f"{name}.{os.getpid()}.{os.urandom(3).hex()}.tmp"
    with suppress(OSError):
        place.mkdir(mode=0o700, exist_ok=True)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_BINARY, 0o600)
        try:
            with open(fd, "wb") as file:
                file.write(msgspec.msgpack.encode(snapshot))
            temporary.replace(place / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def delete_all(folder: Path) -> None:
    """Delete the snapshots of a session."""
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
