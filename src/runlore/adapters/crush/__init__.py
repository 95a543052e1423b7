"""Crush (Charm): a database for each project, listed in one file of the user's.

Learned from a description of its source and of databases of 2025 and 2026, and from an empty
database of 2026. Last checked 2026-11. The traps:

- A project's sessions are in `.crush/crush.db` in its folder; `projects.json` among the user's data
  tells where these are. The folder of a session is nowhere in it: it is the one that `.crush` lies
  in.
- A message is changed in place while it is written. So a session is a source of its own, named as
  if it lay below its database; a message is given when it is finished, or has not changed for an
  hour, and a session that changed otherwise is read again as a whole.
- Times are in seconds, whatever the comments in the schema say; some files have milliseconds.
- Results are messages of their own. In 2025 they do not name their tool: the call of the same id
  does.
- `prompt_tokens` and `completion_tokens` of a session are those of its last request. No
  other request is recorded, so there is no usage. `cost` is the agent's own estimate for the
  whole session and its subagents. The subagents' sessions have their own costs, which are
  subtracted.
- A summary is a message of which the session says so; what came before it has left the context.
- A subagent's session is named by the call that started it. Sessions `title-…` only hold the making
  of a title, and are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from time import time
from typing import Any

import apsw
import msgspec

from ...errors import ReadError
from .. import Position, Record, Source
from ..shared.jsonl import read_small
from ..shared.sqlite import as_record, columns, find_databases, reading, rows
from ..shared.sqlite_sessions import UNIT, SqliteSessionsAdapter

MAX_DEPTH = 8  # Folders between a root and a database, where a root is one that projects lie in.
STALE_S = 3600  # A message that has not changed for so long is not being written any more.
MAX_SIDECAR_BYTES = 4 << 20  # Bytes of the list of projects.


class CrushAdapter(SqliteSessionsAdapter):
    name = "crush"
    label = "Crush"
    version = 5
    reader = "runlore.adapters.crush.reader"
    roots: tuple[str, ...] = (
        "$CRUSH_GLOBAL_DATA",
        "$XDG_DATA_HOME/crush",
        "~/.local/share/crush",
        "~/AppData/Local/crush",
    )
    lacks = ("tokens of a request",)
    instructions: tuple[str, ...] = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "CRUSH.md")
    folder, file = ".crush", "crush.db"
    """What a project's folder has, and in that."""

    def databases(self, root: str, refused: list[ReadError]) -> Iterable[str]:
        return [*_listed(root, self.file), *find_databases(root, (self.file,), refused, MAX_DEPTH)]

    def list_sessions(
        self, db: apsw.Connection, only: str | None
    ) -> Iterator[tuple[str, int, int]]:
        return _list_sessions(db, only)

    def outline(self, db: apsw.Connection, session: str, count: int) -> tuple[str, str]:
        sql = (
            "select id, rowid from messages where session_id = ? order by created_at, rowid limit ?"
        )
        found: list[Any] = db.execute(sql, (session, count)).fetchall()
        return "\n".join(str(id_) for id_, _ in found), (
            repr(_last(db, found[-1][1])[1:]) if found else ""
        )

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        """Yield the facts about the session, then every finished message after the position."""
        path, id_ = os.path.split(source.path)
        done = since.records if since else 0
        with reading(path) as db:
            session = next(rows(db, "sessions", "where id = ?", (id_,)), None)
            if session is None:
                raise ReadError(source.path, "the session is not there any more")
            finished = _finished(db, id_)
            if finished > done or since:
                folder = os.path.dirname(path)
                session["cwd"] = (
                    os.path.dirname(folder) if os.path.basename(folder) == self.folder else None
                )
                session.pop("todos", None)
                session |= _cost_of(db, id_)
                yield Record(as_record(session, {})[0], -1, "session")
            chosen = "where session_id = ? order by created_at, rowid limit ? offset ?"
            for n, row in enumerate(
                rows(db, "messages", chosen, (id_, max(0, finished - done), done)), done
            ):
                data, problem = as_record(row, {"parts": "content"})
                yield Record(
                    data if problem else _opened(data), n * UNIT, None, problem, (n + 1) * UNIT
                )

    def slim(self, line: bytes) -> bytes:
        if b'"Data"' not in line and b'"data"' not in line:
            return line
        from .reader import without_pictures

        return without_pictures(line)


adapter = CrushAdapter()


