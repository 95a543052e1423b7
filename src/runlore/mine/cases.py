"""The digests of a store as cases, and the patterns in them. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from ..config import Config
from ..live import SessionStore
from ..live.skills import SkillEntry, entries_of
from ..model import Digest
from ..store import Filter, SessionLine, Store
from .loci import ErrorLocus
from .patterns import MIN_SIGNALS, find_patterns
from .tasks import join_tasks, task_keys
from .values import Case, Pattern, Skill

replace = msgspec.structs.replace


def mine_store(
    store: Store, config: Config, chosen: Filter, *, min_sessions: int = 2
) -> list[Pattern]:
    """Return what recurs in at least so many independent sessions of those that are chosen."""
    cases = read_cases(store, config, chosen)
    patterns = find_patterns(
        cases, min_signals=min(MIN_SIGNALS, min_sessions), min_sessions=min_sessions
    )
    # Only the store knows what an error cost from where it first occurred to where it was gone.
    errors = sorted(
        {pattern.locus.fingerprint for pattern in patterns if isinstance(pattern.locus, ErrorLocus)}
    )
    costs = store.digests.spent_on(chosen, errors) if errors else {}
    return [
        replace(pattern, usd=round(costs.get(pattern.locus.fingerprint, pattern.usd), 6))
        if isinstance(pattern.locus, ErrorLocus)
        else pattern
        for pattern in patterns
    ]


def read_cases(store: Store, config: Config, chosen: Filter) -> list[Case]:
    """Return the chosen sessions that have a digest."""
    lines = {line.uid: line for line in store.sessions.select(Filter(parents_only=False))}
    skills = _read_skills(config.home / "live", lines)
    roots = _find_roots(lines, store.retention.sharing())
    digests = [one for one in store.digests.iter(chosen) if one.session_uid in lines]
    cases = [
        _build_case(lines[digest.session_uid], digest, store, roots, skills) for digest in digests
    ]
    tasks = join_tasks({case.uid: _task_keys(case, lines[case.uid]) for case in cases})
    return [replace(case, task=tasks[case.uid]) for case in cases]


def _task_keys(case: Case, line: SessionLine) -> set[str]:
    digest = case.digest
    # What a subagent is asked is a part of the task, and may be asked again in another one.
    goal = None if case.is_subagent else digest.goal
    requests = () if case.is_subagent else (request.text for request in digest.requests)
    return task_keys(case.root, case.repo, digest.task_ref or line.task_ref, goal, requests)


def _build_case(
    line: SessionLine,
    digest: Digest,
    store: Store,
    roots: dict[str, str],
    skills: dict[str, list[Skill]],
) -> Case:
    return Case(
        uid=line.uid,
        # As it is shown: by a person's mark or by git, if there is one.
        digest=replace(
            digest,
            outcome=line.outcome,
            outcome_level=line.outcome_level,
            outcome_by=line.outcome_by,
        ),
        agent=line.agent,
        title=line.title or "",
        repo=line.repo,
        root=roots[line.uid],
        is_subagent=line.relation == "subagent",
        cwd=(line.cwd or "") if line.machine in (None, store.machine) else "",
        began=line.started_at or "",
        at=line.ended_at or line.started_at or "",
        usd=line.usd or 0.0,
        unpriced=line.unpriced,
        usd_with_subagents=line.usd_with_subagents or 0.0,
        unpriced_with_subagents=line.unpriced_with_subagents,
        tokens=line.input_tokens
        + line.output_tokens
        + line.cache_read_tokens
        + line.cache_write_tokens,
        skills=tuple(skills.get(line.uid, ())),
    )


def _find_roots(lines: dict[str, SessionLine], sharing: Iterable[set[str]]) -> dict[str, str]:
    """Return the root of each session. Sessions that share an event have the same root."""
    roots = {uid: _find_root(line, lines) for uid, line in lines.items()}
    joined: dict[str, str] = {}

    def last(root: str) -> str:
        while root in joined:
            root = joined[root]
        return root

    for group in sharing:
        first, *others = sorted({last(roots[uid]) for uid in group if uid in roots}) or [""]
        joined.update((other, first) for other in others)
    return {uid: last(root) for uid, root in roots.items()}


def _find_root(line: SessionLine, lines: dict[str, SessionLine]) -> str:
    """Return the session that this one goes back to by its parents."""
    visited = {line.uid}
    while line.parent_uid in lines and line.parent_uid not in visited:
        line = lines[line.parent_uid]
        visited.add(line.uid)
    return line.parent_uid or line.uid


def _read_skills(folder: Path, lines: dict[str, SessionLine]) -> dict[str, list[Skill]]:
    """Return the skills that live sessions logged, by the uid of the stored session."""
    if not folder.is_dir():
        return {}
    uids = find_live_uids(lines.values())
    skills: dict[str, list[Skill]] = {}
    for entry in entries_of(SessionStore(folder)):
        uid = uids.get(entry.session_id)
        if uid is not None:
            passed = {"pass": True, "fail": False}.get(entry.final_status)
            skills.setdefault(uid, []).append(
                Skill(entry.skill, passed, _find_rescuer(entry) if passed else "")
            )
    return skills


def find_live_uids(lines: Iterable[SessionLine]) -> dict[str, str]:
    """Return the uids of stored sessions by the id of the live session."""
    return {Path(line.source_path).parent.name: line.uid for line in lines if line.source_path}


def _find_rescuer(entry: SkillEntry) -> str:
    """Return the model of the last attempt, if it passed a check after another model had tried."""
    if not entry.attempts or not entry.attempts[-1].verified:
        return ""
    model = entry.attempts[-1].model or ""
    return (
        model if any(attempt.model and attempt.model != model for attempt in entry.attempts) else ""
    )
