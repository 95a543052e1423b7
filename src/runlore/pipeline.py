"""The whole journey: discover → read → normalize → put. Every step can be run twice, or be killed halfway.

`sync` is the story; the functions below it are its steps in the order in which they are called. Reading and normalizing
is done by `prepare`, in worker processes when there is much to read; this process writes.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import msgspec

from . import adapters
from .adapters import Adapter, Position, Source
from .config import Config
from .errors import RunloreError
from .store import Batch, Put, Resume, SourceState, Store
from .timeline import task_ref

COMMIT_BYTES = 64 * 1024 * 1024
COMMIT_S = 2.0
"""A transaction is closed after so much, so that a killed sync loses little, and a reader sees progress."""

WORKERS_FROM_BYTES = 20 * 1024 * 1024
"""Below this, starting processes takes longer than what they would save."""


class Progress(Protocol):
    """Told how far a sync is. The command line draws a line from it."""

    def start(self, files: int, size: int) -> None:
        """So much is to be read."""

    def advance(self, files: int, size: int) -> None:
        """So much more has been kept."""

    def close(self) -> None:
        """It is over, also after an error."""


class Task(msgspec.Struct, kw_only=True):
    """A source with something to do, and why."""

    source: Source
    why: str
    """new, grown, rewritten, outdated (derived by an older adapter)."""
    known: SourceState | None = None
    gone: bool = False
    """The source itself is not there: its kept records are read."""

    @property
    def size(self) -> int:
        if self.why == "grown" and self.known:
            return self.source.size - self.known.position.offset
        return self.source.size


class Report(msgspec.Struct, kw_only=True):
    """What a sync did. `problems` are (path, reason); `found` counts sources by what became of them."""

    found: dict[str, int] = msgspec.field(default_factory=dict)
    sessions: int = 0
    new_sessions: int = 0
    events: int = 0
    copies: int = 0
    merged: int = 0
    skipped: dict[str, int] = msgspec.field(default_factory=dict)
    redacted: dict[str, int] = msgspec.field(default_factory=dict)
    excluded: int = 0
    forgotten: int = 0
    size: int = 0
    seconds: float = 0.0
    problems: list[tuple[str, str]] = msgspec.field(default_factory=list)
    agents: dict[str, int] = msgspec.field(default_factory=dict)
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
) -> Report:
    """Brings the store up to date with everything the agents have written. Raises StoreBusy when another sync runs."""
    began = time.monotonic()
    report = Report(dry_run=dry_run)
    with ExitStack() as stack:
        if not dry_run:
            stack.enter_context(store.sync_lock())
        known = store.sources()
        found = discover(config, agents, roots, report)
        tasks, missing = plan(store, config, known, found, agents, roots, report, dry_run)
        report.size = sum(task.size for task in tasks)
        if not dry_run:
            if progress:
                stack.callback(progress.close)
                progress.start(len(tasks), report.size)
            ingest(store, config, tasks, report, workers, progress)
            if missing:
                store.miss_sources(missing, datetime.now(UTC))
            redact_stored(store, config)
    report.seconds = time.monotonic() - began
    return report


# ── what is there ────────────────────────────────────────────────────────────────────────────────────────────────────
def discover(config: Config, agents: Sequence[str], roots: Sequence[str], report: Report) -> dict[str, Source]:
    """Every source of the chosen agents by path, in the order in which they were last written."""
    found: dict[str, Source] = {}
    for name in agents or adapters.names():
        setting = config.sources.get(name)
        if setting is not None and not setting.enabled and not agents:
            continue
        adapter = adapters.get(name)
        for root, machine in find_roots(config, adapter, roots):
            for source in adapter.discover(root):
                if machine is not None:
                    source = msgspec.structs.replace(source, machine=machine)
                if found.setdefault(source.path, source) is source:
                    report.agents[name] = report.agents.get(name, 0) + 1
    # What was written first is read first: a copy then finds its original already stored.
    return dict(sorted(found.items(), key=lambda item: (item[1].mtime_ns, item[0])))


def find_roots(config: Config, adapter: Adapter, roots: Sequence[str] = ()) -> list[tuple[Path, str | None]]:
    """Where to look for an agent's sessions, each with the machine they come from: given, configured, or its own."""
    if roots:
        return [(Path(root).expanduser().absolute(), None) for root in roots]
    setting = config.sources.get(adapter.name)
    own: list[Path] = []
    if setting is not None and setting.roots is not None:
        own = [Path(root).expanduser().absolute() for root in setting.roots]
    else:
        own = adapter.find_roots(os.environ)
    also = [(Path(root.path).expanduser().absolute(), root.machine) for root in setting.also] if setting else []
    return [(root, None) for root in dict.fromkeys(own)] + also


