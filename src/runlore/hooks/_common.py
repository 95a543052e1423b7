"""What both answers of a hook need: the lessons that fit, where the store is, and text of strangers in quotes."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from .._git import git_remote
from .._text import one_line
from ..config import home_folder, load
from ..lessons import deliver

NAME = 80
"""Characters of a name that are shown."""


def lessons_of(agent: str, call: dict[str, object], cwd: str, fingerprint: str = "", command: str = "") -> str | None:
    """The lessons that fit the repository, or this error or command in it; and a note that they were told."""
    home = Path(home_folder())
    folder = home / "lessons"
    if not folder.is_dir() or not os.path.isabs(cwd):
        return None
    repo = git_remote(Path(cwd))
    config = load()
    if config.exclude.matches(cwd, repo):
        return None
    now = datetime.now(UTC)
    tool, path = tool_of(call) if fingerprint or command else (None, None)
    place = deliver.Place(agent=agent, repo=repo, tool=tool, path=path)
    found = deliver.choose_lessons(folder, now, config.lessons, place, fingerprint=fingerprint, command=command)
    text, told = deliver.render_lessons(found, config.lessons.most, config.lessons.max_tokens)
    if not told:
        return None
    session = str(call.get("session_id") or "")[:NAME]
    ids = tuple(one.id for one in told)
    what = fingerprint if fingerprint in {one.fingerprint for one in told} - {""} else command
    deliver.record_delivery(home, text, now, agent=agent, session=session, repo=repo or "", lessons=ids, fingerprint=what)
    return text


def tool_of(call: dict[str, object]) -> tuple[str | None, str | None]:
    """Which tool failed, and at which file, as far as the agent says so."""
    name, given = call.get("tool_name"), call.get("tool_input")
    path = given.get("file_path") if isinstance(given, dict) else None
    return (name if isinstance(name, str) else None), (path if isinstance(path, str) else None)


def store_path(cwd: str, repo: str | None) -> str | None:
    """The file of the store, or None when there is none, or when the user wants nothing kept of this folder. A store on a server has
    no file: reaching one takes longer than a hook may."""
    config = load()
    if config.exclude.matches(cwd, repo):
        return None
    path = os.path.expanduser(config.store)
    return path if os.path.isfile(path) else None


def quoted(text: str, most: int) -> str:
    """In quotes, and with none of them inside."""
    return f'"{plain(text, most)}"'


def plain(text: str, most: int) -> str:
    """On one line, cut, and without what a reader might take for the end of a quotation or for a tag."""
    line = "".join(char if char.isprintable() else " " for char in one_line(text)).translate(str.maketrans('"`<>', "''‹›"))
    return line if len(line) <= most else f"{line[: most - 1]}…"
