"""The whole journey: discover, plan, ingest (which redacts what is new), price, redact again what
older rules stored, digest, ask git about commits, record lessons, and derive copies again whose
originals came later.

`sync` repeats a run when the database went away. `SyncRun.run` is the list of stages, which stand
below in the order in which they are called. Every stage can be run twice, or after being killed
halfway.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from ..config import Config
from ..errors import StoreLost
from ..lessons import rendered_files
from ..model import DIGEST_VERSION
from ..redact.rules import RULES_VERSION
from ..store import Filter, Store
from ..timeline import PAUSE
from .discover import Discovery, find_sources
from .plan import Plan, Task, adapter_version, make_plan, newest_of, rederive_task
from .report import Progress, Report, add_counts

if TYPE_CHECKING:
    from .ingest import Ingest

__all__ = ["Progress", "Report", "SyncRun", "sync"]

MAX_ATTEMPTS = 100
"""Runs of a sync whose database goes away in the middle."""

MAX_GENERATIONS = 10
"""Copies of copies need as many rounds as there are generations. Longer chains do not occur in real
transcripts."""


GIT_PAUSE = timedelta(days=1)
"""A repository is asked once in this time what became of commits."""

GIT_WATCH = timedelta(days=30)
"""How long commits are watched after the end of their session: for a merge, then for a revert."""


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
    is_newest_first: bool = False,
) -> Report:
    """Bring the store up to date with everything the agents have written.

    Sessions get a digest when they have been quiet for `quiet_s`. `workers` is the number of
    processes; None chooses it by the amount to read. With `is_newest_first` the newest sources are
    stored before all others, for someone who waits. Raises StoreBusy when another sync runs.
    """
    began = time.monotonic()
    for attempts_left in reversed(range(MAX_ATTEMPTS)):
        run = SyncRun(
            store, config, agents, roots, workers, progress, quiet_s, dry_run, is_newest_first
        )
        try:
            run.run()
            break
        except StoreLost:  # What was not committed is new once more.
            if not attempts_left:
                raise
        finally:
            run.close()
    run.report.seconds = time.monotonic() - began
    return run.report


class SyncRun:
    """One run of a sync. Its methods are the stages."""

    def __init__(
        self,
        store: Store,
        config: Config,
        agents: Sequence[str],
        roots: Sequence[str],
        workers: int | None,
        progress: Progress | None,
        quiet_s: float,
        dry_run: bool,
        is_newest_first: bool,
    ) -> None:
        self.store, self.config = store, config
        self.agents, self.roots = agents, roots
        self.workers, self.progress, self.quiet_s = workers, progress, quiet_s
        self.is_newest_first = is_newest_first
        self.report = Report(dry_run=dry_run)
        self.discovery = Discovery()
        self._ingest: Ingest | None = None

    def run(self) -> None:
        with ExitStack() as stack:
            if not self.report.dry_run:
                stack.enter_context(self.store.sync_lock())
            self.discover()
            plan = self.plan()
            if self.report.dry_run:
                return
            self.note_locations(plan)
            if self.progress:
                stack.callback(self.progress.close)
                self.progress.start(len(plan.tasks), plan.size)
            self.ingest(plan.tasks)
            self.store.ingest.set_domains(self.config.domain)
            self.price()
            self.redact_stored()
            self.digest()
            self.ask_git()
            self.record_lessons()
        self.rederive_marked()

    # ── what is there ─────────────────────────────────────────────────────────────────────────────
    def discover(self) -> None:
        """Find every source of the chosen agents."""
        self.discovery = find_sources(self.config, self.agents, self.roots)
        self.report.agents = self.discovery.agents
        self.report.problems += self.discovery.problems

    def plan(self) -> Plan:
        """Compare the sources with what is stored of them."""
        plan = make_plan(self.store, self.config, self.discovery)
        self.report.found, self.report.size = plan.counts, plan.size
        return plan

    def note_locations(self, plan: Plan) -> None:
        """Store which sources were moved, and which are missing."""
        for number, source in plan.moved:
            self.store.sources.move(number, source)
        if plan.missing:
            self.store.sources.mark_missing(plan.missing, datetime.now(UTC))

    # ── what is new, into the store ───────────────────────────────────────────────────────────────
    def ingest(self, tasks: list[Task]) -> None:
        """Read the sources in the order of the tasks, and put what is new.

        The store comes out the same whatever the number of workers.
        """
        if not tasks:
            return
        every = Filter(parents_only=False)
        before = self.store.sessions.count(every)
        sessions = set[str]()
        if self.is_newest_first and (newest := newest_of(tasks)):
            sessions |= self._ingest_part(newest)
            tasks = self._replan()
        sessions |= self._ingest_part(tasks)
        self.report.sessions = len(sessions)
        if sessions:
            self.report.subagents = len(sessions.difference(self.store.sessions.uids(Filter())))
        self.report.new_sessions = self.store.sessions.count(every) - before

    def _ingest_part(self, tasks: list[Task]) -> set[str]:
        """Put what is new in some sources, and return the sessions that changed."""
        changes = self._start_ingest().run(tasks, self.report, self._replan, self.progress)
        self.rederive_copies(changes.sessions, changes.to_rederive)
        return changes.sessions

    def rederive_copies(self, uids: set[str], events: int = 0) -> None:
        """Derive events again that were stored before their originals, so that they become copies.

        `uids` are the sessions that changed, `events` the number of events that are known to be
        copies. This is not reported, because nothing that was stored before is news.
        """
        for _ in range(MAX_GENERATIONS):
            marked = self._start_ingest().reassign_copies(uids)
            if not marked and not events:
                break
            plan = make_plan(self.store, self.config, self.discovery)
            tasks = [task for task in plan.tasks if task.why == "outdated"]
            changes = self._start_ingest().run(tasks, report := Report(), self._replan)
            uids, events = changes.sessions, changes.to_rederive
            known = self.report.problems
            known += [problem for problem in report.problems if problem not in known]

    def price(self) -> None:
        """Price calls without a price, and those that an older table had no exact price for."""
        has_calls = self._ingest is not None and self._ingest.has_calls
        if has_calls or self.store.ledger.unpriced(limit=1):
            self._start_ingest().price()

    def redact_stored(self) -> None:
        """Apply redaction rules that are newer than what is stored."""
        redact = self.config.redact
        if not redact.enabled:
            return
        if redact.rules or self.store.sources.unredacted(str(RULES_VERSION), limit=1):
            add_counts(self.report.redacted, self._start_ingest().redact_stored())

    def digest(self) -> None:
        """Build the digests of sessions that changed and came to rest since.

        Of several sessions with the same events, the first to end is known only when all rest.
        """
        if uids := self._find_undigested():
            self.rederive_copies({*uids})
        self._digest_into(self.report, self.progress)

    def _find_undigested(self) -> list[str]:
        before = datetime.now(UTC) - timedelta(seconds=self.quiet_s)
        return self.store.digests.stale(DIGEST_VERSION, before)

    def _digest_into(self, report: Report, progress: Progress | None) -> None:
        if stale := self._find_undigested():
            count, problems = self._start_ingest().build_digests(stale, progress)
            report.digests += count
            report.problems += problems

    def ask_git(self) -> None:
        """Ask repositories on this machine what became of the commits that sessions made."""
        now = datetime.now(UTC)
        asked_before = now - GIT_PAUSE
        if due := self.store.digests.committed(asked_before, now - GIT_WATCH):
            from .git_outcomes import ask_git  # Most syncs need neither this nor git.

            ask_git(self.store, due, asked_before, now)

    def record_lessons(self) -> None:
        """Record the lessons in the files of projects: editors and git change them as well."""
        home = self.config.home
        try:
            rendered_files.record_files(home, datetime.now(UTC))
        except OSError as error:
            file = str(home / rendered_files.FILE_NAME)
            self.report.problems.append((file, error.strerror or str(error)))

    def rederive_marked(self) -> None:
        """Derive the copies again that syncs of several machines marked in each other's sessions.

        They are read from the stored records, and not reported. This happens after the lock is
        released: a machine that could not get the lock relies on its holder to look once more at
        the end.
        """
        changed: set[str] = set()
        for states in self.store.sources.stale_copies():
            known = [state for state in states if adapter_version(state.source.agent) is not None]
            tasks = list(map(rederive_task, known))
            changed |= self._start_ingest().run(tasks, Report(), self._replan).sessions
        if changed:
            self._start_ingest().reassign_copies(changed)
            self._digest_into(Report(), None)

    def close(self) -> None:
        """End the worker processes, if there are any."""
        if self._ingest is not None:
            self._ingest.close()

    def _replan(self) -> list[Task]:
        """Return what is still to do after a transaction was rolled back."""
        self.discovery = find_sources(self.config, self.agents, self.roots)
        return make_plan(self.store, self.config, self.discovery).tasks

    def _start_ingest(self) -> Ingest:
        # Most syncs find nothing new. The modules that read, redact, price and digest are imported
        # here, when there is something to do: they take longer to import than an idle sync to run.
        from .ingest import Ingest

        if self._ingest is None:
            self._ingest = Ingest(self.store, self.config, self.workers, self.quiet_s)
        return self._ingest
