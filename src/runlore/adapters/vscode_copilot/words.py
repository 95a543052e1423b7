"""The vocabulary of VS Code's chat: tools, paths, texts, arguments and results. Pure."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

from ..shared.pick import pick
from ..shared.tools import text_of

ACTIONS = {
    **dict.fromkeys(
        ("run_in_terminal", "get_terminal_output", "terminal_last_command", "terminal_selection",
        "send_to_terminal", "kill_terminal",
         "create_and_run_task", "run_task", "get_task_output", "run_notebook_cell", "runTests"),
        "shell",
    ),
    **dict.fromkeys(("read_file", "copilot_getNotebookSummary", "read_notebook_cell_output",
    "view_image", "get_changed_files"), "read"),
    **dict.fromkeys(
        ("replace_string_in_file", "multi_replace_string_in_file", "insert_edit_into_file",
        "create_file", "apply_patch",
         "edit_notebook_file", "edit_files", "create_directory"),
        "edit",
    ),
    **dict.fromkeys(
        ("grep_search", "file_search", "semantic_search", "list_dir", "list_code_usages",
        "get_errors", "test_search", "test_failure",
         "get_search_view_results", "search_workspace_symbols", "tool_search"),
        "search",
    ),
    **dict.fromkeys(("fetch_webpage", "open_simple_browser", "github_repo",
    "vscode_websearchforcopilot_webSearch"), "web"),
    **dict.fromkeys(("runSubagent", "search_subagent", "execution_subagent"), "agent"),
    **dict.fromkeys(("manage_todo_list", "think", "vscode_askQuestions", "task_complete"), "plan"),
}  # fmt: skip
SHOWN = {
    "copilot_readFile": "read_file", "copilot_findTextInFiles": "grep_search",
    "copilot_findFiles": "file_search",
    "copilot_searchCodebase": "semantic_search", "copilot_listDirectory": "list_dir",
    "copilot_replaceString": "replace_string_in_file",
    "copilot_multiReplaceString": "multi_replace_string_in_file",
    "copilot_insertEdit": "insert_edit_into_file",
    "copilot_createFile": "create_file", "copilot_createDirectory": "create_directory",
    "copilot_applyPatch": "apply_patch",
    "copilot_editNotebook": "edit_notebook_file", "copilot_getErrors": "get_errors",
    "copilot_fetchWebPage": "fetch_webpage",
    "copilot_listCodeUsages": "list_code_usages", "copilot_getChangedFiles": "get_changed_files",
    "copilot_testFailure": "test_failure",
    "copilot_githubRepo": "github_repo", "copilot_think": "think",
}  # fmt: skip
"""The model's name of a tool that is shown under another name."""
ASKS = frozenset({"vscode_askQuestions"})
DENIED, SKIPPED = 0, 5  # Of the ways in which a call is confirmed.
MAX_DEPTH = 200  # Levels of a tree of text.
MAX_NODES = 200_000
_EXIT = re.compile(r"^(?:Command exited with code|Exit code:?) (-?\d{1,9})\b", re.MULTILINE)
_DRIVE = re.compile(r"/[A-Za-z]:")
_FENCES = re.compile(r"[`\s]*\Z")


def model_of(name: Any) -> str | None:
    """Return the model's own name, without the provider before it."""
    return name.rpartition("/")[2][:200] or None if isinstance(name, str) else None


def place(uri: Any) -> str | None:
    """Return the path of a URI, whatever host it is on."""
    if not isinstance(uri, str) or not uri:
        return None
    try:
        path = unquote(urlsplit(uri).path) if "://" in uri else uri
    except ValueError:
        return None
    return _local(path)


def _local(path: str) -> str:
    return (path[1:] if _DRIVE.match(path) else path)[:4096]


def path_of(value: Any) -> str | None:
    """Return the path in a variable, a reference or a URI, which are nested in each other."""
    for _ in range(4):
        if isinstance(value, str):
            return place(value) if "://" in value else None
        if not isinstance(value, dict):
            return None
        if path := pick(value, "fsPath", of=str) or pick(value, "path", of=str):
            return _local(path)
        value = next(
            (
                value[name]
                for name in ("uri", "value", "location", "reference", "resource")
                if name in value
            ),
            None,
        )
    return None


def shown(part: Any) -> str:
    """Return a part of an answer as people read it: its text, or the name of its reference."""
    if isinstance(part, str):
        return part
    reference = part.get("inlineReference") if isinstance(part, dict) else None
    if reference is not None:
        name = pick(part, "name", of=str) or pick(reference, "name", of=str)
        return f"`{name or (path_of(reference) or '').rpartition('/')[2]}`"
    return text_in(part)


