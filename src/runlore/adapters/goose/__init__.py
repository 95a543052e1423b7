"""goose (Block, aaif-goose): since 1.10 (2025-09) all sessions in one SQLite database, before that
a file of JSON lines for each.

Learned from what 1.52.0 wrote (schema 16) and from a description of its source and of older
schemas. Last checked 2026-11. The traps:

- A compaction rewrites all messages of a session, with other rowids and the old ones marked as not
  visible to the model. So a session is a source of its own, named as if it lay below the database,
  and a session that was rewritten is compared by the names of its messages. These are the ids that
  the provider gave where it gave any, and some providers use the same ones again and again.
- Messages have the order of their rowids; times are whole seconds.
- Texts of the program with the role of the user are not `userVisible`: the context of a turn, the
  summary of a compaction.
- Going back deletes messages, and they are gone. A copy of a session has no link to the original.
- The usage of each request is in `usage_ledger` (schema 14 and later). `input_tokens` includes the
  cache. Sessions from before have sums.
- Calls of one reply are several rows, and only the first has its usage.
- The files of older sessions stay when they have been imported into the database; those that were
  imported are not read.
- Only `sessions`, `messages` and `usage_ledger` are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
import msgspec

from ...errors import ReadError
from ...model import Session
from .. import Position, Record, Source
from ..shared.base import stat_source
from ..shared.jsonl import JsonlAdapter, to_json
from ..shared.sqlite import as_record, columns, find_databases, reading, rows
from ..shared.sqlite_sessions import UNIT, SqliteSessionsAdapter

FILES = ("sessions.db",)
MAX_DEPTH = 8  # Folders between a root and a database; the agent itself makes none.
CHANGING_COLUMNS = (
    "updated_at",
    "name",
    "description",
    "accumulated_total_tokens",
    "parent_session_id",
)
MAX_CALLS = 10_000  # Rows of the ledger of one session.
_OLD = re.compile(r"\d{8}_\d{6}\.jsonl\Z")


class Lines(JsonlAdapter):
    """The layout before the database."""

    name = "goose"


class GooseAdapter(SqliteSessionsAdapter):
    name = "goose"
    label = "goose"
    aliases = ("block-goose",)
    version = 4
    reader = "runlore.adapters.goose.reader"
    blob_mark = b'"data"'
    roots = (
        "$GOOSE_PATH_ROOT/data/sessions",
        "~/.local/share/goose/sessions",
        "~/AppData/Roaming/Block/goose/data/sessions",
    )
    lacks = ("git branch", "what was rewound")
    instructions = ("AGENTS.md", ".goosehints")  # The default of CONTEXT_FILE_NAMES.
    lines = Lines()

    def databases(self, root: str, refused: list[ReadError]) -> Iterable[str]:
        return find_databases(root, FILES, refused, MAX_DEPTH)

    def discover(self, root: Path) -> Iterator[Source]:
        known: set[str] = set()
        for source in super().discover(root):
            known.add(os.path.basename(source.path))
            yield source
        for source in self.lines.discover(root):
            name = os.path.basename(source.path)
            if _OLD.match(name) and name.removesuffix(".jsonl") not in known:
                yield source
        self.refused = [*self.refused, *self.lines.refused]

    def list_sessions(
        self, db: apsw.Connection, only: str | None
    ) -> Iterator[tuple[str, int, int]]:
        if not columns(db, "sessions") or "content_json" not in columns(db, "messages"):
            return
        where, given = ("", ()) if only is None else ("where session_id = ?", (only,))
        known = set(columns(db, "sessions"))
        marks = ", ".join(f"cast(s.{name} as blob)" for name in CHANGING_COLUMNS if name in known)
        sql = (
            f"select m.*, strftime('%s', s.updated_at), {marks} from (select session_id, count(*),"
            f" min(id), max(id) from messages {where} group by session_id) m join sessions s on"
            " s.id = m.session_id order by m.session_id"
        )
        for id_, count, *others in db.execute(sql, given):
            if isinstance(id_, str):
                # Several changes may fall into one second. The other columns that change with the
                # session distinguish them.
                changed = others[2] if isinstance(others[2], str) and others[2].isdecimal() else "0"
                yield id_, count, int(changed[:10]) * 10**9 + crc32(repr(others).encode()) % 10**9

    def outline(self, db: apsw.Connection, session: str, count: int) -> tuple[str, str]:
        ids: list[Any] = db.execute(
            "select id from messages where session_id = ? order by id limit ?", (session, count)
        ).fetchall()
        return " ".join(str(id_) for (id_,) in ids), str(len(ids))

    def refresh(self, source: Source) -> Source | None:
        return stat_source(source) if is_file(source) else super().refresh(source)

    def aged(self, source: Source) -> Source:
        return self.lines.aged(source) if is_file(source) else source

    def has_other_end(self, source: Source, since: Position) -> bool:
        return is_file(source) and self.lines.has_other_end(source, since)

    def follows(self, source: Source, since: Position) -> bool:
        return (
            self.lines.follows(source, since) if is_file(source) else super().follows(source, since)
        )

    def position(self, source: Source, offset: int, records: int) -> Position:
        return (
            self.lines.position(source, offset, records)
            if is_file(source)
            else super().position(source, offset, records)
        )

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        """Yield the session's own row and its rows of the ledger, then every message after the
        position."""
        if is_file(source):
            yield from self.lines.read(source, since)
            return
        path, id_ = os.path.split(source.path)
        done = since.records if since else 0
        with reading(path) as db:
            session = next(rows(db, "sessions", "where id = ?", (id_,)), None)
            if session is None:
                raise ReadError(source.path, "the session is not there any more")
            yield Record(to_json(_session_fields(db, session)), -1, "session")
            chosen = "where session_id = ? order by id limit ?"
            calls = [
                {**row, "rowid": None} for row in rows(db, "usage_ledger", chosen, (id_, MAX_CALLS))
            ]
            if calls:
                yield Record(to_json(calls), -1, "calls")
            for n, row in enumerate(
                rows(
                    db,
                    "messages",
                    "where session_id = ? order by id limit -1 offset ?",
                    (id_, done),
                ),
                done,
            ):
                data, problem = as_record(
                    row, {"content_json": "content", "metadata_json": "metadata"}
                )
                yield Record(data, n * UNIT, None, problem, (n + 1) * UNIT)

    def resume(self, session: Session) -> list[str] | None:
        """Return the command that continues a session; a subagent cannot be resumed."""
        return (
            None
            if session.relation == "subagent"
            else ["goose", "session", "--resume", "--session-id", session.native_session_id]
        )


adapter = GooseAdapter()


def is_file(source: Source) -> bool:
    """Return True for a file of an older version, False for a session of a database."""
    return source.path.endswith(".jsonl")


def _session_fields(db: apsw.Connection, session: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a session that are read: with its sums, where it is older than the
    ledger and has no request in it."""
    wanted = (
        "id", "name", "description", "user_set_name", "session_type", "working_dir", "created_at",
        "provider_name", "parent_session_id",
        "model_config_json", "schedule_id", "goose_mode",
    )  # fmt: skip
    fields = {name: session[name] for name in wanted if session.get(name) not in (None, "")}
    if _is_before_ledger(db, session):
        fields |= {
            name: value
            for name, value in session.items()
            if name.startswith("accumulated_") and value
        }
    if session.get("parent_session_id") and (call := _calling(db, session)):
        fields["call"] = call
    return fields


def _is_before_ledger(db: apsw.Connection, session: dict[str, Any]) -> bool:
    """Return True if a session ended before the ledger began."""
    if not columns(db, "usage_ledger"):
        return True
    own = db.execute(
        "select 1 from usage_ledger where session_id = ? limit 1", (session["id"],)
    ).fetchone()
    first = db.execute(
        "select datetime(min(created_timestamp), 'unixepoch') from usage_ledger"
    ).fetchone()
    return (
        own is None and first is not None and str(session.get("updated_at")) < str(first[0] or "")
    )


def _calling(db: apsw.Connection, session: dict[str, Any]) -> str | None:
    """Return the call whose result names this session."""
    sql = (
        "where session_id = ? and instr(content_json, 'subagent_session_id') and"
        " instr(content_json, ?) limit 1"
    )
    row = next(rows(db, "messages", sql, (session["parent_session_id"], f'"{session["id"]}"')), {})
    try:
        blocks = msgspec.json.decode(str(row.get("content_json")))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    for block in blocks if isinstance(blocks, list) else []:
        if isinstance(block, dict) and f'"{session["id"]}"' in to_json(block).decode():
            return block.get("id") if isinstance(block.get("id"), str) else None
    return None
