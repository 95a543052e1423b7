"""Gemini CLI: a file for each session, first a JSON document that was written again and again,
since 0.39 a log of JSON lines.

Learned from the source of google-gemini/gemini-cli (2026-08: `chatRecordingService.ts`), its
documentation, and transcripts of versions from 2025-08 to 2026-04. Last checked 2026-11. The traps:

- A line with the `id` of an earlier one is the same message, now with its calls, their results or
  its tokens. Only its new parts become events. Each part of a message has a number of its own, so
  its native id does not depend on when it was read.
- A document is rewritten as a whole, and is read as the lines that later versions would have
  written. When a session is resumed its document is copied to a log of the same name, and only the
  log is read.
- `$set.messages` puts another list in place of all messages, after a compaction or when outputs
  were masked. `$rewindTo` takes a message back and all that came after it: what follows hangs where
  that message hung.
- The folder is not in the file: it stands in `.project_root` beside the chats, or in
  `projects.json`, or its SHA-256 is the name of the project. A subagent's session lies in a folder
  with the name of the session above.
- Until 2026-03 a subagent's file lies beside that of the session, with the same `sessionId`, and
  until 2026-02 without a `kind`. So does the file of a session that a person continued after
  `/clear`. The two are told apart by `logs.json`, which has prompts of people and none of
  subagents.
- Run as a server, the program calls every session `a2a-server`: a file is a session.
- A command that failed is a success; its exit code stands in its output, in newer versions only
  when it is not 0.
- Tokens are those of one call of the model. `input` includes `cached`; `thoughts` and `tool` stand
  beside `output` and `input`. They come later than the message, and are an event of their own.
- `logs.json` has what was typed, of all sessions of a project: it is all there is of the time
  before 2025-08, and is read for that time alone. What `/chat save` wrote (`checkpoint-*.json`) is
  a copy without names or times, and is not read.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec

from ...errors import ReadError, Rejected
from ...model import Session
from .. import Position, Record, Source
from ..shared.document import DocumentAdapter
from ..shared.jsonl import (
    MAX_RECORD_BYTES,
    MAX_VALUES,
    JsonlAdapter,
    has_too_many_values,
    note_refusal,
    parse,
    read_small,
    read_up_to,
    reason_of,
    to_json,
    walk_files,
)

CHATS, LOGS = "chats", "logs.json"
OTHERS = frozenset(
    {
        "settings.json",
        "projects.json",
        "trustedFolders.json",
        "oauth_creds.json",
        "google_accounts.json",
        "state.json",
    }
)
"""What the agent keeps beside its sessions. Some of it is secret, and none of it is opened as a
session."""
MAX_SIDECAR_BYTES = 1 << 20  # Bytes of a file that says where a project is.
SERVER = "a2a-server"
"""The id of every session that the program runs as a server for other programs."""
MAX_PLACES = 10_000


class GeminiCliAdapter(DocumentAdapter):
    name = "gemini_cli"
    label = "Gemini CLI"
    aliases: tuple[str, ...] = ("gemini",)
    version = 5
    reader = "runlore.adapters.gemini_cli.reader"
    blob_mark = b'"data"'
    roots: tuple[str, ...] = ("$GEMINI_CLI_HOME/.gemini/tmp", "~/.gemini/tmp")
    keeps_days: int | None = 30  # The default of its setting general.sessionRetention.
    instructions: tuple[str, ...] = ("GEMINI.md",)  # The default of its setting context.fileName.

    def discover(self, root: Path) -> Iterator[Source]:
        """The sessions of a home of the agent, or below any other folder."""
        self.refused = refused = list[ReadError]()
        found = {
            entry.path: entry
            for place, is_own in self.places(root)
            for entry in walk_files(str(place), "", refused)
            if self.is_session(entry.path, str(place), is_own)
        }
        for path, entry in found.items():
            if path.endswith(".json") and path + "l" in found:
                continue
            try:
                stat = entry.stat()
            except OSError as error:
                note_refusal(path, error, refused)
                continue
            yield Source(
                agent=self.name, path=path, root=str(root), size=stat.st_size,
                mtime_ns=stat.st_mtime_ns, inode=stat.st_ino,
                hints=self.hints(path),
            )  # fmt: skip

    def places(self, root: Path) -> list[tuple[Path, bool]]:
        """Return the folders to look in below a root, each with whether the agent itself keeps its
        sessions there."""
        place = root / "tmp" if root.name == ".gemini" else root
        return [(place, place.name == "tmp" and place.parent.name == ".gemini")]

    def is_session(self, path: str, place: str, is_own: bool) -> bool:
        """Return True if a file holds a session. A project has them in `chats`, and what was typed
        in a file beside that; in a folder of transcripts that somebody collected, every file may be
        one."""
        folder, name = os.path.split(path)
        parts = os.path.relpath(folder, place).split(os.sep)
        if (
            name in OTHERS
            or name.startswith("checkpoint-")
            or not name.endswith((".json", ".jsonl"))
        ):
            return False
        if CHATS in parts or (name == LOGS and (len(parts) == 1 or not is_own)):
            return True
        return not is_own and not any(
            os.path.isdir(os.path.join(above, CHATS)) for above in (folder, os.path.dirname(folder))
        )

    def hints(self, path: str) -> tuple[str, ...]:
        """The session above that of a subagent; for what was typed, the beginnings of the ids of
        the sessions that have files."""
        folder, name = os.path.split(path)
        above, below = os.path.split(folder)
        if name == LOGS:
            try:
                stems = {
                    os.path.splitext(file)[0].rpartition("-")[2]
                    for file in os.listdir(os.path.join(folder, CHATS))
                }
            except OSError:
                return ()
            return tuple(f"known:{stem}" for stem in sorted(stems) if stem.isalnum())
        return (
            (f"parent:{below}",) if os.path.basename(above) == CHATS and below.isprintable() else ()
        )

    def is_appended(self, path: str) -> bool:
        return path.endswith(".jsonl")

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        if self.is_appended(source.path):
            yield from JsonlAdapter.read(self, source, since)
            return
        if since is None:
            yield from self.sidecars(source)
        try:
            with open(source.path, "rb") as file:
                lines = _lines_of(source.path, file)
        except OSError as error:
            raise ReadError(source.path, reason_of(error)) from error
        for record in self._lines(source, lines, 0):
            if since is None or record.offset >= since.offset:
                yield record

    def sidecars(self, source: Source) -> Iterable[Record]:
        """Yield the folder of the project, and what a file is to the first one of its session."""
        folder = _project(source.path)
        if folder and (place := _place_of(folder)):
            yield Record(place.encode("utf-8", "replace"), -1, "cwd")
        if folder and not source.hints and not source.path.endswith(LOGS):
            from .names import find_relation

            if relation := find_relation(source.path, os.path.join(folder, LOGS)):
                yield Record(relation.encode(), -1, "relation")

    def resume(self, session: Session) -> list[str] | None:
        """To be run in the session's folder; a subagent or a session of the server cannot be taken
        up."""
        name = session.native_session_id.partition("/")[0]
        is_own = session.relation != "subagent" and not name.startswith(SERVER)
        return ["gemini", "--resume", name] if is_own else None


adapter = GeminiCliAdapter()


def _project(path: str) -> str | None:
    """The folder of the project that a session's file lies in: the one above `chats`."""
    folder, name = os.path.split(path)
    if name == LOGS:
        return folder
    for _ in range(2):
        folder, name = os.path.split(folder)
        if name == CHATS:
            return folder
    return None


