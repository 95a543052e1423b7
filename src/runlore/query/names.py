"""The short ids by which people know sessions: as much of an id as names it alone."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from ..store import Filter, SessionLine, Store

MIN_ID = 8
"""Characters of an id in a listing. People remember them at a glance, and they are unique among ten
thousand random ids."""

WHOLE_ID = 12
"""Ids up to this length are not shortened: people gave names like `report-12`."""

MAX_ID, MAX_OWN = 40, 20
"""Longer ids are shown as handles, because they would take all other columns from a table. The
second limit is for the session's own part of a subagent's name."""

HANDLE = "+"
"""Begins a handle. Shells leave it as it is."""

MAX_BEGINNINGS = 500
"""For up to this many different beginnings the store is asked for the sessions that have one of
them; for more, for all sessions."""


def names(store: Store, uids: Sequence[str]) -> dict[str, str]:
    """Return, by uid, the short id that names each session alone."""
    return dict(zip(uids, shorten(uids, _similar(store, uids)), strict=True))


def short_ids(store: Store, lines: Sequence[SessionLine], *, is_all: bool = False) -> list[str]:
    """Return the short id that names each line alone. `is_all` says that there are no others."""
    uids = [line.uid for line in lines]
    return shorten(uids, uids if is_all else _similar(store, uids))


def shorten(uids: Sequence[str], others: Iterable[str]) -> list[str]:
    """Return for each uid the shortest beginning of its native id that no other one shares.

    A session and its subagents `id/…` share one id. The name of the agent is put before an id that
    two agents use.
    """
    agents: dict[str, set[str]] = {}
    for uid in (*others, *uids):
        agent, above, _ = _parts(uid)
        agents.setdefault(above, set()).add(agent)
    everyone = sorted(agents)
    alike = Counter(above[:MIN_ID] for above in everyone)
    short = []
    for uid in uids:
        agent, above, below = _parts(uid)
        length = MIN_ID if len(above) > WHOLE_ID else len(above)
        if alike[above[:MIN_ID]] > 1:
            at = bisect_left(everyone, above)
            neighbours = everyone[max(0, at - 1) : at] + everyone[at + 1 : at + 2]
            while length < len(above) and any(
                other.startswith(above[:length]) for other in neighbours
            ):
                length += 1
        name = f"{agent}:" * (len(agents[above]) > 1) + above[:length] + below
        short.append(name if length <= MAX_OWN and len(name) <= MAX_ID else handle(uid))
    return short


def _parts(uid: str) -> tuple[str, str, str]:
    """Return the agent of a uid, the id of the session, and what follows for a subagent."""
    agent, _, native = uid.partition(":")
    above, slash, below = native.partition("/")
    return agent, above, slash + below


def handle(uid: str) -> str:
    """Return a short name for a session with a very long id.

    Some agents name a session after everything that it was given.
    """
    return HANDLE + blake2b(uid.encode("utf-8", "replace"), digest_size=4).hexdigest()


def _similar(store: Store, uids: Sequence[str]) -> list[str]:
    """Return the uids that begin like these; all uids if these are many."""
    begins = {uid.partition(":")[2][:MIN_ID].partition("/")[0] for uid in uids}
    is_few = len(begins) <= MAX_BEGINNINGS
    return store.sessions.uids(
        Filter(parents_only=False, beginnings=tuple(sorted(begins)) if is_few else ())
    )
