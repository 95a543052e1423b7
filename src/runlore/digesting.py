"""The digests' part of a sync: what is stale and quiet is made again, in worker processes when
there is much of it.

Between the store, which keeps, and `digest`, which computes. It can be run twice or be killed: what
was put is there, the rest is still stale. The cost is that of the sessions that changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from .config import Config, Quality
from .errors import NotFound, StoreLost
from .model import DIGEST_VERSION, Digest
from .store import Store, open_store
from .tasks import start_workers
from .timeline import PAUSE
from .workers import Workers, default_workers, result_of

if TYPE_CHECKING:
    from .pipeline import Progress

WORKERS_FROM = 64
"""Fewer stale sessions are digested here."""
JOBS_AHEAD = 4
"""Jobs that each worker may be ahead of the writer."""
MIN_SESSIONS = 16
"""Sessions in a job. A worker opens the store for each job."""
COMMIT = 200
"""Digests in a transaction, and at most in a job: a killed sync loses no more."""


class _Made(msgspec.Struct):
    """A digest, or why there is none: neither for a session that is gone."""

    uid: str
    digest: Digest | None = None
    problem: str | None = None


def digest_stale(
    store: Store,
    config: Config,
    *,
    workers: int | None = None,
    quiet_s: float = PAUSE.total_seconds(),
    progress: Progress | None = None,
    running: Workers | None = None,
) -> tuple[int, list[tuple[str, str]]]:
    """Make every digest that is missing, of older rules, or of less than what is stored.

    `running` are workers to use; without any, `workers` of them are started, or as many as are
    worth it. Return how many digests were made, and (uid, reason) of those that could not be: the
    next sync tries these again.
    """
    now = datetime.now(UTC)
    stale = store.digests.stale(DIGEST_VERSION, now - timedelta(seconds=quiet_s))
    if not stale:
        return 0, []
    if progress:
        progress.start(len(stale), 0, "digests")
    if workers is None:
        workers = default_workers() if len(stale) >= WORKERS_FROM else 0
    count, problems = 0, []
    with ExitStack() as stack:
        if workers and running is None and (running := start_workers(config, workers)):
            stack.callback(running.close)
        made = _made(store, config, stale, running)
        for _ in range(0, len(stale), COMMIT):
            with store.transaction():
                # In this order: else one more would be taken, and lost.
                for _, one in zip(range(COMMIT), made, strict=False):
                    if one.digest is not None:
                        store.digests.put(one.digest, now)
                        count += 1
                    if one.problem is not None:
                        problems.append((one.uid, one.problem))
                    if progress:
                        progress.advance(1, 0)
    return count, problems


def _made(
    store: Store, config: Config, uids: Sequence[str], workers: Workers | None
) -> Iterator[_Made]:
    """Make the digests, here or in workers, in the order of the uids."""
    in_server = "://" in store.url
    if workers is None or ("://" in config.store) != in_server:
        yield from (_make(store, uid, config.quality) for uid in uids)
        return
    # The url of a server comes without its password.
    url = config.store if in_server else store.url
    size = min(COMMIT, max(MIN_SESSIONS, -(-len(uids) // (workers.count * JOBS_AHEAD))))
    jobs = deque(uids[at : at + size] for at in range(0, len(uids), size))
    submitted: deque[Future[bytes]] = deque()
    while jobs or submitted:
        while jobs and len(submitted) < JOBS_AHEAD * workers.count:
            submitted.append(workers.submit(_make_in_worker, url, jobs.popleft(), config.quality))
        yield from msgspec.msgpack.decode(result_of(submitted.popleft()), type=list[_Made])


def _make_in_worker(url: str, uids: Sequence[str], limits: Quality) -> bytes:
    """Return a packed list of `_Made`. The store is opened for each job: a connection cannot be
    inherited, and the last process to close a store tidies it up."""
    with closing(open_store(url, read_only=True)) as store:
        return msgspec.msgpack.encode([_make(store, uid, limits) for uid in uids])


def _make(store: Store, uid: str, limits: Quality) -> _Made:
    try:
        return _Made(uid, digest=digest_of(store, uid, limits))
    except StoreLost:  # The sync begins anew.
        raise
    except Exception as error:
        # Any text may be in a session, and a segment may be damaged: that costs its digest, and not
        # the sync.
        return _Made(uid, problem=f"its digest cannot be made: {type(error).__name__}: {error}")


def digest_of(store: Store, uid: str, limits: Quality) -> Digest | None:
    """The digest of a session as it is stored now; None when there is nothing to make one from. Of
    one that was evicted, what was known when it was, and what came since."""
    # The digest room compiles a hundred patterns, and a sync with nothing new needs none.
    from .digest.join import join
    from .digest.session import make

    session = store.sessions.get(uid)
    if session is None:
        return None
    events, bodies = store.digests.timeline(uid)
    kept = store.digests.get(uid) if session.evicted_at else None
    if session.evicted_at and not events:
        return kept
    if kept is None:
        return make(session, events, bodies, limits)
    before = kept.before or kept
    return join(
        before,
        make(session, [event for event in events if not before.knows(event.seq)], bodies, limits),
        session,
    )


def current_digest(store: Store, uid: str, limits: Quality) -> Digest | None:
    """Return the digest of a session, made now where the stored one does not cover all that is
    stored. Nothing is written.

    None when there is neither a digest nor anything to make one from. Raises NotFound.
    """
    session, stored = store.sessions.get(uid), store.digests.get(uid)
    if session is None:
        raise NotFound(f"no session {uid!r}; `runlore ls` lists them")
    is_current = stored is not None and not session.is_stale and stored.version >= DIGEST_VERSION
    return stored if is_current or session.last_seq < 0 else digest_of(store, uid, limits)
