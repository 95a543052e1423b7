"""Claude Code: one file of JSON lines for each session, more beside it for its subagents.

Learned from transcripts of versions 1.0.24 to 2.1.220 and from the session reader in Anthropic's
Agent SDK for Python; Claude Code itself is closed source. Last checked 2026-08. The traps:

- An API message is written as several lines, one block each, that repeat a growing `usage`. Each
  event gets what its line adds to the highest usage before it. So the sum over the events is the
  highest usage, wherever the file is cut.
- `usage.iterations` lists the attempts behind a message. Three kinds of requests are recorded only
  there: questions to an adviser, requests that one model refused before another answered, and
  compactions on the server. Each counts as an API call of its own.
- Lines of progress, hooks and settings are part of the chain of `parentUuid` even when they give no
  event. They become aliases of the event before them.
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
- A fork has a file of its own that begins with copies. `/branch` and the SDK say so (`forkedFrom`).
  `--fork-session` and the background keep the uuids and say nothing, and Claude Desktop writes
  other uuids; the store then finds the original. Records without a uuid are never copied.
- A member of a team has `teamName` and `agentName` on its records; its lead has the first alone, if
  any. It runs in its lead's process, as a subagent, or in its own, with a file like any session's.
  A team without a name is called `session-` and the first eight digits of its lead's id.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from ...model import Session
from .. import Integration, Record, Source
from ..shared.jsonl import JsonlAdapter, list_entries, read_small
from .integration import INTEGRATION
from .paths import OVERFLOWS, SourcePath
from .teams import TEAM_MARK, lead_in, lead_of, team_of

OVERFLOW_BYTES = 8 << 20
OVERFLOW_MARK = b"<persisted-output>"


class ClaudeAdapter(JsonlAdapter):
    name = "claude"
    label = "Claude Code"
    aliases: tuple[str, ...] = ("claude-cli",)
    version = 7
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
    markers = (OVERFLOW_MARK, TEAM_MARK)
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
        """Yield the whole outputs of which the line holds a preview, and the note about the team of
        a member. Only a name is taken from the line, never a path."""
        if TEAM_MARK in line and (team := team_of(line)):
            yield from self._team(source, team)
        if OVERFLOW_MARK not in line:
            return
        from . import words

        folder = SourcePath(source.path).folder or source.path.removesuffix(self.suffix)
        for name in islice(
            dict.fromkeys(words.overflows(line.decode("utf-8", "replace"), is_json=True)), OVERFLOWS
        ):
            data = read_small(os.path.join(folder, "tool-results", name), OVERFLOW_BYTES)
            if data is not None:
                yield Record(data, -1, f"overflow:{name}")

    def _team(self, source: Source, team: str) -> Iterator[Record]:
        """Yield which session leads a team: by the program's note about the team, which goes with
        it, or else by the name of the team, which the lead's id begins."""
        note = os.path.join(os.path.dirname(source.root), "teams", team, "config.json")
        lead = lead_of(read_small(note, 1 << 20) or b"")
        if lead is None:
            names = [entry.name for entry in list_entries(os.path.dirname(source.path), [])]
            lead = lead_in(names, team, self.suffix)
        if lead is not None:
            yield Record(msgspec.json.encode({"leadSessionId": lead}), -1, "team")

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
