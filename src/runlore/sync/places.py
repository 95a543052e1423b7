"""Where a session belongs: its repository, the task it was about, and whether it is to be left out.

Each folder on this machine is looked at once.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import msgspec

from ..config import Config
from ..files.git import git_remote
from ..store import Batch
from .task_ref import task_ref

Place = tuple[str | None, str | None]
"""Repository, task."""


class Places:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._repos: dict[str, str | None] = {}
        self.excluded = (
            "excluded " + blake2b(msgspec.json.encode(config.exclude), digest_size=4).hexdigest()
        )
        """Marks a source that these rules leave out: with other rules it is looked at again."""

    def of(self, batch: Batch) -> dict[str, Place]:
        """The place of each session in a batch, by uid."""
        found: dict[str, Place] = {}
        for piece in batch.pieces:
            facts = piece.facts
            repo = self._repo(facts.cwd, batch.source.machine) or facts.repo or _folder(facts.cwd)
            found[piece.session_uid] = (
                repo,
                facts.task_ref or task_ref(facts.git_branch, piece.tally.first_prompt),
            )
        return found

    def is_wanted(self, batch: Batch) -> bool:
        """False when anything in the batch is of an excluded folder or repository: a source is
        taken or left whole."""
        exclude = self._config.exclude
        if not exclude.paths and not exclude.repos:
            return True
        places = self.of(batch)
        return not any(
            exclude.matches(piece.facts.cwd, places[piece.session_uid][0]) for piece in batch.pieces
        )

    def _repo(self, cwd: str | None, machine: str | None) -> str | None:
        if cwd is None or machine is not None:  # The folders of another machine are not here.
            return None
        if cwd not in self._repos:
            self._repos[cwd] = git_remote(Path(cwd))
        return self._repos[cwd]


def _folder(cwd: str | None) -> str | None:
    return (cwd.replace("\\", "/").rstrip("/").rpartition("/")[2] or None) if cwd else None
