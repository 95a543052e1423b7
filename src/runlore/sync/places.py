"""The place of a session: its repository, its task, and whether it is excluded.

Each folder on this machine is looked at once.
"""

from __future__ import annotations

from pathlib import Path

from ..config import Config
from ..files.git import git_remote
from ..store import Batch
from ..text.task_ref import task_ref
from .folders import project_of
from .repositories import valid

Place = tuple[str | None, str | None]
"""Repository, task."""


class Places:
    """Finds the places of sessions, and remembers the repositories of folders."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._repos: dict[str, str | None] = {}

    def of(self, batch: Batch) -> dict[str, Place]:
        """Return the place of each session in a batch, by uid, as far as the batch tells it."""
        places: dict[str, Place] = {}
        for delta in batch.deltas:
            facts = delta.facts
            # The folders of another machine are not here.
            here = self.git(facts.cwd) if facts.cwd and batch.source.machine is None else None
            own = project_of(facts.cwd).name if facts.cwd else None
            repo = here or valid(facts.repo) or valid(own)
            task = facts.task_ref or task_ref(facts.git_branch, delta.tally.first_prompt)
            places[delta.session_uid] = (repo, task)
        return places

    def is_wanted(self, batch: Batch) -> bool:
        """Return False if anything in the batch is of an excluded folder or repository.

        A source is stored or left out as a whole.
        """
        exclude = self._config.exclude
        if not exclude.paths and not exclude.repos:
            return True
        places = self.of(batch)
        return not any(
            exclude.matches(delta.facts.cwd, places[delta.session_uid][0]) for delta in batch.deltas
        )

    def git(self, folder: str) -> str | None:
        """Return the name of a folder's repository, as git has it on this machine."""
        if folder not in self._repos:
            self._repos[folder] = git_remote(Path(folder))
        return self._repos[folder]
