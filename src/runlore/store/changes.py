"""The changes that a put makes, as values: rows to add and rows to change. `planning.plan` makes
them, and each database writes them in its own way."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ..model import Digest, format_time
from .known import KnownSource, Stream
from .values import Batch, LedgerCall, Put, Segment


class NewSegment(msgspec.Struct, frozen=True, gc=False):
    """A segment with its id, as it is numbered in its session."""

    id: int
    session: int
    first: int
    last: int
    segment: Segment


class CallChange(msgspec.Struct, frozen=True, gc=False):
    """A call, and the event where it was made."""

    kept: LedgerCall
    session: int
    seq: int


class Totals(msgspec.Struct, frozen=True):
    """The columns of a stored session that are sums over its streams."""

    session: int
    repo: str | None
    task_ref: str | None
    columns: dict[str, Any]


class Changes(msgspec.Struct, kw_only=True):
    """All that a put writes. The first part is rows that are not there yet, without those columns
    that only one of the databases has. The second part is changes to rows that are there."""

    batch: Batch
    source: KnownSource
    when: datetime
    put: Put
    """The report of the put."""
    is_repeated: bool = False
    """The batch was put before: nothing is to be written."""

    new_source: dict[str, Any] | None = None
    sessions: list[dict[str, Any]] = []
    streams: dict[tuple[int, int], Stream] = {}
    """By session and block."""
    events: list[list[Any]] = []
    natives: list[tuple[int, int, int]] = []
    segments: list[NewSegment] = []
    aliases: list[tuple[int, int, int, int]] = []
    calls: list[CallChange] = []
    records: list[tuple[int, int, int, int, bytes]] = []
    skips: list[tuple[int, int, str]] = []
    digests: list[tuple[int, Digest]] = []
    """By number of the session. None of these has one."""

    changed_streams: dict[tuple[int, int], Stream] = {}
    changed_calls: list[CallChange] = []
    called_sessions: set[int] = set()
    """Sessions whose calls are others now."""
    changed_records: list[tuple[int, int, int, int, bytes]] = []
    drop_records: bool = False
    replaced_segments: list[int] = []
    """Ids of segments that are written anew."""
    events_again: list[tuple[int, bytes, int, int]] = []
    """(flags, rest, session, seq) of events that are in their source again."""
    totals: list[Totals] = []
    updated: list[int] = []
    """Stored sessions that something was said of."""
    returned: list[int] = []
    """Sessions that were evicted and are whole again."""
    still_evicted: list[int] = []
    stale_sources: list[int] = []
    """Sources with events that have turned out to be copies."""
    cut_sources: list[int] = []
    """Sources that have to be read again so that what was evicted is whole."""

    @property
    def now(self) -> str:
        return format_time(self.when)
