"""Kimi (Moonshot AI): Kimi CLI (Python, `~/.kimi`) and its successor Kimi Code (TypeScript,
`~/.kimi-code`), logs of JSON lines.

Learned from the source of kimi-cli 1.52 (`wire/types.py`, `session_fork.py`) and kimi-code 2.1
(`migration-legacy`), from what 1.40 wrote, and from samples of both (protocols 1.1 to 1.10, and 1.4
and 1.5 of Kimi Code). Last checked 2026-11. The traps:

- A session of Kimi CLI is a folder with `wire.jsonl`, the output of the program, with times and
  tokens, and `context.jsonl`, the context of the model, without. The second is read only where the
  first is missing or empty. A compaction or a rewind renames the old context to
  `context_<n>.jsonl`, which is not read: the log has it.
- No record has an id. It is named by its content: a fork, and `/undo` of Kimi CLI, copies the log
  into a new session, and the same line is the same record. Only Kimi Code names the session that it
  was copied from.
- The folder of a session of Kimi CLI is the one in `kimi.json` whose MD5 is in the session's path.
- Where a message comes between two parts of a call's arguments, the call has only the first. The
  rest follows before the step ends, without an id: the call is read with all parts of the same
  speaker. Several subagents may speak in turn.
- A subagent has a log of its own; its session's log repeats it as `SubagentEvent`, which is read
  only where the log is missing, and not before it could have come. Before, it had a context of its
  own (`context_sub_<n>.jsonl`), which is read where its session has no log.
- `StatusUpdate` and `step.end` have the usage of a request, and the counts do not overlap.
  `usage.record` repeats it, and is counted where no step had it.
- Kimi Code writes a prompt twice, when it is typed and when it is put into the context.
- It imports the sessions of Kimi CLI as `ses_<id>`, with a copy of the model's context in which
  every record has the time of the log's beginning. If the original still exists, only the later
  records are read, as its continuation.
- Kimi CLI does not write the model. Neither writes a git branch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b, md5
from pathlib import Path
from time import time

import msgspec

from ...errors import ReadError
from ...model import Session
from .. import Position, Record, Source, usual_roots
from ..shared.jsonl import JsonlAdapter, aged, is_stale, read_small, to_json
from .arguments import whole_calls
from .paths import CONTEXT, SUBAGENT, WIRE, owner_of

STATE = "state.json"
HOME = "sessions"
EMPTY = 100  # Bytes of a log with nothing but its first line.
MAX_SIDECAR_BYTES = 1 << 20  # Bytes of a file about a session.
CLI = ("$KIMI_SHARE_DIR/sessions", "~/.kimi/sessions")
CODE = ("$KIMI_CODE_HOME/sessions", "~/.kimi-code/sessions")
OTHERS = frozenset({"session_index.jsonl"})
MAX_AGENTS = 10_000  # Subagents of a session.
STALE_S = 600  # A log that has not changed for so long is not being written any more.
BEGINS_S = 60  # A subagent that has no log after so long gets none.
_OLD_CONTEXT = re.compile(r"context_\d+\.jsonl\Z")


class KimiAdapter(JsonlAdapter):
    name = "kimi"
    label = "Kimi"
    aliases = ("kimi-cli", "kimi-code")
    version = 7
    reader = "runlore.adapters.kimi.reader"
    roots = (*CLI, *CODE)
    lacks = ("model (Kimi CLI)", "git branch")
    instructions = ("AGENTS.md",)

    def find_roots(self, env: Mapping[str, str]) -> list[Path]:
        """Return the folders of both programs. A variable that moves the sessions of one does not
        move those of the other."""
        return [*usual_roots(CLI, env), *usual_roots(CODE, env)]

    def discover(self, root: Path) -> Iterator[Source]:
        sources = {source.path: source for source in super().discover(root)}
        for path, source in sources.items():
            if self._is_session(
                path, sources, is_own=HOME in (root.name, *Path(path).relative_to(root).parts)
            ):
                yield aged(source, STALE_S)

    def refresh(self, source: Source) -> Source | None:
        current = super().refresh(source)
        return current and aged(current, STALE_S)

    def _is_session(self, path: str, sources: Mapping[str, Source], is_own: bool) -> bool:
        """Return True if a file is one of a session. In a folder of samples that somebody
        collected, any may be one."""
        folder, name = os.path.split(path)
        if name == CONTEXT or SUBAGENT.match(name):
            # A log that has just begun will have all that the context has.
            log = sources.get(os.path.join(folder, WIRE))
            return log is None or (log.size <= EMPTY and is_stale(sources[path], STALE_S))
        if name in OTHERS or _OLD_CONTEXT.match(name) or os.path.basename(folder) == "user-history":
            return False
        if name == WIRE:
            context = sources.get(os.path.join(folder, CONTEXT))
            return sources[path].size > EMPTY or context is None or not context.size
        return not is_own or os.path.basename(os.path.dirname(folder)) == HOME

    def follows(self, source: Source, since: Position) -> bool:
        try:
            now = super().position(source, since.offset, since.records)
        except ReadError:
            return False
        # Positions of before 2026-11-17 do not contain the session.
        if since.head not in (_own(source, now.head), now.head):
            return False
        return super().follows(source, msgspec.structs.replace(since, head=now.head))

    def position(self, source: Source, offset: int, records: int) -> Position:
        """Return a position that contains the session: all logs have the same name and begin alike,
        and a new one must not pass for one that was moved."""
        position = super().position(source, offset, records)
        return msgspec.structs.replace(position, head=_own(source, position.head))

    def read(self, source: Source, since: Position | None) -> Iterator[Record]:
        # Listed before the records are read, so that an agent that comes later counts as missing.
        agents = frozenset(_agents(folder_of(source.path)))
        if since is not None:  # The sidecars change with the session.
            yield from self.sidecars(source)
        yield from whole_calls(
            _until_early(super().read(source, since), agents), is_stale(source, STALE_S)
        )

    def sidecars(self, source: Source) -> Iterable[Record]:
        """Yield the session's own files, the folder of its project, and the subagents that have a
        log: the session's copies of their records are left out. The list is made at each read,
        because a subagent may have begun after `discover`."""
        if os.path.basename(source.path) not in (WIRE, CONTEXT):
            return
        folder = folder_of(source.path)
        if data := read_small(os.path.join(folder, STATE), MAX_SIDECAR_BYTES):
            yield Record(data, -1, "state")
            if _is_original_there(data):
                yield Record(b"", -1, "original")
        if data := read_small(
            os.path.join(os.path.dirname(source.path), "meta.json"), MAX_SIDECAR_BYTES
        ):
            yield Record(data, -1, "meta")
        if cwd := _project(os.path.dirname(folder)):
            yield Record(cwd.encode("utf-8", "replace"), -1, "cwd")
        if owner_of(source.path)[1] is None and (agents := _agents(folder)):
            yield Record(to_json(agents), -1, "agents")

    def slim(self, line: bytes) -> bytes:
        if b";base64," not in line:
            return line
        from .words import without_pictures

        return without_pictures(line)

    def resume(self, session: Session) -> list[str] | None:
        """Return the command, to be run in the session's folder; a subagent cannot be resumed."""
        return (
            None
            if session.relation == "subagent"
            else ["kimi", "--session", session.native_session_id]
        )


