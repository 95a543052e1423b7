"""The SQL that both databases speak, and where they do not, what each has to say for itself.

Statements have `?` and `?1` for values, `x''` for bytes, `insert or ignore`, and `carray(?)` for a
table of numbers, given as `ids()` makes it. Knows no table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

NUL = "\N{SYMBOL FOR NULL}"
"""Stands for a NUL, which no text of PostgreSQL can hold."""


class Connection(Protocol):
    """What the stores need of `apsw.Connection`, and PostgreSQL's has as well."""

    def execute(self, sql: str, bindings: Any = ..., /) -> Any:
        """Runs a statement; what comes back has `fetchone` and `fetchall`."""

    def executemany(self, sql: str, rows: Any, /) -> Any:
        """Runs a statement for each row."""

    def changes(self) -> int:
        """How many rows the last statement changed."""

    @property
    def in_transaction(self) -> bool:
        """Whether one was begun."""


class Speaker(ABC):
    """A database that can be asked. What every part of a store begins with."""

    url: str
    instr: ClassVar[str]
    """The function that says where a text has another, 0 when nowhere."""
    has_bytes: ClassVar[str]
    """Whether bytes have some others in them, which are given: an expression with {} for the
    former."""
    epoch_of: ClassVar[str]
    """Seconds since 1970 of a time in ISO 8601, as a whole number: an expression with {} for it."""

    db: Connection

    @abstractmethod
    def ids(self, numbers: Iterable[int]) -> Any:
        """What `carray(?)` is given: at least one number."""

    @abstractmethod
    def glob(self, column: str, pattern: str, *, is_part: bool = False) -> tuple[str, str]:
        """A test of a column by a glob, and what it is given. One without signs means the whole
        text, or with `is_part` a part of it."""

    def _one(self, sql: str, bindings: Sequence[Any] = ()) -> Any:
        return self.db.execute(sql, bindings).fetchone()

    def _all(self, sql: str, bindings: Sequence[Any] = ()) -> list[Any]:
        rows: list[Any] = self.db.execute(sql, bindings).fetchall()
        return rows

    def _insert(self, into: str, rows: Sequence[Sequence[Any]]) -> None:
        """Inserts rows; `into` is the statement up to `values`, and says what becomes of one that
        is there already."""
        if rows:
            self.db.executemany(values_for(into, len(rows[0])), rows)


def values_for(into: str, width: int, rows: int = 1) -> str:
    """The statement for so many rows."""
    row = f"(?{', ?' * (width - 1)})"
    return f"{into} values {', '.join([row] * rows)}"


def plain(text: str | None) -> str | None:
    """The text as a column of any database can hold it."""
    return without_nul(text) if text else text


def without_nul(text: str) -> str:
    return text.replace("\0", NUL) if "\0" in text else text


def migrations(folder: Path) -> list[tuple[int, str]]:
    """The numbered steps from nothing to the present format."""
    files = sorted(folder.glob("[0-9]*.sql"))
    return [(int(file.name[:4]), file.read_text(encoding="utf-8")) for file in files]
