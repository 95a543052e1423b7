"""One sync of all agents under a limit of 600 MB, with a poisoned source of each agent between
sources that are good: all that is good is stored."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from bench.attack import Result, not_possible
from bench.attack._hostile import (
    choose_fixtures,
    configure,
    copy_root,
    files_of,
    run_sync,
    sessions_of,
    why_not,
    write,
)
from bench.attack.databases import ATTACKS, edit_databases, has_database
from bench.attack.files import POISONS

MAX_BYTES = 600_000_000
"""Address space of each process."""


def attack(scale: float, scratch: Path) -> Iterator[Result]:
    """Sync good sources alone, then with a poisoned one of each agent."""
    case = "a poisoned source of each agent, in 600 MB"
    if reason := why_not() or _why_no_limit(scratch / "empty"):
        yield not_possible(case, reason)
        return
    alone, among = scratch / "alone", scratch / "among"
    fixtures = choose_fixtures(scale, lambda _: True)
    good = {one.agent: [copy_root(one, scratch / "good" / one.agent)] for one in fixtures}
    configure(alone, good)
    run_sync(alone, list(good))
    wanted = sessions_of(alone)
    bad = _poison(scale, scratch / "bad")
    configure(among, {agent: good[agent] + bad.get(agent, []) for agent in good})
    run = run_sync(among, list(good), MAX_BYTES)
    stored = sessions_of(among)
    note = f"{len(bad)} agents poisoned, {len(run.problems)} sources set aside, {run.figures}"
    if run.code or not wanted <= stored:
        lost = ", ".join(sorted(wanted - stored)[:5])
        note = f"{note}; ended with {run.code}, lost {lost}; {run.output[-200:]!r}"
    yield Result(case, len(wanted), len(wanted & stored), note)
    again = run_sync(among, list(good), MAX_BYTES)
    if not run.set_aside:
        return
    twice = run.set_aside & {path for path, _ in again.problems}
    note = ", ".join([again.figures, *sorted(twice)[:5]])
    case = "the same again: what was set aside is not tried"
    yield Result(case, len(run.set_aside), len(run.set_aside - twice), note)


def _poison(scale: float, folder: Path) -> dict[str, list[Path]]:
    """Return a folder of each agent in which a source is hostile."""
    poisons, edits = cycle(POISONS.values()), cycle(ATTACKS.values())
    roots: dict[str, list[Path]] = {}
    for fixture in choose_fixtures(scale, lambda _: True):
        root = copy_root(fixture, folder / fixture.agent)
        if has_database(fixture):
            edit_databases(root, next(edits))
        elif files := files_of(fixture, root):
            write(files[0], next(poisons)())
        else:
            continue
        roots[fixture.agent] = [root]
    return roots


def _why_no_limit(home: Path) -> str | None:
    """Return why a sync of nothing does not end under the limit; None if it does."""
    if sys.platform != "linux":
        return "needs a system that limits address space"
    configure(home, {"claude": [home]})
    run = run_sync(home, ["claude"], MAX_BYTES)
    if run.code:
        return (
            f"a sync of nothing ends with {run.code} in {MAX_BYTES >> 20} MB: {run.output[-80:]!r}"
        )
    return None
