"""The places where secrets were redacted, from the marks in what is stored. The secrets themselves
are not known here."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from ..store import Filter, SessionLine, Store

MAX_EVENTS = 20
"""Events shown as examples, for one kind of secret in one session."""

MAX_SECRETS = 1000
"""Hashes stored for one kind of secret in one session. Further ones are only counted."""

UNLISTED = "secrets: "
"""Begins the name under which a digest counts the secrets beyond MAX_SECRETS; the kind follows."""

_MARK = re.compile(rb"\[redacted:([^\s:\]]{1,64}):([0-9a-f]{6})\]")
_WORD = "redacted"


def describe_kind(kind: str) -> str:
    """Return the name of a kind of secrets, with an example where it does not explain itself."""
    return f"{kind} (password=…)" if kind == "assigned" else kind


class Leak(msgspec.Struct, frozen=True, kw_only=True):
    """Secrets of one kind in one session: their number, the different ones, and their events."""

    line: SessionLine
    kind: str
    count: int
    hashes: tuple[str, ...]
    """A keyed hash of each, by which a secret is recognized in another session."""
    events: tuple[int, ...]
    """The first twenty events that hold one."""


class Redactions:
    """Secrets of one kind in one session, while they are collected.

    `hashes` has the hash of every occurrence, `unlisted` is the number of those beyond the limit.
    """

    def __init__(
        self, hashes: Sequence[str] = (), events: Sequence[int] = (), unlisted: int = 0
    ) -> None:
        self.hashes, self.events = list(hashes), set(events)
        self.unlisted = unlisted

    def add(self, match: re.Match[bytes], seq: int | None) -> None:
        if len(self.hashes) < MAX_SECRETS:
            self.hashes.append(match[2].decode())
        else:
            self.unlisted += 1
        if seq is not None:
            self.events.add(seq)

    @property
    def first_events(self) -> tuple[int, ...]:
        return tuple(sorted(self.events)[:MAX_EVENTS])


def redactions_of(store: Store, uid: str, *, is_evicted: bool) -> dict[str, Redactions]:
    """Return the secrets that were redacted in a session, by kind.

    Copied events count in the session where they happened. For evicted events the digest is asked.
    """
    digest = store.digests.get(uid) if is_evicted else None
    before = digest and (digest.before or digest)
    by_kind: dict[str, Redactions] = {}
    if before:
        for kind, hashes in before.secrets.items():
            by_kind[kind] = Redactions(
                hashes, before.secrets_at.get(kind, ()), before.cut.get(UNLISTED + kind, 0)
            )
    for seq, body in store.digests.timeline(uid)[1].items():
        if "[redacted:" in body and not (before and before.knows(seq)):
            for match in _MARK.finditer(body.encode("utf-8", "replace")):
                by_kind.setdefault(_kind(match), Redactions()).add(match, seq)
    return dict(sorted(by_kind.items()))


def leaks(store: Store, chosen: Filter) -> list[Leak]:
    """Return the secrets that were redacted in these sessions, newest session first."""
    evicted = _in_evicted(store, chosen)
    by_session = {
        (number, kind): each for number, kinds in evicted.items() for kind, each in kinds.items()
    }
    numbers = store.sessions.numbers(chosen) - evicted.keys()
    for segment_id in store.index.postings(_WORD):
        if segment_id >> 20 in numbers:
            _add_segment(store, segment_id, by_session)
    lines = store.sessions.lines(list({session for session, _ in by_session}))
    order = {number: n for n, number in enumerate(store.sessions.newest(list(lines)))}
    return [
        Leak(
            line=lines[session],
            kind=kind,
            count=len(each.hashes) + each.unlisted,
            hashes=tuple(sorted(set(each.hashes))),
            events=each.first_events,
        )
        for (session, kind), each in sorted(
            by_session.items(), key=lambda item: (order[item[0][0]], item[0][1])
        )
    ]


def _in_evicted(store: Store, chosen: Filter) -> dict[int, dict[str, Redactions]]:
    """Return the redactions of evicted sessions, by the number of the session."""
    evicted = store.retention.evicted() & set(store.sessions.uids(chosen))
    if not evicted:
        return {}
    return {
        number: redactions_of(store, line.uid, is_evicted=True)
        for number, line in store.sessions.lines(sorted(store.sessions.numbers(chosen))).items()
        if line.uid in evicted
    }


def _add_segment(
    store: Store, segment_id: int, by_session: dict[tuple[int, str], Redactions]
) -> None:
    segment = store.index.segment(segment_id, files=False)
    if segment is None:
        return
    data, events = segment
    starts = [event.offset for event in events]
    for match in _MARK.finditer(data):
        at = bisect_right(starts, match.start()) - 1
        key = (segment_id >> 20, _kind(match))
        by_session.setdefault(key, Redactions()).add(match, events[at].seq if at >= 0 else None)


def _kind(match: re.Match[bytes]) -> str:
    return match[1].decode("utf-8", "replace")
