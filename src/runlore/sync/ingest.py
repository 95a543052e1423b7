"""Do the tasks of a sync: read what is new in the sources, and put it into the store.

Reading and normalizing is done by `prepare`, in worker processes when there is much to read. This
process writes, in the order of the tasks. It also prices, redacts and digests what is stored.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta

import msgspec

from .. import adapters
from ..adapters import LOST, Source
from ..config import Config
from ..errors import ConfigError, ReadError, Rejected
from ..store import Batch, Put, Store
from ..text import words
from .billing import Pricer, merge_with_ledger, move_to_originals, price, price_again
from .digests import build_digests
from .places import Places
from .plan import Task, rejection
from .prepare import Result
from .redaction import redact_stored
from .report import Progress, Report, add_counts
from .repositories import name_repositories
from .runner import TaskRunner, group_results, start_workers
from .workers import Workers, default_workers

COMMIT_BYTES = 32 * 1024 * 1024
COMMIT_S = 2.0
"""A transaction is closed after this much: a killed sync loses little, and readers see progress."""

MIN_BYTES_FOR_WORKERS = 20 * 1024 * 1024
"""Below this, starting processes takes longer than the time they save."""

MAX_GROUP = 64
"""Maximum number of sources that are put together, in a store that takes groups."""


UNSTORABLE = (OverflowError, UnicodeError, MemoryError)
"""What putting a batch may raise because of what is in it."""


class Changes(msgspec.Struct):
    """What a pass over tasks changed in the store."""

    sessions: set[str] = msgspec.field(default_factory=set)
    """The uids of sessions that have something new."""
    to_rederive: int = 0
    """Events that were stored before their originals, and have to be derived again."""


class _Unstorable(Exception):
    """A source has a value that the database refuses. `source` is None if it is one of a group."""

    def __init__(self, source: Source | None, error: Exception) -> None:
        super().__init__(str(error) or type(error).__name__)
        self.source = source


class Ingest:
    """Does tasks. Worker processes and prices are started once and used by all passes."""

    def __init__(self, store: Store, config: Config, workers: int | None, quiet_s: float) -> None:
        self.store, self.config, self.quiet_s = store, config, quiet_s
        self.places = Places(config)
        self._worker_count = workers
        self._workers: Workers | None = None
        self._is_careful = False
        """Put one source at a time: one of them has a value that the database does not take."""
        self.has_calls = False
        """True once a batch with API calls has come."""
        self.has_places = False
        """What was put tells where a session was run, and its repository has no name yet."""
        self.new_folders: set[str] = set()
        """Where these sessions were run."""
        self._pricer: Pricer | None = None

    def run(
        self,
        tasks: list[Task],
        report: Report,
        replan: Callable[[], list[Task]],
        progress: Progress | None = None,
    ) -> Changes:
        """Do the tasks in their order. `replan` gives what is left after a rollback."""
        changes = Changes()
        while tasks:
            try:
                self._run_tasks(tasks, _Pass(self, report, changes, progress))
                break
            except _Unstorable as bad:
                # The open transaction was rolled back. What it held is still to do, without this
                # source, or one by one until the source is known.
                if bad.source is None:
                    self._is_careful = True
                else:
                    problem = rejection(bad.source.agent, f"it cannot be stored: {bad}")
                    note_problem(self.store, bad.source, problem, report)
                tasks = replan()
        return changes

    def _run_tasks(self, tasks: list[Task], one_pass: _Pass) -> None:
        runner = self._start_runner(sum(task.size for task in tasks))
        with ExitStack() as stack:
            # Names are given once, in the last transaction: they need all sessions of the store.
            commits = stack.enter_context(_Commits(self.store, self.name_repositories))
            if self.is_full(one_pass.report):
                return
            is_grouped = self.store.takes_groups and not self._is_careful
            results = stack.enter_context(closing(runner.run(tasks)))
            for group in group_results(results, MAX_GROUP if is_grouped else 1):
                one_pass.put_group(group, runner)
                size = sum(result.batch.size for _, result in group if result.batch is not None)
                if commits.step(size) and self.is_full(one_pass.report):
                    return

    def name_repositories(self) -> None:
        """Give all sessions of a repository the same name, if new sessions recorded their
        folders.

        All sessions are compared, so the next sync also names those that a killed one stored.
        """
        if self.has_places:
            self.has_places = False
            known = self.store.ingest.places()
            changed = name_repositories(known, self.places.git, self.new_folders)
            self.new_folders.clear()
            if changed:
                self.store.ingest.set_repos(changed)

    def _start_runner(self, size: int) -> TaskRunner:
        """Return a runner of tasks, with worker processes if there is much to read."""
        count = self._worker_count
        if count is None:
            count = default_workers() if size >= MIN_BYTES_FOR_WORKERS else 0
        if count and self._workers is None:
            self._workers = start_workers(self.config, count, self.quiet_s)
        return TaskRunner(self.store, self.config, self._workers, self.quiet_s)

    def is_full(self, report: Report) -> bool:
        """Return True if the store is over its hard budget, and add that to the problems.

        Then nothing more is stored. A later sync reads the rest when there is room.
        """
        hard = self.config.retain.hard_bytes
        if hard is None or (used := self.store.retention.used_bytes()) < hard:
            return False
        problem = (
            f"it takes {words.size(used)}, and [retain] allows {words.size(hard)}; nothing more is"
            " taken in, `runlore evict` makes room"
        )
        report.problems.append((self.store.url, problem))
        return True

    def merge_calls(self, batch: Batch) -> Batch:
        """Return the batch with its calls merged with the ledger, and priced."""
        if batch.calls and not self.has_calls:
            self.has_calls = True
            # With wrong prices, sessions are stored without any. `price` raises the error later.
            with suppress(ConfigError):
                self._pricer = Pricer(self.config)
        return merge_with_ledger(self.store, batch, self._pricer if batch.calls else None)

    def reassign_copies(self, uids: Collection[str]) -> int:
        """Bill calls of these sessions where they were made, and mark what has to be derived again
        so that copies refer to the oldest session. Return the number of sources."""
        quiet_since = datetime.now(UTC) - timedelta(seconds=self.quiet_s)
        with self.store.transaction():
            move_to_originals(self.store, uids)
            return self.store.ingest.mark_stale_copies(uids, quiet_since)

    # ── the other stages ──────────────────────────────────────────────────────────────────────────
    def price(self) -> None:
        """Price the calls that have no price, or no exact one."""
        if self._pricer is not None:
            price_again(self.store, self._pricer)
        else:
            price(self.store, self.config)

    def redact_stored(self) -> dict[str, int]:
        """Apply the redaction rules to stored sources of older rules; return the hits by kind."""
        return redact_stored(self.store, self.config)

    def build_digests(
        self, uids: Sequence[str], progress: Progress | None
    ) -> tuple[int, list[tuple[str, str]]]:
        """Build the digests of these sessions. Return their number, and (uid, problem)."""
        return build_digests(
            self.store,
            self.config,
            uids,
            workers=self._worker_count,
            progress=progress,
            running=self._workers,
        )

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None


class _Pass:
    """One pass over tasks: puts their results, and counts them in a report."""

    def __init__(
        self, ingest: Ingest, report: Report, changes: Changes, progress: Progress | None
    ) -> None:
        self.report = report
        self._ingest, self._changes, self._progress = ingest, changes, progress
        self._store, self._config = ingest.store, ingest.config
        self._places = ingest.places

    def put_group(self, group: list[tuple[Task, Result]], runner: TaskRunner) -> None:
        """Put the results of several sources together."""
        batches = [result.batch for _, result in group if result.batch is not None]
        try:
            with self._store.ingest.together(batches):
                for task, result in group:
                    self._put_result(task, result, runner)
        except UNSTORABLE as error:
            raise _Unstorable(group[0][0].source if len(group) == 1 else None, error) from None

    def _put_result(self, task: Task, result: Result, runner: TaskRunner) -> None:
        """Put the result of one part of a source."""
        batch = result.batch
        if result.problem is not None:
            self._note(task, result.problem, result.is_rejected)
            self._recount(task, "set aside" if result.is_rejected else "unreadable")
        elif batch is not None and self._is_unchanged(task, batch):
            self._recount(task, "unchanged")
        if batch is not None:
            try:
                self._changes.sessions |= self._put_batch(task, batch, runner)
                add_counts(self.report.redacted, result.redacted)
            except ReadError as error:
                self._note(task, error.reason, isinstance(error, Rejected))
            except UNSTORABLE as error:
                # A value that no database takes, or no memory holds, costs its source.
                raise _Unstorable(task.source, error) from None
        if self._progress:
            self._progress.advance(0 if result.more else 1, batch.size if batch is not None else 0)

    def _note(self, task: Task, reason: str, is_rejected: bool) -> None:
        """Report and store why a source could not be read."""
        problem = rejection(task.source.agent, reason) if is_rejected else reason
        note_problem(self._store, task.source, problem, self.report)

    def _is_unchanged(self, task: Task, batch: Batch) -> bool:
        """Return True if a source has another time, but neither a new line nor a new sidecar."""
        is_empty = not batch.size and not batch.records
        return task.why == "grown" and is_empty and self._config.raw == "keep"

    def _recount(self, task: Task, word: str) -> None:
        """Count a source under another word than the plan did."""
        counts = self.report.found
        if counts.get(task.why):
            counts[task.why] -= 1
            counts[word] = counts.get(word, 0) + 1
            self.report.found = {name: count for name, count in counts.items() if count}

    def _put_batch(self, task: Task, batch: Batch, runner: TaskRunner) -> set[str]:
        """Put a batch; return the uids of the sessions that it changed."""
        if not self._places.is_wanted(batch):
            self.report.excluded += 1
            self._store.sources.touch(
                batch.source,
                adapter_version=batch.adapter_version,
                redact_version=batch.redact_version,
                problem=self._config.exclude.mark,
            )
            runner.skip_rest(task)
            return set()
        put = self._write(task, batch, runner)
        self._set_places(batch)
        self._count(put, batch)
        return put.sessions

    def _set_places(self, batch: Batch) -> None:
        """Set the places of sessions. A name that was learned since stays while nothing is new."""
        new = {delta.session_uid for delta in batch.deltas if delta.has_place}
        places = self._places.of(batch)
        self._store.ingest.set_places(
            {uid: (repo if uid in new else None, task) for uid, (repo, task) in places.items()}
        )
        self._ingest.has_places |= bool(new)
        folders = (delta.facts.cwd for delta in batch.deltas if delta.has_place)
        self._ingest.new_folders.update(cwd for cwd in folders if cwd)

    def _count(self, put: Put, batch: Batch) -> None:
        self.report.events += put.events
        self.report.copies += put.copies
        self.report.forgotten += put.forgotten
        self.report.digests += put.digests
        self._changes.to_rederive += put.to_rederive
        self.report.merged += sum(batch.merged.values())
        reasons = (skip.reason for skip in batch.skips if not skip.reason.endswith(LOST))
        add_counts(self.report.skipped, Counter(reasons))

    def _write(self, task: Task, batch: Batch, runner: TaskRunner) -> Put:
        """Write a batch, or all of its source if it replaces what is stored."""
        known = task.known
        if known is None:
            return self._store.ingest.put(self._ingest.merge_calls(batch))
        if task.why == "grown" and known.is_evicted and self._adds_to_evicted(batch):
            # The session comes back whole, because there is nothing to add to.
            task, batch = runner.from_start(task)
        if batch.since or task.why not in ("rewritten", "outdated"):
            return self._store.ingest.put(self._ingest.merge_calls(batch))

        # A replacement is put as a whole: if the sync is killed halfway, the old is still there.
        def batches() -> Iterator[Batch]:
            return map(self._ingest.merge_calls, runner.iter_batches(task, batch))

        if known.is_evicted:
            is_proved = task.why == "outdated"
            put = self._store.ingest.return_whole(known.number, batches(), is_proved=is_proved)
            if put is None and not task.is_missing:
                put = self._store.ingest.part_with(known.number, batches(), datetime.now(UTC))
            return put or Put(sessions=set())
        if task.why == "rewritten":
            return self._store.ingest.rewrite(known.number, batches())
        return self._store.ingest.rederive(known.number, batches())

    def _adds_to_evicted(self, batch: Batch) -> bool:
        sessions = (
            self._store.sessions.get(delta.session_uid) for delta in batch.deltas if delta.rows
        )
        return any(session is not None and session.evicted_at is not None for session in sessions)


def note_problem(store: Store, source: Source, problem: str, report: Report) -> None:
    """Report why a source could not be read, and store it."""
    report.problems.append((source.path, problem))
    if source.path.isprintable():  # Bytes that are no text cannot name it in the store.
        version = adapters.get(source.agent).version
        store.sources.touch(source, adapter_version=version, redact_version="", problem=problem)


class _Commits:
    """Holds one transaction open over many puts, and commits it every so often.

    `finish` is called once, in the last transaction.
    """

    def __init__(self, store: Store, finish: Callable[[], None]) -> None:
        self._store, self._finish = store, finish
        self._stack = ExitStack()
        self._begin()

    def _begin(self) -> None:
        self._size, self._since = 0, time.monotonic()
        self._stack.enter_context(self._store.transaction())

    def step(self, size: int) -> bool:
        """Count bytes that were put. Return True if the transaction was committed just now."""
        self._size += size
        # A server need not be asked for what a transaction itself has put. There only the time
        # counts, for which others may have to wait.
        is_large = not self._store.takes_groups and self._size >= COMMIT_BYTES
        if not is_large and time.monotonic() - self._since < COMMIT_S:
            return False
        self._stack.close()
        self._begin()
        return True

    def __enter__(self) -> _Commits:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if error[0] is None:
                self._finish()
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise
        self._stack.__exit__(*error)  # type: ignore[arg-type]
