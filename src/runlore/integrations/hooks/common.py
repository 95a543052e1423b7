"""Helpers of the start and fail hooks: lessons that apply, path of the store, quoting."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from ...config import home_folder, load
from ...files.git import git_remote
from ...lessons import deliver
from ...lessons.trial import find_root
from ...store import open_store
from ...text.clean import one_line

MAX_NAME_CHARS = 80
"""Maximum length of a name in a reply."""


def show_lessons(
    agent: str, call: dict[str, object], cwd: str, fingerprint: str = "", command: str = ""
) -> str | None:
    """Return the lessons on the repository, error or command, and record what was decided.

    None if there are none, or if the trial withholds them all from this session.
    """
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
    limits = config.lessons.most, config.lessons.max_tokens
    _, fitting = deliver.render_lessons(lessons, *limits)
    if not fitting:
        return None
    session = str(call.get("session_id") or "")[:MAX_NAME_CHARS]
    unit = find_unit(home, f"{agent}:{session}", cwd, repo) if session else ""
    choice = deliver.divide_lessons(home, config.lessons, fitting, unit)
    text, shown = deliver.render_lessons(choice.shown, *limits)
    is_known = any(fingerprint in one.fingerprints for one in fitting)
    deliver.record_delivery(
        home,
        text,
        now,
        agent=agent,
        session=session,
        repo=repo or "",
        lessons=tuple(one.id for one in shown),
        withheld=tuple(one.id for one in choice.withheld),
        share=choice.share,
        unit=unit,
        fingerprint=fingerprint if is_known else command,
    )
    return text or None


def find_unit(home: Path, uid: str, cwd: str, repo: str | None) -> str:
    """Return the session that the trial of lessons decides for: the root of the session's family.

    The root is known of a session that is stored already, and of any other it is the session
    itself. Once decided, it stays.
    """
    if known := deliver.find_unit(home, uid):
        return known
    try:
        path = store_path(cwd, repo)
        if path is None:
            return uid
        with closing(open_store(path, read_only=True)) as store:
            return find_root(store, uid)
    # Lessons are files beside the store: an error of the store must not hide them.
    except Exception:
        return uid


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
