"""Sessions with the same events, once their ages are known.

While a source grows, its session may turn out to be younger than one that has copies of it. Nothing
here derives anything: what is stored in the wrong place is marked, and the sync does the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..copies import Claim
from ..known import Known, KnownSession, age_of
from ..rows import copied
from ..values import STALE_COPIES
from .database import Database
from .lookup import Lookup

_HAS_COPIES = "relation in ('fork', 'continuation')"


class Lineage:
    """Finds sessions that have copies of a younger session."""

    def __init__(self, db: Database, lookup: Lookup) -> None:
        self._db, self._lookup = db, lookup

    def mark_stale(self, uids: Collection[str]) -> int:
        """Mark the sources of sessions that refer to a younger one, if some of these have changed.

        Return the number of sources.
        """
        if not uids or not self._concerns_forks(uids):
            return 0
        known = Known()
        rows = self._db.all(f"select number from sessions where {_HAS_COPIES}")
        self._lookup.read_sessions(known, [number for (number,) in rows])
        forks = list(known.by_number.values())
        origins = {uid for fork in forks for uid in _origins(fork)} - known.sessions.keys()
        if origins:
            test, names = self._db.among("uid", origins)
            rows = self._db.all(f"select number from sessions where {test}", (names,))
            self._lookup.read_sessions(known, [number for (number,) in rows])
        stale = {
            stream.source
            for fork in forks
            for origin in _younger_origins(fork, known)
            if self._has_silent_copies(fork, origin)
            for session in (fork, origin)
            for stream in session.streams.values()
            if stream.hash
        }
        sql = "update sources set adapter_version = ? where number = ?"
        with self._db.transaction():
            self._db.executemany(sql, [(STALE_COPIES, source) for source in sorted(stale)])
        return len(stale)

    def _concerns_forks(self, uids: Collection[str]) -> bool:
        (of_own, own), (of_parent, parents) = (
            self._db.among(column, uids) for column in ("uid", "parent_uid")
        )
        sql = f"select 1 from sessions where {_HAS_COPIES} and ({of_own} or {of_parent}) limit 1"
        return self._db.one(sql, (own, parents)) is not None

    def _has_silent_copies(self, fork: KnownSession, origin: KnownSession) -> bool:
        """Return True if the agent does not mark some of these events as copies."""
        sql = 'select rest from events where session = ? and "offset" is null'
        rows = (copied(rest) for (rest,) in self._db.all(sql, (fork.number,)))
        name = f"{origin.uid}#"
        return any(original is None for at, original in rows if at and at.startswith(name))


def _origins(session: KnownSession) -> Iterator[str]:
    for _, tally in session.parts():
        yield from tally.origins


def _younger_origins(fork: KnownSession, known: Known) -> Iterator[KnownSession]:
    """Yield the sessions that a session has copies of although they are younger."""
    for uid in _origins(fork) if _is_free(fork, known) else ():
        origin = known.sessions.get(uid)
        if origin is None or not _is_free(origin, known):
            continue
        if _claim(fork).compare(_claim(origin)) < 0:
            yield origin


def _is_free(session: KnownSession, known: Known) -> bool:
    return not session.is_evicted and known.can_be_derived_again(session)


def _claim(session: KnownSession) -> Claim:
    age = age_of(session.parts())
    return Claim(session.uid, session.declared_parent, is_copy=False, age=age)
