"""The blocks of a message, the calls, the usage and the checks in a live session log.

Pure. Agents that people write themselves have tools of any name, so the arguments of a call decide
about its meaning before its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ...model import Usage, split_cache_writes
from ..shared.tools import (
    blob_reference,
    file_change,
    file_content,
    is_test_run,
    key_values,
    one_line,
    text_of,
)

# A larger count is damage. The sum over a million events still fits a database column.
MAX_COUNT = 1 << 40

# ── messages ──────────────────────────────────────────────────────────────────────────────────────


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


_EXIT = re.compile(r"\[exit code: (-?\d{1,9})\]\s*\Z")


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


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────


class Described(msgspec.Struct):
    """A call for reading: its kind and action, its text, one line of it, the files it names."""

    kind: str
    action: str
    body: str
    summary: str
    files: tuple[str, ...] = ()


_PATHS = ("path", "file_path", "filename", "file", "target_file", "notebook_path")
_COMMANDS = ("command", "cmd", "script")
_PAIRS = (
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("oldText", "newText"),
    ("old", "new"),
    ("search", "replace"),
)
_CONTENTS = ("content", "file_text", "contents", "text")
_PATCHES = ("patch", "diff")
_HINTS = (
    ("mcp", ("mcp__",)),
    ("web", ("web", "fetch", "http", "brows", "url")),
    ("search", ("grep", "search", "find", "glob", "list", "ls")),
    ("edit", ("edit", "write", "patch", "replace", "insert", "create_file")),
    ("shell", ("bash", "shell", "exec", "terminal", "command")),
    ("plan", ("todo", "plan")),
    ("agent", ("agent", "task", "delegate")),
    ("read", ("read", "view", "cat", "open")),
)


def describe_call(tool: str, given: Any) -> Described:
    """Return what a call does, judged by its arguments and then by its name."""
    hint = _hinted(tool)
    if not isinstance(given, dict):
        return Described("tool_call", hint or "other", text_of(given), one_line(tool))
    path = next((path for name in _PATHS if (path := _string(given.get(name)))), None)
    command = next((text for name in _COMMANDS if (text := _command(given.get(name)))), None)
    if command and (hint == "shell" or not path):
        kind = "test_run" if is_test_run(command) else "tool_call"
        return Described(kind, "shell", command, one_line(command))
    if path is None:
        headline = next((text for value in given.values() if (text := _string(value))), tool)
        return Described("tool_call", hint or "other", key_values(given), one_line(headline))
    change = _change(path, given) if hint in (None, "edit") else None
    if change is not None:
        return Described("edit", "edit", change, one_line(path), (path,))
    return Described("tool_call", hint or "read", key_values(given), one_line(path), (path,))


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _hinted(tool: str) -> str | None:
    name = tool.lower()
    return next((action for action, parts in _HINTS if any(part in name for part in parts)), None)


def _command(value: Any) -> str | None:
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value)
    return value if isinstance(value, str) else None


def _change(path: str, given: Mapping[str, Any]) -> str | None:
    """Return the change that a call makes to a file; None when it makes none."""
    edits = given.get("edits")
    pairs = (
        [edit for edit in edits if isinstance(edit, dict)] if isinstance(edits, list) else [given]
    )
    changes = [
        (text_of(edit.get(old)), text_of(edit.get(new)))
        for edit in pairs
        for old, new in _PAIRS
        if isinstance(edit.get(new), str)
    ]
    if changes:
        return file_change(path, changes)
    patch = next((given[name] for name in _PATCHES if isinstance(given.get(name), str)), None)
    if patch is not None:
        return f"{path}\n@@\n{patch}"
    content = next((given[name] for name in _CONTENTS if isinstance(given.get(name), str)), None)
    return None if content is None else file_content(path, content)


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────


def usage_of(value: Any) -> Usage | None:
    """Return the tokens of any provider's usage, in buckets that do not overlap; None when there
    are none.

    `prompt_tokens` includes the cached tokens, `input_tokens` does not, unless
    `input_tokens_details` counts them, or the total is too small for both.
    """
    if not isinstance(value, dict):
        return None
    sent = _count(value, "input_tokens", "prompt_tokens", "prompt_token_count")
    received = _count(value, "output_tokens", "completion_tokens")
    read = _count(value, "cache_read_input_tokens", "cache_read_tokens")
    written = _count(value, "cache_creation_input_tokens", "cache_write_tokens")
    inside, reasoned = 0, _count(value, "reasoning_tokens")
    for name in _DETAILS:
        if isinstance(details := value.get(name), dict):
            inside = max(inside, _count(details, "cached_tokens"))
            reasoned = max(reasoned, _count(details, "reasoning_tokens"))
    if read and sent + received == _count(value, "total_tokens"):
        inside, read = max(inside, read), 0
    usage = Usage(
        input_tokens=max(0, sent - inside),
        output_tokens=received,
        cache_read_tokens=read or min(inside, sent),
        cache_write_tokens=written,
        reasoning_tokens=min(reasoned, received),
    )
    return usage if usage.total else None


def spent_of(usage: Usage, value: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage as the fields of an API call, with the lifetime of cache writes, the service
    tier, the provider and the model."""
    parts, tools = value.get("cache_creation"), value.get("server_tool_use")
    in_5m, in_1h = (
        _count(parts, f"ephemeral_{ttl}_input_tokens") if isinstance(parts, dict) else 0
        for ttl in ("5m", "1h")
    )
    write_5m, write_1h = split_cache_writes(usage.cache_write_tokens, in_5m, in_1h)
    tier = value.get("service_tier")
    return dict(
        provider=_name(about, "provider"), model=_name(about, "model"),
        tier=tier if tier in _TIERS else None,
        input_tokens=usage.input_tokens, output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_5m_tokens=write_5m, cache_write_1h_tokens=write_1h,
        reasoning_tokens=usage.reasoning_tokens,
        web_searches=_count(tools, "web_search_requests") if isinstance(tools, dict) else 0,
    )  # fmt: skip


