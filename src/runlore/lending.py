"""Open stores, kept for the next question: to open one takes a millisecond, and to warm it up
more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from . import config
from .config import Config
from .errors import RunloreError
from .store import Store, open_for_reading

MOST = 4
"""Questions that are answered at the same time, each with a store of its own."""


class Stores:
    """Lends stores for reading. A store that was replaced by another file, or that failed in an
    unknown way, is not lent again."""

    def __init__(self) -> None:
        self._idle: list[tuple[object, Store]] = []

    @contextmanager
    def lend(self) -> Iterator[tuple[Store, Config]]:
        """A store as it is at one moment, whatever is written to it meanwhile. Raises StoreError
        when there is none."""
        setting = config.load()
        identity = _identity(setting.store)
        store = self._take(identity) or open_for_reading(setting.store, is_shared=True)
        is_sound = False
        try:
            with store.snapshot():
                yield store, setting
            is_sound = True
        except RunloreError:
            is_sound = True
            raise
        finally:
            if is_sound and len(self._idle) < MOST:
                self._idle.append((identity, store))
            else:
                store.close()

    def _take(self, identity: object) -> Store | None:
        for known, store in self._taken():
            if known == identity:
                return store
            store.close()
        return None

    def _taken(self) -> Iterator[tuple[object, Store]]:
        """The idle ones, until there are none: several threads take them, so that to look first
        would not tell."""
        with suppress(IndexError):
            while True:
                yield self._idle.pop()

    def close(self) -> None:
        for _, store in self._taken():
            store.close()


def _identity(url: str) -> object:
    """Of a file also which one it is: another may have been put in its place."""
    try:
        found = os.stat(os.path.expanduser(url))
    except (OSError, ValueError):  # A URL of a server.
        return url
    return url, found.st_dev, found.st_ino
