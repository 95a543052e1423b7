"""The vocabulary of both programs' logs: tools, parts of messages, tokens. Pure."""

from __future__ import annotations

import re
from typing import Any

from ...model import Usage
from ..shared import calls
from ..shared.calls import Described
from ..shared.pick import number, pick
from ..shared.tools import blob_reference, text_of

ACTIONS = {
    **dict.fromkeys(("Shell", "Bash", "TaskOutput", "TaskStop"), "shell"),
    **dict.fromkeys(("ReadFile", "Read", "ReadMediaFile"), "read"),
    **dict.fromkeys(("StrReplaceFile", "WriteFile", "Edit", "Write"), "edit"),
    **dict.fromkeys(("Glob", "Grep"), "search"),
    **dict.fromkeys(("SearchWeb", "FetchURL", "WebSearch"), "web"),
    **dict.fromkeys(("Task", "Agent", "AgentSwarm", "CreateSubagent"), "agent"),
    **dict.fromkeys(
        ("SetTodoList", "TodoList", "Think", "EnterPlanMode", "ExitPlanMode", "AskUserQuestion",
        "CreateGoal", "UpdateGoal"), "plan"
    ),
}  # fmt: skip
ASKS = frozenset({"AskUserQuestion", "ExitPlanMode"})
REFUSED = "rejected by the user"
_EXIT = re.compile(r"\bexit code:? (\d{1,9})\b")
BELOW = re.compile(r"agent_id: ([\w-]{1,100})\s")
_SYSTEM = re.compile(r"<system>(.*?)</system>\s*", re.DOTALL)
_GIVEN = re.compile(r"\s*<(?:system|system-reminder|git-context|notification)\b")
_GIT_CONTEXT = re.compile(r"\s*<git-context>.*?</git-context>\s*", re.DOTALL)
_BASE64 = re.compile(rb"(;base64,)([A-Za-z0-9+/\\]{256,}={0,2})")


def without_pictures(line: bytes) -> bytes:
    """Return a line whose long base64 values are replaced by short references."""
    return _BASE64.sub(
        lambda match: match[1] + blob_reference(match[2].replace(b"\\", b"")).encode(), line
    )


def describe(name: Any, given: Any) -> Described:
    """Return what a call does."""
    args = calls.opened(given)
    if isinstance(args, str):
        args = calls.opened(completed(args))
    if isinstance(args, dict) and isinstance(args.get("edit"), dict | list):
        edits = args["edit"]
        args = {
            **{word: item for word, item in args.items() if word != "edit"},
            "edits": edits if isinstance(edits, list) else [edits],
        }
    return calls.describe(name, args, calls.action_of(text_of(name), ACTIONS))


def completed(text: str) -> str:
    """Return the beginning of a JSON object with the characters that close it."""
    ends: list[str] = []
    is_text = is_escaped = False
    for char in text:
        if is_text:
            is_text, is_escaped = is_escaped or char != '"', not is_escaped and char == "\\"
        elif char == '"':
            is_text = True
        elif char in "{[":
            ends.append("}" if char == "{" else "]")
        elif char in "}]" and ends:
            ends.pop()
    whole = text[:-1] if is_escaped else text
    return whole + '"' * is_text + "".join(reversed(ends))


def split_content(content: Any) -> tuple[str, list[str]]:
    """Return the text of a message, and its other parts as texts."""
    if isinstance(content, str):
        return content, []
    parts = content if isinstance(content, list) else []
    texts = [text for part in parts if (text := pick(part, "text", of=str)) is not None]
    return "\n".join(texts), [
        media(part) for part in parts if pick(part, "text", of=str) is None and part is not None
    ]


def shown(content: Any) -> str:
    """Return a whole content for reading."""
    text, others = split_content(content)
    return "\n".join(part for part in (text, *others) if part)


def media(part: Any) -> str:
    """Return a short reference to a picture, a sound or a film."""
    kind = pick(part, "type", of=str) or ""
    url = pick(part, kind, "url", of=str) or pick(part, "imageUrl", "url", of=str)
    if url is None:
        return text_of(part)
    head, mark, data = url.partition(";base64,")
    return blob_reference(data) if mark else f"[{head}]"


def is_given(text: str) -> bool:
    """Return True if the program wrote this text with the role of the user."""
    return _GIVEN.match(text) is not None


def split_given(text: str) -> tuple[str, str]:
    """Return what the program put before a subagent's task, and the task."""
    match = _GIT_CONTEXT.match(text)
    if match is None or match.end() == len(text):
        return "", text
    return match[0].strip(), text[match.end() :]


def answered(text: str) -> tuple[str, bool]:
    """Return a tool's answer without the tags around the program's note, and True if it failed."""
    match = _SYSTEM.match(text)
    if match is None:
        return text, False
    note = match[1].removeprefix("ERROR: ")
    rest = text[match.end() :]
    return f"{rest}\n{note}" if rest else note, match[1].startswith("ERROR")


def exit_code(text: str) -> int | None:
    """Return the exit code that a text names."""
    match = _EXIT.search(text)
    return int(match[1]) if match else None


def usage(counts: Any) -> Usage | None:
    """Return the usage of a request, in the form of either program; None when there is none."""
    if not isinstance(counts, dict):
        return None
    given, out, read, wrote = (
        number(counts.get(old, counts.get(new))) or 0
        for old, new in (
            ("input_other", "inputOther"), ("output", "output"),
            ("input_cache_read", "inputCacheRead"),
            ("input_cache_creation", "inputCacheCreation"),
        )
    )  # fmt: skip
    used = Usage(
        input_tokens=given, output_tokens=out, cache_read_tokens=read, cache_write_tokens=wrote
    )
    return used if used.total else None


def counted(used: Usage) -> tuple[int, ...]:
    return used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens
