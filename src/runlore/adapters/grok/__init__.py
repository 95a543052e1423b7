"""Grok Build, xAI's `grok`: a folder for each session, with a log of updates that is only added to.

Learned from the source of xai-org/grok-build (2026-08), its documentation, and the few transcripts
that are public (the largest real one has 10 lines). Last checked 2026-11. The traps:

- `updates.jsonl` is the transcript. `chat_history.jsonl` is the model's context, has no times and
  is rewritten after a compaction or a rewind: it is read only where there are no updates, and does
  not count any more when they come. `events.jsonl` is telemetry; permissions are only there.
- The title, the folder, the branch and the model are in `summary.json`, which is rewritten often: a
  source has the time of the newer of the two, and the summary is a sidecar of every read.
- A subagent is a session of its own, anywhere below the same root. Its parent has a folder
  `subagents/<session of the child>`.
- A fork copies the lines of its parent and changes their session, but not their `eventId`, which
  identifies the copies. The time is a part of the id, because a counter may begin again.
- A prompt of several blocks is several lines. The first text is the prompt, the others are its
  context; on disk, answers are whole. Once a prompt had a number, a prompt without one was not
  typed: it is steering, or the program's when it is tagged.
- A call is written at once, its result is the update that is `completed` or `failed`; other updates
  repeat the call, and count as a call only when the first had no input. A rewind names a turn by
  number: the next prompt gets the same parent as that turn.
- A turn's `usage` is its own; input includes the cached tokens. `costUsdTicks` is the invoice,
  10,000,000,000 for a dollar: the event has it as `cost_usd_ticks`, with `cost_is_partial` where
  the agent says that it is. A turn of several models is several events, one for each, so that the
  sum over events is the turn's. In the ledger a turn is one call for each model. Long requests cost
  more, and are not marked, so the invoice takes precedence over any price list.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ...errors import ReadError
from ...model import Session
from .. import Position, Record, Source
from ..shared.jsonl import JsonlAdapter, note_refusal, read_small
from ..shared.pick import pick

UPDATES, HISTORY, TELEMETRY = "updates.jsonl", "chat_history.jsonl", "events.jsonl"
MAX_SIDECAR_BYTES = 1 << 20
MAX_OUTPUT_BYTES = 8 << 20  # Bytes of a command's whole output.
FIRST_LINE_BYTES = 4 << 10  # Bytes of a first line, which is about a hook or is a prompt.
MAX_DEPTH = 8  # Folders between a root and a session; the agent itself makes two.


class GrokAdapter(JsonlAdapter):
    name = "grok"
    label = "Grok Build"
    version = 7
    reader = "runlore.adapters.grok.reader"
    roots = ("$GROK_HOME/sessions", "~/.grok/sessions")
    keeps_days = 30  # The default of its setting cleanup_ttl_days.
    markers = (b'_file"',)  # checkpoint_file, output_file

    def discover(self, root: Path) -> Iterator[Source]:
        """Yield the files of every session, with the session that started it as a hint where there
        is one."""
        self.refused = refused = list[ReadError]()
        folders = list(_sessions(str(root), refused))
        parents = {
            child: os.path.basename(folder) for folder, _, children in folders for child in children
        }
        for folder, files, _ in folders:
            parent = parents.get(os.path.basename(folder))
            hints = (f"parent:{parent}",) if parent else ()
            main = _source(
                self.name,
                str(root),
                os.path.join(folder, UPDATES if UPDATES in files else HISTORY),
                hints,
            )
            if main is None:
                continue
            about = _stat(os.path.join(folder, "summary.json"))
            newest = max(main.mtime_ns, about.st_mtime_ns if about else 0)
            yield msgspec.structs.replace(main, mtime_ns=newest)
            # Telemetry must be read after its session, on the first sync as well, so it is no
            # source before the session has a line.
            if (
                TELEMETRY in files
                and _has_line(main)
                and (more := _source(self.name, str(root), os.path.join(folder, TELEMETRY), hints))
            ):
                yield msgspec.structs.replace(more, mtime_ns=max(newest, more.mtime_ns) + 1)

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        """Yield the sidecars before the new lines, every time: they may have changed, whether or
        not lines were added."""
        if since is not None:
            yield from self.sidecars(source)
        yield from super().read(source, since)

    def sidecars(self, source: Source) -> Iterable[Record]:
        folder = os.path.dirname(source.path)
        for name, file in (
            ("signals", "signals.json"),
            ("summary", "summary.json"),
            ("cwd", os.path.join("..", ".cwd")),
        ):
            if data := read_small(os.path.join(folder, file), MAX_SIDECAR_BYTES):
                yield Record(data, -1, name)
        for hint in source.hints:
            yield Record(b'{"session":"%s"}' % hint.removeprefix("parent:").encode(), -1, "parent")

    def sidecars_of_line(self, source: Source, line: bytes) -> Iterable[Record]:
        """Yield the whole output of a command, and the checkpoint of a compaction. Only names are
        read from the line, never a path."""
        if not any(
            word in line for word in (b"checkpoint_file", b'"truncated":true', b'"truncated": true')
        ):
            return
        from .lines import file_name, update_in

        update = update_in(line)
        folder = os.path.dirname(source.path)
        if pick(update, "sessionUpdate", of=str) == "compaction_checkpoint":
            name = file_name(pick(update, "checkpoint_file", of=str))
            data = (
                read_small(os.path.join(folder, "compaction_checkpoints", name), MAX_OUTPUT_BYTES)
                if name
                else None
            )
            yield from [Record(data, -1, "checkpoint")] if data else []
        elif pick(update, "rawOutput", "truncated", of=bool):
            name = file_name(pick(update, "rawOutput", "output_file", of=str))
            data = (
                read_small(os.path.join(folder, "terminal", name), MAX_OUTPUT_BYTES)
                if name
                else None
            )
            yield from [Record(data, -1, "log")] if data else []

    def slim(self, line: bytes) -> bytes:
        from .lines import slim

        return slim(line)

    def resume(self, session: Session) -> list[str] | None:
        return ["grok", "--resume", session.native_session_id]


adapter = GrokAdapter()


def _sessions(
    root: str, refused: list[ReadError]
) -> Iterator[tuple[str, frozenset[str], list[str]]]:
    """Yield every folder that has a file of a session: its path, its files, and the sessions of its
    subagents."""
    pending = [(root, 0)]
    while pending:
        folder, depth = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name, reverse=True)
            files = frozenset(
                entry.name for entry in entries if entry.name.endswith(".jsonl") and entry.is_file()
            )
            folders = [
                entry.path
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and entry.path.isprintable()
            ]
        except OSError as error:
            note_refusal(folder, error, refused)
            continue
        if files & {UPDATES, HISTORY}:
            yield folder, files, _names(os.path.join(folder, "subagents"))
            # A session's own folders hold no sessions; one that was moved there by hand still has
            # files of its own.
            folders = [
                path
                for path in folders
                if os.path.basename(path) not in ("terminal", "images", "subagents")
            ]
        if depth < MAX_DEPTH:
            pending += [(path, depth + 1) for path in folders]


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if name.isprintable()]
    except OSError:
        return []


def _source(agent: str, root: str, path: str, hints: tuple[str, ...]) -> Source | None:
    stat = _stat(path)
    if stat is None:
        return None
    return Source(
        agent=agent,
        path=path,
        root=root,
        size=stat.st_size,
        mtime_ns=stat.st_mtime_ns,
        inode=stat.st_ino,
        hints=hints,
    )


def _has_line(source: Source) -> bool:
    """Return True if the first line is complete. A file that is longer than any first line is not
    opened for this."""
    if source.size >= FIRST_LINE_BYTES:
        return True
    try:
        with open(source.path, "rb") as file:
            return bool(file.readline().endswith(b"\n"))
    except OSError:
        return False


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