def _place_of(folder: str) -> str | None:
    """The path of a project: as it is noted beside its chats, or as a place whose name or hash the
    folder has."""
    own = os.path.basename(folder)
    if noted := read_small(os.path.join(folder, ".project_root"), MAX_SIDECAR_BYTES):
        return noted.decode("utf-8", "replace").strip() or None
    home = os.path.dirname(os.path.dirname(folder))
    places: dict[str, str] = {}
    for name in ("projects.json", "trustedFolders.json"):
        try:
            value = msgspec.json.decode(
                read_small(os.path.join(home, name), MAX_SIDECAR_BYTES) or b"{}"
            )
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        inner = value.get("projects", value) if isinstance(value, dict) else {}
        places |= (
            {path: slug for path, slug in inner.items() if isinstance(slug, str)}
            if isinstance(inner, dict)
            else {}
        )
    for path, slug in list(places.items())[:MAX_PLACES]:
        if slug == own or sha256(path.encode("utf-8", "replace")).hexdigest() == own:
            return path
    return None


def _lines_of(path: str, file: BinaryIO) -> BinaryIO:
    """A document as the lines of a log: its header, then its messages. Raises ReadError when it is
    none."""
    data = read_up_to(MAX_RECORD_BYTES + 1, file)
    if len(data) > MAX_RECORD_BYTES:
        raise ReadError(path, f"larger than {MAX_RECORD_BYTES >> 20} MB")
    if has_too_many_values(data):
        raise Rejected(path, f"more than {MAX_VALUES:,} values are no session")
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        values = parse(data)
        value = values[0][0] if len(values) == 1 and values[0][2] in (None, "not UTF-8") else None
        if value is None:
            raise ReadError(
                path, "no whole JSON document; it is read again when it has changed"
            ) from None
    if isinstance(value, list) and os.path.basename(path) == LOGS:
        return io.BytesIO(b"".join([to_json(item) + b"\n" for item in value]))
    header = dict(value) if isinstance(value, dict) else {}
    messages = header.pop("messages", header.pop("history", None))
    if not isinstance(messages, list):
        raise ReadError(path, "not a session: it has no list of messages")
    return io.BytesIO(b"".join([to_json(item) + b"\n" for item in [header, *messages]]))
