"""hive (Aden): a folder for each session, of a graph agent with `state.json` and logs, of a queen
or a worker with `events.jsonl`.

Learned from its source (adenhq/hive of 2026-02, aden-hive/hive of 2026-08) and from what the stores
of both wrote. Last checked 2026-11. The traps:

- No file is only appended to: the state is rewritten, and a compaction deletes messages, each of
  which is a file. All files are read as one list of records, in the order in which things happened,
  and records that were read before are recognised by their names.
- Messages have no times. If there are events, those about the same message have its time and its
  place; a graph agent's messages and logs come between the checkpoints of their node. That is the
  order when nothing has been written for ten minutes. While a session goes on, messages and events
  have the order of their writing, by the times of their files and their own, and what is new comes
  last. Times are local, without a zone: they are read as those of this machine.
- Every call is written two or three times: in a message, in the log of tools, in an event. It has
  one name in all three, for messages that were compacted away are still in the others.
- `input_tokens` of a turn includes the tokens from the cache, as its library counts. The cost is
  the library's estimate.
- Texts of a judge or a reminder are in the list with the role of the user.
- A reply that was cut off by a crash is in `partials`; it, too, is read after ten minutes.
- Not read, for want of a sample: `runs/` before 2026-02, workers of the second layout
  (`agents/<colony>/<worker>`), seeds of colonies, outputs in files of their own, and which messages
  of a fork are copies.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ...errors import ReadError
from .. import Record, Source
from ..shared.document import GrowingAdapter
from ..shared.jsonl import aged, is_stale, list_entries, to_json
from .documents import EVENTS, STATE, TALK, files_of, records

HOLDERS = frozenset({"sessions", "workers"})
"""Folders whose folders are sessions."""
OTHERS = frozenset({"venv", ".venv", "node_modules", ".git", "credentials", "secrets", "artifacts"})
MAX_DEPTH = 10  # Folders between a root and a session; the agent itself makes five.
STALE_S = 600


class HiveAdapter(GrowingAdapter):
    name = "hive"
    label = "hive"
    version = 2
    reader = "runlore.adapters.hive.reader"
    roots = ("$HIVE_HOME", "~/.hive")
    lacks = ("folder", "git branch", "times of a graph agent's messages")

    def discover(self, root: Path) -> Iterator[Source]:
        self.refused = refused = list[ReadError]()
        for folder in _sessions(str(root), refused):
            if (source := self._source(str(root), folder)) is not None:
                yield source

    def refresh(self, source: Source) -> Source | None:
        return self._source(source.root, source.path)

    def _source(self, root: str, folder: str) -> Source | None:
        """Return the source of a session, with the size of all its files and the time of the newest
        one; None when they are empty."""
        size = newest = 0
        for entry in files_of(folder):
            try:
                stat = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            size, newest = size + stat.st_size, max(newest, stat.st_mtime_ns)
        if not size:
            return None
        return aged(
            Source(agent=self.name, path=folder, root=root, size=size, mtime_ns=newest), STALE_S
        )

    def whole(self, source: Source) -> tuple[list[Record], list[bytes]]:
        return [], [to_json(record) for record in records(source.path, is_stale(source, STALE_S))]


adapter = HiveAdapter()


def _sessions(root: str, refused: list[ReadError]) -> Iterator[str]:
    """Yield the folders of sessions below a root. Folders below a session are not searched."""
    pending = [(root, 0)]
    while pending:
        folder, depth = pending.pop()
        entries = list_entries(folder, refused)
        names = {entry.name for entry in entries}
        if os.path.basename(os.path.dirname(folder)) in HOLDERS and names & {STATE, EVENTS, TALK}:
            yield folder
        elif depth < MAX_DEPTH:
            pending += [
                (entry.path, depth + 1)
                for entry in entries
                if entry.name not in OTHERS and entry.is_dir(follow_symlinks=False)
            ]
