"""The words of opencode's messages, and what can be told from them alone: tools, results, files,
tokens. Pure."""

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
    """Return the type of a part: its own word, or by what it holds."""
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
    """Return the description of a tool call."""
    args = pick(state, "input", of=dict)
    given = args if args is not None else {}
    action = ACTIONS.get(tool) or ACTIONS.get(tool.lower()) or ("mcp" if "_" in tool else "other")
    kind, body = "tool_call", key_values(given) if args is not None else text_of(state.get("input"))
    command = pick(given, "command", of=str)
    path = pick(given, "filePath", of=str)
    files = (path,) if path and action in ("read", "edit") else ()
    if action == "shell" and command is not None:
        kind, body = "test_run" if is_test_run(command) else kind, command
    elif action == "edit":
        kind, body = "edit", changed(given, state) or body
        files = (
            files
            or tuple(dict.fromkeys(_PATCHED.findall(pick(given, "patchText", of=str) or "")))[:1000]
        )
    headline = next(
        (text for name in _HEADLINES if (text := pick(given, name, of=str))),
        pick(state, "title", of=str) or tool,
    )
    return Call(kind, body, one_line(headline), action, files)


def changed(given: dict[str, Any], state: dict[str, Any]) -> str | None:
    """The path and the lines that change: as the tool noted them, or as it was asked to."""
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
    if "output" not in state and "error" not in state and status not in ("completed", "error"):
        return None
    is_failed = "error" in state or status == "error"
    text = text_of(state.get("error" if "error" in state else "output"))
    if is_failed and text.startswith(REFUSED):
        return Outcome("human_intervention", text, "tool/refused")
    exit_code = pick(state, "metadata", "exit", of=int)
    exit_code = exit_code if exit_code is not None and abs(exit_code) < 1 << 31 else None
    is_stopped = text.startswith(ABORTED) or (call.action == "shell" and STOPPED in text[-200:])
    pictures = [shown(item) for item in pick(state, "attachments", of=list) or []]
    body = "\n".join([text, *pictures]) if pictures else text
    is_error = is_failed or is_stopped or tool == "invalid" or (exit_code or 0) != 0
    tests = test_counts(text) if call.kind == "test_run" else None
    kind = "decision" if tool in ASKS and not is_failed else "tool_result"
    return Outcome(
        kind, body, "tool/aborted" if is_stopped else "tool/result", is_error, exit_code, tests
    )


def shown(part: Any) -> str:
    """A file for reading: its name, and what stands for it when it is no text."""
    if not isinstance(part, dict):
        return text_of(part)
    url = pick(part, "url", of=str) or ""
    name = pick(part, "filename", of=str) or pick(part, "source", "path", of=str) or ""
    head, mark, data = url.partition(";base64,")
    if mark and head.startswith("data:"):
        return f"{name} {blob_reference(data)}".strip()
    return f"[{name or 'file'}{f' {url}' if url and not url.startswith('data:') else ''}]"


def without_pictures(line: bytes) -> bytes:
    """A record whose long data URLs are replaced by what stands for them."""
    return _DATA_URL.sub(
        lambda found: (
            b'"data:%s;base64,%s"'
            % (found[1], blob_reference(found[2].replace(b"\\", b"")).encode())
        ),
        line,
    )


def usage_of(tokens: Any) -> Usage | None:
    """The tokens of a step; None when it took none. With a `total`, reasoning stands beside the
    output; without, it is a part of it."""
    if not isinstance(tokens, dict):
        return None
    cache = pick(tokens, "cache", of=dict) or {}
    given, said, thought = (
        number(tokens.get(name)) or 0 for name in ("input", "output", "reasoning")
    )
    read, written = (number(cache.get(name)) or 0 for name in ("read", "write"))
    total = number(tokens.get("total"))
    is_beside = thought > said or (
        total is not None and total >= given + said + thought + read + written
    )
    usage = Usage(
        input_tokens=given, output_tokens=said + thought if is_beside else said,
        cache_read_tokens=read, cache_write_tokens=written,
        reasoning_tokens=thought,
    )  # fmt: skip
    return usage if usage.total else None
