"""The place of a session: its repository, its task, and whether it is excluded.

Each folder on this machine is looked at once.
"""

from __future__ import annotations

from pathlib import Path

from ..config import Config
from ..files.git import git_remote
from ..store import Batch
from .task_ref import task_ref

Place = tuple[str | None, str | None]
"""Repository, task."""


class Places:
    """Finds the places of sessions, and remembers the repositories of folders."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._repos: dict[str, str | None] = {}

    def of(self, batch: Batch) -> dict[str, Place]:
        """Return the place of each session in a batch, by uid."""
        places: dict[str, Place] = {}
        for delta in batch.deltas:
            facts = delta.facts
            repo = self._repo(facts.cwd, batch.source.machine) or facts.repo or _folder(facts.cwd)
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

    def _repo(self, cwd: str | None, machine: str | None) -> str | None:
        if cwd is None or machine is not None:  # The folders of another machine are not here.
            return None
        if cwd not in self._repos:
            self._repos[cwd] = git_remote(Path(cwd))
        return self._repos[cwd]


def _folder(cwd: str | None) -> str | None:
    """Return the name of a folder."""
    return (cwd.replace("\\", "/").rstrip("/").rpartition("/")[2] or None) if cwd else None
