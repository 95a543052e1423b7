"""Qwen Code: one file of JSON lines for each session; before 0.5 the documents of Gemini CLI, which
it is a fork of.

Learned from the source of QwenLM/qwen-code (2026-08: `chatRecordingService.ts`), and from
transcripts of versions 0.14 to 0.21. Last checked 2026-11. The traps:

- Every record names the one that it follows, telemetry included. A rewind is a record that follows
  the record before the retracted turn. The next record follows the rewind; it gets the same parent
  as the rewind, so that the two prompts are siblings.
- `usageMetadata` is that of the main agent. Telemetry (`api_response`) has every call, those of
  subagents and of suggestions too, and comes just before the message: the two are one call in the
  ledger, which has the name of the first. Calls of a subagent are named by their session and their
  counts, for the file of a subagent has the counts and not the name.
- The prompt includes the tokens from the cache, and the output includes the thoughts: the total
  shows it.
- A branch copies all records with their ids into a file of its own (`forkedFrom`). Records of one
  file with the same id are the same record.
- The text that a person typed is `displayText` where there is one; the parts may also hold files
  and texts of hooks.
- A command that failed counts as a success; its exit code is in its output.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ...model import Session
from .. import Record, Source, gemini_cli
from ..shared.jsonl import read_small

PROJECTS, CHATS, SUBAGENTS = "projects", "chats", "subagents"


class QwenCodeAdapter(gemini_cli.GeminiCliAdapter):
    name = "qwen_code"
    label = "Qwen Code"
    aliases = ("qwen", "qwen-cli")
    version = 5
    reader = "runlore.adapters.qwen_code.reader"
    roots = ("$QWEN_RUNTIME_DIR", "$QWEN_HOME", "~/.qwen")
    keeps_days = None
    instructions = ("QWEN.md",)

    def places(self, root: Path) -> list[tuple[Path, bool]]:
        own = [root / name for name in (PROJECTS, "tmp") if (root / name).is_dir()]
        is_home = own or root.name == ".qwen" or (root / "settings.json").exists()
        return [(place, True) for place in own] if is_home else [(root, root.name == PROJECTS)]

    def is_session(self, path: str, place: str, is_own: bool) -> bool:
        """Return True for a log, and for a document of the first versions."""
        folder, name = os.path.split(path)
        if name.endswith(".json"):
            return name.startswith("session-") and os.path.basename(folder) == CHATS
        parts = os.path.relpath(folder, place).split(os.sep)
        return name.endswith(".jsonl") and (CHATS in parts or SUBAGENTS in parts or not is_own)

    def hints(self, path: str) -> tuple[str, ...]:
        """Return the session that started a subagent's."""
        above, below = os.path.split(os.path.dirname(path))
        return (
            (f"parent:{below}",)
            if os.path.basename(above) == SUBAGENTS and below.isprintable()
            else ()
        )

    def sidecars(self, source: Source) -> Iterable[Record]:
        if source.path.endswith(".json"):
            yield from super().sidecars(source)
        elif about := read_small(
            source.path.removesuffix(".jsonl") + ".meta.json", gemini_cli.MAX_SIDECAR_BYTES
        ):
            yield Record(about, -1, "meta")

    def resume(self, session: Session) -> list[str] | None:
        """Return the command, to be run in the session's folder; a subagent cannot be resumed."""
        return (
            None
            if session.relation == "subagent"
            else ["qwen", "--resume", session.native_session_id]
        )


adapter = QwenCodeAdapter()
