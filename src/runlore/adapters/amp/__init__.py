"""Amp (Sourcegraph): a JSON document for each thread, `T-<uuid>.json`, written again with every
change.

Learned from the program itself (the bundle of its release of 2026-01), from a description and real
threads of 2025. Newer releases keep threads on a server, and leave none here. Last checked 2026-11.
The traps:

- Messages have numbers that a thread does not give twice; an edit of an earlier message takes away
  all that came after it.
- A message that is being written, or waits for a call or for a person, is not given until it is
  finished, or the thread is an hour old.
- Results are blocks of the next message, which is then no prompt. They name their call `toolUseID`;
  the result is in `run`.
- What a request took is in `usage` of a message, where `inputTokens` does not include the cache,
  and in older threads only in `usageLedger`, without the cache. The ledger has more than the
  messages: titles, searches, corrections.
- Only people's messages have a time, others where their usage or the ledger tells it.
- A fork begins with copies of its origin's messages, with their numbers, and then counts from 0. A
  handoff begins anew.
- `~debug` holds whole prompts and is not read, nor is any other file: `secrets.json` lies near.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ...errors import ReadError
from ...model import Session
from .. import Record, Source
from ..cline import EDITORS
from ..shared.document import GrowingAdapter, load_document
from ..shared.jsonl import aged, is_stale, to_json

STALE_S = 3600  # A thread that has not changed for so long is not being written any more.
THREADS = ("threads", "threads3")
OTHERS = frozenset({"secrets.json", "session.json", "settings.json", "device-id.json"})
"""What the agent keeps beside its threads. Some of it is secret."""


class AmpAdapter(GrowingAdapter):
    name = "amp"
    label = "Amp"
    aliases = ("ampcode", "sourcegraph-amp")
    version = 3
    blob_mark = b'"data"'
    reader = "runlore.adapters.amp.reader"
    roots: tuple[str, ...] = (
        *(f"{editor}/globalStorage/sourcegraph.amp/threads3" for editor in EDITORS),
        "$AMP_DATA_DIR/threads", "$XDG_DATA_HOME/amp/threads", "~/.local/share/amp/threads",
    )  # fmt: skip
    suffix = ".json"
    lacks = ("times of replies before 2026",)
    instructions = ("AGENTS.md",)

    def discover(self, root: Path) -> Iterator[Source]:
        is_own = root.name in THREADS
        for source in super().discover(root):
            if _is_thread(source.path, is_own):
                yield aged(source, STALE_S)

    def refresh(self, source: Source) -> Source | None:
        found = super().refresh(source)
        return found and aged(found, STALE_S)

    def whole(self, source: Source) -> tuple[list[Record], list[bytes]]:
        from .reader import finished, sidecar_values

        thread = load_document(source.path)
        messages = thread.get("messages") if isinstance(thread, dict) else None
        if not isinstance(messages, list):
            raise ReadError(source.path, "not a thread: it has no list of messages")
        records = finished(thread, messages, is_stale(source, STALE_S))
        return [
            Record(to_json(value), -1, name) for name, value in sidecar_values(thread, messages)
        ], [to_json(item) for item in records]

    def resume(self, session: Session) -> list[str] | None:
        """A subagent is not taken up."""
        return (
            None
            if session.relation == "subagent"
            else ["amp", "threads", "continue", session.native_session_id]
        )


adapter = AmpAdapter()


def _is_thread(path: str, is_own: bool) -> bool:
    """Return True if a file holds a thread, by its name; in a folder of samples that somebody
    collected, any file may."""
    name = os.path.basename(path)
    return name.startswith("T-") or (not is_own and name not in OTHERS)
