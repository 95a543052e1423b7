"""Compare the sources with what is stored of them: what is new, grown, rewritten, moved, missing.

A source is opened only if it changed. Nothing here writes.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from .. import adapters
from ..adapters import Source
from ..config import Config
from ..errors import ConfigError
from ..store import DAMAGED, FORGOTTEN, SourceState, Store
from .discover import Discovery

NEWEST = 250
"""Sources that are stored first when someone waits: about 200 sessions with their subagents."""

_Key = tuple[str, str]
"""Agent and path of a source."""


class Task(msgspec.Struct, kw_only=True):
    """A source that has to be read, and why.

    `why` is new, grown, rewritten or outdated. A source is outdated if an older adapter has read
    it, or if its last record was read without a line end and has changed since.
    """

    source: Source
    why: str
    known: SourceState | None = None
    is_missing: bool = False
    """True if the source is no longer there: its records are read from the store."""

    @property
    def size(self) -> int:
        done = self.known.position.offset if self.known and self.why == "grown" else 0
        return max(0, self.source.size - done)


class Plan(msgspec.Struct, kw_only=True):
    """The work of a sync."""

    tasks: list[Task] = []
    missing: list[int] = []
    """The numbers of sources that are missing now, and were there before."""
    moved: list[tuple[int, Source]] = []
    """The numbers of sources that are at another place now, or back."""
    counts: dict[str, int] = {}
    """The number of sources by what became of them."""

    @property
    def size(self) -> int:
        return sum(task.size for task in self.tasks)


def make_plan(store: Store, config: Config, discovery: Discovery) -> Plan:
    """Compare the discovered sources with those that are stored."""
    known = _known_states(store, discovery)
    lost = _lost_states(known, discovery)
    plan, counts = Plan(), Counter[str]()
    for source in discovery.sources:
        state = known.get((source.agent, source.path))
        if state is None and (state := moved_from(source, list(lost.values()))) is not None:
            counts["moved"] += 1
            plan.moved.append((state.number, source))
            del lost[source.agent, state.source.path]
        elif state is not None and state.missing_at is not None:
            counts["back"] += 1
            plan.moved.append((state.number, source))
        why = _why_read(source, state, config)
        counts[why or ("set aside" if is_rejected(state) else "unchanged")] += 1
        if why is not None:
            plan.tasks.append(Task(source=source, why=why, known=state))
    gone = [state for state in lost.values() if _should_rederive(store, state)]
    plan.tasks += map(rederive_task, gone)
    plan.missing = [state.number for state in lost.values() if state.missing_at is None]
    counts.update({"missing": len(plan.missing), "outdated": len(gone)})
    plan.counts = {word: count for word, count in counts.items() if count}
    # What an older adapter derived is still good to read: it comes last, newest first.
    plan.tasks = [task for task in plan.tasks if task.why != "outdated"] + sorted(
        (task for task in plan.tasks if task.why == "outdated"),
        key=lambda task: (-task.source.mtime_ns, task.source.path),
    )
    return plan


def newest_of(tasks: list[Task]) -> list[Task]:
    """Return the tasks of the newest sources, in their order; none if there are hardly more."""
    unread = [task for task in tasks if task.why != "outdated"]
    return unread[-NEWEST:] if len(unread) > 2 * NEWEST else []


def rederive_task(state: SourceState) -> Task:
    """Return the task to derive a source again from its stored records."""
    return Task(source=state.source, why="outdated", known=state, is_missing=True)


def adapter_version(agent: str) -> int | None:
    """Return the version of an agent's adapter; None if it is not installed any more."""
    try:
        return adapters.get(agent).version
    except ConfigError:
        return None


def moved_from(source: Source, lost: list[SourceState]) -> SourceState | None:
    """Return the lost source that was moved to this path; None if there is none.

    It has the same inode or the same file name, and the new source begins with what was read of it.
    """
    if not lost:
        return None
    adapter = adapters.get(source.agent)
    for state in lost:
        old = state.source
        if old.agent != source.agent or not 0 < state.position.offset <= source.size:
            continue
        has_inode = source.inode and source.inode == old.inode
        has_name = Path(old.path).name == Path(source.path).name
        if (has_inode or has_name) and adapter.follows(source, state.position):
            return state
    return None


def _known_states(store: Store, discovery: Discovery) -> dict[_Key, SourceState]:
    """Return what is stored of the sources of the agents that were looked for."""
    agents = {agent for agent, _ in discovery.searched}
    # A hook asks for one agent at the end of each session. All others are read at once.
    states = store.sources.by_path(*agents).values() if len(agents) == 1 else store.sources.all()
    return {
        (state.source.agent, state.source.path): state
        for state in states
        if state.source.agent in agents
    }


def _lost_states(known: dict[_Key, SourceState], discovery: Discovery) -> dict[_Key, SourceState]:
    """Return the stored sources that are missing from the searched folders."""
    present = {(source.agent, source.path) for source in discovery.sources}
    return {
        (agent, path): state
        for (agent, path), state in known.items()
        if (agent, path) not in present
        and (agent, state.source.root) in discovery.searched
        and not discovery.may_hide(path)
    }


def _should_rederive(store: Store, state: SourceState) -> bool:
    """Return True if a source that is gone was read by an older adapter, and all its records are
    stored."""
    return (
        state.position.records > 0
        and not state.is_evicted  # What was evicted stays as it is known.
        and adapter_version(state.source.agent) not in (state.adapter_version, None)
        and store.sources.count_records(state.number) == state.position.records
    )


def _why_read(source: Source, state: SourceState | None, config: Config) -> str | None:
    """Return why a source has to be read: the `why` of a task, or None."""
    if state is None:
        return "new"
    is_same = state.is_same(source)
    if _is_refused(state, config, is_same):
        return None
    # Nothing of it is stored: it was empty, unreadable, or left out by the rules of that day.
    if state.position.offset == 0:
        return None if is_same and state.problem is None else "new"
    return _why_read_again(source, state, is_same)


def _why_read_again(source: Source, state: SourceState, is_same: bool) -> str | None:
    """Return why a source that is partly stored has to be read again."""
    adapter = adapters.get(source.agent)
    # An evicted session stays evicted while nothing is added to it, also with a newer adapter.
    stays_evicted = state.is_evicted and state.adapter_version != DAMAGED
    is_outdated = state.adapter_version != adapter.version and not stays_evicted
    if is_same and not is_outdated and (state.problem is None or stays_evicted):
        return None
    if not adapter.follows(source, state.position):
        # All but the last record is what was read: nothing is kept of a record that never was one.
        has_other_end = not stays_evicted and adapter.has_other_end(source, state.position)
        return "outdated" if has_other_end else "rewritten"
    if stays_evicted and source.size == state.source.size and not state.is_older(source):
        return None
    return "outdated" if is_outdated else "grown"


def _is_refused(state: SourceState, config: Config, is_same: bool) -> bool:
    """Return True if the source was forgotten, is excluded by these very rules, or was set
    aside."""
    problem = state.problem
    if problem is None or problem == FORGOTTEN:
        return problem is not None
    return is_same and (problem == config.exclude.mark or is_rejected(state))


def rejection(agent: str, reason: str) -> str:
    """Return the problem of a source that is not read again until it, or its adapter, has
    changed."""
    return f"set aside by version {adapter_version(agent)} of its adapter: {reason}"


def is_rejected(state: SourceState | None) -> bool:
    """Return True if the current version of its adapter has set a source aside."""
    if state is None or state.problem is None:
        return False
    return state.problem.startswith(rejection(state.source.agent, ""))
