"""The words of Cursor's tools, and what can be told from them alone: what a call does, what came of
it, what was typed. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from ..shared.calls import Described, action_of, describe, opened
from ..shared.pick import moment, number, pick, time_of
from ..shared.tools import text_of

ACTIONS = {
    **dict.fromkeys(
        ("run_terminal_cmd", "run_terminal_command", "shell", "bash", "await"), "shell"
    ),
    **dict.fromkeys(
        ("read_file", "read", "read_lints", "readlints", "fetch_rules", "read_semsearch_files"),
        "read",
    ),
    **dict.fromkeys(
        (
            "edit_file",
            "search_replace",
            "write",
            "write_file",
            "create_file",
            "strreplace",
            "str_replace",
            "edit",
        ),
        "edit",
    ),
    **dict.fromkeys(
        (
            "multiedit",
            "multi_edit",
            "delete_file",
            "delete",
            "apply_patch",
            "applypatch",
            "edit_notebook",
            "reapply",
        ),
        "edit",
    ),
    **dict.fromkeys(
        (
            "codebase_search",
            "grep_search",
            "grep",
            "ripgrep",
            "ripgrep_raw_search",
            "rg",
            "file_search",
            "search",
        ),
        "search",
    ),
    **dict.fromkeys(
        ("glob_file_search", "glob", "list_dir", "ls", "search_symbols", "semanticsearch"), "search"
    ),
    **dict.fromkeys(
        ("web_search", "websearch", "webfetch", "web_fetch", "fetch_pull_request"), "web"
    ),
    **dict.fromkeys(("task", "agent", "background_composer_followup"), "agent"),
    **dict.fromkeys(
        (
            "todo_write",
            "todowrite",
            "create_plan",
            "createplan",
            "ask_question",
            "askquestion",
            "switch_mode",
        ),
        "plan",
    ),
}
ASKS = frozenset({"ask_question", "askquestion", "AskQuestion", "create_plan", "CreatePlan"})
OPEN, CLOSE = "<user_query>", "</user_query>"
_INJECTED = re.compile(
    r"\s*<(user_info|system_reminder|project_layout|rules|git_status|agent_transcripts"
    r"|open_and_recently_viewed_files)\b"
)
_EXIT = re.compile(r"\AExit code: (-?\d{1,9})\b")
_FAILED = re.compile(r"Error: [^\n]{0,200}\Z")


def time_at(*values: Any) -> datetime | None:
    """The first of these that is a time: ISO 8601, or milliseconds since 1970."""
    for value in values:
        if isinstance(value, str):
            found = time_of(value)
        else:
            ms = number(value, 1 << 50)
            found = moment(ms / 1000) if ms else None
        if found is not None:
            return found
    return None


# What was typed.


def typed(text: str) -> str:
    """Return what a person typed, without what the program wrote around it; nothing when it wrote
    all of it."""
    start, whole = text.find(OPEN), text.rstrip()
    if start >= 0 and whole.endswith(CLOSE):
        return whole[start + len(OPEN) : -len(CLOSE)].strip()
    return "" if _INJECTED.match(text) else text


# Calls.


def call(name: Any, given: Any, diff: str | None = None) -> Described:
    """Return the description of a call. Newer tools have a number at the end of their names."""
    tool = name[:200] if isinstance(name, str) and name else "unknown"
    plain = tool.lower().removesuffix("_v2")
    return describe(
        tool, opened(given), "mcp" if plain.startswith("mcp") else action_of(plain, ACTIONS), diff
    )


def diff_of(result: Any) -> str | None:
    """The lines that a change to a file put in and took out, where its result tells them."""
    chunks = pick(result, "diff", "chunks", of=list) or []
    texts = [text for chunk in chunks if (text := pick(chunk, "diffString", of=str))]
    return "\n".join(f"@@\n{text}" for text in texts) or None


# Results.


def shown(result: Any) -> str:
    """A result as it is read."""
    if isinstance(result, dict):
        for name in ("output", "contents", "content", "stdout", "text", "result", "message"):
            if isinstance(text := result.get(name), str):
                return text
    return text_of(result)


def error_of(value: Any) -> str | None:
    """Return the text of a call's failure."""
    value = opened(value)
    if isinstance(value, dict):
        names = ("clientVisibleErrorMessage", "modelVisibleErrorMessage", "message", "error")
        return next(
            (text for name in names if (text := pick(value, name, of=str))), None
        ) or text_of(value)
    return text_of(value) or None


def is_refused(tool: dict[str, Any], result: Any) -> bool:
    """Return True if a person refused a call in the editor. A command that was refused is
    `completed`, and its result says so."""
    words = (
        tool.get("status"),
        pick(tool, "additionalData", "status", of=str),
        tool.get("userDecision"),
    )
    return pick(result, "rejected", of=bool) is True or any(
        word in ("rejected", "skipped", "cancelled") for word in words
    )


def is_failed(tool: dict[str, Any]) -> bool:
    return (
        tool.get("status") == "error" or pick(tool, "additionalData", "status", of=str) == "error"
    )


def outcome(
    message: Any, block: dict[str, Any], text: str, action: str
) -> tuple[bool, bool, int | None]:
    """Return whether a call of the command line failed, whether it was refused, and its exit code.
    `isError` is false for a command that failed, so the message's own word is used first."""
    output = (
        pick(message, "providerOptions", "cursor", "highLevelToolCallResult", "output", of=dict)
        or {}
    )
    kind = next(iter(output), None)
    found = _EXIT.match(text) if action == "shell" else None
    code = pick(output, str(kind), "exitCode", of=int)
    code = int(found[1]) if code is None and found else code
    if kind is None:
        kind = (
            "rejected"
            if text.startswith("Rejected:")
            else "error"
            if _FAILED.match(text.strip())
            else None
        )
    is_error = kind in ("error", "failure") or bool(code) or pick(block, "isError", of=bool) is True
    return is_error, kind == "rejected", code
