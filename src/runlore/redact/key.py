"""The store's own key for the hashes in redaction markers. In a module of its own, because
`redact` takes longer to import than the key takes to create."""

import os
from pathlib import Path

from runlore.errors import ConfigError


def load_key(path: Path) -> bytes:
    """Return the store's key: 32 random bytes at `path`, created for its owner alone if missing."""
    try:
        return _read_key(path)
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    with open(
        os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600),
        "wb",
    ) as file:
        file.write(os.urandom(32))
        file.flush()
        os.fsync(file.fileno())
    try:
        _put_new(made, path)
    except FileExistsError:
        pass  # Another process was first; its key is the one to use.
    finally:
        made.unlink(missing_ok=True)
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) != 32:
        raise ConfigError(
            f"{path}: the redaction key is damaged (expected 32 bytes, found {len(key)}); delete it"
            " to get a new one"
        )
    return key


def _put_new(made: Path, path: Path) -> None:
    """Gives the finished file its name, never over an existing one: a reader sees a whole key or
    none."""
    try:
        os.link(made, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links. Windows refuses to rename onto an existing file;
        # elsewhere the last one wins.
        made.rename(path)
