"""Rows as columns of PostgreSQL can hold them: without NUL."""

from __future__ import annotations

from typing import Any

import msgspec

from ...adapters import Facts
from ...timeline import Tally
from ..cleaning import clean_facts
from ..natives import hidden_id
from ..rows import KIND, NATIVE_ID, SUMMARY, TOOL
from ..sql.database import plain, without_nul

ACTION, CALL = 5, 9

_TEXTS = (KIND, TOOL, ACTION, CALL, SUMMARY)
"""The columns of a row with text that may be anything; the native id apart."""


def clean_row(row: list[Any], flavor: str) -> list[Any]:
    """A row, with its session before it, as the columns of `events` can hold it."""
    for n in _TEXTS:
        if row[n + 1] and "\0" in row[n + 1]:
            row[n + 1] = plain(row[n + 1])
    native_id = row[NATIVE_ID + 1]
    if native_id and "\0" in native_id:  # Its hash must stay what it is.
        row[NATIVE_ID + 1] = hidden_id(flavor, native_id)
    return row


def clean_stream(facts: Facts, tally: Tally) -> tuple[Facts, Tally]:
    """Return what is packed of a stream, as it is compared with columns that have no NUL."""
    prompt = plain(tally.first_prompt)
    return clean_facts(facts, without_nul), msgspec.structs.replace(tally, first_prompt=prompt)
