"""hive: a graph agent's parts and logs, or the events of a queen or a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Session, get, number, read_json, read_lines, texts

AGENT = "hive"
FOLDERS = (".hive",)


def count(root: Path) -> Iterator[Session]:
    """Texts are in the parts of a conversation; calls and tokens are in the logs."""
    for path in sorted(root.rglob("events.jsonl")):
        counts = _count_events(list(read_lines(path)))
        if (path.parent / "conversations").is_dir():
            counts.prompts = counts.replies = 0
            _add_parts(counts, path.parent)
        yield Session(path, path.parent.name, counts)
    for path in sorted(root.rglob("state.json")):
        counts = Counts()
        ids = _add_parts(counts, path.parent)
        _add_steps(counts, path.parent, ids)
        yield Session(path, path.parent.name, counts)


def _count_events(records: list[JSON]) -> Counts:
    counts = Counts()
    texts_by_turn: dict[tuple[JSON, ...], str] = {}
    for record in records:
        kind, data = record.get("type"), record.get("data") or {}
        if kind == "client_input_received":
            counts.prompts += bool(data.get("content"))
        elif kind == "client_output_delta":
            turn = (record.get("execution_id"), data.get("iteration"), data.get("inner_turn"))
            texts_by_turn[turn] = data.get("snapshot") or data.get("content") or ""
        elif kind == "tool_call_started":
            counts.calls += 1
        elif kind == "tool_call_completed":
            counts.results += 1
        elif kind == "llm_turn_complete":
            read = number(data.get("cached_tokens"))
            write = number(data.get("cache_creation_tokens"))
            into = number(data.get("input_tokens")) - read - write
            counts.add_tokens(into, data.get("output_tokens"), read, write)
    counts.replies = sum(bool(text.strip()) for text in texts_by_turn.values())
    return counts


def _add_parts(counts: Counts, folder: Path) -> list[str]:
    """Add the texts, and return the ids of the calls."""
    conversations = folder / "conversations"
    parts = [*conversations.rglob("parts/*.json"), *conversations.rglob("partials/*.json")]
    calls: list[str] = []
    for path in sorted(parts):
        part = read_json(path) or {}
        role, written = part.get("role"), texts(part.get("content"))
        injected = part.get("is_system_reminder") or part.get("is_system_nudge")
        judged = written and written[0].startswith("[Judge feedback]")
        counts.prompts += role == "user" and bool(written) and not injected and not judged
        counts.replies += role == "assistant" and bool(written)
        calls += [str(get(call, "id")) for call in part.get("tool_calls") or ()]
    return calls


def _add_steps(counts: Counts, folder: Path, ids: list[str]) -> None:
    """Add the calls of the log, and those that only a conversation has (`ids`)."""
    path = folder / "logs" / "tool_logs.jsonl"
    logged: set[str] = set()
    for record in read_lines(path) if path.exists() else ():
        for call in record.get("tool_calls") or ():
            logged.add(str(get(call, "tool_use_id")))
            counts.calls += 1
            counts.results += get(call, "result") is not None
        counts.add_tokens(record.get("input_tokens"), record.get("output_tokens"))
    others = [id for id in ids if id not in logged]
    counts.calls += len(others)
    counts.results += len(others)
