"""Data too large for a log, as files in `outputs/` that are named by the hash of their content.

A file is written before the record that names it, so the file of a record is always there.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import LogError
from ...files.locks import O_BINARY, sync, sync_folder

FOLDER = "outputs"


class FolderBlobs:
    def __init__(self, folder: Path, durable: bool) -> None:
        self.folder = folder / FOLDER
        self._durable = durable

    def put(self, name: str, data: bytes) -> None:
        path = self.folder / name
        if not path.exists():
            try:
                self._write(path, data)
            except OSError as error:
                raise LogError(f"{path}: {error.strerror}; the output was not kept") from None

    def get(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise LogError(f"{self.folder / name}: {error.strerror}") from None

    def delete(self, name: str) -> None:
        try:
            (self.folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise LogError(f"{self.folder / name}: {error.strerror}") from None

    def _write(self, path: Path, raw: bytes) -> None:
        # A draft has no folder before its first record, which comes after the output.
        self.folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.parent.mkdir(mode=0o700, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        temporary = self.folder / f".{os.getpid()}.{os.urandom(4).hex()}"
        try:
            with open(
                os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_BINARY, 0o600), "wb"
            ) as file:
                file.write(raw)
                file.flush()
                if self._durable:
                    sync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        if self._durable:
            sync_folder(self.folder)
            sync_folder(self.folder.parent)
