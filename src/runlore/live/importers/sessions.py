"""Import of logs in older formats into a session store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from ...errors import InvalidId, LogError, ModelError, ReadError
from ...model import LogRecord
from ..log import SessionStore
from ..session import LiveSession
from ..state import SessionState
from .chats import Step, is_chat, read_chat
from .lines import Problem
from .skills import read_skills

STATE = "state.json"
MAX_STATE_BYTES = 1 << 28


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import: the session, the number of records added, and the problems."""

    session_id: str
    added: int
    problems: list[Problem]


def import_log(path: Path, store: SessionStore) -> Imported:
    """Import a folder with a conversation or a run, or the file of a skill log or a run.

    Raises ReadError for anything else.
    """
    if path.is_dir() and is_chat(path):
        return import_chat(path, store)
    if path.name == STATE or (path / STATE).is_file():
        return import_state(path, store)
    if path.suffix == ".jsonl":
        return import_skills(path, store)
    raise ReadError(
        str(path), f"neither a folder with messages.jsonl or {STATE}, nor a skill log (*.jsonl)"
    )


def import_all(folder: Path, store: SessionStore) -> Iterator[Imported | ReadError]:
    """Import every log of an older format in a folder. One that cannot be read yields its error."""
    for path in sorted(folder.iterdir()):
        if (
            path.is_dir() and (is_chat(path) or (path / STATE).is_file())
        ) or path.suffix == ".jsonl":
            try:
                yield import_log(path, store)
            except ReadError as error:
                yield error


# ── conversations ─────────────────────────────────────────────────────────────────────────────────


def import_chat(folder: Path, store: SessionStore) -> Imported:
    """Import a conversation.

    Its rewinds and compactions become records; rewound parts become branches.
    """
    chat = read_chat(folder)
    about = {name: chat.text(name) for name in ("provider", "model", "cwd", "api_base")}
    times = {name: time for name in ("created_at", "updated_at") if (time := chat.text(name))}
    session = _open_session(store, chat.id, folder, title=chat.title, imported=times, **about)
    with session:
        before = session.last_seq
        done: list[LogRecord] = []
        for step in chat.steps:
            done.append(_import_step(session, step, done))
        return Imported(
            session_id=session.id, added=_added(session, before), problems=chat.problems
        )


def _import_step(session: LiveSession, step: Step, done: list[LogRecord]) -> LogRecord:
    # Old files only grow, so the offset of a line names it: an imported line is not written again.
    key = f"old:{step.offset}"
    if step.kind == "message":
        return session.append(to_message(step.message), key=key)
    if step.kind == "rewind":
        target = done[step.to] if step.to >= 0 else None
        place = {"seq": target.seq, "record": target.id} if target else {"seq": -1}
        return session.record("rewind", place, key=key)
    upto = done[-1].seq if done else session.last_seq
    meta = step.message.get("meta")
    about = (
        {
            name: meta[name]
            for name in ("provider", "model", "compacted_count", "usage")
            if name in meta
        }
        if isinstance(meta, dict)
        else {}
    )
    return session.record(
        "compact", {"summary": _first_text(step.message), "upto": upto, **about}, key=key
    )


def to_message(old: dict[str, Any]) -> dict[str, Any]:
    """Return a message in our format. Other fields stay."""
    content = old.get("content")
    if not isinstance(content, str | list):
        content = (
            []
            if content is None
            else [{"type": "text", "text": msgspec.json.encode(content).decode()}]
        )
    if isinstance(content, list):
        content = [_to_block(block) if isinstance(block, dict) else block for block in content]
    usage = old["meta"].get("usage") if isinstance(old.get("meta"), dict) else None
    return {**old, "content": content, **({"usage": usage} if isinstance(usage, dict) else {})}


def _to_block(block: dict[str, Any]) -> dict[str, Any]:
    if (
        block.get("type") == "thinking"
        and "thinking" not in block
        and isinstance(block.get("text"), str)
    ):
        return {
            **{name: value for name, value in block.items() if name != "text"},
            "thinking": block["text"],
        }
    if block.get("type") == "tool_result" and not isinstance(block.get("content"), str | list):
        for name in ("model_text", "output", "display_text"):
            if isinstance(block.get(name), str):
                return {
                    **{
                        key: value
                        for key, value in block.items()
                        if key != name or key == "display_text"
                    },
                    "content": block[name],
                }
    return block


def _first_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    for block in content if isinstance(content, list) else ():
        if (
            isinstance(block, dict)
            and block.get("type") == "text"
            and isinstance(block.get("text"), str)
        ):
            return str(block["text"])
    return ""


# ── skills and runs ───────────────────────────────────────────────────────────────────────────────


def import_skills(file: Path, store: SessionStore) -> Imported:
    """Import a skill log: each line becomes a whole invocation with its own time."""
    log = read_skills(file)
    with _open_session(store, log.session_id, file) as session:
        before = session.last_seq
        for entry in log.entries:
            session.skills.add(entry, key=entry.id)
        return Imported(session_id=session.id, added=_added(session, before), problems=log.problems)


def read_state(path: Path) -> SessionState:
    """Return the state of an old run from its `state.json` or the folder with it.

    Raises ReadError for invalid data.
    """
    file = path / STATE if path.is_dir() else path
    try:
        with file.open("rb") as opened:
            data = msgspec.json.decode(opened.read(MAX_STATE_BYTES))
        if not isinstance(data, dict):
            raise ReadError(str(file), "not an object")
        return SessionState.from_dict(data)
    except OSError as error:
        raise ReadError(str(file), (error.strerror or str(error)).lower()) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ModelError) as error:
        raise ReadError(str(file), str(error)) from error


def import_state(path: Path, store: SessionStore) -> Imported:
    """Import a run as the beginning of a session.

    A run that was imported before stays unchanged.
    """
    state = read_state(path)
    with _open_session(
        store, state.session_id, path, title=state.goal_id or None, agent=state.agent_id or None
    ) as session:
        before = session.last_seq
        if not session.state.view().is_started:
            session.state.adopt(state)
        return Imported(session_id=session.id, added=_added(session, before), problems=[])


def _added(session: LiveSession, before: int) -> int:
    # The session's own first record is not part of the old log.
    return max(0, session.last_seq - max(before, 0))


def _open_session(store: SessionStore, name: str, source: Path, **about: Any) -> LiveSession:
    """Return the session for an old name, with its source in the first record.

    A name that is not valid here is replaced by its valid characters and a hash. Raises ReadError
    when another session has that name.
    """
    origin = {"from": str(source.absolute()), **about.pop("imported", {})}
    try:
        store.check_id(name)
    except InvalidId:
        safe = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:80]
        name = (
            f"{safe or 'old'}-{blake2b(name.encode('utf-8', 'replace'), digest_size=6).hexdigest()}"
        )
    try:
        session = store.ensure(name, imported=origin, **about)
    except LogError as error:
        raise ReadError(str(source), str(error)) from error
    known = {} if session.is_draft else session.meta.extra.get("imported")
    if not session.is_draft and (
        not isinstance(known, dict) or known.get("from") != origin["from"]
    ):
        session.close()
        raise ReadError(str(source), f"{store.name}/{name} is another session")
    return session
