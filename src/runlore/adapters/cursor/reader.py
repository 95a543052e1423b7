"""The meaning of the records of a source, whichever of the agent's stores it is."""

from __future__ import annotations

from collections.abc import Iterable

from .. import Normalized, Record, Source
from ..shared.fold import with_file_time, with_rank
from . import STORE, in_database
from .bubbles import Reader as Bubbles
from .messages import Reader as Messages


def normalize(source: Source, records: Iterable[Record], carry: bytes | None) -> Normalized:
    """Return what the records of a source mean."""
    if source.path.endswith((".jsonl", ".txt", STORE)):
        return with_rank(
            with_file_time(Messages(source, carry).run(records), source),
            2 if source.path.endswith(STORE) else 3,
        )
    return with_rank(Bubbles(source, carry).run(records), 0 if in_database(source.path) else 1)
