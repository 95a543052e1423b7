"""opencode in Go, the predecessor of Crush: the same tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .crush import count_database
from .values import Session

AGENT = "opencode_go"
FOLDERS = (".opencode",)


def count(root: Path) -> Iterator[Session]:
    for path in sorted(root.glob("opencode.db")):
        yield from count_database(path)
