"""hyperguild (supervisor): a log of skills, one file of JSON lines for each session, one line for
each invocation.

Learned from the source of its session package and a description of the format of later versions; no
log was at hand. The user chooses the folder of the logs: name it in `roots` of the config. Last
checked 2026-11. The traps:

- A line is written when the invocation is over: one that a crash ended is not there.
- `verified` is false also where nothing was checked. It counts as a failure only with a verdict
  that says so; else the attempt is unchecked.
- `final_status` is a free text, with three vocabularies: ok, error and skipped, pass, fail and
  skip, and success.
- A forgotten time is written as that of the year 1: such an entry has the time of the one before
  it.
- `session_id` may name another session than the file does: the file's name counts.
- An invocation that was sent twice is written twice, and is one.
- The `training-data` beside the logs are JSON lines as well, and no sessions.
- After a crash the next entry is glued to the one that was cut off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from .. import Source
from ..shared.jsonl import JsonlAdapter

FOLDER = "sessions"


class HyperguildAdapter(JsonlAdapter):
    name = "hyperguild"
    label = "hyperguild"
    version = 2
    reader = "runlore.adapters.hyperguild.reader"
    roots = ()
    lacks = ("tokens", "messages", "git branch", "when an attempt began")

    def discover(self, root: Path) -> Iterator[Source]:
        """Yield the logs in the folder itself, and in those that are called sessions."""
        for source in super().discover(root):
            folder = os.path.dirname(source.path)
            if folder == str(root) or os.path.basename(folder) == FOLDER:
                yield source


adapter = HyperguildAdapter()
