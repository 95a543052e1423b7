"""The one question that has no time for a `Store`: which sessions an SQLite file has of a repository or a folder.

A hook answers within 300 ms on a slow and busy machine. Through a `Store` it took three times as long, most of it for imports.
"""

from __future__ import annotations

TYPE_CHECKING = False  # As in `typing`, which hooks have no time for.

if TYPE_CHECKING:
    from typing import NamedTuple

    class Last(NamedTuple):
        uid: str
        title: str | None
        ended_at: str | None
        outcome: str


def glance(path: str, *, repo: str | None, cwd: str) -> tuple[int, Last | None]:
    """How many sessions there are, subagents left out, and the last of them. Without a repository those in the very folder count."""
    import apsw

    db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(50)
        these = f"from sessions where {'repo' if repo else 'cwd'} = ? and coalesce(relation, '') != 'subagent'"
        ((number,),) = db.execute(f"select count(*) {these}", (repo or cwd,))
        last = db.execute(
            f"select uid, coalesce(name, title), ended_at, outcome {these} order by ended_at desc, uid limit 1", (repo or cwd,)
        ).fetchone()
        return number, last
    finally:
        db.close()
