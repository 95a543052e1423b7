"""Rows of a report as CSV. A name that a spreadsheet would take for a formula is made harmless."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import TextIO

from ..model import USD
from ..text.clean import one_line
from .report import Row


def write_csv(by: str, rows: Iterable[Row], file: TextIO) -> None:
    """All columns, amounts with all their digits."""
    writer = csv.writer(file, lineterminator="\n")
    columns = [*(name for name in Row.__struct_fields__[1:] if name != "units"), "total_tokens"]
    writer.writerow([by, *columns, "usd"])
    for row in rows:
        writer.writerow(
            [escape_formula(row.key), *(getattr(row, name) for name in columns), exact(row.units)]
        )


def exact(units: int) -> str:
    """An amount in USD with all its digits."""
    return f"{units // USD}.{units % USD:012}".rstrip("0").rstrip(".")


def escape_formula(name: str | None) -> str:
    """With an apostrophe in front of what would be a formula."""
    text = one_line(name).strip()
    # Some programs read the wide ones as the narrow.
    return f"'{text}" if text.startswith(tuple("=+-@＝＋－＠")) else text
