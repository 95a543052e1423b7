"""Grok Build: a log of updates; where there is none, what the model saw last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Session, get, number, read_json, read_lines, texts

AGENT = "grok"
FOLDERS = (".grok/sessions",)


def count(root: Path) -> Iterator[Session]:
    folders = {path.parent for name in ("updates", "chat_history") for path in _logs(root, name)}
    for folder in sorted(folders):
        path = folder / "updates.jsonl"
        summary = read_json(folder / "summary.json")
        id = str(get(summary, "info", "id") or folder.name)
        if path.exists():
            yield Session(path, id, _count_updates(list(read_lines(path))))
        else:
            path = folder / "chat_history.jsonl"
            yield Session(path, id, _count_history(list(read_lines(path))))


def _logs(root: Path, name: str) -> list[Path]:
    return list(root.rglob(f"{name}.jsonl"))


def _count_updates(records: list[JSON]) -> Counts:
    counts = Counts()
    calls: set[str] = set()
    results: set[str] = set()
    events: set[str] = set()
    last: JSON = None
    for record in records:
        params = record.get("params") or record
        event = get(params, "_meta", "eventId")
        if event in events:
            continue
        if event:
            events.add(event)
        update = params.get("update") or {}
        tag = update.get("sessionUpdate")
        if tag in ("user_message_chunk", "agent_message_chunk"):
            run = (tag, get(update, "_meta", "promptIndex"))
            if texts([update.get("content") or {}]):
                counts.prompts += tag == "user_message_chunk" and run != last
                counts.replies += tag == "agent_message_chunk"
            last = run
            continue
        last = None
        if tag == "tool_call":
            calls.add(str(update.get("toolCallId")))
        elif tag == "tool_call_update" and update.get("status") in ("completed", "failed"):
            results.add(str(update.get("toolCallId")))
        elif tag == "turn_completed":
            usage = update.get("usage") or {}
            cached, written = (
                number(usage.get(name)) for name in ("cachedReadTokens", "cacheCreationTokens")
            )
            counts.add_tokens(
                number(usage.get("inputTokens")) - cached - written,
                usage.get("outputTokens"),
                cached,
                written,
            )
    counts.calls, counts.results = len(calls), len(results)
    return counts


def _count_history(records: list[JSON]) -> Counts:
    counts = Counts()
    is_numbered = any("prompt_index" in record for record in records)
    for record in records:
        kind = record.get("type") or record.get("role")
        if kind == "user":
            reason = record.get("synthetic_reason")
            is_human = reason is None and ("prompt_index" in record or not is_numbered)
            written = bool(texts(record.get("content")))
            counts.prompts += written and (is_human or reason == "interjection")
        elif kind == "assistant":
            counts.replies += bool(texts(record.get("content")))
            calls = record.get("tool_calls") or ()
            counts.calls += sum(bool(get(c, "name") or get(c, "function", "name")) for c in calls)
        elif kind in ("tool_result", "tool"):
            counts.results += 1
        elif kind == "backend_tool_call":
            counts.calls += 1
    return counts
