"""Claude Code: one file of JSON lines for each session, more beside it for its subagents.

Learned from transcripts of versions 1.0.24 to 2.1.220 and from the session reader in Anthropic's
Agent SDK for Python; Claude Code itself is closed source. Last checked 2026-08. The traps:

- An API message is written as several lines, one block each, that repeat a growing `usage`: what a
  line adds to the most seen so far is counted, so the sum over events is the highest count,
  wherever the file is cut.
- Lines of progress, hooks and settings stand in the chain of `parentUuid` even when they say
  nothing: they are aliases.
- A subagent was first written into its parent's file (`isSidechain`), then next to it, now below
  it; and for a time its whole conversation was mirrored in the parent as `agent_progress`. It is
  always a session of its own here.
- A turn ends with a `system/turn_duration` record, which is a completion, or in older versions only
  with a reply whose `stop_reason` is `end_turn`: there is no further record, so there is no further
  event, and the reply's native word is `assistant/end_turn`.
- A record without `uuid` is named by a hash of the last uuid before it, its own bytes, and how
  often it came since then. A second record with a uuid that was seen shortly before, and other
  content, is `<uuid>~<checksum>`; with the same content it is a copy, and the store sees that. An
  id that is no UUID was written by hand, and is only unique within its session: it gets the
  session's name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from ...model import Session
from .. import Integration, Record, Source
from ..shared.jsonl import JsonlAdapter, read_small
from .integration import INTEGRATION
from .paths import OVERFLOWS, SourcePath

OVERFLOW_BYTES = 8 << 20


class ClaudeAdapter(JsonlAdapter):
    name = "claude"
    label = "Claude Code"
    aliases: tuple[str, ...] = ("claude-cli",)
    version = 6
    blob_mark = b'"base64"'
    reader = "runlore.adapters.claude.reader"
    roots: tuple[str, ...] = (
        "$CLAUDE_PROJECTS_DIR",
        "$CLAUDE_CONFIG_DIR/projects",
        "~/.claude/projects",
        "$XDG_CONFIG_HOME/claude/projects",
        "~/.config/claude/projects",
    )
    keeps_days = 30  # The default of its setting cleanupPeriodDays.
    marker = b"<persisted-output>"
    command = "claude"
    instructions = ("CLAUDE.md",)  # Of AGENTS.md it depends on the version and on a setting.

    def discover(self, root: Path) -> Iterator[Source]:
        """Yield the sources. Those of sessions carry the ids of the subagents that have a file:
        what the session mirrors of them is then a copy."""
        found = list(super().discover(root))
        agents: dict[str, list[str]] = {}
        for source in found:
            place = SourcePath(source.path)
            if place.folder and place.agent:
                agents.setdefault(place.folder, []).append(f"agent:{place.agent}")
        for source in found:
            hints = agents.get(source.path.removesuffix(self.suffix))
            yield msgspec.structs.replace(source, hints=tuple(sorted(hints))) if hints else source

    def sidecars(self, source: Source) -> Iterable[Record]:
        """Return the program's note about a subagent, written when the subagent was started."""
        place = SourcePath(source.path)
        data = (
            read_small(source.path.removesuffix(self.suffix) + ".meta.json", 1 << 20)
            if place.folder and place.agent
            else None
        )
        return [Record(data, -1, "meta")] if data else ()

    def sidecars_of_line(self, source: Source, line: bytes) -> Iterable[Record]:
        """Yield the whole outputs of which the line holds a preview. Only the file's name is taken
        from the line, never a path."""
        from . import words

        folder = SourcePath(source.path).folder or source.path.removesuffix(self.suffix)
        for name in islice(
            dict.fromkeys(words.overflows(line.decode("utf-8", "replace"), is_json=True)), OVERFLOWS
        ):
            data = read_small(os.path.join(folder, "tool-results", name), OVERFLOW_BYTES)
            if data is not None:
                yield Record(data, -1, f"overflow:{name}")

    def slim(self, line: bytes) -> bytes:
        line = super().slim(line)
        if b'"type":"thinking","thinking":"' not in line:
            return line
        from .words import without_signatures

        return without_signatures(line)

    def resume(self, session: Session) -> list[str] | None:
        """Return the command, to be run in the session's folder. A subagent cannot be continued
        alone: its session is."""
        return [self.command, "--resume", session.native_session_id.partition("/")[0]]

    def integration(self) -> Integration | None:
        return INTEGRATION


adapter = ClaudeAdapter()
