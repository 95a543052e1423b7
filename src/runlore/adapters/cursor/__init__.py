"""Cursor: the editor's sessions in a database of keys and values, the command line's in a database
each, and transcripts of both.

Learned from a description of the format on which several independent tools agree, from how two of
them tell failures, and from samples: a database of 2024, transcripts of 2026, small ones made by
others of the rest. Cursor is closed source. Last checked 2026-11. The traps:

- A session has one id in all three stores. It is read from the first that holds its messages: the
  editor's database, which has times; the command line's, which has results and no times;
  transcripts, which have neither. A session that was first read from a worse store is outranked as
  soon as a better one has it (`Facts.rank`). Subagents are only in transcripts, or are sessions of
  their own.
- The editor's global database may have gigabytes. A value that is written again gets a new row
  number, which shows what changed. Only the bubbles of changed sessions are read.
- The list in a session orders its bubbles. Bubbles that are not in it were taken back, by editing a
  prompt or trying again: they come first, and no event follows them.
- A bubble changes while it is written. While a session is generating, its last bubbles are held
  back, for an hour at most.
- No single field says how a call ended: a command that failed or was refused is `completed`.
- In 2024 all sessions were two values of the workspace's database. A session that a later version
  converted is read from the global database.
- Only a few bubbles have token counts. The size of a context is not usage.
- A node of the command line's database is a protobuf message that names others by their hashes.
  Nodes that no root leads to are discarded ones.
- The table `ItemTable` also holds login tokens. Only the two values above are read from it.
- Not read: `~/.cursor/ai-tracking`, checkpoints of files, and what a file was before an edit that
  only names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from ...errors import ReadError
from ...model import Session
from .. import Position, Record, Source, usual_roots
from ..shared.document import GrowingAdapter
from ..shared.jsonl import (
    MAX_RECORD_BYTES,
    JsonlAdapter,
    list_entries,
    note_refusal,
    read_small,
    read_up_to,
    to_json,
    walk_files,
)
from ..shared.sqlite import reading
from ..shared.sqlite_sessions import UNIT, SqliteSessionsAdapter
from .composers import bubble, composer, entries, has_sessions, listing, session_fields

DATABASE, STORE, TRANSCRIPTS, SUBAGENTS = (
    "state.vscdb",
    "store.db",
    "agent-transcripts",
    "subagents",
)
MAX_SIDECAR_BYTES = 1 << 20  # Bytes of a file about a session.
EMPTY = 32 << 10  # Bytes of a command line's database that may have no message in it.


class Editor(SqliteSessionsAdapter):
    """Sessions in the editor's global database."""

    name = "cursor"

    def list_sessions(
        self, db: apsw.Connection, only: str | None
    ) -> Iterator[tuple[str, int, int]]:
        return listing(db, only)

    def outline(self, db: apsw.Connection, session: str, count: int) -> tuple[str, str]:
        found = entries(db, session, composer(db, session))[:count]
        names = [f"{entry.id} {entry.length}" for entry in found[:-1]]
        return "\n".join([*names, *(entry.id for entry in found[-1:])]), (
            str(found[-1].length) if found else ""
        )

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        from .bubbles import slim

        path, session = os.path.split(source.path)
        first = since.records if since else 0
        with reading(path) as db:
            about = composer(db, session)
            found = entries(db, session, about)
            if len(found) > first or since:
                yield Record(to_json(session_fields(about, session, path)), -1, "session")
            for n, entry in enumerate(found[first:], first):
                value = bubble(db, entry)
                said = {"bubble": slim(value)} if isinstance(value, dict) else {"value": value}
                record: dict[str, Any] = {"id": entry.id, **said}
                record |= (
                    {"left": True}
                    if entry.is_left
                    else {"at": about.get("createdAt")}
                    if n == 0
                    else {}
                )
                record |= (
                    {"aborted": True}
                    if n == len(found) - 1 and about.get("status") == "aborted"
                    else {}
                )
                data = to_json(record)
                problem = (
                    f"too long ({len(data) >> 20} MB)" if len(data) > MAX_RECORD_BYTES else None
                )
                yield Record(
                    data[: MAX_RECORD_BYTES >> 10] if problem else data,
                    n * UNIT,
                    None,
                    problem,
                    (n + 1) * UNIT,
                )


