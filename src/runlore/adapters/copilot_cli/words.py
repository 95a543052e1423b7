"""The words of Copilot CLI's transcripts, and what can be told from them alone: tools, results,
tokens. Pure."""

from __future__ import annotations

import re
from typing import Any

from ...model import Usage
from ..shared.calls import action_of
from ..shared.pick import number, pick
from ..shared.tools import blob_reference, key_values, text_of

ACTIONS = {
    **dict.fromkeys(
        ("bash", "powershell", "shell", "read_bash", "write_bash", "stop_bash", "list_bash"),
        "shell",
    ),
    **dict.fromkeys(
        ("read_powershell", "write_powershell", "stop_powershell", "list_powershell"), "shell"
    ),
    **dict.fromkeys(("view", "show_file"), "read"),
    **dict.fromkeys(("create", "edit", "str_replace_editor", "apply_patch"), "edit"),
    **dict.fromkeys(("grep", "glob", "rg", "lsp", "tool_search", "session_store_sql"), "search"),
    **dict.fromkeys(("web_fetch", "web_search"), "web"),
    **dict.fromkeys(("task", "read_agent", "write_agent", "list_agents"), "agent"),
    **dict.fromkeys(
        ("update_todo", "report_intent", "ask_user", "exit_plan_mode", "task_complete", "sql"),
        "plan",
    ),
}
ASKS = frozenset({"ask_user", "exit_plan_mode"})
REFUSED = frozenset({"rejected", "denied"})
MAX_AROUND = 20  # Elements before a prompt, and after it.
_OPENS, _CLOSES = re.compile(r"<([a-z_]{1,40})>"), re.compile(r"</([a-z_]{1,40})>\Z")
_EXIT = re.compile(r"<(?:exited|shellId: \S+ completed) with exit code (-?\d{1,9})>")


def action(tool: Any, args: Any, is_mcp: bool) -> str:
    """Return the action of a call, of a tool that can do several things."""
    name = tool if isinstance(tool, str) else ""
    if name == "str_replace_editor" and pick(args, "command", of=str) == "view":
        return "read"
    return "mcp" if is_mcp or name.startswith("github-mcp-") else action_of(name, ACTIONS)


def exit_of(text: str) -> int | None:
    """The last one: what a command printed may look like another."""
    found = _EXIT.findall(text)
    return int(found[-1]) if found else None


def result_text(data: dict[str, Any]) -> str:
    """Return the result of a call as the model saw it."""
    if (message := pick(data, "error", "message", of=str)) is not None:
        return message
    result = data.get("result")
    if not isinstance(result, dict):
        return text_of(result if result is not None else data.get("error"))
    text = pick(result, "content", of=str)
    parts = (
        []
        if text is not None
        else [_part(part) for part in pick(result, "contents", of=list) or []]
    )
    pictures = [_part(part) for part in pick(result, "binaryResultsForLlm", of=list) or []]
    return "\n".join([*([text] if text is not None else []), *parts, *pictures]) or text_of(
        pick(result, "detailedContent", of=str)
    )


def _part(part: Any) -> str:
    if (data := pick(part, "data", of=str)) is not None:
        return blob_reference(data)
    return pick(part, "text", of=str) or text_of(part)


def attached(attachment: Any) -> tuple[str, str | None]:
    """Return a reference that replaces something sent with a prompt, and its path."""
    path = pick(attachment, "path", of=str) or pick(attachment, "filePath", of=str)
    if (data := pick(attachment, "data", of=str)) is not None:
        return blob_reference(data), path
    text = pick(attachment, "text", of=str)
    name = path or pick(attachment, "displayName", of=str) or pick(attachment, "url", of=str)
    return ("\n".join(part for part in (name, text) if part) or text_of(attachment)), path


def around(sent: str) -> str:
    """Return what the program put before and after a prompt when it sent it: whole elements, such
    as `<current_datetime>…</current_datetime>`."""
    text, first, last = sent.strip(), list[str](), list[str]()
    while (
        (found := _OPENS.match(text))
        and (end := text.find(f"</{found[1]}>")) >= 0
        and len(first) < MAX_AROUND
    ):
        end += len(found[0]) + 1
        first.append(text[:end])
        text = text[end:].lstrip()
    while (
        (found := _CLOSES.search(text, max(0, len(text) - 60)))
        and (start := text.rfind(f"<{found[1]}>")) >= 0
        and len(last) < MAX_AROUND
    ):
        last.insert(0, text[start:])
        text = text[:start].rstrip()
    return "\n".join([*first, *last])


# Tokens.


def usage(counts: Any) -> Usage:
    """Buckets that do not overlap: the input includes what the cache had and what was put there,
    the output includes reasoning."""
    given, out, read, written, thought = (
        number(counts.get(name)) or 0 if isinstance(counts, dict) else 0
        for name in (
            "inputTokens",
            "outputTokens",
            "cacheReadTokens",
            "cacheWriteTokens",
            "reasoningTokens",
        )
    )
    return Usage(
        input_tokens=max(0, given - read - written), output_tokens=out, cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(thought, out),
    )  # fmt: skip


def rest_of(data: dict[str, Any], *without: str) -> str:
    return key_values({name: item for name, item in data.items() if name not in without})
