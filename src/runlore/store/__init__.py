"""The store: a database with all sessions. `open_store(url)` picks the kind of database.

`contracts.py` and `upkeep.py` declare the ten small parts of a store. `values.py` and `filters.py`
have the values that it is given and returns. `rows.py` turns events into rows, `segments.py` packs
their bodies. The packages `sqlite` and `postgres` are the two databases, and `sql` is what they
have in common.
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
    LedgerCall,
    PriceRow,
    Put,
    Resume,
    Row,
    Segment,
    SegmentEvent,
    SessionCopy,
    SessionPlace,
    SourceState,
    StreamState,
    Tail,
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
    "LedgerCall",
    "STALE_COPIES",
    "Delta",
    "PriceRow",
    "Put",
    "Resume",
    "Row",
    "Segment",
    "SegmentEvent",
    "SessionLine",
    "SessionPlace",
    "SourceState",
    "Store",
    "StreamState",
    "Tail",
    "SessionCopy",
    "open_for_reading",
    "open_store",
]


def open_store(url: str, *, read_only: bool = False, is_shared: bool = False) -> Store:
    """Open the store at a path or in a database server; create it if it is missing.

    Use `is_shared` for one of many readers in a process. In a database server they share a few
    connections, and each has one for the time of a snapshot. Raises StoreError, StoreTooNew.
    """
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
    """Return True if the store is in a database server.

    Such a store is given the tokens of a segment in place of its texts (`takes_tokens`).
    """
    return url.startswith(("postgresql://", "postgres://"))


def open_for_reading(url: str, *, is_shared: bool = False) -> Store:
    """Open an existing store for reading.

    Raises StoreMissing, with what to do about it, if there is none yet.
    """
    if "://" not in url and not os.path.exists(os.path.expanduser(url)):
        raise StoreMissing(
            "there is no store yet; run `runlore sync`, or `runlore demo` for one to look at"
        )
    return open_store(url, read_only=True, is_shared=is_shared)
