"""pi: a tree of entries in JSON lines; every branch counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Session, blocks, get, read_lines, texts

AGENT = "pi"
FOLDERS = (".pi/agent/sessions",)


def count(root: Path) -> Iterator[Session]:
    """Count files, the oldest first: it pays for what a fork copied."""
    found = []
    for path in root.rglob("*.jsonl"):
        records = list(read_lines(path))
        header = next((record for record in records if record.get("type") == "session"), None)
        if header:
            found.append((str(header.get("timestamp")), path, header, records))
    billed: set[str] = set()
    for _, path, header, records in sorted(found, key=lambda item: item[:2]):
        yield Session(path, str(header.get("id") or path.stem), count_entries(records, billed))


def count_entries(records: list[JSON], billed: set[str]) -> Counts:
    counts = Counts()
    for record in records:
        usage = record.get("usage")
        message = record.get("message") if record.get("type") == "message" else None
        if isinstance(message, dict):
            _add_message(counts, message)
            usage = message.get("usage")
        key = f"{record.get('id')} {record.get('timestamp')} {usage}"
        if isinstance(usage, dict) and key not in billed:
            billed.add(key)
            counts.add_tokens(
                *(usage.get(name) for name in ("input", "output", "cacheRead", "cacheWrite"))
            )
    return counts


def _add_message(counts: Counts, message: JSON) -> None:
    role, content = message.get("role"), message.get("content")
    if role == "user":
        pictures = any(get(block, "type") == "image" for block in blocks(content))
        counts.prompts += bool(texts(content)) or pictures
    elif role == "assistant":
        counts.replies += len(texts(content))
        counts.calls += sum(block.get("type") == "toolCall" for block in blocks(content))
    elif role == "toolResult":
        counts.results += 1
    elif role == "bashExecution":  # A person's own command.
        counts.calls += 1
        counts.results += 1
