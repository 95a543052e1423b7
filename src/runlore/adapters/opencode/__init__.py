"""opencode (sst, anomalyco): since 1.2 all sessions in one SQLite database, before that a tree of
small JSON files.

Learned from a description of its source (2026-11), and from sessions that 1.1.11 and 1.18.33 wrote.
Last checked 2026-11. The traps:

- A session is a source of its own, named as if it lay below its database: a person goes back, forks
  and deletes by session, and rows are changed in place. A record is a message with its parts, which
  is one step of the model. It is read when it is finished, or has not changed for an hour; of a
  session that changed otherwise all messages are read again, and compared by name.
- On upgrade the tree is copied into the database and left where it is: of a session that is in
  both, only the one in the database is read.
- Messages that a person reverts (`revert`) stay until the next prompt, and are then deleted. The
  log of changes still has them, where there is one.
- A fork copies the messages under new names, with the times of the old ones and no reference to
  them. The name of a message contains its time, so the original can be looked up by its time.
- `tokens.input` leaves out the cache. `tokens.output` leaves out reasoning where there is a
  `total`; before, it included it. A step's `step-finish` and its message have the same numbers.
- A command that failed is `completed`; its exit code is in the metadata. `cost` is the agent's own
  estimate from a price list; 0 is what it writes for a model that is in none.
- The same folder holds `auth.json`, and the database tables with tokens: neither is opened.
- 2.x, and a new core in late versions of 1.x, write `session_message` instead of `message` and
  `part`, with sessions in `session_v2` or `session`. Learned from a description and two small
  samples: a row of an unknown type is kept and counted. Of a session that has both, only `message`
  is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import apsw

from ...errors import ReadError
from ...model import Session
from .. import Position, Record, Source, usual_roots
from ..shared.base import Adapter
from ..shared.jsonl import note_refusal, to_json
from ..shared.sqlite import NO_UTF8, is_passing, reading
from .database import Database
from .sessions import UNIT, Listed, Message, Shelf, as_record, calling, complete, identity, original
from .tree import Tree

MAX_DEPTH = 10  # Folders between a root that is no home of the agent and one that is.
MAX_FOLDERS = 20_000
OTHERS = frozenset({"node_modules", ".git", "snapshot", "log", "bin", "cache"})


class OpenCodeAdapter(Adapter):
    name = "opencode"
    label = "opencode"
    version = 4
    reader = "runlore.adapters.opencode.reader"
    roots: tuple[str, ...] = ("$XDG_DATA_HOME/opencode", "~/.local/share/opencode")
    stem = "opencode"
    """The beginning of the names of its databases."""
    command = "opencode"
    instructions = ("AGENTS.md",)  # CLAUDE.md only where there is none.
    variable = "OPENCODE_DB"

    def find_roots(self, env: Mapping[str, str]) -> list[Path]:
        """Return the usual folders, and the database that a variable names; a relative name means
        one in the usual folder."""
        named = env.get(self.variable, "")
        return [
            *usual_roots(self.roots, env),
            *([Path(named)] if os.path.isabs(named) and named.endswith(".db") else []),
        ]

    def discover(self, root: Path) -> Iterator[Source]:
        self.refused = refused = list[ReadError]()
        known: set[str] = set()
        for home in self._homes(str(root), refused):
            for session in self._sessions(home, refused):
                if session.id not in known:
                    known.add(session.id)
                    yield self._source(session, str(root))

    def _source(self, session: Listed, root: str) -> Source:
        return Source(
            agent=self.name,
            path=session.path,
            root=root,
            size=session.messages * UNIT,
            mtime_ns=session.mark,
        )

    def _homes(self, root: str, refused: list[ReadError]) -> Iterator[str]:
        """Yield the root when it is a home of the agent, a database or a tree; else those below
        it."""
        pending, left = [(root, 0)], MAX_FOLDERS
        while pending and left:
            folder, depth = pending.pop()
            left -= 1
            if self._is_home(folder):
                yield folder
            elif depth < MAX_DEPTH:
                pending += [(below, depth + 1) for below in reversed(_folders(folder, refused))]

    def _is_home(self, path: str) -> bool:
        if os.path.isfile(path):
            return path.endswith(".db")
        trees = (os.path.join(path, "storage", "message"), os.path.join(path, "message"))
        return bool(self._databases(path) or _old_trees(path)) or any(map(os.path.isdir, trees))

    def _databases(self, folder: str) -> list[str]:
        try:
            names = sorted(
                name
                for name in os.listdir(folder)
                if name.startswith(self.stem) and name.endswith(".db")
            )
        except OSError:
            return []
        return [path for name in names if os.path.isfile(path := os.path.join(folder, name))]

    def _sessions(self, home: str, refused: list[ReadError]) -> Iterator[Listed]:
        """Yield the sessions of a home. Those in databases come first: they may be longer than the
        copies in trees."""
        for path in [home] if os.path.isfile(home) else self._databases(home):
            yield from _in_database(path, refused)
        trees = [home, os.path.join(home, "storage"), *_old_trees(home)]
        for tree in trees:
            yield from Tree(tree).sessions(refused)

    def refresh(self, source: Source) -> Source | None:
        """Return the source as it is now; None when it is gone. Its path is not always that of a
        file."""
        if place := _database_of(source.path):
            listing = _in_database(place, [], os.path.basename(source.path))
        else:
            tree = Tree.of(source.path)
            listing = (
                list(tree.find(tree.id_of(source.path), source.path, []))
                if os.path.exists(source.path)
                else []
            )
        return next((self._source(session, source.root) for session in listing), None)

    def follows(self, source: Source, since: Position) -> bool:
        try:
            with _open(source.path) as (_, messages, _):
                return len(messages) >= since.records and identity(messages[: since.records]) == (
                    since.head,
                    since.tail,
                )
        except ReadError as error:
            return is_passing(error)

    def position(self, source: Source, offset: int, records: int) -> Position:
        with _open(source.path) as (_, messages, _):
            head, tail = identity(messages[:records])
        return Position(offset=offset, head=head, tail=tail, records=records)

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        """Yield the session's own record, then every finished message after the position, then the
        place of a revert."""
        done = since.records if since else 0
        with _open(source.path) as (shelf, messages, id_):
            session = shelf.session(id_)
            if session is None:
                raise ReadError(source.path, "the session is not there any more")
            revert = session.pop("revert", None)
            if len(messages) > done or since:
                call = None if since else calling(shelf, session)
                yield Record(to_json({**session, "call": call} if call else session), -1, "session")
            for n, message in enumerate(messages[done:], done):
                if message.has_no_name:
                    data = to_json({"id": message.id})
                    yield Record(data, n * UNIT, None, NO_UTF8, (n + 1) * UNIT)
                    continue
                copied = original(shelf, message, session)
                more = {"original": copied} if copied else {}
                data, problem = as_record(
                    *shelf.load(message), {**more, "removed": True} if message.is_removed else more
                )
                yield Record(data, n * UNIT, None, problem, (n + 1) * UNIT)
            if messages and (revert or since):
                yield Record(to_json(revert), -1, "revert")

    def slim(self, line: bytes) -> bytes:
        if b";base64," not in line:
            return line
        from .words import without_pictures

        return without_pictures(line)

    def resume(self, session: Session) -> list[str] | None:
        """Return the command, to be run in the session's folder; a subagent cannot be resumed."""
        return (
            None
            if session.relation == "subagent"
            else [self.command, "--session", session.native_session_id]
        )


