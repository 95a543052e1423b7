"""What a sync has to do, and how it gets done: by workers that read ahead, and in an order that does not depend on them.

Reads and normalizes through `prepare`, has digests made through `digesting`; writes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import cached_property
from pathlib import Path

import msgspec

from . import adapters
from .adapters import Position, Record, Source
from .config import Config
from .errors import ReadError
from .prepare import BATCH_BYTES, Job, Preparer, Result, begin_work, prepare_in_worker, setting
from .store import Batch, Resume, SourceState, Store
from .timeline import PAUSE
from .workers import Workers, result_of

AHEAD_BYTES = 32 * 1024 * 1024
AHEAD_JOBS = 512
"""How far the workers may be ahead of the writer, which takes their results in order: neither one large source among small ones nor a
commit may stop them, and what waits is held in memory."""

TOGETHER = 64
TOGETHER_BYTES = 4 * 1024 * 1024
"""So many sources are put together in a store that takes groups."""


class Task(msgspec.Struct, kw_only=True):
    """A source with something to do, and why: new, grown, rewritten, or outdated (derived by an older adapter)."""

    source: Source
    why: str
    known: SourceState | None = None
    is_gone: bool = False
    """The source itself is not there: its records are taken from the store."""

    @property
    def size(self) -> int:
        done = self.known.position.offset if self.known and self.why == "grown" else 0
        return max(0, self.source.size - done)


def moved_from(source: Source, lost: list[SourceState]) -> SourceState | None:
    """The vanished source that this new one is: the same file, or one of the same name that begins with what was read."""
    adapter = adapters.get(source.agent)
    for state in lost:
        old = state.source
        if old.agent != source.agent or not 0 < state.position.offset <= source.size:
            continue
        alike = (source.inode and source.inode == old.inode) or Path(old.path).name == Path(source.path).name
        if alike and adapter.follows(source, state.position):
            return state
    return None


def start_workers(config: Config, count: int, quiet_s: float = PAUSE.total_seconds()) -> Workers:
    """Start processes that prepare tasks and make digests."""
    return Workers(count, begin_work, setting(config, quiet_s))


class Runner:
    """Prepares tasks, here or in the workers of the pool, and gives the results in the order of the tasks. A source is in work only once
    at a time: its next part needs what the store knows of the one before."""

    def __init__(self, store: Store, config: Config, workers: Workers | None, quiet_s: float) -> None:
        self._store = store
        self._setting = setting(config, quiet_s)
        self._workers = workers
        self._left: set[str] = set()
        self._stored: dict[str, Stored] = {}

    @cached_property
    def _here(self) -> Preparer:
        return Preparer(self._setting)

    def run(self, tasks: Sequence[Task]) -> Generator[tuple[Task, Result], None, None]:
        """Prepare the tasks, and the further parts of their sources, in this order."""
        todo = deque((task, False) for task in tasks)
        submitted: deque[tuple[Task, int, Future[bytes]]] = deque()
        ahead_bytes = 0
        try:
            while todo or submitted:
                if self._workers is None:
                    task, goes_on = todo.popleft()
                    result = self._here.prepare(self._job(task, goes_on))
                else:
                    while todo and len(submitted) < AHEAD_JOBS and ahead_bytes < AHEAD_BYTES:
                        task, goes_on = todo.popleft()
                        job = msgspec.msgpack.encode(self._job(task, goes_on))
                        future = self._workers.submit(prepare_in_worker, job)
                        submitted.append((task, size := min(task.size, BATCH_BYTES), future))
                        ahead_bytes += size
                    task, size, future = submitted.popleft()
                    ahead_bytes -= size
                    result = msgspec.msgpack.decode(result_of(future), type=Result)
                yield task, result
                if result.more and task.source.path not in self._left:
                    todo.appendleft((task, True))
        finally:  # Nobody takes the others when a sync ends early.
            for _, _, future in submitted:
                future.cancel()

    def rest(self, task: Task, batch: Batch) -> Iterator[Batch]:
        """This batch and all that follow it in the same source, prepared here one after another."""
        self.leave(task)
        yield batch
        # Told by its time, which only the last part has: one that ends where the source does may be followed by an empty one.
        more = not self._stored[task.source.path].is_done if task.is_gone else batch.source.mtime_ns != task.source.mtime_ns
        while more:
            result = self._here.prepare(self._job(task, goes_on=True))
            if result.problem is not None:  # Half of it must not stand in for the whole.
                raise ReadError(task.source.path, result.problem)
            if result.batch is not None:
                yield result.batch
            more = not self._stored[task.source.path].is_done if task.is_gone else result.more

    def from_start(self, task: Task) -> tuple[Task, Batch]:
        """The same source from its beginning: to be derived again, with the first batch of it."""
        whole = msgspec.structs.replace(task, why="outdated")
        result = self._here.prepare(self._job(whole, goes_on=False))
        if result.batch is None:
            raise ReadError(task.source.path, result.problem or "nothing is in it")
        return whole, result.batch

    def leave(self, task: Task) -> None:
        """Reads no further in this source."""
        self._left.add(task.source.path)

    def _job(self, task: Task, goes_on: bool) -> Job:
        known, cut_words = task.known, self._store.takes_cut_words
        if goes_on:
            known = self._store.sources(task.source.agent)[task.source.path]
        if known is not None and task.is_gone:
            kept = self._stored.setdefault(task.source.path, Stored(self._store.kept(known.number), known.position))
            since, records, until = kept.take()
            resume = self._store.resume(known.number) if goes_on else Resume()
            return Job(source=task.source, since=since, resume=resume, kept=records, until=until, cut_words=cut_words)
        if known is not None and (goes_on or task.why == "grown"):
            return Job(source=task.source, since=known.position, resume=self._store.resume(known.number), cut_words=cut_words)
        return Job(source=task.source, is_new=task.why == "new", cut_words=cut_words)


class Stored:
    """The records that the store kept of a source, a part at a time, as reading the source would give them."""

    def __init__(self, records: Iterator[Record], end: Position) -> None:
        self._records, self._end = records, end
        self._next = next(records, None)
        self._at: Position | None = None

    @property
    def is_done(self) -> bool:
        return self._next is None

    def take(self) -> tuple[Position | None, list[Record], Position]:
        """Where the part begins, the part, and where it ends."""
        since, size = self._at, 0
        records: list[Record] = []
        # A file beside the source goes with the record that follows it.
        while self._next is not None and (size < BATCH_BYTES or self._next.aside is not None or records[-1].aside is not None):
            records.append(self._next)
            size += len(self._next.data)
            self._next = next(self._records, None)
        done = (since.records if since else 0) + sum(record.aside is None for record in records)
        self._at = self._end if self._next is None else Position(offset=self._next.offset, records=done)
        return since, records, self._at


def groups(results: Iterable[tuple[Task, Result]], most: int) -> Iterator[list[tuple[Task, Result]]]:
    """The same, several at a time. The next part of a source is not made before the one before it is put, so that ends a group."""
    group: list[tuple[Task, Result]] = []
    size = 0
    for task, result in results:
        group.append((task, result))
        size += result.batch.size if result.batch is not None else 0
        if result.more or len(group) >= most or size >= TOGETHER_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
