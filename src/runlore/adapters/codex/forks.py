"""What a fork has in common with its parent, as the rollouts of both say."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from .. import Record
from ..shared.pick import clean
from . import words
from .fold import time_of
from .lines import Line

MAX_TOTALS = 4096
"""Of one thread. With more of them, the copy is told by its times alone."""

_decode = msgspec.json.Decoder(Line).decode


class Fork(msgspec.Struct, frozen=True):
    parent: str
    born: int | None
    """When it was forked (ms)."""

    @classmethod
    def of(cls, head: bytes) -> Fork | None:
        """The fork that the first line of a rollout tells of; None when it tells of none."""
        line = _line(head)
        payload = line.payload if line else None
        if line is None or payload is None or not payload.forked_from_id:
            return None
        at = time_of(payload.timestamp) or time_of(line.timestamp)
        born = words.born_at(payload.id or "")
        if born is None and at is not None:
            born = int(at.timestamp() * 1000)
        return cls(clean(payload.forked_from_id), born)


def thread_of(head: bytes) -> str | None:
    """The thread that the first line of a rollout names."""
    line = _line(head)
    return clean(line.payload.id or "") if line and line.payload else None


def totals_before(records: Iterable[Record], born: int | None) -> bytes | None:
    """The totals of tokens in records up to this time (ms); None when there are too many."""
    totals: dict[str, None] = {}
    for record in records:
        line = _line(record.data) if b'"token_count"' in record.data else None
        if line is None or line.payload is None or (info := line.payload.info) is None:
            continue
        at = time_of(line.timestamp)
        if born is not None and at is not None and at.timestamp() * 1000 > born:
            break
        if info.total_token_usage is not None:
            totals[words.name_of(words.total_of(info.total_token_usage))] = None
        if len(totals) > MAX_TOTALS:
            return None
    return words.pack_totals(list(totals))


def _line(data: bytes) -> Line | None:
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
