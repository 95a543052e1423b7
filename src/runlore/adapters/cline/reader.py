"""The meaning of the documents of a session or a task."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from .. import Normalized, Record, Source
from ..shared.fold import with_file_time, with_rank
from .messages import Reader
from .paths import HISTORY, MESSAGES
from .task import Task


def normalize(
    source: Source,
    records: Iterable[Record],
    carry: bytes | None,
    whole_prompts_since: datetime | None,
) -> Normalized:
    """Return what the records of a source mean. Since the given time the tokens of a prompt include
    those that the cache had."""
    if source.path.endswith(MESSAGES):
        return Reader(source, carry).run(records)
    # All is taken from the history where there is no timeline yet.
    found = Task(source, carry, whole_prompts_since).run(records)
    return with_rank(with_file_time(found, source), 1) if source.path.endswith(HISTORY) else found