class Whole(GrowingAdapter):
    """Databases that hold one session, or the few of a workspace in 2024; and transcripts as plain
    text."""

    name = "cursor"

    def whole(self, source: Source) -> tuple[list[Record], list[bytes]]:
        from .store import load
        from .transcript import messages
        from .workspace import records as bubbles

        folder, name = os.path.split(source.path)
        if name.endswith(STORE):
            about, records = load(source.path)
            beside = read_small(os.path.join(folder, "meta.json"), MAX_SIDECAR_BYTES)
            return [
                Record(to_json(about), -1, "meta"),
                *([Record(beside, -1, "about")] if beside else []),
            ], records
        if name.endswith(".txt"):
            with open(source.path, "rb") as file:
                return [], [
                    to_json(message)
                    for message in messages(
                        read_up_to(MAX_RECORD_BYTES, file).decode("utf-8", "replace")
                    )
                ]
        place = read_small(os.path.join(folder, "workspace.json"), MAX_SIDECAR_BYTES)
        return [Record(place, -1, "workspace")] if place else [], bubbles(source.path)


class CursorAdapter(JsonlAdapter):
    name = "cursor"
    label = "Cursor"
    aliases = ("cursor-agent", "cursor-cli")
    version = 4
    reader = "runlore.adapters.cursor.reader"
    blob_mark = b'"data"'
    roots: tuple[str, ...] = (
        "~/.config/Cursor/User", "~/Library/Application Support/Cursor/User",
        "~/AppData/Roaming/Cursor/User",
        "~/.cursor-server/data/User", "~/.cursor",
    )  # fmt: skip
    lacks = ("tokens of nearly all requests", "times of the command line's messages")
    instructions = ("AGENTS.md",)

    def __init__(self) -> None:
        self.editor, self.single = Editor(), Whole()
        self.held: dict[str, frozenset[str]] = {}
        """For each root that was looked at, the sessions of which the editor's database there has
        messages."""

    def find_roots(self, env: Mapping[str, str]) -> list[Path]:
        """The editor's first: what it holds is not taken from elsewhere."""
        return usual_roots(self.roots, env)

    def discover(self, root: Path) -> Iterator[Source]:
        self.refused = refused = list[ReadError]()
        databases, stores, transcripts = _places(str(root), refused)
        found = [
            source for path in databases for source in self._of_database(path, str(root), refused)
        ]
        self.held[str(root)] = frozenset(
            os.path.basename(source.path) for source in found if source.size
        )
        yield from found
        known = set[str]().union(*self.held.values())
        single = [
            source for path in stores if (source := _source(path, str(root), refused)) is not None
        ]
        for source in single:
            session = os.path.basename(os.path.dirname(source.path))
            if session in known:
                continue
            has_messages = source.size > EMPTY or _has_blobs(source.path)
            if has_messages:
                known.add(session)
            if has_messages is not False:  # One that cannot be read is named, and hides nothing.
                yield source
        for path in transcripts:
            hints = _parent(path)
            if (
                _stem(path) not in known
                and (source := _source(path, str(root), refused, hints)) is not None
            ):
                yield source

    def _of_database(self, path: str, root: str, refused: list[ReadError]) -> Sequence[Source]:
        """The sessions of a global database; the database of a workspace as one source."""
        if _is_global(path):
            return self.editor.sessions(path, root, refused)
        source = _source(path, root, refused)
        return [source] if source is not None else []

    def _of(self, source: Source) -> Editor | Whole | None:
        """Return the reader of a source; None for a transcript of lines."""
        if in_database(source.path):
            return self.editor
        return None if source.path.endswith(".jsonl") else self.single

    def refresh(self, source: Source) -> Source | None:
        """The source as it is now; None when it is gone. Its path is not always that of a file."""
        if in_database(source.path):
            return self.editor.refresh(source)
        return _source(source.path, source.root, [], source.hints)

    def has_lines(self, path: str) -> bool:
        return path.endswith(".jsonl")

    def follows(self, source: Source, since: Position) -> bool:
        other = self._of(source)
        return super().follows(source, since) if other is None else other.follows(source, since)

    def position(self, source: Source, offset: int, records: int) -> Position:
        other = self._of(source)
        return (
            super().position(source, offset, records)
            if other is None
            else other.position(source, offset, records)
        )

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        other = self._of(source)
        return super().read(source, since) if other is None else other.read(source, since)

    def resume(self, session: Session) -> list[str] | None:
        """A session of the command line; one of the editor is taken up in the editor. To be run in
        the session's folder."""
        is_own = (session.source_path or "").endswith(STORE)
        return ["cursor-agent", "--resume", session.native_session_id] if is_own else None


