"""GitHub Copilot CLI: a log of JSON lines for each session; until October 2025 a JSON document.

Learned from the types of its events in `@github/copilot-sdk` 1.0.14, from the programs
`@github/copilot` 0.0.340 (the documents) and
0.0.420, and from logs of versions 0.0.420 to 1.0.77. Last checked 2026-11. The traps:

- A call is told by the message that asks for it, and again when it is carried out: it is told once.
  A command that failed is a success; how it ended stands at the end of its output.
- Only the output of a request is written with its message. All other tokens are in the totals that
  stand at the end of a run (`session.shutdown`), of which the messages' output is a part: what is
  left of them is counted there, as a sum. A run that was killed has no end, so its input is not
  known. `inputTokens` includes what the cache had and what was put there. Totals that go on over
  several runs are told from those that do not by the output of the messages.
- A rewind cuts the file, which is then read again: what is gone from it stays, marked. It leaves no
  record of its own.
- A subagent writes into the log of its session, with the call that started it (`parentToolCallId`)
  or a name of its own (`agentId`): it is a session of its own here.
- The title is in `workspace.yaml` beside the log, which is written again whenever it likes.
- A document (`history-session-state/session_<id>_<time>.json`) is rewritten as a whole; its
  `timeline` has the times, so that is read and not what was sent (`chatMessages`). A session that
  was taken over has all of it in its log (`session.import_legacy`), and the document is then left
  alone. Of the files of a session, a log beside its folder goes before the one in it, as the
  program has it.
- Settings, tokens, `session-store.db` (an index of the logs) and what lies in a session's folder
  besides are never opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ...errors import ReadError
from ...model import Session
from .. import Position, Record, Source
from ..shared.document import DocumentAdapter
from ..shared.jsonl import JsonlAdapter, list_entries, note_refusal, read_small, walk_files

LOGS, DOCUMENTS = "session-state", "history-session-state"
LOG, ABOUT = "events.jsonl", "workspace.yaml"
MAX_SIDECAR_BYTES = 1 << 20  # Bytes of the file about a session.
_DOCUMENT = re.compile(r"session_(.+)_\d+\.json\Z")


class CopilotCliAdapter(DocumentAdapter):
    name = "copilot_cli"
    label = "GitHub Copilot CLI"
    aliases = ("copilot", "github-copilot")
    version = 5
    reader = "runlore.adapters.copilot_cli.reader"
    blob_mark = b'"data"'
    lacks = ("tokens of the input of a run that was killed",)
    instructions = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
    roots: tuple[str, ...] = ("$COPILOT_HOME", "$XDG_STATE_HOME/.copilot", "~/.copilot")

    def discover(self, root: Path) -> Iterator[Source]:
        """The sessions of a home of the agent, or every log below any other folder."""
        self.refused = refused = list[ReadError]()
        home = root.parent if root.name in (LOGS, DOCUMENTS) else root
        is_home = any((home / name).is_dir() for name in (LOGS, DOCUMENTS))
        for path in _files(str(home), refused) if is_home else _anything(str(root), refused):
            try:
                yield self._source(path, str(root))
            except OSError as error:
                note_refusal(path, error, refused)

    def refresh(self, source: Source) -> Source | None:
        """The source as it is now: what is said about it may have changed, though its file has
        not."""
        try:
            return self._source(source.path, source.root)
        except OSError:
            return None

    def _source(self, path: str, root: str) -> Source:
        stat, newest = os.stat(path), 0
        if (about := _about(path)) is not None and os.path.exists(about):
            newest = os.stat(about).st_mtime_ns
        return Source(
            agent=self.name, path=path, root=root, size=stat.st_size,
            mtime_ns=max(stat.st_mtime_ns, newest), inode=stat.st_ino,
        )  # fmt: skip

    def is_appended(self, path: str) -> bool:
        return is_log(path)

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        if not is_log(source.path):
            yield from super().read(source, since)
            return
        # What is said about a session may be new, whether or not its log has grown.
        if since is not None:
            yield from self.sidecars(source)
        yield from JsonlAdapter.read(self, source, since)

    def sidecars(self, source: Source) -> Iterable[Record]:
        about = _about(source.path)
        data = read_small(about, MAX_SIDECAR_BYTES) if about is not None else None
        return [Record(data, -1, "about")] if data else ()

    def parts(self, source: Source, document: Any) -> list[Any]:
        timeline = document.get("timeline") if isinstance(document, dict) else None
        if not isinstance(timeline, list):
            raise ReadError(source.path, "not a session: it has no timeline")
        return [
            {
                word: document[word]
                for word in ("sessionId", "startTime", "selectedModel")
                if word in document
            },
            *timeline,
        ]

    def resume(self, session: Session) -> list[str] | None:
        """To be run in the session's folder; a subagent cannot be taken up alone: its session
        is."""
        return ["copilot", "--resume", session.native_session_id.partition("/")[0]]


adapter = CopilotCliAdapter()


def is_log(path: str) -> bool:
    return path.endswith(".jsonl")


def _about(path: str) -> str | None:
    """The file that may tell about the session of a log."""
    folder, name = os.path.split(path)
    if name == LOG:
        return os.path.join(folder, ABOUT)
    return os.path.join(path.removesuffix(".jsonl"), ABOUT) if is_log(path) else None


def _files(home: str, refused: list[ReadError]) -> Iterator[str]:
    """Of each session in a home the file that the agent itself would open."""
    known: set[str] = set()
    for entry in reversed(list_entries(os.path.join(home, LOGS), refused)):
        if is_log(entry.name) and entry.is_file():
            known.add(entry.name.removesuffix(".jsonl"))
            yield entry.path
        elif (
            entry.is_dir()
            and not os.path.exists(entry.path + ".jsonl")
            and os.path.isfile(os.path.join(entry.path, LOG))
        ):
            known.add(entry.name)
            yield os.path.join(entry.path, LOG)
    for entry in reversed(list_entries(os.path.join(home, DOCUMENTS), refused)):
        if (found := _DOCUMENT.match(entry.name)) and found[1] not in known and entry.is_file():
            yield entry.path


def _anything(root: str, refused: list[ReadError]) -> Iterator[str]:
    for entry in walk_files(root, "", refused):
        if is_log(entry.name) or _DOCUMENT.match(entry.name):
            yield entry.path
