"""Sessions of opencode 2.x and of its new core: rows of `session_message`, each a message that
holds its own parts. They are turned into messages and parts of 1.x, which the reader knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw
import msgspec

from ..shared.pick import pick
from ..shared.sqlite import columns, rows, text_or_none, up_to_limit
from ..shared.tools import text_of
from .database import decode_object, is_name, listed, session_record
from .sessions import Listed, Message, is_finished, is_stale, to_ms

TABLE = "session_message"
SWITCHES = ("agent-switched", "model-switched")
"""1.x writes these rows too, beside its own messages."""
ENDED = ("completed", "success", "error", "failed")


class NewCore:
    """The part of a database that the new core wrote."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self.tables = [table for table in ("session_v2", "session") if columns(db, table)]
        names = columns(db, TABLE)
        self.without_name = 0
        """Number of sessions whose id is not UTF-8."""
        self.has_rows = {"id", "session_id", "type", "data"} <= {*names}
        order = ("seq", "time_created", "id")
        self.order = [name for name in order if name in names]
        self.times = ", ".join(
            name if name in names else "null" for name in ("time_created", "time_updated")
        )

    def sessions(self, path: str, only: str | None = None) -> Iterator[Listed]:
        """Yield every session with messages, or only one."""
        if not self.has_rows:
            return
        which, given = ("", ()) if only is None else ("and session_id = ?", (only,))
        # Without what 1.x writes as well: such a session is none of the new core.
        sql = (
            f"select cast(session_id as blob), count(*) from {TABLE} where session_id in"
            f" (select session_id from {TABLE} where type not in (?, ?)) {which}"
            " group by session_id order by 1"
        )
        listing = up_to_limit(self.db, self.db.execute(sql, (*SWITCHES, *given)))
        for name, count in list(listing):
            id_ = text_or_none(name)
            self.without_name += id_ is None and name is not None
            row = self._row(id_) if is_name(id_) else None
            if row is not None:
                changed, is_open = self._last(id_)
                yield listed(path, id_, count, row.get("time_updated"), changed, is_open)

    def _row(self, id: str) -> dict[str, Any] | None:
        found = (next(rows(self.db, table, "where id = ?", (id,)), None) for table in self.tables)
        return next((row for row in found if row is not None), None)

    def _last(self, session: str) -> tuple[int, bool]:
        """Return the time of the last change to a message, and True if it is not finished."""
        order = ", ".join(f"{name} desc" for name in self.order)
        where = f"where session_id = ? order by {order} limit 1"
        row = next(rows(self.db, TABLE, where, (session,)), {})
        times = (to_ms(row.get(f"time_{name}")) or 0 for name in ("created", "updated"))
        return max(times), not _is_finished(row)

    def session(self, id: str) -> dict[str, Any] | None:
        row = self._row(id)
        return None if row is None else session_record(row)

    def messages(self, id: str) -> list[Message]:
        if not self.has_rows:
            return []
        sql = (
            f"select cast(id as blob), rowid, type, {self.times} from {TABLE} where session_id = ?"
            f" order by {', '.join(self.order)}"
        )
        messages = [
            Message(f"row {rowid}", to_ms(created) or 0, has_no_name=True)
            if (id_ := text_or_none(name)) is None
            else Message(str(id_), to_ms(created) or 0, ((str(kind), to_ms(updated) or 0),))
            for name, rowid, kind, created, updated in self.db.execute(sql, (id,))
        ]
        if messages:
            changed, is_open = self._last(id)
            messages[-1] = msgspec.structs.replace(
                messages[-1], is_open=is_open and not is_stale(changed)
            )
        return messages

    def load(self, message: Message) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        row = next(rows(self.db, TABLE, "where id = ?", (message.id,)), {"id": message.id})
        return as_message(row)

    def near(
        self, begin: str, end: str, created: int, other_than: str
    ) -> tuple[str, Message] | None:
        """Return None: how the new core copies the messages of a fork is not known."""
        return None


def _is_finished(row: dict[str, Any]) -> bool:
    """Return True if nothing is added to a row any more: only replies and commands take time."""
    if row.get("type") == "shell":
        return not _is_running(decode_object(row.get("data")))
    return row.get("type") != "assistant" or is_finished(as_message(row)[0])


def _is_running(shell: dict[str, Any]) -> bool:
    times = pick(shell, "time", of=dict) or {}
    is_over = "output" in shell or times.get("completed") is not None
    return shell.get("status") == "running" or not is_over


