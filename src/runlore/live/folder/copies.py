"""Parts of a copy of a session, which is made in its own folder and moved in as a whole."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ...files.locks import O_BINARY, sync, sync_folder
from ...model import LogRecord
from .. import codec
from .log_reader import LOG

ABANDONED_AFTER_S = 3600.0
"""A copy in progress that is older was left by a dead process."""


def remove_abandoned(place: Path) -> None:
    """Remove what killed processes left of their copies."""
    for folder in place.iterdir():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > ABANDONED_AFTER_S:
                shutil.rmtree(folder, ignore_errors=True)


def write_log(folder: Path, records: Iterable[LogRecord], is_durable: bool) -> None:
    with open(
        os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_BINARY, 0o600), "wb"
    ) as file:
        line = bytearray()
        for record in records:
            codec.encode([record], line)
            file.write(line)
        file.flush()
        if is_durable:
            sync(file.fileno())
            sync_folder(folder)


def link_blobs(source: Path, target: Path, is_durable: bool) -> None:
    if not source.is_dir():
        return
    target.mkdir(mode=0o700)
    for path in source.iterdir():
        if not path.name.startswith("."):
            try:
                os.link(path, target / path.name)
            except OSError:  # Another disk, or one without links.
                shutil.copy2(path, target / path.name)
    if is_durable:
        sync_folder(target)
        sync_folder(target.parent)
