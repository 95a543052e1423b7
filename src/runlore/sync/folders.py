"""The project of a folder, from its path alone: worktrees are folders of their repository, also
when nothing of them is left. Pure."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import NamedTuple


class Project(NamedTuple):
    """The project that a folder is of."""

    root: str
    """The folder of the repository itself; "" if a worktree lies apart from it, and its path does
    not tell."""
    name: str
    """The name of that folder; "" where there is none."""

    @property
    def is_common(self) -> bool:
        """Return True if the folder is no project's own, such as a home or `/tmp`."""
        return not self.root or _is_common(self.root.split("/"))


def project_of(cwd: str, known: Container[str] = ()) -> Project:
    """Return the project of a folder, from its path alone.

    A folder that is no worktree counts as a project of its own, also below the root of another.
    `known` are folders with sessions, as `normal_path` gives them.
    """
    path = normal_path(cwd)
    parts = path.split("/")
    # Most folders are none, and all paths are looked at often.
    for at, part in enumerate(parts if any(word in path for word in _WORDS) else ()):
        inside = parts[at + 1 :]
        if not inside:
            break
        above = parts[:at]
        if (apart := _name_apart(parts, at)) is not None:
            return Project("", apart)
        if part == "worktrees" and len(above) > 1 and above[-1].startswith("."):
            return _project(above[:-1])  # repository/.tool/worktrees/name
        if part == ".conductor" or re.fullmatch(r"\.[\w-]*worktrees?", part):
            return _project(above)  # repository/.worktrees/name
        if beside := re.fullmatch(r"(.*[^\W_])(\.|__|[-_])worktrees", part):
            found = _project([*above, beside[1]])  # repository.worktrees/name
            # Before a single sign may also stand the name of a tool.
            if beside[2] in (".", "__") or found.root in known:
                return found
    return _project(parts)


def normal_path(cwd: str) -> str:
    """Return a path in one spelling: with slashes, none at its end, and a small drive letter."""
    path = cwd.replace("\\", "/").rstrip("/")
    return path[0].lower() + path[1:] if re.match(r"[A-Za-z]:", path) else path


def folders_above(root: str) -> Iterator[str]:
    """Yield the folders above a folder that may be a project's, the nearest first."""
    parts = root.split("/")[:-1]
    while parts and not _is_common(parts):
        yield "/".join(parts)
        parts.pop()


_WORDS = ("worktree", "conductor")
"""Each path of a worktree has one of these in it."""

_APART = {
    ("vibe-kanban", "worktrees"): 1,
    ("conductor", "workspaces"): 0,
    ("superpowers", "worktrees"): 0,
}
"""Folders in which tools collect the worktrees of all repositories, and how many folders lie
between them and one that is named for the repository."""

_ID = re.compile(r"[0-9a-f]{4,}(?:-[0-9a-f]+)*|\d+")


def _name_apart(parts: list[str], at: int) -> str | None:
    """Return the name of a repository from a folder that collects the worktrees of several ones;
    None if the folder at this place does not."""
    inside = parts[at + 1 :]
    place = _APART.get((parts[at - 1], parts[at])) if at else None
    if place is None:
        is_hidden = re.fullmatch(r"\.[\w-]*worktrees?", parts[at]) is not None
        is_below = at > 0 and parts[at] == "worktrees" and parts[at - 1].startswith(".")
        if not (is_hidden and _is_home(parts[:at])) and not (
            is_below and _is_home(parts[: at - 1])
        ):
            return None
        place = int(_ID.fullmatch(inside[0]) is not None)
    return inside[min(place, len(inside) - 1)]


def _project(parts: list[str]) -> Project:
    return Project("/".join(parts), parts[-1] if parts else "")


def _is_home(parts: list[str]) -> bool:
    return parts == ["", "root"] or (len(parts) == 3 and parts[1].lower() in ("home", "users"))


def _is_common(parts: list[str]) -> bool:
    return len(parts) < 3 or _is_home(parts) or parts[1:] in (["private", "tmp"], ["var", "tmp"])
