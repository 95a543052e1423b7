"""The tasks of a sync, and a runner that prepares them in order, here or in worker processes.

Sources are read and normalized by `prepare`. Nothing here writes.
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
"""How far the workers may be ahead of the writer, which takes results in order. They need room to
continue during a commit or while one large source is prepared. Waiting results are held in
memory."""

TOGETHER = 64
TOGETHER_BYTES = 4 * 1024 * 1024
"""Maximum number and size of the sources that are put in one group, in a store that takes
groups."""


class Task(msgspec.Struct, kw_only=True):
    """A source that has to be read, and why.

    `why` is new, grown, rewritten or outdated (derived by an older adapter).
    """

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
    """Return the lost source that was moved to this path; None if there is none.

    It has the same inode or the same file name, and the new source begins with what was read of it.
    """
    adapter = adapters.get(source.agent)
    for state in lost:
        old = state.source
        if old.agent != source.agent or not 0 < state.position.offset <= source.size:
            continue
        alike = (source.inode and source.inode == old.inode) or Path(old.path).name == Path(
            source.path
        ).name
        if alike and adapter.follows(source, state.position):
            return state
    return None


def start_workers(
    config: Config, count: int, quiet_s: float = PAUSE.total_seconds()
) -> Workers | None:
    """Start processes that prepare tasks and make digests; None where the system allows none."""
    try:
        return Workers(count, begin_work, setting(config, quiet_s))
    except (OSError, ImportError, NotImplementedError):  # Too many processes, no semaphores, …
        return None


class Runner:
    """Prepares tasks, here or in worker processes, and yields results in the order of the tasks.

    Only one part of a source is prepared at a time, because the next part needs what the store
    knows of the part before.
    """

    def __init__(
        self, store: Store, config: Config, workers: Workers | None, quiet_s: float
    ) -> None:
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
        except GeneratorExit:  # A sync that ends early does not need the other results.
            for _, _, future in submitted:
                future.cancel()
            raise

    def rest(self, task: Task, batch: Batch) -> Iterator[Batch]:
        """Yield this batch and all that follow it in the same source, prepared in this process."""
        self.leave(task)
        yield batch
        # Only the last part has the modification time of the source. Offsets cannot tell: a part
        # that ends where the source ends may be followed by an empty one.
        more = (
            not self._stored[task.source.path].is_done
            if task.is_gone
            else batch.source.mtime_ns != task.source.mtime_ns
        )
        while more:
            result = self._here.prepare(self._job(task, goes_on=True))
            if result.problem is not None:  # A part must not replace the whole source.
                raise ReadError(task.source.path, result.problem)
            if result.batch is not None:
                yield result.batch
            more = not self._stored[task.source.path].is_done if task.is_gone else result.more

    def from_start(self, task: Task) -> tuple[Task, Batch]:
        """Return a task that derives the source again from its beginning, and its first batch."""
        whole = msgspec.structs.replace(task, why="outdated")
        result = self._here.prepare(self._job(whole, goes_on=False))
        if result.batch is None:
            raise ReadError(task.source.path, result.problem or "nothing is in it")
        return whole, result.batch

    def leave(self, task: Task) -> None:
        """Read no further parts of this source."""
        self._left.add(task.source.path)

    def _job(self, task: Task, goes_on: bool) -> Job:
        known, cut_words = task.known, self._store.takes_cut_words
        if goes_on:
            known = self._store.sources.by_path(task.source.agent)[task.source.path]
        if known is not None and task.is_gone:
            kept = self._stored.setdefault(
                task.source.path, Stored(self._store.sources.records(known.number), known.position)
            )
            since, records, until = kept.take()
            resume = self._store.sources.resume(known.number) if goes_on else Resume()
            return Job(
                source=task.source,
                since=since,
                resume=resume,
                kept=records,
                until=until,
                cut_words=cut_words,
            )
        if known is not None and (goes_on or task.why == "grown"):
            return Job(
                source=task.source,
                since=known.position,
                resume=self._store.sources.resume(known.number),
                cut_words=cut_words,
            )
        return Job(source=task.source, is_new=task.why == "new", cut_words=cut_words)


class Stored:
    """The stored records of a source, one part at a time, as if they were read from the source."""

    def __init__(self, records: Iterator[Record], end: Position) -> None:
        self._records, self._end = records, end
        self._next = next(records, None)
        self._at: Position | None = None

    @property
    def is_done(self) -> bool:
        return self._next is None

    def take(self) -> tuple[Position | None, list[Record], Position]:
        """Return the start of the next part, its records, and its end."""
        since, size = self._at, 0
        records: list[Record] = []
        # A sidecar stays in the same part as the record that follows it.
        while self._next is not None and (
            size < BATCH_BYTES or self._next.aside is not None or records[-1].aside is not None
        ):
            records.append(self._next)
            size += len(self._next.data)
            self._next = next(self._records, None)
        done = (since.records if since else 0) + sum(record.aside is None for record in records)
        self._at = (
            self._end if self._next is None else Position(offset=self._next.offset, records=done)
        )
        return since, records, self._at


def groups(
    results: Iterable[tuple[Task, Result]], most: int
) -> Iterator[list[tuple[Task, Result]]]:
    """Yield the results in groups of at most `most`.

    A result with a further part ends its group, because the next part can be prepared only after
    this one is stored.
    """
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
