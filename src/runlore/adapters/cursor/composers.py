"""Sessions of Cursor's editor in its global database: a row for each session that lists its
bubbles, and a row for each bubble.

The database may have gigabytes, most of it in values that are not read: keys, their rows' numbers
and the lengths of values are in an index or in the first bytes of a row. A value that is written
again gets a new number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from time import time
from typing import Any

import apsw
import msgspec

from ...errors import ReadError
from ..shared.jsonl import has_too_many_values, read_small
from ..shared.pick import identifier, number, pick
from ..shared.sqlite import columns, reading, up_to_limit
from .paths import path_in

STALE_S = 3600  # A session that has not changed for so long is not being written any more.
LATEST_SESSIONS = 8  # That are looked into, whether they were left while they were being written.
LATEST = 16  # Bubbles at the end of a session that may still be changed while it is being written.
COMPOSER, BUBBLE = "composerData:", "bubbleId:"
TABLE = "cursorDiskKV"
RUNNING = frozenset({"loading", "pending", "running", "streaming"})
GENERATING = frozenset({"generating", *RUNNING})
FOLDERS = 5000  # Databases of workspaces that are asked for the folder of a session.


class Entry(msgspec.Struct, frozen=True):
    """A bubble of a session: its name, how long it is, and where."""

    id: str
    length: int
    rowid: int = -1
    inline: Any = None
    is_left: bool = False
    """No longer a part of the session: its prompt was edited, or something was tried again."""


def has_sessions(db: apsw.Connection) -> bool:
    return bool(columns(db, TABLE))


def listing(db: apsw.Connection, only: str | None) -> Iterator[tuple[str, int, int]]:
    """Every session, or one: id, how many bubbles it has, and a number that grows with every change
    to it."""
    if not has_sessions(db):
        return
    first, last = (f"{BUBBLE}{only}:", f"{BUBBLE}{only};") if only else (BUBBLE, _after(BUBBLE))
    begin = len(BUBBLE) + 1
    sql = (
        f"select substr(key, {begin}, instr(substr(key, {begin}), ':') - 1) as session, count(*),"
        f" max(rowid) from {TABLE} where key >= ? and key < ? group by session"
    )
    bubbles = {
        session: (count, newest)
        for session, count, newest in up_to_limit(db, db.execute(sql, (first, last)))
    }
    first, last = (
        (COMPOSER + only, COMPOSER + only + "\0") if only else (COMPOSER, _after(COMPOSER))
    )
    sql = (
        f"select key, rowid, octet_length(value) from {TABLE} where key >= ? and key < ? order"
        " by key"
    )
    found = []
    for key, rowid, length in up_to_limit(db, db.execute(sql, (first, last))):
        session = key.removeprefix(COMPOSER)
        count, newest = bubbles.get(session, (0, 0))
        found.append(
            (
                session,
                count,
                (max(rowid, newest) << 24) + ((length or 0) * 31 + count) * 2 % (1 << 24),
            )
        )
    stale = {
        session
        for session, _, _ in sorted(found, key=lambda item: -item[2])[:LATEST_SESSIONS]
        if _is_given_up(db, session)
    }
    yield from ((session, count, mark + (session in stale)) for session, count, mark in found)


def _is_given_up(db: apsw.Connection, session: str) -> bool:
    """Return True if a session was left while it was being written: the part that was held back is
    then given."""
    about = composer(db, session)
    return pick(about, "status", of=str) in GENERATING and _is_stale(about)


def _is_stale(about: dict[str, Any]) -> bool:
    return (number(about.get("lastUpdatedAt"), 1 << 50) or 0) / 1000 < time() - STALE_S


def _after(prefix: str) -> str:
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def composer(db: apsw.Connection, session: str) -> dict[str, Any]:
    """Return the facts about a session; nothing when it is not there."""
    value = _value(db, COMPOSER + session)
    return value if isinstance(value, dict) else {}


def entries(db: apsw.Connection, session: str, about: dict[str, Any]) -> list[Entry]:
    """The bubbles of a session: those that it no longer has, then the others in their order,
    without what is being written."""
    rows: dict[str, tuple[int, int]] = {}
    sql = (
        f"select substr(key, ?), rowid, octet_length(value) from {TABLE} where key >= ? and key < ?"
        " and value is not null"
    )
    for name, rowid, length in db.execute(
        sql, (len(BUBBLE + session) + 2, f"{BUBBLE}{session}:", f"{BUBBLE}{session};")
    ):
        rows[name] = rowid, length
    found = []
    names = [
        pick(header, "bubbleId", of=str) or ""
        for header in pick(about, "fullConversationHeadersOnly", of=list) or []
    ]
    others = _own_names(db, rows, names)
    for listed in names:
        name = others.get(listed, listed)
        if name in rows:
            rowid, length = rows.pop(name)
            found.append(Entry(name, length, rowid))
    for n, bubble in enumerate(pick(about, "conversation", of=list) or []):
        name = identifier(pick(bubble, "bubbleId", of=str)) or str(n)
        rows.pop(name, None)
        found.append(Entry(name, len(repr(bubble)), inline=bubble))
    left = [
        Entry(name, length, rowid, is_left=bool(found))
        for name, (rowid, length) in sorted(rows.items(), key=lambda item: item[1])
    ]
    return left + _complete(db, found, about)


def _own_names(
    db: apsw.Connection, rows: dict[str, tuple[int, int]], names: list[str]
) -> dict[str, str]:
    """The keys of bubbles that are listed under the name that they have inside, where that is
    another one."""
    lost, extra = set(names) - rows.keys(), rows.keys() - set(names)
    found = (
        ((pick(bubble(db, Entry(key, 0, rows[key][0])), "bubbleId", of=str), key) for key in extra)
        if lost
        else ()
    )
    return {name: key for name, key in found if name is not None and name in lost}


def _complete(db: apsw.Connection, found: list[Entry], about: dict[str, Any]) -> list[Entry]:
    """Return the bubbles without the one being written and without unfinished calls."""
    if pick(about, "status", of=str) not in GENERATING or _is_stale(about):
        return found
    for n, entry in enumerate(found[-LATEST:], max(0, len(found) - LATEST)):
        if pick(bubble(db, entry), "toolFormerData", "status", of=str) in RUNNING:
            return found[:n]
    return found[:-1]


def bubble(db: apsw.Connection, entry: Entry) -> Any:
    if entry.rowid < 0:
        return entry.inline
    row = db.execute(
        f"select cast(value as blob) from {TABLE} where rowid = ?", (entry.rowid,)
    ).fetchone()
    return _decoded(row[0]) if row else None


def session_fields(about: dict[str, Any], session: str, path: str) -> dict[str, Any]:
    """Return the few facts about a session that are kept."""
    names = ("name", "createdAt", "status", "unifiedMode", "contextTokensUsed", "subagentInfo")
    branch = pick(about, "activeBranch", "branchName", of=str) or pick(
        about, "createdOnBranch", of=str
    )
    folder = path_in(about.get("workspaceIdentifier")) or _folder_of(session, path)
    found = {name: about.get(name) for name in names} | {
        "composerId": session, "branch": branch,
        "model": pick(about, "modelConfig", "modelName", of=str), "folder": folder,
    }  # fmt: skip
    return {name: value for name, value in found.items() if value not in (None, "")}


def _folder_of(session: str, path: str) -> str | None:
    """The folder of the workspace whose database names the session."""
    storage = os.path.join(os.path.dirname(os.path.dirname(path)), "workspaceStorage")
    try:
        names = sorted(os.listdir(storage))[:FOLDERS]
    except OSError:
        return None
    for name in names:
        path = os.path.join(storage, name, "state.vscdb")
        if (changed := _mtime(path)) and session in _sessions_of(path, changed):
            return workspace_folder(os.path.join(storage, name))
    return None


_known: dict[str, tuple[int, frozenset[str]]] = {}
"""The sessions that the database of each workspace names, and when it was last changed: every
session of a first sync asks for them."""


def _sessions_of(path: str, changed: int) -> frozenset[str]:
    if path not in _known or _known[path][0] != changed:
        _known[path] = changed, frozenset(_listed(path))
    return _known[path][1]


def _listed(path: str) -> list[str]:
    """The sessions that the database of a workspace names."""
    try:
        with reading(path) as db:
            row = db.execute(
                "select cast(value as blob) from ItemTable where key = 'composer.composerData'"
            ).fetchone()
    except ReadError:
        return []
    value = _decoded(row[0]) if row else None
    names = [
        pick(item, "composerId", of=str) for item in pick(value, "allComposers", of=list) or []
    ]
    return [
        name
        for name in [*names, *(pick(value, "selectedComposerIds", of=list) or [])]
        if isinstance(name, str)
    ]


def workspace_folder(folder: str) -> str | None:
    """The folder that a workspace is about."""
    try:
        value = msgspec.json.decode(
            read_small(os.path.join(folder, "workspace.json"), 1 << 20) or b"null"
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    file = path_in(pick(value, "workspace", of=str))
    return path_in(pick(value, "folder", of=str)) or (os.path.dirname(file) if file else None)


def _mtime(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _value(db: apsw.Connection, key: str) -> Any:
    row = db.execute(f"select cast(value as blob) from {TABLE} where key = ?", (key,)).fetchone()
    return _decoded(row[0]) if row else None


def _decoded(data: Any) -> Any:
    """A value as what it says; as a text when it is no JSON."""
    if not isinstance(data, bytes):
        return None
    if has_too_many_values(data):
        return data.decode("utf-8", "replace")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "replace")
