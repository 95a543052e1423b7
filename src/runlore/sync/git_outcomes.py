"""Asks git what became of the commits that sessions made, and stores the answer.

Each repository is asked rarely, and only about sessions whose commits are recent or were never
asked about. A repository that is gone, or that git cannot read, is asked again no sooner than the
others.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from ..files.git import git_root
from ..files.git_log import Fate, SessionCommit, find_same_changes, judge_commits, read_branch
from ..model import parse_time
from ..store import Store
from ..store.values import CommittedSession

MAX_REPOSITORIES = 20
"""Repositories that one sync asks. The others are asked by the next."""
MIN_NAME = 7
"""Characters of a commit's name. Shorter ones may be those of another commit."""
_SLACK = timedelta(days=1)
"""Clocks differ: a commit may be older than the session that made it."""


def ask_git(
    store: Store, due: list[CommittedSession], asked_before: datetime, now: datetime
) -> int:
    """Ask git about the commits of these sessions, in repositories not asked since a given time.

    Returns how many sessions have another state.
    """
    roots = {cwd: git_root(Path(cwd)) for cwd in {session.cwd for session in due}}
    by_root: dict[Path | None, list[CommittedSession]] = {}
    for session in due:
        by_root.setdefault(roots[session.cwd], []).append(session)
    for session in by_root.pop(None, []):
        store.digests.put_fate(session.uid, session.state, session.note, now)
    recently = {git_root(Path(cwd)) for cwd in store.digests.folders_since(asked_before)} - {None}
    waiting = [root for root in by_root if root is not None and root not in recently]
    return sum(_ask(store, root, by_root[root], now) for root in waiting[:MAX_REPOSITORIES])


def _ask(store: Store, root: Path, sessions: list[CommittedSession], now: datetime) -> int:
    commits = {session.uid: _commits_of(store, session.uid) for session in sessions}
    starts = [parse_time(session.started_at) for session in sessions if session.started_at]
    branch = read_branch(root, min(starts, default=now) - _SLACK)
    changed = 0
    if branch is not None:
        every = [commit for some in commits.values() for commit in some]
        same = find_same_changes(root, every, branch)
    for session in sessions:
        fate = Fate(session.state, session.note)
        if branch is not None:
            fate = judge_commits(commits[session.uid], session.branch, branch, same)
        store.digests.put_fate(session.uid, fate.state, fate.note, now)
        changed += fate.state != session.state
    return changed


def _commits_of(store: Store, uid: str) -> list[SessionCommit]:
    digest = store.digests.get(uid)
    return [
        SessionCommit(commit.sha, commit.subject)
        for commit in (digest.commits if digest else ())
        if len(commit.sha) >= MIN_NAME
    ]
