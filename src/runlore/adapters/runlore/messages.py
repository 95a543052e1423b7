"""The blocks of messages in a live session log, and the texts of results. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..shared.tools import blob_reference, text_of

_EXIT = re.compile(r"\[exit code: (-?\d{1,9})\]\s*\Z")


def blocks_of(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield the blocks of a message, each with its type, guessed where it is lost."""
    if isinstance(content, str):
        yield "text", {"text": content}
        return
    for block in content if isinstance(content, list) else [] if content is None else [content]:
        if isinstance(block, str):
            yield "text", {"text": block}
        elif isinstance(block, dict):
            kind = block.get("type")
            yield kind if isinstance(kind, str) and kind else _guess(block), block
        else:
            yield "unknown", block


def _guess(block: Mapping[str, Any]) -> str:
    names = (
        ("tool_use_id", "tool_result"),
        ("input", "tool_use"),
        ("thinking", "thinking"),
        ("text", "text"),
        ("source", "image"),
    )
    return next((kind for name, kind in names if name in block), "unknown")


def text_in(block: Mapping[str, Any]) -> str | None:
    """Return the text of a text or thinking block; None when it has none."""
    text = block.get("thinking", block.get("text"))
    return text if isinstance(text, str) else None


def result_text(block: Mapping[str, Any]) -> str:
    """Return the text of a tool's result, as the model was given it."""
    for name in ("content", "model_text", "output", "display_text"):
        value = block.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "\n".join([_part(part) for part in value])
    rest = {
        name: value
        for name, value in block.items()
        if name not in ("type", "tool_use_id", "is_error")
    }
    return text_of(rest) if rest else ""


def _part(part: Any) -> str:
    if isinstance(part, dict):
        if isinstance(text := part.get("text"), str):
            return text
        if isinstance(part.get("source"), dict):
            return shown(part)
    return text_of(part)


def shown(block: Mapping[str, Any]) -> str:
    """Return a picture or a document as a text: its kind and size, or its place."""
    source = block.get("source")
    data = source.get("data") if isinstance(source, dict) else block.get("data")
    if isinstance(data, str):
        return blob_reference(data)
    return text_of(source if source is not None else block)


def exit_of(block: Mapping[str, Any], text: str) -> int | None:
    """Return the exit code of a command, where its result has it."""
    about = block.get("metadata")
    for code in (
        block.get("exit_code"),
        about.get("exit_code") if isinstance(about, dict) else None,
    ):
        if type(code) is int and abs(code) < 1 << 31:
            return code
    match = _EXIT.search(text, max(0, len(text) - 40))
    return int(match[1]) if match else None


def headline(kind: str, payload: Mapping[str, Any]) -> str:
    """Return one line for a record that has no rule of its own: its type, and its first fields."""
    fields = [
        f"{name}: {value}"
        for name, value in payload.items()
        if isinstance(value, str | int | float) and name != "run"
    ]
    return f"{kind} {', '.join(fields[:4])}".strip()
