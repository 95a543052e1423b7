"""Texts in Grok Build's transcripts: blocks of content, prompts, summaries, hooks. Pure."""

from __future__ import annotations

import re
from typing import Any

from ..shared.jsonl import parse
from ..shared.pick import pick
from ..shared.tools import blob_reference, file_change, text_of

_WRAPPER = re.compile(
    r"\s*<(fork-context|resume-context|background_context|user_info|system-reminder)\b"
)
_QUERY = ("<user_query>", "</user_query>")
_TAG = re.compile(r"\s*<[a-z][a-z_-]*[ >]")


def contents(update: dict[str, Any]) -> list[Any]:
    return listed(update.get("content"))


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def block_text(block: Any) -> str:
    """Return a block of content for reading: its text, or a short reference."""
    if not isinstance(block, dict):
        return text_of(block)
    if (text := pick(block, "text", of=str)) is not None:
        return text
    if isinstance(block.get("content"), dict):
        return block_text_once(block["content"])
    return diff_text(block) or block_text_once(block)


def block_text_once(block: dict[str, Any]) -> str:
    for path in (("text",), ("resource", "text")):
        if (text := pick(block, *path, of=str)) is not None:
            return text
    data = (
        pick(block, "data", of=str)
        or pick(block, "resource", "blob", of=str)
        or pick(block, "url", of=str)
    )
    if data is not None:
        return (
            blob_reference(data.partition(";base64,")[2])
            if data.startswith("data:")
            else _blob(data)
        )
    kind = pick(block, "type", of=str) or "unknown"
    where = (
        pick(block, "uri", of=str)
        or pick(block, "resource", "uri", of=str)
        or pick(block, "terminalId", of=str)
        or ""
    )
    return f"[{kind}{' ' + where if where else ''}]"


def is_text(block: Any) -> bool:
    return isinstance(block, str) or pick(block, "text", of=str) is not None


def diff_text(item: Any) -> str | None:
    if pick(item, "type", of=str) != "diff":
        return None
    return file_change(
        text_of(item.get("path")), [(text_of(item.get("oldText")), text_of(item.get("newText")))]
    )


def _blob(data: str) -> str:
    return (
        f"[{data}]" if data.startswith(("http://", "https://", "file:")) else blob_reference(data)
    )


def unwrap(text: str) -> tuple[str, str]:
    """Return the text that a person typed, and the text that the program put before it."""
    start = 0
    while match := _WRAPPER.match(text, start):
        end = text.find(f"</{match[1]}>", match.end())
        if end < 0:
            break
        start = end + len(match[1]) + 3
    rest = text[start:].strip() if start else text
    if rest.lstrip().startswith(_QUERY[0]) and rest.rstrip().endswith(_QUERY[1]):
        rest = rest.strip()[len(_QUERY[0]) : -len(_QUERY[1])].strip()
    return rest, text[:start].strip()


def is_tagged(text: str) -> bool:
    """Return True if a text begins with a tag, like all texts of the program with the role of the
    user."""
    return _TAG.match(text) is not None


def summary_in(checkpoint: str | None) -> str | None:
    """Return the summary of a compaction: the messages of its checkpoint that are marked as
    that."""
    value = update_of(checkpoint)
    texts = [
        "\n".join(block_text(block) for block in contents(item))
        for item in pick(value, "compacted_history", of=list) or []
        if pick(item, "synthetic_reason", of=str) == "compaction_meta"
    ]
    return "\n\n".join(texts) or None


def update_of(text: str | None) -> dict[str, Any]:
    return (
        next(
            (
                value
                for value, _, _ in parse(text.encode("utf-8", "replace"))
                if isinstance(value, dict)
            ),
            {},
        )
        if text
        else {}
    )


def hook_line(run: dict[str, Any]) -> str:
    status = pick(run, "status", of=dict) or {}
    parts = [
        text_of(run.get("name")),
        pick(status, "status", of=str) or "unknown",
        text_of(status.get("error")),
    ]
    return ": ".join(part for part in parts if part)
