"""The paths of Claude Code's files."""

from __future__ import annotations

import os

OVERFLOWS = 4  # Files with the whole of an output that one record may speak of.


class SourcePath:
    """The parts of a source's path: `…/<session>/subagents/**/agent-<id>.jsonl` or
    `…/<run>/journal.jsonl`, or any other name."""

    def __init__(self, path: str) -> None:
        below, _, name = path.rpartition(os.sep)
        self.stem = name.removesuffix(".jsonl")
        parts = f"{below}{os.sep}".split(f"{os.sep}subagents{os.sep}", 1)
        self.folder = parts[0] if len(parts) > 1 else ""
        """The folder that is named for the session."""
        self.session = self.folder.rpartition(os.sep)[2]
        self.agent = self.stem[6:] if self.stem.startswith("agent-") else ""
        self.run = below.rpartition(os.sep)[2] if self.stem == "journal" and self.folder else ""
        inner = parts[1].split(os.sep) if self.folder and self.agent else []
        self.run_of_agent = inner[1] if len(inner) > 2 and inner[0] == "workflows" else ""
        """The workflow run that a subagent is part of."""
