"""aider: one Markdown file for each repository, `.aider.chat.history.md`, with all sessions that
were run there.

Learned from the source of aider 0.86.2 (`io.py`, `base_coder.py`) and from real histories. Last
checked 2026-11. The traps:

- The files lie in the repositories, so no folder has all of them. The user names the folders of
  the projects (`roots` of `[sources.aider]` in config.toml). Without that, runlore only looks for
  the file in the home folder and for the one that aider's environment variable names.
- A session begins with a line that has its start in local time, without a zone. No other line has a
  time. `.aider.input.history` beside it repeats each prompt with its time, so a prompt gets its
  time from the same words there. That file alone gives no session.
- A prompt is a heading, `#### `, and the program's own lines are quotes, `> `. Replies may contain
  both. The program ends its lines with two spaces. An editor may have removed them from all lines;
  then a heading counts as a prompt only in a position where a prompt can be. A formatter removes
  them from headings only. The first lines of a session show which of the two happened.
- Thinking is below a heading, or in the tags that the program wraps it in.
- In architect mode the plan of one model is the prompt of the next. It is written like a prompt,
  although nobody typed it.
- An edit is a part of the reply. A later line that has only the path reports that it was applied.
- The output of commands is not recorded. Token counts are rounded. With DeepSeek the tokens sent
  include those from the cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from ...errors import ReadError, Rejected
from .. import Position, Record, Source
from ..shared.base import stat_source
from ..shared.jsonl import (
    HASH_BYTES,
    QUIET_S,
    JsonlAdapter,
    is_stale,
    note_refusal,
    open_end,
    open_start,
    read_small,
    reason_of,
    to_json,
)

HISTORY, TYPED = ".aider.chat.history.md", ".aider.input.history"
MAX_DEPTH = 8  # Folders between a root and a repository.
MAX_FOLDERS = 20_000
OTHERS = frozenset(
    {"node_modules", "venv", "target", "build", "dist", "__pycache__", "Library", "AppData"}
)
"""Folders without repositories, which hold thousands of others. Hidden ones are left out as
well."""
CHUNK = 4 << 20  # Bytes that are looked at together.
MAX_CHUNK_LINES = 250_000  # Lines in them: more are no text.
MAX_PART_BYTES = 8 << 20  # Bytes of one prompt, reply or output.
MAX_SESSION_BYTES = 16 << 20  # Bytes of a session, which is looked at from its beginning.
MAX_SIDECAR_BYTES = 16 << 20  # Bytes of what was typed.


class AiderAdapter(JsonlAdapter):
    name = "aider"
    label = "aider"
    version = 3
    reader = "runlore.adapters.aider.reader"
    roots = ("$AIDER_CHAT_HISTORY_FILE", f"~/{HISTORY}")
    lacks = ("times of replies", "exact tokens", "what commands printed")

    def discover(self, root: Path) -> Iterator[Source]:
        """The root itself, or the files in the folders below it."""
        self.refused = refused = list[ReadError]()
        paths = [str(root)] if root.is_file() else _histories(str(root), refused)
        for path in paths:
            source = stat_source(
                Source(agent=self.name, path=path, root=str(root), size=0, mtime_ns=0)
            )
            if source is not None and source.size:
                yield source

    def is_ended(self, file: IO[bytes], since: Position) -> bool:
        """Return True if the part that was read as the last is the same in the file as it is
        now."""
        from .history import marks_at, split_history

        start = open_start(since)
        file.seek(start)
        data = file.read(since.offset - start + CHUNK)
        then, now = (
            next(split_history(part, marks_at(file, start), is_end=True, is_stale=True), None)
            for part in (data[: since.offset - start], data)
        )
        return then is not None and now is not None and then[2] == now[2]

    def position(self, source: Source, offset: int, records: int) -> Position:
        """Return a position, which is open: the part before it may go on, if it is the last."""
        from .history import part_start, session_start

        position = super().position(source, offset, records)
        try:
            with open(source.path, "rb") as file:
                if offset - session_start(file, offset) > MAX_SESSION_BYTES:
                    raise Rejected(source.path, f"a session of over {MAX_SESSION_BYTES >> 20} MB")
                start = part_start(file, offset)
                tail = position.tail[:HASH_BYTES] + open_end(file, start)
        except OSError as error:
            raise ReadError(source.path, reason_of(error)) from error
        return msgspec.structs.replace(position, tail=tail)

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        """Yield the parts of the history. The last one may still grow, and is given when nothing
        was written for `QUIET_S`."""
        from .history import marks_at, split_history, typed

        start, room = since.offset if since else 0, CHUNK
        is_quiet = is_stale(source, QUIET_S)
        try:
            with open(source.path, "rb") as file:
                times = typed(
                    read_small(os.path.join(os.path.dirname(source.path), TYPED), MAX_SIDECAR_BYTES)
                    or b""
                )
                while room <= MAX_PART_BYTES:
                    marks = marks_at(file, start)
                    file.seek(start)
                    data, done = file.read(room), 0
                    if data.count(b"\n") > MAX_CHUNK_LINES * room // CHUNK:
                        raise Rejected(source.path, "lines of so few bytes are no history")
                    is_end = len(data) < room
                    for begin, done, content in split_history(data, marks, is_end, is_quiet):
                        if content["said"] == "user" and (found := times.get(content["text"])):
                            content["typed"] = found
                        yield Record(to_json(content), start + begin, None, None, start + done)
                    if is_end:
                        return
                    start, room = start + done, room if done else room * 2
                raise Rejected(source.path, f"a part of more than {MAX_PART_BYTES >> 20} MB")
        except OSError as error:
            raise ReadError(source.path, reason_of(error)) from error


adapter = AiderAdapter()


def _histories(root: str, refused: list[ReadError]) -> Iterator[str]:
    pending, left = [(root, 0)], MAX_FOLDERS
    while pending and left:
        folder, depth = pending.pop()
        left -= 1
        try:
            with os.scandir(folder) as listing:
                entries = sorted(
                    (entry for entry in listing if entry.path.isprintable()),
                    key=lambda entry: entry.name,
                    reverse=True,
                )
            yield from [
                entry.path
                for entry in reversed(entries)
                if _is_history(entry.name) and entry.is_file(follow_symlinks=False)
            ]
            below = [
                entry
                for entry in entries
                if _may_hold(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
            pending += [(entry.path, depth + 1) for entry in below if depth < MAX_DEPTH]
        except OSError as error:
            note_refusal(folder, error, refused)


def _is_history(name: str) -> bool:
    """The file has another name where somebody has said so, or has collected some."""
    return name == HISTORY or (
        name.endswith(".md") and name.startswith("aider") and name[5:6] in ("_", "-", ".")
    )


def _may_hold(name: str) -> bool:
    return name[0] != "." and name not in OTHERS
