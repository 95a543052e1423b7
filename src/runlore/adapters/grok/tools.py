"""Calls of tools in Grok Build's transcripts: the tool, its action, and its text. Pure."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

import msgspec

from ..shared.pick import pick
from ..shared.tools import file_change, file_content, is_test_run, key_values, one_line, text_of
from .texts import contents, diff_text

ACTIONS = {
    **dict.fromkeys(
        ("run_terminal_command", "run_terminal_cmd", "bash", "shell", "kill_task", "monitor"),
        "shell",
    ),
    **dict.fromkeys(("read_file", "read_image", "view_image"), "read"),
    **dict.fromkeys(
        (
            "search_replace",
            "write",
            "write_file",
            "apply_patch",
            "hashline_edit",
            "delete_file",
            "edit_file",
        ),
        "edit",
    ),
    **dict.fromkeys(
        ("grep", "glob", "list_dir", "codebase_search", "file_search", "search_tool"), "search"
    ),
    **dict.fromkeys(("web_search", "web_fetch", "x_search", "open_page"), "web"),
    **dict.fromkeys(
        ("task", "task_output", "spawn_subagent", "workflow", "get_command_or_subagent_output"),
        "agent",
    ),
    **dict.fromkeys(
        ("todo_write", "enter_plan_mode", "exit_plan_mode", "ask_user_question", "update_goal"),
        "plan",
    ),
    **dict.fromkeys(("use_tool", "mcp_tool"), "mcp"),
}
KINDS = {
    "execute": "shell", "read": "read", "edit": "edit", "delete": "edit", "move": "edit",
    "search": "search", "fetch": "web",
    "web_search": "web", "task": "agent", "plan": "plan", "switch_mode": "plan", "mcp": "mcp",
}  # fmt: skip
"""The kinds of calls in the Agent Client Protocol, and the agent's own."""
VARIANTS = {
    "Bash": "run_terminal_command", "ReadFile": "read_file", "SearchReplace": "search_replace",
    "Write": "write",
    "ApplyPatch": "apply_patch", "HashlineEdit": "hashline_edit", "Grep": "grep",
    "ListDir": "list_dir", "TodoWrite": "todo_write",
    "Task": "task", "TaskOutput": "task_output", "WebSearch": "web_search", "WebFetch": "web_fetch",
    "Workflow": "workflow",
    "AskUserQuestion": "ask_user_question", "EnterPlanMode": "enter_plan_mode",
    "ExitPlanMode": "exit_plan_mode",
    "MCPTool": "use_tool", "UseTool": "use_tool", "Monitor": "monitor",
}  # fmt: skip
ASKS = frozenset({"ask_user_question", "exit_plan_mode"})
ON_FILES = frozenset({"read", "edit", "search"})
_PATHS = ("file_path", "target_file", "path", "target_directory")
_HEADLINES = (
    "command",
    "pattern",
    "query",
    *_PATHS,
    "url",
    "description",
    "prompt",
    "objective",
    "skill",
    "name",
)
_IDENTIFIER = re.compile(r"[A-Za-z][\w.:/-]{0,99}\Z")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.{1,1000})$", re.MULTILINE)


class Described(msgspec.Struct, gc=False):
    tool: str
    kind: str
    action: str
    body: str
    summary: str
    files: tuple[str, ...]


def describe_call(update: dict[str, Any], announced: str | None = None) -> Described:
    """Return what a call does: tool, kind and action, its text for reading and search, one line of
    it, and the files it names. The tool is the one that was announced if the update names none."""
    given = update.get("rawInput")
    args = given if isinstance(given, dict) else {}
    tool, word = tool_of(update, args)
    if announced and tool == "unknown":
        tool, word = announced, announced
    if (inner := pick(args, "tool_name", of=str)) and "tool_input" in args:
        tool, word = inner, "mcp"
        args = {"tool_name": inner, **_arguments(args["tool_input"])}
    action = action_of(tool, word, update)
    files = _files(update, args, action)
    kind, body = _kind_and_body(update, args, action)
    headline = _headline(args) or (given if isinstance(given, str) else None)
    if action == "edit" and files:
        headline = files[0]
    title = pick(update, "title", of=str) or tool
    return Described(tool, kind, action, body or title, one_line(headline or title), files)


