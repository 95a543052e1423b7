"""Calls of tools in a live session log.

Pure. Agents that people write themselves have tools of any name, so the arguments of a call decide
about its meaning before its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..shared.tools import file_change, file_content, is_test_run, key_values, one_line, text_of

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


class Described(msgspec.Struct):
    """A call for reading: its kind and action, its text, one line of it, the files it names."""

    kind: str
    action: str
    body: str
    summary: str
    files: tuple[str, ...] = ()


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
