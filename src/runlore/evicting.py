"""Lets sessions leave as `retain` decides. What only their events know is written down first: every report stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from .adapters import is_appended
from .leaks import secrets_of
from .model import BLOCK
from .store import Store
from .usage.waste import marks_of


def let_go(store: Store, uids: Sequence[str]) -> None:
    """Evicts these. Killed in between, those that have not left yet are still whole."""
    rewound = store.rewound()
    for uid in uids:
        _remember(store, uid, is_rewound=uid in rewound)
    store.evict(uids, datetime.now(UTC), is_appended)


def _remember(store: Store, uid: str, *, is_rewound: bool) -> None:
    digest, session = store.digest(uid), store.session(uid)
    if digest is None or session is None:
        return
    is_evicted = session.evicted_at is not None
    ends: dict[int, int] = {}
    for event in store.events(uid):
        ends[event.seq // BLOCK] = event.seq
    marks = marks_of(store, uid, store.billed(uid), is_evicted=is_evicted)
    # Of one with lines that were left, this is said also where no call lies on them: `usage --wasted` looks at its calls for that.
    waste = {name: seqs for name, seqs in marks.items() if seqs or name in digest.waste or (name == "abandoned" and is_rewound)}
    secrets = secrets_of(store, uid, is_evicted=is_evicted)
    known = msgspec.structs.replace(digest, waste=waste, secrets=secrets, ends=tuple(ends.values()), before=None)
    if known != digest:
        store.put_digest(known, digest.made_at or datetime.now(UTC))
