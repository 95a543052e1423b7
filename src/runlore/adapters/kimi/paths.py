"""The names of the files of a session."""

from __future__ import annotations

import re

WIRE, CONTEXT = "wire.jsonl", "context.jsonl"
SUBAGENT = re.compile(r"context_sub_(\d+)\.jsonl\Z")


def owner_of(path: str) -> tuple[str, str | None]:
    """Return the session and the subagent that a file belongs to; None for no subagent."""
    *above, folder, name = ["", "", *path.replace("\\", "/").split("/")][-5:]
    if match := SUBAGENT.match(name):
        return folder, f"sub_{match[1]}"
    if name not in (WIRE, CONTEXT):
        return name.removesuffix(".jsonl"), None
    if above[-1] in ("agents", "subagents"):
        return above[-2], None if folder == "main" else folder
    return folder, None