def _name(about: Mapping[str, Any], name: str) -> str | None:
    value = about.get(name)
    return value[:200] if isinstance(value, str) and value else None


_TIERS = ("fast", "priority", "flex", "batch")
_DETAILS = (
    "prompt_tokens_details",
    "input_tokens_details",
    "completion_tokens_details",
    "output_tokens_details",
)


def _count(value: Mapping[str, Any], *names: str) -> int:
    for name in names:
        count = value.get(name)
        if type(count) is int and 0 < count < MAX_COUNT:
            return count
    return 0


def milliseconds(value: Any) -> int | None:
    return (
        int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_COUNT
        else None
    )


# ── skills ────────────────────────────────────────────────────────────────────────────────────────

_FAILURES = frozenset({"fail", "failed", "failure", "error"})


class Tried(msgspec.Struct):
    """An attempt for reading. `word` is verified, failed or unchecked."""

    body: str
    error: str | None
    word: str
    checks: list[Any]


def attempt_of(payload: Mapping[str, Any]) -> Tried:
    error = payload.get("error")
    texts = [payload.get(name) for name in ("output_summary", "runner_output", "feedback", "error")]
    listed = payload.get("checks")
    checks = listed if isinstance(listed, list) else []
    verdicts = [
        check.get("passed")
        for check in checks
        if isinstance(check, dict) and isinstance(check.get("passed"), bool)
    ]
    word = "unchecked" if not verdicts else "verified" if all(verdicts) else "failed"
    body = "\n".join([text for text in texts if isinstance(text, str) and text])
    return Tried(body, error if isinstance(error, str) and error else None, word, checks)


def attempt_line(payload: Mapping[str, Any], word: str) -> str:
    model = payload.get("model")
    by = f" by {model}" if isinstance(model, str) and model else ""
    return f"attempt {text_of(payload.get('attempt'))}{by}: {word}"


class Checked(msgspec.Struct):
    command: str | None
    passed: bool | None
    exit_code: int | None
    detail: str
    summary: str


def check_of(check: Any) -> Checked | None:
    """Return a check of an attempt; None if the value is no check."""
    if not isinstance(check, dict):
        return None
    command, detail = check.get("command"), check.get("detail")
    code = (
        check["exit_code"]
        if type(check.get("exit_code")) is int and abs(check["exit_code"]) < 1 << 31
        else None
    )
    passed = check["passed"] if isinstance(check.get("passed"), bool) else None
    word = "not known" if passed is None else "passed" if passed else "failed"
    return Checked(
        command=command if isinstance(command, str) and command else None,
        passed=passed,
        exit_code=code,
        detail=detail if isinstance(detail, str) else "",
        summary=f"by {text_of(check.get('by'))}: {word}",
    )


def is_failure(status: str) -> bool:
    return status.strip().lower() in _FAILURES


def headline(kind: str, payload: Mapping[str, Any]) -> str:
    """Return one line for a record that has no rule of its own: its type, and its first fields."""
    fields = [
        f"{name}: {value}"
        for name, value in payload.items()
        if isinstance(value, str | int | float) and name != "run"
    ]
    return f"{kind} {', '.join(fields[:4])}".strip()
