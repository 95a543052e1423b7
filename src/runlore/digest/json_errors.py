"""Errors that tools and services report as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json import JSONDecodeError, loads
from typing import Any

from .error_forms import ErrorLine
from .error_lines import find_error_line
from .text import replace_surrogates

MAX_JSON_CHARS = 64 << 10
MAX_DEPTH = 4
"""Levels of nested objects that are followed to a message."""
_INNER = ("error", "errors", "detail", "message", "stderr")
"""The fields that hold a message or an object with one, in the order in which they are looked
at."""


def parse_object(body: str) -> dict[str, Any] | None:
    """Return the JSON object that a body consists of, apart from a few lines before it."""
    start = 0 if body[:1] == "{" else body.find("\n{", 0, 400) + 1
    if (start == 0 and body[:1] != "{") or len(body) > MAX_JSON_CHARS or body.rstrip()[-1:] != "}":
        return None
    try:
        data = loads(body[start:])
    except (JSONDecodeError, RecursionError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def is_success(data: Mapping[str, Any]) -> bool:
    """Return True for a result that calls itself a success."""
    if any(data.get(key) for key in ("error", "errors", "detail", "exception", "stderr")):
        return False
    if (
        data.get("success") is True
        or data.get("ok") is True
        or data.get("is_error") is False
        or data.get("isError") is False
    ):
        return True
    status = data.get("status")
    return isinstance(status, str) and status.lower() in (
        "ok",
        "success",
        "completed",
        "done",
        "passed",
    )


def find_json_error(body: str) -> ErrorLine | None:
    """Return the error of a body that is a JSON object; None if it is none."""
    data = parse_object(body)
    return find_object_error(data) if data is not None else None


def find_object_error(data: Mapping[str, Any]) -> ErrorLine | None:
    """Return the message of an error that is reported as JSON, with its status and its type."""
    words: list[str] = []
    name = ""
    here: Any = data
    for _ in range(MAX_DEPTH):
        if not isinstance(here, Mapping):
            break
        if status := _http_status(here):
            words.append(status)
        if (code := _error_type(here)) is not None:
            name = code
        here = _inner(here)
        if isinstance(here, str):
            words.append(here)
            break
    text, name = replace_surrogates(" ".join(words)[:400]), replace_surrogates(name)
    if not text:
        return None
    line = find_error_line(text)
    message = line.message if line else text
    return ErrorLine("json", f"{name}: {message}" if name else message, text, name)


def _http_status(data: Mapping[str, Any]) -> str:
    status = data.get("status") or data.get("status_code") or data.get("statusCode")
    return f"HTTP {status}" if isinstance(status, int) and status >= 400 else ""


def _error_type(data: Mapping[str, Any]) -> str | None:
    code = data.get("code") or data.get("type")
    is_type = (
        isinstance(code, str)
        and code.lower() not in ("error", "object", "result")
        and len(code) < 60
    )
    return str(code) if is_type else None


def _inner(data: Mapping[str, Any]) -> Any:
    """Return what a message or the next object is in; of a list its first entry."""
    inner = next((value for key in _INNER if (value := data.get(key))), None)
    if isinstance(inner, Sequence) and not isinstance(inner, str):
        return inner[0] if inner else None
    return inner
