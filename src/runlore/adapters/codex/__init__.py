"""Codex: one file of JSON lines for each thread (a "rollout"), for forks and subagents with a copy
of where they come from.

Learned from the source of openai/codex (343074d, 2026-08-22) and from rollouts of versions 0.34 to
0.146, of the time before (lines without envelope, 2025-07 to 2025-09) and of the TypeScript program
(a JSON document, 2025-04 to 2025-06). Last checked 2026-08. The traps:

- A message is recorded two or three times: as sent to the model (`response_item`), as shown on the
  screen (`event_msg`), and as an item of a page of history. The first of them becomes the event,
  the others are merged into it. All have the same id.
- Records have no ids. An event is named by the thread whose history it is, a hash of its turn and
  of what it says, and how often that was said in the turn. A copy in a fork has the same name,
  whatever its time says.
- A fork begins with its parent's history, stamped anew. It ends where a turn is younger than the
  fork: ids of turns are UUIDs of version 7, or they say when they started; where neither is there,
  at the first pause in what was written in one go.
- Tokens are written as a running total, again and again, and a fork goes on with its parent's: only
  `last_token_usage` of a total that was not there before is counted, and none of a copied one. They
  are an event of their own, for what they belong to is stored already. In the ledger a request is
  named by its thread and the total that it ends at, which is the same in every copy of the file.
- A rollback takes the last turns back: the next prompt follows what the first of them followed,
  which makes it another branch.
- A compaction writes the history that the model has from then on, in its own order: instructions
  of the program stand behind older prompts. Its items that are events already become references to
  them; new or shortened items become events.
- The name that a person gives to a thread stands in one file for all of them,
  `session_index.jsonl`, the last line of a thread being the one that holds. A rollout is as new as
  its name.
- The status of a command is in the text of its output (in four forms), or in a record between call
  and output. A call made by a program that the model wrote has only that record, which then is both
  call and result.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import zstandard

from ...errors import ReadError
from ...model import Session
from .. import Integration, Position, Record, Source
from ..shared.document import DocumentAdapter
from ..shared.jsonl import (
    MAX_RECORD_BYTES,
    JsonlAdapter,
    has_too_many_values,
    note_refusal,
    parse,
    read_small,
    read_up_to,
    reason_of,
    sample_hashes,
    to_json,
    walk_files,
)
from .integration import INTEGRATION
from .paths import thread_in

FOLDERS = ("sessions", "archived_sessions")
NAMES = "session_index.jsonl"
OTHERS = frozenset({"history.jsonl", NAMES})
MAX_INDEX_BYTES = 16 << 20
# The year 2106. A later time is damage, and a number that not every database holds.
LATEST_S = 1 << 32
MAX_ROLLOUT_BYTES = 4 << 30  # Unpacked. A small file can unpack to anything.


class Named(msgspec.Struct, gc=False):
    """A line of the file of names."""

    id: str
    thread_name: str
    updated_at: datetime | None = None


class CodexAdapter(DocumentAdapter):
    name = "codex"
    label = "Codex"
    aliases: tuple[str, ...] = ("codex-cli", "openai-codex")
    version = 7
    reader = "runlore.adapters.codex.items"
    roots: tuple[str, ...] = ("$CODEX_SESSIONS_DIR", "$CODEX_HOME", "~/.codex")
    command: str | None = "codex"
    instructions = ("AGENTS.md",)

    def discover(self, root: Path) -> Iterator[Source]:
        """The rollouts below a home of Codex, or below any other folder."""
        places = [place for name in FOLDERS if os.path.isdir(place := root / name)] or [root]
        self.refused = refused = list[ReadError]()
        named = _names(str(root))
        for entry in (entry for place in places for entry in walk_files(str(place), "", refused)):
            name = entry.name
            is_rollout = name.endswith((".jsonl", ".jsonl.zst")) or (
                name.startswith("rollout-") and name.endswith(".json")
            )
            if not is_rollout or name in OTHERS:
                continue
            try:
                stat = entry.stat()
            except OSError as error:
                note_refusal(entry.path, error, refused)
                continue
            newest = max(stat.st_mtime_ns, _name_of(entry.path, named)[1])
            yield Source(
                agent=self.name,
                path=entry.path,
                root=str(root),
                size=stat.st_size,
                mtime_ns=newest,
                inode=stat.st_ino,
            )

    def is_appended(self, path: str) -> bool:
        """False for what is written as a whole: rollouts that were packed away, and documents."""
        return not path.endswith((".zst", ".json"))

    def identity(self, path: str) -> tuple[bytes, bytes]:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            head, tail = sample_hashes(file, size)
        return head, blake2b(b"%s%d" % (tail, size), digest_size=16).digest()

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        if since is not None or not self.is_appended(source.path):
            yield from self.sidecars(source)
        if self.is_appended(source.path):
            yield from JsonlAdapter.read(self, source, since)
            return
        start = since.offset if since else 0
        try:
            with open(source.path, "rb") as file:
                lines = (
                    _Lines(_document(file)) if source.path.endswith(".json") else _unpacked(file)
                )
                # It only reads.
                for record in self._lines(source, lines, 0):  # type: ignore[arg-type]
                    if record.offset >= start:
                        yield record
                if lines.problem and lines.length >= start:
                    yield Record(b"", lines.length, None, lines.problem, lines.length + 1)
        except OSError as error:
            raise ReadError(source.path, reason_of(error)) from error

    def sidecars(self, source: Source) -> Iterable[Record]:
        if name := _name_of(source.path, _names(source.root))[0]:
            yield Record(msgspec.json.encode({"thread_name": name}), -1, "name")

    def slim(self, line: bytes) -> bytes:
        begin = line.find(b";")  # Most lines have none, which is seen in a tenth of the time.
        if (begin < 0 or line.find(b";base64,", begin) < 0) and b'"encrypted_content"' not in line:
            return line
        from .words import without_blobs

        return without_blobs(line)

    def resume(self, session: Session) -> list[str] | None:
        """To be run in the session's folder."""
        return [self.command, "resume", session.native_session_id] if self.command else None

    def integration(self) -> Integration | None:
        """A fork without the command keeps its settings elsewhere."""
        if self.command is None:
            return None
        return INTEGRATION


