"""The repository of a folder. This reads `.git/config` and runs nothing, because hooks call it
while an agent waits."""

from __future__ import annotations

from pathlib import Path

from ..text.remotes import remote_name

MAX_BYTES = 1 << 20
"""Bytes that are read of a file of git, which may be endless in a hostile repository."""


def git_remote(folder: Path) -> str | None:
    """Return `owner/name` from the remote of a folder's repository, else the repository's folder.

    None if the folder is in no repository.
    """
    try:
        found = _find_repository(folder)
        if found is None:
            return None
        place, git = found
        config = git / "config"
        return _remote_in(_beginning(config) if config.is_file() else "") or place.name
    except (OSError, ValueError):  # Not there, not ours to read, or no path at all.
        return None


def git_root(folder: Path) -> Path | None:
    """Return the folder of the repository that a folder is in; for a worktree, the main one.

    None if the folder is in no repository.
    """
    try:
        found = _find_repository(folder)
    except (OSError, ValueError):
        return None
    return None if found is None else found[0]


def _find_repository(folder: Path) -> tuple[Path, Path] | None:
    """Return the folder of a repository, and its git folder."""
    # A transcript may name any folder. Relative ones, those of another machine, and those that are
    # gone, whose repository further up is not their own, are left alone.
    if not folder.is_absolute() or _is_elsewhere(str(folder)) or not folder.is_dir():
        return None
    for place in (folder, *folder.parents):
        git = place / ".git"
        if git.is_file():  # A worktree or a submodule: the file says where its git folder is.
            target = _beginning(git).removeprefix("gitdir:").strip()
            if _is_elsewhere(target):
                return None
            git = (place / target).resolve()
            if git.parent.name == "worktrees":
                git = git.parent.parent
                place = git.parent
        if git.is_dir():
            return place, git
    return None


def _is_elsewhere(path: str) -> bool:
    """Return True if a path names another machine, where Windows would log in."""
    return path[:2] in ("\\\\", "//", "\\/", "/\\")


def _beginning(file: Path) -> str:
    with open(file, "rb") as data:
        return data.read(MAX_BYTES).decode("utf-8", "replace")


def _remote_in(config: str) -> str | None:
    section, urls = "", {}
    for line in map(str.strip, config.splitlines()):
        if line.startswith("["):
            section = line
        elif section.startswith("[remote") and line.startswith("url"):
            urls[section] = line.partition("=")[2].strip()
    url = urls.get('[remote "origin"]') or next(iter(urls.values()), "")
    return remote_name(url)
