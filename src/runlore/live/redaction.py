"""Remove the content of a record and keep its shape. Pure.

The conversation keeps its shape: roles, calls and the results of calls stay, so that what a model
would see is still valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..model import LogRecord

MARKS = ("[redacted]", "-", "")
"""What stands for a removed text, the first that is no longer than what was there."""

LEFT: dict[str, frozenset[str]] = {
    "session": frozenset({"version", "origin", "parent", "call"}),
    "tool_started": frozenset({"call_id", "name", "replay", "owner"}),
    "tool_waiting": frozenset({"call_id"}),
    "tool_decided": frozenset({"call_id", "approved"}),
    "tool_finished": frozenset({"call_id", "is_error"}),
    "compact": frozenset({"upto", "compacted_count"}),
    "rewind": frozenset({"seq"}),
    "redo": frozenset({"seq"}),
}
"""The fields that stay, by the type of the record. Of a run's records the run stays."""
RUN = frozenset({"run", "replaces", "owner", "attempt"})
TEXTS = {"tool_finished": "output", "compact": "summary"}
"""The field whose place a mark takes."""
IDS = ("id", "tool_use_id", "name", "is_error")


def redacted(record: LogRecord, mark: str) -> dict[str, Any]:
    """Return the payload without its content."""
    payload = record.payload
    if record.type in ("message", "partial"):
        return _message(payload, mark)
    kept = LEFT.get(record.type, RUN if record.type.startswith(("state.", "skill.")) else ())
    left = {name: value for name, value in payload.items() if name in kept}
    if record.type in TEXTS:
        left[TEXTS[record.type]] = mark
    return left


def hashes(value: Any) -> Iterator[str]:
    """Yield the hashes of the outputs that a payload refers to."""
    if isinstance(value, dict):
        sha = value.get("sha256")
        if isinstance(sha, str):
            yield sha
        for part in value.values():
            yield from hashes(part)
    elif isinstance(value, list):
        for part in value:
            yield from hashes(part)


def _message(message: dict[str, Any], mark: str) -> dict[str, Any]:
    content = message.get("content")
    left: dict[str, Any] = {"role": message.get("role")}
    left["content"] = (
        [_block(block, mark) for block in content] if isinstance(content, list) else mark
    )
    if isinstance(message.get("tool_call_id"), str):
        left["tool_call_id"] = message["tool_call_id"]
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        left["tool_calls"] = [_call(call) for call in calls if isinstance(call, dict)]
    if "stream" in message:
        left["stream"] = message["stream"]
    return left


def _block(block: Any, mark: str) -> dict[str, Any]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in ("tool_use", "tool_result"):
        return {"type": "text", "text": mark}
    left = {"type": kind, **{name: block[name] for name in IDS if name in block}}
    return {**left, "input": {}} if kind == "tool_use" else {**left, "content": mark}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    name = function.get("name") if isinstance(function, dict) else ""
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": name, "arguments": "{}"},
    }
