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

from ...files.locks import O_BINARY
from ..backend import SavedView
from .log_reader import HEAD_BYTES, LogReader

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


class FolderSnapshots:
    """The snapshots of one log."""

    def __init__(self, folder: Path, reader: LogReader) -> None:
        self._folder = folder / FOLDER
        self._reader = reader

    def read(self, name: str) -> SavedView | None:
        """Return the snapshot; None if it is missing, empty, damaged, or of another log."""
        try:
            with (self._folder / name).open("rb") as file:
                snapshot = msgspec.msgpack.decode(file.read(MAX_BYTES), type=Snapshot)
        except (OSError, ValueError):
            return None
        if snapshot.check != crc32(snapshot.data) or not snapshot.head or snapshot.offset < 0:
            return None
        if self._reader.read(snapshot.offset, len(snapshot.head)) != snapshot.head:
            return None
        if snapshot.stamp is not None and snapshot.stamp == self._reader.stamp():
            self._reader.trust(0, snapshot.stamp[0])
        return SavedView(snapshot.seq, snapshot.offset, snapshot.data)

    def write(self, name: str, seq: int, data: bytes, folded: tuple[int, int] | None) -> None:
        place = self._reader.line_of(seq)
        if place is not None:
            offset, line = place
            stamp = self._stamp(*folded) if folded is not None else None
            snapshot = Snapshot(seq, offset, line[:HEAD_BYTES], crc32(data), data, stamp)
            self._replace(name, snapshot)

    def delete_all(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _stamp(self, start: int, end: int) -> tuple[int, int, int, int] | None:
        """Return the stamp of the log if all of it was read without problems."""
        # The folded lines were checked one by one, or written by this handle.
        if not self._reader.problems:
            self._reader.trust(start, end)
        stamp = self._reader.stamp()
        return stamp if stamp[0] == end and self._reader.is_sound(0, end) else None

    def _replace(self, name: str, snapshot: Snapshot) -> None:
        """Replace the snapshot as a whole. A failure costs only time later: it is no error."""
        temporary = self._folder / f"{name}.{os.getpid()}.{os.urandom(3).hex()}.tmp"
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_BINARY, 0o600)
            try:
                with open(fd, "wb") as file:
                    file.write(msgspec.msgpack.encode(snapshot))
                temporary.replace(self._folder / name)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
