"""What many calls have in common is kept once and has a number: the model that was asked for, and
how a price is known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._sql import plain
from ._sql_sums import Summer
from .pieces import Cleaner

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


class Terms(Summer):
    """The part of a store that gives these numbers."""

    _numbers: dict[str, dict[tuple[Any, ...], int]]
    """By table and values, as they are in the open transaction: another process may drop some after
    it."""

    def _model(self, values: Iterable[Any]) -> int:
        return self._number_in("models", MODEL, tuple(values))

    def _tariff(self, values: Iterable[Any]) -> int | None:
        """None for a call without a price. Below zero where a newer list of prices may know better:
        there is an index of these."""
        given = tuple(values)
        basis, match = given[0], given[3]
        if basis is None:
            return None
        return self._number_in(
            "tariffs", TARIFF, given, sign=-1 if match != "exact" and basis != "invoiced" else 1
        )

    def _drop_models(self) -> None:
        """Drops those that no call has any more. What they are called is told by transcripts, as
        anything else in them."""
        self._numbers.clear()
        self.db.execute("delete from models where number not in (select made_by from calls)")

    def _redact_models(self, source: int, cleaner: Cleaner) -> int:
        """Those of the calls of a source's sessions; gives back in how many there was something to
        take out."""
        changes = []
        used = (
            "select made_by from calls where session in (select session from streams where source"
            " = ?)"
        )
        for number, *words in self._all(
            f"select number, {', '.join(MODEL)} from models where number in ({used})", (source,)
        ):
            clean = [word and cleaner.text(word) for word in words]
            if clean != words:
                changes.append((*clean, number))
                self._to_sum.update(
                    session
                    for (session,) in self._all(
                        "select distinct session from calls where made_by = ?", (number,)
                    )
                )
        self._numbers.clear()
        self.db.executemany(
            f"update models set {' = ?, '.join(MODEL)} = ? where number = ?", changes
        )
        return len(changes)

    def _number_in(
        self, table: str, names: tuple[str, ...], values: tuple[Any, ...], sign: int = 1
    ) -> int:
        known = self._numbers.get(table)
        if known is None:
            known = self._numbers[table] = self._all_in(table, names)
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
        rows = self._all(f"select number, {', '.join(names)} from {table}")
        return {tuple(values): number for number, *values in rows} | {
            _HIGHEST: max((abs(number) for number, *_ in rows), default=0)
        }
