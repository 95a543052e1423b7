"""The patterns of a store: its digests as cases, and what miners make of them. Reads only; what is found is not kept, for digests are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .config import Config
from .mine import Case, Skill
from .mine._cluster import Pattern
from .mine.patterns import FEWEST_SIGNALS, find
from .store import Filter, SessionLine, Store

if TYPE_CHECKING:
    from .live.skills import SkillEntry


def patterns(store: Store, config: Config, chosen: Filter, *, fewest: int = 2) -> list[Pattern]:
    """What recurs in these sessions, in at least so many that have nothing to do with each other."""
    return find(cases(store, config, chosen), fewest_signals=min(FEWEST_SIGNALS, fewest), fewest_sessions=fewest)


def cases(store: Store, config: Config, chosen: Filter) -> list[Case]:
    """The sessions that have a digest, as miners see them."""
    every = {line.uid: line for line in store.sessions(Filter(parents_only=False))}
    skills = _skills(config.home / "live", every)
    found = []
    for digest in store.digests(chosen):
        line = every.get(digest.session_uid)
        if line is not None:
            found.append(
                Case(
                    uid=line.uid,
                    digest=digest,
                    agent=line.agent,
                    repo=line.repo,
                    root=_root(line, every),
                    at=line.ended_at or line.started_at or "",
                    usd=line.usd or 0.0,
                    tokens=line.input_tokens + line.output_tokens + line.cache_read_tokens + line.cache_write_tokens,
                    skills=tuple(skills.get(line.uid, ())),
                )
            )
    return found


def _root(line: SessionLine, every: dict[str, SessionLine]) -> str:
    """Where a session goes back to. Two that go back to the same one are one piece of evidence."""
    seen = {line.uid}
    while line.parent_uid in every and line.parent_uid not in seen:
        line = every[line.parent_uid]
        seen.add(line.uid)
    return line.parent_uid or line.uid


def _skills(folder: Path, every: dict[str, SessionLine]) -> dict[str, list[Skill]]:
    """By session, the skills that live sessions have logged, of those that are stored."""
    if not folder.is_dir():
        return {}
    from .live import SessionStore
    from .live.skills import entries_of

    named = {line.source_path and Path(line.source_path).parent.name: line.uid for line in every.values()}
    found: dict[str, list[Skill]] = {}
    for entry in entries_of(SessionStore(folder)):
        uid = named.get(entry.session_id)
        if uid is not None:
            passed = {"pass": True, "fail": False}.get(entry.final_status)
            found.setdefault(uid, []).append(Skill(entry.skill, passed, _rescuer(entry) if passed else ""))
    return found


def _rescuer(entry: SkillEntry) -> str:
    """The model of the last attempt, if that was checked and passed, and another model's was not enough."""
    if not entry.attempts or not entry.attempts[-1].verified:
        return ""
    model = entry.attempts[-1].model or ""
    return model if any(one.model and one.model != model for one in entry.attempts) else ""