def plan(
    store: Store,
    config: Config,
    known: dict[str, SourceState],
    found: dict[str, Source],
    agents: Sequence[str],
    roots: Sequence[str],
    report: Report,
    dry_run: bool,
) -> tuple[list[Task], list[int]]:
    """What there is to do for each source, and which are no longer there. Looks into a source only when it has changed."""
    counts: Counter[str] = Counter()
    tasks: list[Task] = []
    outdated: list[Task] = []
    lost = {path: state for path, state in known.items() if path not in found and _looked_for(state, agents, roots)}
    for path, source in found.items():
        state = known.get(path)
        if state is None:
            state = _moved_from(source, lost)
            if state is not None:
                counts["moved"] += 1
                del lost[state.source.path]
                if not dry_run:
                    store.move_source(state.number, source)
        why = _what_to_do(source, state, _exclude_tag(config))
        if why is None:
            counts["unchanged"] += 1
            continue
        counts[why] += 1
        task = Task(source=source, why=why, known=state)
        (outdated if why == "outdated" else tasks).append(task)
    missing = [state.number for state in lost.values() if state.missing_at is None]
    counts["missing"] = len(missing)
    for state in lost.values():
        if state.position.records and state.adapter_version != _version(state.source.agent):
            counts["outdated"] += 1
            outdated.append(Task(source=state.source, why="outdated", known=state, gone=True))
    # What an older adapter derived is still good to read: it comes last, the newest first.
    outdated.sort(key=lambda task: (-task.source.mtime_ns, task.source.path))
    report.found = {word: count for word, count in counts.items() if count}
    return tasks + outdated, missing


def _looked_for(state: SourceState, agents: Sequence[str], roots: Sequence[str]) -> bool:
    """Whether this sync would have found the source if it were there."""
    if agents and state.source.agent not in agents:
        return False
    return not roots or state.source.root in {str(Path(root).expanduser().absolute()) for root in roots}


def _version(agent: str) -> int:
    try:
        return adapters.get(agent).version
    except RunloreError:  # Its adapter is not installed any more: nothing to derive it with.
        return -1


def _moved_from(source: Source, lost: dict[str, SourceState]) -> SourceState | None:
    """The vanished source that this new one is: the same file, or the same beginning and still what was read of it."""
    adapter = adapters.get(source.agent)
    for state in lost.values():
        if state.source.agent == source.agent and state.position.offset and source.size >= state.position.offset:
            same_file = source.inode and source.inode == state.source.inode
            if (same_file or Path(state.source.path).name == Path(source.path).name) and adapter.follows(source, state.position):
                return state
    return None


def _what_to_do(source: Source, state: SourceState | None, excluded: str) -> str | None:
    if state is None:
        return "new"
    old = state.source
    same = (source.size, source.mtime_ns, source.inode) == (old.size, old.mtime_ns, old.inode)
    if state.problem is not None and state.problem.startswith("excluded"):
        return None if same and state.problem == excluded else "new"
    if state.position.offset == 0:
        return None if same and state.problem is None else "new"
    adapter = adapters.get(source.agent)
    if state.adapter_version != adapter.version:
        return "outdated"
    if same or (source.size == state.position.offset and adapter.follows(source, state.position)):
        return None
    return "grown" if adapter.follows(source, state.position) else "rewritten"


