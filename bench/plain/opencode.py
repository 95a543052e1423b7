"""opencode: messages and parts, as rows of a database or as a tree of small files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .values import JSON, Counts, Rule, Session, get, number, parse, read_json, read_rows

AGENT = "opencode"
FOLDERS = (".local/share/opencode",)
ENDED = ("completed", "error", "success")


class Message(NamedTuple):
    data: JSON
    parts: list[JSON]


def count(root: Path, oldest_pays: bool = True) -> Iterator[Session]:
    ids: set[str] = set()
    for path in sorted(root.glob("*.db")):
        for session in count_database(path, oldest_pays):
            ids.add(session.id)
            yield session
    for session in _count_tree(root / "storage", oldest_pays):
        if session.id not in ids:
            yield session


def count_database(path: Path, oldest_pays: bool) -> Iterator[Session]:
    newer = {row["id"] for row in read_rows(path, "select id from session_v2")}
    rows = "select type, data from session_message where session_id = ?"
    for id in sorted(newer):
        yield Session(path, id, _count_rows(read_rows(path, rows, id)))
    older = [row for row in read_rows(path, "select * from session") if row["id"] not in newer]
    messages = {row["id"]: _old_messages(path, row["id"]) for row in older}
    billed: set[JSON] = set()
    for id, found in sorted(messages.items(), reverse=oldest_pays):
        if found:
            yield Session(path, id, _count_messages(found, billed))
        else:
            yield Session(path, id, _count_rows(read_rows(path, rows, id)))


def _old_messages(path: Path, session: str) -> list[Message]:
    """Return the messages of 1.x, with those that a rewind removed and the event log still has."""
    messages: dict[str, JSON] = {}
    parts: dict[str, dict[str, JSON]] = {}
    sql = "select data from event where aggregate_id = ? order by seq"
    for row in read_rows(path, sql, session):
        data = parse(row["data"]) or {}
        if info := data.get("info"):
            messages[str(info.get("id"))] = info
        elif part := data.get("part"):
            parts.setdefault(str(part.get("messageID")), {})[str(part.get("id"))] = part
    messages = {id: data for id, data in messages.items() if "role" in data}
    for row in read_rows(path, "select id, data from message where session_id = ?", session):
        messages[row["id"]] = parse(row["data"])
    sql = (
        "select part.id, part.message_id, part.data from part"
        " join message on message.id = part.message_id where message.session_id = ?"
    )
    for row in read_rows(path, sql, session):
        parts.setdefault(row["message_id"], {})[row["id"]] = parse(row["data"])
    return [Message(data, list(parts.get(id, {}).values())) for id, data in messages.items()]


def _count_tree(storage: Path, oldest_pays: bool) -> Iterator[Session]:
    messages: dict[str, list[Message]] = {}
    parts: dict[str, list[JSON]] = {}
    for file in sorted((storage / "part").rglob("*.json")):
        data = read_json(file)
        parts.setdefault(str(get(data, "messageID") or file.parent.name), []).append(data)
    for file in sorted((storage / "message").rglob("*.json")):
        data = read_json(file) or {}
        found = parts.get(str(data.get("id") or file.stem), [])
        id = str(data.get("sessionID") or file.parent.name)
        messages.setdefault(id, []).append(Message(data, found))
    paths = {
        str(get(read_json(path), "id")): path for path in (storage / "session").rglob("*.json")
    }
    billed: set[JSON] = set()
    for id, found in sorted(messages.items(), reverse=oldest_pays):
        yield Session(paths.get(id, storage), id, _count_messages(found, billed))


def _count_messages(messages: list[Message], billed: set[JSON]) -> Counts:
    """Count a session; of a message that a fork copied only what the older session did not pay.

    A copy has another id, and the time of the original. Ids of sessions go down with time.
    """
    counts = Counts()
    for data, parts in messages:
        role = get(data, "role")
        written = [
            part
            for part in parts
            if get(part, "type") == "text"
            and not part.get("synthetic")
            and not part.get("ignored")
            and str(part.get("text") or "").strip()
        ]
        if role == "user":
            counts.prompts += bool(written)
            counts.prompts += sum(get(part, "type") == "subtask" for part in parts)
        elif role == "assistant":
            counts.replies += len(written) if data.get("summary") is not True else 0
            for part in parts:
                if get(part, "type") == "tool":
                    counts.calls += 1
                    counts.results += get(part, "state", "status") in ENDED
            made_at = get(data, "time", "created")
            if made_at not in billed:
                _add_tokens(counts, data.get("tokens"))
            billed.add(made_at)
    return counts


def _count_rows(rows: list[dict[str, JSON]]) -> Counts:
    """Count messages of 2.x, which hold their parts themselves."""
    counts = Counts()
    for row in rows:
        data = parse(row["data"]) or {}
        if row["type"] == "user":
            counts.prompts += bool(data.get("text"))
        elif row["type"] == "shell":
            counts.calls += 1
            counts.results += data.get("status") != "running"
        elif row["type"] == "assistant":
            for part in data.get("content") or ():
                counts.replies += part.get("type") == "text" and bool(part.get("text"))
                if part.get("type") == "tool":
                    counts.calls += 1
                    counts.results += get(part, "state", "status") in ENDED
            _add_tokens(counts, data.get("tokens"))
    return counts


def _add_tokens(counts: Counts, tokens: JSON) -> None:
    """Add what a message took. Output includes reasoning unless there is a total."""
    if isinstance(tokens, dict):
        reasoning = number(tokens.get("reasoning")) if "total" in tokens else 0
        counts.add_tokens(
            tokens.get("input"),
            number(tokens.get("output")) + reasoning,
            get(tokens, "cache", "read"),
            get(tokens, "cache", "write"),
        )


def _misplaced(session: Session) -> Counts:
    """Return what a session would pay more if forks paid for what they copied."""
    parents = session.path.parents
    root = next((path.parent for path in parents if path.name == "storage"), parents[0])
    for other in count(root, oldest_pays=False):
        if other.id == session.id:
            return other.counts - session.counts
    return Counts()


RULES = (
    Rule(
        "`usage` gives a fork the calls that it copied, for its id is the smaller one",
        lambda *_: Counts(),
        is_fault=True,
        in_usage=_misplaced,
    ),
)