adapter = OpenCodeAdapter()


@contextmanager
def _open(path: str) -> Iterator[tuple[Shelf, list[Message], str]]:
    """Yield the database or tree of a session, its finished messages, and its id."""
    if place := _database_of(path):
        with reading(place) as db:
            id_ = os.path.basename(path)
            shelf, messages = _find(db, id_)
            yield shelf, complete(messages), id_
    else:
        tree = Tree.of(path)
        id_ = tree.id_of(path)
        yield tree, complete(tree.messages(id_)), id_


def _find(db: apsw.Connection, id: str) -> tuple[Shelf, list[Message]]:
    """Return the tables that hold a session, and its messages."""
    from .new_core import NewCore

    database = Database(db)
    if database.is_one() and (messages := database.messages(id)):
        return database, messages
    core = NewCore(db)
    return core, core.messages(id)


def _database_of(path: str) -> str | None:
    """Return the database that holds a session, by the path of the session."""
    above = os.path.dirname(path)
    return above if above.endswith(".db") and os.path.isfile(above) else None


def _in_database(path: str, refused: list[ReadError], only: str | None = None) -> list[Listed]:
    from .new_core import NewCore

    try:
        with reading(path) as db:
            database = Database(db)
            older = list(database.sessions(path, only)) if database.is_one() else []
            ids = {session.id for session in older}
            core = NewCore(db)
            newer = list(core.sessions(path, only))
            # A session may be in the tables of both.
            if without_name := max(database.without_name, core.without_name):
                reason = f"{NO_UTF8} costs {without_name:,} of its sessions"
                refused.append(ReadError(path, reason))
            return [*older, *(session for session in newer if session.id not in ids)]
    except ReadError as error:
        refused.append(error)
        return []


def _folders(folder: str, refused: list[ReadError]) -> list[str]:
    try:
        with os.scandir(folder) as listing:
            return sorted(
                entry.path
                for entry in listing
                if entry.name not in OTHERS and entry.is_dir(follow_symlinks=False)
            )
    except OSError as error:
        note_refusal(folder, error, refused)
        return []


def _old_trees(home: str) -> list[str]:
    """Return the trees of versions until 0.5, one for each project."""
    folder = os.path.join(home, "project")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [
        tree
        for name in names
        if os.path.isdir(
            os.path.join(tree := os.path.join(folder, name, "storage"), "session", "info")
        )
    ]
