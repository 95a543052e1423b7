"""Sessions of 2024 in the database of a workspace: chats and composers, all in two values. One
source holds them all.

Only these two values are read: the same table holds tokens.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from ...errors import ReadError
from ..shared.jsonl import has_too_many_values, to_json
from ..shared.pick import identifier, pick
from ..shared.sqlite import columns, reading
from . import composers
from .bubbles import slim

CHATS, COMPOSERS = "workbench.panel.aichat.view.aichat.chatdata", "composer.composerData"
CHAT = ("tabs", "tabId", "bubbles", "chatTitle", "lastSendTime")
TALK = ("allComposers", "composerId", "conversation", "name", "createdAt")
"""Where the sessions of each are, and what an id, the bubbles, the title and the only time are
called."""


def records(path: str) -> list[bytes]:
    """The bubbles of every session that is only here. Later versions have taken sessions over into
    the global database."""
    with reading(path) as db:
        if not columns(db, "ItemTable"):
            return []
        sql = "select cast(value as blob) from ItemTable where key = ?"
        chats, talks = (
            _decoded(row[0]) if (row := db.execute(sql, (key,)).fetchone()) else None
            for key in (CHATS, COMPOSERS)
        )
    found = [*_sessions(chats, *CHAT), *_sessions(talks, *TALK)]
    gone = _in_global_database(path, {session for session, _, _ in found})
    return [
        to_json(record)
        for session, about, bubbles in found
        if session not in gone
        for record in _bubbles(session, about, bubbles)
    ]


def _sessions(
    value: Any, listed: str, id_: str, content: str, title: str, at: str
) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
    for item in pick(value, listed, of=list) or []:
        session, bubbles = identifier(pick(item, id_, of=str)), pick(item, content, of=list)
        if session and bubbles:
            about = {"title": pick(item, title, of=str), "at": pick(item, at, of=int)}
            yield session, {name: value for name, value in about.items() if value}, bubbles


def _bubbles(session: str, about: dict[str, Any], bubbles: list[Any]) -> Iterator[dict[str, Any]]:
    for n, bubble in enumerate(bubbles):
        name = pick(bubble, "bubbleId", of=str) or pick(bubble, "id", of=str) or str(n)
        said = {"bubble": slim(bubble)} if isinstance(bubble, dict) else {"value": bubble}
        yield {"session": session, "id": name, **(about if not n else {}), **said}


def _in_global_database(path: str, sessions: set[str]) -> set[str]:
    """Those that the global database has."""
    above = os.path.join(os.path.dirname(path), "..", "..", "globalStorage", "state.vscdb")
    if not sessions or not os.path.isfile(above):
        return set()
    try:
        with reading(os.path.normpath(above)) as db:
            return {
                session
                for session in sessions
                if composers.has_sessions(db) and composers.composer(db, session)
            }
    except ReadError:
        return set()


def _decoded(data: Any) -> Any:
    if not isinstance(data, bytes) or has_too_many_values(data):
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
