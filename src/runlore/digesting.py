"""The digests' part of a sync: what is stale and quiet is made again, in worker processes when there is much of it.

Between the store, which keeps, and `digest`, which computes. It can be run twice or be killed: what was put is there, the rest is still
stale. The cost is that of the sessions that changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from .config import Config, Quality
from .errors import StoreLost
from .model import DIGEST_VERSION, Digest, Session
from .store import Store, open_store
from .store.bodies import whole
from .timeline import PAUSE

if TYPE_CHECKING:
    from ._pool import Pool
    from .pipeline import Progress

WORKERS_FROM = 64
"""Sessions. Fewer are done before processes would have been started."""
AHEAD = 4
"""Jobs that each worker may be ahead of the writer."""
LEAST = 16
"""Sessions in a job: a worker opens the store for each."""
COMMIT = 200
"""Digests in a transaction, and at most in a job: a killed sync loses no more."""
JOB, TOLD = b"d", b"t"
"""What jobs begin with, among workers that do others too: one that says which sessions, and one with all that is stored of a session."""
MOST_BYTES = 16 * 1024 * 1024
"""Of such jobs that are on their way."""


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
    pool: Pool | None = None,
) -> tuple[int, list[tuple[str, str]]]:
    """Makes every digest that is missing, of older rules, or of less than what is stored, with workers that are there already (`pool`) or
    new ones. How many, and (uid, reason) of those that could not be made: they are tried again by the next sync."""
    now = datetime.now(UTC)
    stale = store.stale_digests(DIGEST_VERSION, now - timedelta(seconds=quiet_s))
    if not stale:
        return 0, []
    if progress:
        progress.start(len(stale), 0, "digests")
    count, problems = 0, []
    if workers is None:
        from ._pool import cores

        workers = cores() if len(stale) >= WORKERS_FROM else 0
    made = _made(store, config, stale, workers, pool)
    # What the sync has written is brought into the file meanwhile. It has a thread, with which no workers are to be forked.
    with nullcontext() if workers and pool is None else store.bulk():
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


def _made(store: Store, config: Config, uids: Sequence[str], workers: int, pool: Pool | None) -> Iterator[_Made]:
    """In the order of the uids, made here or by workers."""
    in_server = "://" in store.url
    if in_server and not workers and pool is not None:
        yield from _made_of_told(store, uids, config.quality, pool)
        return
    if (not workers and pool is None) or ("://" in config.store) != in_server:
        yield from (_make(store, uid, config.quality) for uid in uids)
        return
    url = config.store if in_server else store.url  # What a store in a server says of itself is without the password.
    with ExitStack() as stack:
        if pool is None:
            from ._pool import Pool

            pool = stack.enter_context(closing(Pool(workers, _start_alone, config.quality)))
        size = min(COMMIT, max(LEAST, -(-len(uids) // (pool.count * AHEAD))))
        todo = deque(uids[at : at + size] for at in range(0, len(uids), size))
        decode = msgspec.msgpack.Decoder(list[_Made]).decode
        flying = 0
        while todo or flying:
            while todo and flying < AHEAD * pool.count:
                pool.submit(JOB + msgspec.msgpack.encode((url, todo.popleft())))
                flying += 1
            flying -= 1
            yield from decode(pool.next())


def _made_of_told(store: Store, uids: Sequence[str], limits: Quality, pool: Pool) -> Iterator[_Made]:
    """The same of a few in a server, by workers that are there. To connect to it would take each of them longer than to make its part,
    and so would importing here what makes digests."""
    decode = msgspec.msgpack.Decoder(_Made).decode
    flying: deque[tuple[str, int | None]] = deque()
    """What is to come, each with the size of the job; None is made here."""

    def land() -> _Made:
        uid, size = flying.popleft()
        made = decode(pool.next()) if size is not None else None
        # Also what a worker could not make, or did not understand, as an event of a newer kind: here it is known why.
        return made if made is not None and made.digest is not None else _make(store, uid, limits)

    for uid in uids:
        told = _told(store, uid)
        if told is not None:
            pool.submit(told)
        flying.append((uid, len(told) if told is not None else None))
        while len(flying) > AHEAD * pool.count or sum(size or 0 for _, size in flying) > MOST_BYTES:
            yield land()
    while flying:
        yield land()


def _told(store: Store, uid: str) -> bytes | None:
    """All that a digest is made of; nothing for a session that cannot be read, is too large to be handed on, or of which more would have to
    be known."""
    try:
        session = store.session(uid)
        if session is None or session.evicted_at:
            return None
        told = msgspec.msgpack.encode((session, *store.stored(uid)))
    except StoreLost:  # The sync begins anew.
        raise
    except Exception:
        return None
    return TOLD + told if len(told) <= MOST_BYTES else None


def start_told(limits: Quality) -> Callable[[memoryview], bytes]:
    """In a worker: from all that is stored of a session to a `_Made`, without a digest when that fails."""
    decode = msgspec.msgpack.Decoder(tuple[Session, list[list[Any]], list[list[Any]]]).decode

    def make_told(job: memoryview) -> bytes:
        from .digest.session import make

        made = _Made("")
        with suppress(Exception):
            session, rows, segments = decode(job)
            made = _Made(session.session_uid, digest=make(session, *whole(session.session_uid, rows, segments), limits))
        return msgspec.msgpack.encode(made)

    return make_told


def start(limits: Quality) -> Callable[[memoryview], bytes]:
    """In a worker: from the url of a store and some uids to a `_Made` for each. It is opened there, because a connection cannot be
    inherited, and closed, because the last one to close a store tidies it up."""
    from .digest import session as _  # noqa: F401  # Compiles its patterns once, before there are workers.

    decode = msgspec.msgpack.Decoder(tuple[str, list[str]]).decode

    def make(job: memoryview) -> bytes:
        url, uids = decode(job)
        with closing(open_store(url, read_only=True)) as store:
            return msgspec.msgpack.encode([_make(store, uid, limits) for uid in uids])

    return make


def _start_alone(limits: Quality) -> Callable[[bytes], bytes]:
    make = start(limits)
    return lambda job: make(memoryview(job)[len(JOB) :])


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
