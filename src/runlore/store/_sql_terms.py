"""What many calls have in common is kept once and has a number: the model that was asked for, and how a price is known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._sql_sums import Summer

MODEL = ("provider", "model", "tier", "region")
TARIFF = ("basis", "price_source", "price_since", "price_match", "price_name", "price_above", "price_notes")


class Terms(Summer):
    """The part of a store that gives these numbers."""

    _numbers: dict[tuple[Any, ...], int]
    """By table and values, those that were asked for in the open transaction: another process may drop them after it."""

    def _model(self, values: Iterable[Any]) -> int:
        return self._number_in("models", MODEL, tuple(values))

    def _tariff(self, values: Iterable[Any]) -> int | None:
        """None for a call without a price. Below zero where a newer list of prices may know better: there is an index of these."""
        given = tuple(values)
        basis, match = given[0], given[3]
        if basis is None:
            return None
        return self._number_in("tariffs", TARIFF, given, sign=-1 if match != "exact" and basis != "invoiced" else 1)

    def _drop_models(self) -> None:
        """Drops those that no call has any more. What they are called is told by transcripts, as anything else in them."""
        self._numbers.clear()
        self.db.execute("delete from models where number not in (select made_by from calls)")

    def _number_in(self, table: str, names: tuple[str, ...], values: tuple[Any, ...], sign: int = 1) -> int:
        number = self._numbers.get((table, *values))
        if number is None:
            number = self._numbers[table, *values] = self._find_or_add(table, names, values, sign)
        return number

    def _find_or_add(self, table: str, names: tuple[str, ...], values: tuple[Any, ...], sign: int) -> int:
        columns, marks = ", ".join(names), ", ".join("?" * len(names))
        found = self._one(f"select number from {table} where ({columns}) is not distinct from ({marks}) limit 1", values)
        if found is not None:
            return int(found[0])
        (number,) = self._one(f"select {sign} * (coalesce(max(abs(number)), 0) + 1) from {table}")
        self.db.execute(f"insert into {table} (number, {columns}) values (?, {marks})", (number, *values))
        return int(number)
