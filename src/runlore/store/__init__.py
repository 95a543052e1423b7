"""The store: a database with all sessions. `open_store(url)` picks the kind of database.

`contracts.py` and `upkeep.py` declare the ten small parts of a store. `values.py` and `filters.py`
have the values that it is given and returns. `rows.py` turns events into rows, `segments.py` packs
their bodies. The packages `sqlite` and `postgres` are the two databases, and `sql` is what they
have in common.
"""

from __future__ import annotations

import os
import re

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
    SessionPlace,
    SourceState,
    StreamState,
    Tail,
    TransferredSession,
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
    "TransferredSession",
    "open_for_reading",
    "open_store",
]


_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):(/{1,2})")
"""The beginning of an address. A drive of Windows has one letter."""


def open_store(url: str, *, read_only: bool = False, is_shared: bool = False) -> Store:
    """Open the store at a path or in a database server; create it if it is missing.

    Use `is_shared` for one of many readers in a process. In a database server they share a few
    connections, and each has one for the time of a snapshot. Raises StoreError, StoreTooNew.
    """
    _check_address(url)
    if is_server(url):
        try:
            from .postgres.store import PostgresStore
        except ImportError as error:  # Also raised by a psycopg that does not find its library.
            if not (error.name or "psycopg").startswith("psycopg"):
                raise
            raise _no_psycopg() from None
        return PostgresStore(url, read_only=read_only, is_shared=is_shared)
    return SqliteStore(url.removeprefix("sqlite://"), read_only=read_only)


def _check_address(url: str) -> None:
    """Raise StoreError for an address that is neither a path nor a database that we know."""
    match = _SCHEME.match(url)
    if match is None or is_server(url) or url.startswith("sqlite://"):
        return
    scheme, slashes = match.groups()
    # Without the rest, which may have a password.
    error = StoreError(
        f"{scheme}:// stores are not supported; give a path, or postgresql://USER@HOST/DATABASE"
        if slashes == "//"
        else f"{scheme}:{slashes}… is not the address of a store; give a path, or"
        " postgresql://USER@HOST/DATABASE"
    )
    error.hint = "correct RUNLORE_STORE, or `store` in config.toml"
    raise error


def _no_psycopg() -> StoreError:
    error = StoreError(
        "a store in PostgreSQL needs psycopg, which is not installed: install runlore again, in the"
        " way you did, with its extra `postgres` (in a checkout '.[postgres]' instead of '.')"
    )
    error.code, error.hint = "no_extra", "install runlore again with its extra `postgres`"
    return error


def is_server(url: str) -> bool:
    """Return True if the store is in a database server.

    Such a store is given the tokens of a segment in place of its texts (`takes_tokens`).
    """
    return url.startswith(("postgresql://", "postgres://"))


def open_for_reading(url: str, *, is_shared: bool = False) -> Store:
    """Open an existing store for reading.

    Raises StoreMissing, with what to do about it, if there is none yet.
    """
    _check_address(url)
    path = os.path.expanduser(url)
    if "://" not in url and not os.path.exists(path):
        raise StoreMissing(
            f"there is no store yet at {path}; run `runlore sync`, or `runlore demo` for one to"
            " look at"
        )
    return open_store(url, read_only=True, is_shared=is_shared)