adapter = CodexAdapter()


def _names(root: str) -> Mapping[str, tuple[str, int]]:
    """By thread, the name that it was given last, and when (ns)."""
    above, name = os.path.split(root)
    for folder in (root, above) if name in FOLDERS else (root,):
        path = os.path.join(folder, NAMES)
        try:
            stat = os.stat(path)
        except OSError:
            continue
        return _read_names(path, stat.st_size, stat.st_mtime_ns)
    return {}


@lru_cache(maxsize=4)
def _read_names(path: str, *_state: int) -> Mapping[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for line in (read_small(path, MAX_INDEX_BYTES) or b"").splitlines():
        try:
            entry = msgspec.json.decode(line, type=Named)
        except (msgspec.DecodeError, UnicodeDecodeError):  # Damaged, or of another kind.
            continue
        seconds = (
            entry.updated_at.timestamp()
            if entry.updated_at is not None and entry.updated_at.tzinfo is not None
            else 0
        )
        found[entry.id] = entry.thread_name, int(seconds * 1e9) if 0 < seconds < LATEST_S else 0
    return found


def _name_of(path: str, named: Mapping[str, tuple[str, int]]) -> tuple[str | None, int]:
    if not named:
        return None, 0
    return named.get(thread_in(path), (None, 0))


class _Lines:
    """The readable part of a stream of lines: up to the size limit or to damage, with an end added
    to the last line."""

    def __init__(self, file: Any) -> None:
        self.file = file
        self.length = 0
        self.problem: str | None = None
        self.is_open = False
        """Whether the last line has no end yet."""

    def read(self, size: int) -> bytes:
        chunk = b"" if self.problem else self._next(size)
        if not chunk and self.is_open:
            chunk = b"\n"
        if chunk:
            self.is_open = not chunk.endswith(b"\n")
            self.length += len(chunk)
        return chunk

    def _next(self, size: int) -> bytes:
        try:
            chunk: bytes = self.file.read(size)
        except Exception as error:
            # Whatever the decompressor says of damaged data, it costs the rest of this file.
            self.problem = f"the rest of the file is damaged: {error}"[:200]
            return b""
        if self.length + len(chunk) > MAX_ROLLOUT_BYTES:
            self.problem = f"the rest is left out: more than {MAX_ROLLOUT_BYTES >> 30} GB"
            return b""
        return chunk


def _unpacked(file: BinaryIO) -> _Lines:
    return _Lines(
        zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
            file, read_across_frames=True
        )
    )


def _document(file: BinaryIO) -> BinaryIO:
    """A JSON document as the lines that later versions would have written: its header, then its
    items."""
    data = read_up_to(MAX_RECORD_BYTES + 1, file)
    if len(data) > MAX_RECORD_BYTES or has_too_many_values(data):
        # One line that is too long, or has too many values, and is named as such.
        return io.BytesIO(data[: MAX_RECORD_BYTES + 1].replace(b"\n", b" "))
    try:
        values = [msgspec.json.decode(data)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        values = [value for value, _, _ in parse(data)]
    document = values[0] if len(values) == 1 and isinstance(values[0], dict) else {}
    items, session = document.get("items"), document.get("session")
    if not isinstance(items, list):
        return io.BytesIO(data.replace(b"\n", b" "))
    return io.BytesIO(
        b"".join(
            [to_json(item) + b"\n" for item in [session if session is not None else {}, *items]]
        )
    )
