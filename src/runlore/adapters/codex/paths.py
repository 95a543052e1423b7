"""The names that Codex gives its files."""

from __future__ import annotations

import re

from ..shared.pick import clean

_UUID_IN_NAME = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def thread_in(path: str) -> str:
    """The thread that a file is named for: `rollout-<time>-<thread>[_<rollout>].jsonl`; else the
    name itself."""
    name = re.split(r"[/\\]", path)[-1]
    for suffix in (".zst", ".jsonl", ".json"):
        name = name.removesuffix(suffix)
    found = _UUID_IN_NAME.search(name)
    return found[0] if found else clean(name) or "unknown"
