"""The reply at the start of a session: a line on earlier sessions, and the lessons that apply."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from ...files.git import git_remote
from ...store import open_store
from ...store.values import LastSession
from ...text.clean import OWN
from .common import MAX_NAME_CHARS, plain, quoted, show_lessons, store_path

MAX_LINE_CHARS = 500
"""Maximum length of the line."""

MAX_TITLE_CHARS = 100


def reply_to_start(agent: str, call: dict[str, object]) -> str:
    """Return the reply at a start: a line on earlier sessions, and below it the lessons."""
    cwd = str(call.get("cwd") or "")
    try:
        line = describe_earlier(cwd)
    # Lessons are files beside the store: an error of the store must not hide them.
    except Exception:
        line = None
    return "\n".join(part for part in (line, show_lessons(agent, call, cwd)) if part)


def describe_earlier(cwd: str) -> str | None:
    """Return a line on the sessions in the repository of this folder, or None without any.

    Only reads.
    """
    folder = Path(cwd)
    if not cwd or not folder.is_absolute():
        return None
    repo = git_remote(folder)
    path = store_path(cwd, repo)
    if path is None:
        return None
    with closing(open_store(path, read_only=True)) as store:
        number, last = store.overview.last_session(repo, cwd)
    return build_line(repo or folder.name, number, last) if last else None


def build_line(place: str, number: int, last: LastSession) -> str:
    """Build the line, marked as data. Quoted text from transcripts cannot end the quotation."""
    uid, name, ended_at, outcome = last
    sessions = "1 earlier session" if number == 1 else f"{number:,} earlier sessions"
    when = f" on {ended_at[:10]}" if ended_at else ""
    failed = ", which failed" if outcome == "fail" else ""
    title = f": {quoted(name, MAX_TITLE_CHARS)}" if name else ""
    line = (
        f"{OWN} {sessions} in {quoted(place, MAX_NAME_CHARS)}; the last one{when}{failed}{title}"
        f" ({plain(uid, MAX_NAME_CHARS)}). The tools of the MCP server runlore, or `runlore search"
        " WORDS`, find what was tried before."
    )
    return line[:MAX_LINE_CHARS]
