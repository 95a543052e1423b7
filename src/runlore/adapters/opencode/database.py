"""Sessions in `opencode.db`. Only the tables of sessions are read: others hold tokens.

Messages that a person reverted are deleted from `message` and `part`; where the database has a log
of changes (`event`), they are still there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import apsw
import msgspec

from ..shared.jsonl import has_too_many_values
from ..shared.pick import pick
from ..shared.sqlite import columns, rows, text_or_none, up_to_limit
from .sessions import Listed, Message, in_order, is_finished, is_stale, time_in, to_ms

TABLES = ("session", "message", "part")
_NS = 1_000_000  # In a millisecond, which is what all times here are in.


class Database:
    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.has_log = bool(columns(db, "event"))
        self.columns = {table: columns(db, table) for table in TABLES}
        self.has_agents = "agent_id" in self.columns["message"]
        self.has_imports = "message_ids" in columns(db, "external_import")
        self.removed: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
        self.without_name = 0
        """Sessions that were left out of the listing, as their id is not UTF-8."""

    def is_one(self) -> bool:
        return all(self.columns.values())

    def column(self, table: str, name: str) -> str:
        """Return a column as SQL; null where the database is of a version that does not have it."""
        return name if name in self.columns[table] else "null"

    def sessions(self, path: str, only: str | None = None) -> Iterator[Listed]:
        """Yield every session that has messages, or only one. Reads the last message of each, and
        no other."""
        given = () if only is None else (only,)
        where = "" if only is None else "where session_id = ?"
        sql = (
            "select cast(session_id as blob), count(*), max(rowid) from message"
            f" {where} group by session_id"
        )
        listing = up_to_limit(self.db, self.db.execute(sql, given))
        counts = {text_or_none(row[0]): row[1:] for row in listing}
        removed = dict(self._counts_of_removed(only))
        updated, created = (
            self.column("session", name) for name in ("time_updated", "time_created")
        )
        sql = (
            f"select cast(id as blob), {updated} from session {where.replace('session_id', 'id')}"
            f" order by {created}, id"
        )
        for name, updated in self.db.execute(sql, given):
            id_ = text_or_none(name)
            self.without_name += id_ is None and name is not None
            count, last = counts.get(id_, (0, None))
            count -= len(self._imported(id_))
            if count <= 0 or not is_name(id_):
                continue
            changed, is_open = self._last(last)
            yield listed(path, id_, count + removed.get(id_, 0), updated, changed, is_open)

    def _counts_of_removed(self, only: str | None) -> Iterator[tuple[str, int]]:
        if self.has_log:
            which = _typed("message.removed") + ("" if only is None else " and aggregate_id = ?")
            sql = (
                "select cast(aggregate_id as blob), count(*) from event"
                f" where {which} group by aggregate_id"
            )
            for name, count in self.db.execute(sql, () if only is None else (only,)):
                yield text_or_none(name), count

    def _last(self, rowid: int) -> tuple[int, bool]:
        """Return the time of the last change to a message or its parts, and True if it is not
        finished."""
        row = next(rows(self.db, "message", "where rowid = ?", (rowid,)), {})
        updated = self.column("part", "time_updated")
        latest = f"select max({updated}) from part where message_id = ?"
        times = [
            row.get("time_created"),
            row.get("time_updated"),
            *(time for (time,) in self.db.execute(latest, (row.get("id"),))),
        ]
        return max(to_ms(time) or 0 for time in times), not is_finished(_decoded(row))

    def session(self, id: str) -> dict[str, Any] | None:
        row = next(rows(self.db, "session", "where id = ?", (id,)), None)
        if row is None:
            return None
        return session_record(row)

    def messages(self, id: str) -> list[Message]:
        parts: dict[Any, list[tuple[str, int]]] = {}
        which = (
            "session_id = ?"
            if "session_id" in self.columns["part"]
            else "message_id in (select id from message where session_id = ?)"
        )
        sql = (
            "select cast(message_id as blob), cast(id as blob),"
            f" {self.column('part', 'time_updated')} from part where {which} order by id"
        )
        for of_message, name, updated in self.db.execute(sql, (id,)):
            part = str(text_or_none(name))
            parts.setdefault(text_or_none(of_message), []).append((part, to_ms(updated) or 0))
        messages = [
            self._message(text_or_none(name), rowid, created, parts)
            for name, rowid, created in self.db.execute(
                "select cast(id as blob), rowid, time_created from message where session_id = ?"
                " order by time_created, id",
                (id,),
            )
        ]
        if imported := self._imported(id):
            messages = [message for message in messages if message.id not in imported]
        if messages:
            last = self.db.execute(
                "select rowid from message where id = ?", (messages[-1].id,)
            ).fetchone()
            changed, is_open = self._last(last[0] if last else -1)
            messages[-1] = msgspec.structs.replace(
                messages[-1], is_open=is_open and not is_stale(changed)
            )
        removed = self._removed(id, {message.id for message in messages})
        return in_order(messages + removed) if removed else messages

    def _message(
        self, id: Any, rowid: int, created: Any, parts: dict[Any, list[tuple[str, int]]]
    ) -> Message:
        if id is None:
            return Message(f"row {rowid}", to_ms(created) or 0, has_no_name=True)
        return Message(str(id), to_ms(created) or 0, tuple(parts.get(id, ())))

    def _imported(self, session: Any) -> set[str]:
        """Return the messages that a fork of opencode imported from other agents. They are read
        with those agents' sessions."""
        if not self.has_imports or not isinstance(session, str):
            return set()
        lists = [
            _json(text)
            for (text,) in self.db.execute(
                "select message_ids from external_import where session_id = ?", (session,)
            )
        ]
        return {
            id_ for ids in lists if isinstance(ids, list) for id_ in ids if isinstance(id_, str)
        }

    def _removed(self, session: str, there: set[str]) -> list[Message]:
        """Return the messages that were removed, in their last state. `there` has the ids of those
        that still exist."""
        removals = self._logged(session, "message.removed")
        gone = {pick(data, "messageID", of=str) or "" for data in removals} - there - {""}
        if not gone:
            return []
        parts = self._removed_parts(session, gone)
        messages: dict[str, Message] = {}
        for data in self._logged(session, "message.updated"):
            info, id_ = pick(data, "info", of=dict) or {}, pick(data, "info", "id", of=str) or ""
            if id_ in gone:
                own = sorted(parts.get(id_, {}).items())
                self.removed[id_] = info, [part for _, part in own]
                names = tuple((name, 0) for name, _ in own)
                created = time_in(info, "created") or 0
                messages[id_] = Message(id_, created, names, is_removed=True)
        return list(messages.values())

    def _removed_parts(self, session: str, gone: set[str]) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the parts of removed messages in their last state, by message and name."""
        parts: dict[str, dict[str, dict[str, Any]]] = {}
        for data in self._logged(session, "message.part.updated"):
            part = pick(data, "part", of=dict) or {}
            message, name = pick(part, "messageID", of=str) or "", pick(part, "id", of=str)
            if message in gone and name:
                parts.setdefault(message, {})[name] = part
        return parts

    def _logged(self, session: str, kind: str) -> Iterator[dict[str, Any]]:
        if self.has_log:
            for row in rows(
                self.db,
                "event",
                f"where aggregate_id = ? and {_typed(kind)} order by seq",
                (session,),
            ):
                yield _decoded(row)

    def load(self, message: Message) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        if message.is_removed:
            return self.removed[message.id]
        # As bytes, for text that is not UTF-8 is refused as a text. Not with `rows`, which is much
        # slower.
        sql = "select session_id, cast(data as blob) from message where id = ?"
        session, data = self.db.execute(sql, (message.id,)).fetchone() or (None, None)
        info = {
            "time": {"created": message.created},
            **decode_object(data),
            "id": message.id,
            "sessionID": session,
        }
        if self.has_agents:
            (agent,) = self.db.execute(
                "select cast(agent_id as blob) from message where id = ?", (message.id,)
            ).fetchone() or (None,)
            info["agentID"] = text_or_none(agent)
        sql = (
            "select cast(id as blob), cast(data as blob) from part where message_id = ? order by id"
        )
        return info, [
            {**decode_object(data), "id": text_or_none(part)}
            for part, data in self.db.execute(sql, (message.id,))
        ]

    def near(
        self, begin: str, end: str, created: int, other_than: str
    ) -> tuple[str, Message] | None:
        sql = (
            "select cast(id as blob), cast(session_id as blob) from message where id between ? and"
            " ? and time_created = ? and session_id != ? order by id"
        )
        row = self.db.execute(sql, (begin, end, created, other_than)).fetchone() or (None, None)
        id_, session = map(text_or_none, row)
        if id_ is None or session is None:
            return None
        sql = "select cast(id as blob) from part where message_id = ? order by id"
        parts = tuple((str(text_or_none(part)), 0) for (part,) in self.db.execute(sql, (id_,)))
        return session, Message(id_, created, parts)


def is_name(id: Any) -> bool:
    """Return True for the id of a session that can be the last part of a path."""
    return isinstance(id, str) and bool(id) and id.isprintable() and os.path.basename(id) == id


def listed(path: str, id: str, count: int, updated: Any, changed: int, is_open: bool) -> Listed:
    """Return a session, given the times of the last change to itself and to its last message."""
    mark = max(to_ms(updated) or 0, changed) * _NS + (is_open and is_stale(changed))
    return Listed(id, os.path.join(path, id), count, mark)


def session_record(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a session as the agent's own programs show it."""
    times = {
        name: row.get(f"time_{name}")
        for name in ("created", "updated", "archived")
        if row.get(f"time_{name}") is not None
    }
    texts = {
        name: row.get(name)
        for name in ("id", "title", "directory", "version", "agent")
        if row.get(name) is not None
    }
    model, revert = (_json(row.get(name)) for name in ("model", "revert"))
    return {
        **texts,
        "parentID": row.get("parent_id"),
        "time": times,
        "model": model,
        "revert": revert,
    }


def _typed(kind: str) -> str:
    """Return the condition for a type in the log, which ends with the version of its layout:
    `message.removed.1`."""
    return f"type >= '{kind}.' and type < '{kind}/'"


def _json(text: Any) -> Any:
    if not isinstance(text, str | bytes) or has_too_many_values(text):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    return decode_object(row.get("data"))


def decode_object(data: Any) -> dict[str, Any]:
    """Return the object in the column `data`; as a text when it is no JSON object."""
    value = _json(data)
    if isinstance(value, dict):
        return value
    return {"data": data.decode("utf-8", "replace") if isinstance(data, bytes) else data}
