"""iFlow CLI: the envelope of Claude Code; a call is repeated in each line that follows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .claude import count_records
from .values import Session

AGENT = "iflow"
FOLDERS = (".iflow/projects",)


def count(root: Path) -> Iterator[Session]:
    for path in sorted(root.rglob("*.jsonl")):
        yield Session(path, path.stem, count_records(path, set()))
