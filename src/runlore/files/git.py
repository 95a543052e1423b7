"""The repository that a folder is in. Reads `.git/config` and runs nothing; imports little, for
hooks are in a hurry."""

from __future__ import annotations

from pathlib import Path

LARGEST = 1 << 20
"""Of a file of git, in bytes: whoever made the repository may have made it endless."""


def git_remote(folder: Path) -> str | None:
    """`owner/name` out of the remote of the repository that a folder is in, or the name of the
    repository's folder."""
    try:
        # What a transcript names may be anywhere: not our own folder, not another machine's, and
        # not what is gone, whose repository further up is not its own.
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
                config = git / "config"
                return _remote_in(_beginning(config) if config.is_file() else "") or place.name
    except (OSError, ValueError):  # Not there, not ours to read, or no path at all.
        pass
    return None


def _is_elsewhere(path: str) -> bool:
    """Whether this names another machine: Windows would log in there to have a look."""
    return path[:2] in ("\\\\", "//", "\\/", "/\\")


def _beginning(file: Path) -> str:
    with open(file, "rb") as data:
        return data.read(LARGEST).decode("utf-8", "replace")


def _remote_in(config: str) -> str | None:
    section, urls = "", {}
    for line in map(str.strip, config.splitlines()):
        if line.startswith("["):
            section = line
        elif section.startswith("[remote") and line.startswith("url"):
            urls[section] = line.partition("=")[2].strip()
    url = urls.get('[remote "origin"]') or next(iter(urls.values()), "")
    path = url.split("://")[-1].split("@")[-1].replace(":", "/").rstrip("/").removesuffix(".git")
    return "/".join(path.split("/")[-2:]) or None
