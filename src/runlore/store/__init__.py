"""The store: where all that was read is kept. `open_store(url)` picks the database.

`contract.py` says what a database must answer, and has the values that it is given; `asked.py` has
the values of lists and reports. `sqlite.py` and `postgres.py` are the two databases.
"""

from __future__ import annotations

import os

from ..errors import StoreError, StoreMissing
from .asked import CallFilter, CallSum, Filter
from .contract import (
    DAMAGED,
    FORGOTTEN,
    OVERTAKEN,
    Batch,
    Billed,
    Counted,
    Kept,
    Piece,
    PriceRow,
    Put,
    Resume,
    Row,
    Segment,
    SegmentEvent,
    SessionLine,
    SourceState,
    Store,
    StreamState,
    Tail,
    Taken,
)
from .sqlite import SqliteStore

__all__ = [
    "Batch",
    "Billed",
    "CallFilter",
    "CallSum",
    "Counted",
    "DAMAGED",
    "FORGOTTEN",
    "Filter",
    "Kept",
    "OVERTAKEN",
    "Piece",
    "PriceRow",
    "Put",
    "Resume",
    "Row",
    "Segment",
    "SegmentEvent",
    "SessionLine",
    "SourceState",
    "Store",
    "StreamState",
    "Tail",
    "Taken",
    "open_for_reading",
    "open_store",
]


def open_store(url: str, *, read_only: bool = False, is_shared: bool = False) -> Store:
    """Opens the store at a path or in a database, making it when it is missing. One of many readers
    in a process `is_shared`: in a server they have few connections together, each for the time of a
    snapshot. Raises StoreError, StoreTooNew."""
    if is_server(url):
        try:
            from .postgres import PostgresStore
        except ModuleNotFoundError as error:
            if error.name and not error.name.startswith("psycopg"):
                raise
            raise StoreError(
                "a store in PostgreSQL needs psycopg: pip install 'runlore[postgres]'"
            ) from None
        return PostgresStore(url, read_only=read_only, is_shared=is_shared)
    if "://" in url and not url.startswith("sqlite://"):
        raise StoreError(
            f"{url.split('://')[0]}:// stores are not supported; give a path, or postgresql://…"
        )
    return SqliteStore(url.removeprefix("sqlite://"), read_only=read_only)


def is_server(url: str) -> bool:
    """Whether a store is in a server. One that is takes the words of a text, cut, in its place
    (`takes_cut_words`)."""
    return url.startswith(("postgresql://", "postgres://"))


def open_for_reading(url: str, *, is_shared: bool = False) -> Store:
    """The store that is there, for questions. Raises StoreMissing with what to do when there is
    none yet."""
    if "://" not in url and not os.path.exists(os.path.expanduser(url)):
        raise StoreMissing(
            "there is no store yet; run `runlore sync`, or `runlore demo` for one to look at"
        )
    return open_store(url, read_only=True, is_shared=is_shared)
