"""Where secrets were found, never what they were. Told by the marks that the redaction left in what is stored."""

from __future__ import annotations

import re
from bisect import bisect_right

import msgspec

from .store import Filter, SessionLine, Store

MOST_EVENTS = 20
"""Of one kind in one session, as examples."""

MOST_SECRETS = 1000
"""Of one kind in one session."""

_MARK = re.compile(rb"\[redacted:([^\s:\]]{1,64}):([0-9a-f]{6})\]")
_WORD = "redacted"


class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """Secrets of one kind in one session: how often they stand there, how many different ones, and where."""

    line: SessionLine
    kind: str
    count: int
    hashes: tuple[str, ...]
    """A keyed hash of each, by which one secret is known again in another session."""
    events: tuple[int, ...]


class _Seen:
    def __init__(self) -> None:
        self.count = 0
        self.hashes: set[str] = set()
        self.events: set[int] = set()


def secrets_of(store: Store, uid: str, *, is_evicted: bool) -> dict[str, tuple[str, ...]]:
    """By kind, the hash of each that was redacted in a session, as often as it was. What is a copy is told where it happened, and what
    has left is told by its digest."""
    digest = store.digest(uid) if is_evicted else None
    before = digest and (digest.before or digest)
    found = {kind: list(hashes) for kind, hashes in before.secrets.items()} if before else {}
    for seq, body in store.timeline(uid)[1].items():
        if "[redacted:" in body and not (before and before.knows(seq)):
            for match in _MARK.finditer(body.encode("utf-8", "replace")):
                found.setdefault(match[1].decode("utf-8", "replace"), []).append(match[2].decode())
    return {kind: tuple(hashes[:MOST_SECRETS]) for kind, hashes in sorted(found.items())}


def leaks(store: Store, chosen: Filter) -> list[Leak]:
    """What was redacted in these sessions, the newest first, then by kind. Of what has left, where it stood is not known any more."""
    evicted = store.evicted() & set(store.uids(chosen))
    numbers = store.numbers(chosen)
    found: dict[tuple[int, str], _Seen] = {}
    for number, line in store.lines(sorted(store.numbers(chosen))).items() if evicted else ():
        if line.uid in evicted:
            numbers.discard(number)
            for kind, hashes in secrets_of(store, line.uid, is_evicted=True).items():
                seen = found.setdefault((number, kind), _Seen())
                seen.count, seen.hashes = len(hashes), set(hashes)
    for id_ in store.postings(_WORD):
        session = id_ >> 20
        segment = store.segment(id_, files=False) if session in numbers else None
        if segment is None:
            continue
        data, events = segment
        starts = [event.offset for event in events]
        for match in _MARK.finditer(data):
            seen = found.setdefault((session, match[1].decode("utf-8", "replace")), _Seen())
            seen.count += 1
            seen.hashes.add(match[2].decode())
            if (at := bisect_right(starts, match.start()) - 1) >= 0:
                seen.events.add(events[at].seq)
    lines = store.lines(list({session for session, _ in found}))
    order = {number: n for n, number in enumerate(store.newest(list(lines)))}
    return [
        Leak(
            line=lines[session],
            kind=kind,
            count=seen.count,
            hashes=tuple(sorted(seen.hashes)),
            events=tuple(sorted(seen.events)[:MOST_EVENTS]),
        )
        for (session, kind), seen in sorted(found.items(), key=lambda item: (order[item[0][0]], item[0][1]))
    ]
