"""Errors that are told as JSON, by tools and by services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json import JSONDecodeError, loads
from typing import Any

from .error_forms import Line
from .error_lines import find
from .text import whole

_LARGEST_JSON = 64 << 10


def object_in(body: str) -> dict[str, Any] | None:
    """An object that is all of a body, but for a few lines that the tool put in front of it."""
    start = 0 if body[:1] == "{" else body.find("\n{", 0, 400) + 1
    if (start == 0 and body[:1] != "{") or len(body) > _LARGEST_JSON or body.rstrip()[-1:] != "}":
        return None
    try:
        data = loads(body[start:])
    except (JSONDecodeError, RecursionError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def is_success(data: Mapping[str, Any]) -> bool:
    """A result that says of itself that it is one."""
    if any(data.get(key) for key in ("error", "errors", "detail", "exception", "stderr")):
        return False
    if data.get("success") is True or data.get("ok") is True or data.get("is_error") is False or data.get("isError") is False:
        return True
    status = data.get("status")
    return isinstance(status, str) and status.lower() in ("ok", "success", "completed", "done", "passed")


def line_of_json(body: str) -> Line | None:
    data = object_in(body)
    return line_of_object(data) if data is not None else None


def line_of_object(data: Mapping[str, Any]) -> Line | None:
    """The message of an error that is told as JSON, with its status and its type; nested at most a few levels deep."""
    words: list[str] = []
    name = ""
    here: Any = data
    for _ in range(4):
        if not isinstance(here, Mapping):
            break
        status = here.get("status") or here.get("status_code") or here.get("statusCode")
        if isinstance(status, int) and status >= 400:
            words.append(f"HTTP {status}")
        code = here.get("code") or here.get("type")
        if isinstance(code, str) and code.lower() not in ("error", "object", "result") and len(code) < 60:
            name = code
        inner = here.get("error") or here.get("errors") or here.get("detail") or here.get("message") or here.get("stderr")
        if isinstance(inner, Sequence) and not isinstance(inner, str):
            inner = inner[0] if inner else None
        if isinstance(inner, str):
            words.append(inner)
            break
        here = inner
    text, name = whole(" ".join(words)[:400]), whole(name)
    if not text:
        return None
    line = find(text)
    return Line("json", f"{name}: {line.message if line else text}" if name else (line.message if line else text), text, name)
