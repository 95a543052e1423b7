"""Lets sessions leave as `retain` decides. What only their events know is written down first: every report stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from .leaks import secrets_of
from .store import Store
from .usage.waste import marks_of


def let_go(store: Store, uids: Sequence[str]) -> None:
    """Evicts these. Killed in between, those that have not left yet are still whole."""
    for uid in uids:
        _remember(store, uid)
    store.evict(uids, datetime.now(UTC))


def _remember(store: Store, uid: str) -> None:
    digest = store.digest(uid)
    session = store.session(uid)
    if digest is None or session is None or session.evicted_at is not None:
        return
    waste = {name: seqs for name, seqs in marks_of(store, uid, store.billed(uid)).items() if seqs}
    known = msgspec.structs.replace(digest, waste=waste, secrets=secrets_of(store, uid))
    if known != digest:
        store.put_digest(known, digest.made_at or datetime.now(UTC))
