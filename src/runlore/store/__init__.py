"""The store: where everything that was read is kept. `open_store(url)` picks the database.

`contracts.py` has what a store can be asked, in ten small parts; `values.py` and `filters.py` have the
values that it is given and returns. `pieces.py` turns events into rows and segments. The packages
`sqlite` and `postgres` are the two databases, and `sql` what they have in common.
"""

from __future__ import annotations

import os

from ..errors import StoreError, StoreMissing
from .contracts import Store
from .filters import CallFilter, CallSum, Filter
from .session_line import SessionLine
from .sqlite.store import SqliteStore
from .values import (
    DAMAGED,
    FORGOTTEN,
    STALE_COPIES,
    Batch,
    Billed,
    Counted,
    Delta,
    Kept,
    PriceRow,
    Put,
    Resume,
    Row,
    Segment,
    SegmentEvent,
    SourceState,
    StreamState,
    Tail,
    Taken,
)

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
    "STALE_COPIES",
    "Delta",
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
            from .postgres.store import PostgresStore
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
