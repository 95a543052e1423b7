"""Two stores with one half of a corpus each: one to write rules with, one to judge them on.

    python -m bench.learning.halves --corpus DIR [--corpus DIR ...] --out DIR

Writes `rules.db` and `judging.db` to the folder. A hash of the first session of a family decides
which half a session is in, so it never changes; subagents, forks and continuations are in the half
of their first session.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Literal

from bench._corpus import read_corpus
from runlore import open_store
from runlore.store import Filter, SessionLine, Store

Half = Literal["rules", "judging"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, action="append", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    whole = options.out / "whole.db"
    store = open_store(str(whole))
    for corpus in options.corpus:
        read_corpus(store, options.out, corpus)
    store.close()
    halves: tuple[Half, ...] = ("rules", "judging")
    for half in halves:
        path = options.out / f"{half}.db"
        shutil.copy(whole, path)
        store = open_store(str(path))
        sessions = remove_other_half(store, half)
        store.close()
        print(f"{path}: {sessions} sessions")


def remove_other_half(store: Store, half: Half) -> int:
    """Remove the sessions of the other half, and return how many are left."""
    lines = {line.uid: line for line in store.sessions.select(Filter(parents_only=False))}
    others = [uid for uid in lines if half_of(uid, lines) != half]
    store.retention.forget(others, datetime.now(UTC))
    return len(lines) - len(others)


def half_of(uid: str, lines: Mapping[str, SessionLine]) -> Half:
    """Return the half that a session belongs to, with its whole family."""
    visited: set[str] = set()
    while uid not in visited:
        visited.add(uid)
        line = lines.get(uid)
        uid = (line.parent_uid if line else None) or uid
    return "rules" if sha256(uid.encode()).digest()[0] % 2 == 0 else "judging"


if __name__ == "__main__":
    main()
