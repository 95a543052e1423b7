"""What a sync has to do, and how it gets done: by workers that read ahead, and in an order that does not depend on them.

Reads and normalizes through `prepare`, has digests made through `digesting`; writes nothing.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from . import adapters
from .adapters import Position, Record, Source
from .config import Config, make_home
from .errors import ReadError
from .finding import Found, find
from .store import Batch, Resume, SourceState, Store, is_server
from .timeline import PAUSE

if TYPE_CHECKING:
    from ._pool import Pool
    from .prepare import Job, Preparer, Result

AHEAD_BYTES = 32 * 1024 * 1024
AHEAD_JOBS = 512
"""How far the workers may be ahead of the writer, which takes their results in order: neither one large source among small ones nor a
commit may stop them, and what waits is held in memory."""

GIVEN_BYTES = 16 * 1024 * 1024
"""What workers are given before it is known what is stored. To open a store in a server that is new takes a quarter of a second."""

TOGETHER = 64
TOGETHER_BYTES = 4 * 1024 * 1024
"""So many sources are put together in a store that takes groups."""


JOB = b"p"
"""What a job for a part of a source begins with."""


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


def start_workers(config: Config, count: int, quiet_s: float = PAUSE.total_seconds()) -> Pool:
    """Processes that prepare tasks and make digests. They get ready while this one goes on."""
    from ._key import load_key
    from ._pool import Pool

    if config.redact.enabled:  # Made here, that they need not both make one.
        make_home(config.home)
        load_key(config.home / "redact.key")
    return Pool(count, _get_ready, (config, quiet_s))


class Ahead:
    """What a first sync does before its store is open: workers get ready, sources are looked for, and the workers begin with the first of
    them as what they will turn out to be, new."""

    def __init__(self, config: Config, count: int, quiet_s: float = PAUSE.total_seconds()) -> None:
        self.pool = start_workers(config, count, quiet_s)
        self.found: Found | None = None
        self.given: list[bytes] = []
        """Jobs that the workers are at."""

    def look(self, config: Config) -> None:
        """Looks for sources."""
        from .prepare import BATCH_BYTES

        self.found = find(config)
        left = GIVEN_BYTES
        for source in self.found.sources:
            if left <= 0 or len(self.given) == AHEAD_JOBS:
                break
            left -= min(source.size, BATCH_BYTES)
            self.given.append(_new(source, is_server(config.store)))
            self.pool.submit(self.given[-1])

    def fits(self, tasks: Sequence[Task], store: Store, counts: Mapping[str, int]) -> bool:
        """Whether all that was found is new, and what the workers are at is what there is to do first. If not, another sync may have stored
        something since it was looked for, and what that found might seem to be missing."""
        first = [_new(task.source, store.takes_cut_words) for task in tasks[: len(self.given)]]
        return self.found is None or (counts.keys() <= {"new"} and first == self.given)

    def close(self) -> None:
        self.pool.close()


def _new(source: Source, cut_words: bool) -> bytes:
    """The job for the first part of a new source."""
    from .prepare import Job

    return JOB + msgspec.msgpack.encode(Job(source=source, is_new=True, cut_words=cut_words))


def _get_ready(how: tuple[Config, float]) -> Callable[[bytes], bytes | bytearray]:
    from . import digesting, prepare  # Imported there: it takes 50 ms, and the process that starts them has other things to do meanwhile.

    with suppress(ImportError):  # It was not compiled: then memory comes and goes.
        from ._speed import keep_freed

        keep_freed()
    config, quiet_s = how
    do: dict[bytes, Callable[[memoryview], bytes | bytearray]]
    do = {
        JOB: prepare.start(config, quiet_s),
        digesting.JOB: digesting.start(config.quality),
        digesting.TOLD: digesting.start_told(config.quality),
    }
    return lambda job: do[job[:1]](memoryview(job)[1:])


class Runner:
    """Prepares tasks, here or in the workers of the pool, and gives the results in the order of the tasks. A source is in work only once
    at a time: its next part needs what the store knows of the one before."""

    def __init__(self, store: Store, config: Config, pool: Pool | None, quiet_s: float) -> None:
        from .prepare import setting

        self._store = store
        self._setting = setting(config, quiet_s)
        self._pool = pool
        self._left: set[str] = set()
        self._stored: dict[str, Stored] = {}

    @cached_property
    def _here(self) -> Preparer:
        from .prepare import Preparer

        return Preparer(self._setting)

    def run(self, tasks: Sequence[Task], given: int = 0) -> Iterator[tuple[Task, Result]]:
        """So many of the first tasks the workers have been given already."""
        from .prepare import BATCH_BYTES, Result

        decode = msgspec.msgpack.Decoder(Result).decode
        todo: deque[tuple[Task, bool]] = deque((task, False) for task in tasks[given:])
        flying: deque[tuple[Task, int]] = deque((task, min(task.size, BATCH_BYTES)) for task in tasks[:given])
        ahead = sum(part for _, part in flying)
        while todo or flying:
            if self._pool is None:
                task, goes_on = todo.popleft()
                result = self._here.prepare(self._job(task, goes_on))
            else:
                while todo and (not flying or (len(flying) < AHEAD_JOBS and ahead < AHEAD_BYTES)):
                    task, goes_on = todo.popleft()
                    self._pool.submit(JOB + msgspec.msgpack.encode(self._job(task, goes_on)))
                    flying.append((task, part := min(task.size, BATCH_BYTES)))
                    ahead += part
                task, part = flying.popleft()
                ahead -= part
                result = decode(self._pool.next())
            yield task, result
            if result.more and task.source.path not in self._left:
                todo.appendleft((task, True))

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
        from .prepare import Job

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
        from .prepare import BATCH_BYTES

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


@contextmanager
def without_gc() -> Iterator[None]:
    """Looking for cycles among all the values of a sync takes 5 % of its time; `prepare` looks at what each part leaves instead. Left
    out is all that is there already: looked at, it would be no longer shared with the workers."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
