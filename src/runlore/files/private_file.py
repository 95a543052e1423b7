"""A new file for its owner alone, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def write_private_file(file: Path, texts: Iterable[str]) -> int:
    """Write a file that only this user can read, and return its size in bytes.

    It is written under a temporary name in the same folder and then renamed, so an existing file is
    replaced at once, and stays as it is if something fails. A link is followed. Raises OSError.
    """
    target = os.path.realpath(file)
    handle, temporary = tempfile.mkstemp(prefix=".runlore-", dir=os.path.dirname(target))
    try:
        with open(handle, "wb") as new:
            for text in texts:
                new.write(text.encode("utf-8", "replace"))
            new.flush()
            os.fsync(new.fileno())
            size = new.tell()
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return size
