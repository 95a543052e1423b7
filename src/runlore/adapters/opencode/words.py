"""The vocabulary of opencode's messages: kinds of parts, tools, results, files, tokens. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ...model import Tests, Usage
from ..shared.pick import number, pick
from ..shared.tools import (
    blob_reference,
    file_change,
    file_content,
    is_test_run,
    key_values,
    one_line,
    test_counts,
    text_of,
)

ACTIONS = {
    "bash": "shell",
    "read": "read",
    **dict.fromkeys(("edit", "write", "multiedit", "patch", "apply_patch"), "edit"),
    **dict.fromkeys(
        ("grep", "glob", "list", "codesearch", "lsp", "lsp_hover", "lsp_diagnostics"), "search"
    ),
    **dict.fromkeys(("webfetch", "websearch"), "web"),
    "task": "agent",
    **dict.fromkeys(("todowrite", "todoread", "plan_enter", "plan_exit", "question"), "plan"),
    **dict.fromkeys(("invalid", "skill", "batch", "StructuredOutput"), "other"),
}
ASKS = frozenset({"question", "plan_exit"})
REFUSED = (
    "The user rejected permission",
    "The user dismissed this question",
    "The user has specified a rule which prevents",
)
ABORTED = "Tool execution aborted"
STOPPED = "User aborted the command"
BY_USER = "The following tool was executed by the user"
UNNAMED = ("New session - ", "Child session - ")
PARTS = frozenset(
    {
        "text",
        "reasoning",
        "tool",
        "file",
        "agent",
        "subtask",
        "step-start",
        "step-finish",
        "snapshot",
        "patch",
        "compaction",
        "retry",
    }
)
_HEADLINES = (
    "command",
    "filePath",
    "pattern",
    "query",
    "path",
    "url",
    "description",
    "prompt",
    "name",
)
_DATA_URL = re.compile(rb'"data:([^";,]{1,100});base64,([A-Za-z0-9+/=\\]{256,})"')
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)


def kind_of(part: dict[str, Any]) -> str:
    """Return the kind of a part: its own word, else one judged by its fields."""
    word = pick(part, "type", of=str)
    if word is not None and (
        word in PARTS or not part.keys() & {"state", "callID", "text", "tokens"}
    ):
        return word
    if part.keys() & {"state", "callID"}:
        return "tool"
    if "text" in part:
        return "text"
    return "step-finish" if "tokens" in part else word or "unknown"


class Call(msgspec.Struct, frozen=True):
    kind: str
    body: str
    summary: str
    action: str
    files: tuple[str, ...] = ()


def call_of(tool: str, state: dict[str, Any]) -> Call:
    """Return what a call of a tool does."""
    given = pick(state, "input", of=dict)
    body = key_values(given) if given is not None else text_of(state.get("input"))
    given, action = given or {}, action_of(tool)
    summary = one_line(_headline(given) or pick(state, "title", of=str) or tool)
    if action == "shell" and (command := pick(given, "command", of=str)) is not None:
        kind = "test_run" if is_test_run(command) else "tool_call"
        return Call(kind, command, summary, action)
    path = pick(given, "filePath", of=str)
    files = (path,) if path and action in ("read", "edit") else ()
    if action == "edit":
        body = changed(given, state) or body
        return Call("edit", body, summary, action, files or _patched(given))
    return Call("tool_call", body, summary, action, files)


def action_of(tool: str) -> str:
    """Return the action of a tool. A tool of another program has that one's name before its own."""
    return ACTIONS.get(tool) or ACTIONS.get(tool.lower()) or ("mcp" if "_" in tool else "other")


def _headline(given: dict[str, Any]) -> str | None:
    return next((text for name in _HEADLINES if (text := pick(given, name, of=str))), None)


def _patched(given: dict[str, Any]) -> tuple[str, ...]:
    """Return the files that a patch names."""
    return tuple(dict.fromkeys(_PATCHED.findall(pick(given, "patchText", of=str) or "")))[:1000]


