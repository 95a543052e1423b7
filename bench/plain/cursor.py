"""Cursor: the editor's database of keys and values, the command line's, and transcripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Session, blocks, get, number, parse, read_lines, read_rows

AGENT = "cursor"
FOLDERS = (".config/Cursor/User", ".cursor")
NOT_TEXT = ("thinking", "reasoning", "tool_use", "tool_result", "tool_call", "tool-result")
QUERY = re.compile(r"</?user_query>")


def count(root: Path) -> Iterator[Session]:
    for path in sorted(root.rglob("state.vscdb")):
        yield from _count_editor(path)
    for path in sorted(root.rglob("*.jsonl")):
        if "agent-transcripts" in path.parts:
            yield Session(path, path.stem, _count_transcript(list(read_lines(path))))


def _count_editor(path: Path) -> Iterator[Session]:
    bubbles: dict[str, list[JSON]] = {}
    sql = "select key, value from cursorDiskKV where key like 'bubbleId:%'"
    for row in read_rows(path, sql):
        bubbles.setdefault(row["key"].split(":")[1], []).append(parse(row["value"]))
    sql = "select key, value from cursorDiskKV where key like 'composerData:%'"
    for row in read_rows(path, sql):
        id = row["key"].split(":")[1]
        inline = get(parse(row["value"]), "conversation") or []
        yield Session(path, id, _count_bubbles(bubbles.get(id) or inline))
    sql = "select value from ItemTable where key = ?"
    for row in read_rows(path, sql, "workbench.panel.aichat.view.aichat.chatdata"):
        for tab in get(parse(row["value"]), "tabs") or ():
            yield Session(path, str(tab["tabId"]), _count_bubbles(tab.get("bubbles") or []))
    for row in read_rows(path, sql, "composer.composerData"):
        for composer in get(parse(row["value"]), "allComposers") or ():
            if composer.get("conversation"):
                counts = _count_bubbles(composer["conversation"])
                yield Session(path, str(composer["composerId"]), counts)


def _count_bubbles(bubbles: list[JSON]) -> Counts:
    counts = Counts()
    for bubble in bubbles:
        text = str(get(bubble, "text") or get(bubble, "rawText") or "").strip()
        if get(bubble, "type") in (1, "user"):
            counts.prompts += bool(text)
        elif get(bubble, "type") in (2, "ai"):
            counts.replies += bool(text)
            call = bubble.get("toolFormerData")
            counts.calls += bool(call)
            counts.results += get(call, "status") in ("completed", "error", "cancelled")
            tokens = bubble.get("tokenCount") or {}
            counts.add_tokens(tokens.get("inputTokens"), number(tokens.get("outputTokens")))
    return counts


def _count_transcript(records: list[JSON]) -> Counts:
    counts = Counts()
    for record in records:
        content = get(record, "message", "content")
        kinds = [str(block.get("type")).replace("-", "_") for block in blocks(content)]
        written = [
            block["text"]
            for block in blocks(content)
            if isinstance(block.get("text"), str) and block.get("type") not in NOT_TEXT
        ]
        written = [
            text for text in written if QUERY.sub("", text).strip() not in ("", "[REDACTED]")
        ]
        if record.get("role") == "user":
            counts.prompts += bool(written)
        elif record.get("role") == "assistant":
            counts.replies += len(written)
        counts.calls += kinds.count("tool_use") + kinds.count("tool_call")
        counts.results += kinds.count("tool_result")
    return counts
