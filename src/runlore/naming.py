"""The short ids by which people know sessions: as much of an id as names it alone."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from .store import Filter, SessionLine, Store

SHORTEST_ID = 8
"""Of the ids in a listing: that many are remembered at a glance, and unique among ten thousand
random ones."""

WHOLE_ID = 12
"""One that people gave, like `report-12`, is better whole than cut a letter before its end."""

LONGEST_ID, LONGEST_OWN = 40, 20
"""What is longer, however much of it is needed, is shown as a handle: two that end differently
would take all other columns from a table. The second is for the session's own part of a subagent's
name."""

HANDLE = "+"
"""Shells leave it as it is."""

FEW = 1000
"""Sessions to list: for so many we ask one by one which others begin alike."""


def names(store: Store, uids: Sequence[str]) -> dict[str, str]:
    """Of each uid the short id that names it alone."""
    return dict(zip(uids, _shortened(uids, _beside(store, uids)), strict=True))


def short_ids(store: Store, lines: Sequence[SessionLine], *, is_all: bool = False) -> list[str]:
    """Of each line, the shortest beginning of its native id that names it alone. `is_all` when
    there are no other lines."""
    uids = [line.uid for line in lines]
    return _shortened(uids, uids if is_all else _beside(store, uids))


def _shortened(uids: Sequence[str], others: Iterable[str]) -> list[str]:
    """Of each uid, the shortest beginning of its native id that is not how another of these
    begins."""
    everyone = sorted(uid.partition(":")[2] for uid in others)
    alike = Counter(native[:SHORTEST_ID] for native in everyone)
    short = []
    for uid in uids:
        above, slash, below = uid.partition(":")[2].partition("/")
        length = SHORTEST_ID if len(above) > WHOLE_ID else len(above)
        if alike[above[:SHORTEST_ID]] > 1:
            at = bisect_left(everyone, above)
            beside = everyone[max(0, at - 1) : at] + everyone[at + 1 : at + 2]
            while length < len(above) and any(other.startswith(above[:length]) for other in beside):
                length += 1
        name = f"{above[:length]}{slash}{below}"
        short.append(name if length <= LONGEST_OWN and len(name) <= LONGEST_ID else handle(uid))
    return short


def handle(uid: str) -> str:
    """A short name for a session whose id takes up half of a screen: some agents name a session
    after all that it was given."""
    return HANDLE + blake2b(uid.encode("utf-8", "replace"), digest_size=4).hexdigest()


def _beside(store: Store, uids: Sequence[str]) -> Iterable[str]:
    """The uids that begin like these, or simply all. Among 10,000 asking for 50 takes 0.5 ms and
    for all 30 ms."""
    if len(uids) > FEW:
        return store.sessions.uids(Filter())
    begins = {uid.partition(":")[2][:SHORTEST_ID].partition("/")[0] for uid in uids}
    return {uid for begin in begins for uid in store.sessions.uids(Filter(name=begin))}
