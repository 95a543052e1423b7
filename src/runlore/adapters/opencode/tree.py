"""Sessions in a tree of JSON files, as versions before 1.2 kept them.

    storage/session/<project>/<session>.json
    storage/message/<session>/<message>.json
    storage/part/<message>/<part>.json

Until 0.5 they lay below `project/<name>/storage/session/`, in `info`, `message` and
`part/<session>`. Files are written in place, so that one may be read half written.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import msgspec

from ...errors import ReadError
from ..shared.jsonl import (
    MALFORMED,
    MAX_RECORD_BYTES,
    has_too_many_values,
    note_refusal,
    parse,
    read_small,
)
from ..shared.pick import pick
from .sessions import Listed, Message, in_order, is_finished, is_stale, time_in

LATE = 1 << 50  # The time of a message without one: after all others.


class Tree:
    def __init__(self, storage: str, file: str | None = None) -> None:
        """Open a tree. `file` is that of the session to read, where it is known."""
        self.storage, self.file = storage, file
        self.is_old = os.path.isdir(os.path.join(storage, "session", "info"))
        self.base = os.path.join(storage, "session") if self.is_old else storage

    @classmethod
    def of(cls, path: str) -> Tree:
        """Return the tree that a session's file, or the folder of its messages, lies in."""
        above = os.path.dirname(os.path.dirname(path))
        is_deeper = path.endswith(".json") or os.path.basename(above) == "session"
        return cls(os.path.dirname(above) if is_deeper else above, path)

    def sessions(self, refused: list[ReadError]) -> Iterator[Listed]:
        """Yield every session that has messages, and every folder of messages without a session."""
        ids: set[str] = set()
        for path in self._files(refused):
            id_ = self.id_of(path)
            ids.add(id_)
            yield from self.find(id_, path, refused)
        for name in _names(os.path.join(self.base, "message"), refused):
            if name not in ids:
                yield from self.find(name, os.path.join(self.base, "message", name), refused)

    def _files(self, refused: list[ReadError]) -> Iterator[str]:
        folder = os.path.join(self.storage, "session")
        for project in ["info"] if self.is_old else _names(folder, refused):
            for name in _names(os.path.join(folder, project), refused):
                if name.endswith(".json"):
                    yield os.path.join(folder, project, name)

    def find(self, id_: str, path: str, refused: list[ReadError]) -> Iterator[Listed]:
        """Yield the session as a listing shows it, when it has messages."""
        folder = os.path.join(self.base, "message", id_)
        names = [name for name in _names(folder, refused) if name.endswith(".json")]
        if not names or not path.isprintable():
            return
        last = self._message(os.path.join(folder, names[-1]), id_)
        changed = max([_changed(last.place), *(at for _, at in last.parts)])
        mark = max(changed, _changed(path))
        yield Listed(
            id_, path, len(names), mark + (last.is_open and is_stale(changed // 1_000_000))
        )

    def id_of(self, path: str) -> str:
        """Return the id of a session by its file or folder, which is nearly always its name."""
        stem = os.path.basename(path).removesuffix(".json")
        if os.path.isdir(os.path.join(self.base, "message", stem)):
            return stem
        named = pick(_object(path), "id", of=str) or stem
        return named if is_plain(named) else stem

    def session(self, id: str) -> dict[str, Any] | None:
        path = self.file or next((path for path in self._files([]) if self.id_of(path) == id), "")
        if not path.endswith(".json"):
            messages = self.messages(id)
            return (
                {"id": pick(_object(messages[0].place), "sessionID", of=str) or id}
                if messages
                else None
            )
        value = _object(path)
        names = ("title", "directory", "version", "agent", "parentID", "time", "model", "revert")
        return {"id": id, **{name: value[name] for name in names if name in value}}

    def messages(self, id: str) -> list[Message]:
        if not is_plain(id):
            return []
        folder = os.path.join(self.base, "message", id)
        messages = in_order(
            [
                self._message(os.path.join(folder, name), id)
                for name in _names(folder, [])
                if name.endswith(".json")
            ]
        )
        if messages and messages[-1].is_open:
            last = messages[-1]
            changed = max([_changed(last.place), *(at for _, at in last.parts)])
            messages[-1] = msgspec.structs.replace(last, is_open=not is_stale(changed // 1_000_000))
        return messages

    def _message(self, path: str, session: str) -> Message:
        info, stem = _object(path), os.path.basename(path).removesuffix(".json")
        id_ = pick(info, "id", of=str) or stem
        created = time_in(info, "created")
        parts = tuple(
            (os.path.basename(part).removesuffix(".json"), _changed(part))
            for part in self._parts(session, id_)
        )
        return Message(
            id_,
            LATE if created is None else created,
            parts,
            is_open="data" in info or not is_finished(info),
            place=path,
        )

    def _parts(self, session: str, message: str) -> list[str]:
        if not is_plain(message):
            return []
        folder = os.path.join(
            self.base, "part", *((session, message) if self.is_old else (message,))
        )
        if os.path.isdir(folder):
            return [
                os.path.join(folder, name) for name in _names(folder, []) if name.endswith(".json")
            ]
        return self._flat.get(message, [])

    @cached_property
    def _flat(self) -> dict[str, list[str]]:
        """The parts that all lie in one folder, by their message."""
        folder = os.path.join(self.base, "part")
        paths: dict[str, list[str]] = {}
        for name in _names(folder, []):
            if name.endswith(".json"):
                path = os.path.join(folder, name)
                paths.setdefault(pick(_object(path), "messageID", of=str) or "", []).append(path)
        return paths

    def load(self, message: Message) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        info = _object(message.place)
        session = os.path.basename(os.path.dirname(message.place))
        parts = []
        for path in self._parts(session, message.id):
            part = _object(path)
            parts.append(
                {**part, "id": part.get("id", os.path.basename(path).removesuffix(".json"))}
            )
        return {**info, "id": message.id, "sessionID": info.get("sessionID", session)}, parts

    def near(
        self, begin: str, end: str, created: int, other_than: str
    ) -> tuple[str, Message] | None:
        for name, session in self._named[bisect_left(self._named, (begin, "")) :]:
            if name > end:
                break
            message = self._message(os.path.join(self.base, "message", session, name), session)
            if session != other_than and message.created == created:
                return session, message
        return None

    @cached_property
    def _named(self) -> list[tuple[str, str]]:
        """All messages of all sessions, by name."""
        folder = os.path.join(self.base, "message")
        return sorted(
            (name, session)
            for session in _names(folder, [])
            for name in _names(os.path.join(folder, session), [])
        )


def is_plain(name: str) -> bool:
    """Return True if this is a name in a folder, and leads nowhere else."""
    return (
        bool(name)
        and os.path.basename(name) == name
        and name not in (".", "..")
        and "\0" not in name
    )


def _names(folder: str, refused: list[ReadError]) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except NotADirectoryError:
        return []
    except OSError as error:
        note_refusal(folder, error, refused)
        return []


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _object(path: str) -> dict[str, Any]:
    """Return the object in a file; as a text when it is no JSON object."""
    data = read_small(path, MAX_RECORD_BYTES)
    if data is None or has_too_many_values(data):
        return {"data": "[it cannot be read]"}
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        values = parse(data)
        value = values[0][0] if len(values) == 1 and values[0][0] is not MALFORMED else None
    return value if isinstance(value, dict) else {"data": data.decode("utf-8", "replace")}
