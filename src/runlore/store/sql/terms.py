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
"""The key of a table's highest number, whatever its sign, among its numbers by values."""


class Terms:
    """Gives models and tariffs their numbers."""

    def __init__(self, db: Database, changed: set[int]) -> None:
        self.db = db
        self.changed = changed
        """Sessions whose rollups must be computed again."""
        self.known: dict[str, dict[tuple[Any, ...], int]] = {}
        """Numbers by table and values. Valid in the open transaction: another process may drop some
        after it."""

    def model(self, values: Iterable[Any]) -> int:
        """Return the number of a model, by the values of `MODEL`."""
        return self._number_of("models", MODEL, tuple(values))

    def tariff(self, values: Iterable[Any]) -> int | None:
        """Return the number of a tariff, by the values of `TARIFF`; None if there is no price.

        The number is negative if a newer list of prices may have a better price. The index over
        negative numbers finds such calls.
        """
        tariff = tuple(values)
        basis, match = tariff[0], tariff[3]
        if basis is None:
            return None
        is_final = match == "exact" or basis == "invoiced"
        return self._number_of("tariffs", TARIFF, tariff, sign=1 if is_final else -1)

    def drop_unused_models(self) -> None:
        """Drop the models that no call has any more.

        Their names come from transcripts, so forgetting a session has to remove them too.
        """
        self.known.clear()
        self.db.execute("delete from models where number not in (select made_by from calls)")

    def redact_models(self, source: int, cleaner: Cleaner) -> int:
        """Redact the models of the calls in a source's sessions; return how many changed."""
        changes = []
        used = (
            "select made_by from calls where session in (select session from streams where source"
            " = ?)"
        )
        for number, *names in self.db.all(
            f"select number, {', '.join(MODEL)} from models where number in ({used})", (source,)
        ):
            clean = [name and cleaner.text(name) for name in names]
            if clean != names:
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

    def _number_of(
        self, table: str, columns: tuple[str, ...], values: tuple[Any, ...], sign: int = 1
    ) -> int:
        """Return the number of these values; insert them with a new number if they have none."""
        known = self.known.get(table)
        if known is None:
            known = self.known[table] = self._read_all(table, columns)
        number = known.get(values)
        if number is None:
            values = tuple(plain(value) if isinstance(value, str) else value for value in values)
            number = known.get(values)
        if number is None:
            known[_HIGHEST] += 1
            number = known[values] = sign * known[_HIGHEST]
            placeholders = ", ".join("?" * len(columns))
            self.db.execute(
                f"insert into {table} (number, {', '.join(columns)}) values (?, {placeholders})",
                (number, *values),
            )
        return number

    def _read_all(self, table: str, columns: tuple[str, ...]) -> dict[tuple[Any, ...], int]:
        """Return the numbers of a table by values.

        All are read at once: usually they are few, but a strange transcript may name another model
        with every call, and one query for each would take too long.
        """
        self.db.lock_for_writing()  # So that nobody else gives out the same number, or drops it.
        rows = self.db.all(f"select number, {', '.join(columns)} from {table}")
        return {tuple(values): number for number, *values in rows} | {
            _HIGHEST: max((abs(number) for number, *_ in rows), default=0)
        }