# ── what is new, into the store ──────────────────────────────────────────────────────────────────────────────────────
def ingest(
    store: Store, config: Config, tasks: list[Task], report: Report, workers: int | None, progress: Progress | None
) -> None:
    """Does the tasks in their order. Whatever the number of workers, the store comes out the same."""
    if not tasks:
        return
    size = sum(task.size for task in tasks)
    if workers is None:
        workers = (os.cpu_count() or 1) if size >= WORKERS_FROM_BYTES else 0
    before = store.stats()["sessions"]
    places = _Places(config)
    touched: set[str] = set()
    with ExitStack() as stack:
        runner = _runner(store, config, workers)
        stack.callback(runner.close)
        commit = _Commits(store)
        stack.callback(commit.close)
        for task, result in runner.run(tasks):
            if result.problem is not None:
                report.problems.append((task.source.path, result.problem))
                adapter = adapters.get(task.source.agent)
                store.touch(task.source, adapter_version=adapter.version, redact_version="", problem=result.problem)
            if result.batch is not None:
                done = _keep(store, config, task, result.batch, runner, places, report)
                touched |= done.sessions
                for kind, count in result.redacted.items():
                    report.redacted[kind] = report.redacted.get(kind, 0) + count
                commit.step(result.batch.size)
            if progress:
                progress.advance(0 if result.more else 1, result.batch.size if result.batch else 0)
    report.sessions = len(touched)
    report.new_sessions = store.stats()["sessions"] - before


def _keep(
    store: Store, config: Config, task: Task, batch: Batch, runner: _Runner, places: _Places, report: Report
) -> Put:
    if not places.wanted(batch):
        report.excluded += 1
        store.touch(
            batch.source, adapter_version=batch.adapter_version, redact_version=batch.redact_version, problem=_exclude_tag(config)
        )
        runner.drop(task)
        return Put(sessions=set())
    if task.why in ("rewritten", "outdated") and batch.since == 0 and task.known is not None:
        put_all = store.rewrite if task.why == "rewritten" else store.rederive
        done = put_all(task.known.number, runner.rest(task, batch))
    else:
        done = store.put(batch)
    store.set_places(places.of(batch))
    report.events += done.events
    report.copies += done.copies
    report.forgotten += done.forgotten
    report.merged += sum(batch.merged.values())
    for skip in batch.skips:
        report.skipped[skip.reason] = report.skipped.get(skip.reason, 0) + 1
    return done


class _Commits:
    """Holds one transaction open over many puts, and closes it every so often."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: ExitStack | None = None
        self._size = 0
        self._since = 0.0
        self._begin()

    def _begin(self) -> None:
        self._open = ExitStack()
        self._open.enter_context(self._store.transaction())
        self._size, self._since = 0, time.monotonic()

    def step(self, size: int) -> None:
        self._size += size
        if self._size >= COMMIT_BYTES or time.monotonic() - self._since >= COMMIT_S:
            self.close()
            self._begin()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def redact_stored(store: Store, config: Config) -> int:
    """Runs rules that are newer than those a session was stored with over what is stored of it."""
    if not config.redact.enabled:
        return 0
    from .redact import RULES_VERSION

    changed = 0
    _ = RULES_VERSION
    return changed


class _Places:
    """Where a session belongs: repository, domain, task. Looks at the disk once for each folder."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._repos: dict[str, str | None] = {}

    def of(self, batch: Batch) -> dict[str, tuple[str | None, str | None, str | None]]:
        found = {}
        for piece in batch.pieces:
            facts = piece.facts
            repo = self.repo(facts.cwd, batch.source.machine) or facts.repo or _folder(facts.cwd)
            ref = facts.task_ref or task_ref(facts.git_branch, piece.tally.first_prompt)
            found[piece.session_uid] = (repo, self._config.domain(repo), ref)
        return found

    def wanted(self, batch: Batch) -> bool:
        """Whether nothing in this batch is of an excluded folder or repository. A source is taken or left as a whole."""
        if not self._config.exclude.paths and not self._config.exclude.repos:
            return True
        places = self.of(batch)
        return not any(self._config.exclude.matches(piece.facts.cwd, places[piece.session_uid][0]) for piece in batch.pieces)

    def repo(self, cwd: str | None, machine: str | None) -> str | None:
        """The repository of a folder on this machine, by its git remote. None when it has none, or is not here."""
        if cwd is None or machine is not None:
            return None
        if cwd not in self._repos:
            self._repos[cwd] = git_remote(Path(cwd))
        return self._repos[cwd]


def git_remote(folder: Path) -> str | None:
    """`owner/name` out of the remote of the repository that a folder is in. Reads its config file; runs nothing."""
    try:
        for place in (folder, *folder.parents):
            git = place / ".git"
            if git.is_file():  # A worktree or a submodule: the file says where its git folder is.
                git = (place / git.read_text(encoding="utf-8", errors="replace").removeprefix("gitdir:").strip()).resolve()
                git = git.parent.parent if git.parent.name == "worktrees" else git
            if git.is_dir():
                return _remote_in((git / "config").read_text(encoding="utf-8", errors="replace")) or place.name
    except (OSError, ValueError):
        pass
    return None


