"""mini-SWE-agent: a document of messages; before 2.0 a command is a block of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .values import JSON, Counts, Session, get, number, read_json, texts

AGENT = "mini_swe_agent"
FOLDERS = (".config/mini-swe-agent",)
COMMAND = re.compile(r"```(?:bash|mswea_bash_command)\s*\n.*?\n```", re.DOTALL)


def count(root: Path) -> Iterator[Session]:
    for path in sorted(root.rglob("*.traj.json")):
        document = read_json(path)
        messages = document if isinstance(document, list) else get(document, "messages")
        if messages:
            yield Session(path, path.name.removesuffix(".traj.json"), _count(messages))


def _count(messages: list[JSON]) -> Counts:
    counts = Counts()
    is_open = False
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            calls = get(message, "extra", "actions") or message.get("tool_calls")
            old = COMMAND.findall("".join(texts(content))) if calls is None else ()
            old = old if len(old) == 1 else ()  # Anything else is a mistake that it is told of.
            counts.calls += len(calls or old)
            counts.replies += bool(texts(content))
            is_open = bool(old)
            _add_usage(counts, get(message, "extra", "response", "usage") or {})
        elif role == "tool" or (role == "user" and is_open):
            # What follows the last command is not its output but the submission.
            counts.results += role == "tool" or message is not messages[-1]
            is_open = False
        elif role == "user":
            reason = get(message, "extra", "interrupt_type")
            counts.prompts += reason in (None, "UserNewTask") and bool(texts(content))
    return counts


def _add_usage(counts: Counts, usage: JSON) -> None:
    read = number(get(usage, "prompt_tokens_details", "cached_tokens"))
    counts.add_tokens(
        number(usage.get("prompt_tokens")) - read, usage.get("completion_tokens"), read
    )