def _listed(root: str, file: str) -> list[str]:
    """The databases of the projects that the user's list names."""
    try:
        value = msgspec.json.decode(
            read_small(os.path.join(root, "projects.json"), MAX_SIDECAR_BYTES) or b"{}"
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    projects = value.get("projects") if isinstance(value, dict) else None
    found = []
    for project in projects if isinstance(projects, list) else []:
        path, folder = (
            (project.get(name) for name in ("path", "data_dir"))
            if isinstance(project, dict)
            else (None, None)
        )
        if isinstance(folder, str) and folder and "\0" not in folder:
            found.append(
                os.path.join(path, folder, file)
                if isinstance(path, str) and "\0" not in path
                else os.path.join(folder, file)
            )
    return [path for path in found if os.path.isabs(path)]


def _list_sessions(db: apsw.Connection, only: str | None) -> Iterator[tuple[str, int, int]]:
    """Every session that has messages, or one: id, how many, and a number that changes with what is
    read of it."""
    if not columns(db, "sessions") or not columns(db, "messages"):
        return
    given = () if only is None else (only,)
    where = "" if only is None else "where session_id = ?"
    sql = f"select session_id, count(*), max(rowid) from messages {where} group by session_id"
    for id_, count, last in db.execute(sql, given):
        if not isinstance(id_, str) or id_.startswith("title-"):
            continue
        row = db.execute("select updated_at from sessions where id = ?", (id_,)).fetchone()
        if row is not None:
            changed, size, is_open = _last(db, last)
            # Many changes fall into one second: the length of what is being written tells them
            # apart.
            mark = max(_ms(row[0]), changed) * 1_000_000 + size % 1_000_000
            yield id_, count, mark + (is_open and _is_stale(changed))


def _last(db: apsw.Connection, rowid: int) -> tuple[int, int, bool]:
    """Return when a message was last changed, its length, and whether it is still being written."""
    row = next(rows(db, "messages", "where rowid = ?", (rowid,)), {})
    parts = row.get("parts") if isinstance(row.get("parts"), str) else ""
    is_open = (
        row.get("role") == "assistant"
        and not row.get("finished_at")
        and '"type":"finish"' not in str(parts).replace(" ", "")
    )
    return _ms(row.get("updated_at", row.get("created_at"))), len(str(parts)), is_open


def _finished(db: apsw.Connection, session: str) -> int:
    """Return the number of messages, without a last one that is still being written."""
    sql = "select rowid from messages where session_id = ? order by created_at, rowid"
    found: list[Any] = db.execute(sql, (session,)).fetchall()
    if not found:
        return 0
    changed, _, is_open = _last(db, found[-1][0])
    return len(found) - (is_open and not _is_stale(changed))


def _cost_of(db: apsw.Connection, session: str) -> dict[str, Any]:
    """What the subagents of a session cost, and the model and provider of its last reply."""
    children = (
        rows(db, "sessions", "where parent_session_id = ? and id not like 'title-%'", (session,))
        if "parent_session_id" in columns(db, "sessions")
        else ()
    )
    costs = [row.get("cost") for row in children]
    last = (
        "where session_id = ? and role = 'assistant' order by created_at desc, rowid desc limit 1"
    )
    reply = next(rows(db, "messages", last, (session,)), {})
    return {
        "subagents_cost": sum(cost for cost in costs if isinstance(cost, int | float)),
        "model": reply.get("model"),
        "provider": reply.get("provider"),
    }


def _opened(data: bytes) -> bytes:
    """The record with what is JSON in a text as what it says: only so does redaction see it."""
    try:
        row = msgspec.json.decode(data)
        for part in row.get("content") or []:
            held = part.get("data") if isinstance(part, dict) else None
            if isinstance(held, dict):
                texts = {name: held.get(name) for name in ("input", "metadata")}
                held |= {
                    name: _value(text)
                    for name, text in texts.items()
                    if isinstance(text, str) and text[:1] == "{"
                }
        return msgspec.json.encode(row)
    except (msgspec.DecodeError, AttributeError, TypeError, RecursionError, OverflowError):
        return data


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return text


def _ms(value: Any) -> int:
    """A time in milliseconds, of one in seconds or milliseconds."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1 << 50:
        return 0
    return int(value if value > 1e11 else value * 1000)


def _is_stale(changed_ms: int) -> bool:
    return changed_ms < (time() - STALE_S) * 1000
