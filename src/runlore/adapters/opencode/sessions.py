"""The contract of a database or a tree of files with sessions, and the functions that both use."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from time import time
from typing import Any, Protocol

import msgspec

from ..shared.jsonl import MAX_RECORD_BYTES, to_json
from ..shared.pick import milliseconds, number, pick

UNIT = 8192
"""About the bytes of a message with its parts. The size of a session is this for each message, for
the true one is only known when everything has been read."""

STALE_S = 3600
"""A message that was not finished, and has not changed for so long, will not be: its process is
dead."""

NEAR_MS = 5000
"""The maximum distance of the time in a message's name from its own time. A client may name it
before it is sent."""


class Listed(msgspec.Struct, frozen=True):
    """A session as a listing shows it: `mark` changes with everything that may change its
    records."""

    id: str
    path: str
    messages: int
    mark: int


class Message(msgspec.Struct, frozen=True):
    id: str
    created: int
    parts: tuple[tuple[str, int], ...] = ()
    """The name of each, and the time of its last change."""
    is_removed: bool = False
    """A person reverted it, and it is only left in the log of changes."""
    is_open: bool = False
    """It is still being written."""
    place: str = ""
    """The path of its file, in a tree."""
    has_no_name: bool = False
    """Its id is not UTF-8, so it cannot be looked up."""


class Shelf(Protocol):
    """A database or a tree of files with sessions."""

    def session(self, id: str) -> dict[str, Any] | None:
        """Return a session's own record; None when it is not here."""

    def messages(self, id: str) -> list[Message]:
        """Return all messages of a session, in their order."""

    def load(self, message: Message) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return a message and its parts."""

    def near(
        self, begin: str, end: str, created: int, other_than: str
    ) -> tuple[str, Message] | None:
        """Return the message of another session with a name between these and this time, after the
        id of that session."""


def identity(messages: Sequence[Message]) -> tuple[bytes, bytes]:
    """Return two hashes: of the names of all messages and parts, and of the state of the last
    message."""
    outline = "\n".join(
        f"{m.id} {m.is_removed:d} {' '.join(name for name, _ in m.parts)}" for m in messages
    )
    latest = repr(messages[-1].parts) if messages else ""
    return tuple(
        blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
        for text in (outline, latest)
    )  # type: ignore[return-value]


def complete(messages: list[Message]) -> list[Message]:
    """Return the messages without a last one that is still being written: an event cannot be
    changed later."""
    return messages[:-1] if messages and messages[-1].is_open else messages


def is_finished(info: dict[str, Any]) -> bool:
    """Return True if nothing is added to a message any more. A prompt is complete at once."""
    return (
        info.get("role") != "assistant"
        or time_in(info, "completed") is not None
        or bool(info.get("error"))
    )


def time_in(value: dict[str, Any], name: str) -> int | None:
    """Return one of the times of a session or a message, in milliseconds."""
    return to_ms((pick(value, "time", of=dict) or {}).get(name))


def to_ms(time: Any) -> int | None:
    """Return a time in milliseconds. It is written so, or as ISO 8601."""
    ms = number(time, 1 << 50)
    return milliseconds(time) if ms is None else ms


def is_stale(changed_ms: int) -> bool:
    return changed_ms < (time() - STALE_S) * 1000


def in_order(messages: list[Message]) -> list[Message]:
    return sorted(messages, key=lambda message: (message.created, message.id))


def as_record(
    info: dict[str, Any], parts: list[dict[str, Any]], more: dict[str, Any]
) -> tuple[bytes, str | None]:
    """Return a message as one JSON object, and its problem if it has one."""
    data = to_json({"info": info, "parts": parts, **more})
    if len(data) > MAX_RECORD_BYTES:
        return to_json(
            {
                "info": {
                    name: value
                    for name, value in info.items()
                    if not isinstance(value, dict | list)
                }
            }
        )[:MAX_RECORD_BYTES], (f"too long ({len(data) >> 20} MB)")
    return data, None


def original(shelf: Shelf, message: Message, session: dict[str, Any]) -> dict[str, Any] | None:
    """Return the message that this one is a copy of: a fork copies messages under new names, with
    their times."""
    begun = time_in(session, "created")
    if begun is None or message.created >= begun:
        return None
    begin, end = (
        f"msg_{(message.created + ms & (1 << 36) - 1) << 12:012x}" for ms in (-NEAR_MS, NEAR_MS)
    )
    match = shelf.near(begin, end, message.created, str(session.get("id")))
    if match is None:
        return None
    origin, copied = match
    return {"session": origin, "message": copied.id, "parts": [name for name, _ in copied.parts]}


def calling(shelf: Shelf, session: dict[str, Any]) -> str | None:
    """Return the call that started a subagent: one of the last of its parent before it."""
    child, parent = session.get("id"), pick(session, "parentID", of=str)
    begun = time_in(session, "created")
    if not parent or begun is None:
        return None
    before = [message for message in shelf.messages(parent) if message.created <= begun]
    for message in before[:-4:-1]:
        for part in shelf.load(message)[1]:
            if pick(part, "state", "metadata", "sessionId", of=str) == child:
                return pick(part, "callID", of=str)
    return None
