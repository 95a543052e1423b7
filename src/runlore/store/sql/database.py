"""The database as the parts of a store use it: statements, transactions, and a dialect.

Statements are written once for both databases. They have `?` and `?1` for values, `x''` for bytes,
`insert or ignore`, and `carray(?)` for a table of numbers, given as `ids()` returns it. Knows no
table.
"""

from __future__ import annotations

import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

NUL = "\N{SYMBOL FOR NULL}"
"""The sign that replaces a NUL, which no text of PostgreSQL can hold."""

Test = tuple[str, tuple[Any, ...]]
"""A condition in SQL, and its values."""
Question = tuple[str, Sequence[Any]]
"""A statement and its values."""


class Connection(Protocol):
    """The methods that `apsw.Connection` and PostgreSQL's connection have in common."""

    def execute(self, sql: str, bindings: Any = ..., /) -> Any:
        """Run a statement and return a cursor with `fetchone` and `fetchall`."""

    def executemany(self, sql: str, rows: Any, /) -> Any:
        """Run a statement for each row."""

    def changes(self) -> int:
        """Return how many rows the last statement changed."""

    @property
    def in_transaction(self) -> bool:
        """True if a transaction is open."""


class Pending(Protocol):
    """A part of a store that collects changes in a transaction and writes them at its end."""

    def flush(self) -> None:
        """Write what was collected."""

    def clear(self) -> None:
        """Drop what was collected, and what was remembered of the transaction."""


class Database(ABC):
    """A connection, its transactions, and what differs between the two dialects."""

    instr: ClassVar[str]
    """The function that returns the position of a text in another, 0 if it is not there."""
    has_bytes: ClassVar[str]
    """An expression that is true if bytes, in place of {}, contain a value."""
    epoch_of: ClassVar[str]
    """An expression for the seconds since 1970 of a time in ISO 8601, in place of {}."""
    source_key: ClassVar[tuple[str, ...]] = ("agent", "path")
    """The columns that identify a source."""
    source_columns: ClassVar[tuple[str, ...]] = ()
    """Columns of a source that only this database has."""
    may_replace_call: ClassVar[str] = ""
    """The condition under which another call may replace a stored one."""

    url: str
    machine: str | None = None
    is_alone = False
    """True if no other connection can be opened as long as this one is open."""
    connection: Connection

    def __init__(self) -> None:
        self.pending: list[Pending] = []

    # ── statements ────────────────────────────────────────────────────────────────────────────────
    def execute(self, sql: str, bindings: Any = ()) -> Any:
        return self.connection.execute(sql, bindings)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self.connection.executemany(sql, rows)

    def one(self, sql: str, bindings: Sequence[Any] = ()) -> Any:
        """Return the first row of the answer, or None."""
        return self.connection.execute(sql, bindings).fetchone()

    def all(self, sql: str, bindings: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of the answer."""
        rows: list[Any] = self.connection.execute(sql, bindings).fetchall()
        return rows

    def insert(self, into: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert rows. `into` is the statement up to `values`."""
        if rows:
            self.connection.executemany(values_for(into, len(rows[0])), rows)

    def changes(self) -> int:
        return self.connection.changes()

    @property
    def in_transaction(self) -> bool:
        return self.connection.in_transaction

    @abstractmethod
    def ids(self, numbers: Iterable[int]) -> Any:
        """Return numbers, at least one, as `carray(?)` takes them."""

    @abstractmethod
    def among(self, column: str, texts: Iterable[str]) -> tuple[str, Any]:
        """Return a test that a column is one of these texts, at least one, and its value."""

    @abstractmethod
    def answer(self, questions: Sequence[Question]) -> list[list[Any]]:
        """Return the rows of each question; what was written before is among them."""

    def storable(self, row: Iterable[Any]) -> list[Any]:
        """Return the values as columns can hold them."""
        return list(row)

    @abstractmethod
    def glob(self, column: str, pattern: str, *, is_part: bool = False) -> tuple[str, str]:
        """Return a test of a column by a glob, and its value.

        A pattern without wildcards means the whole text, or with `is_part` a part of it.
        """

    @abstractmethod
    def session_columns(self) -> list[str]:
        """Return the columns of table `sessions`, in their order."""

    @abstractmethod
    def file_bytes(self) -> int:
        """Return the size of the store."""

    @property
    def own_machine(self) -> str:
        """The name of this machine, on which sessions without a machine were run."""
        return os.environ.get("RUNLORE_MACHINE") or platform.node() or "unknown"

    @property
    def own_author(self) -> str | None:
        """The author of sessions that are written here: in a file all are one person's."""
        return None

    # ── whose sources and sessions ────────────────────────────────────────────────────────────────
    @property
    def own_sources(self) -> Test:
        """The test for sources that this machine reads: in a file all of them."""
        return "1 = 1", ()

    @property
    def own_sessions(self) -> Test:
        """The test for sessions of this author: in a file all of them."""
        return "1 = 1", ()

    @property
    def source_values(self) -> dict[str, str]:
        """The values of `source_columns` for sources that this machine reads."""
        return {}

    @property
    def session_values(self) -> dict[str, str]:
        """The columns of a new session that only this database has."""
        return {}

    # ── transactions ──────────────────────────────────────────────────────────────────────────────
    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Open a transaction, or go on in the one that is open."""

    def lock_for_writing(self) -> None:
        """Lock out other writers until the transaction ends. In a file, a transaction does so."""
        return

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Open a transaction, and lock out other writers."""
        with self.transaction():
            self.lock_for_writing()
            yield

    @contextmanager
    def step(self) -> Iterator[None]:
        """Open a part of a transaction that may fail alone; earlier changes stay."""
        with self.writing():
            self.flush()
            self.execute("savepoint step")
            try:
                yield
            except BaseException:
                self.clear()
                if self.in_transaction:
                    self.execute("rollback to step")
                raise
            finally:
                if self.in_transaction:
                    self.execute("release step")

    def flush(self) -> None:
        """Write what the parts of the store have collected."""
        for part in self.pending:
            part.flush()

    def clear(self) -> None:
        """Drop what the parts of the store have collected."""
        for part in self.pending:
            part.clear()

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Read everything inside as of one moment."""

    @abstractmethod
    def sync_lock(self) -> AbstractContextManager[None]:
        """Hold the lock of the one sync that may run. Raises StoreBusy."""

    @abstractmethod
    def translate_errors(self) -> AbstractContextManager[None]:
        """Raise what the database raises as a StoreError."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""


def values_for(into: str, width: int) -> str:
    """Return the insert statement for a row of so many values."""
    return f"{into} values (?{', ?' * (width - 1)})"


def plain(text: str | None) -> str | None:
    """Return the text as a column of any database can hold it."""
    return without_nul(text) if text else text


def without_nul(text: str) -> str:
    """Return the text with a visible sign for each NUL."""
    return text.replace("\0", NUL) if "\0" in text else text


def migrations(folder: Path) -> list[tuple[int, str]]:
    """Return the numbered steps from nothing to the present format."""
    files = sorted(folder.glob("[0-9]*.sql"))
    return [(int(file.name[:4]), file.read_text(encoding="utf-8")) for file in files]
