"""Paths as a reader of the repository knows them: relative to its root. Pure."""

from __future__ import annotations

import posixpath
import re

_IS_ABSOLUTE = re.compile(r"/|~|[A-Za-z]:/")
_WORKTREE = re.compile(r"(?:\.[\w-]+/)?\.?worktrees?/[^/]+/(?=.)")
_SIBLING_WORKTREE = re.compile(r"(?:\.|__|[-_])worktrees/[^/]+/(?=.)")


class Root:
    """The root of a session's repository: the folder in which the agent was started, if known."""

    def __init__(self, cwd: str | None) -> None:
        folder = posixpath.normpath(cwd.replace("\\", "/")) if cwd else ""
        self.folder = folder if folder.strip("/.") else ""

    def relative(self, path: str, here: str | None = None) -> str:
        """Return a path relative to the root, or unchanged if it is elsewhere.

        A relative path is seen from `here`, else from the root. A worktree of the repository counts
        as the repository.
        """
        full = path.replace("\\", "/")
        if not _IS_ABSOLUTE.match(full):
            if here is None or not self.folder:
                return posixpath.normpath(full)
            full = posixpath.join(here.replace("\\", "/"), full)
        full = posixpath.normpath(full)
        if full == self.folder:
            return "."
        if not self.folder or not full.startswith(self.folder):
            return full
        rest = full[len(self.folder) :]
        if sibling := _SIBLING_WORKTREE.match(rest):
            return rest[sibling.end() :]
        if not rest.startswith("/"):
            return full
        inside = _WORKTREE.match(rest, 1)
        return rest[inside.end() if inside else 1 :]

    def has(self, path: str) -> bool:
        """Return True if a path that `relative` returned is in the repository."""
        return not _IS_ABSOLUTE.match(path) and not path.startswith("../")
