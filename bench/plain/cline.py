"""Cline: documents of messages since the SDK; before, a folder for each task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import roo
from .values import JSON, Counts, Session, blocks, get, number, read_json, texts

AGENT = "cline"
RULES = roo.RULES
FOLDERS = (".cline/data", f"{roo.STORAGE}/saoudrizwan.claude-dev")


def count(root: Path) -> Iterator[Session]:
    yield from roo.count(root, whole_since_ms=1 << 62)
    for path in sorted(root.rglob("*.messages.json")):
        document = read_json(path)
        id = str(get(document, "sessionId") or path.name.split(".")[0])
        yield Session(path, id, _count(get(document, "messages") or []))


def _count(messages: list[JSON]) -> Counts:
    counts = Counts()
    for message in messages:
        content = message.get("content")
        kinds = [block.get("type") for block in blocks(content)]
        is_summary = get(message, "metadata", "kind") == "compaction"
        if message.get("role") == "user":
            counts.prompts += bool(texts(content)) and not is_summary
        elif message.get("role") == "assistant":
            counts.replies += len(texts(content))
        counts.calls += kinds.count("tool_use")
        counts.results += kinds.count("tool_result")
        usage = message.get("metrics") or {}
        read, write = (number(usage.get(name)) for name in ("cacheReadTokens", "cacheWriteTokens"))
        into = number(usage.get("inputTokens")) - read - write
        counts.add_tokens(into, usage.get("outputTokens"), read, write)
    return counts
