"""Search: one ranked index over everything that was said and done. The same for every store.

A database only answers which segments have a word (`Store.postings`). Here a query is read, the answers are intersected
by session, the rarest word first, and scored; then the best segment of each session that is shown is unpacked, and the
events, the snippets and the proof of phrases and filters are found there.

    word  "a phrase"  begin*        every one of them, in any event of a session
    a OR b                          one of the two neighbours
    -word                           not in an event that has it
    agent: repo: cwd: branch: model: after: before: session:      which sessions
    tool: kind: is:error file:                                    which events
"""

from __future__ import annotations

import heapq
import math
import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from .errors import RunloreError
from .model import CALL_KINDS
from .query import moment
from .store import Filter, SegmentEvent, SessionLine, Store
from .store.words import cjk_pairs, mark

PROOFS = 400
"""How many segments are unpacked at most to prove phrases and filters: about 150 ms. Then the answer says it is partial."""

SNIPPET = 160
EVENTS = 3
"""Events shown of each session."""

_FIELDS = {"agent", "repo", "cwd", "branch", "model", "after", "before", "session", "tool", "kind", "is", "file"}
_PIECE = re.compile(r'(-?)(?:([a-z]+):)?("(?:[^"]*)"?|\S+)', re.IGNORECASE)
_TOKEN = re.compile(r"[^\W_]+")
_CJK = re.compile("[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_WEIGHT = {"user_msg": 1.5, "assistant_msg": 1.2, "thinking": 1.0}


class QueryError(RunloreError):
    """A query that cannot be answered; the message says why."""


class Term(msgspec.Struct, frozen=True):
    """One thing to find. `phrases` are what the index is asked for: all of them must be there."""

    text: str
    phrases: tuple[str, ...]
    is_prefix: bool = False
    needs_proof: bool = False
    """A phrase may lie across two events, or across what was appended: the text itself must show it."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """Which events count."""

    tools: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    is_error: bool = False

    def takes(self, event: SegmentEvent) -> bool:
        if self.is_error and not event.is_error:
            return False
        if self.tools and (event.tool or "").lower() not in self.tools:
            return False
        if self.kinds and not any(event.kind == kind or (kind == "tool_call" and event.kind in CALL_KINDS) for kind in self.kinds):
            return False
        return not self.files or any(_names_file(wanted, event) for wanted in self.files)


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A query as it was understood: all of `groups`, one of the terms in each; in no event that has one of `without`."""

    groups: tuple[tuple[Term, ...], ...] = ()
    without: tuple[Term, ...] = ()
    sessions: Filter = Filter(parents_only=False)
    session: str | None = None
    events: Chosen = Chosen()
    ignored: tuple[str, ...] = ()

    @property
    def needs_proof(self) -> bool:
        return bool(self.without) or self.events != Chosen() or any(term.needs_proof for group in self.groups for term in group)


class EventHit(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    kind: str
    ts: str | None
    tool: str | None
    is_error: bool
    snippet: str
    marks: list[tuple[int, int]]
    """Where in the snippet the words are."""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    session: SessionLine
    score: float
    events: list[EventHit]


class Answer(msgspec.Struct, kw_only=True):
    """`missing` are words that the sessions shown do not all have: then no session had every one of them."""

    hits: list[Hit]
    total: int
    missing: list[str]
    ignored: list[str]
    is_partial: bool
    seconds: float


# ── the query ────────────────────────────────────────────────────────────────────────────────────────────────────────
def parse(text: str, now: datetime | None = None) -> Query:
    """What a query means. Any text is one; raises QueryError only for a field whose value makes no sense."""
    now = now or datetime.now(UTC)
    groups: list[tuple[Term, ...]] = []
    without: list[Term] = []
    ignored: list[str] = []
    fields: dict[str, list[str]] = {}
    joins = False
    for minus, name, value in _PIECE.findall(text):
        field = name.lower()
        if name and field not in _FIELDS:
            value, name = f"{name}:{value}", ""
        bare = value.strip('"') if value.startswith('"') else value
        if name and not minus:
            if bare:
                fields.setdefault(field, []).append(bare)
            continue
        if name:
            raise QueryError(f"-{name}: is not understood; only words can be excluded")
        if value == "OR" and not minus and groups:
            joins = True
            continue
        term = _term(bare, is_phrase=value.startswith('"'))
        if term is None:
            ignored.append(value)
        elif minus:
            without.append(term)
        elif joins:
            groups[-1] = (*groups[-1], term)
        else:
            groups.append((term,))
        joins = False
    return Query(
        groups=tuple(groups),
        without=tuple(without),
        sessions=_session_filter(fields, now),
        session=fields["session"][-1] if "session" in fields else None,
        events=_event_filter(fields),
        ignored=tuple(ignored),
    )


def _term(word: str, *, is_phrase: bool) -> Term | None:
    is_prefix = word.endswith("*") and not is_phrase
    phrases: list[str] = []
    at = 0
    for run in _CJK.finditer(word):
        phrases += [word[at : run.start()], " ".join(pair.decode() for pair in cjk_pairs(run.group()))]
        at = run.end()
    phrases.append(word[at:])
    kept = tuple(phrase for phrase in phrases if _TOKEN.search(phrase))
    if not kept:
        return None
    if len(kept) == 1 and _CJK.fullmatch(kept[0]):  # One character: pairs begin with it.
        is_prefix = True
    tokens = sum(len(_TOKEN.findall(phrase)) for phrase in kept)
    return Term(word.rstrip("*") if is_prefix else word, kept, is_prefix, tokens > 1)


def _session_filter(fields: dict[str, list[str]], now: datetime) -> Filter:
    def last(name: str) -> str | None:
        return fields[name][-1] if name in fields else None

    def when(name: str) -> datetime | None:
        text = last(name)
        if text is None:
            return None
        try:
            return moment(text, now)
        except RunloreError as error:
            raise QueryError(f"{name}:{text}: {error}") from None

    return Filter(
        agent=last("agent"),
        repo=last("repo"),
        cwd=last("cwd"),
        branch=last("branch"),
        model=last("model"),
        since=when("after"),
        until=when("before"),
        parents_only=False,
    )


def _event_filter(fields: dict[str, list[str]]) -> Chosen:
    states = {state.lower() for state in fields.get("is", ())}
    if states - {"error"}:
        raise QueryError(f"is:{min(states - {'error'})} is not understood; there is is:error")
    return Chosen(
        tools=tuple(tool.lower() for tool in fields.get("tool", ())),
        kinds=tuple(kind.lower() for kind in fields.get("kind", ())),
        files=tuple(fields.get("file", ())),
        is_error="error" in states,
    )


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────────
def search(store: Store, text: str, *, limit: int = 20, sort: str = "relevance") -> Answer:
    """The sessions that match, the best first (`sort="newest"`: the newest), each with its best events."""
    began = time.perf_counter()
    query = parse(text)
    found = _Search(store, query).run(limit, sort)
    found.seconds = time.perf_counter() - began
    return found


class _Search:
    def __init__(self, store: Store, query: Query) -> None:
        self.store, self.query = store, query
        self.proofs = 0
        self.is_partial = False
        self.is_loose = False
        self.finders = [[_Finder(term) for term in group] for group in query.groups]
        self.unwanted = [_Finder(term) for term in query.without]

    def run(self, limit: int, sort: str) -> Answer:
        postings = [self._group(group) for group in self.query.groups]
        narrow = self._narrow()
        allowed = self._allowed()
        sessions, missing = self._intersect(postings, narrow, allowed)
        scores = self._score(postings, narrow, sessions)
        found: list[tuple[int, float, list[EventHit]]] = []
        for number, score, segments in self._in_order(scores, sort, limit):
            events = self._look(segments)
            if events is not None:
                found.append((number, score, events))
            if len(found) >= limit or self.is_partial:
                break
        lines = self.store.lines([number for number, _, _ in found])
        return Answer(
            hits=[Hit(session=lines[n], score=round(score, 4), events=events) for n, score, events in found if n in lines],
            total=len(sessions),
            missing=missing,
            ignored=list(self.query.ignored),
            is_partial=self.is_partial,
            seconds=0.0,
        )

    # ── which sessions ───────────────────────────────────────────────────────────────────────────────────────────────
    def _group(self, group: Sequence[Term]) -> list[int]:
        """The segments that have one of the terms, ascending."""
        found = [self._postings(term) for term in group]
        return found[0] if len(found) == 1 else sorted(set().union(*found))

    def _postings(self, term: Term) -> list[int]:
        found = [self.store.postings(phrase, prefix=term.is_prefix) for phrase in term.phrases]
        if len(found) == 1:
            return found[0]
        return sorted(set(found[0]).intersection(*found[1:]))

    def _narrow(self) -> set[int] | None:
        """The segments that have an event of the tool, kind or state that is asked for: the index knows these as words."""
        chosen = self.query.events
        words = [[mark("tool", tool)] for tool in chosen.tools]
        words += [[mark("kind", kind)] if kind != "tool_call" else [mark("kind", k) for k in sorted(CALL_KINDS)] for kind in chosen.kinds]
        words += [[mark("is", "error")]] if chosen.is_error else []
        narrow: set[int] | None = None
        for alternatives in words:
            segments = set().union(*(self.store.postings(word) for word in alternatives))
            narrow = segments if narrow is None else narrow & segments
        for file in chosen.files:
            term = _term(file, is_phrase=True)
            if term is not None:
                segments = set(self._postings(term))
                narrow = segments if narrow is None else narrow & segments
        return narrow

    def _allowed(self) -> set[int] | None:
        query = self.query
        if query.session is None and query.sessions == Filter(parents_only=False):
            return None
        allowed = self.store.numbers(query.sessions)
        if query.session is not None:
            found = set(self.store.find(query.session.partition("#")[0], limit=1000))
            allowed = {number for number, line in self.store.lines(list(allowed)).items() if line.uid in found}
        return allowed

    def _intersect(self, postings: list[list[int]], narrow: set[int] | None, allowed: set[int] | None) -> tuple[set[int], list[str]]:
        """The sessions that have every group, rarest first; or, when none has, those that have any, and what is missing."""
        sessions = allowed
        if narrow is not None:
            here = {segment >> 20 for segment in narrow}
            sessions = here if sessions is None else sessions & here
        start = sessions
        for segments in sorted(postings, key=len):
            here = {segment >> 20 for segment in segments}
            sessions = here if sessions is None else sessions & here
            if not sessions:
                break
        if sessions is None:
            sessions = self.store.numbers(self.query.sessions)
        if sessions or len(postings) < 2:
            return sessions, []
        return self._most_of(postings, start)

    def _most_of(self, postings: list[list[int]], start: set[int] | None) -> tuple[set[int], list[str]]:
        weights = self._weights(postings)
        totals: dict[int, float] = {}
        for weight, segments in zip(weights, postings, strict=True):
            for session in {segment >> 20 for segment in segments}:
                if start is None or session in start:
                    totals[session] = totals.get(session, 0.0) + weight
        if not totals:
            return set(), [group[0].text for group in self.query.groups]
        self.is_loose = True
        best = max(totals.values())
        close = {session for session, total in totals.items() if total >= 0.6 * best}
        sets = [{segment >> 20 for segment in segments} for segments in postings]
        words = zip(self.query.groups, sets, strict=True)
        return close, [group[0].text for group, present in words if not close <= present]

    # ── how good ─────────────────────────────────────────────────────────────────────────────────────────────────────
    def _weights(self, postings: list[list[int]]) -> list[float]:
        total = max(1, self.store.segment_count())
        return [math.log(1 + (total - len(found) + 0.5) / (len(found) + 0.5)) for found in postings]

    def _score(self, postings: list[list[int]], narrow: set[int] | None, sessions: set[int]) -> dict[int, tuple[float, list[int]]]:
        """By session: its score, and its segments with any of the words, the best first."""
        weights = self._weights(postings)
        segments: dict[int, float] = {}
        totals: dict[int, float] = dict.fromkeys(sessions, 0.0)
        for weight, found in zip(weights, postings, strict=True):
            counts: Counter[int] = Counter()
            for segment in found:
                session = segment >> 20
                if session in sessions:
                    counts[session] += 1
                    segments[segment] = segments.get(segment, 0.0) + weight
            for session, count in counts.items():
                totals[session] += weight * count / (count + 1.0)
        if not postings and narrow is not None:
            segments = {segment: 1.0 for segment in narrow if segment >> 20 in sessions}
        ordered: dict[int, list[int]] = {}
        for segment in sorted(segments, key=lambda s: (-(segments[s] + (narrow is not None and s in narrow)), s)):
            ordered.setdefault(segment >> 20, []).append(segment)
        return {
            session: (totals[session] + 0.5 * segments[ordered[session][0]] if session in ordered else 0.0, ordered.get(session, []))
            for session in sessions
        }

    def _in_order(self, scores: dict[int, tuple[float, list[int]]], sort: str, limit: int) -> Iterable[tuple[int, float, list[int]]]:
        if sort == "newest":
            order = self.store.newest(list(scores))
            return ((number, *scores[number]) for number in order)
        # Ties go to the newer session, which has the larger number unless it was read late; then to the uid, in the store.
        want = limit if not self.query.needs_proof else limit * 20
        best = heapq.nlargest(want, scores.items(), key=lambda item: (item[1][0], item[0]))
        return ((number, *score) for number, score in best)

    # ── where exactly ────────────────────────────────────────────────────────────────────────────────────────────────
    def _look(self, segments: list[int]) -> list[EventHit] | None:
        """The best events of a session, or None when it turns out not to match."""
        needs_proof = self.query.needs_proof
        shown: list[tuple[float, EventHit]] = []
        left = set(range(len(self.finders)))
        for segment in segments:
            if needs_proof:
                self.proofs += 1
                if self.proofs > PROOFS:
                    self.is_partial = True
                    return None
            data = self.store.segment(segment)
            if data is None:
                continue
            text, events = data
            scored, seen = self._events_in(text, events)
            shown += scored
            left -= seen
            if not needs_proof or (not left and shown):
                break
        if needs_proof and (not shown or (left and not self.is_loose)):
            return None
        best = heapq.nlargest(EVENTS, shown, key=lambda item: (item[0], -item[1].seq))
        return [event for _, event in sorted(best, key=lambda item: item[1].seq)] if best else []

    def _events_in(self, data: bytes, events: list[SegmentEvent]) -> tuple[list[tuple[float, EventHit]], set[int]]:
        """The events of a segment that have any of the words, and which of the words were seen in them."""
        lower = data.lower()
        starts = [event.offset for event in events]
        spots: dict[int, dict[int, list[tuple[int, int]]]] = {}
        for n, group in enumerate(self.finders):
            for finder in group:
                for first, last in finder.find(data, lower):
                    at = bisect_right(starts, first) - 1
                    if at >= 0 and last <= events[at].offset + events[at].length:
                        spots.setdefault(at, {}).setdefault(n, []).append((first, last))
        banned = {bisect_right(starts, first) - 1 for finder in self.unwanted for first, _ in finder.find(data, lower)}
        candidates = spots if self.finders else {at: {} for at in range(len(events))}
        hits: list[tuple[float, EventHit]] = []
        seen: set[int] = set()
        for at, words in candidates.items():
            event = events[at]
            if at in banned or not self.query.events.takes(event):
                continue
            seen |= words.keys()
            weight = len(words) * _WEIGHT.get(event.kind, 0.8)
            hits.append((weight, _hit(event, data, [spot for found in words.values() for spot in found])))
        return hits, seen


class _Finder:
    """Finds a term in text, as the index would: whole words, whatever their case, and the parts of camelCase words."""

    def __init__(self, term: Term) -> None:
        tokens = _TOKEN.findall(term.text)
        self.is_prefix = term.is_prefix
        self.first = tokens[0].lower().encode() if tokens and tokens[0].isascii() and not _CJK.search(term.text) else None
        pattern = re.escape(term.text) if _CJK.search(term.text) else r"[\W_]+".join(map(re.escape, tokens))
        self.pattern = re.compile(pattern.encode(), re.IGNORECASE) if pattern.isascii() else None
        self.wide = re.compile(pattern, re.IGNORECASE)
        self.is_single = len(tokens) == 1
        self.is_cjk = bool(_CJK.search(term.text))

    def find(self, data: bytes, lower: bytes, most: int = 50) -> list[tuple[int, int]]:
        """Byte ranges, at most so many."""
        found: list[tuple[int, int]] = []
        if self.pattern is None or self.first is None:
            return self._find_wide(data, most)
        at = lower.find(self.first)
        while at >= 0 and len(found) < most:
            last = at + len(self.first)
            if not self.is_single:
                match = self.pattern.match(data, at)
                last = match.end() if match else -1
            if last > 0 and _begins(data, at) and (self.is_prefix or _ends(data, last)):
                found.append((at, last))
            at = lower.find(self.first, at + len(self.first))
        return found

    def _find_wide(self, data: bytes, most: int) -> list[tuple[int, int]]:
        text = data.decode("utf-8", "replace")
        found: list[tuple[int, int]] = []
        for match in self.wide.finditer(text):
            if self.is_cjk or (
                (match.start() == 0 or not text[match.start() - 1].isalnum())
                and (self.is_prefix or match.end() == len(text) or not text[match.end()].isalnum())
            ):
                first = len(text[: match.start()].encode())
                found.append((first, first + len(match.group().encode())))
            if len(found) >= most:
                break
        return found


def _begins(data: bytes, at: int) -> bool:
    """Whether a word, or a part of a camelCase word, begins here."""
    if at == 0:
        return True
    before, here = data[at - 1 : at], data[at : at + 1]
    return not (before.isalnum() or before >= b"\x80") or (here.isupper() and before.islower()) or (
        here.isalpha() and before.isdigit()
    ) or (here.isupper() and data[at + 1 : at + 2].islower())  # fmt: skip


def _ends(data: bytes, at: int) -> bool:
    if at >= len(data):
        return True
    before, here = data[at - 1 : at], data[at : at + 1]
    return not (here.isalnum() or here >= b"\x80") or (before.islower() and here.isupper()) or (
        before.isdigit() and here.isalpha()
    ) or (before.isupper() and here.isupper() and data[at + 1 : at + 2].islower())  # fmt: skip


def _names_file(wanted: str, event: SegmentEvent) -> bool:
    """A path as people give one: its end, whole names at a time."""
    wanted = wanted.replace("\\", "/").lower()
    return any(f"/{file.lower()}".replace("\\", "/").endswith("/" + wanted.lstrip("/")) for file in event.files)


def _hit(event: SegmentEvent, data: bytes, spots: list[tuple[int, int]]) -> EventHit:
    snippet, marks = _snippet(data[event.offset : event.offset + event.length], [(a - event.offset, b - event.offset) for a, b in spots])
    return EventHit(seq=event.seq, kind=event.kind, ts=event.ts, tool=event.tool, is_error=event.is_error, snippet=snippet, marks=marks)


def _snippet(body: bytes, spots: list[tuple[int, int]]) -> tuple[str, list[tuple[int, int]]]:
    """The part of a body with the most of the words, on one line, and where they are in it."""
    spots = sorted(spots)
    best, most = 0, -1
    for n, (first, _) in enumerate(spots[:50]):
        count = sum(1 for a, b in spots[n : n + 20] if b <= first + SNIPPET)
        if count > most:
            best, most = first, count
    start = max(0, best - SNIPPET // 4)
    start = body.rfind(b" ", max(0, start - 16), start) + 1 or start
    end = min(len(body), start + SNIPPET)
    window = body[start:end]
    text = "…" if start else ""
    marks: list[tuple[int, int]] = []
    at = start
    for first, last in spots:
        if first < at or last > end:
            continue
        text += _one_line(body[at:first])
        begin = len(text)
        text += _one_line(body[first:last])
        marks.append((begin, len(text)))
        at = last
    text += _one_line(body[at:end]) if at < start + len(window) else ""
    return text + ("…" if end < len(body) else ""), marks


_BLANKS = re.compile(r"[\s\x00-\x1f\x7f]+")


def _one_line(data: bytes) -> str:
    return _BLANKS.sub(" ", data.decode("utf-8", "ignore"))
