"""Descriptions of calls and of their results, for tools whose arguments are JSON objects. The
adapter says which tool does what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ...model import Tests
from .pick import pick
from .tools import (
    file_change,
    file_content,
    is_test_run,
    key_values,
    one_line,
    test_counts,
    text_of,
)

ON_FILES = frozenset({"read", "edit", "search"})
PATHS = (
    "file_path", "absolute_path", "path", "dir_path", "notebook_path", "filePath", "target_file",
    "targetFile", "relativeWorkspacePath",
)  # fmt: skip
_HEADLINES = (
    "command", "cmd", "pattern", "query", *PATHS, "url", "description", "prompt", "objective",
    "instructions", "skill", "name",
)  # fmt: skip
_COMMANDS = ("command", "cmd", "script")
_CHANGES = (
    ("old_string", "new_string"),
    ("oldText", "newText"),
    ("old_str", "new_str"),
    ("oldString", "newString"),
    ("before", "after"),
    ("old", "new"),
)
_CONTENTS = ("content", "file_text", "contents", "code", "code_edit")
_HUNK = re.compile(r"^@@", re.MULTILINE)
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+?)[ \r]*$", re.MULTILINE)
MAX_FILES = 100  # Of one patch.


class Described(msgspec.Struct, gc=False):
    tool: str
    kind: str
    action: str
    body: str
    summary: str
    files: tuple[str, ...] = ()


def action_of(tool: str, actions: Mapping[str, str]) -> str:
    """Return the action of a tool by its name. A tool of another program has that program's name in
    front of its own."""
    return actions.get(tool) or ("mcp" if tool.startswith("mcp_") or "__" in tool else "other")


def describe(name: Any, given: Any, action: str, diff: str | None = None) -> Described:
    """Return the tool, kind and action of a call, its text for reading and search, one line of it,
    and the files it names. `diff` holds the lines that change, where the agent says so itself."""
    tool = name[:200] if isinstance(name, str) and name else "unknown"
    given = opened(given)
    args = given if isinstance(given, dict) else {}
    if action == "shell" and (command := _command(args, given)) is not None:
        kind = "test_run" if is_test_run(command) else "tool_call"
        return Described(tool, kind, action, command or tool, one_line(command))
    if action == "edit":
        return _describe_edit(tool, args, given, diff)
    files = _files(args) if action in ON_FILES else ()
    headline = files[0] if files and action != "search" else _headline(args) or tool
    body = key_values(args) or text_of(given) or tool
    return Described(tool, "tool_call", action, body, one_line(headline), files)


def _describe_edit(tool: str, args: dict[str, Any], given: Any, diff: str | None) -> Described:
    body = change(args, diff) or key_values(args) or text_of(given)
    files = _files(args) or patched(body)
    headline = files[0] if files else _headline(args) or tool
    return Described(tool, "edit", "edit", body or tool, one_line(headline), files)


def _files(args: dict[str, Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([path for word in PATHS if (path := _text(args, word))]))


def _text(args: dict[str, Any], word: str) -> str | None:
    text = args.get(word)
    return text if isinstance(text, str) else None


def _command(args: dict[str, Any], given: Any) -> str | None:
    for word in _COMMANDS:
        if (text := _text(args, word)) is not None:
            return text
    return given if isinstance(given, str) else None


def _headline(args: dict[str, Any]) -> str | None:
    """Return the argument that says most: a known one, else the first that is a text."""
    for word in _HEADLINES:
        if text := _text(args, word):
            return text
    return next((text for text in args.values() if isinstance(text, str) and text), None)


def opened(given: Any) -> Any:
    """Return arguments decoded when they are JSON in a text, else as they are."""
    try:
        return (
            msgspec.json.decode(given)
            if isinstance(given, str) and given.lstrip()[:1] == "{"
            else given
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return given


def patched(patch: str) -> tuple[str, ...]:
    """Return the files that a patch names, where it is written as `*** Update File: …`."""
    return tuple(dict.fromkeys(_PATCHED.findall(patch)))[:MAX_FILES]


def change(args: dict[str, Any], diff: str | None = None) -> str | None:
    """Return the path and the lines that change: as the agent itself tells them, else as the call
    does; None when neither does."""
    path = next((path for word in PATHS if (path := _text(args, word))), "")
    if diff and (found := _HUNK.search(diff)):
        return f"{path}\n{diff[found.start() :].rstrip()}"
    edits = [edit for edit in pick(args, "edits", of=list) or [args] if isinstance(edit, dict)]
    pairs = [
        (text_of(edit.get(old)), text_of(edit.get(new)))
        for edit in edits
        for old, new in _CHANGES
        if old in edit or new in edit
    ]
    if pairs:
        return file_change(path, pairs)
    content = next((text for word in _CONTENTS if (text := _text(args, word)) is not None), None)
    return None if content is None else file_content(path, content)


class Result(msgspec.Struct, gc=False):
    text: str
    is_error: bool
    exit_code: int | None
    tests: Tests | None
    summary: str
    reminders: list[str] = []
    """What the agent's program added to it."""


def build_result(text: str, is_error: bool, exit_code: int | None, is_test: bool) -> Result:
    """Return the result of a call, with the counts of a test run and one line of it all."""
    code = exit_code if exit_code is not None and abs(exit_code) < 1 << 31 else None
    tests = test_counts(text) if is_test else None
    return Result(text, is_error, code, tests, outcome(one_line(text), code, tests))


def outcome(line: str, exit_code: int | None, tests: Tests | None) -> str:
    """Return one line about the result of a call: the counts of a test run, or the exit code and
    the first line of the output."""
    if tests is not None:
        counts = (("passed", tests.passed), ("failed", tests.failed), ("skipped", tests.skipped))
        return ", ".join(f"{count} {word}" for word, count in counts if count) or "no tests"
    return (
        f"exit {exit_code}: {line}"
        if exit_code and line
        else f"exit {exit_code}"
        if exit_code
        else line
    )
