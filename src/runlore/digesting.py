"""The digests' part of a sync: what is stale and quiet is made again, in worker processes when there is much of it.

Between the store, which keeps, and `digest`, which computes. It can be run twice or be killed: what was put is there, the rest is still
stale. The cost is that of the sessions that changed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from ._findings import DIGEST_VERSION
from .config import Config, Quality
from .errors import StoreLost
from .model import Digest
from .store import Store, open_store
from .timeline import PAUSE

if TYPE_CHECKING:
    from .pipeline import Progress

WORKERS_FROM = 64
"""Sessions. Fewer are done before processes would have been started."""
AHEAD = 32
"""Sessions that the workers may be ahead of the writer."""
COMMIT = 200
"""Digests in a transaction: a killed sync loses no more."""


class _Setting(msgspec.Struct):
    """What a worker needs to know."""

    url: str
    limits: Quality


class _Made(msgspec.Struct):
    """A digest, or why there is none: neither for a session that is gone."""

    uid: str
    digest: Digest | None = None
    problem: str | None = None


def digest_stale(
    store: Store, config: Config, *, workers: int | None = None, quiet_s: float = PAUSE.total_seconds(), progress: Progress | None = None
) -> tuple[int, list[tuple[str, str]]]:
    """Makes every digest that is missing, of older rules, or of less than what is stored. How many, and (uid, reason) of those
    that could not be made: they are tried again by the next sync."""
    now = datetime.now(UTC)
    stale = store.stale_digests(DIGEST_VERSION, now - timedelta(seconds=quiet_s))
    if not stale:
        return 0, []
    if progress:
        progress.start(len(stale), 0, "digests")
    count, problems = 0, []
    if workers is None:
        workers = (os.cpu_count() or 1) if len(stale) >= WORKERS_FROM else 0
    made = _made(store, config, stale, workers)
    # What the sync has written is brought into the file meanwhile. It has a thread, with which no workers are to be forked.
    with nullcontext() if workers else store.bulk():
        for _ in range(0, len(stale), COMMIT):
            with store.transaction():
                for _, one in zip(range(COMMIT), made, strict=False):  # In this order: else one more would be taken, and lost.
                    if one.digest is not None:
                        store.put_digest(one.digest, now)
                        count += 1
                    if one.problem is not None:
                        problems.append((one.uid, one.problem))
                    if progress:
                        progress.advance(1, 0)
    return count, problems


def _made(store: Store, config: Config, uids: Sequence[str], workers: int) -> Iterator[_Made]:
    """In the order of the uids, made here or by workers."""
    url = config.store if "://" in config.store else store.url
    if not workers or ("://" in config.store) != ("://" in store.url):
        yield from (_make(store, uid, config.quality) for uid in uids)
        return
    from ._pool import Pool

    decode = msgspec.msgpack.Decoder(_Made).decode
    todo = deque(uids)
    with ExitStack() as stack:
        pool = Pool(workers, start, _Setting(url, config.quality))
        stack.callback(pool.close)
        flying = 0
        while todo or flying:
            while todo and flying < AHEAD:
                pool.submit(todo.popleft().encode())
                flying += 1
            flying -= 1
            yield decode(pool.next())


def start(setting: _Setting) -> Callable[[bytes], bytes]:
    """In a worker: from a uid to a `_Made`. The store is opened with the first one, because a connection cannot be inherited."""
    from .digest import session as _  # noqa: F401  # Compiles its patterns once, before there are workers.

    opened: list[Store] = []

    def make(uid: bytes) -> bytes:
        if not opened:
            opened.append(open_store(setting.url, read_only=True))
        return msgspec.msgpack.encode(_make(opened[0], uid.decode(), setting.limits))

    return make


def _make(store: Store, uid: str, limits: Quality) -> _Made:
    try:
        return _Made(uid, digest=digest_of(store, uid, limits))
    except StoreLost:  # The sync begins anew.
        raise
    except Exception as error:  # Any text may be in a session, and a segment may be damaged: that costs its digest, and not the sync.
        return _Made(uid, problem=f"its digest cannot be made: {type(error).__name__}: {error}")


def digest_of(store: Store, uid: str, limits: Quality) -> Digest | None:
    """The digest of a session as it is stored now; None when there is nothing to make one from. Of one that was evicted, what was
    known when it was, and what came since."""
    from .digest.session import make

    session = store.session(uid)
    if session is None:
        return None
    events, bodies = store.timeline(uid)
    kept = store.digest(uid) if session.evicted_at else None
    if session.evicted_at and not events:
        return kept
    if kept is None:
        return make(session, events, bodies, limits)
    from .digest.join import join

    before = kept.before or kept
    return join(before, make(session, [event for event in events if not before.knows(event.seq)], bodies, limits), session)
