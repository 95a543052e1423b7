"""What the SQLite store says in words of its own when it lists. Nothing here writes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import apsw

from ._sql_list import Lister


class SqliteLister(Lister):
    """The listing part of `SqliteStore`."""

    db: apsw.Connection
    instr = "instr"
    has_bytes = "instr({}, ?) > 0"
    epoch_of = "unixepoch({})"

    def ids(self, numbers: Iterable[int]) -> Any:
        return apsw.carray(array("q", numbers))

    def glob(self, column: str, pattern: str, *, is_part: bool = False) -> tuple[str, str]:
        is_plain = is_part and not any(char in pattern for char in "*?[")
        return f"{column} glob ?", f"*{pattern}*" if is_plain else pattern

    def _columns(self) -> list[str]:
        return [name for (name,) in self._all("select name from pragma_table_info('sessions')")]
