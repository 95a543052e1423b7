"""Prepare the tasks of a sync in their order, here or in worker processes. Nothing here writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import cached_property

import msgspec

from ..adapters import Position, Record
from ..config import Config
from ..errors import ReadError, Rejected
from ..store import Batch, Resume, SourceState, Store
from ..timeline import PAUSE
from .plan import Task
from .prepare import (
    BATCH_BYTES,
    MAX_BATCH_RECORDS,
    Job,
    Preparer,
    Result,
    out_of_memory,
    prepare_in_worker,
    prepare_setting,
    start_worker,
)
from .workers import WorkerDied, Workers, result_of

MAX_AHEAD_BYTES = 32 * 1024 * 1024
MAX_AHEAD_JOBS = 512
"""Work that the workers may do ahead of the writer, which takes results in order. They need room to
continue during a commit or while one large source is prepared. Waiting results are held in
memory."""

MAX_GROUP_BYTES = 4 * 1024 * 1024
"""Maximum size of the results that are put together, in a store that takes groups."""

_Results = Generator[tuple[Task, Result], None, None]


def start_workers(
    config: Config, count: int, quiet_s: float = PAUSE.total_seconds()
) -> Workers | None:
    """Start processes that prepare tasks and build digests; None where the system allows none."""
    try:
        return Workers(count, start_worker, prepare_setting(config, quiet_s))
    except (OSError, ImportError, NotImplementedError):  # Too many processes, no semaphores, …
        return None


class TaskRunner:
    """Prepares tasks, here or in worker processes, and yields results in the order of the tasks.

    Only one part of a source is prepared at a time, because the next part needs what the store
    knows of the part before.
    """

    def __init__(
        self, store: Store, config: Config, workers: Workers | None, quiet_s: float
    ) -> None:
        self._store = store
        self._setting = prepare_setting(config, quiet_s)
        self._workers = workers
        self._skipped: set[str] = set()
        """Paths of sources of which no further parts are read."""
        self._stored: dict[str, StoredRecords] = {}

    @cached_property
    def _preparer(self) -> Preparer:
        return Preparer(self._setting)

    def run(self, tasks: Sequence[Task]) -> _Results:
        """Prepare the tasks, and the further parts of their sources, in this order."""
        todo = deque((task, False) for task in tasks)
        results = self._run_here(todo) if self._workers is None else self._run_in_workers(todo)
        with closing(results):
            for task, result in results:
                yield task, result
                if result.more and task.source.path not in self._skipped:
                    todo.appendleft((task, True))

    def _run_here(self, todo: deque[tuple[Task, bool]]) -> _Results:
        while todo:
            task, is_continued = todo.popleft()
            yield task, self._preparer.prepare(self._job(task, is_continued))

    def _run_in_workers(self, todo: deque[tuple[Task, bool]]) -> _Results:
        assert self._workers is not None
        submitted: deque[tuple[Task, bytes, Future[bytes]]] = deque()
        ahead_bytes = 0
        try:
            while todo or submitted:
                while todo and len(submitted) < MAX_AHEAD_JOBS and ahead_bytes < MAX_AHEAD_BYTES:
                    task, is_continued = todo.popleft()
                    job = msgspec.msgpack.encode(self._job(task, is_continued))
                    future = self._workers.submit(prepare_in_worker, job)
                    submitted.append((task, job, future))
                    ahead_bytes += _ahead_bytes(task)
                task, job, future = submitted.popleft()
                ahead_bytes -= _ahead_bytes(task)
                yield task, self._result(job, future)
        except GeneratorExit:  # A sync that ends early does not need the other results.
            for _, _, future in submitted:
                future.cancel()
            raise

    def _result(self, job: bytes, future: Future[bytes]) -> Result:
        """Wait for the result of a job.

        When a worker dies, the jobs of all workers are lost. Each is done again alone, so that the
        death costs the source that causes it.
        """
        assert self._workers is not None
        try:
            packed = result_of(future)
        except WorkerDied:
            try:
                packed = self._workers.run_alone(prepare_in_worker, job)
            except WorkerDied:
                return Result(problem="the process that read it was killed", is_rejected=True)
        try:
            return msgspec.msgpack.decode(packed, type=Result)
        except MemoryError:
            return out_of_memory()

    def iter_batches(self, task: Task, first: Batch) -> Iterator[Batch]:
        """Yield the first batch of a source and all that follow, prepared in this process."""
        self.skip_rest(task)
        yield first
        # Only the last part has the modification time of the source. Offsets cannot tell: a part
        # that ends where the source ends may be followed by an empty one.
        more = self._has_more(task, first.source.mtime_ns != task.source.mtime_ns)
        while more:
            result = self._preparer.prepare(self._job(task, is_continued=True))
            if result.problem is not None:  # A part must not replace the whole source.
                raise _error_of(task, result)
            if result.batch is not None:
                yield result.batch
            more = self._has_more(task, result.more)

    def _has_more(self, task: Task, is_partly_read: bool) -> bool:
        return not self._stored[task.source.path].is_done if task.is_missing else is_partly_read

    def from_start(self, task: Task) -> tuple[Task, Batch]:
        """Return a task that derives the source again from its beginning, and its first batch."""
        whole = msgspec.structs.replace(task, why="outdated")
        result = self._preparer.prepare(self._job(whole, is_continued=False))
        if result.batch is None:
            raise _error_of(task, result)
        return whole, result.batch

    def skip_rest(self, task: Task) -> None:
        """Read no further parts of this source."""
        self._skipped.add(task.source.path)

    def _job(self, task: Task, is_continued: bool) -> Job:
        known, with_tokens = task.known, self._store.takes_tokens
        if is_continued:
            known = self._store.sources.by_path(task.source.agent)[task.source.path]
        if known is not None and task.is_missing:
            return self._stored_job(task, known, is_continued)
        if known is not None and (is_continued or task.why == "grown"):
            resume = self._store.sources.resume(known.number)
            return Job(
                source=task.source, since=known.position, resume=resume, with_tokens=with_tokens
            )
        return Job(source=task.source, is_new=task.why == "new", with_tokens=with_tokens)

    def _stored_job(self, task: Task, known: SourceState, is_continued: bool) -> Job:
        """Return the job to derive the next part of a source from its stored records."""
        path = task.source.path
        if path not in self._stored:
            self._stored[path] = StoredRecords(
                self._store.sources.records(known.number), known.position
            )
        since, records, until = self._stored[path].read_part()
        return Job(
            source=task.source,
            since=since,
            resume=self._store.sources.resume(known.number) if is_continued else Resume(),
            stored_records=records,
            until=until,
            with_tokens=self._store.takes_tokens,
        )


def _error_of(task: Task, result: Result) -> ReadError:
    """Return the problem of a result as an error."""
    kind = Rejected if result.is_rejected else ReadError
    return kind(task.source.path, result.problem or "nothing is in it")


def _ahead_bytes(task: Task) -> int:
    """Return about how much memory the result of a task takes while it waits."""
    return min(task.size, BATCH_BYTES)


class StoredRecords:
    """The stored records of a source, one part at a time, as if they were read from the source."""

    def __init__(self, records: Iterator[Record], end: Position) -> None:
        self._records, self._end = records, end
        self._next = next(records, None)
        self._position: Position | None = None

    @property
    def is_done(self) -> bool:
        return self._next is None

    def read_part(self) -> tuple[Position | None, list[Record], Position]:
        """Return the start of the next part, its records, and its end."""
        since, size = self._position, 0
        records: list[Record] = []
        # A sidecar stays in the same part as the record that follows it.
        while self._next is not None and (
            (size < BATCH_BYTES and len(records) < MAX_BATCH_RECORDS)
            or self._next.sidecar is not None
            or records[-1].sidecar is not None
        ):
            records.append(self._next)
            size += len(self._next.data)
            self._next = next(self._records, None)
        done = (since.records if since else 0) + sum(record.sidecar is None for record in records)
        self._position = (
            self._end if self._next is None else Position(offset=self._next.offset, records=done)
        )
        return since, records, self._position


def group_results(
    results: Iterable[tuple[Task, Result]], max_count: int
) -> Iterator[list[tuple[Task, Result]]]:
    """Yield the results in groups of at most `max_count`.

    A result with a further part ends its group, because the next part can be prepared only after
    this one is stored.
    """
    group: list[tuple[Task, Result]] = []
    size = 0
    for task, result in results:
        group.append((task, result))
        size += result.batch.size if result.batch is not None else 0
        if result.more or len(group) >= max_count or size >= MAX_GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