def changed(given: dict[str, Any], state: dict[str, Any]) -> str | None:
    """Return the path and the lines that change: from the tool's result, else from its arguments;
    None when neither has them."""
    path = pick(given, "filePath", of=str) or ""
    diff = pick(state, "metadata", "diff", of=str) or ""
    if "@@" in diff:
        return f"{path}\n{diff[diff.index('@@') :]}" if diff.count("\n+++ ") == 1 else diff
    if (content := pick(given, "content", of=str)) is not None:
        return file_content(path, content)
    if (patch := pick(given, "patchText", of=str)) is not None:
        return patch
    edits = pick(given, "edits", of=list) or [given]
    pairs = [
        (text_of(edit.get("oldString")), text_of(edit.get("newString")))
        for edit in edits
        if isinstance(edit, dict)
    ]
    return file_change(path, pairs) if any(old or new for old, new in pairs) else None


class Outcome(msgspec.Struct, frozen=True):
    kind: str
    text: str
    native: str
    is_error: bool = False
    exit_code: int | None = None
    tests: Tests | None = None


def outcome_of(tool: str, state: dict[str, Any], call: Call) -> Outcome | None:
    """Return the result of a call; None when there is none yet."""
    status = pick(state, "status", of=str)
    if not state.keys() & {"output", "error"} and status not in ("completed", "error"):
        return None
    is_failed = "error" in state or status == "error"
    text = text_of(state.get("error" if "error" in state else "output"))
    if is_failed and text.startswith(REFUSED):
        return Outcome("human_intervention", text, "tool/refused")
    exit_code, is_stopped = _exit_code(state), _is_stopped(text, call)
    return Outcome(
        kind="decision" if tool in ASKS and not is_failed else "tool_result",
        text="\n".join([text, *map(shown, pick(state, "attachments", of=list) or [])]),
        native="tool/aborted" if is_stopped else "tool/result",
        is_error=is_failed or is_stopped or tool == "invalid" or bool(exit_code),
        exit_code=exit_code,
        tests=test_counts(text) if call.kind == "test_run" else None,
    )


def _is_stopped(text: str, call: Call) -> bool:
    return text.startswith(ABORTED) or (call.action == "shell" and STOPPED in text[-200:])


def _exit_code(state: dict[str, Any]) -> int | None:
    code = pick(state, "metadata", "exit", of=int)
    return code if code is not None and abs(code) < 1 << 31 else None


def shown(part: Any) -> str:
    """Return a file for reading: its name or place, and a short reference for its data."""
    if not isinstance(part, dict):
        return text_of(part)
    url = pick(part, "url", of=str) or ""
    name = pick(part, "filename", of=str) or pick(part, "source", "path", of=str) or ""
    head, mark, data = url.partition(";base64,")
    if mark and head.startswith("data:"):
        return f"{name} {blob_reference(data)}".strip()
    return f"[{name or 'file'}{f' {url}' if url and not url.startswith('data:') else ''}]"


def without_pictures(line: bytes) -> bytes:
    """Return a record whose long data URLs are replaced by short references."""
    return _DATA_URL.sub(
        lambda match: (
            b'"data:%s;base64,%s"'
            % (match[1], blob_reference(match[2].replace(b"\\", b"")).encode())
        ),
        line,
    )


def step_usage(part: Any) -> Usage | None:
    """Return the tokens of a part that ends a step; None for all other parts."""
    if not isinstance(part, dict) or kind_of(part) != "step-finish":
        return None
    return usage_of(part.get("tokens"))


def usage_of(tokens: Any) -> Usage | None:
    """Return the tokens of a step; None when it used none. With a `total`, the output does not
    include reasoning; without, it does."""
    if not isinstance(tokens, dict):
        return None
    cache = pick(tokens, "cache", of=dict) or {}
    sent, received, reasoned = (
        number(tokens.get(name)) or 0 for name in ("input", "output", "reasoning")
    )
    read, written = (number(cache.get(name)) or 0 for name in ("read", "write"))
    total = number(tokens.get("total"))
    is_extra = reasoned > received or (
        total is not None and total >= sent + received + reasoned + read + written
    )
    usage = Usage(
        input_tokens=sent, output_tokens=received + reasoned if is_extra else received,
        cache_read_tokens=read, cache_write_tokens=written,
        reasoning_tokens=reasoned,
    )  # fmt: skip
    return usage if usage.total else None
