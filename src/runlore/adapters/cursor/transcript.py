"""Transcripts of Cursor as plain text, in which only the first words of a line tell what it is.
Pure."""

from __future__ import annotations

import re
from typing import Any

from ..shared.calls import opened

_HEADS = {"user:": "user", "assistant:": "assistant"}
_MARK = re.compile(r"\[(Thinking|Tool call|Tool result)\] ?(.*)")


def messages(text: str) -> list[dict[str, Any]]:
    """The messages of a transcript, as its newer form has them."""
    found: list[dict[str, Any]] = []
    for line in text.split("\n"):
        role = _HEADS.get(line.strip())
        if role is not None and not line[:1].isspace():
            found.append({"role": role, "content": []})
        elif found:
            _add(found[-1]["content"], line.rstrip("\r"))
    return [
        {
            "role": message["role"],
            "message": {"content": [_block(block) for block in message["content"]]},
        }
        for message in found
    ]


def _add(blocks: list[dict[str, Any]], line: str) -> None:
    if mark := _MARK.fullmatch(line):
        blocks.append({"type": mark[1], "name": mark[2].strip(), "lines": []})
        if mark[1] == "Thinking" and mark[2]:
            blocks[-1]["lines"].append(mark[2])
        return
    is_body = (
        blocks
        and blocks[-1]["type"] in ("Tool call", "Tool result")
        and (line[:1].isspace() or not line.strip())
    )
    if not blocks or not (is_body or blocks[-1]["type"] in ("text", "Thinking")):
        blocks.append({"type": "text", "name": "", "lines": []})
    blocks[-1]["lines"].append(line)


def _block(block: dict[str, Any]) -> dict[str, Any]:
    body = "\n".join(block["lines"]).strip("\n")
    if block["type"] == "Tool call":
        return {"type": "tool_use", "name": block["name"], "input": _given(block["lines"])}
    if block["type"] == "Tool result":
        return {
            "type": "tool_result",
            "name": block["name"],
            "content": "\n".join(line.removeprefix("  ") for line in block["lines"]).strip("\n"),
        }
    return (
        {"type": "thinking", "thinking": body}
        if block["type"] == "Thinking"
        else {"type": "text", "text": body}
    )


def _given(lines: list[str]) -> Any:
    """Arguments are JSON, or `name=value` on a line each; what follows on further lines belongs to
    the value."""
    text = "\n".join(lines).strip()
    value = opened(text)
    if not isinstance(value, str):
        return value
    found: dict[str, str] = {}
    last = ""
    for line in lines:
        name, mark, rest = line.strip().partition("=")
        if mark and name.isidentifier():
            last, found[name] = name, rest
        elif last and line.strip():
            found[last] += "\n" + line.strip()
    return found
