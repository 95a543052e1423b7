"""Creation of a session from the conversation of another one, up to a record.

The copied records keep their ids and times, so that a reader of both logs sees that they are the
same; they get new seqs. A whole copy keeps the writers' keys too, for appends that are repeated.
The copy is complete: the other session may be deleted. It appears in the store at once or not at
all.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import LogError
from ..model import LogRecord
from .tool_calls import TYPES as LEDGER
from .tree import NODES

if TYPE_CHECKING:
    from .log import SessionStore
    from .session import LiveSession

OWN = frozenset({"session", "title", "meta", "rewind", "redo", "lease", "deleted", "restored"})
"""Records of the session itself, which a fork has of its own or does not need."""


def fork(
    store: SessionStore,
    source: LiveSession,
    position: int,
    id: str | None,
    title: str | None,
    *,
    has_all: bool = False,
) -> LiveSession:
    """Create a fork. Raises Conflict when the id is in use.

    With `has_all` records that are not of the conversation are copied as well.
    """
    if source.is_draft:
        raise LogError(f"{source.id}: a draft has nothing to fork")
    id = id or os.urandom(16).hex()
    store.check_id(id)
    store.backend.copy(source.id, id, _records(source, position, title, has_all))
    return store.open(id)


def _records(
    source: LiveSession, position: int, title: str | None, has_all: bool
) -> Iterator[LogRecord]:
    tree = source._view()
    at = source.find(position)
    first = dict(tree.meta)
    first["title"] = title if title is not None else tree.title
    first["origin"] = {"session": source.id, "record": at.id, "seq": at.seq}
    old_seqs: list[int] = []
    for record in _records_to_copy(source, tree.path(position), position, has_all):
        if not old_seqs:
            yield _first_record(first, record.id)
        old_seqs.append(record.seq)
        yield msgspec.structs.replace(
            record,
            seq=len(old_seqs),
            key=record.key if has_all else None,
            epoch=None,
            payload=_adapted_payload(record, old_seqs),
        )
    if not old_seqs:
        yield _first_record(first, at.id)


def _records_to_copy(
    source: LiveSession, path: list[tuple[int, int]], position: int, has_all: bool
) -> Iterator[LogRecord]:
    """Yield the conversation and all records about tool calls; with `has_all` all others, too.

    A call that was run must not look interrupted in the fork, even if a rewind left its record
    behind.
    """
    starts = [low for low, _ in path]
    for record in source.records():
        if record.seq > position:
            return
        place = bisect_right(starts, record.seq) - 1
        is_on_path = place >= 0 and record.seq <= path[place][1]
        if (
            record.type in LEDGER
            or (record.type in NODES and is_on_path)
            or (has_all and record.type not in NODES | OWN)
        ):
            yield record


def _first_record(payload: dict[str, Any], next_id: str) -> LogRecord:
    """Return the fork's own first record. Its id is below the next one: ids grow in every log."""
    with suppress(ValueError):
        next_id = f"{max(0, int(next_id[:16], 16) - 1):016x}{os.urandom(4).hex()}"
    return LogRecord(seq=0, id=next_id, ts=datetime.now(UTC), type="session", payload=payload)


def _adapted_payload(record: LogRecord, old_seqs: list[int]) -> dict[str, Any]:
    """Return the payload for the fork.

    A compaction gets the new seq of what it covers. A tool start loses its owner, who works
    elsewhere.
    """
    if record.type == "tool_started":
        return {name: value for name, value in record.payload.items() if name != "owner"}
    upto = record.payload.get("upto")
    if record.type != "compact" or not isinstance(upto, int):
        return record.payload
    return {**record.payload, "upto": bisect_right(old_seqs, upto)}