def describe_named(tool: str, arguments: Any) -> Described:
    """Return the same for a call that is written as a name and its arguments."""
    return describe_call(
        {
            "title": tool,
            "rawInput": _arguments(arguments) or arguments,
            "_meta": {"x.ai/tool": {"name": tool}},
        }
    )


def tool_of(update: dict[str, Any], args: dict[str, Any]) -> tuple[str, str]:
    """Return the name of the tool and its kind. Older lines have the name only as the title, or not
    at all."""
    about = pick(update, "_meta", "x.ai/tool", of=dict) or {}
    word = pick(update, "kind", of=str) or pick(about, "kind", of=str) or ""
    title = pick(update, "title", of=str) or ""
    name = pick(about, "name", of=str) or VARIANTS.get(pick(args, "variant", of=str) or "")
    return (
        name or (title if _IDENTIFIER.match(title) else word) or "unknown",
        pick(about, "kind", of=str) or word,
    )


def action_of(tool: str, word: str, update: dict[str, Any]) -> str:
    """Return the action of a tool, by its name or by the kind of the call."""
    namespace = pick(update, "_meta", "x.ai/tool", "namespace", of=str) or ""
    is_mcp = namespace.startswith("mcp") or tool.startswith("mcp__")
    return ACTIONS.get(tool.lower()) or ("mcp" if is_mcp else KINDS.get(word, "other"))


def identifier(value: Any) -> str | None:
    """Return the id of a call; one that is longer than any agent makes is replaced by its hash."""
    if not isinstance(value, str) or not value:
        return None
    return (
        value
        if len(value) <= 200
        else blake2b(value.encode("utf-8", "replace"), digest_size=16).hexdigest()
    )


def _kind_and_body(update: dict[str, Any], args: dict[str, Any], action: str) -> tuple[str, str]:
    """Return the kind of a call, and its text: a command, a change, or its arguments."""
    command = pick(args, "command", of=str)
    if action == "shell" and command is not None:
        return "test_run" if is_test_run(command) else "tool_call", command
    plain = {name: value for name, value in args.items() if name != "variant"}
    if action == "edit":
        return "edit", _change(update, args) or key_values(plain)
    return "tool_call", key_values(plain) or text_of(update.get("rawInput"))


def _arguments(value: Any) -> dict[str, Any]:
    """Return arguments, which may be JSON within JSON."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _files(update: dict[str, Any], args: dict[str, Any], action: str) -> tuple[str, ...]:
    """Return the files that a call names; those of its patch where it names no other."""
    if action not in ON_FILES:
        return ()
    named = [args[name] for name in _PATHS if isinstance(args.get(name), str)]
    named += [
        pick(place, "path", of=str) for place in (pick(update, "locations", of=list) or [])[:100]
    ]
    files = tuple(dict.fromkeys(path for path in named if path))
    if files or action != "edit":
        return files
    return tuple(dict.fromkeys(_PATCHED.findall(_patch(args) or "")))[:100]


def _headline(args: dict[str, Any]) -> str | None:
    """Return the argument that says most: a known one, else the first that is a text."""
    known = [args[name] for name in _HEADLINES if name in args]
    others = [value for name, value in args.items() if name != "variant"]
    texts = (value for value in (*known, *others) if isinstance(value, str) and value)
    return next(texts, None)


def _change(update: dict[str, Any], args: dict[str, Any]) -> str | None:
    """Return the path and the lines that change; a patch as it is."""
    path = text_of(next((args[name] for name in _PATHS if name in args), ""))
    if patch := _patch(args):
        return patch
    if "old_string" in args or "new_string" in args:
        return file_change(
            path, [(text_of(args.get("old_string")), text_of(args.get("new_string")))]
        )
    for name in ("content", "contents"):
        if (content := pick(args, name, of=str)) is not None:
            return file_content(path, content)
    return "\n".join(shown for item in contents(update) if (shown := diff_text(item))) or None


def _patch(args: dict[str, Any]) -> str | None:
    return pick(args, "patch", of=str) or pick(args, "input", of=str)
