"""The reply at the start of a session: a line on earlier sessions, and the lessons that apply."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from ...files.git import git_remote
from ...store import Store, open_store
from ...text.clean import OWN
from ._common import NAME, lessons_of, plain, quoted, store_path

LONGEST = 500
"""Of the line, in characters."""

TITLE = 100


class Last(NamedTuple):
    """The last session in a repository or a folder."""

    uid: str
    title: str | None
    ended_at: str | None
    outcome: str


def started(agent: str, call: dict[str, object]) -> str:
    """What is said at a start: the line, and below it the lessons."""
    cwd = str(call.get("cwd") or "")
    try:
        line = known_of(cwd)
    except Exception:  # Whatever is wrong with the store, lessons are files beside it.
        line = None
    return "\n".join(part for part in (line, lessons_of(agent, call, cwd)) if part)


def known_of(cwd: str) -> str | None:
    """A line on the sessions in the repository of this folder, or None when there are none. Only
    reads."""
    folder = Path(cwd)
    if not cwd or not folder.is_absolute():
        return None
    repo = git_remote(folder)
    path = store_path(cwd, repo)
    if path is None:
        return None
    with closing(open_store(path, read_only=True)) as store:
        number, last = earlier(store, repo, cwd)
    return sentence(repo or folder.name, number, last) if last else None


def sentence(place: str, number: int, last: Last) -> str:
    """Build the line, marked as data. Text from transcripts is quoted so that it cannot end the
    quotation."""
    uid, name, ended_at, outcome = last
    sessions = "1 earlier session" if number == 1 else f"{number:,} earlier sessions"
    when = f" on {ended_at[:10]}" if ended_at else ""
    failed = ", which failed" if outcome == "fail" else ""
    title = f": {quoted(name, TITLE)}" if name else ""
    line = (
        f"{OWN} {sessions} in {quoted(place, NAME)}; the last one{when}{failed}{title}"
        f" ({plain(uid, NAME)}). The tools of the MCP server runlore, or `runlore search WORDS`,"
        " find what was tried before."
    )
    return line[:LONGEST]


def earlier(store: Store, repo: str | None, cwd: str) -> tuple[int, Last | None]:
    """Return the number of sessions of the repository, without subagents, and the last of them.

    Without a repository, the sessions of the folder count.
    """
    these = (
        f"from sessions where {'repo' if repo else 'cwd'} = ? and coalesce(relation, '') !="
        " 'subagent'"
    )
    sql = (
        f"select uid, coalesce(name, title), ended_at, outcome {these} order by ended_at desc, uid"
        " limit 1"
    )
    last = next((Last(*row) for row in store.maintenance.rows(sql, (repo or cwd,))), None)
    ((number,),) = store.maintenance.rows(f"select count(*) {these}", (repo or cwd,))
    return int(number), last
