"""Kimi: the wire log of Kimi CLI, or else its context; and the wire log of Kimi Code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from .values import JSON, Counts, Session, get, read_lines, starts, texts

AGENT = "kimi"
FOLDERS = (".kimi/sessions", ".kimi-code/sessions")


def count(root: Path) -> Iterator[Session]:
    for folder in sorted({path.parent for path in root.rglob("*.jsonl")}):
        wire, context = folder / "wire.jsonl", folder / "context.jsonl"
        records = list(read_lines(wire)) if wire.exists() else []
        is_code = any("." in str(record.get("type")) for record in records)
        if is_code:
            yield Session(wire, _code_id(folder), _count_code(records))
        elif any("message" in record for record in records):
            yield Session(wire, folder.name, _count_wire(_with_subagents(records, folder)))
        elif context.exists():
            yield Session(context, folder.name, _count_context(list(read_lines(context))))


def _code_id(folder: Path) -> str:
    """The session's folder; its subagents have the name of their own folder too."""
    if folder.parent.name != "agents":
        return folder.name
    session = folder.parent.parent.name
    return session if folder.name == "main" else f"{session}/{folder.name}"


def _with_subagents(records: list[JSON], folder: Path) -> Iterator[JSON]:
    """Yield the records, with those of subagents that have no log of their own."""
    for record in records:
        payload = get(record, "message", "payload")
        if get(record, "message", "type") != "SubagentEvent":
            yield record
        elif not (folder / "subagents" / str(get(payload, "agent_id")) / "wire.jsonl").exists():
            yield {"message": get(payload, "event")}


def _count_wire(records: Iterable[JSON]) -> Counts:
    counts = Counts()
    last = None
    for record in records:
        kind, payload = get(record, "message", "type"), get(record, "message", "payload") or {}
        if kind in ("TurnBegin", "SteerInput"):
            counts.prompts += bool(texts(payload.get("user_input")))
        elif kind == "ContentPart" and payload.get("type") == "text":
            counts.replies += bool((payload.get("text") or "").strip()) and last != "text"
        elif kind == "ToolCall":
            counts.calls += 1
        elif kind == "ToolResult":
            counts.results += 1
        elif kind == "StatusUpdate":
            usage = payload.get("token_usage") or {}
            counts.add_tokens(
                usage.get("input_other"),
                usage.get("output"),
                usage.get("input_cache_read"),
                usage.get("input_cache_creation"),
            )
        last = payload.get("type") if kind == "ContentPart" else None
    return counts


def _count_context(records: list[JSON]) -> Counts:
    counts = Counts()
    for record in records:
        role, content = record.get("role"), record.get("content")
        if role == "user":
            written = texts(content)
            counts.prompts += bool(written) and not starts(written[0], ("<system>", "<system-"))
        elif role == "assistant":
            counts.replies += bool(texts(content))
            counts.calls += len(record.get("tool_calls") or ())
        elif role == "tool":
            counts.results += 1
    return counts


def _count_code(records: list[JSON]) -> Counts:
    counts = Counts()
    for record in records:
        kind, event = record.get("type"), record.get("event") or {}
        if kind in ("turn.prompt", "turn.steer"):
            counts.prompts += get(record, "origin", "kind") in (None, "user", "system_trigger")
        elif kind == "usage.record" and record.get("usageScope") == "session":
            _add_usage(counts, record.get("usage"))  # A compaction; others repeat a step's.
        elif kind == "context.append_loop_event":
            part = event.get("part") or {}
            if event.get("type") == "content.part":
                counts.replies += part.get("type") == "text" and bool(texts([part]))
            counts.calls += event.get("type") == "tool.call"
            counts.results += event.get("type") == "tool.result"
            if event.get("type") == "step.end":
                _add_usage(counts, event.get("usage"))
    return counts


def _add_usage(counts: Counts, usage: JSON) -> None:
    names = ("inputOther", "output", "inputCacheRead", "inputCacheCreation")
    counts.add_tokens(*(get(usage, name) for name in names))