adapter = KimiAdapter()


def _own(source: Source, head: bytes) -> bytes:
    return blake2b(
        repr(owner_of(source.path)).encode("utf-8", "replace") + head, digest_size=16
    ).digest()


def _until_early(records: Iterable[Record], agents: frozenset[str]) -> Iterator[Record]:
    """Yield the records up to one that repeats a subagent's record whose log may still come: read
    from both, it would be counted twice."""
    for record in records:
        if (
            record.sidecar is None
            and b'"SubagentEvent"' in record.data[:200]
            and _is_early(record.data, agents)
        ):
            return
        yield record


def _is_early(line: bytes, agents: frozenset[str]) -> bool:
    try:
        value = msgspec.json.decode(line)
        agent, seconds = value["message"]["payload"]["agent_id"], value["timestamp"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return False
    if (
        not isinstance(agent, str)
        or not agent
        or isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
    ):
        return False
    now = time()  # Compared, and not subtracted: the number may be too large for a float.
    return agent not in agents and now - BEGINS_S < seconds < now + BEGINS_S


def folder_of(path: str) -> str:
    """Return the folder of the session that a file belongs to."""
    folder = os.path.dirname(path)
    above = os.path.dirname(folder)
    return os.path.dirname(above) if os.path.basename(above) in ("agents", "subagents") else folder


def _agents(folder: str) -> list[str]:
    """Return the subagents of a session that have a log."""
    agents: list[str] = []
    for below in (os.path.join(folder, name) for name in ("agents", "subagents")):
        try:
            names = sorted(os.listdir(below))[:MAX_AGENTS]
        except OSError:
            continue
        agents += [
            name
            for name in names
            if any(os.path.exists(os.path.join(below, name, file)) for file in (WIRE, CONTEXT))
        ]
    return agents


def _is_original_there(state: bytes) -> bool:
    """Return True if a session was imported from the other program, and the original still
    exists."""
    try:
        place = msgspec.json.decode(state)["custom"]["kimi_cli_source_path"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return False
    return (
        isinstance(place, str)
        and os.path.isabs(place)
        and "\0" not in place
        and os.path.exists(place)
    )


def _project(folder: str) -> str | None:
    """Return the path of the project whose sessions lie in this folder, which is named by its
    hash."""
    try:
        value = msgspec.json.decode(
            read_small(
                os.path.join(os.path.dirname(os.path.dirname(folder)), "kimi.json"),
                MAX_SIDECAR_BYTES,
            )
            or b"{}"
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    listed = value.get("work_dirs") if isinstance(value, dict) else None
    own = os.path.basename(folder).rpartition("_")[2]
    for item in listed if isinstance(listed, list) else []:
        path = item.get("path") if isinstance(item, dict) else None
        if (
            isinstance(path, str)
            and md5(path.encode("utf-8", "replace"), usedforsecurity=False).hexdigest() == own
        ):
            return path
    return None