def text_in(part: Any) -> str:
    """Return the text of a message, which is a text or holds one."""
    for name in ("value", "content", "message", "title"):
        value = part.get(name) if isinstance(part, dict) else None
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "\n".join(item for item in value if isinstance(item, str))
        if isinstance(value, dict):
            return text_in(value)
    return part if isinstance(part, str) else ""


def message_of(part: dict[str, Any]) -> str:
    """Return the sentence that people see about a call."""
    return text_in(part.get("pastTenseMessage")) or text_in(part.get("invocationMessage"))


def is_fence(text: str) -> bool:
    """Return True if a text has nothing but the fences of a block of code, which is shown as a
    change to a file."""
    return _FENCES.match(text) is not None


def rendered_text(content: Any) -> str | None:
    """Return the text that was sent to the model: a list of texts, and of trees with texts in their
    leaves."""
    if not isinstance(content, list):
        return None
    return "\n".join(text for item in content if (text := _item_text(item)))


def _item_text(item: Any) -> str:
    value = item.get("value", item.get("text")) if isinstance(item, dict) else item
    if isinstance(value, str):
        return value
    node = pick(value, "node", of=dict)
    return _leaves(node) if node is not None else ""


def _leaves(root: dict[str, Any]) -> str:
    """Return the texts of a tree from left to right. Not recursive: a tree may be deeper than the
    stack of Python."""
    texts: list[str] = []
    pending: list[tuple[Any, int]] = [(root, 0)]
    for _ in range(MAX_NODES):
        if not pending:
            break
        node, depth = pending.pop()
        if text := pick(node, "text", of=str):
            texts.append(
                f"\n{text}"
                if texts and node.get("lineBreakBefore") is True and not texts[-1].endswith("\n")
                else text
            )
        if depth < MAX_DEPTH:
            pending += [
                (child, depth + 1) for child in reversed(pick(node, "children", of=list) or [])
            ]
    return "".join(texts)


def arguments(tool: str, given: Any) -> Any:
    """Return the arguments of a call, with the names that other agents use for them."""
    if isinstance(given, dict):
        if tool == "apply_patch" and (patch := pick(given, "input", of=str)):
            return patch
        if isinstance(changes := given.get("replacements"), list) and changes:
            return {
                "filePath": pick(changes[0], "filePath", of=str) or "",
                **given,
                "edits": changes,
            }
    return given


def terminal_arguments(terminal: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of a call as its terminal shows them."""
    command = pick(terminal, "commandLine", "original", of=str) or pick(terminal, "command", of=str)
    return {"command": command} if command else pick(terminal, "rawInput", of=dict)


def exit_of(text: str) -> int | None:
    """Return the last exit code in a text. Lines before it may be output that looks like one."""
    codes = _EXIT.findall(text)
    return int(codes[-1]) if codes else None


def output_of(part: dict[str, Any]) -> str | None:
    """Return the output of a call, as it is shown to people."""
    details = part.get("resultDetails")
    outputs = pick(details, "output", of=list)
    if outputs is not None:
        return "\n".join(text for item in outputs if (text := pick(item, "value", of=str)))
    if isinstance(output := pick(details, "output", of=str), str):
        return output
    if (
        text := pick(part, "toolSpecificData", "terminalCommandOutput", "text", of=str)
    ) is not None:
        return text
    if isinstance(details, list):
        return "\n".join(dict.fromkeys(path for item in details if (path := path_of(item))))
    return None


def added(part: dict[str, Any]) -> str:
    """Return the lines that a change to a file adds, and their places. The format does not hold the
    lines that were there before."""
    texts = []
    for group in pick(part, "edits", of=list) or []:
        for edit in group if isinstance(group, list) else [group]:
            text = pick(edit, "text", of=str)
            if text is None:
                continue
            span = [
                pick(edit, "range", name, of=int) for name in ("startLineNumber", "endLineNumber")
            ]
            lines = "\n+".join(text.removesuffix("\n").split("\n"))
            texts.append(
                f"@@ lines {span[0]} to {span[1]}\n+{lines}"
                if None not in span
                else f"@@\n+{lines}"
            )
    return "\n".join(texts)


def rest_of(part: Any) -> str:
    """Return the text of a part of any other kind."""
    return text_in(part) or text_of(part)
