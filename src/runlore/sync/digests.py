"""Build the digests that are stale, in worker processes when there are many.

It stands between the store, which keeps digests, and `digest`, which computes them. It can be run
twice or be killed: what was put is there, and the rest is still stale. The cost is that of the
sessions that changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from datetime import UTC, datetime

import msgspec

from ..config import Config, Quality
from ..errors import StoreLost
from ..model import Digest
from ..query.digests import build_digest
from ..store import Store, open_store
from .report import Progress
from .runner import start_workers
from .workers import WorkerDied, Workers, default_workers, result_of

MIN_SESSIONS_FOR_WORKERS = 64
"""Fewer stale sessions are digested in this process."""

MAX_AHEAD_JOBS = 4
"""Jobs that each worker may be ahead of the writer."""

MIN_SESSIONS_PER_JOB = 16
"""A worker opens the store for each job."""

COMMIT_DIGESTS = 200
"""Digests in a transaction, and at most in a job: a killed sync loses no more."""


class DigestResult(msgspec.Struct):
    """A digest, or why there is none. A session that is gone has neither."""

    uid: str
    digest: Digest | None = None
    problem: str | None = None


def build_digests(
    store: Store,
    config: Config,
    uids: Sequence[str],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    running: Workers | None = None,
) -> tuple[int, list[tuple[str, str]]]:
    """Build and put the digests of these sessions.

    `running` are workers to use. Without any, `workers` of them are started, or as many as are
    worth it. Return the number of digests, and (uid, problem) of those that could not be built: the
    next sync tries these again.
    """
    if progress:
        progress.start(len(uids), 0, "digests")
    if workers is None:
        workers = default_workers() if len(uids) >= MIN_SESSIONS_FOR_WORKERS else 0
    now = datetime.now(UTC)
    count, problems = 0, []
    with ExitStack() as stack:
        if workers and running is None and (running := start_workers(config, workers)):
            stack.callback(running.close)
        results = iter_digests(store, config, uids, running)
        for _ in range(0, len(uids), COMMIT_DIGESTS):
            with store.transaction():
                # The range comes first: otherwise one more result would be taken, and lost.
                for _, result in zip(range(COMMIT_DIGESTS), results, strict=False):
                    if result.digest is not None:
                        store.digests.put(result.digest, now)
                        count += 1
                    if result.problem is not None:
                        problems.append((result.uid, result.problem))
                    if progress:
                        progress.advance(1, 0)
    return count, problems


def iter_digests(
    store: Store, config: Config, uids: Sequence[str], workers: Workers | None
) -> Iterator[DigestResult]:
    """Build the digests, here or in workers, in the order of the uids."""
    in_server = "://" in store.url
    if workers is None or ("://" in config.store) != in_server:
        yield from (_try_digest(store, uid, config.quality) for uid in uids)
        return
    # The url of a server comes without its password.
    url = config.store if in_server else store.url
    share = -(-len(uids) // (workers.count * MAX_AHEAD_JOBS))
    size = min(COMMIT_DIGESTS, max(MIN_SESSIONS_PER_JOB, share))
    jobs = deque(uids[at : at + size] for at in range(0, len(uids), size))
    submitted: deque[tuple[Sequence[str], Future[bytes]]] = deque()
    while jobs or submitted:
        while jobs and len(submitted) < MAX_AHEAD_JOBS * workers.count:
            job = jobs.popleft()
            future = workers.submit(_digest_in_worker, url, job, config.quality)
            submitted.append((job, future))
        job, future = submitted.popleft()
        try:
            yield from _unpack(result_of(future))
        except WorkerDied:
            for uid in job:
                yield from _digest_alone(workers, url, uid, config.quality)


def _unpack(results: bytes) -> list[DigestResult]:
    return msgspec.msgpack.decode(results, type=list[DigestResult])


def _digest_alone(workers: Workers, url: str, uid: str, limits: Quality) -> list[DigestResult]:
    """Build a digest in a process of its own, because it may have killed a worker."""
    try:
        return _unpack(workers.run_alone(_digest_in_worker, url, [uid], limits))
    except WorkerDied:
        problem = "its digest cannot be made: the process that built it was killed"
        return [DigestResult(uid, problem=problem)]


def _digest_in_worker(url: str, uids: Sequence[str], limits: Quality) -> bytes:
    """Return a packed list of `DigestResult`.

    The store is opened for each job: a connection cannot be inherited, and the last process to
    close a store tidies it up.
    """
    with closing(open_store(url, read_only=True)) as store:
        return msgspec.msgpack.encode([_try_digest(store, uid, limits) for uid in uids])


def _try_digest(store: Store, uid: str, limits: Quality) -> DigestResult:
    try:
        return DigestResult(uid, digest=build_digest(store, uid, limits))
    except StoreLost:  # The sync begins again.
        raise
    except Exception as error:
        # Any text may be in a session, and a segment may be damaged: that costs its digest, and not
        # the sync.
        problem = f"its digest cannot be made: {type(error).__name__}: {error}"
        return DigestResult(uid, problem=problem)