def as_message(row: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a row as a message of 1.x and its parts. A row of an unknown type becomes a message
    without parts that has the data as its content."""
    kind, data = row.get("type"), decode_object(row.get("data"))
    info = {
        "id": row.get("id"),
        "sessionID": row.get("session_id"),
        "time": {"created": row.get("time_created"), **(pick(data, "time", of=dict) or {})},
    }
    build = _BUILDERS.get(kind) if isinstance(kind, str) else None
    if data.keys() == {"data"}:
        return {**info, **data}, []
    if build is None:
        return {**info, "type": kind, "content": data}, []
    more, parts = build(data)
    named = [{"id": str(n), **part} for n, part in enumerate(parts)]
    return {**info, **more}, named


Built = tuple[dict[str, Any], list[dict[str, Any]]]


def _user(data: dict[str, Any]) -> Built:
    files, agents = (
        [item for item in pick(data, name, of=list) or [] if isinstance(item, dict)]
        for name in ("files", "agents")
    )
    return {"role": "user"}, [
        {"type": "text", "text": data.get("text")},
        *(
            {**file, "type": "file", "url": file.get("url") or file.get("uri"),
             "filename": file.get("filename") or file.get("name")}
            for file in files
        ),
        *({**agent, "type": "agent"} for agent in agents),
    ]  # fmt: skip


def _added(data: dict[str, Any]) -> Built:
    """Return a text that the program added."""
    return {"role": "user"}, [{"type": "text", "text": data.get("text"), "synthetic": True}]


def _shell(data: dict[str, Any]) -> Built:
    """Return a command that a person ran."""
    times = pick(data, "time", of=dict) or {}
    is_running = _is_running(data)
    result: dict[str, Any] = {} if is_running else {"output": text_of(data.get("output"))}
    state = {
        "status": "running" if is_running else "completed",
        "input": {"command": text_of(data.get("command"))},
        "metadata": {"exit": data.get("exit")},
        "time": {"start": times.get("created"), "end": times.get("completed")},
        **result,
    }
    part = {"type": "tool", "tool": "bash", "callID": data.get("callID"), "state": state}
    return {"role": "assistant"}, [{**part, "is_by_user": True}]


def _assistant(data: dict[str, Any]) -> Built:
    content = data.get("content")
    info: dict[str, Any] = {
        "role": "assistant",
        **_model(data),
        **{name: data[name] for name in ("tokens", "cost", "finish") if name in data},
    }
    if error := data.get("error"):
        word, text = pick(error, "type", of=str), pick(error, "message", of=str)
        info["error"] = {"name": word or "error", "data": {"message": text or text_of(error)}}
    parts = content if isinstance(content, list) else [content] if content else []
    return info, [_part(part) for part in parts]


def _part(part: Any) -> dict[str, Any]:
    if not isinstance(part, dict):
        return {"type": "unknown", "data": part}
    return _tool(part) if part.get("type") == "tool" else part


def _tool(part: dict[str, Any]) -> dict[str, Any]:
    state, times = (pick(part, name, of=dict) or {} for name in ("state", "time"))
    status = pick(state, "status", of=str) or ""
    made = {
        "status": status,
        "input": state.get("input"),
        "metadata": pick(state, "structured", of=dict) or {},
        "time": {"start": times.get("ran") or times.get("created"), "end": times.get("completed")},
    }
    if status in ENDED:
        items = [item for item in pick(state, "content", of=list) or [] if isinstance(item, dict)]
        made["output"] = "\n".join(text_of(item["text"]) for item in items if "text" in item)
        made["attachments"] = [
            {**item, "url": item.get("url") or item.get("uri"), "filename": item.get("name")}
            for item in items
            if "text" not in item
        ]
    if error := state.get("error"):
        made["error"] = pick(error, "message", of=str) or text_of(error)
    return {
        "type": "tool", "id": part.get("id"), "callID": part.get("id"), "tool": part.get("name"),
        "state": made,
    }  # fmt: skip


def _compaction(data: dict[str, Any]) -> Built:
    texts = (data.get(name) for name in ("summary", "recent"))
    return {"role": "assistant", "summary": True}, [
        {"type": "compaction", "auto": data.get("reason") == "auto"},
        *({"type": "text", "text": text} for text in texts if text),
    ]


def _switch(data: dict[str, Any]) -> Built:
    """Return a change of the model or of the agent."""
    info = {"role": "assistant", **_model(data)}
    return info, [{"type": "model-switched" if "model" in data else "agent-switched", **data}]


def _model(data: dict[str, Any]) -> dict[str, Any]:
    model = pick(data, "model", of=dict) or {}
    return {"modelID": model.get("id"), "providerID": model.get("providerID")} if model else {}


_BUILDERS = {
    "user": _user,
    "synthetic": _added,
    "system": _added,
    "shell": _shell,
    "assistant": _assistant,
    "compaction": _compaction,
    **dict.fromkeys(SWITCHES, _switch),
}
