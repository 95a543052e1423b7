"""Helpers of the start and fail hooks: lessons that apply, path of the store, quoting."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from ...config import home_folder, load
from ...files.git import git_remote
from ...lessons import deliver
from ...text.clean import one_line

MAX_NAME_CHARS = 80
"""Maximum length of a name in a reply."""


def show_lessons(
    agent: str, call: dict[str, object], cwd: str, fingerprint: str = "", command: str = ""
) -> str | None:
    """Return the lessons on the repository, error or command, and record the exposure."""
    home = Path(home_folder())
    folder = home / "lessons"
    if not folder.is_dir() or not os.path.isabs(cwd):
        return None
    repo = git_remote(Path(cwd))
    config = load()
    if config.exclude.matches(cwd, repo):
        return None
    now = datetime.now(UTC)
    tool, path = read_tool(call) if fingerprint or command else (None, None)
    place = deliver.Place(agent=agent, repo=repo, tool=tool, path=path)
    lessons = deliver.choose_lessons(
        folder, now, config.lessons, place, fingerprint=fingerprint, command=command
    )
    text, shown = deliver.render_lessons(lessons, config.lessons.most, config.lessons.max_tokens)
    if not shown:
        return None
    session = str(call.get("session_id") or "")[:MAX_NAME_CHARS]
    ids = tuple(one.id for one in shown)
    what = fingerprint if any(fingerprint in one.fingerprints for one in shown) else command
    deliver.record_delivery(
        home,
        text,
        now,
        agent=agent,
        session=session,
        repo=repo or "",
        lessons=ids,
        fingerprint=what,
    )
    return text


def read_tool(call: dict[str, object]) -> tuple[str | None, str | None]:
    """Return the tool that failed and its file, each None if the agent does not name it."""
    name, given = call.get("tool_name"), call.get("tool_input")
    path = given.get("file_path") if isinstance(given, dict) else None
    return (name if isinstance(name, str) else None), (path if isinstance(path, str) else None)


def store_path(cwd: str, repo: str | None) -> str | None:
    """Return the path of the store's file; None if there is none or if the folder is excluded.

    A store on a server has no file. Connecting to one takes longer than a hook may.
    """
    config = load()
    if config.exclude.matches(cwd, repo):
        return None
    path = os.path.expanduser(config.store)
    return path if os.path.isfile(path) else None


def quoted(text: str, max_chars: int) -> str:
    """Return the text in double quotes, with those inside it replaced."""
    return f'"{plain(text, max_chars)}"'


def plain(text: str, max_chars: int) -> str:
    """Return the text on one line, cut, and without characters that could end a quotation or look
    like a tag."""
    line = "".join(char if char.isprintable() else " " for char in one_line(text)).translate(
        str.maketrans('"`<>', "''‹›")
    )
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"
