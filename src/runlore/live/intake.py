"""Check records that other programs send as JSON, and append them to a session.

A request is one record, or a list of records that are appended together, all or none. A pipe
(`runlore live append --stdin`) and the network take requests of one shape.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ..errors import LogError
from ..model import LogRecord
from .session import LiveSession

MAX_REQUEST_BYTES = 1 << 26
"""Maximum size of one request."""
OWN = frozenset({"session", "lease", "deleted", "restored"})
"""Types of records that only the store writes."""


class NewRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record to append. `key` makes it safe to send it again."""

    type: str
    payload: dict[str, Any]
    key: str | None = None


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """A record that is in the log now. With a known key it was there before."""

    seq: int
    id: str
    ts: datetime
    type: str
    key: str | None


def append_json(session: LiveSession, data: bytes, *, expect: int | None = None) -> list[Appended]:
    """Append a record or a list of records. Raises LogError for anything else."""
    if len(data) > MAX_REQUEST_BYTES:
        raise LogError(f"{session.id}: a request may have {MAX_REQUEST_BYTES} bytes")
    try:
        given = msgspec.json.decode(data, type=NewRecord | list[NewRecord])
    except (ValueError, RecursionError) as error:
        raise LogError(f"{session.id}: not a record: {str(error)[:200]}") from None
    wanted = given if isinstance(given, list) else [given]
    if own := next((one.type for one in wanted if one.type in OWN), None):
        raise LogError(f"{session.id}: records of type {own!r} are written by the store alone")
    items = [(one.type, session.stored_payload(one.type, one.payload), one.key) for one in wanted]
    return [_appended(record) for record in session.record_many(items, expect=expect)]


def _appended(record: LogRecord) -> Appended:
    return Appended(seq=record.seq, id=record.id, ts=record.ts, type=record.type, key=record.key)
