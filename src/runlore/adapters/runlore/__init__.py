"""runlore's own live session logs: a folder for each session, with `log.jsonl` in it; a line is a
record, or several that belong together.

The format is `LogRecord` in `model.py` and the page on the live log; nothing of `live/` is
imported. Last checked 2026-11. The traps:

- A record is named by its id. The copies in a fork have the same id, so the store knows them as
  copies.
- A rewind names its place by seq, and means the conversation as it was right after that record. So
  `<session>/<seq>` is an alias, for every record, of the last message at that point. The last event
  of a message has the record's own name: the next message is linked to it.
- Only messages, compactions and clears move the head. A change of state between two prompts follows
  the same message as the second of them does, so that a rewind still shows as two prompts after one
  message.
- A rewind to the very beginning leads to the first record, which is the session's own.
- Two replies after one message are no branches to the timeline, only two prompts are. So the first
  message after a rewind retracts, by name, the messages of the other branches, as far as they are
  remembered.
- The session of a subagent names its parent and the call there in its first record.
- Long outputs of tools are in files named by their hash, beside the log.
- A session may be on a server (`server.py`): its records are the same, and their offsets are seqs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...errors import ReadError
from .. import Position, Record, Source
from ..shared.jsonl import JsonlAdapter, read_small
from . import server

NAME = "log.jsonl"
SHARED = "shared%2F"  # Values that several sessions share: no conversation.
HASH = rb'"sha256"\s*:\s*"([0-9a-f]{64})"'
OUTPUT_BYTES = 8 << 20
OUTPUTS = 16  # Files with the whole of an output that are read for one line.


class RunloreAdapter(JsonlAdapter):
    name = "runlore"
    label = "runlore live log"
    version = 7
    blob_mark = b'"base64"'
    reader = "runlore.adapters.runlore.reader"
    roots = ("$RUNLORE_HOME/live", "~/.runlore/live")
    suffix = NAME
    markers = (b'"sha256"',)

    def discover(self, root: Path) -> Iterator[Source]:
        """Yield the logs below a root. Folders whose name begins with a dot are the store's own,
        its trash among them."""
        for source in super().discover(root):
            below = source.path[len(source.root) :].strip(os.sep).split(os.sep)
            if (
                below[-1] == NAME
                and len(below) > 1
                and not any(part.startswith((".", SHARED)) for part in below)
            ):
                yield source

        yield from self._on_servers(root)

    def _on_servers(self, root: Path) -> Iterator[Source]:
        """Yield the sessions on the servers whose addresses are in files below a root."""
        for file in sorted(root.glob(f"*{server.SUFFIX}")) if root.is_dir() else ():
            try:
                yield from server.find_sessions(str(file), str(root), self.name)
            except ReadError as error:
                self.refused = [*self.refused, error]

    def has_lines(self, path: str) -> bool:
        return not server.is_on_server(path)

    def is_appended(self, path: str) -> bool:
        """Return True: a log is only appended to, wherever it is."""
        return True

    def refresh(self, source: Source) -> Source | None:
        if not server.is_on_server(source.path):
            return super().refresh(source)
        return server.refresh(source)

    def follows(self, source: Source, since: Position) -> bool:
        if not server.is_on_server(source.path):
            return super().follows(source, since)
        return server.follows(source, since)

    def has_other_end(self, source: Source, since: Position) -> bool:
        return not server.is_on_server(source.path) and super().has_other_end(source, since)

    def position(self, source: Source, offset: int, records: int) -> Position:
        if not server.is_on_server(source.path):
            return super().position(source, offset, records)
        return server.position(source, offset, records)

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        if not server.is_on_server(source.path):
            return super().read(source, since)
        return server.read(source, since.offset if since else 0)

    def sidecars_of_line(self, source: Source, line: bytes) -> Iterable[Record]:
        """Yield the whole outputs of which the line holds head and tail. Only a hash is read from
        the line, never a path."""
        folder = os.path.join(os.path.dirname(source.path), "outputs")
        names = [digest.decode() for digest in re.findall(HASH, line)]
        for name in list(dict.fromkeys(names))[:OUTPUTS]:
            data = read_small(os.path.join(folder, name), OUTPUT_BYTES)
            if data is not None:
                yield Record(data, -1, f"output:{name}")


adapter = RunloreAdapter()
