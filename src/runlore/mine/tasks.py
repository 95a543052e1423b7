"""Group sessions by task. The sessions of one task count as one piece of evidence.

Sessions are one task if they are one family (subagents, forks, continuations), name the same issue
or pull request, or begin with the same request in the same repository. A long request that is
repeated to the letter is the same task as well, wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MAX_GOAL_CHARS = 300
MIN_REQUEST_WORDS = 8
"""Words of a request that nobody writes twice for different tasks."""
MIN_TASKS = 3
"""Independent tasks in which something must have helped before anybody else is told of it."""


def task_keys(
    root: str,
    repo: str | None,
    task_ref: str | None,
    goal: str | None,
    requests: Iterable[str] = (),
) -> set[str]:
    """Return the names of a session's task. Sessions that share one are about the same task."""
    keys = {f"family {root}"}
    if task_ref:
        place = "" if "/" in task_ref else f"{repo or ''} "
        keys.add(f"ref {place}{task_ref}".lower())
    if words := _words_of(goal or ""):
        keys.add(f"goal {repo or ''} {' '.join(words)}")
    for words in map(_words_of, requests):
        if len(words) >= MIN_REQUEST_WORDS:
            keys.add(f"goal {repo or ''} {' '.join(words)}")
    return keys


def _words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text[:MAX_GOAL_CHARS].lower())


def join_tasks(keys: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return the task of each session, given the names of its task; the first uid stands for it."""
    first_of: dict[str, str] = {}
    joined: dict[str, str] = {}

    def last(uid: str) -> str:
        while uid in joined:
            uid = joined[uid]
        return uid

    for uid in sorted(keys):
        for key in sorted(keys[uid]):
            one, other = sorted((last(uid), last(first_of.setdefault(key, uid))))
            if one != other:
                joined[other] = one
    return {uid: last(uid) for uid in keys}
