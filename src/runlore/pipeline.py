"""The whole journey: discover → read → normalize → put → price → digest. Every step can be run
twice, or be killed halfway.

`sync` is the story; the steps below it stand in the order in which they are called. Reading and
normalizing is done by `prepare`, in worker processes when there is much to read; this process
writes.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import cached_property
from typing import Protocol

import msgspec

from . import adapters
from .adapters import LOST, Source
from .billing import Pricer, price, price_again, settle
from .config import Config
from .digesting import digest_stale
from .errors import ConfigError, ReadError, StoreLost
from .finding import find
from .lessons import rendered_files
from .model import Digest
from .places import Places
from .prepare import Preparer, Result, setting
from .redact.rules import RULES_VERSION
from .store import DAMAGED, FORGOTTEN, Batch, Filter, Put, SourceState, Store
from .tasks import TOGETHER, Runner, Task, groups, moved_from, start_workers
from .text import words
from .timeline import PAUSE
from .workers import Workers, default_workers

COMMIT_BYTES = 32 * 1024 * 1024
COMMIT_S = 2.0
"""A transaction is closed after so much: a killed sync loses little, and readers see it grow."""

MOST_TRIES = 100
"""How often a sync begins anew when the database went away in the middle of it."""

WORKERS_FROM_BYTES = 20 * 1024 * 1024
"""Below this, starting processes takes longer than what they would save."""


MOST_ROUNDS = 10
"""Copies of copies of copies settle in as many rounds as there are generations. What claims more is
made up."""

UNSTORABLE = "it cannot be stored"


class _Unstorable(Exception):
    """A source with a value that the database does not take; None when it is one of several."""

    def __init__(self, source: Source | None, error: Exception) -> None:
        super().__init__(str(error))
        self.source = source


class Progress(Protocol):
    """Told how far a sync is. The command line draws a line from it."""

    def start(self, files: int, size: int, what: str = "files") -> None:
        """So much is to be read, or so many digests are to be made."""

    def advance(self, files: int, size: int) -> None:
        """So much more has been kept."""

    def close(self) -> None:
        """It is over, also after an error."""


class Report(msgspec.Struct, kw_only=True):
    """What a sync did, or would do. `found` counts sources by what became of them; `problems` are
    (path, reason)."""

    found: dict[str, int] = msgspec.field(default_factory=dict)
    agents: dict[str, int] = msgspec.field(default_factory=dict)
    sessions: int = 0
    new_sessions: int = 0
    subagents: int = 0
    """How many of `sessions` are subagents, which a listing leaves out."""
    events: int = 0
    digests: int = 0
    copies: int = 0
    merged: int = 0
    skipped: dict[str, int] = msgspec.field(default_factory=dict)
    redacted: dict[str, int] = msgspec.field(default_factory=dict)
    excluded: int = 0
    forgotten: int = 0
    size: int = 0
    seconds: float = 0.0
    problems: list[tuple[str, str]] = msgspec.field(default_factory=list)
    dry_run: bool = False


def sync(
    store: Store,
    config: Config,
    *,
    agents: Sequence[str] = (),
    roots: Sequence[str] = (),
    dry_run: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
    quiet_s: float = PAUSE.total_seconds(),
) -> Report:
    """Brings the store up to date with everything the agents have written. Raises StoreBusy when
    another sync runs. Sessions get a digest when they have been quiet for `quiet_s`."""
    began = time.monotonic()
    for left in reversed(range(MOST_TRIES)):
        run = _Sync(store, config, agents, roots, Report(dry_run=dry_run), quiet_s)
        try:
            run.run(workers, progress)
            if not dry_run:
                run.settle(workers)
            break
        except StoreLost:  # What was committed is there; what was not is found to be new once more.
            if not left:
                raise
        finally:
            run.close()
    run.report.seconds = time.monotonic() - began
    return run.report


class _Sync:
    """One sync. The methods are its steps."""

    def __init__(
        self,
        store: Store,
        config: Config,
        agents: Sequence[str],
        roots: Sequence[str],
        report: Report,
        quiet_s: float,
    ) -> None:
        self.store, self.config, self.report = store, config, report
        self.agents, self.roots, self.quiet_s = agents, roots, quiet_s
        self.looked_in: set[tuple[str, str]] = set()
        self.refused: set[str] = set()
        self.places = Places(config)
        self.touched: set[str] = set()
        self.made: list[Digest] = []
        """Digests that came with what was just put."""
        self.overtaken = 0
        self.is_careful = False
        """Put one source at a time: one of them has a value that the database does not take."""
        self.found: list[Source] = []
        self.running: Workers | None = None

    def run(self, workers: int | None, progress: Progress | None) -> None:
        """All steps in their order."""
        with ExitStack() as stack:
            is_dry = self.report.dry_run
            if not is_dry:
                stack.enter_context(self.store.sync_lock())
            self.found = self.discover()
            tasks, missing, moved = self.plan(self.found)
            if is_dry:
                return
            self.note(missing, moved)
            if progress:
                stack.callback(progress.close)
                progress.start(len(tasks), self.report.size)
            self.ingest(tasks, workers, progress)
            self.store.ingest.set_domains(self.config.domain)
            self.price()
            self.redact_stored()
            self.digest(workers, progress)
            self.look_at_lessons()

    # ── what is there ─────────────────────────────────────────────────────────────────────────────
    def discover(self) -> list[Source]:
        """Every source of the chosen agents, in the order in which they were last written."""
        found = find(self.config, self.agents, self.roots)
        self.looked_in |= found.looked_in
        self.refused |= found.refused
        self.report.agents = found.agents
        self.report.problems += found.problems
        return found.sources

    def _may_be_there(self, path: str) -> bool:
        return any(
            path == place or path.startswith(place.rstrip(os.sep) + os.sep)
            for place in self.refused
        )

    def plan(self, found: list[Source]) -> tuple[list[Task], list[int], list[tuple[int, Source]]]:
        """What to do, which sources are missing, and which are elsewhere or back. Looks into a
        source only when it changed."""
        agents = {agent for agent, _ in self.looked_in}
        # Of one agent, as a hook has it at the end of each session, those alone; of many, all at
        # once.
        states = (
            self.store.sources.by_path(*agents).values()
            if len(agents) == 1
            else self.store.sources.all()
        )
        known = {
            (state.source.agent, state.source.path): state
            for state in states
            if state.source.agent in agents
        }
        here = {(source.agent, source.path) for source in found}
        lost = {
            key: state
            for key, state in known.items()
            if key not in here
            and (key[0], state.source.root) in self.looked_in
            and not self._may_be_there(key[1])
        }
        counts: Counter[str] = Counter()
        tasks: list[Task] = []
        outdated: list[Task] = []
        moved: list[tuple[int, Source]] = []
        for source in found:
            state = known.get((source.agent, source.path))
            if (
                state is None
                and lost
                and (state := moved_from(source, list(lost.values()))) is not None
            ):
                counts["moved"] += 1
                moved.append((state.number, source))
                del lost[source.agent, state.source.path]
            elif state is not None and state.missing_at is not None:
                counts["back"] += 1
                moved.append((state.number, source))
            why = self._what_to_do(source, state)
            counts[why or "unchanged"] += 1
            if why is not None:
                (outdated if why == "outdated" else tasks).append(
                    Task(source=source, why=why, known=state)
                )
        outdated += [
            Task(source=state.source, why="outdated", known=state, is_gone=True)
            for state in lost.values()
            if state.position.records
            and not state.is_evicted  # What has left stays as it is known.
            and _version(state.source.agent) not in (state.adapter_version, None)
            and self.store.sources.count_records(state.number) == state.position.records
        ]
        missing = [state.number for state in lost.values() if state.missing_at is None]
        counts.update({"missing": len(missing), "outdated": sum(task.is_gone for task in outdated)})
        self.report.found = {word: count for word, count in counts.items() if count}
        # What an older adapter derived is still good to read: it comes last, the newest first.
        tasks += sorted(outdated, key=lambda task: (-task.source.mtime_ns, task.source.path))
        self.report.size = sum(task.size for task in tasks)
        return tasks, missing, moved

    def _what_to_do(self, source: Source, state: SourceState | None) -> str | None:
        if state is None:
            return "new"
        if state.problem == FORGOTTEN:
            return None
        old = state.source
        same = (source.size, source.mtime_ns, source.inode) == (old.size, old.mtime_ns, old.inode)
        if (
            same
            and state.problem is not None
            and (state.problem == self.places.excluded or state.problem.startswith(UNSTORABLE))
        ):
            return None
        # Nothing was taken from it: empty, unreadable, or left out by the rules of that day.
        if state.position.offset == 0:
            return None if same and state.problem is None else "new"
        adapter = adapters.get(source.agent)
        is_old = state.adapter_version != adapter.version
        if state.is_evicted and state.adapter_version != DAMAGED:
            # What was evicted stays so as long as nothing is added to it; other sessions of the
            # same source may go on.
            if same:
                return None
            if not adapter.follows(source, state.position):
                return "rewritten"
            return None if source.size == old.size else "grown"
        if same and state.problem is None and not is_old:
            return None
        if not adapter.follows(source, state.position):
            return "rewritten"
        return "outdated" if is_old else "grown"

    def note(self, missing: list[int], moved: list[tuple[int, Source]]) -> None:
        """Keeps what the plan found out about where sources are."""
        for number, source in moved:
            self.store.sources.move(number, source)
        if missing:
            self.store.sources.mark_missing(missing, datetime.now(UTC))

    # ── what is new, into the store ───────────────────────────────────────────────────────────────
    def ingest(self, tasks: list[Task], workers: int | None, progress: Progress | None) -> None:
        """Does the tasks in their order. Whatever the number of workers, the store comes out the
        same."""
        every = Filter(parents_only=False)
        before = self.store.sessions.count(every)
        self._do(tasks, workers, progress)
        self._see_to_copies(workers)
        self.report.sessions = len(self.touched)
        self.report.subagents = (
            len(self.touched.difference(self.store.sessions.uids(Filter()))) if self.touched else 0
        )
        self.report.new_sessions = self.store.sessions.count(every) - before

    def _see_to_copies(self, workers: int | None) -> None:
        """What was kept of a copy before its original came is derived again, and then refers to it.
        This is not reported: nothing that was stored before is news."""
        report, touched = self.report, self.touched
        for _ in range(MOST_ROUNDS):
            if not self.overtaken:
                break
            self.report, self.touched, self.overtaken = Report(), set(), 0
            tasks, _, _ = self.plan(self.found)
            self._do([task for task in tasks if task.why == "outdated"], workers, None)
            report.problems += [
                problem for problem in self.report.problems if problem not in report.problems
            ]
        self.report, self.touched = report, touched

    def settle(self, workers: int | None) -> None:
        """The same for what the syncs of several machines found out about each other's copies, from
        what the store keeps of their sources. Not under the lock of this sync: whoever cannot have
        that of another machine relies on it to look once more when it is done."""
        report, touched = self.report, self.touched
        self.report, self.touched = Report(), set()
        for states in self.store.sources.unsettled():
            tasks = [
                Task(source=state.source, why="outdated", known=state, is_gone=True)
                for state in states
            ]
            self._do(
                [task for task in tasks if _version(task.source.agent) is not None], workers, None
            )
        if self.touched:
            self.digest(workers, None)
        self.report, self.touched = report, touched

    def _do(self, tasks: list[Task], workers: int | None, progress: Progress | None) -> None:
        while tasks:
            try:
                self._ingest(tasks, workers, progress)
                return
            except _Unstorable as bad:
                # The open transaction is gone with it: what it held is still to do, without this
                # source, or one by one until it is found.
                if bad.source is None:
                    self.is_careful = True
                else:
                    self._note_problem(bad.source, f"{UNSTORABLE}: {bad}")
                report, self.report = self.report, Report()  # What was found has been told already.
                self.found = self.discover()
                tasks, _, _ = self.plan(self.found)
                self.report = report

    def _ingest(self, tasks: list[Task], workers: int | None, progress: Progress | None) -> None:
        if workers is None:
            workers = default_workers() if self.report.size >= WORKERS_FROM_BYTES else 0
        with ExitStack() as stack:
            if workers and self.running is None:
                self.running = start_workers(self.config, workers, self.quiet_s)
            runner = Runner(self.store, self.config, self.running, self.quiet_s)
            commits = stack.enter_context(_Commits(self.store))
            if self._is_full():
                return
            most = TOGETHER if self.store.takes_groups and not self.is_careful else 1
            results = stack.enter_context(closing(runner.run(tasks)))
            for group in groups(results, most):
                try:
                    batches = [result.batch for _, result in group if result.batch is not None]
                    told = Counter(piece.session_uid for batch in batches for piece in batch.pieces)
                    with self.store.ingest.together(batches):
                        for task, result in group:
                            self._take(task, result, runner, progress)
                            self._put_digests(told)
                except (OverflowError, UnicodeError) as error:
                    raise _Unstorable(
                        group[0][0].source if len(group) == 1 else None, error
                    ) from None
                if (
                    commits.step(
                        sum(result.batch.size for _, result in group if result.batch is not None)
                    )
                    and self._is_full()
                ):
                    return

    def close(self) -> None:
        """End the workers, if there are any."""
        if self.running is not None:
            self.running.close()
            self.running = None

    def _is_full(self) -> bool:
        """Whether the store is over its hard budget: then nothing more is taken in, and what is not
        read yet is read when there is room."""
        hard = self.config.retain.hard_bytes
        if hard is None or (used := self.store.retention.used_bytes()) < hard:
            return False
        said = (
            f"it takes {words.size(used)}, and [retain] allows {words.size(hard)}; nothing more is"
            " taken in, `runlore evict` makes room"
        )
        self.report.problems.append((self.store.url, said))
        return True

    def _take(self, task: Task, result: Result, runner: Runner, progress: Progress | None) -> None:
        """Keeps what a worker made of a part of a source."""
        size = 0
        if result.problem is not None:
            self._note_problem(task.source, result.problem)
            self._became(task, "unreadable")
        elif (
            task.why == "grown"
            and (batch := result.batch)
            and not batch.size
            and not batch.records
            and self.config.raw == "keep"
        ):
            # Its time is another, and nothing more: neither a line nor a file beside it.
            self._became(task, "unchanged")
        if result.batch is not None:
            size = result.batch.size
            try:
                self.touched |= self._keep(task, result.batch, runner)
                _count(self.report.redacted, result.redacted)
            except ReadError as error:
                self._note_problem(task.source, error.reason)
            except (OverflowError, UnicodeError) as error:
                # A value that no database takes costs its source.
                raise _Unstorable(task.source, error) from None
        if progress:
            progress.advance(0 if result.more else 1, size)

    def _put_digests(self, told: Counter[str]) -> None:
        """Keeps the digests that were made of whole sessions, where it turned out that they are.
        What is `told` by several sources has one when all are there."""
        for digest in self.made:
            if told[digest.session_uid] == 1 and self.store.digests.is_current(digest):
                self.store.digests.put(digest, datetime.now(UTC))
                self.report.digests += 1
        self.made.clear()

    def _became(self, task: Task, word: str) -> None:
        """Counts a source as what it turned out to be."""
        found = self.report.found
        if found.get(task.why):
            found[task.why] -= 1
            found[word] = found.get(word, 0) + 1
            self.report.found = {name: count for name, count in found.items() if count}

    def _note_problem(self, source: Source, problem: str) -> None:
        self.report.problems.append((source.path, problem))
        if not source.path.isprintable():  # Bytes that are no text cannot name it in the store.
            return
        self.store.sources.touch(
            source,
            adapter_version=adapters.get(source.agent).version,
            redact_version="",
            problem=problem,
        )

    def _keep(self, task: Task, batch: Batch, runner: Runner) -> set[str]:
        """Puts a batch; gives back the sessions that it changed."""
        if not self.places.is_wanted(batch):
            self.report.excluded += 1
            self.store.sources.touch(
                batch.source,
                adapter_version=batch.adapter_version,
                redact_version=batch.redact_version,
                problem=self.places.excluded,
            )
            runner.leave(task)
            return set()
        done = self._put(task, batch, runner)
        # What is a copy is another's, and so is what it tells.
        if task.why == "new" and not done.copies:
            self.made += [piece.digest for piece in batch.pieces if piece.digest is not None]
        self.store.ingest.set_places(self.places.of(batch))
        self.report.events += done.events
        self.report.copies += done.copies
        self.report.forgotten += done.forgotten
        self.overtaken += done.overtaken
        self.report.merged += sum(batch.merged.values())
        _count(
            self.report.skipped,
            Counter(skip.reason for skip in batch.skips if not skip.reason.endswith(LOST)),
        )
        return done.sessions

    def _put(self, task: Task, batch: Batch, runner: Runner) -> Put:
        if (
            task.why == "grown"
            and task.known is not None
            and task.known.is_evicted
            and self._adds_to_evicted(batch)
        ):
            # It comes back whole: there is nothing to add it to.
            task, batch = runner.from_start(task)
        if batch.since or task.known is None or task.why not in ("rewritten", "outdated"):
            return self.store.ingest.put(
                settle(self.store, batch, self._pricer if batch.calls else None)
            )
        # What replaces something is put in one piece: killed halfway, the old is still there.
        number = task.known.number

        def parts() -> Iterator[Batch]:
            return (
                settle(self.store, part, self._pricer if part.calls else None)
                for part in runner.rest(task, batch)
            )

        if task.known.is_evicted:
            done = self.store.ingest.return_whole(number, parts(), is_proved=task.why == "outdated")
            if done is None and not task.is_gone:
                done = self.store.ingest.part_with(number, parts(), datetime.now(UTC))
            return done or Put(sessions=set())
        put = self.store.ingest.rewrite if task.why == "rewritten" else self.store.ingest.rederive
        return put(number, parts())

    def _adds_to_evicted(self, batch: Batch) -> bool:
        uids = [piece.session_uid for piece in batch.pieces if piece.rows]
        return any(
            found is not None and found.evicted_at is not None
            for found in map(self.store.sessions.get, uids)
        )

    @cached_property
    def _pricer(self) -> Pricer | None:
        try:
            return Pricer(self.config)
        except ConfigError:
            # Prices that cannot be read are no reason to store nothing: `price` says so.
            return None

    def price(self) -> None:
        """Gives a price to the calls that have none yet, and to those that an older table had no
        exact one for."""
        if "_pricer" not in self.__dict__ and not self.store.ledger.unpriced(limit=1):
            return
        if pricer := self.__dict__.get("_pricer"):
            price_again(self.store, pricer)
        else:
            price(self.store, self.config)

    def redact_stored(self) -> None:
        """Runs rules that are newer than those a source was stored with over what is stored of
        it."""
        if not self.config.redact.enabled:
            return
        if not self.config.redact.rules and not self.store.sources.unredacted(
            str(RULES_VERSION), limit=1
        ):
            return
        preparer = Preparer(setting(self.config))
        cleaner, version = preparer.redactor, preparer.redact_version
        assert cleaner is not None
        stale = self.store.sources.unredacted(version)
        while stale:
            for number, _ in stale:
                self.store.retention.redact_again(number, version, cleaner)
            stale = self.store.sources.unredacted(version)
        if cleaner.hits:
            self.store.retention.purge()
        _count(self.report.redacted, cleaner.hits)

    def digest(self, workers: int | None, progress: Progress | None) -> None:
        """Makes the digests of what has changed and come to rest, but for those that were made with
        it."""
        count, problems = digest_stale(
            self.store,
            self.config,
            workers=workers,
            quiet_s=self.quiet_s,
            progress=progress,
            running=self.running,
        )
        self.report.digests += count
        self.report.problems += problems

    def look_at_lessons(self) -> None:
        """Notes which lessons stand in the files of projects, where some were put there: editors
        and git change them as well."""
        try:
            rendered_files.record_files(self.config.home, datetime.now(UTC))
        except OSError as error:
            self.report.problems.append(
                (str(self.config.home / rendered_files.FILE_NAME), error.strerror or str(error))
            )


def _version(agent: str) -> int | None:
    try:
        return adapters.get(agent).version
    except ConfigError:  # Its adapter is not installed any more: nothing to derive it with.
        return None


def _count(totals: dict[str, int], more: dict[str, int]) -> None:
    for word, count in more.items():
        totals[word] = totals.get(word, 0) + count


class _Commits:
    """Holds one transaction open over many puts, and closes it every so often."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stack = ExitStack()
        self._begin()

    def _begin(self) -> None:
        self._size, self._since = 0, time.monotonic()
        self._stack.enter_context(self._store.transaction())

    def step(self, size: int) -> bool:
        """Whether it was closed just now, and begun anew."""
        self._size += size
        # What a transaction has put itself need not be asked of a server: there only the time
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
        self._stack.__exit__(*error)  # type: ignore[arg-type]
