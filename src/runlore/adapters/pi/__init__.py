"""pi (badlogic, earendil-works): one file of JSON lines for each session, whose entries form a
tree.

Learned from its documentation (`session-format.md` and `message-types.md` of 0.73 and 1.5), from
what 0.73.1 wrote, and from real sessions of 2025. Last checked 2026-11. The traps:

- Every entry names the one that it follows; the branch that is active is the one of the last line.
  Going back to an earlier prompt leaves two prompts with one parent. `/tree` writes a
  `branch_summary` of the branch that was left.
- Ids of entries are unique within one file only. A fork begins with a copy of the entries of its
  parent, with their ids and times: these are copies of the entries with the same id in the parent.
- The first layout (2025) has no ids, and a compaction counts lines. It is rewritten, with new ids,
  when a newer version opens it: the events that were read before stay, marked as gone.
- `input` does not include the cache, and `reasoning` is a part of `output`. A summary, a warming of
  the cache and a tool may have used tokens of their own. The cost is an estimate by list prices, so
  it is stored as recorded, and not as the invoiced amount.
- A failed attempt is a message without content; the next attempt is the next message. There is no
  record of a retry.
- A command that failed is an error, and ends with its exit code in words.
- The extension `pi-subagents` keeps each run twice: as a session of its own, somewhere below a
  folder with the name of its parent's file, and as a transcript in `subagent-artifacts`, in lines
  of another form that do not say which session that is. The first is read, the second counted and
  left out: both would count every call twice. (Learned from notes of its users; no real one was at
  hand.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ...model import Session
from .. import Source
from ..shared.jsonl import JsonlAdapter


class PiAdapter(JsonlAdapter):
    name = "pi"
    label = "pi"
    aliases: tuple[str, ...] = ("pi-coding-agent",)
    version = 5
    reader = "runlore.adapters.pi.reader"
    blob_mark = b'"data"'
    roots: tuple[str, ...] = (
        "$PI_CODING_AGENT_SESSION_DIR",
        "$PI_CODING_AGENT_DIR/sessions",
        "~/.pi/agent/sessions",
    )
    lacks: tuple[str, ...] = ("git branch",)
    instructions = ("AGENTS.md",)  # CLAUDE.md only where there is none.
    command = ("pi", "--session")

    def discover(self, root: Path) -> Iterator[Source]:
        """Yield the sources; those of subagents with the session that they belong to. They lie
        below a folder with the name of that session's file, at any depth."""
        sources = list(super().discover(root))
        stems = {source.path.removesuffix(self.suffix) for source in sources}
        for source in sources:
            below_root = (
                place
                for place in map(str, Path(source.path).parents)
                if len(place) > len(str(root))
            )
            above = [place for place in below_root if place in stems or _names_session(place)]
            yield (
                msgspec.structs.replace(source, hints=(f"below:{os.path.basename(above[-1])}",))
                if above
                else source
            )

    def resume(self, session: Session) -> list[str] | None:
        """Return the command that continues a session; a subagent cannot be resumed."""
        return (
            None
            if session.relation == "subagent" or not session.source_path
            else [*self.command, session.source_path]
        )


def _names_session(folder: str) -> bool:
    """Return True if a folder is named like a session's file, which need not exist."""
    time, _, session = os.path.basename(folder).rpartition("_")
    return len(session) == 36 and time[:4].isdecimal() and "T" in time


adapter = PiAdapter()
