"""Gemini CLI: a document, or since 0.39 a log of messages in which the last of an id counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Session, blocks, get, number, read_json, read_lines, starts

AGENT = "gemini_cli"
FOLDERS = (".gemini/tmp",)
NOT_PROMPTS = ("/", "?", "<session_context>", "<hook_context>", "<state_snapshot>")


def count(root: Path, thoughts_apart: bool = True) -> Iterator[Session]:
    for path in sorted((*root.rglob("*.json"), *root.rglob("*.jsonl"))):
        twin = path.with_suffix(".jsonl")
        if "chats" not in path.parts or (path != twin and twin.exists()):
            continue
        header, messages = _messages(path)
        yield Session(
            path,
            str(header.get("sessionId") or path.stem),
            count_messages(messages, thoughts_apart),
        )


def _messages(path: Path) -> tuple[JSON, list[JSON]]:
    if path.suffix == ".json":
        document = read_json(path)
        document = document if isinstance(document, dict) else {}
        return document, document.get("messages") or document.get("history") or []
    header: JSON = {}
    messages: dict[str, JSON] = {}
    for record in read_lines(path):
        if "$set" in record:
            for message in get(record, "$set", "messages") or ():
                messages[str(message.get("id"))] = message
        elif "id" in record and "type" in record:
            messages[str(record["id"])] = record
        elif "sessionId" in record:
            header = header or record
    return header, list(messages.values())


def count_messages(messages: list[JSON], thoughts_apart: bool = True) -> Counts:
    counts = Counts()
    answered: set[str] = set()
    for message in messages:
        kind = message.get("type") or message.get("role")
        content = message.get("content") or message.get("parts")
        if kind == "user":
            _add_user(counts, content, message.get("displayContent"))
            for part in blocks(content):
                response = part.get("functionResponse")
                counts.results += bool(response) and str(get(response, "id")) not in answered
        elif kind in ("gemini", "model", "qwen"):
            counts.replies += bool(_text(content))
            for call in message.get("toolCalls") or ():
                counts.calls += 1
                if call.get("status") in ("success", "error", "cancelled"):
                    counts.results += 1
                    answered.add(str(call.get("id")))
            tokens = message.get("tokens") or {}
            cached = number(tokens.get("cached"))
            counts.add_tokens(
                number(tokens.get("input")) - cached + number(tokens.get("tool")),
                number(tokens.get("output")) + thoughts_apart * number(tokens.get("thoughts")),
                cached,
            )
    return counts


def _add_user(counts: Counts, content: JSON, displayed: JSON) -> None:
    parts = blocks(content)
    text = _text(displayed) or _text(content)
    picture = any("inlineData" in part for part in parts)
    counts.prompts += (bool(text) and not starts(text, NOT_PROMPTS)) or (picture and not text)


def _text(content: JSON) -> str:
    content = [content] if isinstance(content, dict) else content
    return "".join(str(part.get("text") or "") for part in blocks(content)).strip()
