"""The digest of a session as it is stored now. Nothing is written."""

from __future__ import annotations

from ..config import Quality
from ..model import DIGEST_VERSION, Digest
from ..store import Store
from ..store.outcomes import overrule
from .sessions import get


def build_digest(store: Store, uid: str, limits: Quality) -> Digest | None:
    """Return the digest of a session as it is stored now; None if there is nothing to digest.

    For an evicted session, the digest at its eviction is joined with what came since.
    """
    # The digest room compiles a hundred patterns. Faces that show a stored digest need none.
    from ..digest.join import join
    from ..digest.session import make

    session = store.sessions.get(uid)
    if session is None:
        return None
    events, bodies = store.digests.timeline(uid)
    stored = store.digests.get(uid) if session.evicted_at else None
    if session.evicted_at and not events:
        return stored
    if stored is None:
        return make(session, events, bodies, limits)
    before = stored.before or stored
    new = [event for event in events if not before.knows(event.seq)]
    return join(before, make(session, new, bodies, limits), session)


def current_digest(store: Store, uid: str, limits: Quality) -> Digest | None:
    """Return the digest of a session, built now if the stored one does not cover everything.

    Its outcome is the one that is shown, by a person's mark or by git if there is one. None if
    there is neither a digest nor anything to digest. Raises NotFound.
    """
    session, stored = get(store, uid), store.digests.get(uid)
    is_current = stored is not None and not session.is_stale and stored.version >= DIGEST_VERSION
    is_stored = is_current or session.last_seq < 0
    digest = stored if is_stored else build_digest(store, uid, limits)
    return None if digest is None else overrule(digest, session)
