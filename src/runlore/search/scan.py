"""Regular expressions over all texts, newest first.

No index helps: every text is unpacked and scanned.

RE2 runs in linear time for any pattern and without Python's lock, so that threads scan segments in
parallel. A segment is scanned as a whole; its events are checked one by one only if it matches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import re2

from ..errors import StoreError
from ..store import Filter, SegmentEvent, Store
from ..store.scanning import scan as scan_segments
from .fields import allowed
from .ranked import EVENTS_SHOWN
from .syntax import Query, QueryError, parse
from .text import MAX_SPOTS, Answer, EventHit, Hit, Page, event_hit

_MAX_PATTERN_BYTES = 64 << 20
"""Memory for a compiled pattern. With RE2's default of 8 MB, large patterns fall back to a much
slower method."""

_MULTILINE = "(?m)"
"""`^` and `$` match at the ends of lines."""


def regex(
    store: Store,
    pattern: str,
    *,
    limit: int = 20,
    fields: str | Query = "",
    events: int = EVENTS_SHOWN,
) -> Answer:
    """Return the newest sessions with a text that matches, each with its first events.

    The scan stops at the limit; the answer is then partial. `^` and `$` are the ends of a line,
    `(?i)` ignores case. `fields` choose sessions and events, as in a query.

    Raises QueryError for a pattern that RE2 refuses, such as one with a look-ahead or a
    back-reference, and NotFound when session: names no session.
    """
    began = time.perf_counter()
    search = compile_pattern(pattern)
    query = parse(fields) if isinstance(fields, str) else fields
    if query.groups or query.without:
        raise QueryError(
            "beside a regular expression only fields are understood, as agent: or tool:"
        )
    chosen = allowed(store, query)
    numbers = store.sessions.newest(
        list(store.sessions.numbers(Filter(parents_only=False)) if chosen is None else chosen)
    )
    scan = _Scan(store, search, query, limit, events)
    try:
        scan.run(scan_segments(store.index.packed(numbers), _tester(pattern)))
    except StoreError:
        # A text that cannot be unpacked ends the scan; the earlier matches still help.
        scan.is_partial = scan.is_damaged = True
    lines = store.sessions.lines(list(scan.hits))
    return Answer(
        hits=[
            Hit(session=lines[number], score=0.0, events=hits)
            for number, hits in scan.hits.items()
            if number in lines
        ],
        total=len(scan.hits),
        missing=[],
        ignored=[],
        is_partial=scan.is_partial,
        is_damaged=scan.is_damaged,
        seconds=time.perf_counter() - began,
    )


class _Scan:
    """The matches in the segments so far."""

    def __init__(self, store: Store, search: Any, query: Query, limit: int, events: int) -> None:
        self.store, self.search, self.query, self.limit, self.events = (
            store,
            search,
            query,
            limit,
            events,
        )
        self.hits: dict[int, list[EventHit]] = {}
        self.is_partial = self.is_damaged = False

    def run(self, segments: Iterable[int]) -> None:
        """Check the events of these segments until there are enough sessions."""
        for id_ in segments:
            session = id_ >> 20
            hits = self.hits.get(session, [])
            if len(self.hits) >= self.limit and session not in self.hits:
                self.is_partial = True
                return
            if len(hits) < self.events:
                hits = hits + self._events_of(id_)
                if hits:
                    self.hits[session] = hits[: self.events]

    def _events_of(self, id_: int) -> list[EventHit]:
        try:
            data = self.store.index.segment(id_, files=bool(self.query.events.files))
        except StoreError:
            self.is_damaged = True
            return []
        # None: deleted meanwhile.
        return [] if data is None else _events(data, self.search, self.query, self.events)


def _events(
    data: tuple[bytes, list[SegmentEvent]], search: Any, query: Query, max_events: int
) -> list[EventHit]:
    bodies, page = data[0], Page(*data)
    hits: list[EventHit] = []
    for at, event in enumerate(page.events):
        if not query.events.matches(event):
            continue
        spots = []
        for match in search.finditer(bodies[event.offset : event.offset + event.length]):
            spots.append((match.start() + event.offset, match.end() + event.offset))
            if len(spots) >= MAX_SPOTS:
                break
        if spots:
            hits.append(event_hit(page, at, spots))
        if len(hits) >= max_events:
            break
    return hits


def compile_pattern(pattern: str) -> Any:
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MAX_PATTERN_BYTES
    if not pattern:
        raise QueryError("an empty pattern fits everything; give one that says what to find")
    try:
        return re2.compile(_MULTILINE + pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        # The message may quote the pattern with our prefix.
        reason = reason.replace(_MULTILINE + pattern, pattern)
        raise QueryError(
            "not a regular expression of RE2: " + " ".join(reason.split())[:200]
        ) from None
    except UnicodeEncodeError:
        raise QueryError("the pattern is not valid UTF-8") from None


def _tester(pattern: str) -> Callable[[bytes], bool]:
    """Return a test for segments that may have a matching event.

    The bodies of a segment follow each other without a gap, so conditions on the ends of lines or
    words would fail between them. They are left out here and checked event by event.
    """
    try:
        search = compile_pattern(without_conditions(pattern)).search
    except QueryError:
        return bool  # Any text may match.
    return lambda data: search(data) is not None


def without_conditions(pattern: str) -> str:
    """Return the pattern without ^, $, \\b and similar conditions.

    It matches wherever the pattern does.
    """
    out: list[str] = []
    at = 0
    while at < len(pattern):
        size = _part_length(pattern, at)
        part = pattern[at : at + size]
        out.append("(?:)" if part in ("^", "$", "\\b", "\\B", "\\A", "\\z", "\\Z") else part)
        at += size
    return "".join(out)


def _part_length(pattern: str, at: int) -> int:
    """Return the length of the next part: an escape, a quoted text, a character class or a
    character."""
    if pattern.startswith("\\Q", at):
        end = pattern.find("\\E", at + 2)
        return (end + 2 if end >= 0 else len(pattern)) - at
    if pattern[at] == "\\":
        return 2
    if pattern[at] != "[":
        return 1
    end = at + 1
    end += pattern.startswith("^", end)
    end += pattern.startswith("]", end)
    while end < len(pattern) and pattern[end] != "]":
        if pattern.startswith("[:", end) and (close := pattern.find(":]", end)) >= 0:
            end = close + 2
        else:
            end += 2 if pattern[end] == "\\" else 1
    return end + 1 - at
