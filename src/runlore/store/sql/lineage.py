"""Sessions with the same events, once their ages are known.

While a source grows, its session may turn out to be younger than one that has copies of it. Nothing
here derives anything: what is stored in the wrong place is marked, and the sync does the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from ..copies import Claim
from ..known import Known, KnownSession
from ..rows import copied
from ..values import STALE_COPIES
from .database import Database
from .lookup import Lookup

_HAS_COPIES = "relation in ('fork', 'continuation')"

_ORPHANS = (
    f"select number from sessions s where parent_uid is not null and {_HAS_COPIES} and not exists"
    " (select 1 from sessions p where p.uid = s.parent_uid)"
)
"""Finds sessions with copies that come from a session which is not stored."""


class Lineage:
    """Finds sessions that have copies of a younger session."""

    def __init__(self, db: Database, lookup: Lookup) -> None:
        self._db, self._lookup = db, lookup

    def mark_stale(self, uids: Collection[str], quiet_since: datetime) -> int:
        """Mark the sources of sessions that refer to a younger one, if one of these has changed.

        Sessions that were written to since `quiet_since` are left as they are: which of two is the
        older one may follow from where they end. Return the number of sources.
        """
        numbers = self._family(uids) if uids else []
        if not numbers:
            return 0
        known = Known()
        self._lookup.read_sessions(known, numbers)
        forks = list(known.by_number.values())
        others = {uid for fork in forks for uid in _forebears(fork)} - known.sessions.keys()
        if others:
            test, names = self._db.among("uid", others)
            rows = self._db.all(f"select number from sessions where {test}", (names,))
            self._lookup.read_sessions(known, [number for (number,) in rows])
        stale = {
            stream.source
            for fork in forks
            for origin in _younger_origins(fork, known, quiet_since)
            if self._has_misplaced(fork, origin)
            for session in (fork, origin)
            for stream in session.streams.values()
            if stream.hash
        }
        sql = "update sources set adapter_version = ? where number = ?"
        with self._db.transaction():
            self._db.executemany(sql, [(STALE_COPIES, source) for source in sorted(stale)])
        return len(stale)

    def _family(self, uids: Collection[str]) -> list[int]:
        """Return the numbers of all sessions with copies that are related to these: ancestors,
        descendants, and descendants of the same ancestors.

        The age of a session depends on its ancestors. The ancestor that the agent names may not be
        the session that has the events. If that ancestor is not stored, any session may have them.
        """
        numbers = {number for (number,) in self._db.all(_ORPHANS)}
        names, new = set(uids), set(uids)
        while new:
            (of_own, own), (of_parent, parents) = (
                self._db.among(column, new) for column in ("uid", "parent_uid")
            )
            sql = f"select number, uid, parent_uid from sessions where {_HAS_COPIES} and"
            rows = self._db.all(f"{sql} ({of_own} or {of_parent})", (own, parents))
            numbers |= {number for number, _, _ in rows}
            new = {uid for _, *both in rows for uid in both if uid is not None} - names
            names |= new
        return sorted(numbers)

    def _has_misplaced(self, fork: KnownSession, origin: KnownSession) -> bool:
        """Return True if some events of the younger session `origin` belong to the older `fork`:
        those that the agent does not mark as copies there, or marks in both."""
        sql = 'select rest from events where session = ? and "offset" is null'
        rows = (copied(rest) for (rest,) in self._db.all(sql, (fork.number,)))
        name = f"{origin.uid}#"
        is_marked = {
            int(at.removeprefix(name)): original is not None
            for at, original in rows
            if at and at.startswith(name)
        }
        if not all(is_marked.values()):
            return True
        sql = "select rest from events where session = ? and seq in (select value from carray(?))"
        originals = self._db.all(sql, (origin.number, self._db.ids(is_marked)))
        return any(copied(rest)[1] is not None for (rest,) in originals)


def _forebears(session: KnownSession) -> Iterator[str]:
    """Yield the sessions that a session has copies of, and the one that it comes from."""
    yield from _origins(session)
    if session.declared_parent is not None:
        yield session.declared_parent


def _origins(session: KnownSession) -> Iterator[str]:
    for _, tally in session.parts():
        yield from tally.origins


def _younger_origins(
    fork: KnownSession, known: Known, quiet_since: datetime
) -> Iterator[KnownSession]:
    """Yield the sessions that a session has copies of although they are younger."""
    for uid in _origins(fork) if _is_free(fork, known, quiet_since) else ():
        origin = known.sessions.get(uid)
        if origin is None or not _is_free(origin, known, quiet_since):
            continue
        if _claim(fork, known).sort_key < _claim(origin, known).sort_key:
            yield origin


def _is_free(session: KnownSession, known: Known, quiet_since: datetime) -> bool:
    """Return True if a session is at rest and can be derived again."""
    ends = [tally.reached_at for _, tally in session.parts() if tally.reached_at is not None]
    is_quiet = max(ends, default=quiet_since) <= quiet_since
    return is_quiet and not session.is_evicted and known.can_be_derived_again(session)


def _claim(session: KnownSession, known: Known) -> Claim:
    return Claim(session.uid, is_copy=False, age=known.age(session))
