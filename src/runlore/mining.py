"""The patterns of a store: its digests as cases, and what miners make of them. Reads only; what is found is not kept, for digests are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from .config import Config
from .live import SessionStore
from .live.skills import SkillEntry, entries_of
from .mine import Case, Skill
from .mine._cluster import Pattern
from .mine.patterns import FEWEST_SIGNALS, find
from .store import Filter, SessionLine, Store

PRICED = frozenset({"recurring_error", "recovery"})
"""Types whose locus is an error: what it cost, from where it was first seen to where it was gone, is known to the store alone."""

replace = msgspec.structs.replace


def patterns(store: Store, config: Config, chosen: Filter, *, fewest: int = 2) -> list[Pattern]:
    """What recurs in these sessions, in at least so many that have nothing to do with each other."""
    found = find(cases(store, config, chosen), fewest_signals=min(FEWEST_SIGNALS, fewest), fewest_sessions=fewest)
    errors = sorted({one.locus for one in found if one.type in PRICED})
    spent = store.spent_on(chosen, errors) if errors else {}
    return [replace(one, usd=round(spent.get(one.locus, one.usd), 6)) if one.type in PRICED else one for one in found]


def cases(store: Store, config: Config, chosen: Filter) -> list[Case]:
    """The sessions that have a digest, as miners see them."""
    every = {line.uid: line for line in store.sessions(Filter(parents_only=False))}
    skills = _skills(config.home / "live", every)
    roots = _roots(every, store.sharing())
    found = []
    for digest in store.digests(chosen):
        line = every.get(digest.session_uid)
        if line is not None:
            found.append(
                Case(
                    uid=line.uid,
                    digest=digest,
                    agent=line.agent,
                    title=line.title or "",
                    repo=line.repo,
                    root=roots[line.uid],
                    is_subagent=line.relation == "subagent",
                    cwd=(line.cwd or "") if line.machine in (None, store.machine) else "",
                    began=line.started_at or "",
                    at=line.ended_at or line.started_at or "",
                    usd=line.usd or 0.0,
                    tokens=line.input_tokens + line.output_tokens + line.cache_read_tokens + line.cache_write_tokens,
                    skills=tuple(skills.get(line.uid, ())),
                )
            )
    return found


def _roots(every: dict[str, SessionLine], sharing: Iterable[set[str]]) -> dict[str, str]:
    """Where each session goes back to. Those that have an event in common go back to the same."""
    roots = {uid: _root(line, every) for uid, line in every.items()}
    joined: dict[str, str] = {}

    def last(root: str) -> str:
        while root in joined:
            root = joined[root]
        return root

    for group in sharing:
        first, *others = sorted({last(roots[uid]) for uid in group if uid in roots}) or [""]
        joined.update((other, first) for other in others)
    return {uid: last(root) for uid, root in roots.items()}


def _root(line: SessionLine, every: dict[str, SessionLine]) -> str:
    """Where a session goes back to, by its parents."""
    seen = {line.uid}
    while line.parent_uid in every and line.parent_uid not in seen:
        line = every[line.parent_uid]
        seen.add(line.uid)
    return line.parent_uid or line.uid


def _skills(folder: Path, every: dict[str, SessionLine]) -> dict[str, list[Skill]]:
    """By session, the skills that live sessions have logged, of those that are stored."""
    if not folder.is_dir():
        return {}
    named = live_names(every.values())
    found: dict[str, list[Skill]] = {}
    for entry in entries_of(SessionStore(folder)):
        uid = named.get(entry.session_id)
        if uid is not None:
            passed = {"pass": True, "fail": False}.get(entry.final_status)
            found.setdefault(uid, []).append(Skill(entry.skill, passed, _rescuer(entry) if passed else ""))
    return found


def live_names(lines: Iterable[SessionLine]) -> dict[str, str]:
    """By the id of a live session, the uid that it is stored under."""
    return {Path(line.source_path).parent.name: line.uid for line in lines if line.source_path}


def _rescuer(entry: SkillEntry) -> str:
    """The model of the last attempt, if that was checked and passed, and another model's was not enough."""
    if not entry.attempts or not entry.attempts[-1].verified:
        return ""
    model = entry.attempts[-1].model or ""
    return model if any(one.model and one.model != model for one in entry.attempts) else ""
