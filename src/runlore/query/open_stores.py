"""Open stores, kept for the next question of a face that stays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .. import config
from ..config import Config
from ..errors import RunloreError
from ..store import Store, open_for_reading

MAX_OPEN = 4
"""Questions that are answered at the same time, each with a store of its own."""


class Stores:
    """Stores for reading, opened when they are needed and used again.

    A store that was replaced by another file, that failed in an unknown way, or that keeps others
    out, is closed.
    """

    def __init__(self) -> None:
        self._idle: list[tuple[object, Store]] = []

    @contextmanager
    def lend(self) -> Iterator[tuple[Store, Config]]:
        """Give a store as it is at one moment, and the configuration.

        Raises StoreError when there is no store.
        """
        setting = config.load()
        identity = _identity(setting.store)
        store = self._pop(identity) or open_for_reading(setting.store, is_shared=True)
        is_sound = False
        try:
            with store.snapshot():
                yield store, setting
            is_sound = True
        except RunloreError:
            is_sound = True
            raise
        finally:
            if is_sound and not store.is_alone and len(self._idle) < MAX_OPEN:
                self._idle.append((identity, store))
            else:
                store.close()

    def close(self) -> None:
        """Close all stores that are not in use."""
        for _, store in self._pop_all():
            store.close()

    def _pop(self, identity: object) -> Store | None:
        """Take out an idle store of this identity. Stores of another one are closed."""
        for known, store in self._pop_all():
            if known == identity:
                return store
            store.close()
        return None

    def _pop_all(self) -> Iterator[tuple[object, Store]]:
        """Take out idle stores until there are none.

        Several threads do so at the same time, so a look at the length would not help.
        """
        with suppress(IndexError):
            while True:
                yield self._idle.pop()


def _identity(url: str) -> object:
    """Return what tells one store from another: for a file also its inode."""
    try:
        stat = os.stat(os.path.expanduser(url))
    except (OSError, ValueError):  # A URL of a server.
        return url
    return url, stat.st_dev, stat.st_ino
