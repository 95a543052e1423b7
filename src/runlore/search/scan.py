"""Regular expressions over everything, newest first. No index helps: every text is unpacked and
looked through.

RE2 runs in linear time whatever the pattern, and without Python's lock, so that threads scan
segments side by side. A segment is scanned as a whole; only where something is found are its events
looked at one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import re2

from ..errors import StoreError
from ..store import Filter, SegmentEvent, Store
from .ranked import EVENTS, allowed
from .syntax import Query, QueryError, parse
from .text import SPOTS, Answer, EventHit, Hit, Page, event_hit

_MEMORY = 64 << 20
"""Of a pattern, in bytes: with the 8 MB that RE2 has by itself, large patterns fall back to a much
slower way."""

_LINES = "(?m)"
"""`^` and `$` are the ends of lines."""


def regex(
    store: Store, pattern: str, *, limit: int = 20, fields: str | Query = "", events: int = EVENTS
) -> Answer:
    """The newest sessions with a text that the pattern fits, each with its first events. It stops
    at the limit: then the answer is partial. `^` and `$` are the ends of a line, `(?i)` takes
    capitals too. `fields` choose sessions and events, as in a query.

    Raises QueryError for a pattern that RE2 refuses: one with a look-ahead or a back-reference,
    among others; and NotFound when no session is meant by session:.
    """
    began = time.perf_counter()
    search = _compile(pattern)
    query = parse(fields) if isinstance(fields, str) else fields
    if query.groups or query.without:
        raise QueryError(
            "beside a regular expression only fields are understood, as agent: or tool:"
        )
    chosen = allowed(store, query)
    numbers = store.sessions.newest(
        list(store.sessions.numbers(Filter(parents_only=False)) if chosen is None else chosen)
    )
    looked = _Looked(store, search, query, limit, events)
    try:
        looked.through(store.index.scan(numbers, _tester(pattern)))
    except StoreError:
        # A text that cannot be unpacked ends the scan; what was found before it still helps.
        looked.is_partial = looked.is_damaged = True
    lines = store.sessions.lines(list(looked.found))
    return Answer(
        hits=[
            Hit(session=lines[number], score=0.0, events=hits)
            for number, hits in looked.found.items()
            if number in lines
        ],
        total=len(looked.found),
        missing=[],
        ignored=[],
        is_partial=looked.is_partial,
        is_damaged=looked.is_damaged,
        seconds=time.perf_counter() - began,
    )


class _Looked:
    """What was found in the segments so far."""

    def __init__(self, store: Store, search: Any, query: Query, limit: int, events: int) -> None:
        self.store, self.search, self.query, self.limit, self.events = (
            store,
            search,
            query,
            limit,
            events,
        )
        self.found: dict[int, list[EventHit]] = {}
        self.is_partial = self.is_damaged = False

    def through(self, segments: Iterable[int]) -> None:
        """Looks at the events of these until there are enough sessions."""
        for id_ in segments:
            session = id_ >> 20
            hits = self.found.get(session, [])
            if len(self.found) >= self.limit and session not in self.found:
                self.is_partial = True
                return
            if len(hits) < self.events:
                hits = hits + self._events_of(id_)
                if hits:
                    self.found[session] = hits[: self.events]

    def _events_of(self, id_: int) -> list[EventHit]:
        try:
            data = self.store.index.segment(id_, files=bool(self.query.events.files))
        except StoreError:
            self.is_damaged = True
            return []
        # None: forgotten meanwhile.
        return [] if data is None else _events(data, self.search, self.query, self.events)


def _events(
    data: tuple[bytes, list[SegmentEvent]], search: Any, query: Query, most: int
) -> list[EventHit]:
    bodies, page = data[0], Page(*data)
    hits: list[EventHit] = []
    for at, event in enumerate(page.events):
        if not query.events.takes(event):
            continue
        spots = []
        for match in search.finditer(bodies[event.offset : event.offset + event.length]):
            spots.append((match.start() + event.offset, match.end() + event.offset))
            if len(spots) >= SPOTS:
                break
        if spots:
            hits.append(event_hit(page, at, spots))
        if len(hits) >= most:
            break
    return hits


def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MEMORY
    if not pattern:
        raise QueryError("an empty pattern fits everything; give one that says what to find")
    try:
        return re2.compile(_LINES + pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        # It may name the whole, with what we put before it.
        reason = reason.replace(_LINES + pattern, pattern)
        raise QueryError(
            "not a regular expression of RE2: " + " ".join(reason.split())[:200]
        ) from None
    except UnicodeEncodeError:
        raise QueryError("the pattern is not valid UTF-8") from None


def _tester(pattern: str) -> Callable[[bytes], bool]:
    """Whether some event of a segment may fit. Bodies stand side by side there, so what asks for an
    end of a line or of a word would be misled at theirs: those conditions are left out, and proven
    event by event."""
    try:
        search = _compile(without_conditions(pattern)).search
    except QueryError:
        return bool  # Any text may.
    return lambda data: search(data) is not None


def without_conditions(pattern: str) -> str:
    """The pattern without ^, $, \\b and their kin. It fits wherever the pattern itself does."""
    out: list[str] = []
    at = 0
    while at < len(pattern):
        size = _piece(pattern, at)
        piece = pattern[at : at + size]
        out.append("(?:)" if piece in ("^", "$", "\\b", "\\B", "\\A", "\\z", "\\Z") else piece)
        at += size
    return "".join(out)


def _piece(pattern: str, at: int) -> int:
    """The length of what stands here: an escape, a quoted text, a class of characters, or one
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
