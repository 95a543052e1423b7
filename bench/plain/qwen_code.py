"""Qwen Code: JSON lines with the parts of Gemini; before 0.5 the documents of Gemini CLI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from . import gemini_cli
from .values import JSON, Counts, Session, get, number, read_lines

AGENT = "qwen_code"
FOLDERS = (".qwen",)
Request = tuple[int, int, int]
NOT_PROMPTS = ("notification", "cron", "goal_runtime")


def count(root: Path) -> Iterator[Session]:
    if (root / "tmp").exists():
        yield from gemini_cli.count(root / "tmp", thoughts_apart=False)
    for path in sorted(path for path in root.rglob("*.jsonl") if "tmp" not in path.parts[-5:]):
        records = list(
            {str(one.get("uuid") or at): one for at, one in enumerate(read_lines(path))}.values()
        )
        if not records:
            continue
        id = str(records[0].get("sessionId") or path.stem)
        counts = _count(records)
        main = path.parents[2] / "chats" / f"{id}.jsonl"
        if path.parents[1].name == "subagents":
            id = f"{id}/{path.stem}"
            if main.exists() and _telemetry(list(read_lines(main))):
                counts = replace(counts, input=0, output=0, cache_read=0, cache_write=0)
        yield Session(path, id, counts)


def _count(records: list[JSON]) -> Counts:
    counts = Counts()
    results: set[str] = set()
    for record in records:
        parts = [part for part in get(record, "message", "parts") or () if isinstance(part, dict)]
        if record.get("type") == "user":
            injected = record.get("subtype") in NOT_PROMPTS
            counts.prompts += not injected and any(part.get("text") for part in parts)
        elif record.get("type") == "assistant":
            counts.replies += sum(
                bool((part.get("text") or "").strip()) and not part.get("thought") for part in parts
            )
            counts.calls += sum("functionCall" in part for part in parts)
        elif record.get("type") == "tool_result":
            told = [get(part, "functionResponse", "id") for part in parts]
            results.update(str(id) for id in (*told, get(record, "toolCallResult", "callId")) if id)
    counts.results = len(results)
    for (whole, output, cached), times in (_own(records) | _telemetry(records)).items():
        for _ in range(times):
            counts.add_tokens(whole - cached, output, cached)
    return counts


def _own(records: list[JSON]) -> Counter[Request]:
    """Return the requests of the agent itself: input with what was cached, output, cached."""
    names = ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount")
    found: dict[str, Request] = {}
    for at, record in enumerate(records):
        if record.get("type") == "assistant" and (usage := record.get("usageMetadata")):
            found[str(record.get("uuid") or at)] = _request(usage, names)
    return Counter(found.values())


def _telemetry(records: list[JSON]) -> Counter[Request]:
    """Return the requests that telemetry has: those of subagents and suggestions too."""
    names = ("input_token_count", "output_token_count", "cached_content_token_count")
    found: dict[str, Request] = {}
    for at, record in enumerate(records):
        event = get(record, "systemPayload", "uiEvent") or {}
        if event.get("event.name") == "qwen-code.api_response":
            found[str(event.get("response_id") or at)] = _request(event, names)
    return Counter(found.values())


def _request(usage: JSON, names: tuple[str, str, str]) -> Request:
    whole, output, cached = (number(usage.get(name)) for name in names)
    return whole, output, cached
