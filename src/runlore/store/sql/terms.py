"""Values that many calls have in common, stored once under a number: models and tariffs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..cleaning import Cleaner
from .database import Database, plain

MODEL = ("provider", "model", "tier", "region")

TARIFF = (
    "basis",
    "price_source",
    "price_since",
    "price_match",
    "price_name",
    "price_above",
    "price_notes",
)

_HIGHEST = ()
"""Has the highest number of a table, whatever its sign, among its numbers by values."""


class Terms:
    """Numbers models and tariffs."""

    def __init__(self, db: Database, changed: set[int]) -> None:
        self.db = db
        self.changed = changed
        """Sessions whose rollups must be made again."""
        self.known: dict[str, dict[tuple[Any, ...], int]] = {}
        """Numbers by table and values, valid in the open transaction: another process may drop some after it."""

    def model(self, values: Iterable[Any]) -> int:
        return self._number_in("models", MODEL, tuple(values))

    def tariff(self, values: Iterable[Any]) -> int | None:
        """None for a call without a price. Below zero where a newer list of prices may know better:
        there is an index of these."""
        given = tuple(values)
        basis, match = given[0], given[3]
        if basis is None:
            return None
        return self._number_in(
            "tariffs", TARIFF, given, sign=-1 if match != "exact" and basis != "invoiced" else 1
        )

    def drop_unused_models(self) -> None:
        """Drops those that no call has any more. What they are called is told by transcripts, as
        anything else in them."""
        self.known.clear()
        self.db.execute("delete from models where number not in (select made_by from calls)")

    def redact_models(self, source: int, cleaner: Cleaner) -> int:
        """Those of the calls of a source's sessions; gives back in how many there was something to
        take out."""
        changes = []
        used = (
            "select made_by from calls where session in (select session from streams where source"
            " = ?)"
        )
        for number, *words in self.db.all(
            f"select number, {', '.join(MODEL)} from models where number in ({used})", (source,)
        ):
            clean = [word and cleaner.text(word) for word in words]
            if clean != words:
                changes.append((*clean, number))
                self.changed.update(
                    session
                    for (session,) in self.db.all(
                        "select distinct session from calls where made_by = ?", (number,)
                    )
                )
        self.known.clear()
        self.db.executemany(
            f"update models set {' = ?, '.join(MODEL)} = ? where number = ?", changes
        )
        return len(changes)

    def _number_in(
        self, table: str, names: tuple[str, ...], values: tuple[Any, ...], sign: int = 1
    ) -> int:
        known = self.known.get(table)
        if known is None:
            known = self.known[table] = self._all_in(table, names)
        number = known.get(values)
        if number is None:
            values = tuple(plain(value) if isinstance(value, str) else value for value in values)
            number = known.get(values)
        if number is None:
            known[_HIGHEST] += 1
            number = known[values] = sign * known[_HIGHEST]
            marks = ", ".join("?" * len(names))
            self.db.execute(
                f"insert into {table} (number, {', '.join(names)}) values (?, {marks})",
                (number, *values),
            )
        return number

    def _all_in(self, table: str, names: tuple[str, ...]) -> dict[tuple[Any, ...], int]:
        """Few. But a strange transcript may name another model with every call, and looking for
        each of them would take hours."""
        self.db.lock_for_writing()  # So nobody else gives the same number, or drops it.
        rows = self.db.all(f"select number, {', '.join(names)} from {table}")
        return {tuple(values): number for number, *values in rows} | {
            _HIGHEST: max((abs(number) for number, *_ in rows), default=0)
        }
