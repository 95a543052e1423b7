"""The words of both agents' transcripts, and what can be told from them alone: parts of messages,
tools, results, tokens. Pure."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

from ...model import Usage
from ..shared import calls
from ..shared.calls import Described, Result, action_of, outcome
from ..shared.pick import number, pick
from ..shared.tools import blob_reference, one_line, split_reminders, test_counts, text_of

ACTIONS = {
    **dict.fromkeys(("run_shell_command", "run_command", "shell", "monitor", "task_stop"), "shell"),
    **dict.fromkeys(("read_file", "read_many_files", "read_mcp_resource"), "read"),
    **dict.fromkeys(("replace", "write_file", "edit", "notebook_edit"), "edit"),
    **dict.fromkeys(
        ("glob", "grep_search", "search_file_content", "list_directory", "lsp", "tool_search"),
        "search",
    ),
    **dict.fromkeys(("google_web_search", "web_search", "web_fetch"), "web"),
    **dict.fromkeys(
        (
            "agent",
            "task",
            "delegate_to_agent",
            "codebase_investigator",
            "cli_help",
            "generalist",
            "send_message",
        ),
        "agent",
    ),
    **dict.fromkeys(
        (
            "write_todos",
            "todo_write",
            "enter_plan_mode",
            "exit_plan_mode",
            "ask_user",
            "ask_user_question",
        ),
        "plan",
    ),
}
ASKS = frozenset({"ask_user", "ask_user_question", "exit_plan_mode"})
MASKED = "<tool_output_masked>"
ENDED = frozenset({"success", "error", "cancelled"})
_COMMAND = re.compile(r"[/?](?:[a-zA-Z][\w:.-]*)?(?:\s|\Z)")
_WRAPPED = re.compile(
    r"\s*<(session_context|hook_context|qwen:user-prompt-submit-context|system-reminder"
    r"|state_snapshot)\b"
)
_EXIT = re.compile(r"^Exit Code: (-?\d{1,9})[ \t]*$", re.MULTILINE)


# What was said.


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def is_speech(part: Any) -> bool:
    """Return True if a part is text that somebody wrote: neither a thought, nor a call, nor a
    result."""
    return not isinstance(part, dict) or not (
        part.get("thought") is True or part.keys() & {"functionCall", "functionResponse"}
    )


def shown(part: Any) -> str:
    """A part for reading: its text, or what stands for what is no text."""
    if not isinstance(part, dict):
        return text_of(part)
    if (text := pick(part, "text", of=str)) is not None:
        return text
    if (data := pick(part, "inlineData", "data", of=str)) is not None:
        return blob_reference(data)
    if (uri := pick(part, "fileData", "fileUri", of=str)) is not None:
        return f"[{uri}]"
    return text_of(part)


def split_content(content: Any) -> tuple[str, list[str]]:
    """The text of a message (a text, a part, or a list of parts), and what comes with it that is no
    text. Without a text, the first of that is it."""
    parts = [part for part in listed(content) if is_speech(part)]
    texts = [
        shown(part)
        for part in parts
        if isinstance(part, str) or pick(part, "text", of=str) is not None
    ]
    others = [
        shown(part)
        for part in parts
        if not isinstance(part, str) and pick(part, "text", of=str) is None
    ]
    return ("".join(texts), others) if texts else ("".join(others[:1]), others[1:])


def is_command(text: str) -> bool:
    """Return True if a prompt is a command to the program (`/chat list`, `?`), and not a path."""
    return _COMMAND.match(text) is not None


def is_wrapped(text: str) -> bool:
    """Return True if the program wrote this in the person's place."""
    return _WRAPPED.match(text) is not None


def stamp(text: str) -> bytes:
    """Return a hash that tells texts apart, however they are wrapped."""
    return blake2b("".join(text.split()).encode("utf-8", "replace"), digest_size=8).digest()


# Calls.


def describe(name: Any, given: Any, display: Any = None) -> Described:
    """Return the description of a call; `display` is what the agent shows of it."""
    return calls.describe(
        name, given, action_of(text_of(name), ACTIONS), pick(display, "fileDiff", of=str)
    )


# Results.


def result(parts: Any, display: Any, status: Any, action: str, is_test: bool) -> Result:
    """Return the result of a call. A command that failed is a success to the agent: the exit code
    stands in its output."""
    responses = [pick(part, "functionResponse", "response", of=dict) for part in listed(parts)]
    texts = [_response(response) for response in responses if response is not None]
    texts += [shown(part) for part in listed(parts) if is_speech(part)]
    text = "\n".join(text for text in texts if text)
    if isinstance(display, str) and (not text or (MASKED in text and MASKED not in display)):
        text = display
    text, reminders = split_reminders(text)
    exit_code = exit_of(text) if action == "shell" else None
    is_error = (
        status == "error"
        or bool(exit_code)
        or any(response is not None and "error" in response for response in responses)
    )
    tests = test_counts(text) if is_test else None
    summary = outcome(_shown(text), exit_code, tests)
    return Result(text, is_error, exit_code, tests, summary, reminders)


def _response(response: dict[str, Any]) -> str:
    for word in ("error", "output"):
        if word in response:
            return text_of(response[word])
    return text_of(response.get("content", response or None))


def exit_of(text: str) -> int | None:
    """The last one: what a command printed may look like another."""
    found = _EXIT.findall(text)
    return int(found[-1]) if found else None


def _shown(text: str) -> str:
    """The line of an output that says something of it."""
    return one_line(
        text.partition("\nOutput: ")[2]
        if text.startswith("Command: ")
        else text.removeprefix("Output: ")
    )


def is_masked(parts: Any) -> bool:
    """Return True if the model no longer sees this result."""
    return any(
        MASKED in _response(found)
        for part in listed(parts)
        if (found := pick(part, "functionResponse", "response", of=dict))
    )


# Tokens.


def usage(given: Any, out: Any, cached: Any, thoughts: Any, tool: Any, total: Any) -> Usage:
    """Buckets that do not overlap. The prompt includes what the cache had, results of the service's
    own tools are a prompt as well; thoughts stand beside the output, but where the total says that
    they are a part of it."""
    prompt, answer, read, thought, more = (
        number(count) or 0 for count in (given, out, cached, thoughts, tool)
    )
    is_inside = thought <= answer and number(total) == prompt + answer + more
    return Usage(
        input_tokens=max(0, prompt - read) + more,
        output_tokens=answer if is_inside else answer + thought,
        cache_read_tokens=min(read, prompt),
        reasoning_tokens=thought,
    )


def provider_of(model: str | None) -> str | None:
    return "google" if model and model.startswith(("gemini", "gemma")) else None


def guess(value: dict[str, Any], word: str) -> str:
    """Return the type that a message must have when its own is missing or not known."""
    if value.keys() & {"toolCalls", "thoughts", "tokens", "model"}:
        return "gemini"
    return "" if word else "user" if "displayContent" in value else ""
