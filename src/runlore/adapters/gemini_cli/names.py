"""The session of a file, where several files have the same id.

The program wrote the file of a subagent into the same folder, with the id of the session that it
worked for, and a new file after `/clear`. A person's prompts are in the project's log of what was
typed, and a subagent's task is not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from ...model import Relation
from ..shared.jsonl import MAX_RECORD_BYTES, has_too_many_values, read_small
from ..shared.pick import clean, pick, time_of
from . import SERVER, words

TASKS = (
    "Your task is to do a deep investigation of the codebase",
    "Your task is to answer the following question about Gemini CLI",
)
"""How the program begins the tasks of its own agents."""
CLEAR = "/clear"
NEAR_S = 2.0
"""Between a typed command and the prompt that it stands for. A model takes longer to answer."""
MAX_LOG_BYTES = 16 << 20
MAX_FIRST_BYTES = 1 << 20  # Of a log, in which the first prompt is looked for.

Typed = tuple[str, datetime | None]
"""What a person typed, and when."""


def name_session(
    header: dict[str, Any], file: str, relation: Relation | None
) -> tuple[str | None, str | None]:
    """Return the name of the session that a header begins, and that of the first session with its
    id if `relation` says that it is not the first. The name then contains the time of the file."""
    named = clean(pick(header, "sessionId", of=str) or "")
    when = os.path.splitext(file)[0].removeprefix("session-").removesuffix(f"-{named[:8]}")
    if named == SERVER:
        project = clean(pick(header, "projectHash", of=str) or "")[:8]
        return "-".join(filter(None, [named, when, project])), None
    if named and relation is not None:
        return f"{named}/{'agent-' if relation == 'subagent' else ''}{when}", named
    return named or None, None


def find_relation(path: str, log: str) -> Relation | None:
    """Return what a file that does not say its kind is to the first file of its session; None for
    the first one, and where that is not known. `log` is the path of the project's log of what was
    typed. Without it, only tasks that the program writes are recognized."""
    records = list(_iter_records(path))
    header = next((record for record in records if "sessionId" in record), {})
    first = next((record for record in records if record.get("type") == "user"), None)
    if first is None or "kind" in header:
        return None
    text = words.split_content(first.get("displayContent"))[0]
    text = (text or words.split_content(first.get("content"))[0]).strip()
    # The log is read after the file: what is in the file has been typed by then.
    prompts = _prompts_of(pick(header, "sessionId", of=str), log)
    return _judge(text, time_of(first.get("timestamp")), prompts)


def _judge(text: str, at: datetime | None, prompts: Sequence[Typed]) -> Relation | None:
    for n, prompt in reversed(list(enumerate(prompts))):
        if _is_same(text, at, *prompt):
            return "continuation" if _is_cleared(prompts[:n]) else None
    # A subagent works for somebody who has typed something before.
    is_late = any(at is not None and when is not None and when <= at for _, when in prompts)
    return "subagent" if is_late or text.startswith(TASKS) else None


def _is_same(text: str, at: datetime | None, typed: str, when: datetime | None) -> bool:
    """Return True if a person typed this, or a command that became it. Files that a prompt names
    are put behind it."""
    is_text = text == typed or (text.startswith(typed) and text[len(typed)].isspace())
    if at is None or when is None:
        return is_text
    is_near = abs((at - when).total_seconds()) <= NEAR_S
    return is_near if typed.startswith("/") else is_text and when <= at


def _is_cleared(prompts: Sequence[Typed]) -> bool:
    """Return True if a conversation was cleared."""
    begun = next((n for n, (text, _) in enumerate(prompts) if not text.startswith("/")), None)
    return begun is not None and any(text == CLEAR for text, _ in prompts[begun:])


def _iter_records(path: str) -> Iterator[dict[str, Any]]:
    """Yield the header and the messages of a document, or those of a log up to the first prompt."""
    is_log = path.endswith(".jsonl")
    data = (_beginning(path) if is_log else read_small(path, MAX_RECORD_BYTES)) or b""
    for line in data.split(b"\n") if is_log else [data]:
        value = _decoded(line)
        if isinstance(value, dict):
            yield value
            yield from filter(_is_object, pick(value, "messages", of=list) or [])
            if value.get("type") == "user":
                return


def _decoded(data: bytes) -> Any:
    if has_too_many_values(data):
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _beginning(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_FIRST_BYTES)
    except OSError:
        return b""


def _prompts_of(session: str | None, log: str) -> list[Typed]:
    """Return what was typed in a session."""
    try:
        stat = os.stat(log)
    except OSError:
        return []
    entries = _read_log(log, stat.st_size, stat.st_mtime_ns)
    return [(text, when) for name, text, when in entries if name == session]


@lru_cache(maxsize=4)
def _read_log(path: str, *_state: int) -> list[tuple[str | None, str, datetime | None]]:
    entries = _decoded(read_small(path, MAX_LOG_BYTES) or b"[]")
    return [
        (pick(entry, "sessionId", of=str), text, time_of(entry.get("timestamp")))
        for entry in (filter(_is_object, entries) if isinstance(entries, list) else ())
        if (text := (pick(entry, "message", of=str) or "").strip())
    ]