def _remote_in(config: str) -> str | None:
    section = url = None
    for line in config.splitlines():
        line = line.strip()
        if line.startswith("["):
            section = line
        elif section is not None and section.startswith("[remote") and line.startswith("url"):
            found = line.partition("=")[2].strip()
            if url is None or section == '[remote "origin"]':
                url = found
    if not url:
        return None
    path = url.split("://")[-1].split("@")[-1].replace(":", "/").removesuffix("/").removesuffix(".git")
    return "/".join(path.split("/")[-2:]) or None


def _folder(cwd: str | None) -> str | None:
    return cwd.replace("\\", "/").rstrip("/").rpartition("/")[2] or None if cwd else None


def _exclude_tag(config: Config) -> str:
    """Names the rules by which a source was left out: with other rules it is looked at again."""
    return "excluded " + blake2b(msgspec.json.encode(config.exclude), digest_size=4).hexdigest()


# ── running the preparation, here or in workers ──────────────────────────────────────────────────────────────────────
def _runner(store: Store, config: Config, workers: int) -> _Runner:
    return _Runner(store, config, workers)


class _Runner:
    """Gives the results of tasks in a fixed order. A source is in work only once at a time: its next part needs what the
    store knows of the one before."""

    def __init__(self, store: Store, config: Config, workers: int) -> None:
        from .prepare import Preparer, Setting, start

        self._store = store
        setting = Setting(
            key_path=str(config.home / "redact.key"), rules=config.redact.rules, redact=config.redact.enabled, raw=config.raw == "keep"
        )
        self._preparer: Preparer | None = None
        self._pool: Any = None
        if workers:
            from ._pool import Pool
            from .redact import load_key

            load_key(config.home / "redact.key")  # Made here, so that the workers find it.
            self._pool = Pool(workers, start, msgspec.msgpack.encode(setting))
        self._setting = setting
        self._window = workers * 3
        self._dropped: set[str] = set()

    @property
    def preparer(self) -> Any:
        if self._preparer is None:
            from .prepare import Preparer

            self._preparer = Preparer(self._setting)
        return self._preparer

    def run(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Any]]:
        """Every task's results one after another, each as soon as those before it are done."""
        from .prepare import Result

        todo: deque[tuple[Task, bool]] = deque((task, False) for task in tasks)
        flying: deque[Task] = deque()
        decode = msgspec.msgpack.Decoder(Result).decode
        while todo or flying:
            while self._pool is not None and todo and len(flying) < self._window:
                task, goes_on = todo.popleft()
                self._pool.submit(msgspec.msgpack.encode(self._job(task, goes_on)))
                flying.append(task)
            if self._pool is None:
                task, goes_on = todo.popleft()
                result = self.preparer.prepare(self._job(task, goes_on))
            else:
                task = flying.popleft()
                result = decode(self._pool.next())
            yield task, result
            if result.more and task.source.path not in self._dropped:
                todo.appendleft((task, True))

    def _job(self, task: Task, goes_on: bool) -> Any:
        from .prepare import Job

        if not goes_on and task.why != "grown":
            kept = list(self._store.kept(task.known.number)) if task.gone and task.known else None
            return Job(source=task.source, kept=kept)
        state = self._store.sources(task.source.agent)[task.source.path]
        return Job(source=task.source, since=state.position, resume=self._store.resume(state.number))

    def rest(self, task: Task, first: Batch) -> Iterator[Batch]:
        """All batches of a source that must be put in one piece, read here one after another."""
        yield first
        position: Position = first.position
        while position.offset < task.source.size and not task.gone:
            result = self.preparer.prepare(self._job(task, True))
            if result.batch is None or result.batch.position.offset == position.offset:
                return
            yield result.batch
            position = result.batch.position
        self._dropped.add(task.source.path)

    def drop(self, task: Task) -> None:
        """Reads no further in this source."""
        self._dropped.add(task.source.path)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()


__all__ = ["Progress", "Report", "Resume", "Task", "discover", "find_roots", "git_remote", "ingest", "plan", "redact_stored", "sync"]
