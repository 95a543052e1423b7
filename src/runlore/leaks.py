"""Where secrets were found, never what they were. Told by the marks that the redaction left in what
is stored."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from .store import Filter, SessionLine, Store

MOST_EVENTS = 20
"""Of one kind in one session, as examples."""

MOST_SECRETS = 1000
"""Of one kind in one session: of more it is only known how many there were."""

CUT = "secrets: "
"""With the kind behind it, the name under which a digest says that."""

_MARK = re.compile(rb"\[redacted:([^\s:\]]{1,64}):([0-9a-f]{6})\]")
_WORD = "redacted"


class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """Secrets of one kind in one session: how often they stand there, how many different ones, and
    where."""

    line: SessionLine
    kind: str
    count: int
    hashes: tuple[str, ...]
    """A keyed hash of each, by which one secret is known again in another session."""
    events: tuple[int, ...]


class Found:
    """Secrets of one kind in one session, while they are collected: the hash of each, as often as
    it stands there, and the events."""

    def __init__(
        self, hashes: Sequence[str] = (), events: Sequence[int] = (), cut: int = 0
    ) -> None:
        self.hashes, self.events = list(hashes), set(events)
        self.cut = cut
        """How many more there were."""

    def add(self, match: re.Match[bytes], seq: int | None) -> None:
        if len(self.hashes) < MOST_SECRETS:
            self.hashes.append(match[2].decode())
        else:
            self.cut += 1
        if seq is not None:
            self.events.add(seq)

    @property
    def first(self) -> tuple[int, ...]:
        return tuple(sorted(self.events)[:MOST_EVENTS])


def secrets_of(store: Store, uid: str, *, is_evicted: bool) -> dict[str, Found]:
    """By kind, what was redacted in a session. What is a copy is told where it happened, and what
    has left is told by its digest."""
    digest = store.digests.get(uid) if is_evicted else None
    before = digest and (digest.before or digest)
    found: dict[str, Found] = {}
    if before:
        for kind, hashes in before.secrets.items():
            found[kind] = Found(
                hashes, before.secrets_at.get(kind, ()), before.cut.get(CUT + kind, 0)
            )
    for seq, body in store.digests.timeline(uid)[1].items():
        if "[redacted:" in body and not (before and before.knows(seq)):
            for match in _MARK.finditer(body.encode("utf-8", "replace")):
                found.setdefault(_kind(match), Found()).add(match, seq)
    return dict(sorted(found.items()))


def _kind(match: re.Match[bytes]) -> str:
    return match[1].decode("utf-8", "replace")


def leaks(store: Store, chosen: Filter) -> list[Leak]:
    """What was redacted in these sessions, the newest first, then by kind."""
    evicted = store.retention.evicted() & set(store.sessions.uids(chosen))
    numbers = store.sessions.numbers(chosen)
    found: dict[tuple[int, str], Found] = {}
    for number, line in (
        store.sessions.lines(sorted(store.sessions.numbers(chosen))).items() if evicted else ()
    ):
        if line.uid in evicted:
            numbers.discard(number)
            found |= {
                (number, kind): seen
                for kind, seen in secrets_of(store, line.uid, is_evicted=True).items()
            }
    for id_ in store.index.postings(_WORD):
        session = id_ >> 20
        segment = store.index.segment(id_, files=False) if session in numbers else None
        if segment is None:
            continue
        data, events = segment
        starts = [event.offset for event in events]
        for match in _MARK.finditer(data):
            at = bisect_right(starts, match.start()) - 1
            found.setdefault((session, _kind(match)), Found()).add(
                match, events[at].seq if at >= 0 else None
            )
    lines = store.sessions.lines(list({session for session, _ in found}))
    order = {number: n for n, number in enumerate(store.sessions.newest(list(lines)))}
    return [
        Leak(
            line=lines[session],
            kind=kind,
            count=len(seen.hashes) + seen.cut,
            hashes=tuple(sorted(set(seen.hashes))),
            events=seen.first,
        )
        for (session, kind), seen in sorted(
            found.items(), key=lambda item: (order[item[0][0]], item[0][1])
        )
    ]
