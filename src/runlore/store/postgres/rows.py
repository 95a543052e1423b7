"""Rows without NUL, which no text of PostgreSQL can hold."""

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
"""The columns of a row with text of any kind, without the native id."""


def clean_row(row: list[Any], flavor: str) -> list[Any]:
    """Remove NULs from a row that begins with its session; return the same row."""
    for n in _TEXTS:
        if row[n + 1] and "\0" in row[n + 1]:
            row[n + 1] = plain(row[n + 1])
    native_id = row[NATIVE_ID + 1]
    if native_id and "\0" in native_id:  # The new id has the same hash.
        row[NATIVE_ID + 1] = hidden_id(flavor, native_id)
    return row


def clean_stream(facts: Facts, tally: Tally) -> tuple[Facts, Tally]:
    """Return what is packed of a stream, as it is compared with columns that have no NUL."""
    prompt = plain(tally.first_prompt)
    return clean_facts(facts, without_nul), msgspec.structs.replace(tally, first_prompt=prompt)
