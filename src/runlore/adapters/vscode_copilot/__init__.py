"""VS Code's chat (GitHub Copilot): a document for each session, since 2026 a log of the changes to
one.

Learned from the source of microsoft/vscode (the states of requests and the ways to confirm a call),
from a description of the format, and from sessions of 2025-11 (a document) and 2026-06 (a log).
Last checked 2026-11. The traps:

- A log must be replayed from its first line: it sets values, adds to lists after cutting them, and
  is rewritten at times. Reading continues after the last position as long as the finished requests
  are the same. A session with both has its log read, and not the document.
- A request that is being answered is read when it is finished, or has not changed for an hour.
- A call is shown under one name, given arguments under another, and its result is in a third place:
  they are joined by the model's id, which is written with something added to it; in older documents
  only by their order. Only the last rounds of a request may be kept.
- Results are parts of text, or trees whose leaves are text. The failure of a command is in the
  state of its terminal, or at the end of its output.
- A change to a file (`textEditGroup`) holds the new text and its place, not the old text. It is not
  counted as a second edit where a call made the same change.
- Of the tokens of prompts only those of a request's last round are written. `completionTokens` are
  those of all rounds. The cost is written in credits of one cent, and is counted.
- Editing a prompt and sending it again removes it and all that follows: what was read before stays,
  marked.
- `workspace.json` beside the chats names the folder. There are no parents, no branches of git, and
  no sample of a subagent's part.
- The index of sessions in `state.vscdb` is in one file with secrets, and is not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any

from ...errors import ReadError
from .. import Record, Source
from ..shared.document import GrowingAdapter
from ..shared.jsonl import (
    QUIET_S,
    is_stale,
    list_entries,
    note_refusal,
    read_small,
    to_json,
    walk_files,
)
from ..shared.pick import number

STALE_S = 3600  # A request that has not changed for so long is not being answered any more.
MAX_SIDECAR_BYTES = 1 << 20  # Bytes of the file that names the folder of a workspace.
CHATS = "chatSessions"
LOOSE = ("emptyWindowChatSessions", "transferredChatSessions")
APPS = ("Code", "Code - Insiders", "VSCodium")
PLACES = ("~/.config/{}/User", "~/Library/Application Support/{}/User", "~/AppData/Roaming/{}/User")
HEAD = ("sessionId", "creationDate", "customTitle", "initialLocation", "version")


class VscodeCopilotAdapter(GrowingAdapter):
    name = "vscode_copilot"
    label = "VS Code Copilot Chat"
    aliases = ("copilot-chat", "vscode", "vs-code-copilot")
    version = 3
    reader = "runlore.adapters.vscode_copilot.reader"
    roots: tuple[str, ...] = (
        "$VSCODE_COPILOT_DIR",
        *(place.format(app) for place in PLACES for app in APPS),
    )
    lacks = (
        "tokens of all prompts of a request but the last",
        "times of most events",
        "git branch",
    )
    instructions = ("AGENTS.md",)  # Unless its setting chat.useAgentsMdFile says no.

    def discover(self, root: Path) -> Iterator[Source]:
        """Yield the chats of a user's folder; below any other folder, every file that may be
        one."""
        self.refused = refused = list[ReadError]()
        is_home = any((root / name).is_dir() for name in ("workspaceStorage", "globalStorage"))
        files = _chats(str(root), refused) if is_home else walk_files(str(root), "", refused)
        entries = {entry.path: entry for entry in files}
        for path, entry in entries.items():
            if (
                not path.endswith((".json", ".jsonl"))
                or path + "l" in entries
                or os.path.basename(path) == "workspace.json"
            ):
                continue
            try:
                yield self._source(path, str(root), entry.stat())
            except OSError as error:
                note_refusal(path, error, refused)

    def refresh(self, source: Source) -> Source | None:
        """Return the source as it is now; its time is not always that of its file."""
        try:
            return self._source(source.path, source.root, os.stat(source.path))
        except OSError:
            return None

    def _source(self, path: str, root: str, stat: os.stat_result) -> Source:
        """Return the source of a file. One that nobody writes to any more gets another time after
        an hour, so that it is read again with the request that was not finished."""
        changed = stat.st_mtime_ns + (stat.st_mtime < time() - STALE_S)
        return Source(
            agent=self.name,
            path=path,
            root=root,
            size=stat.st_size,
            mtime_ns=changed,
            inode=stat.st_ino,
        )

    def has_lines(self, path: str) -> bool:
        return path.endswith(".jsonl")

    def whole(self, source: Source) -> tuple[list[Record], list[bytes]]:
        from .log import load
        from .records import is_open, records

        document = load(source.path, is_stale(source, QUIET_S))
        requests = document.get("requests") or []
        if requests and is_open(requests[-1]) and not _is_stale(source.path, requests[-1]):
            requests = requests[:-1]
        lines = [to_json(record) for record in records(requests, document.get("strange") or [])]
        head = Record(
            to_json({name: document[name] for name in HEAD if name in document}), -1, "session"
        )
        return [head, *_workspace(source.path)], lines


adapter = VscodeCopilotAdapter()


def _chats(root: str, refused: list[ReadError]) -> Iterator[os.DirEntry[str]]:
    """Yield the files of chats in a user's folder, and no others: it holds much else, some of it
    secret."""
    workspaces = [
        entry.path
        for entry in reversed(list_entries(os.path.join(root, "workspaceStorage"), refused))
        if entry.is_dir()
    ]
    folders = [os.path.join(path, CHATS) for path in workspaces] + [
        os.path.join(root, "globalStorage", name) for name in LOOSE
    ]
    for folder in folders:
        if os.path.isdir(folder):
            yield from (
                entry for entry in reversed(list_entries(folder, refused)) if entry.is_file()
            )


def _workspace(path: str) -> list[Record]:
    """Return the file that names the folder of a chat, as a sidecar."""
    folder = os.path.dirname(path)
    above = os.path.dirname(folder) if os.path.basename(folder) == CHATS else folder
    data = read_small(os.path.join(above, "workspace.json"), MAX_SIDECAR_BYTES)
    return [Record(data, -1, "workspace")] if data else []


def _is_stale(path: str, request: dict[str, Any]) -> bool:
    newest = max(os.stat(path).st_mtime, (number(request.get("timestamp"), 1 << 50) or 0) / 1000)
    return newest < time() - STALE_S
