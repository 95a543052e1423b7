"""Cline: a folder for each task with two documents, and since its SDK (2026) a document of messages
for each session.

Learned from descriptions of the format and excerpts of the source of cline/cline, and from what its
CLI 3.0.65 wrote; of the older documents no whole real task was at hand. Last checked 2026-11. The
traps:

- Every change rewrites a file as a whole, so new records are found by native id. The two documents
  of a task are read as one list of records, in the order in which they happened.
- `ui_messages.json` (once `claude_messages.json`) is the timeline: it has the times, what was said,
  the calls, and in `api_req_started` tokens and cost. `api_conversation_history.json` is what the
  model saw: only results of calls are taken from it, as the rest is in the timeline. Without it
  they stand in the `request` of the next `api_req_started`; without a timeline all is taken from
  it.
- A call is XML in the text of a message, or a block of its own. A result is a text `[tool for 'x']
  Result:`, or a block.
- Complete rows may still be marked `partial`. Such a row is left out only if the next row begins
  with its text, or a row with the same time follows.
- The output of a command comes in several rows, which are joined. Output that the result of the
  call repeats is stored once.
- `tokensIn` excludes the cache, except for some providers, in messages of the SDK, and in the
  forks. The list of those providers, and of those whose recorded cost is what was charged, is from
  other tools: no invoice was available to prove it.
- Requests that a person deleted leave their total in `deleted_api_reqs`. An earlier sync may have
  counted them, so the total becomes an event and is not counted.
- The title, the folder and the model are in `state/taskHistory.json`, `task_metadata.json`, or in
  the manifest of a session. `data/db/sessions.db` is an index of the manifests, and
  `context_history.json` is bookkeeping: neither is read, nor are settings.
- A fork copies messages with their ids. The id of a result grows with every copy, so what was added
  to it is taken off.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from ...errors import ReadError
from .. import Normalized, Position, Record, Source
from ..shared.jsonl import JsonlAdapter, note_refusal, reason_of, to_json
from .paths import HISTORY, MESSAGES, identity

TIMELINES = ("ui_messages.json", "claude_messages.json")
ABOUT = ("task_metadata.json", "history_item.json")
OTHERS = frozenset({"checkpoints", "settings", "cache", "logs", "db", "node_modules", ".git"})
"""Folders without sessions. Some hold secrets, some hold thousands of files."""
MAX_DEPTH = 12  # Folders between a root and a task; the agent itself makes three.
EDITORS = (
    "~/.config/*/User",
    "~/Library/Application Support/*/User",
    "~/AppData/Roaming/*/User",
    "~/.*-server*/data/User",
)
"""VS Code and those that are made from it, on three systems and over a connection."""


class ClineAdapter(JsonlAdapter):
    name = "cline"
    label = "Cline"
    version = 5
    roots: tuple[str, ...] = (
        *(f"{editor}/globalStorage/saoudrizwan.claude-dev" for editor in EDITORS),
        "$CLINE_SESSION_DATA_DIR", "$CLINE_DATA_DIR", "$CLINE_DIR/data", "~/.cline/data",
    )  # fmt: skip
    whole_prompts_since: datetime | None = None
    """Since when the tokens of a prompt that a task tells of include what the cache had, whoever
    the provider is."""
    instructions = ("AGENTS.md",)

    def discover(self, root: Path) -> Iterator[Source]:
        self.refused = refused = list[ReadError]()
        for folder, files in _folders(str(root), refused):
            for name in _documents(files):
                try:
                    yield self._source(str(root), folder, name, files)
                except OSError as error:
                    note_refusal(os.path.join(folder, name), error, refused)

    def refresh(self, source: Source) -> Source | None:
        """The source as it is now: what it consists of may have changed, though the file that it is
        named for has not."""
        folder, name = os.path.split(source.path)
        try:
            return self._source(source.root, folder, name, frozenset(os.listdir(folder)))
        except OSError:
            return None

    def _source(self, root: str, folder: str, name: str, files: frozenset[str]) -> Source:
        """A source is as large as its documents, and as new as the newest of all files that say
        something of it."""
        parts = [name, *([HISTORY] if name in TIMELINES and HISTORY in files else [])]
        beside = [file for file in (*ABOUT, *_manifests(name, folder, files)) if file in files]
        stats = [os.stat(os.path.join(folder, file)) for file in (*parts, *beside)]
        return Source(
            agent=self.name, path=os.path.join(folder, name), root=root, inode=stats[0].st_ino,
            size=sum(stat.st_size for stat in stats[: len(parts)]),
            mtime_ns=max(stat.st_mtime_ns for stat in stats),
        )  # fmt: skip

    def has_lines(self, path: str) -> bool:
        return False

    def follows(self, source: Source, since: Position) -> bool:
        try:
            return (since.head, since.tail) == identity(source)
        except OSError:
            return False

    def position(self, source: Source, offset: int, records: int) -> Position:
        """A position counts records: the documents that they are made of are the same, or
        others."""
        try:
            head, tail = identity(source)
        except OSError as error:
            raise ReadError(source.path, reason_of(error)) from error
        return Position(offset=offset, head=head, tail=tail, records=records)

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        from .documents import items

        # Every time: it may have changed, whether or not the documents have.
        yield from self.sidecars(source)
        try:
            found = items(source)
        except OSError as error:
            raise ReadError(source.path, reason_of(error)) from error
        first = since.offset if since else 0
        yield from (
            Record(to_json(item), n, None, None, n + 1)
            for n, item in enumerate(found[first:], first)
        )

    def sidecars(self, source: Source) -> Iterable[Record]:
        """Return the files that say something about the task or the session."""
        from .documents import read_sidecars

        return [Record(data, -1, name) for name, data in read_sidecars(source)]

    def normalize(
        self, source: Source, records: Iterable[Record], carry: bytes | None
    ) -> Normalized:
        from .reader import normalize

        return normalize(source, records, carry, self.whole_prompts_since)

    def slim(self, line: bytes) -> bytes:
        if b"base64" not in line and b'"data"' not in line:
            return line
        from .words import without_data

        return without_data(line)


adapter = ClineAdapter()


def _documents(files: frozenset[str]) -> list[str]:
    """Of the files in a folder those that hold a session: each document of messages, or the better
    one of a task."""
    task = [name for name in (*TIMELINES, HISTORY) if name in files][:1]
    return [*task, *sorted(name for name in files if name.endswith(MESSAGES))]


def _manifests(name: str, folder: str, files: frozenset[str]) -> list[str]:
    if not name.endswith(MESSAGES):
        return []
    stems = (name.removesuffix(MESSAGES), os.path.basename(folder))
    return [
        *dict.fromkeys(f"{stem}.json" for stem in stems),
        *sorted(file for file in files if file.endswith(".compaction.json")),
    ]


def _folders(root: str, refused: list[ReadError]) -> Iterator[tuple[str, frozenset[str]]]:
    """Every folder that may hold a session, with its files. Links to folders are not followed."""
    pending = [(root, 0)]
    while pending:
        folder, depth = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(
                    (entry for entry in listing if entry.path.isprintable()),
                    key=lambda entry: entry.name,
                    reverse=True,
                )
            files = frozenset(
                entry.name
                for entry in entries
                if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False)
            )
            below = [
                entry.path
                for entry in entries
                if entry.name not in OTHERS and entry.is_dir(follow_symlinks=False)
            ]
        except OSError as error:
            note_refusal(folder, error, refused)
            continue
        if files:
            yield folder, files
        if depth < MAX_DEPTH:
            pending += [(path, depth + 1) for path in below]