adapter = CursorAdapter()


def _places(root: str, refused: list[ReadError]) -> tuple[list[str], list[str], list[str]]:
    """The databases of the editor, those of the command line, and transcripts: in a home of the
    agent only where it keeps them."""
    if any(
        os.path.isdir(os.path.join(root, name)) for name in ("globalStorage", "workspaceStorage")
    ):
        return _editor_databases(root, refused), [], []
    is_home = os.path.basename(root) == ".cursor"
    files = _home_files(root, refused) if is_home else _files(root, refused)
    databases = sorted(
        (path for path in files if path.endswith(".vscdb")),
        key=lambda path: (not _is_global(path), path),
    )
    stores = [path for path in files if os.path.basename(path).endswith(STORE)]
    texts = [
        path for path in files if (path.endswith(".jsonl") and not is_home) or _is_transcript(path)
    ]
    return databases, stores, texts


def _editor_databases(root: str, refused: list[ReadError]) -> list[str]:
    """Return the database for all workspaces, and then that of each workspace."""
    spaces = list_entries(os.path.join(root, "workspaceStorage"), refused)
    folders = [os.path.join(root, "globalStorage"), *(entry.path for entry in reversed(spaces))]
    paths = [os.path.join(folder, DATABASE) for folder in folders]
    return [path for path in paths if os.path.isfile(path)]


def _home_files(root: str, refused: list[ReadError]) -> list[str]:
    """Return the files of the folders in which the agent's home has sessions."""
    folders = [os.path.join(root, name) for name in ("chats", "acp-sessions", "projects")]
    return [path for folder in folders if os.path.isdir(folder) for path in _files(folder, refused)]


def _files(root: str, refused: list[ReadError]) -> list[str]:
    return [entry.path for entry in walk_files(root, "", refused)]


def _is_transcript(path: str) -> bool:
    return path.endswith((".jsonl", ".txt")) and TRANSCRIPTS in path.split(os.sep)


def _is_global(path: str) -> bool:
    """Return True if a database of the editor is the one for all workspaces, by its path or else by
    its tables."""
    above = os.path.basename(os.path.dirname(path))
    if above == "globalStorage":
        return True
    if os.path.basename(os.path.dirname(os.path.dirname(path))) == "workspaceStorage":
        return False
    try:
        with reading(path) as db:
            return has_sessions(db)
    except ReadError:
        return False


def in_database(path: str) -> bool:
    return os.path.dirname(path).endswith(".vscdb")


def _source(
    path: str, root: str, refused: list[ReadError], hints: tuple[str, ...] = ()
) -> Source | None:
    """A file as a source; a database is as large and as new as it is with its log."""
    try:
        stat = os.stat(path)
    except OSError as error:
        note_refusal(path, error, refused)
        return None
    size, newest = stat.st_size, stat.st_mtime_ns
    if not path.endswith((".jsonl", ".txt")):
        try:
            log = os.stat(path + "-wal")
            size, newest = size + log.st_size, max(newest, log.st_mtime_ns)
        except OSError:
            pass
    return Source(
        agent="cursor",
        path=path,
        root=root,
        size=size,
        mtime_ns=newest,
        inode=stat.st_ino,
        hints=hints,
    )


def _has_blobs(path: str) -> bool | None:
    """Return True if a small database of the command line has any message, None if it cannot be
    read. If it has none, its transcript may have one."""
    try:
        with reading(path) as db:
            return db.execute("select 1 from blobs limit 1").fetchone() is not None
    except ReadError:
        return None


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _parent(path: str) -> tuple[str, ...]:
    """The session above that of a subagent."""
    above, folder = os.path.split(os.path.dirname(path))
    name = os.path.basename(above)
    return (f"parent:{name}",) if folder == SUBAGENTS and name.isprintable() else ()
